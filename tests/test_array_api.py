"""The Python Array API namespace."""

import numpy as np
import pytest

import facula as torch

x = torch.tensor([[3.0, 1.0], [2.0, 2.0]])
xp = x.__array_namespace__()


def test_namespace():
    assert x.__array_namespace__(api_version="2024.12") is xp and xp.__array_api_version__ == "2024.12"
    with pytest.raises(ValueError):
        x.__array_namespace__(api_version="1999.1")
    assert xp.sin is torch.sin and xp.float32 is torch.float32 and xp.pi == np.pi and xp.newaxis is None


def test_inspection():
    info = xp.__array_namespace_info__()
    assert info.default_dtypes()["integral"] is torch.int64 and info.devices() == [torch.device("cpu")]
    assert info.dtypes(kind="real floating") == {"float32": torch.float32, "float64": torch.float64}
    assert info.capabilities()["max dimensions"] == 64


def test_dtypes():
    assert xp.isdtype(torch.int8, "integral") and not xp.isdtype(torch.bool, "numeric")
    assert xp.isdtype(torch.float32, ("bool", "real floating")) and xp.isdtype(torch.int8, torch.int8)
    with pytest.raises(ValueError):
        xp.isdtype(torch.int8, "number")
    assert xp.astype(x, torch.int64).dtype is torch.int64 and xp.astype(x, torch.float32, copy=False) is x


def test_shapes():
    assert xp.permute_dims(torch.ones(2, 3), (1, 0)).shape == (3, 2) and xp.matrix_transpose(
        torch.ones(4, 2, 3)
    ).shape == (4, 3, 2)
    assert xp.expand_dims(x, axis=1).shape == (2, 1, 2) and [r.tolist() for r in xp.unstack(x)] == x.tolist()


def test_elements():
    assert xp.bitwise_invert(torch.tensor([0, 5])).tolist() == [-1, -6]
    assert xp.vecdot(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, 4.0]])).tolist() == [11.0]
    assert xp.vecdot(torch.tensor([1j]), torch.tensor([1j])).item() == 1 + 0j
    assert xp.sum(x, axis=(0, 1)).item() == 8.0 and xp.sum(x, axis=0, keepdims=True).shape == (1, 2)


# the standard's functions, by section of the 2024.12 edition

FUNCTIONS = """
arange asarray empty empty_like eye from_dlpack full full_like linspace meshgrid ones ones_like tril triu zeros zeros_like
astype can_cast finfo iinfo isdtype result_type
abs acos acosh add asin asinh atan atan2 atanh bitwise_and bitwise_left_shift bitwise_invert bitwise_or bitwise_right_shift
bitwise_xor ceil clip conj copysign cos cosh divide equal exp expm1 floor floor_divide greater greater_equal hypot imag isfinite
isinf isnan less less_equal log log1p log2 log10 logaddexp logical_and logical_not logical_or logical_xor maximum minimum
multiply negative nextafter not_equal positive pow real reciprocal remainder round sign signbit sin sinh square sqrt subtract
tan tanh trunc
take take_along_axis __array_namespace_info__
matmul matrix_transpose tensordot vecdot
broadcast_arrays broadcast_to concat expand_dims flip moveaxis permute_dims repeat reshape roll squeeze stack tile unstack
argmax argmin count_nonzero nonzero searchsorted where
unique_all unique_counts unique_inverse unique_values argsort sort
cumulative_prod cumulative_sum max mean min prod std sum var all any diff
""".split()
LINALG = """
cholesky cross det diagonal eigh eigvalsh inv matmul matrix_norm matrix_power matrix_rank matrix_transpose outer pinv qr slogdet
solve svd svdvals tensordot trace vecdot vector_norm
""".split()
FFT = "fft ifft fftn ifftn rfft irfft rfftn irfftn hfft ihfft fftfreq rfftfreq fftshift ifftshift".split()
METHODS = """
__abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __dlpack__ __dlpack_device__ __eq__ __float__ __floordiv__
__ge__ __getitem__ __gt__ __index__ __int__ __invert__ __le__ __lshift__ __lt__ __matmul__ __mod__ __mul__ __ne__ __neg__ __or__
__pos__ __pow__ __rshift__ __setitem__ __sub__ __truediv__ __xor__ __iadd__ __radd__ to_device dtype device mT ndim shape size T
""".split()


