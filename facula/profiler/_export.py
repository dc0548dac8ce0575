"""Write files of a profile: traces, stacks, and the use of memory over time."""

from __future__ import annotations

import gzip
import itertools
import json
import math
import os
import time
from pathlib import Path

from facula import _C

from .._serialization.replacing import replacing

_CATEGORY = {
    "op": "cpu_op", "composite": "cpu_op", "node": "cpu_op", "range": "user_annotation", "kernel": "cpu_kernel",
    "work": "cpu_worker", "launch": "cuda_driver", "async": "user_annotation", "device": "kernel",
}  # fmt: skip
_DETAILS = {
    "registers_per_thread": "registers per thread", "shared_memory": "shared memory", "grid": "grid", "block": "block",
    "bytes": "bytes", "bandwidth_gb_s": "memory bandwidth (GB/s)", "graph_node_id": "graph node id",
}  # fmt: skip


def _write(path, data):
    if isinstance(data, str):
        data = data.encode()
    with replacing(path) as file:
        file.write(gzip.compress(data) if str(path).endswith(".gz") else data)


def _category_of(event):
    return event.activity_type if event.activity_type in ("gpu_memcpy", "gpu_memset") else _CATEGORY[event.kind]


def _arguments(event):
    found = {"External id": event.id}
    if event.kind == "device":
        found.update({"device": event.device_index, "stream": event.device_resource_id})
        if event.queued_by is not None:
            found["External id"] = event.queued_by.id
        values = event.event_metadata._asdict()
        found.update({title: values[name] for name, title in _DETAILS.items() if values[name] is not None})
    if event.linked_correlation_id:
        found["correlation"] = event.linked_correlation_id
    if event.sequence_nr >= 0:
        found["Sequence number"] = event.sequence_nr
    if event.fwd_thread is not None:
        found["Fwd thread id"] = event.fwd_thread
    if event.input_shapes is not None:
        found["Input Dims"], found["Input type"] = event.input_shapes, event.input_dtypes
    if event.stack:
        found["Call stack"] = ";".join(event.stack)
    if event.flops:
        found["Flops"] = event.flops
    return found


def _flow(pid, number, forward, node):
    """Yield the arrow from an op to the backward node that belongs to it."""
    common = {"cat": "fwdbwd", "name": "fwdbwd", "id": number, "pid": pid}
    yield {"ph": "s", "tid": forward.thread, "ts": forward.time_range.start, **common}
    yield {"ph": "f", "bp": "e", "tid": node.thread, "ts": node.time_range.start, **common}


def _device_pid(device):
    """Return the number of a device as a process in a trace: devices are processes of their own, numbered as PyTorch numbers
    them."""
    return device


def _device_arrow(pid, number, event):
    """Yield the arrow from the launch, or the call on the host around it, to the work that it queued."""
    common = {"cat": "ac2g", "name": "ac2g", "id": number}
    queued = event.queued if event.launch is None else event.launch.time_range.start
    yield {"ph": "s", "pid": pid, "tid": event.thread, "ts": queued, **common}
    place = {"pid": _device_pid(event.device_index), "tid": event.device_resource_id}
    yield {"ph": "f", "bp": "e", "ts": event.time_range.start, **place, **common}


def _stream_names(recording):
    for device in sorted({device for device, _ in recording.streams}):
        yield {"ph": "M", "name": "process_name", "pid": _device_pid(device), "tid": 0, "args": {"name": f"GPU {device}"}}
    for (device, _), number in recording.streams.items():
        title = f"stream {number}" + (" (default)" if number == 0 else "")
        yield {"ph": "M", "name": "thread_name", "pid": _device_pid(device), "tid": number, "args": {"name": title}}


def _thread_names(recording, pid):
    for number, (thread, title) in enumerate(sorted(recording.threads.items())):
        common = {"ph": "M", "pid": pid, "tid": thread}
        yield {"name": "thread_name", "args": {"name": f"thread {thread} ({title})"}, **common}
        yield {"name": "thread_sort_index", "args": {"sort_index": number}, **common}


def _memory_rows(changes, pid, kind, counter):
    total = 0
    for when, thread, address, nbytes, _, _ in sorted(changes, key=lambda row: row[0]):
        total += nbytes
        yield {
            "ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": pid, "tid": thread, "ts": when,
            "args": {"Addr": address, "Bytes": nbytes, "Total Allocated": total, "Device Type": kind, "Device Id": kind - 1},
        }  # fmt: skip
        yield {"ph": "C", "name": counter, "pid": pid, "ts": when, "args": {"bytes": total}}


