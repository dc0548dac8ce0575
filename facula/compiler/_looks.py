"""Decide what the core does around its looks at compiled functions: what a break is, who is notified of recordings, and
the stance.

A look is a call that the core records. It calls `Settings.look_begins` here before it records, passes what it has
recorded to `Settings.look_ended`, and calls `raised` for the error to raise where the program reads a value. A call
that is not recorded runs none of this code.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import threading
from collections import namedtuple
from traceback import FrameSummary
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula.compiler import _counters, _errors, _region, _settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

# ---- breaks

# what the core says -> what the program did, in words
_DID = {
    "bool": "decides by the value of a tensor (bool)",
    "item": "takes a number from a tensor (item)",
    "int": "takes a number from a tensor (int)",
    "float": "takes a number from a tensor (float)",
    "index": "takes an index from a tensor (__index__)",
    "repr": "writes the values of a tensor as a text (repr)",
    "tolist": "takes the values of a tensor (tolist)",
    "equal": "compares the values of tensors (equal)",
    "allclose": "compares the values of tensors (allclose)",
    "nonzero": "makes a tensor whose size depends on values",
    "graph_break": "calls graph_break()",
    "disable": "calls a function that torch.compiler.disable() leaves out",
}
_HINTS = {
    "bool": "use torch.where or torch.cond",
    "graph_break": "remove the call",
    "disable": "remove the mark, or fullgraph",
}
_NUMBERS = frozenset(("item", "int", "float", "index"))
# a graph of PyTorch's can have these, and with fullgraph it does
_IN_WHOLE_GRAPHS = _NUMBERS - {"index"} | {"nonzero"}

#: why a stretch of ops ends: PyTorch's fields
GraphCompileReason = namedtuple("GraphCompileReason", ["reason", "user_stack", "graph_break"])


def in_words(what: str) -> str:
    """Return what the program did where a stretch ends."""
    kind, said, why = what.partition(": ")
    return f"{_DID.get(kind, kind)}{said}{why}"


def _place(source):
    file, _, line = source.rpartition(":")
    return file, int(line) if line.isdigit() else 0


def is_break(what: str) -> bool:
    """Return whether a stretch of ops ends there, by the settings."""
    if what in _NUMBERS:
        return not _settings.capture_scalar_outputs
    return what != "nonzero" or not _settings.capture_dynamic_output_shape_ops


def breaks(recording: Any) -> list[GraphCompileReason]:
    """Return why the stretches of a recording end."""
    found = []
    for what, source, *_ in recording.demands:
        if is_break(what):
            file, line = _place(source)
            stack = [FrameSummary(file, line, "", lookup_line=False)]
            found.append(GraphCompileReason(f"the program {in_words(what)}", stack, True))
    return found


def cuts(recording: Any) -> list[tuple[int, int]]:
    """Return the first op and the end of every stretch of a recording that has ops."""
    ends = [end for what, _, end in recording.demands if is_break(what)]
    return [(begin, end) for begin, end in itertools.pairwise((0, *ends, recording.count)) if end > begin]


def stretches(recording: Any) -> list[list[Any]]:
    """Return the ops of a recording, cut where a stretch ends; without empty ones."""
    return [recording.ops[begin:end] for begin, end in cuts(recording)]


def raised(what: str, source: str) -> _errors.Unsupported | None:
    """Return the exception for a break in what is being recorded, or None where the recording goes on."""
    settings = getattr(_here, "settings", None)
    if settings is None or not (settings.fullgraph or getattr(_here, "error_on_break", False)) or what in _IN_WHOLE_GRAPHS:
        return None
    file, line = _place(source)
    kind = what.partition(": ")[0]
    hint = f"; {_HINTS[kind]}" if kind in _HINTS else ""
    stack = [FrameSummary(file, line, "", lookup_line=False)]
    text = f"compile: with fullgraph=True the program has to be one graph{hint}, got one that {in_words(what)} at {file}:{line}"
    return _errors.Unsupported(text, kind, real_stack=stack)


_here = threading.local()  # .settings: of what is being recorded; .error_on_break: what holds in a block


class error_on_graph_break(contextlib.ContextDecorator):
    """Make a break of a recording an error in a block, as with `fullgraph`, or make it none again where `fullgraph` is
    not set.

    Args:
        error_on_graph_break: whether it is one.
    """

    def __init__(self, error_on_graph_break: bool) -> None:
        self.error_on_graph_break = error_on_graph_break
        self._before: list[bool] = []

    def __enter__(self) -> error_on_graph_break:
        self._before.append(getattr(_here, "error_on_break", False))
        _here.error_on_break = self.error_on_graph_break
        return self

    def __exit__(self, *exception: Any) -> None:
        _here.error_on_break = self._before.pop()


# ---- stances

STANCES = ("default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile", "aot_eager_then_compile")
stance = "default"
forced_backend: Any = None


def take_stance(name: str, backend: Any = None) -> None:
    """Make a stance hold from now on."""
    global stance, forced_backend
    stance, forced_backend = name, backend
    _region.force_eager(name == "force_eager")


class set_stance:
    """Set how compiled functions behave from now on, in a block, or in a decorated function.

    Args:
        stance: "default"; "force_eager": as if nothing was compiled; "eager_on_recompile": no call is recorded anew;
            "fail_on_recompile": RuntimeError where one would be; "eager_then_compile": a function's first call is not recorded.
        skip_guard_eval_unsafe: there are no guards that could be skipped; without effect.
        force_backend: a backend that takes the place of all others.

    Errors: RuntimeError for what is no stance, and for a backend with another stance than "default".

    >>> double = torch.compile(lambda x: 2 * x)
    >>> with torch.compiler.set_stance("force_eager"):
    ...     double(torch.ones(2))
    tensor([2., 2.])
    """

    def __init__(self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None) -> None:
        if stance not in STANCES:
            raise RuntimeError(f"set_stance: a stance must be {_C._one_of(stance, STANCES)}")
        if force_backend is not None:
            if stance != "default":
                raise RuntimeError(f"set_stance: force_backend goes with the stance 'default' only, got {stance!r}")
            from facula.compiler._backends import registry

            registry.lookup_backend(force_backend)
        self.stance, self.force_backend, self.skip_guard_eval_unsafe = stance, force_backend, skip_guard_eval_unsafe
        self._before: list[tuple[str, Any]] = [_holding()]
        take_stance(stance, force_backend)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        take_stance(*self._before.pop())  # it holds within the function only

        @functools.wraps(fn)
        def in_stance(*args, **kwargs):
            with type(self)(self.stance, skip_guard_eval_unsafe=self.skip_guard_eval_unsafe, force_backend=self.force_backend):
                return fn(*args, **kwargs)

        return in_stance

    def __enter__(self) -> None:
        if not self._before:  # the same object once more
            self._before.append(_holding())
            take_stance(self.stance, self.force_backend)

    def __exit__(self, *exception: Any) -> None:
        take_stance(*self._before.pop())


def _holding():
    return stance, forced_backend


# ---- looks

always = os.environ.get("FACULA_COMPILE") == "always"
always_replays = os.environ.get("FACULA_COMPILE") in ("replay", "replay-check")
checks_replays = os.environ.get("FACULA_COMPILE") == "replay-check"


def described(compiled: Any) -> str:
    """Return a compiled function in words: its name, file and line."""
    function = compiled.function
    if isinstance(function, functools.partial):
        function = function.args[0] if getattr(function.func, "__name__", "") == "_call_impl" else function.func
    code = next((found for get in (function, type(function)) if (found := _code(get)) is not None), None)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{name} ({code.co_filename}:{code.co_firstlineno})" if code is not None else name


def _code(function):
    """Return the code of a function, a method, or of `forward` of a class."""
    function = getattr(function, "forward", function) if isinstance(function, type) else function
    return getattr(getattr(function, "__func__", function), "__code__", None)


def is_same(a: Any, b: Any) -> bool:
    """Return whether two results are equal, tensors bit for bit.

    Args:
        a, b: the results.
    """
    if type(a) is not type(b):
        return False
    if isinstance(a, facula.Tensor):
        about = [(t.dtype, t.shape, t.device, t.requires_grad) for t in (a, b)]
        return about[0] == about[1] and bool(((a == b) | (a.isnan() & b.isnan())).all())
    if isinstance(a, dict):
        return list(a) == list(b) and all(is_same(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(is_same, a, b))
    return bool(a == b)


class Settings:
    """Hold how a function is compiled; the core reads the settings at each look.

    Args:
        fullgraph, dynamic, mode, backend, options: those of `compile`; the backend by its name.
        recompile_limit: None for the one in `config`.
        name: what logs call the function; None for its own name.
        function: the backend, if it is none of Facula's own.
    """

    def __init__(self, fullgraph: bool = False, dynamic: bool | None = None, mode: str | None = None, backend: str = "inductor",
                 options: Any = None, recompile_limit: int | None = None, name: str | None = None,
                 function: Any = None) -> None:  # fmt: skip
        self.fullgraph, self.dynamic, self.mode, self.backend = fullgraph, dynamic, mode, backend
        self.options, self.name, self.function = dict(options or {}), name, function
        self.eager = backend not in ("inductor", "cudagraphs")  # ops never wait
        self._recompile_limit, self._ran = recompile_limit, False
        self.not_replayed: str | None = None  # why
        self._watched: list[Any] = []

    @property
    def replays(self) -> bool:
        """Return whether calls may be made without the interpreter (trusted.py)."""
        return not self.eager and not always

    @property
    def always_replays(self) -> bool:
        """Return whether they are wherever they can, without a trial: for tests."""
        return always_replays

    @property
    def checks_replays(self) -> bool:
        """Return whether calls that have no effect are made both ways and compared: for tests."""
        return checks_replays

    def check_replay(self, compiled: Any, result: Any, expected: Any) -> None:
        """Raise AssertionError where steps gave another result than Python."""
        if not is_same(result, expected):
            raise AssertionError(f"replay: {self._named(compiled)} gives {expected!r}, by steps {result!r}")

    def steps_of(self, compiled: Any, values: tuple[Any, ...], keywords: tuple[str, ...] | None) -> Any:
        """Return steps that make such a call; None where the function is not trusted."""
        from facula.compiler._replay import reader, trusted

        try:
            steps = reader.steps_of(compiled.function, values, keywords)
            count = len(steps.spec[4])
            _log().told("output_code", f"{self._named(compiled)}: {count} steps make calls without the interpreter")
            return steps
        except Exception as error:  # whatever it is, Python makes the calls
            self.not_replayed = str(error) if isinstance(error, trusted.Untrusted) else repr(error)
            return None

    @property
    def pure(self) -> bool:
        """Return whether the user promises that calls do nothing but call public functions, by the forms of their tensors."""
        return bool(self.options.get("pure", False))

    def watched_call(self, compiled: Any, values: tuple[Any, ...], keywords: tuple[str, ...] | None) -> tuple[Any, Any]:
        """Return a result and the steps that give such a one, None where there are none; an ellipsis: one more call has to be
        seen."""
        from facula.compiler._replay import traced

        result, steps, self.not_replayed = traced.watched_call(compiled.function, values, keywords)
        before, self._watched = self._watched, [*self._watched, steps]
        if steps is None:
            return result, None
        if before and traced.are_alike(before[-1], steps):
            self._watched, self.not_replayed = [], None
            return result, steps
        if len(before) < 8:  # on tensors of several forms, perhaps
            return result, ...
        self._watched, self.not_replayed = [], "calls that do not do the same"
        return result, None

    @property
    def always(self) -> bool:
        """Whether ops wait wherever they can, without a trial: for tests."""
        return always

    @property
    def limit(self) -> int:
        return self._recompile_limit if self._recompile_limit is not None else _settings.recompile_limit

    @property
    def has_own_backend(self) -> bool:
        """Return whether the backend is none of Facula's own."""
        return self.function is not None

    @property
    def arguments(self) -> dict[str, Any]:
        """Return what a backend is given beside the graph and the inputs."""
        mode = {} if self.mode in (None, "default") else {"mode": self.mode}
        return {**mode, "options": self.options} if self.options else mode

    def stretches(self, compiled: Any) -> tuple[Any, Any]:
        """Return what the core asks of a backend of its own: who gets the stretches of calls, and of backward passes."""
        if self.function is None and self.backend == "cudagraphs" and facula.cuda.is_available():
            from facula.compiler._backends.graphs import GraphedStretches

            return GraphedStretches(self, compiled, is_backward=False), GraphedStretches(self, compiled, is_backward=True)
        if self.function is None:
            return None, None
        from facula.compiler._backends.stretches import Stretches

        backward = Stretches(self, compiled, None)
        return Stretches(self, compiled, self.function, backward), backward

    def compiler_config(self) -> dict[str, Any] | None:
        """Return the settings of `_inductor.config` with those of the mode and the options; None for other backends."""
        if self.backend != "inductor":
            return None
        from facula.compiler import _modes, _options

        chosen = {name.replace("-", "_"): value for name, value in self.options.items() if name != "pure"}
        return {**_options.get_config_copy(), **_modes.MODES[self.mode or "default"], **chosen}

    def _named(self, compiled):
        return f"{self.name}: {described(compiled)}" if self.name else described(compiled)

    def look_begins(self, compiled: Any) -> bool:
        """Return whether a call is recorded; raise where it must not be."""
        count = len(compiled.recordings)
        if stance == "fail_on_recompile":
            raise RuntimeError(
                f"compile: no call is recorded in the stance 'fail_on_recompile', got one of {self._named(compiled)}"
            )
        if stance == "eager_on_recompile":
            return False
        ran, self._ran = self._ran, True
        if not ran and stance in ("eager_then_compile", "aot_eager_then_compile"):
            return False
        if count and _settings.error_on_recompile:
            text = f"compile: one call is recorded where error_on_recompile is set, got number {count + 1}"
            raise _errors.RecompileError(f"{text} of {self._named(compiled)}")
        if count and count >= self.limit:
            if _settings.fail_on_recompile_limit_hit:
                text = f"compile: at most {self.limit} calls are recorded (recompile_limit)"
                raise _errors.FailOnRecompileLimitHit(f"{text}, got one more of {self._named(compiled)}")
            _log().told("recompiles", f"{self._named(compiled)}: {count} calls are recorded, others run eagerly")
            return False
        _here.outer = (getattr(_here, "settings", None), getattr(_here, "outer", None))  # a backend may compile, too
        _here.settings = self
        return True

    def look_ended(self, compiled: Any, recording: Any) -> None:
        """Tell whoever asked of what was recorded; None where the call raised."""
        _here.settings, _here.outer = getattr(_here, "outer", None) or (None, None)
        frames = _counters.counters["frames"]
        frames["total"] += 1
        if recording is None:
            return
        frames["ok"] += 1
        cut = cuts(recording)
        _counters.counters["stats"]["calls_captured"] += recording.count
        _counters.counters["stats"]["unique_graphs"] += len(cut)
        reasons = breaks(recording)
        for reason in reasons:
            _counters.counters["graph_break"][reason.reason] += 1
        log = _log()
        if not log.any_told():
            return
        name = self._named(compiled)
        for reason in reasons:
            frame = reason.user_stack[0]
            log.told("graph_breaks", f"{name}: a stretch ends at {frame.filename}:{frame.lineno}: {reason.reason}")
        if len(compiled.recordings) > 1:
            log.told("recompiles", f"{name}: recorded once more, for other tensors: recording {len(compiled.recordings)}")
        for kind in ("graph_code", "output_code"):
            log.told(kind, f"{name}: {recording.count} ops, {recording.groups} groups\n{recording}")


@functools.cache
def _log():
    from facula.compiler import _logs

    return _logs
