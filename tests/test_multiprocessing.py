"""Tensors between processes: the same memory, whichever way they travel."""

import os
import signal
import tempfile

import pytest

import facula
import facula.multiprocessing as mp


def write(tensor, value):
    tensor.fill_(value)


def answer(inbox, outbox):
    tensor = inbox.get()
    tensor[0] = 5
    outbox.put([tensor * 2, tensor[1:], "done"])
    inbox.get()


def fail(index, message):
    if index == 1:
        raise ValueError(message)


def die(index):
    if index == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


def add_one(index, tensor):
    tensor[index] += 1


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_shared_tensor_is_the_same_memory(method):
    tensor = facula.zeros(4)
    tensor.share_memory_()
    view = tensor[1:]
    assert tensor.is_shared() and view.is_shared()
    process = mp.get_context(method).Process(target=write, args=(tensor, 3.0))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert tensor.tolist() == [3, 3, 3, 3] and view.tolist() == [3, 3, 3]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_queues_share_memory_both_ways(method):
    context = mp.get_context(method)
    inbox, outbox = context.Queue(), context.Queue()
    process = context.Process(target=answer, args=(inbox, outbox))
    process.start()
    tensor = facula.arange(3)
    inbox.put(tensor)
    doubled, tail, text = outbox.get(timeout=60)
    assert tensor[0].item() == 5
    assert doubled.tolist() == [10, 2, 4] and text == "done"
    tail[0] = 9
    assert tensor.tolist() == [5, 9, 2]
    inbox.put(None)
    process.join()


def test_parameters_and_modules_travel():
    context = mp.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    net = facula.nn.Linear(2, 2)
    sender.send(net)
    copy = receiver.recv()
    assert isinstance(copy.weight, facula.nn.Parameter) and copy.weight.requires_grad
    with facula.no_grad():
        net.weight.fill_(7)
    assert copy.weight.tolist() == [[7, 7], [7, 7]]


def test_results_with_history_are_refused():
    receiver, sender = mp.Pipe()
    with pytest.raises(RuntimeError, match="detach"):
        sender.send(facula.ones(2, requires_grad=True) * 2)


def test_empty_and_meta_tensors_travel():
    receiver, sender = mp.Pipe()
    sender.send([facula.empty(0, 3), facula.empty(2, device="meta")])
    empty, meta = receiver.recv()
    assert empty.shape == (0, 3) and meta.device.type == "meta"


def test_spawn_runs_every_process():
    tensor = facula.zeros(2).share_memory_()
    assert mp.spawn(add_one, args=(tensor,), nprocs=2) is None
    assert tensor.tolist() == [1, 1]


def test_spawn_reports_the_exception():
    with pytest.raises(mp.ProcessRaisedException, match=r"(?s)process 1.*ValueError: some reason"):
        mp.start_processes(fail, args=("some reason",), nprocs=2, start_method="fork")


def test_spawn_reports_a_signal_and_ends_the_others():
    with pytest.raises(mp.ProcessExitedException, match="SIGKILL") as caught:
        mp.start_processes(die, nprocs=2, start_method="fork")
    assert caught.value.error_index == 0 and caught.value.signal_name == "SIGKILL"


def long_failure():
    raise ValueError("x" * 200_000 + "the end")


def fail_long(index):
    long_failure()


def test_a_report_longer_than_a_pipe_is_cut_at_its_beginning():
    with pytest.raises(mp.ProcessRaisedException, match="xthe end"):
        mp.start_processes(fail_long, nprocs=1, start_method="fork")


def test_nothing_is_left_in_the_temporary_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    started = mp.start_processes(fail, args=("some reason",), nprocs=2, join=False, start_method="fork")
    with pytest.raises(mp.ProcessRaisedException, match="some reason"):
        while not started.join():
            pass
    assert list(tmp_path.iterdir()) == []


def test_sharing_strategies():
    assert mp.get_sharing_strategy() in mp.get_all_sharing_strategies()
    mp.set_sharing_strategy("file_system")
    assert mp.get_sharing_strategy() == "file_system"
    mp.set_sharing_strategy("file_descriptor")
    with pytest.raises(AssertionError, match="carrier pigeon"):
        mp.set_sharing_strategy("carrier pigeon")


def test_it_is_the_standard_module():
    import multiprocessing

    assert set(multiprocessing.__all__) <= set(mp.__all__)
    assert mp.Queue is multiprocessing.Queue or callable(mp.Queue)
    assert mp.get_start_method() == multiprocessing.get_start_method()


def leave(index, how):
    import sys

    sys.exit(1) if how == "exit" else os._exit(1)


@pytest.mark.parametrize("how", ["exit", "at once"])
def test_a_process_that_ends_with_1_without_an_exception(how):
    with pytest.raises(mp.ProcessExitedException, match="process 0 ended with exit code 1") as caught:
        mp.start_processes(leave, args=(how,), nprocs=1, start_method="fork")
    assert caught.value.exit_code == 1
