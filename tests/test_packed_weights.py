"""Weights that kernels keep in their own order: used as long as they are true, and never longer."""

from __future__ import annotations

import ctypes
import gc
import threading

import numpy as np
import pytest
from packed_weights_cases import (
    MAKERS,
    answer,
    answers,
    channels_last,
    checks,
    keeps_any,
    kept,
    linear,
    pointwise,
    tiles,
    windows,
)

import facula
import facula.nn.functional as F
from facula import nn


@pytest.fixture(autouse=True)
def kept_afresh():
    """Without copies from before, and with room for some."""
    facula.cpu.set_packed_weights(0)
    facula.cpu.set_packed_weights(256 << 20)
    facula.manual_seed(0)


@pytest.fixture(params=MAKERS, ids=lambda f: f.__name__)
def case(request):
    return channels_last(*request.param())


def test_a_weight_is_kept_when_it_is_seen_again_and_results_are_the_same_to_the_last_bit(case):
    module, x = case
    if not keeps_any():
        pytest.skip("products are a library's here")
    before = kept()["copies"]
    first = answer(module, x)
    assert kept()["copies"] == before
    second = answer(module, x)
    assert kept()["copies"] == before + 1 and kept()["bytes"] >= module.weight.numel() * 4
    hits = kept()["hits"]
    third = answer(module, x)
    assert kept()["hits"] == hits + 1
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(first, third)
    checks(module, x)


@pytest.mark.parametrize("rows", [17, 18, 40, 97, 200])
@pytest.mark.parametrize("inner, columns", [(96, 128), (100, 77), (385, 49), (1000, 17), (64, 2065)])
def test_products_of_odd_sizes(rows, inner, columns):
    x, w = facula.randn(rows, inner), facula.randn(columns, inner)
    expected = x.double().numpy() @ w.double().numpy().T
    with facula.no_grad():
        results = [F.linear(x, w).numpy() for _ in range(3)]
    np.testing.assert_allclose(results[0], expected, atol=1e-3)
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("rows, inner, columns", [(33, 96, 128), (64, 100, 97), (200, 385, 49), (40, 64, 2065)])
def test_narrow_weights_are_kept_too(rows, inner, columns, dtype):
    """In their own order, or in that of float32; the same to the last bit, and as written."""
    x, w = (facula.randn(count, inner).to(getattr(facula, dtype)) for count in (rows, columns))
    bias = facula.randn(columns).to(w.dtype)
    before = kept()["copies"]
    with facula.no_grad():
        for factor in (1, -2):
            w.mul_(factor)
            results = [F.linear(x, w, bias) for _ in range(3)]
            assert facula.equal(results[0], results[1]) and facula.equal(results[0], results[2])
            expected = x.double() @ w.double().t() + bias.double()
            assert ((results[0].double() - expected).abs() <= 2**-7 * (expected.abs() + 1)).all()
    if keeps_any():
        assert kept()["copies"] == before + 1


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("rows", [1, 2, 4, 8, 16, 17, 24, 33, 48, 49])
def test_every_call_rounds_as_the_first(rows, dtype):
    """Also where few rows go another way than many, and whether or not something is kept."""
    for inner, columns in ((768, 256), (2048, 64)):
        x, w = (facula.randn(count, inner).to(getattr(facula, dtype)) for count in (rows, columns))
        with facula.no_grad():
            results = [F.linear(x, w) for _ in range(3)]
            facula.cpu.set_packed_weights(0)
            results.append(F.linear(x, w))
            facula.cpu.set_packed_weights(256 << 20)
        assert all(facula.equal(results[0], r) for r in results)


@pytest.mark.parametrize("side", [5, 12, 22, 24, 45, 46])
def test_images_of_odd_sizes_with_few_tiles_or_positions_left(side):
    for maker in (tiles, pointwise, windows):
        module, _ = maker()
        x = facula.randn(2, module.in_channels, side, side).contiguous(memory_format=facula.channels_last)
        checks(module, x)


