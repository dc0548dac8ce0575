"""Train with JAX, Flax and Optax. Flax has no stock networks, so all are written here; channels last, the whole step
under jit.
"""

import functools

import flax.linen as nn
import jax
import jax.numpy as jnp
import mobilenet_v2
import optax
import resnet50
import vgg19
from data import images, ratings
from ncf import FACTORS, FILMS, LAYERS, USERS


def normed(x, width, size=1, stride=1, groups=1):
    x = nn.Conv(width, (size, size), stride, padding=size // 2, feature_group_count=groups, use_bias=False)(x)
    return nn.BatchNorm(use_running_average=False, momentum=0.9)(x)


def classifier(x, dropout_first):
    x = x.reshape(len(x), -1)
    for _ in range(2):
        if dropout_first:
            x = nn.relu(nn.Dense(4096)(nn.Dropout(0.5, deterministic=False)(x)))
        else:
            x = nn.Dropout(0.5, deterministic=False)(nn.relu(nn.Dense(4096)(x)))
    return nn.Dense(1000)(x)


class AlexNet(nn.Module):
    @nn.compact
    def __call__(self, x):
        for width, size, stride, pads, pools in (
            (64, 11, 4, 2, True), (192, 5, 1, 2, True), (384, 3, 1, 1, False), (256, 3, 1, 1, False), (256, 3, 1, 1, True),
        ):  # fmt: skip
            x = nn.relu(nn.Conv(width, (size, size), stride, padding=pads)(x))
            x = nn.max_pool(x, (3, 3), (2, 2)) if pools else x
        return classifier(x, dropout_first=True)


class VGG19(nn.Module):
    @nn.compact
    def __call__(self, x):
        for width, count in vgg19.STAGES:
            for _ in range(count):
                x = nn.relu(nn.Conv(width, (3, 3))(x))
            x = nn.max_pool(x, (2, 2), (2, 2))
        return classifier(x, dropout_first=False)


class ResNet50(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.max_pool(nn.relu(normed(x, 64, 7, 2)), (3, 3), (2, 2), ((1, 1), (1, 1)))
        for width, count, first in resnet50.STAGES:
            for i in range(count):
                stride = first if i == 0 else 1
                y = nn.relu(normed(nn.relu(normed(x, width)), width, 3, stride))
                y = normed(y, 4 * width)
                x = nn.relu(y + (normed(x, 4 * width, 1, stride) if i == 0 else x))
        return nn.Dense(1000)(x.mean((1, 2)))


class MobileNetV2(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.relu6(normed(x, 32, 3, 2))
        for expansion, width, count, first in mobilenet_v2.STAGES:
            for i in range(count):
                stride, wide = first if i == 0 else 1, x.shape[-1] * expansion
                y = x if expansion == 1 else nn.relu6(normed(x, wide))
                y = normed(nn.relu6(normed(y, wide, 3, stride, wide)), width)
                x = x + y if i else y
        x = nn.relu6(normed(x, 1280)).mean((1, 2))
        return nn.Dense(1000)(nn.Dropout(0.2, deterministic=False)(x))


class NCF(nn.Module):
    @nn.compact
    def __call__(self, users, films):
        product = nn.Embed(USERS, FACTORS)(users) * nn.Embed(FILMS, FACTORS)(films)
        half = LAYERS[0] // 2
        deep = jnp.concatenate([nn.Embed(USERS, half)(users), nn.Embed(FILMS, half)(films)], 1)
        for width in LAYERS[1:]:
            deep = nn.relu(nn.Dense(width)(deep))
        return nn.Dense(1)(jnp.concatenate([product, deep], 1))[:, 0]


NETWORKS = {"alexnet": AlexNet, "vgg19": VGG19, "resnet50": ResNet50, "mobilenet_v2": MobileNetV2, "ncf": NCF}


def training(name, batch, threads):  # XLA takes as many threads as the process may use processors
    if name == "ncf":
        *inputs, target = map(jnp.asarray, ratings(batch))
        optimizer, criterion = optax.adam(1e-3), optax.sigmoid_binary_cross_entropy
    else:
        *inputs, target = map(jnp.asarray, images(batch, channels_last=True))
        optimizer = optax.chain(optax.add_decayed_weights(1e-4), optax.sgd(1e-3, momentum=0.9))
        criterion = optax.softmax_cross_entropy_with_integer_labels
    model = NETWORKS[name]()
    key = jax.random.key(0)
    variables = jax.jit(model.init)({"params": key, "dropout": key}, *inputs)
    statistics, weights = {k: v for k, v in variables.items() if k != "params"}, variables["params"]

    @functools.partial(jax.jit, donate_argnums=0)
    def update(state, key, inputs, target):
        weights, statistics, moments = state

        def loss_of(weights):
            answer, changed = model.apply(
                {"params": weights, **statistics}, *inputs, rngs={"dropout": key}, mutable=list(statistics)
            )
            return criterion(answer, target).mean(), changed

        (loss, statistics), gradients = jax.value_and_grad(loss_of, has_aux=True)(weights)
        updates, moments = optimizer.update(gradients, moments, weights)
        return (optax.apply_updates(weights, updates), statistics, moments), loss

    state = (weights, statistics, jax.jit(optimizer.init)(weights))

    def step():
        nonlocal state, key
        key, now = jax.random.split(key)
        state, loss = update(state, now, inputs, target)
        return float(loss)

    return step
