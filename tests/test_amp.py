"""Autocast regions and gradient scaling."""

import threading
import warnings

import pytest

import facula
from facula import nn
from facula.amp import GradScaler, autocast, custom_bwd, custom_fwd
from facula.nn import functional as F

BF16, F16, F32, F64 = facula.bfloat16, facula.float16, facula.float32, facula.float64


def square(dtype=F32, n=3, **options):
    return facula.ones(n, n, dtype=dtype, **options)


# what PyTorch 2.13 does on the CPU: (call, dtype of the result for float32 input, for bfloat16 input)
POLICIES = {
    "mm": (lambda a: a.mm(a), BF16, BF16),
    "matmul operator": (lambda a: a @ a, BF16, BF16),
    "linear": (lambda a: F.linear(a, a), BF16, BF16),
    "addmm": (lambda a: facula.addmm(a, a, a), BF16, BF16),
    "bmm": (lambda a: facula.bmm(a[None], a[None]), BF16, BF16),
    "conv1d": (lambda a: F.conv1d(a[None], a[:, :, None]), BF16, BF16),
    "conv2d same": (lambda a: F.conv2d(a[None, None], a[None, None], padding="same"), BF16, BF16),
    "conv_transpose2d": (lambda a: F.conv_transpose2d(a[None, None], a[None, None]), BF16, BF16),
    "einsum": (lambda a: facula.einsum("ij,jk->ik", a, a), BF16, BF16),
    "attention": (lambda a: F.scaled_dot_product_attention(a[None], a[None], a[None]), BF16, BF16),
    "prelu": (lambda a: F.prelu(a, a[0, :1]), BF16, BF16),
    "prod": (lambda a: a.prod(), F32, F32),
    "trace": (lambda a: a.trace(), F32, F32),
    "cdist": (lambda a: facula.cdist(a, a), F32, F32),
    "mse_loss": (lambda a: F.mse_loss(a, a), F32, F32),
    "cross_entropy": (lambda a: F.cross_entropy(a, facula.zeros(3, dtype=facula.int64)), F32, F32),
    "binary_cross_entropy": (lambda a: F.binary_cross_entropy(a, a), F32, F32),
    "margin_ranking_loss": (lambda a: F.margin_ranking_loss(a, a, a), F32, F32),
    "avg_pool3d": (lambda a: F.avg_pool3d(a[None, None], 1), F32, F32),
    "replicate pad": (lambda a: F.pad(a, (1, 1), mode="replicate"), F32, F32),
    "inverse": (lambda a: facula.linalg.inv(a + facula.eye(3, dtype=a.dtype)), F32, F32),
    "add": (lambda a: a + a, F32, BF16),
    "softmax": (lambda a: a.softmax(0), F32, BF16),
    "avg_pool2d": (lambda a: F.avg_pool2d(a[None, None], 1), F32, BF16),
    "mv": (lambda a: a.mv(a[0]), F32, BF16),
    "matrix_exp": (lambda a: facula.linalg.matrix_exp(a.float()), F32, F32),
    "bilinear": (lambda a: F.bilinear(a, a, a[None]), F32, BF16),
    "constant pad": (lambda a: F.pad(a, (1, 1)), F32, BF16),
    "cat": (lambda a: facula.cat([a, a]), F32, BF16),
    "cat mixed": (lambda a: facula.cat([a, a.bfloat16()]), F32, BF16),
    "stack": (lambda a: facula.stack([a, a]), F32, BF16),
    "index_copy": (lambda a: facula.index_copy(a, 0, facula.tensor([0]), a[:1]), F32, BF16),
    "in place": (lambda a: a.clone().addmm_(a, a), F32, BF16),
    "out=": (lambda a: facula.mm(a, a, out=facula.empty(0, dtype=a.dtype)), F32, BF16),
}


@pytest.mark.parametrize("name", POLICIES)
def test_policy(name):
    call, of_float32, of_bfloat16 = POLICIES[name]
    with autocast("cpu"):
        assert call(square()).dtype == of_float32
        assert call(square(BF16)).dtype == of_bfloat16


