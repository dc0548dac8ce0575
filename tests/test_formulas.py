"""The formulas of docstrings are true: each is evaluated beside what it describes. On the site they become MathML."""

import itertools
import math
import operator
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

import facula
from facula import distributions, nn, optim

ROOT = Path(__file__).resolve().parents[1]
sys.path += [str(ROOT / "docs" / "site"), str(ROOT)]

import blocks  # noqa: E402  (in docs/site)
import formulas  # noqa: E402

from codegen import docstrings  # noqa: E402


def lines_of(thing):
    """The lines of the section Formula of a docstring."""
    found = blocks.parse(docstrings.text_of(thing), lambda code, named: None)
    return next((block[1] for block in found if block[0] == "formula"), [])


def everything():
    return {name.path: lines for name in docstrings.names() if (lines := lines_of(name.value))}


FORMULAS = everything()
NUMBERS = {name: getattr(math, name) for name in ("exp", "sqrt", "tanh", "cos", "pi", "comb", "factorial", "prod", "atanh")} | {
    "log": lambda x: math.log(x) if x else -math.inf, "sign": lambda x: (x > 0) - (x < 0), "Gamma": math.gamma,
    "Phi": lambda x: (1 + math.erf(x / math.sqrt(2))) / 2, "sigmoid": lambda x: 1 / (1 + math.exp(-x)),
    "B": lambda a, b: math.gamma(a) * math.gamma(b) / math.gamma(a + b), "I0": lambda x: facula.special.i0(facula.tensor(x)).item(),
}  # fmt: skip
TENSORS = {
    "exp": facula.exp, "sqrt": lambda x: facula.as_tensor(x).sqrt(), "norm": lambda x, p=2: facula.linalg.vector_norm(x, p), "mean": lambda x: x.mean(-1, keepdim=True),
    "softmax": lambda x: facula.softmax(x, -1), "inv": facula.linalg.inv, "det": facula.linalg.det, "pi": math.pi, "max": facula.maximum,
}  # fmt: skip


def run(lines, scope):
    """What the lines leave in their scope."""
    for line in lines:
        exec(line.partition("#")[0], scope)
    return scope


# how they look


@pytest.mark.parametrize("name", sorted(FORMULAS))
def test_formulas_become_mathml(name):
    for line in FORMULAS[name]:
        element = ElementTree.fromstring(formulas.mathml(line))
        assert element.tag == "math" and element.attrib["alttext"] == line.partition("#")[0].strip()


def mathematics(text):
    return re.sub(r"\s+", "", re.sub(r"<math[^>]*><mrow>|</mrow></math>$|<mspace[^>]*/>", "", formulas.mathml(text)))


@pytest.mark.parametrize(("text", "shown"), [
    ("a - (b - c)", "<mi>a</mi><mo>−</mo><mrow><mofence=\"true\">(</mo><mi>b</mi><mo>−</mo><mi>c</mi><mofence=\"true\">)</mo></mrow>"),
    ("beta1", "<msub><mi>β</mi><mn>1</mn></msub>"),
    ("(a + 1) / b", "<mfrac><mrow><mi>a</mi><mo>+</mo><mn>1</mn></mrow><mrow><mi>b</mi></mrow></mfrac>"),
    ("m_hat", "<moveraccent=\"true\"><mi>m</mi><mostretchy=\"false\">^</mo></mover>"),
    ("p -= 2", "<mi>p</mi><mo>←</mo><mi>p</mi><mo>−</mo><mn>2</mn>"),
    ("x[t] ** 2", "<msup><msub><mi>x</mi><mrow><mi>t</mi></mrow></msub><mrow><mn>2</mn></mrow></msup>"),
    ("(a + b) ** 2", "<msup><mrow><mofence=\"true\">(</mo><mi>a</mi><mo>+</mo><mi>b</mi><mofence=\"true\">)</mo></mrow><mrow><mn>2</mn></mrow></msup>"),
    ("2 * stride", "<mn>2</mn><mo>⋅</mo><mimathvariant=\"normal\">stride</mi>"),
])  # fmt: skip
def test_what_stands_for_what(text, shown):
    assert mathematics(text) == shown


