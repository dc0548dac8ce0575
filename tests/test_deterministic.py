"""use_deterministic_algorithms: what it fills, and which ops it refuses."""

import warnings

import pytest
from cuda_environment import run_emulated

import facula as torch


@pytest.fixture
def asked():
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)
    torch.utils.deterministic.fill_uninitialized_memory = True


def filled(x):
    if x.dtype is torch.bool:
        return bool(x.all())
    if x.is_floating_point() or x.is_complex():
        return bool(x.isnan().all())
    return x.flatten().tolist() == [torch.iinfo(x.dtype).max] * x.numel()


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.complex64, torch.complex32, torch.bool, torch.int8, torch.uint8, torch.int64, torch.uint64]
)  # fmt: skip
def test_new_memory_is_filled(asked, dtype):
    like = torch.zeros(2, 3, dtype=dtype)
    made = [
        torch.empty(3, 4, dtype=dtype),
        torch.empty(1, 2, 3, 4, dtype=dtype, memory_format=torch.channels_last),
        torch.empty_like(like),
        torch.empty_strided((2, 3), (1, 4), dtype=dtype),
        torch.empty_permuted((2, 3), (1, 0), dtype=dtype),
        like.new_empty(5),
        like.new_empty_strided((2, 2), (1, 2)),
    ]
    assert all(filled(x) for x in made)


def test_only_what_resize_adds_is_filled(asked):
    x = torch.zeros(4)
    x.resize_(10)
    assert x[:4].tolist() == [0] * 4 and filled(x[4:])
    x = torch.zeros(4)
    x.resize_(2)
    assert x.tolist() == [0, 0]


def test_nothing_is_filled_where_nobody_asked(asked):
    torch.utils.deterministic.fill_uninitialized_memory = False
    assert torch.utils.deterministic.fill_uninitialized_memory is False
    torch.zeros(1000)
    assert not torch.empty(1000).isnan().all()
    with pytest.raises(RuntimeError, match="got int$"):
        torch.utils.deterministic.fill_uninitialized_memory = 1


def test_ops_without_a_deterministic_way(asked):
    values, places = torch.nn.functional.max_pool2d(torch.rand(1, 1, 4, 4), 2, return_indices=True)

    def calls():
        torch.nn.functional.max_unpool2d(values, places, 2)
        torch.zeros(3).put_(torch.tensor([0]), torch.ones(1))

    with pytest.raises(RuntimeError, match="^max_unpool2d: does not have a deterministic"):
        torch.nn.functional.max_unpool2d(values, places, 2)
    with pytest.raises(RuntimeError, match="^put_: does not have a deterministic"):
        torch.zeros(3).put_(torch.tensor([0]), torch.ones(1))
    torch.zeros(3).put_(torch.tensor([0]), torch.ones(1), accumulate=True)
    torch.use_deterministic_algorithms(True, warn_only=True)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        calls()
    assert len(told) == 2
    torch.use_deterministic_algorithms(False)
    calls()


def test_gradients_of_grid_sample_on_cuda():
    """They add up in the order in which threads come; on the CPU in one order."""
    run_emulated("""
import facula as t
import facula.nn.functional as F
t.use_deterministic_algorithms(True)
grid = t.zeros(1, 2, 2, 2)
for device in ("cpu", "cuda"):
    x = t.ones(1, 1, 3, 3, device=device, requires_grad=True)
    y = F.grid_sample(x, grid.to(device), align_corners=False)
    try:
        y.sum().backward()
        assert device == "cpu"
    except RuntimeError as error:
        assert device == "cuda" and "grid_sample: does not have a deterministic implementation" in str(error), error
t.use_deterministic_algorithms(False)
y.sum().backward()
""")


def test_the_two_settings_are_told_apart(asked):
    torch.use_deterministic_algorithms(False, warn_only=True)
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.is_deterministic_algorithms_warn_only_enabled()
    assert torch.get_deterministic_debug_mode() == 0
    for wrong in ({"mode": 1}, {"mode": True, "warn_only": 1}):
        with pytest.raises(TypeError, match="got int$"):
            torch.use_deterministic_algorithms(**wrong)