@pytest.mark.parametrize("name", ["mm", "prod", "mse_loss", "cat", "conv1d"])
def test_float64_and_disabled_regions_change_nothing(name):
    call = POLICIES[name][0]
    with autocast("cpu"):
        assert call(square(F64)).dtype == F64
        with autocast("cpu", enabled=False):
            assert call(square()).dtype == F32
    assert call(square()).dtype == F32


def test_integers_and_complex_numbers_are_left_alone():
    with autocast("cpu"):
        assert square(facula.int64).mm(square(facula.int64)).dtype == facula.int64
        assert square(facula.complex64).mm(square(facula.complex64)).dtype == facula.complex64


def test_float16_region():
    with autocast("cpu", dtype=F16):
        assert (square() @ square()).dtype == F16
        assert (square(BF16) @ square()).dtype == F16


def test_half_precision_of_another_region_is_an_error():
    with autocast("cpu"), pytest.raises(RuntimeError, match=r"^cat: .*got .*float16"):
        facula.cat([square(F16), square()])


def test_regions_nest_and_restore():
    assert not facula.is_autocast_enabled("cpu")
    with autocast("cpu"):
        with autocast("cpu", dtype=F16, cache_enabled=False):
            assert facula.get_autocast_dtype("cpu") == F16 and not facula.is_autocast_cache_enabled()
        assert facula.get_autocast_dtype("cpu") == BF16 and facula.is_autocast_cache_enabled()
        assert facula.is_autocast_enabled("cpu")
    assert not facula.is_autocast_enabled("cpu")
    with pytest.raises(KeyError), autocast("cpu"):
        raise KeyError("left by an error")
    assert not facula.is_autocast_enabled("cpu")


def test_decorator_and_reuse():
    region = facula.autocast("cpu")

    @region
    def product(a):
        """Squares."""
        return a @ a

    assert product(square()).dtype == BF16 and product.__doc__ == "Squares."
    assert product(square()).dtype == BF16


def test_region_belongs_to_its_thread():
    seen = []
    with autocast("cpu"):
        thread = threading.Thread(target=lambda: seen.append((square() @ square()).dtype))
        thread.start()
        thread.join()
    assert seen == [F32]


def test_wrong_arguments():
    with pytest.raises(ValueError, match="^autocast: .*int"):
        autocast(3)
    with pytest.raises(RuntimeError, match="^autocast: .*'abc'"):
        autocast("abc")
    with pytest.raises(RuntimeError, match="^autocast: .*'meta'"):
        autocast("meta")
    with pytest.warns(UserWarning, match="autocast: .*float32"):
        assert not autocast("cpu", dtype=F32)._enabled
    with pytest.warns(UserWarning, match="autocast: .*int64"), autocast("cpu", dtype=facula.int64):
        assert (square() @ square()).dtype == F32 and facula.get_autocast_dtype("cpu") == facula.int64
    with autocast("cpu", dtype=facula.int64, enabled=False):
        assert (square() @ square()).dtype == F32
    with pytest.raises(TypeError, match="^is_autocast_enabled: .*int"):
        facula.is_autocast_enabled(3)
    with pytest.raises(TypeError, match="^set_autocast_dtype: .*bool"):
        facula.set_autocast_dtype("cpu", True)


@pytest.mark.skipif(facula.cuda.is_available(), reason="needs a machine without a GPU")
def test_cuda_without_a_device():
    with pytest.warns(UserWarning, match="CUDA"):
        region = autocast("cuda")
    with region:
        assert (square() @ square()).dtype == F32
    with pytest.warns(UserWarning, match="CUDA"):
        assert not GradScaler().is_enabled()


