"""Who holds memory: the history of storages, snapshots and their picture."""

import threading

import pytest

import facula
from facula.cpu import memory_picture, memory_snapshot, record_memory_history


@pytest.fixture
def history():
    record_memory_history()
    yield
    record_memory_history(None)


def blocks_of(size):
    return [block for block in memory_snapshot()["blocks"] if block["size"] == size]


def test_live_storages_know_op_and_line(history):
    kept = facula.ones(123, 1000)
    (block,) = blocks_of(492_000)
    assert block["op"] == "ones" and block["frames"][0][0] == __file__
    assert block["frames"][0][2] == "test_live_storages_know_op_and_line" and block["thread"] == threading.get_native_id()
    del kept
    assert not blocks_of(492_000)


def test_changes_come_in_order(history):
    x = facula.ones(77)
    x.resize_(154)
    del x
    trace = [(c["action"], c["size"]) for c in memory_snapshot()["trace"] if c["size"] in (308, 616)]
    assert trace == [("alloc", 308), ("alloc", 308), ("free", 616)]
    record_memory_history(max_entries=3)
    for _ in range(5):
        facula.ones(2)
    snapshot = memory_snapshot()
    assert len(snapshot["trace"]) == 3 and snapshot["forgotten"] >= 7
    record_memory_history("state")
    kept = facula.ones(3)
    snapshot = memory_snapshot()
    assert snapshot["trace"] == [] and len(snapshot["blocks"]) == 1 and kept is not None


def test_all_threads_and_without_stacks():
    record_memory_history(stacks=None)
    try:
        made = []
        thread = threading.Thread(target=lambda: made.append(facula.ones(55)))
        thread.start()
        thread.join()
        (block,) = blocks_of(220)
        assert block["thread"] == thread.native_id and block["frames"] == []
    finally:
        record_memory_history(None)
    facula.ones(56)
    assert not blocks_of(224)  # it has ended


def test_gradients_are_due_to_backward(history):
    x = facula.ones(999, requires_grad=True)
    (x * 3).sum().backward()
    assert any(block["op"] == "mul" for block in blocks_of(3996))


def test_picture(history, tmp_path):
    kept = [facula.ones(1000, n) for n in (10, 20)]
    path = tmp_path / "memory.svg"
    memory_picture(path)
    assert "test_memory_history.py" in path.read_text() and kept
    record_memory_history()
    with pytest.raises(RuntimeError, match="^memory_picture: expected a history"):
        memory_picture(path)


def test_wrong_arguments():
    for arguments in ({"enabled": "some"}, {"stacks": "cpp"}, {"max_entries": -1}, {"max_entries": 2**62}, {"max_entries": 1.5}):
        with pytest.raises(ValueError, match=f"^record_memory_history: {next(iter(arguments))} is .*, got "):
            record_memory_history(**arguments)
