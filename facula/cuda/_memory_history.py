"""Which lines of the program took a CUDA device's memory, and what its allocator did."""

from facula import _C


def _stack(number):
    return [{"filename": file, "line": line, "name": name} for file, line, name in _C._stack(number)]


def _record_memory_history(enabled="all", context="all", stacks="all", max_entries=None, device=None, **more):
    """From now on notes which lines of the program take memory: out-of-memory errors and snapshots then show them.

    Args:
        enabled: "all" or "state" (only of live blocks), None: ends it. True and False are taken for the first and last.
        context, stacks: anything; stacks are Python's.
        max_entries: with "all", the last so many actions of the allocator are kept for _snapshot(), by default a million.
        device: not read: all devices are followed.
        more: clear_history forgets the actions that were kept; the others are not read.
    """
    if enabled not in ("all", "state", None, True, False):
        raise ValueError(f"_record_memory_history: enabled is 'all', 'state' or None, got {enabled!r}")
    most = min(1_000_000 if max_entries is None else max_entries, 2**62) if enabled in ("all", True) else 0
    _C._cuda_record_places(enabled not in (None, False))
    _C._cuda_record_trace(most, more.get("clear_history", False))


def _trace(device):
    """What the allocator did since _record_memory_history(), a dict for each action."""
    entries = []
    for action, address, size, stream, pool, stack, time_us in _C._cuda_memory_trace(device):
        entry = {"action": action, "addr": address, "frames": _stack(stack), "size": size, "stream": stream}
        if action == "oom":
            entry["device_free"] = entry.pop("addr")
        entries.append({**entry, "pool_id": (0, pool), "time_us": time_us})
    return entries


def _snapshot(device=None, augment_with_fx_traces=False):
    """What is known of the memory: {"segments": memory_snapshot(), "device_traces": actions of each device, ...}."""
    from facula.cuda.memory import memory_snapshot

    return {
        "segments": memory_snapshot(),
        "device_traces": [_trace(index) for index in range(_C._cuda_device_count())],
        "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": _C._cuda_allocator_settings()},
    }


def _dump_snapshot(filename="dump_snapshot.pickle", augment_with_fx_traces=False):
    """Writes _snapshot() into a pickle file."""
    import pickle

    with open(filename, "wb") as file:
        pickle.dump(_snapshot(), file)
