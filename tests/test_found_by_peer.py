"""Repeat what PyTorch's own tests found: each case failed before its repair."""

import warnings

import numpy
import pytest

import facula
import facula.autograd.forward_ad as fwAD
from facula.nn import functional as F
from facula.utils.checkpoint import checkpoint, set_checkpoint_early_stop


def raised_by(call, *args):
    with pytest.raises(Exception) as caught:  # noqa: PT011
        call(*args)
    return caught.type


class Sums(facula.autograd.Function):
    @staticmethod
    def forward(ctx, x, y):
        return x + y, x

    @staticmethod
    def backward(ctx, first, second):
        return first + second, first


@pytest.mark.parametrize("tangent", [lambda t: t, lambda t: t * 2, lambda t: t.clone().view_as(t)])
def test_the_tangent_of_an_input_that_comes_back_is_a_view_of_its_tangent(tangent):
    class Wrong(Sums):
        @staticmethod
        def jvp(ctx, x, y):
            return x + y, tangent(x)

    class Right(Sums):
        @staticmethod
        def jvp(ctx, x, y):
            return x + y, x.view_as(x)

    with fwAD.dual_level():
        of_view = fwAD.make_dual(facula.ones(2), facula.ones(3)[1:])
        with pytest.raises(RuntimeError, match=r"^Wrong\.jvp: output 1 of forward is an input or a view"):
            Wrong.apply(of_view, facula.ones(2))
        direction = facula.ones(2)
        dual = fwAD.make_dual(facula.ones(2), direction)
        with pytest.raises(RuntimeError, match=r"^Wrong\.jvp: output 1 of forward is an input or a view"):
            Wrong.apply(dual, facula.ones(2))
        assert fwAD.unpack_dual(Right.apply(dual, facula.ones(2))[1]).tangent._base is direction


def test_the_tangent_of_a_view_is_a_view():
    class First(facula.autograd.Function):
        @staticmethod
        def forward(ctx, x, same):
            ctx.same = same
            return x[0]

        @staticmethod
        def jvp(ctx, tangent, _):
            return tangent[0] if ctx.same else tangent[0].clone()

    with fwAD.dual_level():
        dual = fwAD.make_dual(facula.ones(2), facula.tensor([3.0, 4.0]))
        assert fwAD.unpack_dual(First.apply(dual, True)).tangent == 3
        with pytest.raises(RuntimeError, match=r"^First\.jvp: output 0 of forward is an input or a view of one"):
            First.apply(dual, False)


@pytest.mark.parametrize("recorded", [False, True])
def test_jvp_writes_the_tangent_of_what_forward_writes(recorded):
    class Doubled(facula.autograd.Function):
        @staticmethod
        def forward(ctx, x, in_place):
            ctx.mark_dirty(x)
            ctx.in_place = in_place
            return x.mul_(2)

        @staticmethod
        def jvp(ctx, tangent, _):
            return {True: lambda: tangent.mul_(2), False: lambda: tangent * 2, None: lambda: tangent}[ctx.in_place]()

    with fwAD.dual_level():
        x = facula.ones(2, requires_grad=recorded).clone()
        dual = fwAD.make_dual(x, facula.ones(2, requires_grad=recorded))
        result = Doubled.apply(dual, True)
        assert result is dual
        assert fwAD.unpack_dual(result).tangent.tolist() == [2.0, 2.0]
        for wrong in (False, None):
            with pytest.raises(RuntimeError, match=r"^Doubled\.jvp: forward writes output 0 in place"):
                Doubled.apply(fwAD.make_dual(facula.ones(2), facula.ones(2)), wrong)


def test_what_has_no_derivative_has_no_tangent():
    seen = []

    class Both(facula.autograd.Function):
        @staticmethod
        def forward(ctx, x, y, tells):
            ctx.tells = tells
            ctx.save_for_backward(x)
            copy = y.clone()
            ctx.mark_non_differentiable(copy)
            return x.clone(), copy

        @staticmethod
        def jvp(ctx, x, y, _):
            seen.append((y, ctx.saved_tensors))
            return x, x.clone() if ctx.tells else None

    with fwAD.dual_level():
        dual = fwAD.make_dual(facula.ones(2), facula.ones(2))
        assert fwAD.unpack_dual(Both.apply(dual, facula.tensor(3), False)[1]).tangent is None
        assert seen == [(None, ())]  # nothing was saved for forward mode
        with pytest.raises(RuntimeError, match=r"^Both\.jvp: output 1 is not differentiable"):
            Both.apply(dual, facula.tensor(3.0), True)


