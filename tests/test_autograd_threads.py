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


def test_a_hook_of_the_first_gradient_is_called_once_by_each_of_several_passes():
    leaves = [facula.ones(2, requires_grad=True) for _ in range(4)]
    both, calls = threading.Barrier(2, timeout=60), []

    def hook(gradient):
        calls.append(threading.get_ident())
        if len(calls) <= 2:
            both.wait()  # both passes have begun to call before either of them has its second gradient

    facula.autograd.graph.register_multi_grad_hook(leaves, hook, mode="any")
    losses = (leaves[0] * leaves[1]).sum(), (leaves[2] * leaves[3]).sum()
    threads = [threading.Thread(target=loss.backward) for loss in losses]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == len(set(calls)) == 2
    losses = (leaves[0] * leaves[1]).sum(), (leaves[2] * leaves[3]).sum()
    losses[0].backward(retain_graph=True)
    losses[0].backward()
    assert len(calls) == 4


def test_a_hook_of_the_first_gradient_remembers_a_pass_while_another_one_runs_inside():
    x, y = (facula.ones(2, requires_grad=True) for _ in range(2))
    calls = []

    def hook(gradient):
        calls.append(gradient)
        if len(calls) == 1:
            with facula.enable_grad():
                (x * y).sum().backward()

    facula.autograd.graph.register_multi_grad_hook([x, y], hook, mode="any")
    (x * y).sum().backward()
    assert len(calls) == 2
