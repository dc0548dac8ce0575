"""A memory budget beside everything else that programs use: the same bits as without one."""

from __future__ import annotations

import numpy as np
import pytest
from budget_uses import ROWS, WIDE, alike, every_storage, gradients, layers, loss_of  # noqa: F401

import facula
import facula.nn.functional as F
from facula import nn
from facula.distributed.fsdp._param_group import pack, unpack
from facula.utils.checkpoint import checkpoint

USES = {}


def use(share=60, again=True):
    """A program: it makes its model outside of the budget, and gives a function that runs within."""

    def note(make):
        USES[make.__name__] = (make, share, again)
        return make

    return note


# ---- the engine


def deep(step, **options):
    """A use of eight layers: `step(model, x)` gives tensors besides the gradients."""

    def make():
        model, x = layers(**options), facula.randn(ROWS, WIDE)
        return lambda: [*(step(model, x) or ()), *gradients(model), facula.get_rng_state()]

    make.__name__ = step.__name__
    return make


@use(80)
@deep
def checkpoint_with_hooks(model, x):
    y = model(x)  # what a second computation keeps for the pass is the checkpoint's
    for block in (model[:4], model[4:]):
        x = checkpoint(block, x, use_reentrant=False)
    (x + y).square().mean().backward()


@use(85)
@deep
def checkpoint_reentrant(model, x):
    x = x.requires_grad_()
    for block in (model[:4], model[4:8], model[8:]):
        x = checkpoint(nn.Sequential(block, nn.Dropout(0.2)), x, use_reentrant=True)
    x.square().mean().backward()


@use(75)
@deep
def packed_by_hooks(model, x):
    half = model[:8](x)
    with facula.autograd.graph.saved_tensors_hooks(lambda t: t.half(), lambda t: t.float()):
        y = model[8:10](half)
    model[10:](y).square().mean().backward()


@use()
@deep
def left_alone_by_hooks(model, x):
    """FSDP's, which pack parameters only."""
    with facula.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = model(x).square().mean()
    y.backward()


@use()
def left_alone_and_differentiated_twice():
    model, x = layers(), facula.randn(ROWS, WIDE, requires_grad=True)

    def run():
        with facula.autograd.graph.saved_tensors_hooks(pack, unpack):
            (slope,) = facula.autograd.grad(model(x).square().sum(), x, create_graph=True)
        slope.norm().backward()
        return [slope, x.grad, *gradients(model)]

    return run


@use(75)
@deep
def saved_on_the_cpu(model, x):
    half = model[:8](x)
    with facula.autograd.graph.save_on_cpu():
        y = model[8:10](half)
    model[10:](y).square().mean().backward()


@use()
@deep
def gradients_of_gradients(model, x):
    x.requires_grad_()
    (slope,) = facula.autograd.grad(model(x).square().sum(), x, create_graph=True)
    (slope.norm() + model(x).mean()).backward()
    return slope, x.grad


@use()
@deep
def passes_one_after_the_other(model, x):
    loss = model(x).square().mean()
    loss.backward(retain_graph=True)
    loss.backward(retain_graph=True)
    loss.backward()


@use(75)
@deep
def gradients_asked_for(model, x):
    middle = model[:8](x)
    loss = model[8:](middle).square().mean()
    found = facula.autograd.grad(loss, [middle, model[0].weight], retain_graph=True)
    return [*found, *facula.autograd.grad(loss, list(model.parameters()))]


@use(70)
@deep
def anomaly_mode(model, x):
    with pytest.warns(UserWarning), facula.autograd.detect_anomaly():
        model(x).square().mean().backward()


@use(75)
@deep
def hooks_on_tensors(model, x):
    kept = []
    for module in model:
        x = module(x)
        x.register_hook(lambda g: kept.append(g.sum()) or g * 1.5)
    x.square().mean().backward()
    return kept


@use()
@deep
def a_hook_that_raises(model, x):
    y = model(x)
    fails = [True]

    def hook(gradient):
        if fails.pop() if fails else False:
            raise ValueError("on purpose")

    handle = model[3].register_full_backward_hook(lambda *_: hook(None))
    y = model(x)
    with pytest.raises(ValueError, match="on purpose"):
        y.square().mean().backward(retain_graph=True)
    handle.remove()
    model.zero_grad()
    y.square().mean().backward()


