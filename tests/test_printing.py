"""How tensors print. The expected texts are facts about PyTorch 2.13."""

import numpy as np
import pytest

import facula as torch

inf, nan = float("inf"), float("nan")


@pytest.fixture(autouse=True)
def default_options():
    torch.set_printoptions(profile="default")
    yield
    torch.set_printoptions(profile="default")


CASES = [
    ([1.5, 2.0, -3.25], None, "tensor([ 1.5000,  2.0000, -3.2500])"),
    ([1.0, 2.0, 300.0], None, "tensor([  1.,   2., 300.])"),
    ([1.0, nan, inf, -inf], None, "tensor([1., nan, inf, -inf])"),
    ([0.5, nan, -inf], None, "tensor([0.5000,    nan,   -inf])"),
    ([1e-5, 1.0], None, "tensor([1.0000e-05, 1.0000e+00])"),
    ([1.0, 2000.0], None, "tensor([1.0000e+00, 2.0000e+03])"),
    ([1.0, 1000.0], None, "tensor([   1., 1000.])"),
    ([0.0, -0.0], None, "tensor([0., -0.])"),
    ([], None, "tensor([])"),
    ([[], []], None, "tensor([], size=(2, 0))"),
    ([], "int64", "tensor([], dtype=torch.int64)"),
    (3.0, None, "tensor(3.)"),
    (3.14159, None, "tensor(3.1416)"),
    (7, None, "tensor(7)"),
    (True, None, "tensor(True)"),
    ([True, False], None, "tensor([ True, False])"),
    ([1, -20, 300], None, "tensor([  1, -20, 300])"),
    ([1, 2], "int32", "tensor([1, 2], dtype=torch.int32)"),
    ([1.0, 2.5], "float64", "tensor([1.0000, 2.5000], dtype=torch.float64)"),
    ([1.0, 2.5], "float16", "tensor([1.0000, 2.5000], dtype=torch.float16)"),
    ([1.0, 2.5], "bfloat16", "tensor([1.0000, 2.5000], dtype=torch.bfloat16)"),
    ([1 + 2j, 3 - 4.5j], None, "tensor([1.+2.0000j, 3.-4.5000j])"),
    ([[1, 2], [3, 4]], None, "tensor([[1, 2],\n        [3, 4]])"),
    ([[[1], [2]], [[3], [4]]], None, "tensor([[[1],\n         [2]],\n\n        [[3],\n         [4]]])"),
    (12345678.0, None, "tensor(12345678.)"),
    (123456789.0, None, "tensor(1.2346e+08)"),
]


@pytest.mark.parametrize(("data", "dtype", "text"), CASES)
def test_text(data, dtype, text):
    tensor = torch.tensor(data, dtype=getattr(torch, dtype) if dtype else None)
    assert repr(tensor) == text and str(tensor) == text


def test_long_tensors_are_summarized():
    assert repr(torch.arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    text = repr(torch.zeros(1001, 7))
    assert text.count("...") == 7 and text.startswith("tensor([[0., 0., 0.,  ..., 0., 0., 0.],\n        [0.,")


def test_lines_are_broken():
    assert repr(torch.arange(30)) == (
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n"
        "        18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29])"
    )


def test_history_and_place():
    x = torch.tensor([1.0], requires_grad=True)
    assert repr(x) == "tensor([1.], requires_grad=True)"
    assert repr(x * 2) == "tensor([2.], grad_fn=<MulBackward0>)"
    assert repr(torch.ones(2, device="meta")) == "tensor(..., device='meta', size=(2,))"
    assert repr(torch.nn.Parameter(torch.ones(1))) == "Parameter containing:\ntensor([1.], requires_grad=True)"


def test_subclass_and_contents():
    class Named(torch.Tensor):
        pass

    assert repr(torch.ones(2).as_subclass(Named)) == "Named([1., 1.])"
    assert torch.ones(2).__repr__(tensor_contents="[a]") == "tensor([a])"


def test_views_print_their_values():
    x = torch.tensor([[1, 2], [3, 4]])
    assert repr(x.T) == "tensor([[1, 3],\n        [2, 4]])"
    assert repr(torch.tensor([1 + 1j]).conj()) == "tensor([1.-1.j])"
    assert repr(torch.from_numpy(np.arange(3)[::-1])) == "tensor([2, 1, 0])"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"precision": 2}, "tensor([ 0.12, 12.35])"),
        ({"sci_mode": True}, "tensor([1.2346e-01, 1.2346e+01])"),
        ({"precision": 1, "sci_mode": True}, "tensor([1.2e-01, 1.2e+01])"),
        ({"profile": "short"}, "tensor([ 0.12, 12.35])"),
        ({"threshold": 1, "edgeitems": 0}, "tensor([...], size=(2,))"),
    ],
)
def test_options(options, text):
    torch.set_printoptions(**options)
    assert repr(torch.tensor([0.123456, 12.3456])) == text


def test_options_are_kept_and_checked():
    from facula import _tensor_str

    with _tensor_str.printoptions(precision=1):
        assert repr(torch.tensor(0.25)) == "tensor(0.2)"
    assert repr(torch.tensor(0.25)) == "tensor(0.2500)"
    assert torch.get_printoptions()["linewidth"] == 80
    with pytest.raises(ValueError, match="^set_printoptions"):
        torch.set_printoptions(profile="wide")
