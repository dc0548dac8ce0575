"""List the functions that ran in the two computations of a checkpoint, for the text of an error with `debug=True`."""

from __future__ import annotations

from ._selective_checkpoint import flat_tensors


class DebugLogs:
    """Hold the functions that ran in the first and in the second computation, for the text of an error."""

    def __init__(self):
        self.of_first = _log_mode()
        self.of_second = _log_mode()

    def report(self):
        parts = [
            "checkpoint: The second computation differs from the first. Both are listed, because debug=True was given; "
            "look for the first line that differs"
        ]
        for title, log in (("original forward", self.of_first), ("recomputation", self.of_second)):
            parts.append(f"Functions that ran in the {title}:")
            parts += [f"({i} of {len(log.calls)} in {title}) {call}" for i, call in enumerate(log.calls, 1)]
        return "\n\n".join(parts)


def _log_mode():
    import traceback

    from ..overrides import TorchFunctionMode, resolve_name

    class Log(TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.calls = []

        def __enter__(self):
            self.calls.clear()
            return super().__enter__()

        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            name = resolve_name(func) or getattr(func, "__qualname__", repr(func))
            shapes = ", ".join(_short(t) for t in flat_tensors((args, kwargs or {})))
            results = ", ".join(_short(t) for t in flat_tensors(result))
            stack = "".join(traceback.format_list(traceback.extract_stack()[:-1]))
            self.calls.append(f"{name}({shapes}) -> {results}\n{stack}")
            return result

    return Log()


def _short(tensor):
    return f"{str(tensor.dtype).rpartition('.')[2]}{list(tensor.shape)}"
