"""Curves on the API's pages: activations, losses, schedules of learning rates and windows of signals, each computed by the
function that it shows."""

from __future__ import annotations

import math
from collections.abc import Callable

from pictures import BLUE, INK, ORANGE, add, plt

import facula
from facula import nn, optim


def axes(width: float = 4.4, height: float = 2.6, cross: bool = False):
    """Return axes; as a cross through 0 where that is asked for."""
    _, made = plt.subplots(figsize=(width, height))
    if cross:
        made.axhline(0, color=INK, linewidth=0.8, alpha=0.6)
        made.axvline(0, color=INK, linewidth=0.8, alpha=0.6)
    return made


def curves(x, lines: dict[str, object], xlabel: str = "", ylabel: str = "", cross: bool = False, **limits) -> None:
    """Draw a line for each entry, named in a legend where there are several."""
    made = axes(cross=cross)
    for label, y in lines.items():
        made.plot(x.tolist(), facula.as_tensor(y).tolist(), label=label)
    if len(lines) > 1 or next(iter(lines)):
        made.legend()
    made.set(xlabel=xlabel, ylabel=ylabel, **limits)


def activation(module: nn.Module) -> None:
    """Draw a function of one number, and its derivative."""
    x = facula.linspace(-4, 4, 401, requires_grad=True)
    y = module(x)
    (slope,) = facula.autograd.grad(y.sum(), x)
    made = axes(cross=True)
    made.plot(x.tolist(), slope.tolist(), color=ORANGE, linewidth=1.2, linestyle="--", label="derivative")
    made.plot(x.tolist(), y.tolist(), color=BLUE, label=module._get_name())
    made.set(xlabel="x", ylim=(max(-4, y.min().item() - 0.5), min(4.2, max(y.max().item(), 1) + 0.5)))
    made.legend()


ACTIVATIONS = {
    "ELU": nn.ELU(), "CELU": nn.CELU(2.0), "GELU": nn.GELU(), "Hardshrink": nn.Hardshrink(), "Hardsigmoid": nn.Hardsigmoid(),
    "Hardswish": nn.Hardswish(), "Hardtanh": nn.Hardtanh(), "LeakyReLU": nn.LeakyReLU(0.1), "LogSigmoid": nn.LogSigmoid(),
    "Mish": nn.Mish(), "PReLU": nn.PReLU(), "ReLU": nn.ReLU(), "ReLU6": nn.ReLU6(), "SELU": nn.SELU(), "SiLU": nn.SiLU(),
    "Sigmoid": nn.Sigmoid(), "Softplus": nn.Softplus(), "Softshrink": nn.Softshrink(), "Softsign": nn.Softsign(),
    "Tanh": nn.Tanh(), "Tanhshrink": nn.Tanhshrink(), "Threshold": nn.Threshold(1.0, -0.5),
}  # fmt: skip
FUNCTION = {
    "LeakyReLU": "leaky_relu", "LogSigmoid": "logsigmoid", "Sigmoid": "sigmoid", "Tanh": "tanh",
}  # fmt: skip
OPTIONS = {"CELU": " with alpha 2", "LeakyReLU": " with a slope of 0.1", "Threshold": " with threshold 1 and value -0.5"}
for _name, _module in ACTIVATIONS.items():
    _function = f"nn.functional.{FUNCTION.get(_name, _name.lower())}"
    _more = {"Sigmoid": " sigmoid special.expit", "Tanh": " tanh"}.get(_name, "")
    _words = f"{_name}{OPTIONS.get(_name, '')} and its derivative between -4 and 4"
    add(f"nn.{_name} {_function}{_more}", _words, lambda module=_module: activation(module))


def rrelu() -> None:
    x = facula.linspace(-4, 4, 401)
    made = axes(cross=True)
    made.fill_between(
        x.tolist(),
        (x / 8).tolist(),
        (x / 3).tolist(),
        where=(x < 0).tolist(),
        color=ORANGE,
        alpha=0.4,
        linewidth=0,
        label="slopes in training",
    )
    made.plot(x.tolist(), nn.functional.rrelu(x).tolist(), label="in evaluation")
    made.set(xlabel="x", ylim=(-1.6, 4))
    made.legend()


add("nn.RReLU nn.functional.rrelu", "RReLU: below 0 a slope between 1/8 and 1/3, in evaluation their mean", rrelu)


