"""Functions of nn.functional that are written in Python, against closed forms and NumPy."""

import math

import numpy as np
import pytest

import facula
import facula.nn.functional as F
from facula import nn


def array(tensor):
    return tensor.detach().numpy()


def tensor(shape, seed=0):
    return facula.from_numpy(np.random.default_rng(seed).standard_normal(shape))


def softmax(values):
    e = np.exp(values - values.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# -- activations ---------------------------------------------------------------------------------------------

FORMULAS = {
    "relu": lambda x: np.maximum(x, 0),
    "relu6": lambda x: np.clip(x, 0, 6),
    "elu": lambda x: np.where(x > 0, x, np.expm1(x)),
    "leaky_relu": lambda x: np.where(x > 0, x, 0.01 * x),
    "hardtanh": lambda x: np.clip(x, -1, 1),
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "mish": lambda x: x * np.tanh(np.log1p(np.exp(x))),
    "softsign": lambda x: x / (1 + np.abs(x)),
    "tanhshrink": lambda x: x - np.tanh(x),
    "softplus": lambda x: np.log1p(np.exp(x)),
    "logsigmoid": lambda x: -np.log1p(np.exp(-x)),
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "celu": lambda x: np.where(x > 0, x, np.expm1(x)),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_activation_formula(name):
    x = tensor((3, 5)) * 4
    np.testing.assert_allclose(array(getattr(F, name)(x)), FORMULAS[name](array(x)), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(
    "name", ["relu", "relu6", "elu", "selu", "celu", "leaky_relu", "hardtanh", "silu", "mish"]
)
def test_inplace_returns_its_input(name):
    x = tensor((4,))
    expected = array(getattr(F, name)(x)).copy()
    result = getattr(F, name)(x, inplace=True)
    assert result is x
    np.testing.assert_array_equal(array(x), expected)


def test_softmax_family():
    x = tensor((2, 3))
    np.testing.assert_allclose(array(F.softmax(x, 1)), softmax(array(x)), rtol=1e-7)
    np.testing.assert_allclose(array(F.softmin(x, 1)), softmax(-array(x)), rtol=1e-7)
    np.testing.assert_allclose(array(F.log_softmax(x, 1)), np.log(softmax(array(x))), rtol=1e-7)
    with pytest.warns(UserWarning, match="softmax: give dim"):
        assert F.softmax(x).shape == (2, 3)


def test_gumbel_softmax():
    facula.manual_seed(0)
    x = tensor((50, 3)).requires_grad_()
    hard = F.gumbel_softmax(x, hard=True)
    np.testing.assert_allclose(array(hard).sum(1), 1.0, rtol=1e-6)
    assert set(np.round(array(hard), 6).ravel().tolist()) == {0.0, 1.0}
    (hard * facula.arange(3)).sum().backward()
    assert np.abs(array(x.grad)).max() > 0


@pytest.mark.parametrize(
    "call, error, text",
    [
        (lambda x: F.hardtanh(x, 1.0, -1.0), ValueError, "hardtanh.*got 1.0 and -1.0"),
        (lambda x: F.glu(x.sum()), RuntimeError, "glu"),
        (lambda x: F.dropout(x, 1.5), ValueError, "dropout.*got 1.5"),
        (lambda x: F.l1_loss(x, x, reduction="all"), ValueError, "reduction.*got 'all'"),
        (lambda x: F.interpolate(x, size=2, scale_factor=2.0), ValueError, "interpolate"),
        (lambda x: F.local_response_norm(x, 2), ValueError, "local_response_norm.*got 2"),
        (lambda x: F.group_norm(x[0], 1), RuntimeError, "group_norm.*got 1"),
    ],
)
def test_bad_arguments(call, error, text):
    with pytest.raises(error, match=text):
        call(tensor((2, 4)))


# -- dropout -------------------------------------------------------------------------------------------------


def test_dropout_kinds():
    facula.manual_seed(0)
    ones = facula.ones(20, 10, 3)
    assert F.dropout(ones, 0.5, training=False) is ones or bool((F.dropout(ones, 0.5, False) == ones).all())
    kept = array(F.dropout(ones, 0.25))
    np.testing.assert_allclose(np.unique(kept), [0.0, 1 / 0.75], rtol=1e-6)
    channels = array(F.dropout1d(ones, 0.5))
    assert (channels == channels[:, :, :1]).all() and set(np.unique(channels)) == {0.0, 2.0}
    assert not array(F.dropout(ones, 1.0)).any()


def test_alpha_dropout_keeps_moments():
    facula.manual_seed(0)
    x = facula.randn(200000)
    y = array(F.alpha_dropout(x, 0.2, training=True))
    assert abs(y.mean()) < 0.02 and abs(y.std() - 1) < 0.02


# -- embeddings ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode, reduce", [("sum", np.sum), ("mean", np.mean), ("max", np.max)])
def test_embedding_bag(mode, reduce):
    weight, index = tensor((5, 3)), facula.tensor([[0, 4], [1, 1]])
    got = F.embedding_bag(index, weight, mode=mode)
    np.testing.assert_allclose(array(got), reduce(array(weight)[array(index)], axis=1), rtol=1e-7)
    flat = F.embedding_bag(index.reshape(-1), weight, facula.tensor([0, 2]), mode=mode)
    np.testing.assert_allclose(array(flat), array(got), rtol=1e-7)


def test_embedding_max_norm_rescales_only_used_rows():
    weight = facula.full((3, 4), 2.0)
    F.embedding(facula.tensor([2]), weight, max_norm=1.0)
    np.testing.assert_allclose(np.linalg.norm(array(weight), axis=1), [4.0, 4.0, 1.0], rtol=1e-5)


@pytest.mark.parametrize("of_bags", [False, True])
def test_rows_that_were_scaled_down_are_not_above_the_bound(of_bags):
    facula.manual_seed(0)
    weight = facula.randn(3000, 5) * 2
    index = facula.arange(3000)
    F.embedding_bag(index[None], weight, max_norm=1.0) if of_bags else F.embedding(index, weight, max_norm=1.0)
    assert (weight.norm(dim=1) <= 1).all()
    kept = weight.clone()
    F.embedding(index, weight, max_norm=1.0)
    assert facula.equal(weight, kept), "and so they are scaled once"


# -- normalization -------------------------------------------------------------------------------------------


def test_normalize_and_local_response_norm():
    x = tensor((2, 5, 3))
    values = array(x)
    expected = values / np.linalg.norm(values, axis=1, keepdims=True)
    np.testing.assert_allclose(array(F.normalize(x)), expected, rtol=1e-7)
    padded = np.pad(values**2, ((0, 0), (1, 1), (0, 0)))
    mean = (padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:]) / 3
    expected = values / (2 + 0.5 * mean) ** 0.75
    np.testing.assert_allclose(array(F.local_response_norm(x, 3, alpha=0.5, k=2.0)), expected, rtol=1e-7)


# -- losses --------------------------------------------------------------------------------------------------


def numpy_losses(x, t):
    d = np.abs(x - t)
    return {
        "l1_loss": d,
        "mse_loss": d**2,
        "smooth_l1_loss": np.where(d < 1, 0.5 * d**2, d - 0.5),
        "huber_loss": np.where(d < 1, 0.5 * d**2, d - 0.5),
    }


@pytest.mark.parametrize("name", ["l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss"])
def test_regression_losses(name):
    x, t = tensor((3, 4)), tensor((3, 4), 1)
    expected = numpy_losses(array(x), array(t))[name]
    function = getattr(F, name)
    np.testing.assert_allclose(array(function(x, t, reduction="none")), expected, rtol=1e-7)
    np.testing.assert_allclose(function(x, t).item(), expected.mean(), rtol=1e-7)
    np.testing.assert_allclose(function(x, t, reduction="sum").item(), expected.sum(), rtol=1e-7)
    with pytest.warns(UserWarning, match=name + r".*\(3, 4\) and \(4,\)"):
        function(x, t[0])


def test_weighted_mse():
    x, t, w = tensor((6,)), tensor((6,), 1), tensor((6,), 2).abs()
    terms = (array(x) - array(t)) ** 2 * array(w)
    np.testing.assert_allclose(F.mse_loss(x, t, reduction="sum", weight=w).item(), terms.sum(), rtol=1e-7)
    np.testing.assert_allclose(F.mse_loss(x, t, weight=w).item(), terms.sum() / array(w).sum(), rtol=1e-7)


def test_cross_entropy_kinds():
    x, index = tensor((4, 3)), np.array([0, 2, 1, 2])
    log_prob = np.log(softmax(array(x)))
    target = facula.from_numpy(index)
    np.testing.assert_allclose(
        F.cross_entropy(x, target).item(), -log_prob[np.arange(4), index].mean(), rtol=1e-7
    )
    smooth = np.full((4, 3), 0.1 / 3)
    smooth[np.arange(4), index] += 0.9
    expected = -(smooth * log_prob).sum(1).mean()
    np.testing.assert_allclose(F.cross_entropy(x, target, label_smoothing=0.1).item(), expected, rtol=1e-7)
    np.testing.assert_allclose(F.cross_entropy(x, facula.from_numpy(smooth)).item(), expected, rtol=1e-7)
    weight = tensor((3, 5), 3)
    fused = F.linear_cross_entropy(tensor((4, 5), 4), weight, target)
    plain = F.cross_entropy(tensor((4, 5), 4) @ weight.t(), target)
    np.testing.assert_allclose(fused.item(), plain.item(), rtol=1e-7)


def test_binary_losses_are_stable():
    x = facula.tensor([-200.0, 0.0, 200.0], dtype=facula.float64)
    t = facula.tensor([1.0, 1.0, 1.0], dtype=facula.float64)
    got = array(F.binary_cross_entropy_with_logits(x, t, reduction="none"))
    np.testing.assert_allclose(got, [200.0, np.log(2), 0.0], atol=1e-12)
    np.testing.assert_allclose(array(F.soft_margin_loss(x, t, reduction="none")), got, atol=1e-12)
    with pytest.raises(RuntimeError, match=r"^soft_margin_loss: .*\(3, 1\), got \(3,\)$"):
        F.soft_margin_loss(facula.ones(3, 1), facula.ones(3))
    with pytest.raises(ValueError, match=r"binary_cross_entropy.*got \(2,\)"):
        F.binary_cross_entropy(x.sigmoid(), t[:2])


def test_margin_losses():
    x = tensor((2, 4))
    values, target = array(x), np.array([3, 1])
    terms = np.maximum(0, 1 - values[[0, 1], target][:, None] + values)
    terms[[0, 1], target] = 0
    np.testing.assert_allclose(
        array(F.multi_margin_loss(x, facula.from_numpy(target), reduction="none")),
        terms.sum(1) / 4,
        rtol=1e-7,
    )
    labels = facula.tensor([[3, 0, -1, 1], [-1, 0, 1, 2]])
    got = array(F.multilabel_margin_loss(x, labels, reduction="none"))
    expected = sum(max(0, 1 - (values[0, j] - values[0, i])) for j in (3, 0) for i in (1, 2)) / 4
    np.testing.assert_allclose(got, [expected, 0.0], rtol=1e-7)


def test_embedding_and_ranking_losses():
    a, b, c = tensor((3, 4)), tensor((3, 4), 1), tensor((3, 4), 2)
    sign = facula.tensor([1.0, -1.0, 1.0])
    va, vb, vc = array(a), array(b), array(c)
    cos = (va * vb).sum(1) / np.linalg.norm(va, axis=1) / np.linalg.norm(vb, axis=1)
    expected = np.where(array(sign) == 1, 1 - cos, np.maximum(0, cos - 0.1))
    np.testing.assert_allclose(
        array(F.cosine_embedding_loss(a, b, sign, 0.1, reduction="none")), expected, rtol=1e-6
    )
    near = np.linalg.norm(va - vb + 1e-6, axis=1)
    far = np.minimum(np.linalg.norm(va - vc + 1e-6, axis=1), np.linalg.norm(vb - vc + 1e-6, axis=1))
    expected = np.maximum(0, near - far + 1)
    got = F.triplet_margin_loss(a, b, c, swap=True, reduction="none")
    np.testing.assert_allclose(array(got), expected, rtol=1e-7)
    ranking = F.margin_ranking_loss(a, b, facula.ones(3, 4), margin=0.5, reduction="sum")
    np.testing.assert_allclose(ranking.item(), np.maximum(0, vb - va + 0.5).sum(), rtol=1e-7)


def test_likelihood_losses():
    x, t = tensor((5,)), tensor((5,), 1).abs() * 3
    vx, vt = array(x), array(t)
    np.testing.assert_allclose(F.poisson_nll_loss(x, t).item(), (np.exp(vx) - vt * vx).mean(), rtol=1e-7)
    var = facula.full((5,), 2.0, dtype=facula.float64)
    expected = 0.5 * (np.log(2) + (vx - vt) ** 2 / 2 + np.log(2 * np.pi)).mean()
    np.testing.assert_allclose(F.gaussian_nll_loss(x, t, var, full=True).item(), expected, rtol=1e-7)
    with pytest.raises(ValueError, match="gaussian_nll_loss"):
        F.gaussian_nll_loss(x, t, -var)
    p, q = softmax(vx), softmax(vt)
    got = F.kl_div(facula.from_numpy(np.log(p)), facula.from_numpy(q), reduction="sum").item()
    np.testing.assert_allclose(got, (q * np.log(q / p)).sum(), rtol=1e-6)


# -- images --------------------------------------------------------------------------------------------------


def test_pooling_and_unpooling():
    x = tensor((1, 2, 4, 6))
    blocks = array(x).reshape(1, 2, 2, 2, 3, 2)
    np.testing.assert_allclose(array(F.max_pool2d(x, 2)), blocks.max((3, 5)))
    np.testing.assert_allclose(array(F.avg_pool2d(x, 2)), blocks.mean((3, 5)), rtol=1e-7)
    np.testing.assert_allclose(array(F.lp_pool2d(x.abs(), 2, 2)), np.sqrt((blocks**2).sum((3, 5))), rtol=1e-6)
    pooled, index = F.max_pool2d(x, 2, return_indices=True)
    back = F.max_unpool2d(pooled, index, 2)
    assert back.shape == x.shape
    np.testing.assert_allclose(array(F.max_pool2d(back.abs(), 2)), np.abs(blocks.max((3, 5))))
    assert F.adaptive_avg_pool2d(x, (None, 2)).shape == (1, 2, 4, 2)


def test_interpolate():
    x = tensor((1, 1, 3, 4))
    doubled = F.interpolate(x, scale_factor=2)
    np.testing.assert_allclose(array(doubled), array(x).repeat(2, 2).repeat(2, 3))
    row = F.interpolate(facula.tensor([[[0.0, 2.0]]]), size=3, mode="linear", align_corners=True)
    np.testing.assert_allclose(array(row)[0, 0], [0.0, 1.0, 2.0])
    assert F.interpolate(x, size=(2, 2), mode="area").shape == (1, 1, 2, 2)
    with pytest.raises(NotImplementedError, match="interpolate.*'trilinear'"):
        F.interpolate(x, size=2, mode="trilinear")


@pytest.mark.parametrize("align_corners", [True, False])
def test_identity_affine_grid_samples_the_image(align_corners):
    x = tensor((2, 3, 4, 5))
    theta = facula.tensor([[1.0, 0, 0], [0, 1, 0]], dtype=facula.float64).expand(2, 2, 3)
    grid = F.affine_grid(theta, x.shape, align_corners=align_corners)
    assert grid.shape == (2, 4, 5, 2)
    np.testing.assert_allclose(
        array(F.grid_sample(x, grid, align_corners=align_corners)), array(x), atol=1e-9
    )


def test_fold_is_the_adjoint_of_unfold():
    x = tensor((1, 2, 4, 4))
    columns = F.unfold(x, 2, stride=2)
    assert columns.shape == (1, 8, 4)
    np.testing.assert_allclose(array(F.fold(columns, 4, 2, stride=2)), array(x))


def test_pad_modes():
    x = facula.arange(4.0).reshape(1, 1, 4)
    names = {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}
    for mode, numpy_mode in names.items():
        expected = np.pad(array(x), ((0, 0), (0, 0), (2, 1)), mode=numpy_mode)
        np.testing.assert_array_equal(array(F.pad(x, (2, 1), mode)), expected)


# -- nn.grad and attention -----------------------------------------------------------------------------------


def test_convolution_gradients():
    x, w = tensor((1, 2, 5, 5)).requires_grad_(), tensor((3, 2, 3, 3), 1).requires_grad_()
    out = F.conv2d(x, w, stride=2, padding=1)
    grad = tensor(tuple(out.shape), 2)
    out.backward(grad)
    got = nn.grad.conv2d_input(x.shape, w, grad, stride=2, padding=1)
    np.testing.assert_allclose(array(got), array(x.grad), rtol=1e-7)
    got = nn.grad.conv2d_weight(x, w.shape, grad, stride=2, padding=1)
    np.testing.assert_allclose(array(got), array(w.grad), rtol=1e-7)


def test_scaled_dot_product_attention():
    q, k, v = (tensor((2, 3, 4), seed) for seed in range(3))
    expected = softmax(array(q) @ array(k).transpose(0, 2, 1) / 2) @ array(v)
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        got = F.scaled_dot_product_attention(q, k, v)
    np.testing.assert_allclose(array(got), expected, rtol=1e-6, atol=1e-9)


def test_grouped_products():
    a, b = facula.randn(10, 4), facula.randn(3, 4, 5)
    offs = facula.tensor([2, 5, 9], dtype=facula.int32)
    out = F.grouped_mm(a, b, offs=offs)
    expected = facula.cat([a[:2] @ b[0], a[2:5] @ b[1], a[5:9] @ b[2], facula.zeros(1, 5)])
    facula.testing.assert_close(out, expected)
    facula.testing.assert_close(F.grouped_mm(b.mT, a.mT, offs=offs), expected.mT)
    sums = F.grouped_mm(a.mT, a, offs=offs)
    facula.testing.assert_close(sums[1], a[2:5].mT @ a[2:5])
    facula.testing.assert_close(F.grouped_mm(b.mT, b, bias=facula.ones(5)), facula.bmm(b.mT, b) + 1)
    assert F.grouped_mm(a, b, offs=offs, out_dtype=facula.float64).dtype == facula.float64
    with pytest.raises(RuntimeError, match="^grouped_mm: .*3 groups, got 2"):
        F.grouped_mm(a, b, offs=offs[:2])
    with pytest.raises(RuntimeError, match="^grouped_mm: the inner dimensions"):
        F.grouped_mm(a[:, :3], b, offs=offs)
    with pytest.raises(NotImplementedError, match="^torch.nn.functional.scaled_grouped_mm is not supported"):
        F.scaled_grouped_mm(a, b)


def test_copies_between_devices():
    from facula.nn.parallel import comm
    from facula.nn.parallel.parallel_apply import get_a_var

    x = facula.arange(6.0)
    assert [t.tolist() for t in comm.scatter(x, ["cpu", "cpu"])] == [[0, 1, 2], [3, 4, 5]]
    assert comm.gather(comm.scatter(x, ["cpu"] * 3)).tolist() == x.tolist()
    assert comm.reduce_add([x, x, x]).tolist() == (3 * x).tolist() and x[1] == 1
    assert comm.reduce_add_coalesced([[x, x], [x, x]])[1].tolist() == (2 * x).tolist()
    assert len(comm.broadcast(x, ["cpu", "cpu"])) == 2 and len(comm.broadcast_coalesced([x], ["cpu"])) == 1
    with pytest.raises(ValueError, match="^reduce_add: "):
        comm.reduce_add([x, x[1:]])
    assert get_a_var({"a": [None, (3, x)]}) is x and get_a_var([3]) is None


PADS = [(2, 1), (0, 3), (-1, 2), (2, -1), (1, 0, 2, 1), (-1, 1, 0, -2), (3, 3, 2, 2, 1, 1), (0, 0, 1, 2), (2, -1, -1, 1, 1, 0)]


def padded_by_numpy(a, pad, mode):
    """Dimension by dimension: what is cut away is seen by the other end, but not by a circle."""
    for k in range(len(pad) // 2):
        before, after = pad[2 * k : 2 * k + 2]
        d = a.ndim - 1 - k
        cut = [slice(None)] * a.ndim
        cut[d] = slice(max(-before, 0), a.shape[d] - max(-after, 0))
        if mode == "circular":
            a = a[tuple(cut)]
        widths = [(0, 0)] * a.ndim
        widths[d] = (max(before, 0), max(after, 0))
        numpy_mode = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
        a = np.pad(a, widths, mode=numpy_mode)
        if mode != "circular":
            cut[d] = slice(max(-before, 0), a.shape[d] - max(-after, 0))
            a = a[tuple(cut)]
    return a


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("pad", PADS)
def test_padding_with_own_elements(mode, pad):
    n = len(pad) // 2
    for batch in ((2, 3), (3,)):
        shape = (*batch, *[5, 4, 6][3 - n :])
        for dtype in ("float64", "float32", "int16", "bool", "complex128"):
            a = (np.random.default_rng(1).standard_normal(shape) * 9).astype(dtype)
            t = facula.from_numpy(a)
            np.testing.assert_array_equal(F.pad(t, pad, mode).numpy(), padded_by_numpy(a, pad, mode))
            np.testing.assert_array_equal(F.pad(t.transpose(0, 1).contiguous().transpose(0, 1), pad, mode).numpy(), padded_by_numpy(a, pad, mode))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_padding_of_images_channels_last(mode):
    a = np.random.default_rng(1).standard_normal((2, 19, 6, 40)).astype(np.float32)
    t = facula.from_numpy(a).contiguous(memory_format=facula.channels_last)
    out = F.pad(t, (3, 1, 0, 2), mode)
    np.testing.assert_array_equal(out.numpy(), padded_by_numpy(a, (3, 1, 0, 2), mode))
    assert out.is_contiguous(memory_format=facula.channels_last) == (mode != "circular")


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@pytest.mark.parametrize("pad", PADS)
def test_derivatives_of_padding(mode, pad):
    n = len(pad) // 2
    x = tensor((2, 2, *[4, 3, 4][3 - n :])).double().requires_grad_()
    assert facula.autograd.gradcheck(lambda t: F.pad(t, pad, mode), x)
    assert facula.autograd.gradgradcheck(lambda t: F.pad(t, pad, mode) ** 2, x)
    if x.dim() == 4:
        last = x.detach().contiguous(memory_format=facula.channels_last).requires_grad_()
        grads = [facula.autograd.grad((F.pad(t, pad, mode) ** 3).sum(), t)[0] for t in (x, last)]
        np.testing.assert_allclose(array(grads[0]), array(grads[1]), rtol=1e-12)
    by_example = facula.func.vmap(lambda t: F.pad(t, pad, mode))(x.detach())
    np.testing.assert_array_equal(array(by_example), array(F.pad(x.detach(), pad, mode)))


def test_padding_that_does_not_fit():
    x = tensor((1, 2, 4))
    for pad, mode in (((4, 0), "reflect"), ((0, 5), "circular"), ((-2, -2), "replicate"), ((-4, 1), "circular"), ((0, 2**62), "reflect")):
        with pytest.raises(RuntimeError, match="^pad: "):
            F.pad(x, pad, mode)
    with pytest.raises(RuntimeError, match="^pad: .*empty"):
        F.pad(facula.zeros(2, 0, 4), (1, 1), "replicate")
    assert F.pad(facula.zeros(0, 2, 4), (1, 1), "replicate").shape == (0, 2, 6)


def test_distances_of_degree_zero_count_numbers_only():
    x = facula.tensor([[math.inf, 1.0], [math.inf, 2.0], [0.0, 2.0]], requires_grad=True)
    assert str(F.pdist(x, 0.0).tolist()) == "[nan, 2.0, 1.0]"
    assert str(facula.cdist(x, x[:2], 0.0).tolist()) == "[[nan, nan], [nan, nan], [2.0, 1.0]]"
    facula.cdist(x, x[1:], 0.0)[0, 1].backward()
    assert x.grad.tolist() == [[0, 0]] * 3