@pytest.mark.parametrize(
    ("place", "names"), [(xp, FUNCTIONS), (xp.linalg, LINALG), (xp.fft, FFT), (torch.Tensor, METHODS)], ids=str
)
def test_every_name_of_the_standard_is_there(place, names):
    missing = [name for name in names if not hasattr(place, name)]
    assert not missing


def test_constants_and_dtypes():
    for name in "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float32 float64 complex64 complex128".split():
        assert isinstance(getattr(xp, name), torch.dtype)
    assert xp.e == np.e and xp.inf == np.inf and xp.nan != xp.nan


def test_creation():
    assert xp.eye(2, 3, k=1).tolist() == [[0, 1, 0], [0, 0, 1]] and xp.eye(2, None).shape == (2, 2)
    assert xp.full(2, 3, dtype=xp.int8).tolist() == [3, 3] and xp.full((), 1.5).shape == ()
    assert xp.arange(3).tolist() == [0, 1, 2] and xp.arange(0, -1).shape == (0,) and xp.arange(0, 3.0, -1).dtype is xp.float32
    assert xp.linspace(0, 1, 2, endpoint=False).tolist() == [0, 0.5]
    assert xp.tril(torch.ones(2, 2), k=-1).tolist() == [[0, 0], [1, 0]] and xp.triu(torch.ones(2, 2), k=1)[0, 1] == 1


def test_dtype_functions_take_tensors_dtypes_and_numbers():
    assert xp.finfo(xp.complex64).dtype is xp.float32 and xp.finfo(x).bits == 32
    assert xp.iinfo(xp.int8).max == 127 and xp.iinfo(torch.ones(1, dtype=xp.uint8)).dtype is xp.uint8
    assert xp.result_type(xp.int8, torch.ones(1, dtype=xp.int16)) is xp.int16 and xp.result_type(x, 1j) is xp.complex64
    assert xp.result_type(xp.int8, xp.float64, 1) is xp.float64
    with pytest.raises(ValueError, match="^result_type: .*got"):
        xp.result_type(1, 2)
    assert xp.can_cast(xp.int8, xp.int16) and not xp.can_cast(x, xp.int8)


def test_equal_is_element_by_element():
    assert xp.equal(x, 2.0).tolist() == [[False, False], [True, True]]


def test_reductions_of_unsigned_integers_stay_unsigned():
    small = torch.tensor([200, 100], dtype=xp.uint8)
    for function in (xp.sum, xp.prod, xp.cumulative_sum, xp.cumulative_prod):
        assert function(small).dtype is xp.uint64
    assert xp.sum(small).item() == 300 and xp.count_nonzero(small, axis=0, keepdims=True).tolist() == [2]


def test_manipulation_takes_the_standards_arguments():
    assert [a.shape for a in xp.broadcast_arrays(x, torch.ones(1))] == [(2, 2), (2, 2)]
    assert xp.broadcast_to(torch.ones(1), (2, 3)).shape == (2, 3) and xp.expand_dims(x, 0).shape == (1, 2, 2)
    assert xp.repeat(torch.tensor([1, 2]), torch.tensor([2, 1], dtype=xp.int8)).tolist() == [1, 1, 2]
    assert x.to_device(x.device) is x
    with pytest.raises(ValueError, match="^to_device: "):
        x.to_device("cpu", stream=1)


def test_linalg_and_fft():
    stack = torch.arange(8.0).reshape(2, 2, 2)
    assert xp.linalg.trace(stack, offset=1).tolist() == [1, 5] and xp.linalg.diagonal(stack).tolist() == [[0, 3], [4, 7]]
    assert xp.linalg.matrix_norm(stack, keepdims=True).shape == (2, 1, 1) and xp.linalg.outer(x[0], x[1]).shape == (2, 2)
    assert xp.linalg.cross(torch.tensor([1.0, 0, 0]), torch.eye(3)).tolist() == [[0, 0, 0], [0, 0, 1], [0, -1, 0]]
    assert xp.linalg.matrix_rank(torch.eye(3), rtol=0.5) == 3 and xp.linalg.svd(x, full_matrices=False).S.shape == (2,)
    assert np.allclose(xp.fft.fftn(x, axes=(0,)).numpy(), np.fft.fftn(x.numpy(), axes=(0,)))
    assert xp.fft.fftshift(torch.arange(4), axes=0).tolist() == [2, 3, 0, 1]


