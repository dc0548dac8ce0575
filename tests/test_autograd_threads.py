"""Reverse mode with several threads and signals."""

from __future__ import annotations

import os
import signal
import threading

import numpy as np
import pytest

import facula

pytestmark = pytest.mark.usefixtures("nothing_stays_alive")


def leaf(values, dtype=facula.float64):
    return facula.tensor(values, dtype=dtype, requires_grad=True)


def test_several_threads_share_a_graph():
    x = leaf([1.0, 2.0])
    y = (x * x).sum()
    errors = []

    def run():
        try:
            for _ in range(50):
                y.backward(retain_graph=True)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors and x.grad.tolist() == [400.0, 800.0]


def test_threads_that_free_one_graph_get_a_result_or_an_error():
    def run(y, start, failures):
        start.wait()
        try:
            y.backward()
        except RuntimeError as error:
            failures.append(str(error))

    for _ in range(20):
        y = leaf([1.0, 2.0])
        for _ in range(50):
            y = (y * y).sqrt()
        failures, arguments = [], (y.sum(), threading.Barrier(4))
        threads = [threading.Thread(target=run, args=(*arguments, failures)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert all("an earlier pass freed" in text for text in failures)


def test_ctrl_c_stops_a_long_backward():
    x = leaf([1.0])
    y = x * 1
    for _ in range(300_000):
        y = y + 1
    y = y.sum()
    timer = threading.Timer(0.005, os.kill, (os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        timer.start()
        for _ in range(100):
            y.backward(retain_graph=True)
    timer.join()
    # the pass that was stopped delivered nothing, those before it were complete
    assert x.grad is None or x.grad.item() < 100


def test_hooks_and_threads_do_not_deadlock():
    x = leaf([1.0])
    y = (x * 2).exp()
    x.register_hook(lambda g: g * 1)

    def run():
        for _ in range(30):
            y.sum().backward(retain_graph=True)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads)
    np.testing.assert_allclose(x.grad.numpy(), 90 * 2 * np.exp([2.0]))
