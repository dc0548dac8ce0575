"""Creation ops against NumPy and closed forms."""

import numpy as np
import pytest

import facula


def test_arange_dtypes_and_ends():
    assert facula.arange(5).tolist() == [0, 1, 2, 3, 4]
    assert facula.arange(5).dtype == facula.int64
    assert facula.arange(1, 2, 0.25).tolist() == [1.0, 1.25, 1.5, 1.75]
    assert facula.arange(5, 0, -2).tolist() == [5, 3, 1]
    assert facula.arange(0).shape == (0,)
    assert facula.arange(0, 2.5, 1, dtype=facula.int32).tolist() == [0, 1, 2]
    big = 2**53
    assert facula.arange(big, big + 3).tolist() == [big, big + 1, big + 2]
    assert facula.arange(3, device="meta").shape == (3,)


def test_arange_float_accuracy():
    numbers = facula.arange(0, 1, 1e-5).numpy()
    assert np.abs(numbers - np.arange(0, 1, 1e-5)).max() <= 2**-25


@pytest.mark.parametrize("arguments", [(0, 3, 0), (0, -3, 2), (0, 3, -2), (0, float("inf"), 1)])
def test_arange_errors(arguments):
    with pytest.raises(RuntimeError, match="^arange"):
        facula.arange(*arguments)


def test_linspace_and_logspace():
    np.testing.assert_allclose(facula.linspace(-3, 10, 7).numpy(), np.linspace(-3, 10, 7), rtol=1e-6)
    np.testing.assert_allclose(facula.logspace(-1, 1, 5, dtype=facula.float64).numpy(), np.logspace(-1, 1, 5))
    assert facula.linspace(3, 10, 1).tolist() == [3.0]
    assert facula.linspace(3, 10, 0).shape == (0,)
    assert facula.linspace(facula.tensor(0), facula.tensor(8), 5).tolist() == [0, 2, 4, 6, 8]
    assert facula.linspace(0, 1j, 2).dtype == facula.complex64
    with pytest.raises(RuntimeError, match="^linspace"):
        facula.linspace(0, 1, -1)
    with pytest.raises(RuntimeError, match="^linspace"):
        facula.linspace(facula.ones(2), 1, 3)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "int16", "uint8"])
@pytest.mark.parametrize("n", [0, 1, 3, 4, 7, 63, 250, 1025, 70001])
def test_progressions_of_all_lengths_and_dtypes(n, dtype):
    kind = np.dtype(dtype)
    n = min(n, 250) if kind.itemsize < 4 else n  # values that the dtype has
    given = {"dtype": getattr(facula, dtype)}
    np.testing.assert_array_equal(facula.arange(n, **given).numpy(), np.arange(n, dtype=kind))
    np.testing.assert_array_equal(facula.arange(n, 0, -1, **given).numpy(), np.arange(n, 0, -1, dtype=kind))
    whole = facula.linspace(2, n + 1, n, **given).numpy()  # its steps are 1: nothing is rounded
    np.testing.assert_array_equal(whole, np.linspace(2, n + 1, n).astype(kind))
    if kind.kind == "f":
        np.testing.assert_allclose(facula.linspace(0.1, 1.7, n, **given).numpy(), np.linspace(0.1, 1.7, n),
                                   rtol=2 * np.finfo(kind).eps)
        np.testing.assert_allclose(facula.arange(0.25, n + 1, 1.0, **given).numpy(), np.arange(0.25, n + 1), rtol=2 * np.finfo(kind).eps)
    every_other = facula.zeros(2 * n, **given)[::2]
    assert facula.equal(facula.arange(n, out=every_other), facula.arange(n, **given))


def test_range_includes_the_end():
    with pytest.warns(UserWarning, match="^range"):
        assert facula.range(1, 2, 0.5).tolist() == [1.0, 1.5, 2.0]


def test_full_takes_the_dtype_of_its_value():
    assert facula.full((2,), 1).dtype == facula.int64
    assert facula.full((2,), True).dtype == facula.bool
    assert facula.full((2,), 1.5).dtype == facula.float32
    assert facula.full((2,), 1j).dtype == facula.complex64
    out = facula.empty(0, dtype=facula.int32)
    assert facula.full((2,), 7, out=out) is out and out.tolist() == [7, 7]


