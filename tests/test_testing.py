"""facula.testing: assert_close and make_tensor."""

import numpy as np
import pytest

import facula
from facula.testing import assert_close, make_tensor

nan = float("nan")


@pytest.mark.parametrize(
    "actual, expected",
    [
        (facula.ones(3), facula.ones(3) + 1e-7),
        (facula.ones(2, 0), facula.ones(2, 0)),
        (np.ones(3), np.ones(3)),
        (facula.eye(2).to_sparse(), facula.eye(2).to_sparse()),
        ({"a": [1.0, (facula.tensor(2),)]}, {"a": [1.0, (facula.tensor(2),)]}),
        (None, None),
        (1 + 2j, 1 + 2j),
    ],
)
def test_close(actual, expected):
    assert_close(actual, expected)


@pytest.mark.parametrize(
    "actual, expected, text",
    [
        (facula.ones(3), facula.tensor([1.0, 2.0, 1.0]), r"Mismatched elements: 1 / 3 \(33.3%\)\n.*difference: 1 at index \(1,\)"),
        (facula.ones(3), facula.ones(4), "attribute 'shape' do not match"),
        (facula.ones(3), facula.ones(3, dtype=facula.float64), "attribute 'dtype' do not match"),
        (facula.tensor([1, 2]), facula.tensor([1, 3]), "not equal"),
        (facula.tensor(nan), facula.tensor(nan), "not close"),
        ([1.0, {"k": 2.0}], [1.0, {"k": 3.0}], r"Expected 3.0 but got 2.0[\s\S]*item \[1\]\['k'\]"),
        ([1], [1, 2], "length of the sequences"),
        ({"a": 1}, {"b": 1}, r"\['b'\] missing, \['a'\] additional"),
        (1, 1.0, "types do not match"),
        (None, 1, "None is not 1"),
    ],
)
def test_not_close(actual, expected, text):
    with pytest.raises(AssertionError, match="assert_close: [\\s\\S]*" + text):
        assert_close(actual, expected)


def test_options():
    assert_close(facula.tensor(nan), facula.tensor(nan), equal_nan=True)
    assert_close(facula.ones(2), facula.ones(2, dtype=facula.float64), check_dtype=False)
    assert_close(facula.tensor([1, 2]), facula.tensor([1, 3]), rtol=0, atol=1)
    with pytest.raises(ValueError, match="rtol and atol"):
        assert_close(1.0, 1.0, rtol=0.1)
    with pytest.raises(TypeError, match="no way to compare <class 'str'>"):
        assert_close("a", "a")
    with pytest.raises(AssertionError, match="^own: assert_close"):
        assert_close(1.0, 2.0, msg=lambda report: "own: " + report)


@pytest.mark.parametrize("dtype", [facula.bool, facula.uint8, facula.int64, facula.float16, facula.float64, facula.complex64])
def test_make_tensor(dtype):
    t = make_tensor(50, 4, dtype=dtype, device="cpu", noncontiguous=True, exclude_zero=True)
    assert t.shape == (50, 4) and t.dtype is dtype and not t.is_contiguous() and bool((t != 0).all())
    with pytest.raises(ValueError, match="`low` must be less than `high`"):
        make_tensor(2, dtype=dtype, device="cpu", low=1, high=0)
    if dtype.is_floating_point or dtype.is_complex:
        with pytest.warns(FutureWarning, match="low below high"):
            assert make_tensor(2, dtype=dtype, device="cpu", low=1.0, high=1).real.tolist() == [1, 1]
    else:
        with pytest.raises(ValueError, match="`low` must be less than `high`"):
            make_tensor(2, dtype=dtype, device="cpu", low=1, high=1)
        assert not make_tensor(99, dtype=dtype, device="cpu", low=-0.9, high=0.9).any()
    for low, high in ((nan, None), (None, nan), (-(2**1100), -(2**1099)), (2**1099, 2**1100)):
        with pytest.raises(ValueError, match="^make_tensor"):
            make_tensor(2, dtype=dtype, device="cpu", low=low, high=high)


def test_make_tensor_range():
    t = make_tensor((1000,), dtype=facula.float32, device="cpu", low=2, high=3, requires_grad=True)
    assert t.requires_grad and 2 <= t.min() and t.max() < 3
    with pytest.raises(ValueError, match="require gradients"):
        make_tensor(2, dtype=facula.int8, device="cpu", requires_grad=True)


def test_sparse_tensors_that_differ():
    a = facula.tensor([[1.0, 0.0], [0.0, 2.0]])
    for change in (lambda t: t.to_sparse(), lambda t: t.to_sparse_csr(), lambda t: t.to_sparse_bsc((1, 1))):
        for other in (a + facula.ones(2, 2), a.flip(0), a * 2):
            with pytest.raises(AssertionError, match="^assert_close"):
                assert_close(change(a), change(other))
        assert_close(change(a), a, check_layout=False)
        with pytest.raises(AssertionError, match="layout"):
            assert_close(change(a), a)
    with pytest.raises(TypeError, match="no way to compare"):
        assert_close(a, a.numpy())


def test_cases_compare_tensors_in_dicts():
    import facula
    from facula.testing._internal.common_utils import TestCase

    case = TestCase()
    case.assertEqual({"a": facula.ones(2), "b": ["text", (facula.zeros(1),)]}, {"a": facula.ones(2), "b": ["text", (facula.zeros(1),)]})
    for other in ({"a": facula.zeros(2)}, {"b": facula.ones(2)}, {"a": facula.ones(3)}):
        with pytest.raises(AssertionError):
            case.assertEqual({"a": facula.ones(2)}, other)
