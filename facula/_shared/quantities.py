"""Format numbers of bytes and seconds for people to read."""

from __future__ import annotations


def size_text(count: float) -> str:
    """Return bytes as "98.0 MiB"."""
    unit = 0
    while count >= 1023.95 and unit < 4:
        count /= 1024
        unit += 1
    digits = 0 if unit == 0 or count >= 99.95 else 1 if count >= 9.995 else 2
    return f"{count:.{digits}f} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"


def time_text(seconds: float) -> str:
    """Return a time as "12.0 s" or "85.0 ms"."""
    if seconds < 1e-3:
        return f"{seconds * 1e6:.0f} us"
    amount, unit = (seconds, "s") if seconds >= 0.9995 else (seconds * 1e3, "ms")
    return f"{amount:.{0 if amount >= 99.95 else 1 if amount >= 9.995 else 2}f} {unit}"
