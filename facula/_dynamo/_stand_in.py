"""Functions that run as they are and are counted, in the place of the core's, until the core has them.

To be deleted, with the lines of `_region.py` that name it. It sees only those demands that are calls of functions.
"""

from __future__ import annotations

import os
import sys
import threading

import facula
from facula._dynamo._region import Recording
from facula.overrides import TorchFunctionMode

_PACKAGE = os.path.dirname(facula.__file__) + os.sep
_here = threading.local()
_forced = False
_BY_SIZE = {"nonzero": "nonzero", "masked_select": "nonzero", "unique": "nonzero", "equal": "equal"}


def _source():
    frame = sys._getframe(1)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else "?:0"


class _Watch(TorchFunctionMode):
    def __init__(self, recording):
        super().__init__()
        self.recording = recording

    def __torch_function__(self, func, types, args=(), kwargs=None):
        name = getattr(func, "__name__", str(func))
        if name in _BY_SIZE:
            demand(_BY_SIZE[name])
        result = func(*args, **(kwargs or {}))
        if isinstance(result, (facula.Tensor, tuple, list)) and getattr(_here, "recording", None) is self.recording:
            self.recording.ops.append((name, "function", _source(), len(args), 1, -1))
        return result


def demand(what):
    recording = getattr(_here, "recording", None)
    if recording is None:
        return
    source = _source()
    recording.demands.append((what, source, len(recording.ops)))
    from facula import _dynamo

    error = _dynamo._raised_by_region(what, source)
    if error is not None:
        raise error


def in_region():
    return getattr(_here, "depth", 0) > 0


def leave():
    state = getattr(_here, "depth", 0), getattr(_here, "recording", None)
    _here.depth, _here.recording = 0, None
    return state


def enter(state):
    _here.depth, _here.recording = state


def force_eager(yes):
    global _forced
    _forced, before = yes, _forced
    return before


def _recorded(function, args, kwargs):
    state = leave()
    _here.depth, _here.recording = 1, Recording([], [])
    try:
        with _Watch(_here.recording):
            return function(*args, **kwargs), _here.recording
    finally:
        enter(state)


explain = _recorded


class CompiledFunction:
    # apart from the dictionary, into which `functools.update_wrapper` copies another compiled function's
    __slots__ = ("function", "_settings", "state", "calls", "recordings", "_sizes", "__dict__", "__weakref__")

    def __init__(self, function, settings):
        self.function, self._settings = function, settings
        self.reset()

    def reset(self):
        self.state, self.calls, self.recordings, self._sizes = "look", 0, [], set()

    def __call__(self, *args, **kwargs):
        if _forced:
            return self.function(*args, **kwargs)
        self.calls += 1
        with facula._C.DisableTorchFunctionSubclass():
            sizes = tuple((a.shape, a.dtype) for a in (*args, *kwargs.values()) if isinstance(a, facula.Tensor))
        if in_region() or sizes in self._sizes or not self._settings.look_begins(self):
            return self._plainly(args, kwargs)
        recording = None
        try:
            result, recording = _recorded(self.function, args, kwargs)
            self._sizes.add(sizes)
            self.recordings.append(recording)
            self.state = "pass"
        finally:
            self._settings.look_ended(self, recording)
        return result

    def _plainly(self, args, kwargs):
        _here.depth = getattr(_here, "depth", 0) + 1
        try:
            return self.function(*args, **kwargs)
        finally:
            _here.depth -= 1

    def __get__(self, instance, owner=None):
        import types

        return self if instance is None else types.MethodType(self, instance)

    def __copy__(self):
        return self

    def __deepcopy__(self, memo):
        return self