def test_like_and_new():
    x = facula.ones(2, 3, dtype=facula.float64).t()
    assert facula.empty_like(x).stride() == x.stride()
    assert facula.full_like(x, 2).tolist() == [[2.0, 2.0]] * 3
    assert facula.zeros_like(x, memory_format=facula.contiguous_format).stride() == (2, 1)
    assert x.new_zeros(2).dtype == facula.float64
    assert x.new_full((2,), 3, dtype=facula.int64).tolist() == [3, 3]
    assert x.new_empty_strided((2, 2), (1, 2)).stride() == (1, 2)
    assert x.new_ones(2, 2).sum().item() == 4.0
    assert facula.empty_permuted((2, 3, 4), (0, 2, 1)).stride() == (12, 1, 3)
    image = facula.empty(2, 3, 4, 5, memory_format=facula.channels_last)
    assert facula.zeros_like(image).is_contiguous(memory_format=facula.channels_last)


def test_requires_grad_keyword():
    assert facula.zeros(2, requires_grad=True).requires_grad
    assert facula.arange(3.0, requires_grad=True).requires_grad


def test_eye_and_triangle_indices():
    np.testing.assert_array_equal(facula.eye(3, 4).numpy(), np.eye(3, 4))
    np.testing.assert_array_equal(facula.eye(0).numpy(), np.eye(0))
    for offset in (-2, 0, 1, 5):
        rows, columns = np.tril_indices(3, offset, 4)
        np.testing.assert_array_equal(facula.tril_indices(3, 4, offset).numpy(), [rows, columns])
        rows, columns = np.triu_indices(3, offset, 4)
        np.testing.assert_array_equal(facula.triu_indices(3, 4, offset).numpy(), [rows, columns])
        assert facula.triu_indices(3, 4, offset, dtype=facula.int32).tolist() == [rows.tolist(), columns.tolist()]


@pytest.mark.parametrize("shape", [(3, 4), (4, 3), (2, 3, 3), (0, 3), (3, 0)])
@pytest.mark.parametrize("k", [-5, -1, 0, 2])
def test_triangles(shape, k):
    array = np.random.default_rng(0).normal(size=shape)
    for source in (array, np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)):
        x = facula.from_numpy(source)
        np.testing.assert_array_equal(facula.tril(x, k).numpy(), np.tril(array, k))
        np.testing.assert_array_equal(x.triu(k).numpy(), np.triu(array, k))
    y = facula.from_numpy(array.copy())
    assert y.tril_(k) is y
    np.testing.assert_array_equal(y.numpy(), np.tril(array, k))


def test_tril_gradient_and_error():
    x = facula.ones(3, 3, requires_grad=True)
    facula.tril(x, -1).sum().backward()
    assert x.grad.tolist() == [[0, 0, 0], [1, 0, 0], [1, 1, 0]]
    with pytest.raises(RuntimeError, match="^tril"):
        facula.tril(facula.ones(3))


def test_fill_family():
    x = facula.zeros(2, 3)
    assert facula.fill(x, 2).sum().item() == 12.0
    x.fill_(facula.tensor(3))
    assert x.sum().item() == 18.0
    value = facula.tensor(2.0, requires_grad=True)
    facula.fill(x, value).sum().backward()
    assert value.grad.item() == 6.0
    with pytest.raises(RuntimeError, match="^fill_"):
        x.fill_(facula.ones(2))
    wrapped = facula.zeros(7, 3).fill_diagonal_(1, wrap=True)
    expected = np.zeros((7, 3))
    np.fill_diagonal(expected, 1, wrap=True)
    np.testing.assert_array_equal(wrapped.numpy(), expected)
    assert facula.zeros(2, 2, 2).fill_diagonal_(5).sum().item() == 10.0


def test_diagonals():
    x = facula.tensor([1.0, 2.0], requires_grad=True)
    m = facula.diag(x, 1)
    assert m.tolist() == [[0, 1, 0], [0, 0, 2], [0, 0, 0]]
    m.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    assert facula.diag(facula.arange(6).view(2, 3), 1).tolist() == [1, 5]
    assert facula.diagflat(facula.ones(2, 1)).tolist() == [[1, 0], [0, 1]]
    e = facula.diag_embed(facula.ones(2, 3), offset=-1, dim1=0, dim2=2)
    assert e.shape == (4, 2, 4) and e.sum().item() == 6.0
    with pytest.raises(RuntimeError, match="^diag"):
        facula.diag(facula.tensor(1.0))


