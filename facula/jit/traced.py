"""Define the results of `trace`: modules and functions that run a program that was recorded from them (facula.export).

A program is recorded for the example, and again when inputs with other shapes or dtypes come; then Python runs once
more. Where Python reads the value of a tensor (a branch, `item()`), the program has a check: a run with another value
is an error that names the line, and never returns the other branch's result. A function that cannot be recorded runs as
Python does, after a TracerWarning with the reason; only a file of it cannot be written.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import TYPE_CHECKING, Any

import facula
from facula import _C
from facula.jit import scripted
from facula.utils import _pytree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from facula import Tensor
    from facula.export.exported_program import ExportedProgram
    from facula.jit.scripted import ScriptModule
    from facula.nn.modules.container import Sequential
    from facula.nn.modules.module import Module

__all__ = ["TracerWarning", "TracingCheckError", "is_tracing"]


class TracerWarning(Warning):
    """Warn that something in a trace may differ from what the program expects."""


class TracingCheckError(RuntimeError):
    """Report a trace whose results differ from those of its function."""


_depth = 0


def is_tracing() -> bool:
    """Return whether a program is being recorded by `trace`.

    >>> torch.jit.is_tracing()
    False
    >>> seen = []
    >>> step = lambda x: seen.append(torch.jit.is_tracing()) or x + 1
    >>> traced = torch.jit.trace(step, torch.ones(1), check_trace=False)
    >>> seen
    [True]
    """
    return _depth > 0


@contextlib.contextmanager
def _tracing():
    global _depth
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1


class Trace:
    """Hold the programs of one function, by the kinds of its inputs.

    Args:
        module: whose parameters and buffers the programs hold; for a function that has none, an empty Module.
        function: what is recorded.
    """

    module: Module
    programs: dict[Any, Any]

    def __init__(self, module: Module, function: Callable[..., Any]) -> None:
        self.module, self.function = module, function
        self.training: list[tuple[Module, bool]] = [(part, part.training) for part in module.modules()]
        self.programs, self.first, self.failed = {}, None, None

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        # While an outer program is recorded, the ops of the function have to run so that they become part of it.
        if self.failed is not None or _C._recording():
            return self.function(*args, **kwargs)
        leaves, spec = _pytree.tree_flatten((args, kwargs))
        try:
            key = (spec, *map(_kind, leaves))
            exported = self.programs.get(key)
        except TypeError:  # what cannot be compared is no input of a program
            return self.function(*args, **kwargs)
        if exported is None or not self._holds(exported):
            exported = self.programs[key] = self.record(args, kwargs)
            if exported is None:
                return self.function(*args, **kwargs)
        return _pytree.tree_unflatten(exported.program.run(leaves), exported.call_spec.out_spec)

    def record(self, args: Any, kwargs: Any) -> ExportedProgram | None:
        """Return an ExportedProgram of a call, or None, after a warning, where it cannot be recorded."""
        if self.first is None:
            self.first: tuple[Any, Any] = (args, kwargs)
        try:
            return self._export(args, kwargs, None)
        except (NotImplementedError, RuntimeError, ValueError, TypeError) as error:
            self.failed: Any = error
            name = getattr(self.function, "__name__", type(self.module).__name__)
            warnings.warn(f"jit.trace: {name} cannot be recorded and runs as Python does: {error}", TracerWarning, stacklevel=4)
            return None

    def _export(self, args, kwargs, shapes):
        from facula.export import _export

        now = [(part, part.training) for part, _ in self.training]
        try:
            for part, training in self.training:
                part.training = training
            with _tracing():
                return _export(self.module, args, kwargs, shapes, function=self.function, tracing=True)
        finally:
            for part, training in now:
                part.training = training

    def _holds(self, exported):
        """Return whether a program holds what the module holds; tensors of the same kind are put in their places."""
        return hold(exported, state_of(self.module))

    def exported(self) -> ExportedProgram:
        """Return the program of the first call, for a file: with a first dimension that varies, where that can be."""
        if self.first is None:
            raise RuntimeError("jit: nothing was called yet, so there is no program; call it once with an example")
        if self.failed is not None:
            raise RuntimeError(f"jit: there is no program, since it cannot be recorded: {self.failed}")
        args, kwargs = self.first
        automatic = facula.export.Dim.AUTO
        try:
            shapes = _pytree.tree_map(lambda v: {0: automatic} if isinstance(v, facula.Tensor) and v.dim() else None, args)
            return self._export(args, kwargs, {"__positional__": shapes})
        except (RuntimeError, ValueError, TypeError, NotImplementedError):
            return self._export(args, kwargs, None)


def state_of(module: Module) -> Iterator[tuple[str, Tensor]]:
    """Yield (path, tensor) of every parameter and buffer."""
    for prefix, part in module.named_modules(remove_duplicate=False):
        for table in (part._parameters, part._buffers):
            for name, tensor in table.items():
                if tensor is not None:
                    yield (f"{prefix}.{name}" if prefix else name), tensor


def hold(exported: ExportedProgram, state: dict[str, Any]) -> bool:
    """Give a program other tensors where it holds others; False where one has another dtype or shape."""
    held = {**exported.state_dict, **exported.constants}
    for path, tensor in state:
        if path not in held or held[path] is tensor:
            continue
        try:
            exported.program.hold(path, tensor)
        except ValueError:
            return False
        table = exported.state_dict if path in exported.state_dict else exported.constants
        table[path] = tensor
    return True


def _kind(leaf):
    """Return what a program is recorded for: of a tensor its dtype, shape and device, of anything else itself."""
    if isinstance(leaf, facula.Tensor):
        return leaf.dtype, tuple(leaf.shape), leaf.device
    return type(leaf), leaf


def _like(module):
    """Return a module with the same parameters, buffers and submodules, whose forward is that of its class."""
    # Without __init__, which would make new parameters; the dict is shared on purpose.
    made = object.__new__(type(module))
    made.__dict__.update(module.__dict__)
    return made


def traced_module(original: Module, methods: Sequence[str]) -> ScriptModule | Sequential:
    """Return a scripted twin of a module whose methods run programs.

    Args:
        original: the module.
        methods: names of methods.
    """
    twin = scripted.module(original)
    inner = _like(twin)
    twin.__dict__["_traces"] = {}
    for name in methods:
        function = inner if name == "forward" else getattr(inner, name)
        twin._traces[name] = twin.__dict__[name] = Trace(inner, function)
    return twin


class TracedFunction(scripted.ScriptFunction):
    """Run the program of a function that `trace` received."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        self._traces = {"forward": Trace(facula.nn.Module(), function)}

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor:
        return self._traces["forward"](*args, **kwargs)

    def __reduce__(self) -> Any:
        return TracedFunction, (self.__wrapped__,)