def along_softmax(function: Callable, what: str) -> Callable[[], None]:
    def draw() -> None:
        x = facula.linspace(-5, 5, 201)
        rows = facula.stack([x, facula.zeros_like(x), facula.full_like(x, -1.0)], 1)
        y = function(rows, dim=1)
        curves(x, {"of x": y[:, 0], "of 0": y[:, 1], "of -1": y[:, 2]}, "x", what)

    return draw


for _name in ("softmax", "softmin", "log_softmax"):
    _class = {"softmax": "Softmax", "softmin": "Softmin", "log_softmax": "LogSoftmax"}[_name]
    _more = f" {_name}" if _name != "softmin" else ""
    add(
        f"nn.{_class} nn.functional.{_name}{_more}",
        f"{_name} of the three numbers x, 0 and -1, for x between -5 and 5",
        along_softmax(getattr(nn.functional, _name), f"{_name} of (x, 0, -1)"),
    )


def glu() -> None:
    b = facula.linspace(-6, 6, 201)
    lines = {f"a = {a}": nn.functional.glu(facula.stack([facula.full_like(b, a), b]), 0)[0] for a in (2, 1, -1)}
    curves(b, lines, "b", "a * sigmoid(b)", cross=True)


add("nn.GLU nn.functional.glu", "GLU: the half a, let through by the sigmoid of the half b", glu)

# ---- Losses


ERROR = "input - target"


def losses(
    lines: Callable[[facula.Tensor], dict], low: float, high: float, xlabel: str = ERROR, **limits
) -> Callable[[], None]:
    """Return what draws losses as functions of one number."""

    def draw() -> None:
        x = facula.linspace(low, high, 301)
        curves(x, lines(x), xlabel, "loss", **limits)

    return draw


def distance(layer: type, name: str, values: tuple, **more) -> Callable[[facula.Tensor], dict]:
    zero = facula.zeros(())
    return lambda x: {
        (f"{name} = {value}" if name else ""): layer(**({name: value} if name else {}), reduction="none", **more)(
            x, zero.expand(x.shape)
        )
        for value in values
    }


F = nn.functional
add("nn.L1Loss nn.functional.l1_loss", "L1Loss: the absolute value of the error", losses(distance(nn.L1Loss, "", (0,)), -3, 3))
add("nn.MSELoss nn.functional.mse_loss", "MSELoss: the square of the error", losses(distance(nn.MSELoss, "", (0,)), -3, 3))
add(
    "nn.SmoothL1Loss nn.functional.smooth_l1_loss",
    "SmoothL1Loss: a parabola within beta, with lines of slope 1 outside",
    losses(distance(nn.SmoothL1Loss, "beta", (0.5, 1.0, 2.0)), -3, 3),
)
add(
    "nn.HuberLoss nn.functional.huber_loss",
    "HuberLoss: a parabola within delta, with lines of slope delta outside",
    losses(distance(nn.HuberLoss, "delta", (0.5, 1.0, 2.0)), -3, 3),
)
add(
    "nn.BCELoss nn.functional.binary_cross_entropy",
    "BCELoss: minus the logarithm of the probability of what was true",
    losses(
        lambda x: {f"target {t}": F.binary_cross_entropy(x, facula.full_like(x, t), reduction="none") for t in (1, 0)},
        0.004,
        0.996,
        "input, a probability",
    ),
)
add(
    "nn.BCEWithLogitsLoss nn.functional.binary_cross_entropy_with_logits",
    "BCEWithLogitsLoss: almost 0 far on the right side, almost a line on the wrong one",
    losses(
        lambda x: {
            f"target {t}": F.binary_cross_entropy_with_logits(x, facula.full_like(x, t), reduction="none") for t in (1, 0)
        },
        -5,
        5,
        "input, a logit",
    ),
)
add(
    "nn.SoftMarginLoss nn.functional.soft_margin_loss",
    "SoftMarginLoss: almost 0 where the signs agree, almost a line elsewhere",
    losses(
        lambda x: {f"target {t}": F.soft_margin_loss(x, facula.full_like(x, t), reduction="none") for t in (1, -1)},
        -5,
        5,
        "input",
    ),
)
add(
    "nn.HingeEmbeddingLoss nn.functional.hinge_embedding_loss",
    "HingeEmbeddingLoss: the distance of what is alike; what is not costs as far as it is nearer than the margin",
    losses(
        lambda x: {f"target {t}": F.hinge_embedding_loss(x, facula.full_like(x, t), reduction="none") for t in (1, -1)},
        0,
        3,
        "input, a distance",
    ),
)
add(
    "nn.MarginRankingLoss nn.functional.margin_ranking_loss",
    "MarginRankingLoss: 0 as soon as the inputs are in the right order by the margin",
    losses(
        lambda x: {
            f"target 1, margin {m}": F.margin_ranking_loss(x, facula.zeros_like(x), facula.ones_like(x), m, reduction="none")
            for m in (0, 1)
        },
        -3,
        3,
        "input1 - input2",
    ),
)