@pytest.mark.parametrize("text", ["y = ", "x.y", "lambda x: x", "import os", "{1: 2}"])
def test_what_is_no_formula(text):
    with pytest.raises(formulas.FormulaError):
        formulas.mathml(text)


# that they are true


OPTIONS = {"Threshold": {"threshold": 0.5, "value": 7.0}, "CELU": {"alpha": 2.0}, "ELU": {"alpha": 0.7}, "Softplus": {"beta": 2.0, "threshold": 3.0}}
ELEMENTWISE = """CELU ELU GELU Hardshrink Hardsigmoid Hardswish Hardtanh LeakyReLU LogSigmoid Mish PReLU RReLU ReLU ReLU6 SELU SiLU Sigmoid Softplus
Softshrink Softsign Tanh Tanhshrink Threshold""".split()


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_activations(name):
    module = getattr(nn, name)(**OPTIONS.get(name, {})).eval()
    attributes = {key: value for key, value in vars(module).items() if not key.startswith("_")} | {"weight": 0.25, "a": (1 / 8 + 1 / 3) / 2}
    for x in (-4.0, -1.0, -0.2, 0.0, 0.3, 1.0, 2.5, 7.0):
        found = run(FORMULAS[f"nn.{name}"][:1], {**NUMBERS, **attributes, "x": x})["y"]
        assert module(facula.tensor([x])).item() == pytest.approx(found, rel=2e-4, abs=1e-5), x


def test_activations_of_several_numbers():
    x = [0.5, -1.0, 2.0]
    for name in ("Softmax", "Softmin", "LogSoftmax"):
        for i in range(3):
            y = run(FORMULAS[f"nn.{name}"], {**NUMBERS, "x": x, "y": {}, "i": i, "all": range(3)})["y"][i]
            assert getattr(nn, name)(0)(facula.tensor(x))[i].item() == pytest.approx(y, rel=1e-5)
    tanh = FORMULAS["nn.GELU"][1]
    assert nn.GELU("tanh")(facula.tensor([0.7])).item() == pytest.approx(run([tanh], {**NUMBERS, "x": 0.7})["y"], rel=1e-5)
    y = run(FORMULAS["nn.GLU"], {**NUMBERS, "a": 0.5, "b": -1.0})["y"]
    assert nn.GLU()(facula.tensor([0.5, -1.0])).item() == pytest.approx(y)


def test_attention():
    module = nn.MultiheadAttention(4, 1, batch_first=True, bias=False)
    x = facula.randn(1, 3, 4)
    q, k, v = (x @ module.in_proj_weight.T).chunk(3, -1)
    head = run(FORMULAS["nn.MultiheadAttention"], {**TENSORS, "q": q[0], "k": k[0], "v": v[0], "d": 4})["head"]
    facula.testing.assert_close(module(x, x, x)[0][0], module.out_proj(head))


def loss_of(name, scope, *inputs, **options):
    """Check the last line of a loss, with other options than the default ones."""
    lines = FORMULAS[f"nn.{name}"]
    lines = lines[:1] if name == "PoissonNLLLoss" and options.get("log_input", True) else lines
    found = run(lines, {**NUMBERS, **options, **scope})["loss"]
    module = getattr(nn, name)(**options, reduction="none")
    assert module(*(facula.as_tensor(value) for value in inputs)).reshape(-1)[0].item() == pytest.approx(float(found), rel=1e-4)


@pytest.mark.parametrize(("name", "options"), [
    ("L1Loss", {}), ("MSELoss", {}), ("SmoothL1Loss", {"beta": 0.5}), ("SmoothL1Loss", {"beta": 2.0}), ("HuberLoss", {"delta": 0.3}),
    ("HuberLoss", {"delta": 3.0}), ("KLDivLoss", {}), ("PoissonNLLLoss", {}), ("PoissonNLLLoss", {"log_input": False, "eps": 0.1}),
    ("SoftMarginLoss", {}),
])  # fmt: skip
def test_losses_of_pairs(name, options):
    for x, y in ((0.3, 0.8), (1.5, 0.2)):
        loss_of(name, {"input": x, "target": y}, [x], [y], **options)