def test_promotion_is_the_standards_also_without_dimensions():
    table = {("uint8", "int8"): "int16", ("uint16", "int8"): "int32", ("uint16", "int64"): "int64", ("uint32", "int32"): "int64"}
    for (a, b), common in table.items():
        assert xp.result_type(getattr(xp, a), getattr(xp, b)) is getattr(xp, common)
        pair = torch.ones((), dtype=getattr(xp, b)), torch.ones(2, dtype=getattr(xp, a))
        assert xp.add(*pair).dtype is xp.where(pair[1] > 0, *pair).dtype is getattr(xp, common)
    with pytest.raises(RuntimeError, match="^promote_types: .*uint64 and int8"):
        xp.result_type(xp.uint64, xp.int8)
    assert not xp.can_cast(xp.uint64, xp.int8)
    vectors = torch.ones(2, dtype=xp.int8), torch.ones(2, dtype=xp.float64)
    assert xp.matmul(*vectors).dtype is xp.linalg.solve(torch.eye(2), vectors[1]).dtype is xp.float64


def test_special_values_are_the_standards():
    inf = float("inf")
    assert xp.floor_divide(torch.tensor([inf, 1.0, -7.0]), torch.tensor([-2.0, -inf, 2.0])).tolist() == [-inf, 0, -4]
    assert xp.signbit(xp.remainder(torch.tensor([-0.0, 0.0]), torch.tensor([1.0, -1.0]))).tolist() == [False, True]
    assert xp.isnan(xp.sign(torch.tensor([xp.nan, -2.0]))).tolist() == [True, False] and xp.sign(2j * x)[0, 0] == 1j
    assert xp.remainder(x, 2).tolist() == [[1, 1], [0, 0]] and xp.floor_divide(7, torch.tensor(2)).item() == 3


def test_reductions_over_no_dimension_keep_every_element():
    for function in (xp.max, xp.min, xp.mean, xp.sum, xp.prod):
        assert function(x, axis=()).tolist() == x.tolist()
    assert xp.var(x, axis=()).tolist() == [[0, 0], [0, 0]] and xp.isnan(xp.std(x, axis=(), correction=1)).all()
    assert xp.mean(x, keepdims=True).shape == (1, 1)


def test_take_counts_from_the_end():
    assert xp.take(torch.tensor([3, 4, 5]), torch.tensor([0, -1])).tolist() == [3, 5]


def test_unsigned_and_complex_numbers_have_an_order_here():
    big = torch.tensor([3, -1, -(2**63)]).view(xp.uint64)
    assert xp.argmax(big).item() == 1 and xp.argmin(big).item() == 0 and xp.max(big).item() == 2**64 - 1 and xp.min(big).item() == 3
    numbers = torch.tensor([[1j, 0], [1, 1j]])
    values, first, inverse, counts = xp.unique_all(numbers)
    assert values.tolist() == [0, 1j, 1] and first.tolist() == [1, 0, 2] and counts.tolist() == [1, 2, 1]
    assert inverse.shape == (2, 2) and xp.unique_inverse(numbers).inverse_indices.tolist() == inverse.tolist()
    assert xp.unique_values(numbers).tolist() == values.tolist() and xp.unique_counts(numbers).counts.sum() == 4


@pytest.mark.parametrize("name", ["all", "any", "prod", "sum"])
def test_reductions_refuse_axes_that_are_not_there(name):
    with pytest.raises(IndexError, match=f"^{name}: "):
        getattr(xp, name)(torch.ones(2, 2), axis=5)
    assert getattr(xp, name)(torch.tensor(1), axis=0).item() == 1
