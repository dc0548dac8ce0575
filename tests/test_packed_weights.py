"""Weights that kernels keep in their own order: used as long as they are true, and never longer."""

from __future__ import annotations

import ctypes
import gc
import os
import threading

import numpy as np
import pytest

import facula
import facula.nn.functional as F
from facula import nn


@pytest.fixture(autouse=True)
def kept_afresh():
    """Without copies from before, and with room for some."""
    facula.cpu.set_packed_weights(0)
    facula.cpu.set_packed_weights(256 << 20)
    facula.manual_seed(0)


def kept():
    return facula.cpu.packed_weights()


def linear():
    """A layer, and its input."""
    return nn.Linear(96, 128), facula.randn(40, 96)


def tiles():
    """A convolution computed in tiles."""
    return nn.Conv2d(32, 64, 3, padding=1), facula.randn(1, 32, 40, 40)


def pointwise():
    """A convolution that is one product."""
    return nn.Conv2d(64, 128, 1), facula.randn(1, 64, 20, 20)


def windows():
    """A convolution that is products of gathered windows."""
    return nn.Conv2d(512, 512, 3, padding=1), facula.randn(1, 512, 7, 7)


def library():
    """A convolution of oneDNN's."""
    return nn.Conv2d(64, 64, 3, stride=2, padding=1), facula.randn(1, 64, 56, 56)


def channels_last(m, x):
    """Images in the order in which networks pass them on, so that small ones take the same kernels."""
    return m, x.contiguous(memory_format=facula.channels_last) if x.dim() == 4 else x


MAKERS = [linear, tiles, pointwise, windows, library]


def reference(module, x):
    """The result with a fresh weight that nothing is kept of; looks at the memory of neither."""
    fresh = module.weight.detach().clone()
    if isinstance(module, nn.Linear):
        return F.linear(x, fresh, module.bias)
    return F.conv2d(x, fresh, module.bias, module.stride, module.padding)


def answer(module, x):
    with facula.inference_mode():
        return module(x).numpy().copy()


def answers(module, x, count=3):
    """Until the weight is kept."""
    for _ in range(count):
        result = answer(module, x)
    return result


def checks(module, x):
    """Whether answers are those of the weight as it is: the next one, and later ones."""
    first, expected = answer(module, x), facula.no_grad()(reference)(module, x).numpy()
    np.testing.assert_array_equal(first, expected)
    np.testing.assert_array_equal(answers(module, x), expected)


@pytest.fixture(params=MAKERS, ids=lambda f: f.__name__)
def case(request):
    return channels_last(*request.param())


def keeps_any():
    """Whether this machine's kernels keep weights at all."""
    module, x = linear()
    answers(module, x)
    return kept()["copies"] > 0


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


@pytest.mark.parametrize("call", [lambda x, w: x @ w, lambda x, w: facula.addmm(x, x, w), lambda x, w: x @ w.t()])
def test_parameters_are_kept_in_other_products_too(call):
    if not keeps_any():
        pytest.skip("products are a library's here")
    w, x = nn.Parameter(facula.randn(96, 96)), facula.randn(40, 96)
    with facula.no_grad():
        for _ in range(2):
            results = [call(x, w).numpy() for _ in range(3)]
            hits = kept()["hits"]
            results.append(call(x, w).numpy())
            assert kept()["hits"] == hits + 1
            expected = call(x.double(), w.double()).numpy()
            np.testing.assert_allclose(results[0], expected, atol=1e-4)
            for result in results:
                np.testing.assert_array_equal(result, results[0])
            w.mul_(2)


def test_copies_end_with_their_weight():
    module, x = linear()
    count = kept()["copies"]
    answers(module, x)
    if kept()["copies"] == count:
        pytest.skip("products are a library's here")
    del module
    gc.collect()
    assert kept()["copies"] == count and kept()["bytes"] == 0


def test_training_keeps_nothing():
    model = nn.Sequential(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 32, 1), nn.Flatten(), nn.Linear(32 * 400, 20))
    optimizer, x = facula.optim.SGD(model.parameters(), lr=1e-3), facula.randn(20, 32, 20, 20)
    for _ in range(4):
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
    assert kept()["copies"] == 0


def test_answers_between_steps_are_of_the_weights_of_then():
    module, x = linear()
    optimizer = facula.optim.Adam(module.parameters(), lr=0.1)
    for _ in range(3):
        checks(module, x)
        optimizer.zero_grad()
        module(x).square().mean().backward()
        optimizer.step()


def test_the_bound_holds_and_a_part_of_a_large_model_stays():
    if not keeps_any():
        pytest.skip("products are a library's here")
    facula.cpu.set_packed_weights(0)
    one = 256 * 256 * 4
    before = facula.cpu.set_packed_weights(3 * one + 100)
    assert before == 0
    layers, x = [nn.Linear(256, 256) for _ in range(8)], facula.randn(32, 256)
    for _ in range(5):
        for layer in layers:
            checks(layer, x)
            assert kept()["bytes"] <= 3 * one + 100
    assert kept()["copies"] == 3
    other = nn.Linear(256, 256)
    for _ in range(20):
        answer(other, x)
    hits = kept()["hits"]
    answer(other, x)
    assert kept()["hits"] == hits + 1 and kept()["copies"] == 3