@use(70)
@deep
def profiled(model, x):
    with facula.profiler.profile() as profile:
        model(x).square().mean().backward()
    again = {event.key for event in profile.key_averages() if event.key.startswith("budget: ")}
    assert again <= {"budget: linear", "budget: tanh"}, again


@use()
@deep
def memory_history(model, x):
    facula.cpu.record_memory_history()
    try:
        model(x).square().mean().backward()
    finally:
        facula.cpu.record_memory_history(None)


# ---- functions of functions


@use(40)
def func_grad():
    model, x = layers(), facula.randn(ROWS, WIDE)
    names = dict(model.named_parameters())

    def loss(parameters, x):
        return facula.func.functional_call(model, parameters, (x,)).square().mean()

    return lambda: list(facula.func.grad(loss)(names, x).values())


@use(40)
def func_vjp():
    model, x = layers(), facula.randn(ROWS, WIDE)

    def run():
        out, pull = facula.func.vjp(model, x)
        return [out, *pull(facula.ones_like(out)), *pull(out.cos())]

    return run


@use(85, again=False)
def vmap_of_grad():
    model, x = layers(6), facula.randn(ROWS, WIDE)
    names = dict(model.named_parameters())

    def loss(parameters, row):
        return facula.func.functional_call(model, parameters, (row,)).square().mean()

    def run():
        before = loss_of(model, x)
        found = facula.func.vmap(facula.func.grad(loss), (None, 0))(names, x[:4])
        before.backward()
        return [*found.values(), *gradients(model)]

    return run


@use(75, again=False)
def jacobians():
    model, x = layers(8), facula.randn(ROWS, WIDE)

    def run():
        before = loss_of(model, x)
        found = facula.func.jacrev(lambda row: model(row)[:8])(x[0])
        before.backward()
        return [found, facula.func.jacfwd(lambda row: model(row)[:8])(x[0]), *gradients(model)]

    return run


@use(85, again=False)
def forward_mode():
    model, x = layers(8), facula.randn(ROWS, WIDE)

    def run():
        before = loss_of(model, x)
        with facula.no_grad():
            out, slope = facula.func.jvp(lambda x: model(x), (x,), (x.sin(),))
        before.backward()
        return [out, slope, *gradients(model)]

    return run


# ---- training


@use(85)
@deep
def autocast(model, x):
    with facula.autocast("cpu", facula.bfloat16):
        y = model(x)
        loss = F.layer_norm(y, (WIDE,)).square().mean()
    loss.backward()


@use(80)
def scaled_gradients():
    model, x = layers(), facula.randn(ROWS, WIDE)
    optimizer, scaler = facula.optim.SGD(model.parameters(), 0.1), facula.amp.GradScaler("cpu")

    def run():
        for _ in range(2):
            optimizer.zero_grad()
            with facula.autocast("cpu", facula.bfloat16):
                loss = model(x).float().square().mean()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
        return list(model.parameters())

    return run


def optimizing(name, share=75, **options):
    def make():
        model, x = layers(), facula.randn(ROWS, WIDE)
        optimizer = getattr(facula.optim, name)(model.parameters(), lr=0.01, **options)

        def run():
            def closure():
                optimizer.zero_grad()
                loss = model(x).square().mean()
                loss.backward()
                return loss

            return [*(optimizer.step(closure) for _ in range(3)), *model.parameters()]

        return run

    make.__name__ = "_".join([name, *options])
    use(share)(make)


optimizing("SGD", momentum=0.9, fused=True)
optimizing("SGD", momentum=0.9, foreach=True)
optimizing("Adam", foreach=True)
optimizing("Adam", foreach=False)
optimizing("AdamW", fused=True)
optimizing("LBFGS", 85, max_iter=2, history_size=1)


@use(75)
def packed_sequences():
    model, head = nn.LSTM(64, 64, 3, dropout=0.3, batch_first=True), nn.Linear(64, 1)
    x, lengths = facula.randn(16, 48, 64), facula.tensor([48] * 6 + [30] * 6 + [5] * 4)

    def run():
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        out, (hidden, _) = model(packed)
        out, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        (head(out).square().mean() + hidden.mean()).backward()
        return [*gradients(model), *gradients(head), facula.get_rng_state()]

    return run


@use(75)
def gated_units():
    model, x = nn.GRU(64, 64, 3, dropout=0.3, bidirectional=True), facula.randn(48, 16, 64)

    def run():
        model(x)[0].square().mean().backward()
        return [*gradients(model), facula.get_rng_state()]

    return run