def test_outputs_of_a_function_that_are_one_tensor_stay_one():
    class Twice(facula.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            result = x * 2
            return result, result

        @staticmethod
        def backward(ctx, first, second):
            return first * 2 + second * 2

    x = facula.ones(2, requires_grad=True)
    one, other = Twice.apply(x)
    assert one is other
    (one + other).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0]


def test_mark_dirty_is_about_inputs_and_a_written_view_comes_alone():
    class Marks(facula.autograd.Function):
        @staticmethod
        def forward(ctx, x, own, more):
            written = x * 3 if own else x.add_(1)
            ctx.mark_dirty(written)
            return (written, x + 1) if more else written

        @staticmethod
        def backward(ctx, gradient, *_):
            return gradient, None, None

    x = facula.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match="^mark_dirty: argument 0 is no input of forward"):
        Marks.apply(x.clone(), True, False)
    with pytest.raises(RuntimeError, match="^mark_dirty: a Function that writes into a view may have one output only, got 2"):
        Marks.apply(x.clone()[:1], False, True)
    assert Marks.apply(x.clone()[:1], False, False).tolist() == [2.0]


def test_an_input_that_comes_back_keeps_its_class():
    class Mine(facula.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return super().__torch_function__(func, types, args, kwargs or {}).as_subclass(cls)

    class Same(facula.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x

    result = Same.apply(facula.ones(2).as_subclass(Mine))
    assert type(result) is Mine


def test_a_view_of_a_written_base_has_the_tangent_of_its_part():
    with fwAD.dual_level():
        x = facula.zeros(2, 3)
        view = x[0]
        x.copy_(fwAD.make_dual(facula.ones(2, 3), facula.full((2, 3), 5.0)))
        assert fwAD.unpack_dual(view).tangent.tolist() == [5.0, 5.0, 5.0]


def test_values_of_a_checkpoint_that_are_read_outside_of_a_pass_are_not_kept():
    calls = []

    def run(x):
        calls.append(1)
        return (x * x).exp()

    y = checkpoint(run, facula.ones(2, requires_grad=True), use_reentrant=False)
    counts = []
    for _ in range(2):
        assert y.grad_fn._saved_result is not None
        counts.append(len(calls))
    assert counts == [2, 3]


def test_a_pass_inside_of_a_checkpointed_function_takes_what_is_saved_so_far():
    def run(x):
        facula.autograd.grad(x.sin().exp(), x)
        return x.sin()

    x = facula.tensor(1.0, requires_grad=True)
    with set_checkpoint_early_stop(False):
        checkpoint(lambda y: checkpoint(run, y, use_reentrant=False), x, use_reentrant=False).backward()
    assert x.grad.item() == pytest.approx(numpy.cos(1.0))


@pytest.mark.parametrize("create_graph", [False, True])
def test_a_dense_gradient_joins_a_sparse_one(create_graph):
    x = facula.ones(2, requires_grad=True)
    x.grad = facula.sparse_coo_tensor([[1, 1]], [1.0, 1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that create_graph makes a cycle, which is said once in a process
        x.backward(facula.ones(2), create_graph=create_graph)
    assert x.grad.tolist() == [1.0, 3.0]


def test_a_leaf_on_other_memory_gets_gradients_of_its_new_shape():
    x = facula.nn.Parameter(facula.ones(4))
    for size in (3, 2):
        with facula.no_grad():
            x.set_(x[1:])
        x.grad = None
        joined = facula.cat([x, x])  # lives on, and with it the leaf's node
        joined.sum().backward()
        assert x.grad.shape == (size,)


def test_parts_of_an_unsafe_split_are_written_one_by_one():
    for split in (lambda t: t.unsafe_split(1), lambda t: t.unsafe_chunk(2), lambda t: t.unsafe_split_with_sizes((1, 1))):
        x = facula.ones(2, 2, requires_grad=True)
        first, second = split(x * 2)
        first.mul_(second)
        first.sum().backward()
        assert x.grad.tolist() == [[4.0, 4.0], [4.0, 4.0]]
        assert not second._is_view()


def test_the_gradient_of_a_gathered_scalar_is_sparse():
    x = facula.tensor(3.0, requires_grad=True)
    facula.gather(x, 0, facula.tensor([0, 0]), sparse_grad=True).sum().backward()
    assert x.grad.to_dense().item() == 2.0


def test_a_tensor_that_requires_grad_is_resized_in_inference_mode():
    with facula.inference_mode():
        x = facula.ones(1, 2, 3, requires_grad=True)
        assert x.resize_(1, 2).shape == (1, 2)
        assert x.resize_as_(facula.ones(2)).requires_grad


@pytest.mark.parametrize("call", [facula.exp, lambda x, out=None: facula.add(x, x[0, 0, 0], out=out), lambda x, out=None: facula.gt(x, 0, out=out)])
def test_an_out_that_is_resized_lies_as_a_new_result_would(call):
    x = facula.randn(2, 3, 4, 5).permute(2, 0, 3, 1)
    expected = call(x)
    out = facula.empty(0, dtype=expected.dtype)
    assert call(x, out=out) is out
    assert out.stride() == expected.stride() == (5, 60, 1, 20)
    assert facula.equal(out, expected)


def test_a_reshape_that_copies_is_no_view():
    x = facula.ones(2, 3, requires_grad=True)
    flat = x.T.reshape(-1)
    assert not flat._is_view()
    assert x.reshape(-1)._is_view()
    flat.mul_(2)
    flat.sum().backward()
    assert x.grad.tolist() == [[2.0] * 3] * 2


def test_parts_of_an_image_are_joined_in_their_memory_format():
    x = facula.randn(2, 2, 3, 2).to(memory_format=facula.channels_last)
    joined = facula.cat((x[:, :, :2], x[:, :, 1:]), -1)
    assert joined.is_contiguous(memory_format=facula.channels_last)
    assert facula.cat((x, x.contiguous()), -1).is_contiguous()
    thin = facula.randn(4, 3, 6)[:, None, :, ::2]
    assert facula.cat((thin, thin), 2).is_contiguous()


def test_the_norm_of_no_samples_has_zero_gradients():
    for layer, shape in ((facula.nn.BatchNorm2d(3), (0, 3, 2, 2)), (facula.nn.BatchNorm1d(3), (0, 3)), (facula.nn.BatchNorm2d(3), (2, 3, 0, 2))):
        layer(facula.ones(shape, requires_grad=True)).sum().backward()
        assert layer.weight.grad.tolist() == layer.bias.grad.tolist() == [0.0, 0.0, 0.0]
    assert facula.nn.BatchNorm2d(3)(facula.ones(0, 3, 2, 2, dtype=facula.float64)).dtype == facula.float64


def test_statistics_of_a_batch_norm_cannot_be_dual_beside_the_input():
    with fwAD.dual_level():
        mean = fwAD.make_dual(facula.zeros(2), facula.ones(2))
        x = fwAD.make_dual(facula.randn(3, 2), facula.ones(3, 2))
        with pytest.raises(RuntimeError, match="^batch_norm: there is no derivative by running_mean"):
            F.batch_norm(x, mean, facula.ones(2))
        assert F.batch_norm(facula.randn(3, 2), mean, facula.ones(2)).shape == (3, 2)


@pytest.mark.parametrize("p", [1, -1, float("inf"), -float("inf"), "fro"])
@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_the_condition_of_what_is_not_finite_is_infinite(p, bad):
    """But where it is a product of two least sums: the inverse of an infinity is zero."""
    x = facula.eye(2, dtype=facula.float64).repeat(2, 1, 1)
    x[0, 0, 0] = bad
    first = 0.0 if p in (-1, -float("inf")) and bad == float("inf") else float("inf")
    assert facula.linalg.cond(x, p).tolist() == [first, pytest.approx(2.0 if p == "fro" else 1.0)]


def test_the_condition_by_singular_values_of_infinities_is_nan():
    x = facula.tensor([[float("inf"), 0.0], [0.0, 1.0]])
    assert facula.linalg.cond(x, "nuc").isnan()
    assert facula.linalg.cond(x).isnan()


def test_lgamma_is_zero_at_its_roots():
    for dtype in (facula.float32, facula.bfloat16, facula.float16, facula.float64):
        assert facula.lgamma(facula.tensor([1.0, 2.0] * 20, dtype=dtype)).abs().max() == 0
    assert facula.distributions.Gamma(1.0, 1.0).log_prob(facula.tensor(0.0)) == 0


@pytest.mark.parametrize("loss", [F.nll_loss, F.cross_entropy])
def test_targets_of_other_batches_are_a_value_error(loss):
    for scores, target in (((3,), (2,)), ((3,), (0,)), ((1, 3), ()), ((2, 3, 4), ())):
        assert raised_by(loss, facula.zeros(scores), facula.zeros(target, dtype=facula.int64)) is ValueError
    assert raised_by(loss, facula.zeros(3), facula.zeros(1, 1, dtype=facula.int64)) is RuntimeError
    assert loss(facula.zeros(3), facula.zeros(1, dtype=facula.int64), reduction="none").shape == ()


def test_types_of_numbers_sequences_and_storages():
    default = facula.get_default_dtype()
    try:
        facula.set_default_dtype(facula.float16)
        assert facula.full((2,), 1j).dtype == facula.complex64
        facula.set_default_dtype(facula.float64)
        assert facula.Storage is facula.DoubleStorage
    finally:
        facula.set_default_dtype(default)
    assert facula.Storage is facula.FloatStorage

    class Broken:
        def __len__(self):
            return 3

        def __getitem__(self, i):
            raise KeyError(i)

    with pytest.raises(ValueError, match=r"^tensor: a sequence gives its items.* got KeyError for item 0 of a Broken"):
        facula.tensor(Broken())
    with pytest.raises(RuntimeError, match="^asarray: copy=False"):
        facula.asarray(numpy.float64(3), copy=False)
    assert raised_by(F.pixel_shuffle, facula.ones(1, 16, 2, 2), 2**39) is ValueError


@pytest.mark.parametrize("force", [False, True])
def test_sparse_tensors_are_no_arrays(force):
    with pytest.raises(TypeError, match="^numpy: only strided tensors"):
        facula.eye(2).to_sparse().numpy(force=force)


def test_types_that_cannot_be_the_default_are_a_type_error():
    for kind in ("torch.IntTensor", facula.LongTensor, facula.float64, 3):
        with pytest.raises(TypeError, match="^set_default_"), pytest.warns(UserWarning, match="an old form"):
            facula.set_default_tensor_type(kind)


def test_names_of_a_tensor_can_all_be_asked_for():
    x = facula.ones(2, 2)
    assert [name for name in dir(x) if name != "imag" and not hasattr(x, name)] == []


def test_resized_factories_warn_as_pytorch_does(recwarn):
    facula.linspace(0, 1, 3, out=facula.empty(5))
    facula.logspace(0, 1, 3, out=facula.empty(5))
    assert not recwarn
    for call in (facula.fft.fftfreq, facula.fft.rfftfreq):
        with pytest.warns(UserWarning, match="an output that has elements was resized"):
            call(6, out=facula.empty(3))


def test_istft_says_that_frames_are_too_few():
    window = facula.hann_window(16)
    frames = facula.stft(facula.randn(64), 16, window=window, return_complex=True)
    with pytest.warns(UserWarning, match="^istft: the frames hold .* fewer than length=100"):
        assert facula.istft(frames, 16, window=window, length=100).shape == (100,)


def test_lazy_modules_are_not_scripted():
    with pytest.raises(RuntimeError, match="^jit.script: a first call must have made all parameters, got unmade weight"):
        facula.jit.script(facula.nn.LazyLinear(3))


def test_sums_of_csr_matrices_keep_the_dtype_of_their_places():
    wide = facula.eye(2).to_sparse_csr()
    narrow = facula.sparse_csr_tensor(wide.crow_indices().int(), wide.col_indices().int(), wide.values(), (2, 2))
    for one, other in ((wide, narrow), (narrow, wide), (narrow, narrow)):
        total = one + other
        assert total.crow_indices().dtype == total.col_indices().dtype == one.col_indices().dtype
        assert total.to_dense().tolist() == [[2.0, 0.0], [0.0, 2.0]]


def test_nested_tensors_are_of_the_same_size():
    one = facula.nested.nested_tensor([facula.ones(2, 3), facula.ones(4, 3)], layout=facula.jagged)
    assert facula.ops.aten.is_same_size(one, one.clone())
    other = facula.nested.nested_tensor([facula.ones(3, 3), facula.ones(3, 3)], layout=facula.jagged)
    assert not facula.ops.aten.is_same_size(one, other)
    with pytest.raises(RuntimeError, match="^is_same_size: expected two nested tensors or none"):
        facula.ones(2).is_same_size(one)


def test_a_copy_between_places_that_overlap_is_that_of_the_source_or_refused():
    def parts(x):
        square, half = x[:36].view(6, 6), x.numel() // 2
        yield from ((square, square.t()), (square[1:], square[:-1]), (square[:, 1:], square[:, :-1]), (square[:, :-1], square[:, 1:]))
        yield from ((x[1:], x[:-1]), (x[:-1], x[1:]), (x[2::2], x[:-2:2]), (x[: half * 2 - 2 : 2], x[1 : half + 0 : 1][: half - 1]))

    for dtype in (facula.float32, facula.int8, facula.float64):
        for size in (40, 400, 5000):
            for i in range(8):
                for write in (lambda to, source: to.copy_(source), lambda to, source: to.__setitem__(..., source)):
                    x = (facula.arange(size) % 100).to(dtype)
                    to, source = list(parts(x))[i]
                    expected = source.clone()
                    if i in (0, 1, 4, 5):  # both without gaps
                        with pytest.raises(RuntimeError, match="^copy_: the written tensor and an input share"):
                            write(to, source)
                        assert facula.equal(source, expected)
                        continue
                    write(to, source)
                    assert facula.equal(to, expected), (dtype, size, i)


def test_compressed_matrices_are_copied_where_they_fit():
    one = facula.eye(3).to_sparse_csr()
    one.copy_(2 * facula.eye(3).to_sparse_csr())
    assert one.values().tolist() == [2.0, 2.0, 2.0]
    for other in (facula.ones(3, 3).to_sparse_csr(), facula.eye(3).expand(2, 3, 3).to_sparse_csr()):
        with pytest.raises(RuntimeError, match="^copy_: "):
            one.copy_(other)
    batch = facula.ones(2, 3, 3).to_sparse_csr()
    with pytest.raises(RuntimeError, match="^copy_: compressed tensors of one shape"):
        batch.copy_(facula.ones(3, 3).to_sparse_csr())
    assert batch.shape == (2, 3, 3)
    with pytest.raises(RuntimeError, match="^copy_: compressed tensors of one shape"):
        facula.ones(4, 4).to_sparse_bsr(2).copy_(facula.ones(4, 4).to_sparse_bsr(4))


def test_a_module_tracker_knows_when_a_pass_is_over():
    layer = facula.nn.Linear(2, 2)
    with facula.utils.module_tracker.ModuleTracker() as tracker:
        layer(facula.rand(2, requires_grad=True)).sum().backward()
        assert not tracker.is_bw
        assert tracker.parents == {"Global"}


@pytest.mark.parametrize("op", ["index_add_", "index_reduce_"])
def test_a_source_of_another_rank_is_refused(op):
    more = () if op == "index_add_" else ("mean",)
    for own, source in (((), (1,)), ((1,), ()), ((2,), ())):
        for index in (facula.tensor([0]), facula.tensor(0)):
            x = facula.ones(own)
            with pytest.raises(RuntimeError, match="^index_(add|reduce): the source must have shape"):
                getattr(x, op)(0, index, facula.full(source, 2.0), *more)
            assert x.eq(1).all()
    assert getattr(facula.ones(()), op)(0, facula.tensor([0]), facula.tensor(2.0), *more).shape == ()
    assert facula.ones(1).index_copy_(0, facula.tensor([0]), facula.tensor(2.0)).tolist() == [2.0]


@pytest.mark.parametrize("points", [1, 9, 70])
def test_grid_positions_that_are_no_numbers(points):
    """The edge where positions are brought into the input, NaN where their weights are none either."""
    nan = float("nan")
    x = facula.arange(1.0, 26.0).view(1, 1, 5, 5)
    grid = facula.tensor([[[[nan, 0.0], [0.3, nan], [nan, nan]] * points]])

    def sampled(mode, padding):
        return facula.nn.functional.grid_sample(x, grid, mode=mode, padding_mode=padding, align_corners=False).flatten().tolist()

    for padding in ("border", "reflection"):
        assert sampled("bilinear", padding) == [11.0, 3.75, 1.0] * points
        assert sampled("nearest", padding) == [11.0, 4.0, 1.0] * points
    for mode, padding in (("bilinear", "zeros"), ("bicubic", "zeros"), ("bicubic", "border"), ("bicubic", "reflection")):
        assert all(value != value for value in sampled(mode, padding))
    assert sampled("nearest", "zeros") == [0.0] * 3 * points