def test_state_functions():
    assert facula.amp.is_autocast_available("cpu") and not facula.amp.is_autocast_available("meta")
    facula.set_autocast_enabled("cpu", True)
    try:
        assert (square() @ square()).dtype == BF16
    finally:
        facula.set_autocast_enabled("cpu", False)
    facula.set_autocast_dtype("cpu", F16)
    try:
        with autocast("cpu"):
            assert (square() @ square()).dtype == F16
    finally:
        facula.set_autocast_dtype("cpu", BF16)
    try:
        facula.set_autocast_dtype("cpu", facula.int64)  # it is regions that say which dtypes they support
        assert facula.get_autocast_dtype("cpu") == facula.int64
        facula.set_autocast_enabled("cpu", True)
        assert (square() @ square()).dtype == facula.int64
    finally:
        facula.set_autocast_enabled("cpu", False)
        facula.set_autocast_dtype("cpu", BF16)
    with pytest.warns(DeprecationWarning, match="is_autocast_cpu_enabled"):
        assert facula.is_autocast_cpu_enabled() is False


def test_deprecated_modules():
    with pytest.warns(FutureWarning, match="cpu.amp.autocast"):
        region = facula.cpu.amp.autocast()
    with region:
        assert (square() @ square()).dtype == BF16
    with pytest.warns(FutureWarning, match="cuda.amp.GradScaler"):
        assert isinstance(facula.cuda.amp.GradScaler(enabled=False), GradScaler)


# weights that are cast once


def casts_of(weight, outputs):
    """How many different cast weights the outputs lead to."""
    found = set()
    for out in outputs:
        for node, _ in out.grad_fn.next_functions:
            if node is not None and node.next_functions and node.next_functions[0][0] is weight:
                found.add(id(node))
    return len(found)


def test_weight_is_cast_once_per_outermost_region():
    w = square(requires_grad=True)
    accumulator = w._accumulator()
    x = square(BF16)
    with autocast("cpu"):
        outputs = [x.mm(w)]
        with autocast("cpu"):
            outputs.append(x.mm(w))
        outputs.append(x.mm(w))
    assert casts_of(accumulator, outputs) == 1
    with autocast("cpu"):
        outputs.append(x.mm(w))
    assert casts_of(accumulator, outputs) == 2
    with autocast("cpu", cache_enabled=False):
        assert casts_of(accumulator, [x.mm(w), x.mm(w)]) == 2


def test_cached_weight_notices_writes_and_recording():
    w = square(requires_grad=True)
    x = square(BF16)
    with autocast("cpu"):
        with facula.no_grad():
            first = x.mm(w)
        assert x.mm(w).requires_grad
        with facula.no_grad():
            w.mul_(2)
        assert facula.equal(x.mm(w).detach(), 2 * first)


def test_cache_keeps_nothing_alive():
    import weakref

    w = square(requires_grad=True)
    alive = weakref.ref(w)
    with autocast("cpu"):
        w @ w
    del w
    assert alive() is None


# gradients


def test_gradients_arrive_in_the_dtype_of_the_leaf():
    layer = nn.Linear(4, 3)
    x = facula.randn(5, 4, requires_grad=True)
    with autocast("cpu"):
        loss = F.mse_loss(layer(x), facula.zeros(5, 3))
    assert loss.dtype == F32
    loss.backward()
    assert {p.grad.dtype for p in layer.parameters()} == {F32} and x.grad.dtype == F32
    exact = nn.Linear(4, 3)
    exact.load_state_dict(layer.state_dict())
    F.mse_loss(exact(x.detach()), facula.zeros(5, 3)).backward()
    facula.testing.assert_close(layer.weight.grad, exact.weight.grad, atol=2e-2, rtol=2e-2)


def test_double_backward():
    w = square(requires_grad=True)
    with autocast("cpu"):
        y = (w @ w).float().pow(2).sum()
    (g,) = facula.autograd.grad(y, w, create_graph=True)
    assert g.dtype == F32
    g.sum().backward()
    assert w.grad.dtype == F32 and w.grad.isfinite().all()


def test_forward_mode():
    from facula.autograd import forward_ad

    with forward_ad.dual_level(), autocast("cpu"):
        x = forward_ad.make_dual(square(), square())
        primal, tangent = forward_ad.unpack_dual(x @ square())
        assert primal.dtype == BF16 and tangent.dtype == BF16
        assert facula.equal(tangent.float(), 3 * square())


