"""A batch norm that runs again knows its statistics, and what writes to its result follows in the same pass: the same bits."""

from __future__ import annotations

import pytest
from budget_uses import alike, every_storage  # noqa: F401

import facula
import facula.nn.functional as F
from facula import nn

ACTIVATIONS = {
    "relu": F.relu_,
    "relu6": lambda y: F.relu6(y, inplace=True),
    "leaky_relu": lambda y: F.leaky_relu_(y, 0.3),
    "sigmoid": lambda y: y.sigmoid_(),
    "two": lambda y: F.hardtanh_(y.mul_(1.5), -0.5, 0.75),
    "a sum": lambda y: F.relu_(y.add_(y.detach().clone(), alpha=0.5)),
    "a sum with itself": lambda y: F.relu_(y.add_(y)),
    "a row": lambda y: F.relu_(y.add_(facula.linspace(-1, 1, y.shape[-1], dtype=y.dtype))),
    "a view": lambda y: (y.view(-1)[1:].relu_(), y)[1],
    "not at all": lambda y: y * 0.5,
}


def net(activation, sizes, dtype=facula.float32, last=False, count=8, **options):
    """Return a program of norms and activations over an input of these sizes."""

    def make():
        norm = nn.BatchNorm1d if len(sizes) < 4 else nn.BatchNorm2d
        norms = [norm(sizes[1], **options).to(dtype) for _ in range(count)]
        for module in norms:
            if module.affine:
                nn.init.normal_(module.weight), nn.init.normal_(module.bias)
        x = facula.randn(sizes).to(dtype)
        x = x.to(memory_format=facula.channels_last) if last else x

        def run():
            y = x.requires_grad_() * 1
            for module in norms:
                y = y + activation(module(y * 1.5))
                y = activation(module(y.sin()))
            y.square().mean().backward()
            tensors = [x.grad, *(p.grad for module in norms for p in module.parameters())]
            return [*tensors, *(b for module in norms for b in module.buffers())]

        return run

    return make


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_what_follows_a_norm(name):
    alike(net(ACTIVATIONS[name], (8, 32, 16, 16)), 75)


SIZES = [(64, 24, 7, 5), (300, 257), (70, 1030), (12, 3, 50, 50), (3, 2, 70, 71), (16, 5000), (40, 17, 30)]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("last", [False, True])
def test_sizes(sizes, last):
    if last and len(sizes) < 4:
        sizes = (*sizes[:2], *sizes[2:], *(1,) * (4 - len(sizes)))
    alike(net(F.relu_, sizes, last=last), 75)


@pytest.mark.parametrize("dtype", [facula.float64, facula.bfloat16, facula.float16])
def test_dtypes(dtype):
    alike(net(F.relu_, (8, 32, 16, 16), dtype), 75)
    alike(net(ACTIVATIONS["two"], (64, 160), dtype), 75)


@pytest.mark.parametrize("options", [{"affine": False}, {"track_running_stats": False}, {"momentum": None}])
def test_options_of_norms(options):
    alike(net(F.relu_, (8, 32, 16, 16), **options), 75)


@pytest.mark.parametrize("sizes, last", [((20, 16, 128, 128), False), ((20, 16, 128, 128), True), ((70000, 70), False)])
@pytest.mark.parametrize("threads", [1, 2])
def test_results_written_around_caches(sizes, last, threads):
    facula.set_num_threads(threads)
    alike(net(F.relu_, sizes, last=last, count=2), 70)


def test_statistics_that_the_program_changes():
    """They are results of native_batch_norm, and belong to the program."""

    def make():
        x = facula.randn(512, 128)

        def run():
            y = x.requires_grad_() * 1
            for _ in range(6):
                z, mean, invstd = facula.native_batch_norm(y, None, None, None, None, True, 0.1, 1e-5)
                mean.detach().zero_(), invstd.detach().fill_(7)
                y = F.relu_(z) * 1.25
                del mean, invstd
            try:
                y.square().mean().backward()
            except RuntimeError as error:
                assert "modified by an inplace operation" in str(error)
            return [y]

        return run

    alike(make, again=False)


def test_norms_in_evaluation_have_no_statistics_to_know():
    def make():
        model = nn.Sequential(*(part for _ in range(6) for part in (nn.BatchNorm2d(16), nn.ReLU(inplace=True)))).eval()
        x = facula.randn(8, 16, 16, 16)

        def run():
            (model(x.requires_grad_() * 1)).square().mean().backward()
            return [x.grad]

        return run

    alike(make, 75)


def test_each_op_is_reported():
    """What runs at once counts as the ops that it stands for."""
    blocks = [(nn.Conv2d(16, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True)) for _ in range(8)]
    model, x = nn.Sequential(*(part for block in blocks for part in block)), facula.randn(8, 16, 32, 32)

    def room():
        facula.cpu.reset_peak_memory_stats()
        begin = facula.cpu.memory_allocated()
        model(x).mean().backward()
        return begin, facula.cpu.max_memory_allocated() - begin

    room()
    begin, plain = room()
    with facula.cpu.memory_budget(begin + plain * 6 // 10) as budget:
        for _ in range(3):
            model(x).mean().backward()
    again = [event for event in budget.events() if event.cause == "again"]
    assert {"batch_norm", "relu"} <= {event.op for event in again}
    assert all(event.seconds > 0 and event.bytes for event in again)
