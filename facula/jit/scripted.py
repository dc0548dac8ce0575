"""Define the results of `script`: modules and functions that run as Python and identify themselves as TorchScript.

`isinstance(m, ScriptModule)` therefore has the same result as in PyTorch. The text, the graph and the file are those of
the program of the first call (traced.py). What only a compiler has raises NotImplementedError with its name.
"""

from __future__ import annotations

import copy
import functools
import io
import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn

import facula
from facula.utils import _pytree

if TYPE_CHECKING:
    from typing import Any

    from facula import Tensor
    from facula.fx.graph import Graph
    from facula.nn.modules.module import Module
    from facula.types import FileLike

__all__ = ["ScriptFunction", "ScriptModule", "save"]


def _missing(owner: str, name: str, what: str) -> Callable[..., NoReturn]:
    def refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"{owner}.{name} is not supported by Facula: TorchScript programs are not compiled, so there is {what} "
            f"(save state_dict(), and build the module from its Python program), got {type(self).__qualname__}"
        )

    refuse.__name__, refuse.__doc__ = name, _MISSING.format(owner=owner, name=name, what=what, program=_PROGRAMS[owner])
    return refuse


_PROGRAMS = {"ScriptModule": "nn.ReLU()", "ScriptFunction": "lambda x: x"}
_MISSING = """Raise NotImplementedError: there is {what}.

Args:
    args, kwargs: whatever PyTorch's method takes.

>>> torch.jit.script({program}).{name}()  # doctest: +ELLIPSIS
Traceback (most recent call last):
    ...
NotImplementedError: {owner}.{name} is not supported by Facula...
"""


_FILES = ("_save_for_lite_interpreter", "_save_to_buffer_for_lite_interpreter")


def _refusing(cls):
    """Give a class the names that only compiled programs have."""
    for name in _FILES:
        setattr(cls, name, _missing(cls.__name__, name, "no program for other interpreters"))
    cls.code_with_constants = property(_missing(cls.__name__, "code_with_constants", "no text with constants"))
    for name in ("graph_for", "get_debug_state"):
        setattr(cls, name, _missing(cls.__name__, name, "no program to show"))
    return cls


#: what scripted modules and functions were first called with
_first_calls = weakref.WeakKeyDictionary()


def _note_call(scripted, args, kwargs):
    if scripted not in _first_calls:
        alone = _pytree.tree_map(lambda v: v.detach() if isinstance(v, facula.Tensor) else v, (args, kwargs))
        _first_calls[scripted] = alone


def extra_bytes(extra_files: dict[str, str | bytes] | None) -> dict[str, bytes]:
    """Return the bytes of files that an archive holds beside its program."""
    files = {}
    for name, data in (extra_files or {}).items():
        if not isinstance(data, (str, bytes)):
            raise TypeError(f"jit.save: _extra_files must hold text or bytes, got {type(data).__name__} for {name!r}")
        files[name] = data.encode() if isinstance(data, str) else data
    return files


class _Recorded:
    """Provide the attributes of a recorded program: that of the first call, or that of the example of a trace."""

    def _exported(self):
        traces = self.__dict__.get("_traces")
        if traces:
            return next(iter(traces.values())).exported()
        is_module = isinstance(self, facula.nn.Module)
        trace = facula.jit.traced.Trace(self if is_module else facula.nn.Module(), self if is_module else self.__wrapped__)
        trace.first = _first_calls.get(self)
        return trace.exported()

    def save(self, f: Callable[..., Any], _extra_files: Any = None) -> None:
        """Write the program as an archive, ".pt2", which `jit.load` and `export.load` read.

        Args:
            f: a path, or a writable binary file.
            _extra_files: {name: text or bytes} that the archive holds beside the program.

        Errors: TypeError for extra files that are neither text nor bytes; RuntimeError where nothing was called yet.

        >>> import io
        >>> file = io.BytesIO()
        >>> torch.jit.trace(nn.ReLU(), torch.ones(2)).save(file)
        >>> file.getvalue()[:2]
        b'PK'
        """
        from facula.export import _pt2

        _pt2.save(self._exported(), f, extra_bytes(_extra_files))

    def save_to_buffer(self) -> bytes:
        """Return the bytes of what `save` writes.

        >>> torch.jit.trace(nn.ReLU(), torch.ones(2)).save_to_buffer()[:2]
        b'PK'
        """
        buffer = io.BytesIO()
        self.save(buffer)
        return buffer.getvalue()

    @property
    def graph(self) -> Graph:
        """The program as a graph of torch.fx."""
        return self._exported().graph

    inlined_graph = graph

    @property
    def code(self) -> str:
        """The text of the program, in Python."""
        return self._exported().graph_module.code