def test_losses_of_probabilities():
    w, pw = facula.tensor([2.0]), facula.tensor([3.0])
    for target in (1.0, 0.3):
        loss_of("BCELoss", {"input": 0.4, "target": target, "weight": 2.0}, [0.4], [target], weight=w)
        loss_of("BCEWithLogitsLoss", {"input": 0.4, "target": target, "weight": 2.0, "pos_weight": 3.0}, [0.4], [target], weight=w, pos_weight=pw)
    loss_of("GaussianNLLLoss", {"input": 0.4, "target": 1.0, "var": 2.0}, [0.4], [1.0], [2.0], eps=1e-3)


def test_losses_of_vectors():
    one, two, three = facula.tensor([1.0, 2.0]), facula.tensor([-0.5, 1.0]), facula.tensor([0.3, 0.1])
    for target in (1, -1):
        loss_of("HingeEmbeddingLoss", {"input": 0.4, "target": target}, [0.4], [target], margin=0.7)
        loss_of("CosineEmbeddingLoss", {**TENSORS, "max": max, "input1": one, "input2": two, "target": target}, one, two, target, margin=0.1)
        loss_of("MarginRankingLoss", {"input1": 0.3, "input2": 0.5, "target": target}, [0.3], [0.5], [target], margin=0.4)
    triplet = {**TENSORS, "max": max, "anchor": one, "positive": two, "negative": three}
    loss_of("TripletMarginLoss", triplet, one, two, three, margin=1.5, p=3.0)
    far = lambda a, b: (a - b).abs().sum(-1)
    found = run(FORMULAS["nn.TripletMarginWithDistanceLoss"], {**triplet, "d": far, "margin": 1.0})["loss"]
    assert nn.TripletMarginWithDistanceLoss(distance_function=far, reduction="none")(one[None], two[None], three[None]).item() == pytest.approx(found.item())


def test_losses_of_classes():
    x, weight = [0.2, 1.0, -0.5], [1.0, 2.0, 0.5]
    options = {"weight": facula.tensor(weight)}
    for target in range(3):
        scope = {"input": x, "target": target, "classes": range(3), "C": 3, "weight": weight, "others": [i for i in range(3) if i != target]}
        loss_of("NLLLoss", scope, [x], [target], **options)
        loss_of("CrossEntropyLoss", scope, [x], [target], **options)
        loss_of("MultiMarginLoss", scope, [x], [target], **options, margin=0.7, p=2)
        loss_of("MultiLabelMarginLoss", {**scope, "targets": [target]}, [x], [[target, -1, -1]])
    marks = [1.0, 0.0, 1.0]
    p = [NUMBERS["sigmoid"](value) for value in x]
    lines = FORMULAS["nn.MultiLabelSoftMarginLoss"]
    assert lines[0] == "p = sigmoid(input)"
    found = run(lines[1:], {**NUMBERS, "p": p, "target": marks, "classes": range(3), "C": 3})["loss"]
    assert nn.MultiLabelSoftMarginLoss()(facula.tensor([x]), facula.tensor([marks])).item() == pytest.approx(found)


def test_alignments():
    said = facula.tensor([[0.2, 0.5, 0.3], [0.6, 0.1, 0.3], [0.3, 0.3, 0.4]])

    def reads(path):
        return [label for label, _ in itertools.groupby(path) if label]

    class Table(list):
        __getitem__ = lambda self, at: said[at].item()

    paths = [path for path in itertools.product(range(3), repeat=3) if reads(path) == [1, 2]]
    found = run(FORMULAS["nn.CTCLoss"], {**NUMBERS, "p": Table(), "times": range(3), "paths": paths})["loss"]
    result = nn.CTCLoss(reduction="none")(said.log()[:, None], facula.tensor([[1, 2]]), facula.tensor([3]), facula.tensor([2]))
    assert result.item() == pytest.approx(found)


