"""Weights that kernels keep in their own order: how many copies there are, when they end, and threads."""

from __future__ import annotations

import gc
import os
import threading

import numpy as np
import pytest
from packed_weights_cases import answer, answers, checks, keeps_any, kept, linear

import facula
import facula.nn.functional as F
from facula import nn


@pytest.fixture(autouse=True)
def kept_afresh():
    """Without copies from before, and with room for some."""
    facula.cpu.set_packed_weights(0)
    facula.cpu.set_packed_weights(256 << 20)
    facula.manual_seed(0)


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