def test_not_a_number_in_a_weight_stays_in_its_column():
    module, x = linear()
    with facula.no_grad():
        module.weight[127, 5] = float("nan")
        module.weight[3, 7] = float("inf")
    result = answers(module, x)
    assert np.isnan(result[:, 127]).all() and np.isinf(result[:, 3]).all() and np.isfinite(np.delete(result, [3, 127], 1)).all()


def by_optimizer(w):
    w.grad = facula.ones_like(w)
    facula.optim.SGD([w], lr=0.1).step()


def by_data(w):
    w.data.mul_(2)


def by_kept_data(w, held=[]):  # noqa: B006 - held on purpose: it lives on
    held.append(w.data)
    held[-1].add_(1)


def by_numpy(w):
    w.detach().numpy()[...] = 3


def by_dlpack(w):
    np.from_dlpack(w.detach())[...] += 1


def by_buffer(w):
    memoryview(w.detach()).cast("B")[:4] = b"\0\0\1\1"


def by_address(w):
    ctypes.memset(w.data_ptr(), 0, 64)


def by_array_interface(w):
    address = w.detach().__array__().__array_interface__["data"][0]
    ctypes.memset(address, 0, 64)


def by_storage(w):
    w.untyped_storage().fill_(0)


def by_storage_slice(w):
    w.untyped_storage()[:400].fill_(0)


def by_storage_buffer(w):
    facula._C._storage_view(w.untyped_storage())[:4] = b"\0\0\1\1"


def by_storage_address(w):
    ctypes.memset(w.untyped_storage().data_ptr(), 0, 64)


def by_load_state_dict(w):
    holder = nn.ParameterList([w])
    holder.load_state_dict({"0": facula.full_like(w, 2.0)})


def by_set_data(w):
    w.data = facula.randn_like(w)


def by_set(w):
    w.set_(facula.randn_like(w))


def by_index(w):
    w[1] = 7


def by_view(w):
    w.view(-1)[3:9].fill_(5)


def by_detached_view(w):
    w.detach().flatten()[0] = 9


def by_out(w):
    facula.add(w, 1, out=w)


def by_foreach(w):
    facula._foreach_mul_([w], 3.0)


def by_init(w):
    nn.init.normal_(w)


def by_thread(w):
    thread = threading.Thread(target=facula.no_grad()(lambda: w.add_(1)))
    thread.start()
    thread.join()


def by_function(w):
    class Doubled(facula.autograd.Function):
        @staticmethod
        def forward(ctx, t):
            ctx.mark_dirty(t)
            return t.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g

    Doubled.apply(w)


WRITES = {f.__name__: f for f in (
    by_optimizer, by_data, by_kept_data, by_numpy, by_dlpack, by_buffer, by_address, by_array_interface, by_storage,
    by_storage_slice, by_storage_buffer, by_storage_address, by_load_state_dict, by_set_data, by_set, by_index, by_view,
    by_detached_view, by_out, by_foreach, by_init, by_thread, by_function)}  # fmt: skip
WRITES |= {name: (lambda w, name=name: getattr(w, name)(*ARGUMENTS.get(name, ()))) for name in (
    "add_", "mul_", "zero_", "fill_", "copy_", "normal_", "uniform_", "clamp_", "cos_", "index_fill_", "masked_fill_",
    "index_add_", "scatter_", "index_copy_", "fill_diagonal_", "addmm_", "exponential_", "bernoulli_", "index_put_")}  # fmt: skip
