"""Define modules of settings: names with values that programs set, permanently or in a block. An unknown name is an
error.

`install_config_module(module)` makes of a module whose settings are its variables such a module. Settings that mean nothing
here can be listed by their value (`settings_by_value`). Names with a dot are in groups: `config.triton.cudagraphs`.
"""

from __future__ import annotations

import ast
import contextlib
import copy
import hashlib
import importlib
import pickle
import types
from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from typing import Any

__all__ = ["ConfigModule", "install_config_module", "settings_by_value"]


def settings_by_value(*rows: str) -> dict[str, Any]:
    """Name -> value, from rows "value: names".

    Args:
        rows: texts; the value is a literal of Python.

    >>> from facula.utils._config_module import settings_by_value
    >>> settings_by_value("True: a b", "[1]: c")
    {'a': True, 'b': True, 'c': [1]}
    """
    found = {}
    for row in rows:
        text, _, names = row.rpartition(": ")
        value = ast.literal_eval(text)
        found |= {name: copy.copy(value) for name in names.split()}
    return found


class _Group:
    """Collect settings under one name: `triton.cudagraphs` of a module is `cudagraphs` of its group `triton`."""

    def __init__(self, path, values):
        self.__dict__.update(values, _path=path, _names=frozenset(values))

    def __getattr__(self, name):
        raise _unknown(self._path, name, self._names)

    def __setattr__(self, name, value):
        if name not in self._names:
            raise _unknown(self._path, name, self._names)
        self.__dict__[name] = value


def _unknown(path, name, known):
    text = f"{path}: there is no such setting, got {name!r}"
    return AttributeError(text + _C._suggestion(name, known), name=name)


class _Patch(contextlib.ContextDecorator):
    """Set other values in a block or a function."""

    def __init__(self, module, values):
        self._module, self._values, self._before = module, values, []
        for name in values:
            module._place(name)

    def __enter__(self):
        # A stack, because one patch can be entered again inside itself, as a decorator of a recursive function is.
        self._before.append({name: self._module._get(name) for name in self._values})
        for name, value in self._values.items():
            self._module._set(name, value)
        return self

    def __exit__(self, *exception):
        for name, value in self._before.pop().items():
            self._module._set(name, value)


class ConfigModule(types.ModuleType):
    """Make the variables of a module settings."""

    _defaults: dict[str, Any]
    _second_names: dict[str, tuple[str, str]]
    _public_path: str

    def _path(self):
        return self._public_path

    def _place(self, name):
        """Return where a setting is: a module or a group, and its name there."""
        if name in self._second_names:
            module, name = self._second_names[name]
            return importlib.import_module(module)._place(name)
        if name not in self._defaults:
            raise _unknown(self._path(), name, self._defaults)
        group, _, last = name.rpartition(".")
        return (getattr(self, group) if group else self), last

    def _get(self, name):
        place, last = self._place(name)
        return place.__dict__[last]

    def _set(self, name, value):
        place, last = self._place(name)
        place.__dict__[last] = value

    def __getattr__(self, name: str) -> Any:  # values lie in the module's dictionary; here come second names
        if name.startswith("__") or "_second_names" not in self.__dict__:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return self._get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__") or isinstance(value, types.ModuleType):  # what the import system sets
            super().__setattr__(name, value)
        else:
            self._set(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*self._defaults, *self._second_names})

    def __delattr__(self, name: str) -> None:
        self._set(name, copy.deepcopy(self._defaults[name]))

    @property
    def _config(self) -> dict[str, Any]:
        return self.get_config_copy()

    def get_config_copy(self) -> dict[str, Any]:
        """Name -> value of all settings; names in groups have a dot."""
        return {name: copy.deepcopy(self._get(name)) for name in (*self._defaults, *self._second_names)}

    shallow_copy_dict = to_dict = get_config_copy

    def save_config(self) -> bytes:
        """Return the settings as bytes for `load_config`; those that cannot be pickled are left out."""
        kept = {}
        for name, value in self.get_config_copy().items():
            with contextlib.suppress(Exception):
                pickle.dumps(value)
                kept[name] = value
        return pickle.dumps(kept, protocol=2)

    def load_config(self, maybe_pickled_config: bytes | dict[str, Any]) -> None:
        """Set what `save_config` gave, or a dictionary.

        Args:
            maybe_pickled_config: the bytes, or name -> value. Bytes are pickles: give only what you trust.
        """
        given = maybe_pickled_config
        for name, value in (given if isinstance(given, dict) else pickle.loads(given)).items():
            self._set(name, value)

    def codegen_config(self) -> str:
        """Return the lines of Python that set what differs from the defaults."""
        now = {name: self._get(name) for name in self._defaults}
        return "\n".join(f"{self._path()}.{n} = {v!r}" for n, v in now.items() if v != self._defaults[n])

    def get_hash(self) -> bytes:
        """Return a hash of the settings."""
        return hashlib.sha256(repr(sorted(self.get_config_copy().items())).encode()).digest()

    def patch(self, arg1: str | dict[str, Any] | None = None, arg2: Any = None, **settings: Any) -> Any:
        """Set other values within a block or a function: `patch("verbose", True)`, `patch(verbose=True)`, or a dict.

        Args:
            arg1: a name, or name -> value.
            arg2: the value, where arg1 is a name.
            settings: names and values.

        Errors: AttributeError for a setting that there is not.
        """
        if isinstance(arg1, str):
            settings = {arg1: arg2, **settings}
        elif arg1 is not None:
            settings = {**arg1, **settings}
        return _Patch(self, settings)


def install_config_module(
    module: Any, more: dict[str, Any] | None = None, second_names: dict[str, Any] | None = None, path: str | None = None
) -> None:
    """Make a module one of settings: its variables, and more.

    Args:
        module: the module.
        more: further settings: name -> value, "group.name" -> value.
        second_names: name -> the setting that it is too: a name of this module, or (module, name).
        path: the name that error texts give the module; by default its own below `torch`.
    """
    own = vars(module)
    settings = {}
    for name, value in list(own.items()):
        imported = isinstance(value, (types.ModuleType, types.FunctionType, type)) or name in ("annotations", "TYPE_CHECKING")
        if not name.startswith("__") and not imported:
            settings[name] = value
    settings |= more or {}
    # Assigning to a module's variables calls __setattr__ of its class only.
    module.__class__ = ConfigModule
    own["_defaults"] = copy.deepcopy(settings)
    names = {name: to if isinstance(to, tuple) else (module.__name__, to) for name, to in (second_names or {}).items()}
    own["_second_names"] = names
    own["_public_path"] = path or module.__name__.replace("facula", "torch", 1)
    groups: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        group, _, last = name.rpartition(".")
        groups.setdefault(group, {})[last] = value
    own.update(groups.pop("", {}))
    for group, values in groups.items():
        own[group] = _Group(f"{module._path()}.{group}", values)