def test_grids():
    a, b = facula.arange(2), facula.arange(3)
    for given in ([a, b],), (a, b):
        x, y = facula.meshgrid(*given, indexing="xy")
        expected = np.meshgrid(a.numpy(), b.numpy())
        np.testing.assert_array_equal(x.numpy(), expected[0])
        np.testing.assert_array_equal(y.numpy(), expected[1])
    assert facula.cartesian_prod(a, b).tolist() == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]]
    assert facula.combinations(b).tolist() == [[0, 1], [0, 2], [1, 2]]
    assert facula.combinations(a, 2, with_replacement=True).tolist() == [[0, 0], [0, 1], [1, 1]]
    assert facula.combinations(a, 3).shape == (0, 3)
    blocks = facula.block_diag(facula.ones(1, 2), facula.tensor(5.0), facula.ones(2))
    assert blocks.tolist() == [[1, 1, 0, 0, 0], [0, 0, 5, 0, 0], [0, 0, 0, 1, 1]]
    np.testing.assert_array_equal(facula.vander(b, 4).numpy(), np.vander(b.numpy(), 4))


def test_growing_memory_that_others_hold():
    base = facula.arange(4.0)
    view = base[1:3]
    view.resize_(100)  # a view and its base move together
    view[0] = 7
    assert base.tolist() == [0, 7, 2, 3] and view[:2].tolist() == [7, 2]
    assert base.untyped_storage().data_ptr() == view.untyped_storage().data_ptr()
    sibling = base.detach()
    for tensor in (base, view, sibling):
        with pytest.raises(RuntimeError, match=r"^resize_: other tensors .*got 404 bytes that are to become 4004$"):
            tensor.resize_(1001 - tensor.storage_offset())
    assert sibling.tolist() == [0, 7, 2, 3]
    with pytest.raises(RuntimeError, match="^share_memory_: |^resize_: |other tensors"):
        base.share_memory_()
    moved = facula.ones(2)
    moved.set_(sibling)  # only the tensor that is set looks elsewhere
    sibling[0] = 5
    assert moved[0] == 5 and base[0] == 5


def test_resize_and_set():
    x = facula.arange(6)
    assert x.resize_(2, 2) is x and x.tolist() == [[0, 1], [2, 3]]
    assert x.resize_as_(facula.ones(6)).tolist() == [0, 1, 2, 3, 4, 5]
    y = facula.zeros(1, dtype=facula.int64).set_(x, 1, (2, 2), (1, 2))
    assert y.tolist() == [[1, 3], [2, 4]]
    y[0, 0] = 9
    assert x[1].item() == 9
    assert y.set_().shape == (0,)
    with pytest.raises(RuntimeError, match="^set_"):
        y.set_(x, 4, (3,), (1,))
    with pytest.raises(RuntimeError, match="^resize_"):
        facula.ones(2, requires_grad=True).resize_(3)


def test_windows():
    assert facula.hann_window(4).tolist() == pytest.approx([0, 0.5, 1, 0.5])
    assert facula.hann_window(5, periodic=False).tolist() == pytest.approx([0, 0.5, 1, 0.5, 0], abs=1e-7)
    np.testing.assert_allclose(facula.hamming_window(7, False, dtype=facula.float64).numpy(), np.hamming(7))
    blackman = facula.blackman_window(7, False, dtype=facula.float64)
    np.testing.assert_allclose(blackman.numpy(), np.blackman(7), atol=1e-15)
    np.testing.assert_allclose(facula.bartlett_window(7, False, dtype=facula.float64).numpy(), np.bartlett(7))
    np.testing.assert_allclose(facula.kaiser_window(7, False, 5.0, dtype=facula.float64).numpy(), np.kaiser(7, 5.0))
    assert facula.hann_window(1).tolist() == [1.0] and facula.hann_window(0).shape == (0,)
    with pytest.raises(RuntimeError, match="^hann_window"):
        facula.hann_window(-1)


@pytest.mark.parametrize("n", [2, 3, 4, 5, 17, 1024, 70001])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
def test_cosine_windows_mirror_their_first_half(n, dtype):
    given = {"dtype": getattr(facula, dtype)}
    accuracy = {"atol": 4 * np.finfo(dtype).eps, "rtol": 0}
    for name in ("hann", "hamming", "blackman"):
        build, expected = getattr(facula, f"{name}_window"), {"hann": "hanning"}.get(name, name)
        whole, periodic = build(n, False, **given).numpy(), build(n, **given).numpy()
        reference = getattr(np, expected)
        np.testing.assert_array_equal(whole, whole[::-1])
        np.testing.assert_allclose(whole, reference(n), **accuracy)
        np.testing.assert_allclose(periodic, reference(n + 1)[:n], **accuracy)


