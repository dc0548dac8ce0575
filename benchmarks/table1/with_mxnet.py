"""Train with MXNet and Gluon: the networks of its model zoo, hybridized, which is a graph of the forward and the
backward pass.
"""

import mxnet as mx
from data import images, ratings
from mxnet import autograd, gluon
from mxnet.gluon import nn
from mxnet.gluon.model_zoo import vision
from ncf import FACTORS, FILMS, LAYERS, USERS


class NCF(gluon.HybridBlock):
    def __init__(self):
        super().__init__()
        half = LAYERS[0] // 2
        self.user_factors, self.film_factors = nn.Embedding(USERS, FACTORS), nn.Embedding(FILMS, FACTORS)
        self.user_features, self.film_features = nn.Embedding(USERS, half), nn.Embedding(FILMS, half)
        self.perceptron = nn.HybridSequential()
        for width in LAYERS[1:]:
            self.perceptron.add(nn.Dense(width, activation="relu"))
        self.join = nn.Dense(1)

    def hybrid_forward(self, F, users, films):
        product = self.user_factors(users) * self.film_factors(films)
        deep = self.perceptron(F.concat(self.user_features(users), self.film_features(films), dim=1))
        return self.join(F.concat(product, deep, dim=1))


NETWORKS = {
    "alexnet": vision.alexnet,
    "vgg19": vision.vgg19,
    "resnet50": vision.resnet50_v1,
    "mobilenet_v2": vision.mobilenet_v2_1_0,
    "ncf": NCF,
}


def training(name, batch, threads):  # OMP_NUM_THREADS sets them: MXNet has no call for it
    model = NETWORKS[name]()
    model.initialize(mx.init.Xavier())
    model.hybridize()
    if name == "ncf":
        *inputs, target = map(mx.nd.array, ratings(batch))
        criterion, kind, how = gluon.loss.SigmoidBinaryCrossEntropyLoss(), "adam", {"learning_rate": 1e-3}
    else:
        *inputs, target = map(mx.nd.array, images(batch, channels_last=False))
        criterion, kind = gluon.loss.SoftmaxCrossEntropyLoss(), "sgd"
        how = {"learning_rate": 1e-3, "momentum": 0.9, "wd": 1e-4}
    trainer = gluon.Trainer(model.collect_params(), kind, how)

    def step():
        with autograd.record():
            loss = criterion(model(*inputs), target)
        loss.backward()
        trainer.step(batch)
        mx.nd.waitall()  # its steps are queued
        return loss.mean().asscalar().item()

    return step