def save(m: Module, f: FileLike, _extra_files: Any = None) -> None:
    """Write what `trace` or `script` gave.

    Args:
        m: a ScriptModule or a ScriptFunction.
        f: a path, or a writable binary file.
        _extra_files: {name: text or bytes} that the archive holds beside the program.

    Errors: TypeError for anything else; RuntimeError for what was not called yet, so that there is no program.

    >>> import io
    >>> traced, file = torch.jit.trace(lambda x: x + 1, torch.ones(2)), io.BytesIO()
    >>> torch.jit.save(traced, file)
    >>> torch.jit.load(io.BytesIO(file.getvalue()))(torch.ones(3))
    tensor([2., 2., 2.])
    """
    if not isinstance(m, (ScriptModule, ScriptFunction)):
        raise TypeError(f"jit.save: what trace or script gave, got {type(m).__name__}")
    m.save(f, _extra_files)


@_refusing
class ScriptModule(_Recorded, facula.nn.Module):
    """Represent a module that `script` or `trace` returned, or whose class derives from this one.

    It runs as Python does. Classes that derive from it take what arguments they want (`args`, `kwargs`).

    >>> scripted = torch.jit.script(nn.Sequential(nn.ReLU()))
    >>> scripted(torch.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    >>> print(scripted.code.strip())
    def forward(self, input):
        input_1 = input
        relu = torch.ops.aten.relu.default(input_1);  input_1 = None
        return (relu,)
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor | Any:
        _note_call(self, args, kwargs)
        return super().__call__(*args, **kwargs)

    define: Callable[..., NoReturn] = _missing("ScriptModule", "define", "nothing that compiles text")

    @property
    def original_name(self) -> str:
        """The name of the class that was scripted."""
        return type(self).__name__


@_refusing
class ScriptFunction(_Recorded):
    """Call the Python function that `script` or `trace` received; they return this object.

    Args:
        function: the Python function.

    >>> scripted = torch.jit.script(lambda x: x + 1)
    >>> scripted(torch.ones(2)), type(scripted).__name__
    (tensor([2., 2.]), 'ScriptFunction')
    >>> print(scripted.code.strip())
    def forward(self, x):
        add = torch.ops.aten.add.Tensor(x, 1);  x = None
        return (add,)
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self.name: Any = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Tensor | Any:
        _note_call(self, args, kwargs)
        return self.__wrapped__(*args, **kwargs)

    def __reduce__(self) -> Any:
        return ScriptFunction, (self.__wrapped__,)

    @property
    def qualified_name(self) -> str:
        """The name as TorchScript spells it."""
        return f"__torch__.{self.name}"


_classes = weakref.WeakKeyDictionary()  # class -> the class of its scripted modules


def module(original: Module) -> Any:
    """Return a scripted twin of a module: it shares parameters, buffers and submodules, and has attributes of its own."""
    if isinstance(original, ScriptModule):
        return original
    cls = type(original)
    # One class for all modules of a class, so that two twins have the same type.
    if cls not in _classes:
        members = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
        _classes[cls] = type(cls.__name__, (cls, ScriptModule), members)
    twin = object.__new__(_classes[cls])
    tables = vars(facula.nn.Module()).keys()
    for name, value in vars(original).items():
        # The dicts of parameters, hooks and submodules are copied: adding to the twin must not change the original.
        twin.__dict__[name] = copy.copy(value) if name in tables else value
    return twin


def function(original: Callable[..., Any]) -> ScriptFunction:
    """Return a scripted function."""
    return original if isinstance(original, ScriptFunction) else ScriptFunction(original)