def cosine(x: facula.Tensor) -> dict:
    pairs = facula.stack([x.cos(), x.sin()], 1), facula.tensor([[1.0, 0.0]]).expand(len(x), 2)
    return {f"target {t}": F.cosine_embedding_loss(*pairs, facula.full_like(x, t), reduction="none") for t in (1, -1)}


add(
    "nn.CosineEmbeddingLoss nn.functional.cosine_embedding_loss",
    "CosineEmbeddingLoss: 1 minus the cosine of the angle for what is alike, the cosine, if positive, for what is not",
    losses(cosine, 0, math.pi, "angle between the two inputs"),
)


def several(x: facula.Tensor) -> facula.Tensor:
    return facula.stack([x, facula.zeros_like(x), facula.zeros_like(x)], 1)


def of_class(x: facula.Tensor, target: int) -> facula.Tensor:
    return facula.full((len(x),), target, dtype=facula.int64)


add(
    "nn.CrossEntropyLoss nn.functional.cross_entropy",
    "CrossEntropyLoss of the scores (x, 0, 0): it falls with the score of the target, and rises with that of another class",
    losses(
        lambda x: {f"target {t}": F.cross_entropy(several(x), of_class(x, t), reduction="none") for t in (0, 1)},
        -6,
        6,
        "score of class 0; the two others have 0",
    ),
)
add(
    "nn.NLLLoss nn.functional.nll_loss",
    "NLLLoss: minus the logarithm of the probability of the target",
    losses(
        lambda x: {"": F.nll_loss(x.log()[:, None], of_class(x, 0), reduction="none")}, 0.005, 1, "probability of the target"
    ),
)
add(
    "nn.KLDivLoss nn.functional.kl_div",
    "KLDivLoss: 0 where both distributions are the same",
    losses(
        lambda x: {
            f"target ({t}, {1 - t:.1f})": F.kl_div(
                facula.stack([x, 1 - x], 1).log(), facula.tensor([[t, 1 - t]]).expand(len(x), 2), reduction="none"
            ).sum(1)
            for t in (0.2, 0.5)
        },
        0.01,
        0.99,
        "probability of the first of two classes",
    ),
)
add(
    "nn.PoissonNLLLoss nn.functional.poisson_nll_loss",
    "PoissonNLLLoss: least where the exponential of the input is the count",
    losses(
        lambda x: {f"target {t}": F.poisson_nll_loss(x, facula.full_like(x, t), reduction="none") for t in (1, 3)},
        -2,
        2.2,
        "input, the logarithm of a rate",
    ),
)
add(
    "nn.GaussianNLLLoss nn.functional.gaussian_nll_loss",
    "GaussianNLLLoss: a parabola that is steeper and lower for a smaller variance",
    losses(
        lambda x: {
            f"variance {v}": F.gaussian_nll_loss(x, facula.zeros_like(x), facula.full_like(x, v), reduction="none")
            for v in (0.25, 1, 4)
        },
        -3,
        3,
        ylim=(-1, 6),
    ),
)
add(
    "nn.MultiMarginLoss nn.functional.multi_margin_loss",
    "MultiMarginLoss of the scores (x, 0, 0) and the target 0: 0 as soon as the target leads by the margin",
    losses(
        lambda x: {f"p = {p}": F.multi_margin_loss(several(x), of_class(x, 0), p=p, reduction="none") for p in (1, 2)},
        -2,
        3,
        "score of the target; the two others have 0",
    ),
)
add(
    "nn.TripletMarginLoss nn.TripletMarginWithDistanceLoss nn.functional.triplet_margin_loss "
    "nn.functional.triplet_margin_with_distance_loss",
    "TripletMarginLoss: 0 as soon as the negative is farther from the anchor than the positive, by the margin",
    losses(
        lambda x: {
            f"margin {m}": F.triplet_margin_loss(
                facula.zeros(len(x), 1), facula.ones(len(x), 1), x[:, None], m, reduction="none"
            )
            for m in (1, 0.5)
        },
        0,
        4,
        "distance of the negative; the positive has 1",
    ),
)
add(
    "nn.MultiLabelSoftMarginLoss nn.functional.multilabel_soft_margin_loss",
    "MultiLabelSoftMarginLoss of one class: a logistic loss",
    losses(
        lambda x: {
            f"target {t}": F.multilabel_soft_margin_loss(x[:, None], facula.full((len(x), 1), float(t)), reduction="none")
            for t in (1, 0)
        },
        -5,
        5,
        "input",
    ),
)
add(
    "nn.MultiLabelMarginLoss nn.functional.multilabel_margin_loss",
    "MultiLabelMarginLoss of the scores (x, 0, 0) and the target 0: 0 as soon as the target leads by 1",
    losses(
        lambda x: {"": F.multilabel_margin_loss(several(x), facula.tensor([[0, -1, -1]]).expand(len(x), 3), reduction="none")},
        -2,
        3,
        "score of the target; the two others have 0",
    ),
)

