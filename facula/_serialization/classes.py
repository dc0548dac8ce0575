"""Find the Python classes that a checkpoint may name when whole objects are requested (weights_only=False).

PyTorch hands such a file to pickle, which calls whatever the file says. Facula never does. What it does
instead: an object is made by `object.__new__` and gets its attributes back; its class must be one that

- Facula itself defines, or
- the running program has already imported. A load imports nothing that the file names, for an import runs code: whoever can
  put a file beside the program, and a checkpoint before it, would decide what runs.

Classes with `__del__` are refused, and `__setstate__` is called only for nn.Module and the program's own; of other packages
both are accepted for the classes that they register as containers of tensors (`register_pytree_node`), such as tensordict's.
Classes of the standard library are refused unless inert.py lists them.
"""

import enum
import importlib
import os
import sys

import facula

_REFUSED_TOPS = frozenset(sys.stdlib_module_names) - {"__main__"} | {"pip", "setuptools", "pkg_resources"}


def facula_name(module):
    """Return PyTorch's module names as Facula's: torch.nn -> facula.nn."""
    return "facula" + module[5:] if module == "torch" or module.startswith("torch.") else module


def torch_name(module):
    """Return Facula's module names as PyTorch's, which is what files hold."""
    return "torch" + module[6:] if module == "facula" or module.startswith("facula.") else module


def find(module, qualname):
    """Return the class or Facula function called so, or None when a checkpoint may not name it."""
    if module in COMPILED:  # where PyTorch's compiled functions say they live
        return vars(facula.nn.functional).get(qualname) or vars(facula).get(qualname)
    home = facula_name(module)
    home = _MOVED.get(home, home)
    if home == "facula" or home.startswith("facula."):
        found = _walk(_own_module(home), qualname)
        if isinstance(found, type):
            return (
                found if torch_name(found.__module__).startswith("torch") and is_restorable(found) else None
            )
        return found if callable(found) and function_home(found) else None
    if module.partition(".")[0] in _REFUSED_TOPS:
        return None
    found = _walk(sys.modules.get(module), qualname)
    return found if isinstance(found, type) and is_restorable(found) else None


def is_restorable(cls):
    """Return whether instances of `cls` may be made without calling it."""
    # Classes written in Python are heap types. An instance of a built-in class without its constructor may crash the
    # interpreter.
    return bool(cls.__flags__ & _HEAP_TYPE) and (not hasattr(cls, "__del__") or is_registered_container(cls))


def may_set_own_state(cls):
    """Return whether `cls.__setstate__` may be called: it is Facula's or the program's own code."""
    if issubclass(cls, facula.nn.Module) or torch_name(cls.__module__).startswith(_OWN_STATES):
        return True
    if is_registered_container(cls):
        return True
    return is_program_module(sys.modules.get(cls.__module__))


def is_registered_container(cls):
    """Return whether the program has registered `cls` as a container of tensors: its package made it for this library."""
    nodes = sys.modules.get("facula.utils._pytree")  # who has not imported it has registered nothing
    return nodes is not None and cls in nodes.SUPPORTED_NODES


def new(cls, args):
    """Return an instance of `cls`, made without `__init__` or a `__new__` of its own."""
    if issubclass(cls, enum.Enum):
        return None
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        return tuple.__new__(cls, args)
    for base in (tuple, list, dict, str, int, float, bytes):
        if issubclass(cls, base):
            # of the base type itself: converting something else could call its methods
            plain = len(args) == 1 and type(args[0]) is base and base not in (list, dict)
            return base.__new__(cls, *args) if plain or not args else None
    # A tensor without its constructor has no memory.
    if issubclass(cls, facula.Tensor) or args:
        return None
    return object.__new__(cls)


def enum_member(cls, value):
    """Return the member of that value, or None."""
    try:
        return cls._value2member_map_.get(value)
    except TypeError:  # an unhashable value
        return next((m for m in cls if type(m.value) is type(value) and m.value == value), None)


# Py_TPFLAGS_HEAPTYPE of CPython.
_HEAP_TYPE = 1 << 9
_OWN_CLASSES = ("facula.nn.", "facula.optim.", "facula.distributions.", "facula.utils.data.", "facula.distributed.checkpoint.")
_OWN_STATES = ("torch.optim", "torch.distributed.checkpoint.metadata")
# files by which earlier versions named classes -> where they are now
_MOVED = {"facula.distributions._compound_constraints": "facula.distributions.constraints"}
COMPILED = ("torch._C._nn", "torch._C._VariableFunctions", "torch._VF")


def _walk(module, qualname):
    """Return `module.a.b`, read from the dictionaries themselves: no `__getattr__`, no descriptor runs."""
    space = vars(module) if module is not None else {}
    found = None
    for part in qualname.split("."):
        found = space.get(part)
        space = vars(found) if isinstance(found, type) else {}
    return found


def _own_module(name):
    if name in sys.modules:
        return sys.modules[name]
    if not name.startswith(_OWN_CLASSES) or not all(part.isidentifier() for part in name.split(".")):
        return None
    try:
        return importlib.import_module(name)
    except ImportError:
        return None


def function_home(function):
    """ Return "torch.nn.functional" or "torch" for a function of the tensor API found there, else None.

    Such a function may stand in a checkpoint as a value (a layer's activation); it is never called by a load.
    """
    name = getattr(function, "__name__", "")
    for home, space in (("torch.nn.functional", facula.nn.functional), ("torch", facula)):
        if vars(space).get(name) is function:
            return home
    return None


# -- the running program ----------------------------------------------------------------------------


def _program_directory():
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    return os.path.dirname(os.path.realpath(main)) if main else None


def is_program_module(module):
    """Return whether `module` is `__main__` or a file in the directory of the running program."""
    if module is None:
        return False
    path = getattr(module, "__file__", None)
    if module.__name__ == "__main__":
        return True
    return bool(path) and _is_beside_program(path)


def _is_beside_program(path):
    home, path = _program_directory(), os.path.realpath(path)
    return home is not None and path.startswith(home + os.sep) and "site-packages" not in path