@use(75)
def attention():
    blocks = nn.ModuleList(nn.MultiheadAttention(64, 4, 0.2, batch_first=True) for _ in range(4))
    x = facula.randn(4, 64, 64)

    def run():
        y = x
        for place, block in enumerate(blocks):
            y = y + block(y, y, y, need_weights=place % 2 == 0)[0]
            y = y + F.scaled_dot_product_attention(y, y, y, dropout_p=0.1, is_causal=True)
        y.square().mean().backward()
        return [y, *gradients(blocks), facula.get_rng_state()]

    return run


# ---- data


@use()
def batches_of_numpy():
    model, array = layers(), np.random.default_rng(0).standard_normal((ROWS, WIDE)).astype("float32")

    def run():
        total, batch = 0, facula.from_numpy(array.copy())
        writable = batch.numpy()
        for _ in range(2):
            y = model(batch)
            writable *= 1.25  # nobody is told; the first layer's step has a copy, or its bytes stay
            total = total + y.square().mean()
        y.square().mean().backward()
        return [batch, y, total, *gradients(model)]

    return run


@use(85)
def numpy_sees_an_activation():
    model, x = layers(), facula.randn(ROWS, WIDE)

    def run():
        first = model[:4](x)
        seen = first.detach().numpy()
        y = model[4:](first)
        seen[0] = 3.0
        y.square().mean().backward()
        return [first, *gradients(model)]

    return run


class Rows(facula.utils.data.Dataset):
    def __len__(self):
        return 2 * ROWS

    def __getitem__(self, place):
        return facula.full((WIDE,), place / ROWS).sin().requires_grad_().exp().detach()


@use(again=False)
def workers():
    model = layers()

    def run():
        for x in facula.utils.data.DataLoader(Rows(), ROWS, num_workers=2, multiprocessing_context="fork"):
            model(x).square().mean().backward()
        return gradients(model)

    return run


# ---- tensors


@use()
@deep
def no_gradients_between(model, x):
    with facula.no_grad():
        y = model(x)
    with facula.inference_mode():
        z = model(x).mean()
    model(y).square().mean().backward()
    return [y, z.item()]


@use(85)
def sparse():
    index = facula.randint(0, ROWS, (2, 512))
    values = facula.randn(512, requires_grad=True)
    model, table = layers(), nn.Embedding(ROWS, WIDE, sparse=True)

    def run():
        a = facula.sparse_coo_tensor(index, values, (ROWS, ROWS))
        x = facula.sparse.mm(a, table(index[0]))
        model(x).square().mean().backward()
        return [values.grad, table.weight.grad.to_dense(), *gradients(model)]

    return run


@use()
def complex_numbers():
    weights = [nn.Parameter(facula.randn(WIDE, WIDE, dtype=facula.complex64) / 16) for _ in range(8)]
    x = facula.randn(WIDE, WIDE, dtype=facula.complex64)

    def run():
        y = x
        for w in weights:
            y = (y @ w).tanh()
            y = y.conj() * w.mH + facula.view_as_complex(facula.view_as_real(y) * 0.5)
            y = facula.complex(y.real, y.imag.sin())
        facula.fft.ifft(facula.fft.fft(y)).abs().mean().backward()
        return [y, *(w.grad for w in weights)]

    return run


@use(75)
@deep
def writes_to_views(model, x):
    for place, module in enumerate(model):
        x = module(x)
        if place % 2 == 0:
            x = x * 1
            x[: ROWS // 2].mul_(0.5)
            x.t()[3].add_(1)
            x.view(-1)[::7].zero_()
    x.square().mean().backward()
    return [x]


@use(75)
@deep
def memory_that_is_exchanged(model, x):
    y = model(x)
    loss, before = y.mean(), y.detach().clone()
    y.data = facula.zeros(3)  # the node that made it keeps what it gave
    loss.backward()
    first = model[:2](x)
    y = model[2:](first)
    facula.empty(0).set_(first.detach().untyped_storage(), 0, (4, WIDE)).add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()
    scratch = model[:2](x).detach().view(-1)
    scratch.resize_(7)
    return [before, scratch]


@use(75)
@deep
def data_of_weights(model, x):
    for module in model[::2]:
        module.weight.data = module.weight.data * 1.5
    y = model(x)
    model[8].bias.data.mul_(0.5)  # which no derivative reads
    y.square().mean().backward()


@pytest.mark.parametrize("name", USES)
def test_the_same_bits(name):
    alike(*USES[name])