def write_trace(events, path, recording=None, metadata=None):
    """Write the events (and threads and memory of `recording`) in the trace event format; gzip where `path` ends in ".gz"."""
    pid = os.getpid()
    rows = [{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": "facula"}}]
    for event in [*events, *(recording.details if recording is not None else ())]:
        place = {"pid": pid, "tid": event.thread}
        if event.kind == "device":
            place = {"pid": _device_pid(event.device_index), "tid": event.device_resource_id}
        rows.append({
            "ph": "X", "cat": _category_of(event), "name": event.name, **place,
            "ts": event.time_range.start, "dur": event.time_range.elapsed_us(), "args": _arguments(event),
        })  # fmt: skip
    links = itertools.count(1)
    for event in events:
        if event.forward_event is not None:
            rows += _flow(pid, next(links), event.forward_event, event)
        if event.kind == "device" and (event.queued_by or event.launch):
            rows += _device_arrow(pid, next(links), event)
    if recording is not None:
        rows += _thread_names(recording, pid)
        rows += _stream_names(recording)
        rows += _memory_rows(recording.memory, pid, 0, "bytes since the start")
        rows += _memory_rows(recording.device_memory, pid, 1, "bytes of devices since the start")
    document = {"schemaVersion": 1, "displayTimeUnit": "ms", "deviceProperties": [], **(metadata or {}), "traceEvents": rows}
    _write(path, json.dumps(document))


def write_stacks(events, path, metric="self_cpu_time_total"):
    """Write a line per op with a stack: its source lines from the outside in, joined by ";", and the metric."""
    metrics = ("self_cpu_time_total", "self_cuda_time_total", "self_device_time_total")
    if metric not in metrics:
        raise ValueError(f"export_stacks: metric must be {_C._one_of(metric, metrics)}")
    lines = []
    for event in events:
        value = math.ceil(getattr(event, metric))  # microseconds
        if event.stack and value > 0 and event.kind != "device":  # whose time is its op's
            places = [place.translate(str.maketrans(" ;\t\n", "____")) for place in reversed(event.stack)]
            lines.append(f"{';'.join(places)} {value}\n")
    _write(path, "".join(lines))


# ---- memory over time

CATEGORIES = ("optimizer", "gradient", "saved for backward", "temporary")


def _category(event, forward_kept):
    """Return what made a storage: the range or node around it says."""
    around = event
    while around is not None:
        if around.kind == "node":
            return "gradient"
        if around.kind == "range" and around.name.startswith("Optimizer."):
            return "optimizer"
        around = around.cpu_parent
    return "saved for backward" if forward_kept(event) else "temporary"


def _recorded(event):
    while event is not None:
        if event.sequence_nr >= 0:
            return True
        event = event.cpu_parent
    return False


def memory_timeline(recording, device="cpu"):
    """Return (times in us, {category: bytes}) after every change of memory of "cpu" or "cuda" since the start of the profile.

    A storage counts as "gradient" when a backward node made it, as "optimizer" when an optimizer's step did, as "saved for
    backward" when it is the result of an op that autograd recorded, else as "temporary". Storages older than the profile
    are not in it.
    """
    held = dict.fromkeys(CATEGORIES, 0)
    made, times, rows = {}, [], {name: [] for name in CATEGORIES}
    changes = recording.memory if device == "cpu" else recording.device_memory
    for when, _, address, nbytes, event, _ in sorted(changes, key=lambda row: row[0]):
        if nbytes >= 0:
            made[address] = category = _category(event, _recorded)
        elif address not in made:
            continue
        else:
            category = made[address]
        held[category] += nbytes
        times.append(when)
        for name in CATEGORIES:
            rows[name].append(held[name])
    return times, rows


def write_memory_timeline(recording, path, device="cpu"):
    """Write the timeline as a picture in a page (".html"), as a picture (".png", ".svg"), or as numbers (".json",
    ".json.gz")."""
    times, rows = memory_timeline(recording, device)
    if not times:
        raise RuntimeError("export_memory_timeline: expected a profile with profile_memory=True that saw memory, got none")
    suffixes = Path(path).suffixes
    if ".json" in suffixes:
        _write(path, json.dumps({"times_us": times, "bytes": rows}))
        return
    if suffixes[-1:] not in ([".html"], [".png"], [".svg"]):
        raise ValueError(f"export_memory_timeline: a path that ends in .html, .png, .svg, .json or .json.gz, got {path!r}")
    picture = _timeline_picture(times, rows, "svg" if suffixes[-1] == ".html" else suffixes[-1][1:])
    if suffixes[-1] == ".html":
        text = picture.decode()
        picture = f"<!doctype html><title>Memory timeline</title>{text[text.index('<svg'):]}".encode()
    _write(path, picture)


def _timeline_picture(times, rows, kind):
    import io

    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(12, 6), layout="constrained")
    axes.stackplot([(t - times[0]) / 1e3 for t in times], [[b / 2**20 for b in rows[c]] for c in CATEGORIES], labels=CATEGORIES)
    axes.set(xlabel="ms", ylabel="MiB taken since the start", title=time.strftime("Memory by what made it, %Y-%m-%d %H:%M"))
    axes.legend(loc="upper left")
    buffer = io.BytesIO()
    figure.savefig(buffer, format=kind)
    pyplot.close(figure)
    return buffer.getvalue()