@pytest.mark.parametrize(
    "name, options",
    [("bartlett", {}), ("blackman", {}), ("cosine", {}), ("exponential", {"tau": 2.0}), ("gaussian", {"std": 2.0}),
     ("hamming", {}), ("hann", {}), ("kaiser", {"beta": 6.0}), ("nuttall", {})],
)  # fmt: skip
@pytest.mark.parametrize("sym", [True, False])
@pytest.mark.parametrize("M", [0, 1, 2, 9])
def test_signal_windows(name, options, sym, M):
    windows = pytest.importorskip("scipy.signal.windows")
    ours = getattr(facula.signal.windows, name)(M, sym=sym, dtype=facula.float64, **options)
    theirs = getattr(windows, name)(M, *options.values() if name in ("gaussian", "kaiser") else (), sym=sym,
                                    **{} if name in ("gaussian", "kaiser") else options)  # fmt: skip
    np.testing.assert_allclose(ours.numpy(), theirs, atol=1e-12)


def test_signal_window_errors():
    with pytest.raises(ValueError, match="^hann|^general_cosine"):
        facula.signal.windows.hann(3, dtype=facula.int64)
    with pytest.raises(ValueError, match="^gaussian"):
        facula.signal.windows.gaussian(3, std=0)


# what a number may lose on its way into an element: (number, dtype, the element or the error)
NUMBERS = [
    (2**80, "float32", float(2**80)),
    (2**80, "complex64", complex(2**80)),
    (2**80, "bool", True),
    (2**64 - 1, "uint64", 2**64 - 1),
    (-1, "uint8", 255),
    (3.7, "int64", 3),
    (float("inf"), "bool", True),
    (2**40, "int32", RuntimeError),
    (2**63, "int64", ValueError),
    (2**63, None, ValueError),
    (-1, "uint64", ValueError),
    (300, "int8", RuntimeError),
    (1e30, "int32", RuntimeError),
    (1e300, "float32", float("inf")),
    (float("nan"), "int64", RuntimeError),
    (1j, "float32", TypeError),
    (2**2000, "float64", OverflowError),
]


@pytest.mark.parametrize(("number", "dtype", "expected"), NUMBERS)
@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: [x]])
def test_a_number_becomes_an_element_or_an_error(number, dtype, expected, wrap):
    dtype = dtype and getattr(facula, dtype)
    if isinstance(expected, type):
        with pytest.raises(expected):
            facula.tensor(wrap(number), dtype=dtype)
    else:
        assert facula.tensor(wrap(number), dtype=dtype).tolist() == wrap(expected)


def test_integers_of_more_than_64_bits():
    x = facula.ones(2)
    for call in (lambda: x + 2**70, lambda: x.fill_(-(2**70)), lambda: facula.full((2,), 2**70), lambda: x == 2**70):
        with pytest.raises(OverflowError, match="got one of 71 bits"):
            call()
    for call in (lambda: x.sum(2**70), lambda: x[2**70], lambda: facula.zeros(2**70)):
        with pytest.raises((ValueError, TypeError), match="got one of 71 bits"):
            call()


@pytest.mark.parametrize("kind", ["cpu", "meta"])
def test_tensors_on_the_one_cpu_have_no_index(kind):
    asked = facula.device(kind, 0)
    assert asked.index == 0
    assert facula.ones(2, device=asked).device == facula.ones(2).to(f"{kind}:0").device == facula.device(kind)


def _set(x, index, value):
    x[index] = value
    return x


TOO_LARGE = [
    lambda x: _set(x, 0, 300),
    lambda x: _set(x, facula.tensor([0]), 300),
    lambda x: _set(x, facula.tensor([True, False]), 300),
    lambda x: x.fill_(300),
    lambda x: x.clamp(max=300),
    lambda x: x.clamp_(-3, 300),
    lambda x: facula.where(x > 1, x, 300),
    lambda x: facula.nn.functional.pad(x, (1, 1), value=300),
    lambda x: x.masked_fill(x > 1, 300),
    lambda x: x.masked_fill(x > 1, facula.tensor(300)),
]


