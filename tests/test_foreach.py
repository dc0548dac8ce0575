"""`_foreach_` functions: what they return, and which operands they take."""

import pytest

import facula as torch


def test_in_place_forms_return_the_list():
    lists = [torch.ones(2), torch.ones(3)]
    for result in (
        torch._foreach_add_(lists, 1), torch._foreach_zero_(lists), torch._foreach_copy_(lists, [torch.ones(2), torch.ones(3)]),
        torch._foreach_addcmul_(lists, lists, lists, torch.tensor([1.0, 2.0])),
    ):  # fmt: skip
        assert result is lists
    assert [x.tolist() for x in lists] == [[2, 2], [3, 3, 3]]


def test_operands():
    ones = [torch.ones(2)]
    assert torch._foreach_mul(ones, torch.tensor(3.0))[0].tolist() == [3, 3]
    assert torch._foreach_pow(2, [torch.tensor([1.0, 3.0])])[0].tolist() == [2, 8]
    assert torch._foreach_mm([torch.eye(2)], [torch.ones(2, 2)])[0].tolist() == [[1, 1], [1, 1]]
    assert torch._foreach_powsum([torch.tensor([3.0, -4.0])], 2)[0].item() == 25
    for call in (
        lambda: torch._foreach_add([], 1),
        lambda: torch._foreach_add(ones, torch.ones(1)),
        lambda: torch._foreach_add(ones, [1, 2]),
        lambda: torch._foreach_addcmul(ones, ones, ones, torch.tensor(2.0)),
    ):
        with pytest.raises(RuntimeError, match="^_foreach_"):
            call()
    with pytest.raises(TypeError, match="^_foreach_clamp_min"):
        torch._foreach_clamp_min(ones, torch.tensor(0.0))