def test_distances():
    x1, x2 = facula.tensor([1.0, 2.0, 3.0]), facula.tensor([-0.5, 1.0, 0.2])
    found = run(FORMULAS["nn.PairwiseDistance"], {**TENSORS, "x1": x1, "x2": x2, "eps": 0.1, "p": 3.0})["d"]
    facula.testing.assert_close(nn.PairwiseDistance(3.0, 0.1)(x1, x2), found)
    found = run(FORMULAS["nn.CosineSimilarity"], {**TENSORS, "max": max, "x1": x1, "x2": x2, "eps": 1e-8})["c"]
    facula.testing.assert_close(nn.CosineSimilarity(0)(x1, x2), found)


def test_norms():
    x = facula.randn(3, 4, 5) * 2 + 1
    dims = {"BatchNorm1d": (0, 2), "LayerNorm": (2,), "InstanceNorm1d": (2,)}
    for name, dim in dims.items():
        layer = getattr(nn, name)(5 if name == "LayerNorm" else 4)
        scope = {"x": x, "mean": x.mean(dim, True), "var": x.var(dim, correction=0, keepdim=True), "eps": layer.eps, "weight": 1.0, "bias": 0.0}
        scope |= {"momentum": 0.1, "running_mean": facula.zeros(1, 4, 1)}
        found = run(FORMULAS[f"nn.{name}"], {**TENSORS, **scope})
        facula.testing.assert_close(layer(x), found["y"])
        if name == "BatchNorm1d":
            facula.testing.assert_close(layer.running_mean, found["running_mean"].flatten())
    groups = x.view(3, 2, 10)
    scope = {"x": groups, "mean": groups.mean(2, True), "var": groups.var(2, correction=0, keepdim=True), "eps": 1e-5, "weight": 1.0, "bias": 0.0}
    facula.testing.assert_close(nn.GroupNorm(2, 4)(x), run(FORMULAS["nn.GroupNorm"], {**TENSORS, **scope})["y"].view(3, 4, 5))
    found = run(FORMULAS["nn.RMSNorm"], {**TENSORS, "x": x, "eps": 0.01, "weight": 1.0})["y"]
    facula.testing.assert_close(nn.RMSNorm(5, eps=0.01)(x), found)
    scope = {"x": x[0, :, 0].tolist(), "y": {}, "c": 1, "k": 1.0, "alpha": 0.5, "beta": 0.75, "size": 3, "window": range(3)}
    found = run(FORMULAS["nn.LocalResponseNorm"], {**NUMBERS, **scope})["y"][1]
    assert nn.LocalResponseNorm(3, 0.5)(x)[0, 1, 0].item() == pytest.approx(found, rel=1e-5)
    assert FORMULAS["nn.BatchNorm3d"] == FORMULAS["nn.BatchNorm1d"] and FORMULAS["nn.InstanceNorm3d"] == FORMULAS["nn.InstanceNorm1d"]
    assert FORMULAS["nn.BatchNorm2d"] == FORMULAS["nn.BatchNorm1d"] and FORMULAS["nn.InstanceNorm2d"] == FORMULAS["nn.InstanceNorm1d"]


SIZES = {"kernel_size": 3, "stride": 2, "padding": 1}


@pytest.mark.parametrize(("name", "options"), [
    ("Conv", SIZES | {"dilation": 2}), ("ConvTranspose", SIZES | {"dilation": 2, "output_padding": 1}), ("MaxPool", SIZES | {"dilation": 2}),
    ("AvgPool", SIZES), ("LPPool", {"norm_type": 2.0, "kernel_size": 3, "stride": 2}),
])  # fmt: skip
@pytest.mark.parametrize("n", [1, 2, 3])
def test_sizes(name, options, n):
    channels = (1, 1) if name.startswith("Conv") else ()
    module = getattr(nn, f"{name}{n}d")(*channels, **options)
    for size in (7, 8):
        found = run(FORMULAS[f"nn.{name}{n}d"][-1:], {**options, "L": size})["L_out"]
        assert module(facula.zeros(1, 1, *[size] * n)).shape[2:] == (found,) * n