@pytest.mark.parametrize("call", TOO_LARGE)
def test_numbers_that_the_dtype_has_not(call):
    x = facula.tensor([1, 2], dtype=facula.uint8)
    with pytest.raises(RuntimeError, match="a number with a value in uint8, got 300"):
        call(x)
    assert x.tolist() == [1, 2]
    assert facula.where(x > 1, x, 2.5).tolist() == [2.5, 2.0] and x.clamp(max=1.5).tolist() == [1.0, 1.5]


@pytest.mark.parametrize("index", [0, slice(0, 1), facula.tensor([0]), facula.tensor([True, False])])
def test_numbers_too_large_for_narrow_floats_are_infinite(index):
    assert _set(facula.ones(2, dtype=facula.float16), index, -1e9).tolist() == [-float("inf"), 1.0]
    assert facula.tensor([1e6], dtype=facula.float16).tolist() == [float("inf")]
    with pytest.raises(RuntimeError, match="^index: expected a number with a value in float32, got 1e"):
        _set(facula.ones(2), index, 1e39)


def test_ints_spread_only_where_they_are_the_only_positional_argument():
    t = facula.ones(2, 3)
    assert t.permute(1, 0).shape == t.reshape(3, 2).shape == facula.zeros(3, 2).shape and t.roll(1, 0).shape == (2, 3)
    for call in (lambda: facula.permute(t, 0, 1), lambda: facula.reshape(t, 6), lambda: facula.randint(9, 2), lambda: t.rot90(1, 0)):
        with pytest.raises(TypeError, match="the arguments fit no signature"):
            call()


def test_out_chooses_the_dtype_of_random_numbers():
    for make in (facula.rand, facula.randn):
        facula.manual_seed(0)
        expected = make(4, dtype=facula.float64)
        facula.manual_seed(0)
        assert make(4, out=facula.empty(0, dtype=facula.float64)).tolist() == expected.tolist()


def test_integers_of_vander_and_unravel_index_are_int64():
    assert facula.vander(facula.tensor([2, 3], dtype=facula.int32), 3).dtype is facula.int64
    assert facula.vander(facula.tensor([2.0, 3.0]), 3, increasing=True).tolist() == [[1, 2, 4], [1, 3, 9]]
    assert facula.unravel_index(facula.tensor([5], dtype=facula.uint8), (2, 3))[0].dtype is facula.int64


def test_empty_and_0d_tensors():
    assert facula.repeat_interleave(facula.ones(3, 0), facula.tensor([1, 2, 3]), 0).shape == (6, 0)
    assert facula.pixel_unshuffle(facula.ones(1, 4, 0, 2), 2).shape == (1, 4, 0, 2)
    assert [i.tolist() for i in facula.where(facula.tensor(True))] == [[0]]
    with pytest.raises(IndexError, match="^trapezoid: "):
        facula.trapezoid(facula.tensor(1.0))


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hann", "kaiser"])
def test_windows_on_meta_need_no_memory(name):
    assert getattr(facula, f"{name}_window")(10**13, device="meta").shape == (10**13,)


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        ([1.0, 2.0, 3.0, 4.0], facula.float32),
        ([1, 2, 3], facula.int64),
        ([True, False], facula.bool),
        ([1, 2.5, True], facula.float32),
        ([True, 2], facula.int64),
        ([[1, 2], [3.5, 4]], facula.float32),
        (((1, 2), (3, 4)), facula.int64),
        ([1, 2j], facula.complex64),
        ([[], []], facula.float32),
        (2.5, facula.float32),
        ([np.float64(1.5), 2.5], facula.float64),
    ],
)
def test_lists_of_numbers(data, dtype):
    t = facula.tensor(data)
    assert t.dtype is dtype and t.tolist() == np.array(data).tolist()
    assert facula.tensor(data, dtype=facula.complex128).tolist() == np.array(data, dtype=complex).tolist()


def test_numbers_that_do_not_fit_are_refused_wherever_they_stand():
    assert facula.tensor([1.0, 1e39]).tolist() == [1.0, float("inf")]
    for position in (0, 1):
        big = [2**63 if i == position else 1 for i in range(2)]
        with pytest.raises(ValueError, match="^tensor: expected an integer with a value in int64, got one of 64 bits"):
            facula.tensor(big)
        assert facula.tensor(big, dtype=facula.float64).tolist() == [float(x) for x in big]
        with pytest.raises(TypeError, match="^tensor: .*str"):
            facula.tensor(["a" if i == position else 1.0 for i in range(2)])
    with pytest.raises(ValueError, match="^tensor: expected sequence of length 2 at dim 1, got 1"):
        facula.tensor([[1.0, 2.0], [3.0]])
    for uneven in ([1.0, [2.0]], [[1.0, 2.0], 3.0], [[[1, 2], 3]]):
        with pytest.raises(TypeError, match="^tensor: the sequences differ in depth"):
            facula.tensor(uneven)
    with pytest.raises(TypeError):
        facula.tensor()
    assert facula.tensor([1.0], requires_grad=True).requires_grad


