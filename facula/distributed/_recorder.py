"""Record the last 2,000 operations of this process (flight recorder), in the format that PyTorch's `fr_trace` reads (2.10)."""

from __future__ import annotations

import os
import pickle
import signal
import threading
from typing import Any

from ._errors import DistError

# by numbers of `Kind` in src/distributed/engine.h
_KINDS = "all_reduce reduce broadcast all_gather gather scatter reduce_scatter all_to_all barrier send recv".split()
_NANOSECONDS = 1_000_000_000
_group: Any = None  # the file of that name, whose default group is recorded


def attach(groups: Any) -> None:
    """Take the module that knows the groups of this process."""
    global _group
    _group = groups


def _entry(record, groups):
    number, sequence, kind, name, group, root, dtype, ins, outs, file, line, seconds, *times = record
    created, started, completed, failed = times
    message = _KINDS[kind] in ("send", "recv")
    shown = groups.get(group)
    rank = shown.rank() if shown else 0
    meta = f" {rank}->{root}" if _KINDS[kind] == "send" else f" {rank}<-{root}" if message else ""
    return {
        "frames": [{"name": name, "filename": file, "line": line}],
        "record_id": number,
        "pg_id": 0,
        "process_group": (shown.group_name if shown else group, shown.group_desc if shown else group),
        "collective_seq_id": 0 if message else sequence,
        "p2p_seq_id": sequence if message else 0,
        "op_id": number,
        "profiling_name": f"gloo:{_KINDS[kind]}{meta}",
        "time_created_ns": int(created * _NANOSECONDS),
        # A time of 0 means that the operation has not come that far.
        "time_discovered_started_ns": int(started * _NANOSECONDS) or None,
        "time_discovered_completed_ns": int(completed * _NANOSECONDS) or None,
        "duration_ms": (completed - started) * 1e3 if completed and started else None,
        "input_sizes": ins,
        "input_dtypes": [dtype] * len(ins),
        "output_sizes": outs,
        "output_dtypes": [dtype] * len(outs),
        "state": "completed" if completed and not failed else "started" if started else "scheduled",
        "timeout_ms": int(seconds * 1e3),
        "is_p2p": message,
        "retired": bool(completed),
    }


def records():
    """Return what the flight recorder holds, as a dict."""
    if _group is None or _group._world is None:
        raise ValueError("records: the default process group has not been initialized, call init_process_group first")
    groups = {"WORLD": _group._default} if _group._default else {}
    groups |= {g._native_name: g for g in _group._others}
    config = {g.group_name: {"name": g.group_name, "desc": g.group_desc, "ranks": str(g._ranks)} for g in groups.values()}
    entries = [_entry(record, groups) for record in _group._world.records()]
    return {"version": "2.10", "pg_config": config, "pg_status": {}, "entries": entries, "rank": _group._rank_of_process}


def dump(path):
    """Write them to a file."""
    with open(path, "wb") as file:
        pickle.dump(records(), file)


def dump_on_signal():
    """Make SIGUSR2 write them to the file that FACULA_FLIGHT_RECORDER and the rank name, also while an operation waits."""
    # Python allows handlers of signals only in the main thread. A handler of the program's own stays in place.
    here = threading.current_thread() is threading.main_thread()
    if here and "FACULA_FLIGHT_RECORDER" in os.environ and signal.getsignal(signal.SIGUSR2) == signal.SIG_DFL:
        signal.signal(signal.SIGUSR2, lambda number, frame: _group._world is not None and dump(_own_file()))


def _own_file():
    return f"{os.environ['FACULA_FLIGHT_RECORDER']}{_group._rank_of_process}"


def dump_after(error):
    """Write them after an operation failed, to the file that FACULA_FLIGHT_RECORDER and the rank name."""
    if issubclass(error, DistError) and _group is not None and _group._world is not None:
        dump(_own_file())