def test_windows():
    x, conv = facula.randn(2, 9), nn.Conv1d(2, 3, 3, stride=2, dilation=2)
    first = FORMULAS["nn.Conv1d"][0].replace("y[o, i]", "y")

    class At:
        def __init__(self, values):
            self.values = values
        __getitem__ = lambda self, at: self.values[at].item()

    for o, i in ((0, 0), (2, 1)):
        scope = {"x": At(x), "weight": At(conv.weight), "bias": At(conv.bias), "stride": 2, "dilation": 2, "padding": 0, "channels": range(2),
                 "window": range(3), "o": o, "i": i}  # fmt: skip
        assert conv(x)[o, i].item() == pytest.approx(run([first], scope)["y"], abs=1e-5)
    y = run(FORMULAS["nn.LPPool1d"][:1], {"x": [1.0, 2.0], "window": range(2), "norm_type": 3.0})["y"]
    assert nn.LPPool1d(3.0, 2)(facula.tensor([[1.0, 2.0]])).item() == pytest.approx(y)
    for n in (2, 3):
        assert FORMULAS[f"nn.Conv{n}d"] == FORMULAS["nn.Conv1d"] and FORMULAS[f"nn.LPPool{n}d"] == FORMULAS["nn.LPPool1d"]


STARTS = dict.fromkeys("b m v u s a g_old".split(), 0.0) | {"product": 1.0}
RULES = {
    "SGD": {"lr": 0.1, "momentum": 0.9, "dampening": 0.0}, "Adam": {"lr": 0.1}, "AdamW": {"lr": 0.1, "weight_decay": 0.3}, "Adamax": {"lr": 0.1},
    "NAdam": {"lr": 0.1, "momentum_decay": 0.3}, "RAdam": {"lr": 0.1}, "RMSprop": {"lr": 0.1, "momentum": 0.5, "alpha": 0.9},
    "Adagrad": {"lr": 0.1, "lr_decay": 0.2}, "Adadelta": {"lr": 0.5, "rho": 0.8}, "ASGD": {"lr": 0.1, "lambd": 0.2, "alpha": 0.6, "t0": 3.0},
    "Rprop": {"lr": 0.1},
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_optimizers(name):
    param = facula.tensor([1.0], requires_grad=True)
    optimizer = getattr(optim, name)([param], **RULES[name])
    options = dict(optimizer.defaults)
    if "betas" in options:
        options["beta1"], options["beta2"] = options["betas"]
    scope = {**NUMBERS, **options, **STARTS, "p": 1.0, "eta_minus": 0.5, "eta_plus": 1.2, "s_min": 1e-6, "s_max": 50.0}
    if name in ("ASGD", "Rprop"):
        scope |= {"a": 1.0} if name == "ASGD" else {"s": 0.1}
    for t in range(1, 9):
        param.grad = facula.tensor([math.sin(2.0 * t) + param.item()])
        scope |= {"t": t, "g": param.grad.item()}
        scope = run(FORMULAS[f"optim.{name}"], scope)
        optimizer.step()
        assert param.item() == pytest.approx(scope["p"], rel=1e-4, abs=1e-5), t
    if name == "ASGD":
        assert optimizer.state[param]["ax"].item() == pytest.approx(scope["a"], rel=1e-4)


PLANS = {
    "LambdaLR": {"lr_lambda": lambda epoch: 1 / (1 + epoch)}, "StepLR": {"step_size": 3, "gamma": 0.5}, "ConstantLR": {"factor": 0.3, "total_iters": 4},
    "LinearLR": {"start_factor": 0.2, "end_factor": 0.9, "total_iters": 5}, "ExponentialLR": {"gamma": 0.8}, "PolynomialLR": {"total_iters": 6, "power": 2.0},
    "CosineAnnealingLR": {"T_max": 5, "eta_min": 0.1}, "CosineAnnealingWarmRestarts": {"T_0": 4, "eta_min": 0.1},
}  # fmt: skip


@pytest.mark.parametrize("name", PLANS)
def test_schedules(name):
    optimizer = optim.SGD([facula.zeros(1, requires_grad=True)], lr=2.0)
    schedule = getattr(optim.lr_scheduler, name)(optimizer, **PLANS[name])
    for epoch in range(9):
        scope = {**NUMBERS, **PLANS[name], "epoch": epoch, "initial_lr": 2.0, "T_cur": epoch % 4, "T_i": 4}
        found = run(FORMULAS[f"optim.lr_scheduler.{name}"], scope)["lr"]
        assert optimizer.param_groups[0]["lr"] == pytest.approx(found), epoch
        optimizer.step()
        schedule.step()


D = {
    "Bernoulli": ({"probs": 0.3}, 1.0), "Beta": ({"concentration1": 2.0, "concentration0": 3.5}, 0.3), "Binomial": ({"total_count": 7, "probs": 0.3}, 2),
    "Cauchy": ({"loc": 0.5, "scale": 2.0}, 1.7), "Chi2": ({"df": 3.0}, 1.7), "ContinuousBernoulli": ({"probs": 0.3}, 0.6), "Exponential": ({"rate": 2.0}, 0.7),
    "FisherSnedecor": ({"df1": 3.0, "df2": 5.0}, 1.2), "Gamma": ({"concentration": 2.5, "rate": 1.5}, 0.8),
    "GeneralizedPareto": ({"loc": 0.5, "scale": 2.0, "concentration": 0.3}, 1.7), "Geometric": ({"probs": 0.3}, 3), "Gumbel": ({"loc": 0.5, "scale": 2.0}, 1.7),
    "HalfCauchy": ({"scale": 2.0}, 1.7), "HalfNormal": ({"scale": 2.0}, 1.7), "InverseGamma": ({"concentration": 2.5, "rate": 1.5}, 0.8),
    "Kumaraswamy": ({"concentration1": 2.0, "concentration0": 3.5}, 0.3), "Laplace": ({"loc": 0.5, "scale": 2.0}, 1.7),
    "LogNormal": ({"loc": 0.5, "scale": 2.0}, 1.7), "NegativeBinomial": ({"total_count": 4, "probs": 0.3}, 2), "Normal": ({"loc": 0.5, "scale": 2.0}, 1.7),
    "Pareto": ({"scale": 1.5, "alpha": 2.0}, 1.7), "Poisson": ({"rate": 2.5}, 3), "relaxed_bernoulli.LogitRelaxedBernoulli": ({"temperature": 0.7, "logits": 0.4}, 1.1),
    "StudentT": ({"df": 3.0, "loc": 0.5, "scale": 2.0}, 1.7), "Uniform": ({"low": 1.0, "high": 3.0}, 1.7), "VonMises": ({"loc": 0.5, "concentration": 2.0}, 1.7),
    "Weibull": ({"scale": 2.0, "concentration": 1.5}, 1.7),
}  # fmt: skip


@pytest.mark.parametrize("name", D)
def test_densities(name):
    parameters, x = D[name]
    letters = dict(zip(("a", "b"), [parameters[key] for key in parameters if key.startswith(("concentration", "df"))]))
    found = run(FORMULAS[f"distributions.{name}"], {**NUMBERS, **letters, **parameters, "x": x})["p"]
    made = operator.attrgetter(name)(distributions)(**{key: facula.tensor(float(value)) for key, value in parameters.items()})
    assert made.log_prob(facula.tensor(float(x))).exp().item() == pytest.approx(found, rel=1e-4)


def test_densities_of_vectors():
    probs, x = [0.2, 0.5, 0.3], [1, 2, 1]
    scope = {**NUMBERS, "probs": probs, "all": range(3), "total_count": 4, "x": x}
    made = distributions.Multinomial(4, facula.tensor(probs))
    assert made.log_prob(facula.tensor(x).float()).exp().item() == pytest.approx(run(FORMULAS["distributions.Multinomial"], scope)["p"], rel=1e-5)
    made = distributions.OneHotCategorical(facula.tensor(probs))
    assert made.log_prob(facula.tensor([0.0, 1.0, 0.0])).exp().item() == pytest.approx(run(FORMULAS["distributions.OneHotCategorical"], scope | {"x": [0, 1, 0]})["p"])
    assert run(FORMULAS["distributions.Categorical"], scope | {"x": 1})["p"] == pytest.approx(distributions.Categorical(facula.tensor(probs)).probs[1].item())
    share, a = [0.2, 0.5, 0.3], [2.0, 1.5, 3.0]
    made = distributions.Dirichlet(facula.tensor(a))
    assert made.log_prob(facula.tensor(share)).exp().item() == pytest.approx(run(FORMULAS["distributions.Dirichlet"], scope | {"a": a, "x": share})["p"], rel=1e-5)
    parts = distributions.Normal(facula.tensor([0.0, 1.0, 2.0]), 1.0)
    made = distributions.MixtureSameFamily(distributions.Categorical(facula.tensor(probs)), parts)
    found = run(FORMULAS["distributions.MixtureSameFamily"], scope | {"q": parts.log_prob(facula.tensor(0.7)).exp().tolist()})["p"]
    assert made.log_prob(facula.tensor(0.7)).exp().item() == pytest.approx(found, rel=1e-5)
    sigma, loc, x = facula.tensor([[1.0, 0.5], [0.5, 2.0]]), facula.tensor([0.3, 0.1]), facula.tensor([1.0, -1.0])
    found = run(FORMULAS["distributions.MultivariateNormal"], {**TENSORS, "Sigma": sigma, "loc": loc, "x": x, "n": 2})["p"]
    assert distributions.MultivariateNormal(loc, sigma).log_prob(x).exp().item() == pytest.approx(found.item(), rel=1e-5)


OTHERS = """nn.Softmax nn.Softmin nn.LogSoftmax nn.GLU nn.MultiheadAttention nn.L1Loss nn.MSELoss nn.SmoothL1Loss nn.HuberLoss nn.KLDivLoss
nn.PoissonNLLLoss nn.SoftMarginLoss nn.BCELoss nn.BCEWithLogitsLoss nn.GaussianNLLLoss nn.HingeEmbeddingLoss nn.CosineEmbeddingLoss
nn.MarginRankingLoss nn.TripletMarginLoss nn.TripletMarginWithDistanceLoss nn.NLLLoss nn.CrossEntropyLoss nn.MultiMarginLoss nn.MultiLabelMarginLoss
nn.MultiLabelSoftMarginLoss nn.CTCLoss nn.PairwiseDistance nn.CosineSimilarity nn.LayerNorm nn.GroupNorm nn.RMSNorm nn.LocalResponseNorm
distributions.Multinomial distributions.OneHotCategorical distributions.Categorical distributions.Dirichlet distributions.MixtureSameFamily
distributions.MultivariateNormal""".split()


def test_every_formula_is_checked():
    """Who adds one adds it to a test of this file."""
    dimensions = {f"nn.{name}{n}d" for name in ("BatchNorm", "InstanceNorm", "Conv", "ConvTranspose", "MaxPool", "AvgPool", "LPPool") for n in (1, 2, 3)}
    named = {f"nn.{name}" for name in ELEMENTWISE} | {f"optim.{name}" for name in RULES} | {f"optim.lr_scheduler.{name}" for name in PLANS}
    assert set(FORMULAS) == named | {f"distributions.{name}" for name in D} | dimensions | set(OTHERS)
