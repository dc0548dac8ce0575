"""Format values of a stream for error messages: short, in bounded time, and without running code of any class."""

import reprlib


class _Shown(reprlib.Repr):
    """Write the repr of builtin values only; of any other object it writes the name of the class."""

    def __init__(self):
        super().__init__()
        self.maxlevel = 3
        self.maxstring = self.maxother = 80

    def repr1(self, value, level):
        kind = type(value)
        if kind in _WRITTEN_OUT:
            return super().repr1(value, level)
        return f"<{kind.__module__}.{kind.__qualname__}>"

    def repr_int(self, value, level):
        return repr(value) if value.bit_length() < 256 else f"<int of {value.bit_length()} bits>"

    def repr_bytes(self, value, level):
        return repr(value[: self.maxstring]) + ("..." if len(value) > self.maxstring else "")


_WRITTEN_OUT = frozenset(
    {type(None), bool, int, float, complex, str, bytes, tuple, list, dict, set, frozenset}
)
_shown = _Shown()


def shown(value):
    """Return `value`, which may come from anybody, for a message."""
    return _shown.repr(value)[:200]