ARGUMENTS = {
    "add_": (1,),
    "mul_": (2,),
    "fill_": (0.5,),
    "copy_": (facula.full((128, 96), 4.0),),
    "clamp_": (-0.01, 0.01),
    "index_fill_": (0, facula.tensor([2]), 3.0),
    "masked_fill_": (facula.ones(128, 96, dtype=facula.bool), 1.5),
    "index_add_": (0, facula.tensor([1]), facula.ones(1, 96)),
    "scatter_": (0, facula.zeros(1, 96, dtype=facula.int64), 2.0),
    "index_copy_": (0, facula.tensor([5]), facula.ones(1, 96)),
    "fill_diagonal_": (3.0,),
    "addmm_": (facula.ones(128, 4), facula.ones(4, 96)),
    "index_put_": ((facula.tensor([4]),), facula.tensor(2.0)),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("mode", [facula.no_grad, facula.inference_mode])
def test_no_write_is_missed(write, mode):
    module, x = linear()
    module.requires_grad_(False)
    before = answers(module, x)
    for _ in range(2):  # the second time after an exposure has ended
        with mode():
            write(module.weight)
        gc.collect()
        checks(module, x)
    assert not np.array_equal(answer(module, x), before)


@pytest.mark.parametrize("write", ["by_data", "by_numpy", "by_optimizer", "mul_", "by_dlpack", "by_address"])
def test_no_write_to_an_image_kernel_is_missed(case, write):
    module, x = case
    module.requires_grad_(False)
    before = answers(module, x)
    with facula.no_grad():
        WRITES[write](module.weight) if write != "mul_" else module.weight.mul_(2)
    checks(module, x)
    assert not np.array_equal(answer(module, x), before)


def test_writes_while_an_array_lives_are_seen():
    module, x = linear()
    array = module.weight.detach().numpy()
    for value in (1.0, 2.0, 3.0):
        array[...] = value
        checks(module, x)
    part = array[2:4]
    del array
    for value in (4.0, 5.0):
        part[...] = value
        checks(module, x)
    assert kept()["copies"] == 0
    del part
    gc.collect()
    checks(module, x)


def test_data_that_lives_on_keeps_weights_from_being_kept():
    module, x = linear()
    data = module.weight.data
    for value in (1.0, 2.0):
        data.fill_(value)
        checks(module, x)
        data.view(-1)[5] = 9.0
        checks(module, x)
    assert kept()["copies"] == 0


def test_an_address_is_for_ever():
    module, x = linear()
    address = module.weight.data_ptr()
    for byte in (0, 1, 2):
        answers(module, x)
        ctypes.memset(address, byte, 4000)
        checks(module, x)
    assert kept()["copies"] == 0


def test_borrowed_memory_is_never_kept():
    array = np.ones((128, 96), np.float32)
    w, x = facula.from_numpy(array), facula.randn(40, 96)
    with facula.no_grad():
        for value in (1.0, 2.0, 3.0):
            array[...] = value
            for _ in range(3):
                np.testing.assert_allclose(F.linear(x, w)[:, 0].numpy(), value * x.sum(1).numpy(), atol=1e-4)
    assert kept()["copies"] == 0


def test_storages_at_the_same_address_are_told_apart():
    x, addresses = facula.randn(40, 96), set()
    for value in range(8):
        w = facula.full((128, 96), float(value))
        with facula.no_grad():
            for _ in range(3):
                np.testing.assert_allclose(F.linear(x, w)[:, 0].numpy(), value * x.sum(1).numpy(), atol=1e-4)
        addresses.add(w.data_ptr())
        del w
    assert len(addresses) < 8  # else nothing was tested
    assert kept()["copies"] == 0


def test_views_and_parts_of_one_storage_are_told_apart():
    whole, x = facula.randn(300, 96), facula.randn(40, 96)
    parts = [whole[:128], whole[64:192], whole[128:256], whole[0:256:2], whole.view(-1)[48 : 48 + 128 * 96].view(128, 96)]
    with facula.no_grad():
        for _ in range(3):
            for w in parts:
                np.testing.assert_allclose(F.linear(x, w).numpy(), x.numpy() @ w.numpy().T, atol=1e-4)
