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
