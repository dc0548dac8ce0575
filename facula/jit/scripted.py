"""What `script` and `trace` give: modules and functions that run as Python, and say that they are TorchScript.

A program that asks `isinstance(m, ScriptModule)` gets PyTorch's answer. What only a compiled program has (its text, its
graph, a file of it) raises NotImplementedError with its name.
"""

import copy
import functools
import weakref

import facula


def _missing(owner, name, what):
    def refuse(self, *args, **kwargs):
        raise NotImplementedError(
            f"{owner}.{name} is not supported by Facula: TorchScript programs are not compiled, so there is {what} "
            f"(save state_dict(), and build the module from its Python program), got {type(self).__qualname__}"
        )

    refuse.__name__, refuse.__doc__ = name, f"Raises NotImplementedError: there is {what}."
    return refuse


_FILES = ("save", "save_to_buffer", "_save_for_lite_interpreter", "_save_to_buffer_for_lite_interpreter")
_TEXTS = ("code", "code_with_constants", "graph", "inlined_graph")


def _refusing(cls):
    """Gives a class the names that only compiled programs have."""
    for name in _FILES:
        setattr(cls, name, _missing(cls.__name__, name, "no program to write"))
    for name in _TEXTS:
        setattr(cls, name, property(_missing(cls.__name__, name, "no program to show")))
    for name in ("graph_for", "get_debug_state"):
        setattr(cls, name, _missing(cls.__name__, name, "no program to show"))
    return cls


@_refusing
class ScriptModule(facula.nn.Module):
    """A module that `script` or `trace` gave, or whose class derives from this one."""

    define = _missing("ScriptModule", "define", "nothing that compiles text")

    @property
    def original_name(self):
        """The name of the class that was scripted."""
        return type(self).__name__


@_refusing
class ScriptFunction:
    """A function that `script` or `trace` gave; calls the Python function."""

    def __init__(self, function):
        functools.update_wrapper(self, function)
        self.name = getattr(function, "__name__", type(function).__name__)

    def __call__(self, *args, **kwargs):
        return self.__wrapped__(*args, **kwargs)

    def __reduce__(self):
        return ScriptFunction, (self.__wrapped__,)

    @property
    def qualified_name(self):
        """The name as TorchScript spells it."""
        return f"__torch__.{self.name}"


_classes = weakref.WeakKeyDictionary()  # class -> the class of its scripted modules


def module(original):
    """A scripted twin of a module: it shares parameters, buffers and submodules, and has attributes of its own."""
    if isinstance(original, ScriptModule):
        return original
    cls = type(original)
    if cls not in _classes:
        members = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
        _classes[cls] = type(cls.__name__, (cls, ScriptModule), members)
    twin = object.__new__(_classes[cls])
    tables = vars(facula.nn.Module()).keys()
    for name, value in vars(original).items():
        twin.__dict__[name] = copy.copy(value) if name in tables else value
    return twin


def function(original):
    """A scripted function."""
    return original if isinstance(original, ScriptFunction) else ScriptFunction(original)