@pytest.mark.parametrize("mode", [facula.no_grad, facula.inference_mode])
def test_without_recording(mode):
    layer = nn.Linear(3, 3)
    with mode(), autocast("cpu"):
        y = layer(square())
        assert y.dtype == BF16 and not y.requires_grad
        assert facula.equal(layer(square()), y)


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoint_repeats_the_region(reentrant):
    from facula.utils.checkpoint import checkpoint

    seen = []

    def part(x, w):
        y = x @ w
        seen.append(y.dtype)
        return y.float().sin()

    x, w = square(requires_grad=True), square(requires_grad=True)
    with autocast("cpu"):
        y = checkpoint(part, x, w, use_reentrant=reentrant)
    y.sum().backward()
    assert seen == [BF16, BF16]
    assert w.grad.dtype == F32


def test_vmap():
    with autocast("cpu"):
        y = facula.func.vmap(lambda a: a @ square())(facula.ones(2, 3, 3))
    assert y.dtype == BF16 and facula.equal(y.float(), facula.full((2, 3, 3), 3.0))


@pytest.mark.parametrize("layer, dtype", [(nn.LSTM, BF16), (nn.GRU, F32), (nn.RNN, BF16)])
def test_recurrent_networks(layer, dtype):
    network = layer(3, 4, num_layers=2)
    with autocast("cpu"):
        output, _ = network(facula.ones(5, 2, 3))
    assert output.dtype == dtype
    output.float().sum().backward()
    assert network.weight_ih_l0.grad.dtype == F32


@pytest.mark.parametrize("norm", [nn.BatchNorm2d(3), nn.GroupNorm(3, 3), nn.InstanceNorm2d(3, affine=True)])
def test_normalization_keeps_the_lower_precision(norm):
    with autocast("cpu"):
        assert norm(nn.Conv2d(3, 3, 1)(facula.randn(2, 3, 4, 4))).dtype == BF16


# autograd.Function


def make_function(forward_options):
    class Product(facula.autograd.Function):
        seen = []

        @staticmethod
        @custom_fwd(device_type="cpu", **forward_options)
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            Product.seen.append((a.dtype, facula.is_autocast_enabled("cpu")))
            return a.mm(b)

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx, grad):
            a, b = ctx.saved_tensors
            Product.seen.append((grad.dtype, facula.is_autocast_enabled("cpu")))
            return grad.mm(b.t()), a.t().mm(grad)

    return Product


def test_custom_function_runs_backward_as_forward():
    function = make_function({})
    a = square(requires_grad=True)
    with autocast("cpu"):
        y = function.apply(a, square())
    assert y.dtype == BF16
    y.sum().backward()
    assert function.seen == [(F32, True), (BF16, True)]
    assert a.grad.dtype == F32


def test_custom_function_with_cast_inputs():
    function = make_function({"cast_inputs": F32})
    a = square(BF16, requires_grad=True)
    with autocast("cpu"):
        assert function.apply(a, square()).dtype == F32
    assert function.seen == [(F32, False)]
    assert function.apply(a, square(BF16)).dtype == BF16  # out of a region nothing is cast


# training


def test_training_in_bfloat16_converges():
    facula.manual_seed(0)
    x = facula.randn(256, 8)
    target = (x[:, :1] * x[:, 1:2]).sin()
    model = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = facula.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(200):
        optimizer.zero_grad()
        with autocast("cpu"):
            loss = F.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]
    assert {p.dtype for p in model.parameters()} == {F32}


def test_training_in_float16_with_a_scaler():
    facula.manual_seed(0)
    x = facula.randn(64, 4)
    model, scaler = nn.Linear(4, 1), GradScaler("cpu", init_scale=2.0**20, growth_interval=10)
    optimizer = facula.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        with autocast("cpu", dtype=F16):
            loss = F.mse_loss(model(x), x.sum(1, keepdim=True))
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 1e-2 * losses[0]
    assert scaler.get_scale() < 2.0**20  # the first scale overflows float16


def test_no_warning_in_ordinary_use():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with autocast("cpu"):
            F.mse_loss(nn.Linear(2, 2)(facula.ones(1, 2)), facula.zeros(1, 2))