def as_arguments(example: Sequence[Tensor] | Tensor) -> Any:
    """Return example inputs as `trace` takes them: a tuple, or one argument."""
    if isinstance(example, (tuple, list)):
        return tuple(example)
    return () if example is None else (example,)


def check(trace: Trace, args: Any, kwargs: Any, tolerance: float) -> None:
    """Compare a program with what it was made of."""
    leaves = _pytree.tree_leaves((args, kwargs))
    fresh = [leaf.detach().clone() if isinstance(leaf, facula.Tensor) else leaf for leaf in leaves]
    structure = _pytree.tree_structure((args, kwargs))
    with facula.no_grad(), facula.random.fork_rng():
        # Both runs draw the same random numbers, else dropout would make every check fail.
        states = facula.random._states_of_all()
        found = _pytree.tree_leaves(trace(*args, **kwargs))
        facula.random._put_back(states)
        fresh_args, fresh_kwargs = _pytree.tree_unflatten(fresh, structure)
        wanted = _pytree.tree_leaves(trace.function(*fresh_args, **fresh_kwargs))
    for a, b in zip(found, wanted, strict=True):
        same = facula.allclose(a, b, tolerance, tolerance, equal_nan=True) if isinstance(a, facula.Tensor) else a == b
        if not same:
            raise TracingCheckError(f"jit.trace: the program gives another result than the function itself, {a} and {b}")