# ---- Schedules of learning rates


def schedule(make: Callable, steps: int, metric: Callable[[int], float] | None = None) -> Callable[[], None]:
    """Return what draws the learning rate of each step; a metric is given to `step`."""

    def draw() -> None:
        optimizer = optim.SGD([facula.zeros(1, requires_grad=True)], lr=1.0, momentum=0.9)
        scheduler, rates = make(optimizer), []
        for step in range(steps):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step(*([] if metric is None else [metric(step)]))
        made = axes(height=2.2)
        made.step(range(steps), rates, where="post")
        made.set(xlabel="step", ylabel="learning rate", ylim=(0, max(rates) * 1.08))

    return draw


S = optim.lr_scheduler
SCHEDULES = {
    "LambdaLR": (lambda o: S.LambdaLR(o, lambda t: 0.95**t), 50, "with the function 0.95 ** epoch"),
    "MultiplicativeLR": (lambda o: S.MultiplicativeLR(o, lambda t: 0.9 if t % 2 else 1.0), 50, "0.9 in every second epoch"),
    "StepLR": (lambda o: S.StepLR(o, 10, 0.5), 50, "halved every 10 epochs"),
    "MultiStepLR": (lambda o: S.MultiStepLR(o, [10, 30], 0.3), 50, "times 0.3 at epochs 10 and 30"),
    "ConstantLR": (lambda o: S.ConstantLR(o, 0.3, 10), 50, "a factor of 0.3 for 10 epochs"),
    "LinearLR": (lambda o: S.LinearLR(o, 0.1, 1.0, 20), 50, "from a tenth to the whole in 20 epochs"),
    "ExponentialLR": (lambda o: S.ExponentialLR(o, 0.93), 50, "times 0.93 in every epoch"),
    "PolynomialLR": (lambda o: S.PolynomialLR(o, 40, 2.0), 50, "with power 2 to 0 in 40 epochs"),
    "CosineAnnealingLR": (lambda o: S.CosineAnnealingLR(o, 25, 0.1), 100, "half a cosine down to 0.1 in 25 epochs, and back"),
    "CosineAnnealingWarmRestarts": (lambda o: S.CosineAnnealingWarmRestarts(o, 15, 2), 105, "falls of 15, 30 and 60 epochs"),
    "CyclicLR": (lambda o: S.CyclicLR(o, 0.1, 1.0, 10, mode="triangular2"), 80, "in mode triangular2, 10 steps up and 10 down"),
    "OneCycleLR": (lambda o: S.OneCycleLR(o, 1.0, 100), 100, "up in 30 of 100 steps, then down"),
    "SequentialLR": (
        lambda o: S.SequentialLR(o, [S.LinearLR(o, 0.1, 1.0, 10), S.CosineAnnealingLR(o, 40)], [10]), 50,
        "a linear warm-up of 10 epochs, then half a cosine",
    ),
    "ChainedScheduler": (
        lambda o: S.ChainedScheduler([S.ConstantLR(o, 0.3, 10), S.ExponentialLR(o, 0.95)]), 50,
        "a factor of 0.3 for 10 epochs, and 0.95 in every epoch",
    ),
}  # fmt: skip
for _name, (_make, _steps, _said) in SCHEDULES.items():
    add(f"optim.lr_scheduler.{_name}", f"The learning rate under {_name}: {_said}", schedule(_make, _steps))
