"""Print the counters of a CUDA device's memory as a table, which `memory_summary` returns."""

from __future__ import annotations


def _size(count):
    for unit in ("B  ", "KiB", "MiB", "GiB"):
        if count < 10240 or unit == "GiB":
            return f"{count:7d} {unit}"
        count //= 1024


def table(index, stats, abbreviated):
    """Return the table of `memory_summary`.

    Args:
        index: the number of the device.
        stats: memory_stats() of it.
        abbreviated: whether the large and the small pool are left out.
    """
    rows = [
        ("Allocated memory", "allocated_bytes", _size),
        ("Active memory", "active_bytes", _size),
        ("Requested memory", "requested_bytes", _size),
        ("GPU reserved memory", "reserved_bytes", _size),
        ("Non-releasable memory", "inactive_split_bytes", _size),
        ("Allocations", "allocation", "{:7d}    ".format),
        ("Active allocs", "active", "{:7d}    ".format),
        ("GPU reserved segments", "segment", "{:7d}    ".format),
        ("Non-releasable allocs", "inactive_split", "{:7d}    ".format),
    ]
    pools = [("", "all")]
    if not abbreviated:
        pools += [("from large pool", "large_pool"), ("from small pool", "small_pool")]
    line = "|" + "=" * 75 + "|"
    text = [
        line,
        f"|{f'CUDA memory of device {index}':^75}|",
        "|" + "-" * 75 + "|",
        "| {:^35} | {:^35} |".format(f"CUDA OOMs: {stats['num_ooms']}", f"cudaMalloc retries: {stats['num_alloc_retries']}"),
        line,
        "| {:<23}| {:^10} | {:^10} | {:^10} | {:^9} |".format("Metric", "Cur Usage", "Peak Usage", "Tot Alloc", "Tot Freed"),
    ]
    for title, name, show in rows:
        text.append("|" + "-" * 75 + "|")
        for label, pool in pools:
            values = [show(stats[f"{name}.{pool}.{which}"]).strip() for which in ("current", "peak", "allocated", "freed")]
            text.append("| {:<23}| {:>10} | {:>10} | {:>10} | {:>9} |".format(f"      {label}" if label else title, *values))
    return "\n".join([*text, line, ""])