def test_empty_cache_gives_copies_back():
    module, x = linear()
    answers(module, x)
    facula.cpu.empty_cache()
    assert kept()["bytes"] == 0 and kept()["copies"] == 0
    checks(module, x)


def test_a_request_that_needs_the_memory_gets_it():
    layers, x = [nn.Linear(1024, 1024) for _ in range(8)], facula.randn(20, 1024)
    for layer in layers:
        answers(layer, x)
    if kept()["copies"] == 0:
        pytest.skip("products are a library's here")
    stats = facula.cpu.memory_stats()
    facula.cpu.set_memory_limit(stats["allocated_bytes.current"] + (40 << 20))
    try:
        facula.zeros(14 << 20)
        assert kept()["bytes"] == 0
    finally:
        facula.cpu.set_memory_limit(0)


def test_errors():
    for wrong in (-1, "1", None):
        with pytest.raises((ValueError, TypeError)):
            facula.cpu.set_packed_weights(wrong)


def test_a_write_that_an_exception_ends_is_not_missed():
    module, x = linear()
    module.requires_grad_(False)
    answers(module, x)
    index = facula.tensor([0, 1, 2, 500])
    with pytest.raises(IndexError):
        module.weight.index_fill_(0, index, 3.0)
    assert kept()["copies"] == 0
    checks(module, x)


def test_threads_answer_and_write():
    module, x = linear()
    module.requires_grad_(False)
    x, wrong = facula.ones(40, 96), []
    with facula.no_grad():
        module.weight.fill_(1.0), module.bias.fill_(0.0)

    def ask():
        with facula.no_grad():
            for _ in range(300):
                # a write may be under way: every weight is one of a few values
                got = module(x)
                if not bool(((got >= 95.9) & (got <= 96 * 3.01)).all()):
                    wrong.append(got)

    def write():
        with facula.no_grad():
            for i in range(300):
                module.weight.fill_(1.0 + i % 3)

    threads = [threading.Thread(target=f) for f in (ask, ask, write)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    checks(module, x)


def test_what_is_packed_while_others_write_is_not_kept():
    module, x = nn.Linear(1024, 1024, bias=False).requires_grad_(False), facula.ones(20, 1024)

    def ask():
        with facula.no_grad():
            for _ in range(8):
                module(x)

    for value in range(1, 60):
        writer = threading.Thread(target=facula.no_grad()(lambda value=value: module.weight.fill_(float(value))))
        threads = [threading.Thread(target=ask) for _ in range(3)]
        for thread in (threads[0], threads[1], writer, threads[2]):
            thread.start()
        for thread in (*threads, writer):
            thread.join()
        for _ in range(2):
            np.testing.assert_array_equal(answer(module, x), np.full((20, 1024), 1024.0 * value, np.float32))


def test_a_storage_has_a_bounded_number_of_copies():
    if not keeps_any():
        pytest.skip("products are a library's here")
    whole, x, before = facula.randn(40 * 64, 96), facula.randn(40, 96), kept()["copies"]
    with facula.no_grad():
        for i in range(40):
            w = whole[64 * i : 64 * i + 64]
            for _ in range(3):
                np.testing.assert_allclose(F.linear(x, w).numpy(), x.numpy() @ w.clone().numpy().T, atol=1e-4)
    assert 0 < kept()["copies"] - before <= 16


def test_a_lower_bound_holds_at_once():
    if not keeps_any():
        pytest.skip("products are a library's here")
    module, x = linear()
    answers(module, x)
    facula.cpu.set_packed_weights(1000)
    assert kept()["bytes"] == 0 and kept()["copies"] == 0
    checks(module, x)
    assert kept()["bytes"] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_child_answers_from_its_own_weights():
    module, x = linear()
    module.requires_grad_(False)
    facula.set_num_threads(1)
    expected = answers(module, x)
    pid = os.fork()
    if pid == 0:
        same = np.array_equal(answer(module, x), expected)
        with facula.no_grad():
            module.weight.zero_()
        zero = np.allclose(answers(module, x), module.bias.numpy())
        os._exit(0 if same and zero else 1)
    assert os.waitpid(pid, 0)[1] == 0
    np.testing.assert_array_equal(answer(module, x), expected)


def test_recurrent_layers():
    layer, x = nn.LSTM(48, 96), facula.randn(7, 20, 48)
    with facula.no_grad():
        before = [layer(x)[0].numpy().copy() for _ in range(3)]
        layer.weight_hh_l0.mul_(0.5)
        after = [layer(x)[0].numpy().copy() for _ in range(3)]
        facula.cpu.set_packed_weights(0)
        expected = layer(x)[0].numpy()
    for results in (before, after):
        np.testing.assert_array_equal(results[0], results[1])
        np.testing.assert_array_equal(results[0], results[2])
    np.testing.assert_array_equal(after[0], expected)
    assert not np.allclose(before[0], after[0])


def test_half_precision_is_widened_each_time():
    w, x = facula.randn(128, 96).bfloat16(), facula.randn(40, 96).bfloat16()
    with facula.no_grad():
        for factor in (1, 2):
            w.mul_(factor)
            for _ in range(3):
                expected = x.float().numpy() @ w.float().numpy().T
                np.testing.assert_allclose(F.linear(x, w).float().numpy(), expected, rtol=2e-2, atol=0.3)