add(
    "optim.lr_scheduler.ReduceLROnPlateau",
    "The learning rate under ReduceLROnPlateau: halved whenever a loss, which stops improving at step 20, has not improved for "
    "more than 5 steps",
    schedule(lambda o: S.ReduceLROnPlateau(o, factor=0.5, patience=5), 50, lambda step: max(1 - step / 20, 0)),
)

# ---- Optimizers


def valley(x: facula.Tensor, y: facula.Tensor) -> facula.Tensor:
    return (1 - x) ** 2 / 10 + (y - x**2) ** 2


def path(make: Callable, steps: int) -> Callable[[], None]:
    """Return what draws the steps of an optimizer down a bent valley."""

    def draw() -> None:
        made = axes(4.0, 2.8)
        x, y = facula.meshgrid(facula.linspace(-2, 2, 81), facula.linspace(-0.6, 2.6, 65), indexing="xy")
        levels = [0.02, 0.1, 0.3, 0.8, 1.6, 3.0, 6.0]
        made.contour(x.numpy(), y.numpy(), valley(x, y).numpy(), levels=levels, colors=[INK], linewidths=0.6)
        point = facula.tensor([-1.5, 0.5], requires_grad=True)
        optimizer, places = make([point]), [point.tolist()]

        def closure() -> facula.Tensor:
            optimizer.zero_grad()
            loss = valley(*point)
            loss.backward()
            return loss

        for _ in range(steps):
            optimizer.step(closure)
            places.append(point.tolist())
        made.plot(*zip(*places), ".-", color=BLUE, markersize=4, linewidth=1)
        made.plot([1], [1], "*", color=ORANGE, markersize=9)
        made.set(xlim=(-2, 2), ylim=(-0.6, 2.6))

    return draw


PATHS = {
    "SGD": (lambda p: optim.SGD(p, lr=0.05, momentum=0.8), 60, "with momentum 0.8"),
    "Adam": (lambda p: optim.Adam(p, lr=0.2), 60, ""), "AdamW": (lambda p: optim.AdamW(p, lr=0.2), 60, ""),
    "Adamax": (lambda p: optim.Adamax(p, lr=0.3), 60, ""), "NAdam": (lambda p: optim.NAdam(p, lr=0.2), 60, ""),
    "RAdam": (lambda p: optim.RAdam(p, lr=0.1), 60, ""), "RMSprop": (lambda p: optim.RMSprop(p, lr=0.05), 60, ""),
    "Adagrad": (lambda p: optim.Adagrad(p, lr=0.5), 60, ""),
    "Adadelta": (lambda p: optim.Adadelta(p, lr=20.0), 60, "with a rate of 20"),
    "ASGD": (lambda p: optim.ASGD(p, lr=0.1), 60, ""), "Rprop": (lambda p: optim.Rprop(p, lr=0.1), 60, ""),
    "LBFGS": (lambda p: optim.LBFGS(p, max_iter=1), 20, "in 20 steps"),
}  # fmt: skip
for _name, (_make, _steps, _said) in PATHS.items():
    _words = f"The way of {_name}{_said and f' {_said}'} down a bent valley, from a point on the left to the lowest one, a star"
    add(f"optim.{_name}", _words, path(_make, _steps))

# ---- Windows of signals


def window(make: Callable) -> Callable[[], None]:
    return lambda: curves(facula.arange(65), {"": make(65)}, "sample", "weight", ylim=(None, 1.05))


W = facula.signal.windows
for _name in ("bartlett", "blackman", "cosine", "exponential", "gaussian", "hamming", "hann", "kaiser", "nuttall"):
    _made = getattr(W, _name)
    _more = {"exponential": {"tau": 12.0}, "gaussian": {"std": 12.0}, "kaiser": {"beta": 12.0}}.get(_name, {})
    _other = f" {_name}_window" if hasattr(facula, f"{_name}_window") else ""
    _said = "".join(f" with {key} {value:g}" for key, value in _more.items())
    add(
        f"signal.windows.{_name}{_other}",
        f"The weights of a {_name} window of 65 samples{_said}",
        window(lambda n, make=_made, more=_more: make(n, **more)),
    )
