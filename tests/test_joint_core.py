"""Training steps as programs of PyTorch's core IR: only ops that it names, and the gradients that eager has."""

import pytest

import facula
import facula.nn.functional as F
from facula import export, nn
from facula.export._joint import joint_program
from facula.export.experimental import _export_forward_backward


class Step(nn.Module):
    """A model and its loss."""

    def __init__(self, net, loss):
        super().__init__()
        self.net, self.loss = net, loss

    def forward(self, x, y):
        y_of_model = self.net(x)
        return self.loss(y_of_model[0] if isinstance(y_of_model, tuple) else y_of_model, y)


def around(*layers, width=8):
    return lambda: nn.Sequential(nn.Linear(8, width), *layers, nn.Linear(width, 3))


def images(*layers):
    return lambda: nn.Sequential(nn.Conv2d(2, 4, 3, groups=2), *layers, nn.Flatten(), nn.LazyLinear(3))


def rows():
    return facula.randn(4, 8)


def pictures():
    return facula.randn(4, 2, 10, 10)


def sequences():
    return facula.randn(4, 5, 3)


MODELS = {
    **{type(f).__name__: (around(f), rows) for f in (
        nn.GELU(), nn.SiLU(), nn.Tanh(), nn.Sigmoid(), nn.ELU(2.0), nn.CELU(0.5), nn.SELU(), nn.Hardtanh(),
        nn.LeakyReLU(), nn.Softplus(2.0, 1.0), nn.PReLU(), nn.Threshold(0.1, 2.0), nn.ReLU6(), nn.Hardswish(), nn.Mish(),
        nn.Softmax(1), nn.LogSoftmax(1), nn.Hardsigmoid(), nn.Hardshrink(0.3), nn.Softshrink(0.2), nn.Softsign(), nn.Tanhshrink(), nn.LayerNorm(8), nn.RMSNorm(8), nn.BatchNorm1d(8),
    )},
    "GELU of tanh": (around(nn.GELU("tanh")), rows),
    "GroupNorm": (images(nn.GroupNorm(2, 4)), pictures),
    "BatchNorm2d": (images(nn.BatchNorm2d(4)), pictures),
    "BatchNorm2d without statistics": (images(nn.BatchNorm2d(4, track_running_stats=False)), pictures),
    "BatchNorm2d of constants": (images(nn.BatchNorm2d(4, affine=False).eval()), pictures),
    "InstanceNorm2d": (images(nn.InstanceNorm2d(4, affine=True, track_running_stats=True)), pictures),
    "MaxPool2d": (images(nn.MaxPool2d(2, ceil_mode=True)), pictures),
    "AvgPool2d": (images(nn.AvgPool2d(3, 2, 1, count_include_pad=False)), pictures),
    "AdaptiveAvgPool2d": (images(nn.AdaptiveAvgPool2d((3, 2))), pictures),
    "nearest": (images(nn.Upsample(scale_factor=2)), pictures),
    "nearest-exact": (images(nn.Upsample((11, 7), mode="nearest-exact")), pictures),
    "bilinear": (images(nn.Upsample(scale_factor=(1.5, 2.5), mode="bilinear")), pictures),
    "bicubic": (images(nn.Upsample((11, 7), mode="bicubic", align_corners=True)), pictures),
    "linear": (lambda: nn.Sequential(nn.Linear(3, 4), nn.Upsample(7, mode="linear"), nn.Linear(7, 3)), sequences),
    "ConvTranspose2d": (images(nn.ConvTranspose2d(4, 2, 3, 2, 1, groups=2)), pictures),
    "LSTM": (lambda: nn.LSTM(3, 3, bidirectional=True, proj_size=0), sequences),
    "GRU": (lambda: nn.GRU(3, 3, num_layers=2, batch_first=True), sequences),
    "RNN": (lambda: nn.RNN(3, 3), sequences),
    "RNN of relu": (lambda: nn.RNN(3, 3, nonlinearity="relu", bias=False), sequences),
    "MultiheadAttention": (lambda: Attends(), sequences),
    "Embedding": (lambda: nn.Sequential(nn.Embedding(9, 8, padding_idx=1), nn.Linear(8, 3)), lambda: facula.randint(0, 9, (4,))),
}  # fmt: skip


class Attends(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(3, 1, batch_first=True)

    def forward(self, x):
        return self.attention(x, x, x, need_weights=False)[0]


LOSSES = {  # of logits and classes
    "cross_entropy": lambda y, target: F.cross_entropy(y, target, ignore_index=1),
    "cross_entropy of sums": lambda y, target: F.cross_entropy(y, target, reduction="sum"),
    "cross_entropy of each": lambda y, target: F.cross_entropy(y, target, reduction="none").square().sum(),
    "cross_entropy with weights": lambda y, target: F.cross_entropy(y, target, facula.tensor([1.0, 2.0, 0.5])),
    "cross_entropy, smooth": lambda y, target: F.cross_entropy(
        y, target, facula.tensor([1.0, 2.0, 0.5]), ignore_index=2, label_smoothing=0.2),
    "nll_loss with weights": lambda y, target: F.nll_loss(
        y.log_softmax(1), target, facula.tensor([1.0, 2.0, 0.5]), reduction="none").square().sum(),
    "huber_loss": lambda y, target: F.huber_loss(y, F.one_hot(target, 3).float(), delta=0.3),
    "binary_cross_entropy_with_logits": lambda y, target: F.binary_cross_entropy_with_logits(y, F.one_hot(target, 3).float()),
    "nll_loss": lambda y, target: F.nll_loss(y.log_softmax(1), target),
    "mse_loss": lambda y, target: F.mse_loss(y, F.one_hot(target, 3).float()),
    "smooth_l1_loss": lambda y, target: F.smooth_l1_loss(y, F.one_hot(target, 3).float()),
    "binary_cross_entropy": lambda y, target: F.binary_cross_entropy(y.sigmoid(), F.one_hot(target, 3).float()),
    "kl_div": lambda y, target: F.kl_div(y.log_softmax(1), F.one_hot(target, 3).float(), reduction="batchmean"),
}  # fmt: skip


def check(step, args, make):
    """The decomposed program has PyTorch's ops only, and gives what eager gives."""
    step(*args)  # sizes of lazy layers; running statistics are then no longer those of the start
    state = {k: v.clone() for k, v in step.state_dict().items()}
    program = make(export.export(step, args)).program
    unnamed = {key for key, aten, *_ in program.nodes if not aten}
    assert not unnamed
    outputs = program.run(args)
    step.load_state_dict(state)
    step.zero_grad()
    loss = step(*args)
    loss.backward()
    found = {target: o for (kind, target), o in zip(program.roles, outputs) if kind == "parameter_gradient"}
    wanted = {path: p.grad for path, p in step.named_parameters()}
    assert found.keys() == wanted.keys() and found
    facula.testing.assert_close(found, wanted, rtol=1e-4, atol=2e-6)


def written_first(exported):
    return joint_program(exported).run_decompositions()


@pytest.mark.parametrize("make", [written_first, _export_forward_backward])
@pytest.mark.parametrize("name", MODELS)
def test_layers(name, make):
    facula.manual_seed(3)
    build, inputs = MODELS[name]
    x = inputs()
    check(Step(build(), lambda y, target: (y * y).mean() + y.sum() * 0.1), (x, facula.randint(0, 3, (len(x),))), make)


@pytest.mark.parametrize("make", [written_first, _export_forward_backward])
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name, make):
    facula.manual_seed(3)
    x = facula.randn(6, 8)
    check(Step(nn.Linear(8, 3), LOSSES[name]), (x, facula.arange(6) % 3), make)
