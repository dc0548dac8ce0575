"""Losses against their definitions in NumPy, and their derivatives against differences."""

import itertools

import numpy as np
import pytest

import facula
from facula.autograd.gradcheck import gradcheck, gradgradcheck
from facula.nn import functional as F

rng = np.random.default_rng(0)


def double(*shape, low=None, high=None, grad=False):
    array = rng.standard_normal(shape) if low is None else rng.uniform(low, high, shape)
    return facula.tensor(array.tolist(), dtype=facula.float64, requires_grad=grad)


def values(t):
    return np.array(t.tolist())


def reduced(loss, reduction):
    return {"none": loss, "mean": loss.mean(), "sum": loss.sum()}[reduction]


def log_softmax(x, axis=1):
    shifted = x - x.max(axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


REDUCTIONS = ("none", "mean", "sum")
POINTWISE = {
    "mse_loss": (F.mse_loss, lambda x, t: (x - t) ** 2),
    "l1_loss": (F.l1_loss, lambda x, t: abs(x - t)),
    "smooth_l1_loss": (F.smooth_l1_loss, lambda x, t: np.where(abs(x - t) < 1, 0.5 * (x - t) ** 2, abs(x - t) - 0.5)),
    "huber_loss": (
        lambda x, t, reduction="mean": F.huber_loss(x, t, reduction, 0.5),
        lambda x, t: np.where(abs(x - t) < 0.5, 0.5 * (x - t) ** 2, 0.5 * (abs(x - t) - 0.25)),
    ),
    "binary_cross_entropy": (F.binary_cross_entropy, lambda x, t: -t * np.log(x) - (1 - t) * np.log(1 - x)),
    "binary_cross_entropy_with_logits": (
        F.binary_cross_entropy_with_logits,
        lambda x, t: np.logaddexp(0, x) - t * x,
    ),
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise(name, reduction):
    loss, reference = POINTWISE[name]
    x, t = double(3, 4, low=0.1, high=0.9), double(3, 4, low=0.1, high=0.9)
    want = reduced(reference(values(x), values(t)), reduction)
    np.testing.assert_allclose(values(loss(x, t, reduction=reduction)), want, atol=1e-12)


@pytest.mark.parametrize("name", POINTWISE)
def test_pointwise_derivatives(name):
    x, t = double(3, 4, low=0.1, high=0.9, grad=True), double(3, 4, low=0.1, high=0.9)
    loss = POINTWISE[name][0]
    assert gradcheck(lambda x: loss(x, t), (x,))
    assert gradgradcheck(lambda x: loss(x, t), (x,))


def test_binary_cross_entropy_at_the_ends():
    x = facula.tensor([0.0, 1.0, 0.0, 1.0])
    t = facula.tensor([0.0, 1.0, 1.0, 0.0])
    assert F.binary_cross_entropy(x, t, reduction="none").tolist() == [0.0, 0.0, 100.0, 100.0]
    with pytest.raises(RuntimeError, match="binary_cross_entropy"):
        F.binary_cross_entropy(facula.tensor([1.5]), facula.tensor([1.0]))


def test_kl_div():
    x, t = double(3, 4), double(3, 4, low=0.1, high=1.0)
    want = values(t) * (np.log(values(t)) - values(x))
    np.testing.assert_allclose(values(F.kl_div(x, t, reduction="sum")), want.sum())
    np.testing.assert_allclose(values(F.kl_div(x, t.log(), reduction="none", log_target=True)), want)
    assert F.kl_div(x, facula.zeros_like(t), reduction="sum").item() == 0.0


SHAPES = [(5, 7), (3, 4, 6), (2, 3, 4, 5), (4,)]


def class_case(shape):
    classes = shape[1] if len(shape) > 1 else shape[0]
    positions = (shape[0], *shape[2:]) if len(shape) > 1 else ()
    target = rng.integers(0, classes, positions)
    return double(*shape, grad=True), target, classes


def class_reference(x, target, weight, ignore_index, smoothing=0.0):
    """Losses and weights of every position."""
    x = log_softmax(x, 0 if x.ndim == 1 else 1)
    x = np.moveaxis(x, 1, -1) if x.ndim > 1 else x
    weight = np.ones(x.shape[-1]) if weight is None else weight
    losses, weights = np.zeros(target.shape), np.zeros(target.shape)
    for at in itertools.product(*map(range, target.shape)):
        if target[at] != ignore_index:
            weights[at] = weight[target[at]]
            spread = -(x[at] * weight).sum() / x.shape[-1]
            losses[at] = (1 - smoothing) * -x[at][target[at]] * weights[at] + smoothing * spread
    return losses, weights


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("shape", SHAPES)
def test_cross_entropy(shape, smoothing, reduction):
    x, target, classes = class_case(shape)
    weight = double(classes, low=0.1, high=1.0)
    ignored = -100 if target.size < 2 else int(target.flat[0])
    losses, weights = class_reference(values(x), target, values(weight), ignored, smoothing)
    want = losses.sum() / weights.sum() if reduction == "mean" else reduced(losses, reduction)
    target = facula.tensor(target.tolist())
    got = F.cross_entropy(x, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=smoothing)
    np.testing.assert_allclose(values(got), want, atol=1e-12)
    if smoothing == 0:
        got = F.nll_loss(F.log_softmax(x, 1 if x.dim() > 1 else 0), target, weight, ignore_index=ignored, reduction=reduction)
        np.testing.assert_allclose(values(got), want, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_cross_entropy_derivatives(shape):
    x, target, classes = class_case(shape)
    weight, target = double(classes, low=0.1, high=1.0), facula.tensor(target.tolist())
    for loss in (
        lambda x: F.cross_entropy(x, target, weight, label_smoothing=0.1),
        lambda x: F.cross_entropy(x, target, reduction="none"),
        lambda x: F.nll_loss(x * x, target, weight),
    ):
        assert gradcheck(loss, (x,))
        assert gradgradcheck(loss, (x,))


def test_cross_entropy_with_probabilities():
    x, t = double(5, 7, grad=True), double(5, 7, low=0.0, high=1.0, grad=True)
    want = -(log_softmax(values(x)) * values(t)).sum() / 5
    np.testing.assert_allclose(F.cross_entropy(x, t).item(), want)
    assert gradcheck(F.cross_entropy, (x, t))


def test_cross_entropy_of_large_and_infinite_logits():
    x = facula.tensor([[1000.0, -1000.0], [float("-inf"), 0.0]])
    assert F.cross_entropy(x, facula.tensor([0, 1]), reduction="none").tolist() == [0.0, 0.0]


def test_class_out_of_range():
    with pytest.raises(IndexError, match=r"class index 7 at target\[2\] is out of range for 4 classes"):
        F.cross_entropy(facula.zeros(3, 4), facula.tensor([0, 1, 7]))
    with pytest.raises(IndexError, match=r"class index -1 at target\[1, 0\]"):
        F.nll_loss(facula.zeros(2, 3, 2), facula.tensor([[0, 1], [-1, 0]]))


def test_class_errors():
    with pytest.raises(ValueError, match="batch size"):
        F.cross_entropy(facula.zeros(3, 4), facula.tensor([0, 1]))
    with pytest.raises(RuntimeError, match="float32"):
        F.cross_entropy(facula.zeros(3, 4), facula.zeros(3))
    with pytest.raises(RuntimeError, match="weight"):
        F.cross_entropy(facula.zeros(3, 4), facula.tensor([0, 1, 2]), facula.ones(3))


@pytest.mark.parametrize(("shape", "error"), [((3,), RuntimeError), ((4, 1), ValueError)])
def test_weights_of_multi_margin_loss_are_one_for_each_class(shape, error):
    with pytest.raises(error, match=r"multi_margin_loss: weight must have 4 entries, got shape \("):
        F.multi_margin_loss(facula.zeros(1, 4), facula.tensor([3]), weight=facula.ones(shape))


def ctc_reference(log_probs, target):
    """Sums over all paths."""
    steps, classes = log_probs.shape
    total = -np.inf
    for path in itertools.product(range(classes), repeat=steps):
        merged = [label for label, _ in itertools.groupby(path)]
        if [label for label in merged if label] == list(target):
            total = np.logaddexp(total, sum(log_probs[t, c] for t, c in enumerate(path)))
    return -total


def test_ctc_loss():
    logits = double(4, 2, 3, grad=True)
    targets = facula.tensor([[1, 1], [2, 0]])
    lengths = (4, 3), (2, 1)
    log_probs = values(logits) - np.log(np.exp(values(logits)).sum(-1, keepdims=True))
    want = [ctc_reference(log_probs[:4, 0], [1, 1]), ctc_reference(log_probs[:3, 1], [2])]
    got = F.ctc_loss(F.log_softmax(logits, -1), targets, *lengths, reduction="none")
    np.testing.assert_allclose(values(got), want, atol=1e-12)
    joined = F.ctc_loss(F.log_softmax(logits, -1), facula.tensor([1, 1, 2]), *map(facula.tensor, lengths))
    np.testing.assert_allclose(joined.item(), (want[0] / 2 + want[1]) / 2)
    assert gradcheck(lambda x: F.ctc_loss(F.log_softmax(x, -1), targets, *lengths), (logits,))


def test_ctc_loss_of_an_impossible_target():
    log_probs = F.log_softmax(double(2, 1, 3, grad=True), -1)
    arguments = facula.tensor([[1, 1]]), (2,), (2,)
    assert F.ctc_loss(log_probs, *arguments).item() == float("inf")
    loss = F.ctc_loss(log_probs, *arguments, zero_infinity=True)
    assert loss.item() == 0.0
    loss.backward()


@pytest.mark.parametrize("shape", [(5, 4), (1, 4), (4,)])
def test_reductions_of_multi_margin_loss_agree(shape):
    x = facula.randn(shape)
    target = facula.tensor([k % 4 for k in range(shape[0])]) if len(shape) == 2 else facula.tensor(2)
    for p in (1, 2):
        each = F.multi_margin_loss(x, target, p=p, reduction="none")
        for name in ("mean", "sum"):
            got = F.multi_margin_loss(x, target, p=p, reduction=name)
            assert got.shape == () and facula.allclose(got, getattr(each, name)(), rtol=1e-6)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_glu(requires_grad):
    x = double(3, 4).detach().requires_grad_(requires_grad)
    want = values(x)[:, :2] / (1 + np.exp(-values(x)[:, 2:]))
    np.testing.assert_allclose(values(F.glu(x, 1)), want)
    for shape, dim in (((4, 130), 1), ((70, 3), 0), ((2, 0), 1), ((2, 6, 5), -2)):
        y = facula.randn(shape).requires_grad_(requires_grad)
        first, gate = y.chunk(2, dim)
        assert facula.allclose(F.glu(y, dim), first * facula.sigmoid(gate), rtol=1e-6)
    with pytest.raises(RuntimeError, match="glu"):
        F.glu(facula.zeros(3))


@pytest.mark.parametrize("loss", [F.mse_loss, F.smooth_l1_loss, F.huber_loss])
def test_slopes_of_distances(loss):
    r = np.random.default_rng(0)
    a, b = (facula.from_numpy(v).requires_grad_() for v in r.standard_normal((2, 5, 7)) * 2)
    assert gradcheck(loss, (a, b)) and gradgradcheck(loss, (a, b))
    special = facula.tensor([np.nan, np.inf, -np.inf, 1.0, 1.5, -1.0], dtype=facula.float64, requires_grad=True)
    (slope,) = facula.autograd.grad(loss(special, facula.zeros(6, dtype=facula.float64), reduction="sum"), special)
    expected = [np.nan, np.inf, -np.inf, 2, 3, -2] if loss is F.mse_loss else [np.nan, 1, -1, 1, 1, -1]
    np.testing.assert_array_equal(slope.numpy(), expected)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("dtype", [facula.float32, facula.float64, facula.bfloat16])
def test_smoothed_labels_by_formula(dtype, weighted):
    r = np.random.default_rng(1)
    scores, labels = r.standard_normal((37, 130)), r.integers(0, 130, 37)
    labels[::5] = -100
    weight = r.random(130) + 0.5 if weighted else np.ones(130)
    x = facula.from_numpy(scores).to(dtype).requires_grad_()
    given = facula.from_numpy(weight).to(facula.float32 if dtype is facula.bfloat16 else dtype) if weighted else None
    if given is not None:
        given = given.to(dtype)
    value = F.cross_entropy(x, facula.from_numpy(labels), given, label_smoothing=0.2)
    (slope,) = facula.autograd.grad(value, x)
    z = x.detach().double().numpy()
    w = weight if given is None else given.double().numpy()
    kept = labels >= 0
    logs = z - np.log(np.exp(z).sum(1, keepdims=True))
    share = np.where(kept[:, None], 0.2 / 130 * w, 0.0)
    share[kept, labels[kept]] += 0.8 * w[labels[kept]]
    total = w[labels[kept]].sum()
    tolerance = 2e-2 if dtype is facula.bfloat16 else 1e-5
    np.testing.assert_allclose(float(value), -(share * logs).sum() / total, rtol=tolerance)
    expected = (share.sum(1, keepdims=True) * np.exp(logs) - share) / total
    np.testing.assert_allclose(slope.double().numpy(), expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@pytest.mark.parametrize("name", ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss"])
def test_means_of_many_narrow_losses(name):
    """The sum has no float16, the mean has one."""
    x = facula.full((65536,), 3.0, dtype=facula.float16)
    loss = getattr(F, name)(x, -x)
    assert loss.item() == pytest.approx({"mse_loss": 36, "l1_loss": 6}.get(name, 5.5))


# ---- scores and probabilities out of the ordinary


@pytest.mark.parametrize("size", [1e4, 1e8, 1e30])
def test_cross_entropy_of_large_scores_is_that_of_their_differences(size):
    scores = facula.tensor([[size, size, -size]], requires_grad=True)
    for target, wanted, slope in ((facula.tensor([1]), np.log(2), [0.5, -0.5, 0]), (facula.tensor([[0.5, 0.5, 0.0]]), np.log(2), [0, 0, 0])):
        loss = F.cross_entropy(scores, target)
        assert abs(loss.item() - wanted) < 1e-6
        np.testing.assert_allclose(facula.autograd.grad(loss, scores)[0], [slope], atol=1e-6)
    rows = facula.stack([scores.detach()[0], scores.detach()[0]])
    losses = facula.vmap(lambda row: F.cross_entropy(row, facula.tensor(1)))(rows)
    np.testing.assert_allclose(losses, [np.log(2)] * 2, rtol=1e-6)
    loss = F.cross_entropy(scores.detach()[:, :, None].expand(1, 3, 2), facula.tensor([[0, 1]]), label_smoothing=0.0)
    assert abs(loss.item() - np.log(2)) < 1e-6


def test_cross_entropy_keeps_small_losses_beside_large_scores():
    scores = facula.tensor([[100.0, 90.0]])
    assert abs(F.cross_entropy(scores, facula.tensor([0])).item() / np.log1p(np.exp(-10.0)) - 1) < 1e-3
    assert F.cross_entropy(scores, facula.tensor([0]), label_smoothing=0.5).item() == pytest.approx(2.5 + np.log1p(np.exp(-10.0)), rel=1e-6)


@pytest.mark.parametrize("x, t, word", [(float("nan"), 1.0, "input"), (1.5, 1.0, "input"), (0.5, 2.0, "target"), (0.5, -0.1, "target"), (0.5, float("nan"), "target")])
def test_binary_cross_entropy_takes_probabilities(x, t, word):
    with pytest.raises(RuntimeError, match=f"^binary_cross_entropy: expected an? {word} between 0 and 1"):
        F.binary_cross_entropy(facula.tensor([x]), facula.tensor([t]))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_a_batch_of_samples_has_no_positions(weighted, reduction, smoothing):
    scores, target = facula.randn(3, 5, 4, dtype=facula.float64), facula.randint(0, 4, (3, 5))
    target[1, 2] = -100
    weight = facula.rand(4, dtype=facula.float64) if weighted else None

    def loss(x, t):
        return F.cross_entropy(x, t, weight, reduction=reduction, label_smoothing=smoothing)

    def one_more(x, t):  # the same with one position for each sample
        made = F.cross_entropy(x[..., None], t[..., None], weight, reduction=reduction, label_smoothing=smoothing)
        return made[..., 0] if reduction == "none" else made

    each = facula.stack([one_more(x, t) for x, t in zip(scores, target)])
    assert facula.allclose(facula.stack([loss(x, t) for x, t in zip(scores, target)]), each)
    assert facula.allclose(facula.func.vmap(loss)(scores, target), each)
    assert facula.allclose(facula.func.vmap(lambda x: loss(x, target[1]))(scores)[1], each[1])
    for f in (lambda x: loss(x, target[1]), lambda x: F.nll_loss(x, target[1], weight, reduction=reduction)):
        x = scores[1].clone().requires_grad_()
        assert gradcheck(f, (x,)) and gradgradcheck(f, (x,))
    found = facula.func.vmap(facula.func.grad(lambda x, t: loss(x, t).sum()))(scores, target)
    wanted = [facula.func.grad(lambda x, t: one_more(x, t).sum())(x, t) for x, t in zip(scores, target)]
    assert facula.allclose(found, facula.stack(wanted))


@pytest.mark.parametrize("dtype", [facula.float32, facula.float64, facula.bfloat16])
@pytest.mark.parametrize("classes", [2, 16, 20, 40])
@pytest.mark.parametrize("positions", [(), (3,)])
def test_scores_without_end(dtype, classes, positions):
    def loss(first, second, rest, chosen):
        scores = facula.full((1, classes, *positions), rest, dtype=dtype)
        scores[:, 0], scores[:, 1] = first, second
        return F.cross_entropy(scores, facula.full((1, *positions), chosen)).item()

    inf = float("inf")
    for chosen in (0, 1):  # where one is infinite, no other has a share
        assert np.isnan(loss(inf, 1.0, 0.0, chosen)) and np.isnan(loss(inf, inf, 0.0, chosen))
        assert np.isnan(loss(-inf, -inf, -inf, chosen))
    assert loss(1.0, -inf, -inf, 0) == 0 and loss(1.0, -inf, -inf, 1) == inf