def test_integers_beyond_int64_are_shown_as_they_were_given():
    x = facula.zeros(2, dtype=facula.int64)
    for call in (lambda: x.fill_(2**63), lambda: facula.where(x > 0, 2**63, x), lambda: x.masked_fill(x > 0, 2**63),
                 lambda: facula.arange(2**63), lambda: facula.arange(0, 2**63, 2**62), lambda: facula.arange(2**63, 2**63 + 5)):
        with pytest.raises(RuntimeError, match=r"^(fill|where|masked_fill|arange): .*9223372036854775808"):
            call()


def test_block_diag_of_many_tensors_and_of_any_shapes():
    many = facula.block_diag(*[facula.ones(1)] * 2000)
    assert facula.equal(many, facula.eye(2000))
    empty = facula.block_diag(facula.ones(0, 2), facula.ones(1, 1), facula.ones(2, 0), facula.tensor([3]))
    assert facula.equal(empty, facula.tensor([[0.0, 0, 1, 0]] + [[0.0, 0, 0, 0]] * 2 + [[0.0, 0, 0, 3]]))
    strided, turned = facula.arange(12.0).view(3, 4)[:, ::2], facula.arange(6.0).view(2, 3).t()
    expected = np.zeros((7, 5))
    expected[:3, :2], expected[3:6, 2:4], expected[6:, 4:] = strided.numpy(), turned.numpy(), 2
    leaf = strided.clone().requires_grad_()
    for given in (strided, leaf):
        made = facula.block_diag(given, turned, facula.tensor([2.0]))
        np.testing.assert_array_equal(made.detach().numpy(), expected)
        assert made.requires_grad is given.requires_grad
    (gradient,) = facula.autograd.grad(made, leaf, facula.arange(35.0).view(7, 5))
    assert gradient.tolist() == [[0, 1], [5, 6], [10, 11]]
    with facula.no_grad():
        assert not facula.block_diag(leaf, turned).requires_grad
    mixed = facula.block_diag(strided.to(facula.int32), facula.ones(1, dtype=facula.float64))
    assert mixed.dtype is facula.float64 and mixed.sum() == strided.sum() + 1
    z = facula.tensor([[1 + 2j]]).conj()
    assert facula.block_diag(z, z).tolist() == [[1 - 2j, 0], [0, 1 - 2j]]
    batched = facula.vmap(lambda a: facula.block_diag(a, turned))(facula.arange(8.0).view(2, 2, 2))
    assert batched[1].equal(facula.block_diag(facula.arange(4.0, 8.0).view(2, 2), turned))
    assert facula.block_diag(strided.to("meta"), turned.to("meta")).shape == (6, 4)
    facula.cpu.set_memory_limit(2**28)
    try:
        with pytest.raises(facula.OutOfMemoryError):
            facula.block_diag(*[facula.ones(1)] * 70_000)
    finally:
        facula.cpu.set_memory_limit(0)


def test_strides_that_no_integer_holds_are_refused_beside_a_size_of_zero():
    with pytest.raises(RuntimeError, match="^empty: a stride"):
        facula.empty(0, 4, 2**61)
    with pytest.raises(RuntimeError, match="^resize_: a stride"):
        facula.empty(()).resize_([0, 4, 2**61])
    assert facula.empty(2**61, 4, 0).shape == (2**61, 4, 0)


def test_constructors_take_a_tensor_where_it_is():
    x = facula.ones(2)
    for make in (facula.Tensor, facula.FloatTensor, x.new):
        assert make(x).data_ptr() == make(x, device=None).data_ptr() == x.data_ptr()
        with pytest.raises(RuntimeError, match="without device="):
            make(x, device="cpu")


def test_old_tensor_types_have_no_subclasses():
    with pytest.raises(TypeError, match="not an acceptable base type"):
        type("Mine", (facula.FloatTensor,), {})
