"""Containers: modules and parameters in sequences, lists and dictionaries."""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import chain, islice

import facula

from ..parameter import Parameter
from .module import Module, _addindent

__all__ = ["Container", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"]


class Container(Module):
    """Deprecated: a Module with submodules given by keyword."""

    def __init__(self, **kwargs) -> None:
        super().__init__()
        warnings.warn("Container: deprecated, use Module", FutureWarning, stacklevel=2)
        for key, value in kwargs.items():
            self.add_module(key, value)


def _absolute_index(name: str, size: int, index) -> int:
    index = operator.index(index)
    if not -size <= index < size:
        raise IndexError(f"{name}: the index must be within {size} entries, got {index}")
    return index % size


class _NumberedModules(Module):
    """What Sequential and ModuleList share: submodules named '0', '1', ..."""

    def _get_item_by_idx(self, iterator, idx):
        return next(islice(iterator, _absolute_index(type(self).__name__, len(self), idx), None))

    def _renumber(self) -> None:
        self._modules = {str(i): module for i, module in enumerate(self._modules.values())}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules.values())

    def append(self, module: Module):
        """Add ``module`` at the end; return the container."""
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key):
        """Remove and return an entry (or, with a slice, several)."""
        value = self[key]
        del self[key]
        return value


class Sequential(_NumberedModules):
    """Modules called one after the other, each with the result of the one before.

    Takes modules, or one OrderedDict of names and modules.
    """

    def __init__(self, *args) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            items = args[0].items()
        else:
            items = ((str(i), module) for i, module in enumerate(args))
        for name, module in items:
            self.add_module(name, module)

    def forward(self, input):
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return self.__class__(OrderedDict(list(self._modules.items())[idx]))
        return self._get_item_by_idx(self._modules.values(), idx)

    def __setitem__(self, idx, module: Module) -> None:
        setattr(self, self._get_item_by_idx(self._modules.keys(), idx), module)

    def __delitem__(self, idx) -> None:
        if isinstance(idx, slice):
            for key in list(self._modules.keys())[idx]:
                delattr(self, key)
        else:
            delattr(self, self._get_item_by_idx(self._modules.keys(), idx))
        self._renumber()

    def _check_operand(self, other) -> None:
        if not isinstance(other, Sequential):
            raise ValueError(f"Sequential: + takes another Sequential, got {type(other).__name__}")

    def __add__(self, other):
        self._check_operand(other)
        return Sequential(*self, *other)

    def __iadd__(self, other):
        self._check_operand(other)
        return self.extend(list(other))

    def _check_factor(self, factor) -> None:
        if not isinstance(factor, int):
            raise TypeError(f"Sequential: * takes an int, got {type(factor).__name__}")
        if factor <= 0:
            raise ValueError(f"Sequential: * takes a positive number, got {factor}")

    def __mul__(self, other):
        self._check_factor(other)
        return Sequential(*(list(self) * other))

    def __rmul__(self, other):
        return self.__mul__(other)

    def __imul__(self, other):
        self._check_factor(other)
        return self.extend(list(self) * (other - 1))

    def insert(self, index: int, module: Module):
        """Put ``module`` before entry ``index``; return the container."""
        if not isinstance(module, Module):
            raise AssertionError(f"Sequential.insert: module must be a Module, got {type(module).__name__}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"Sequential.insert: the index must be within {n} entries, got {index}")
        modules = list(self)
        modules.insert(index, module)
        self._modules = {str(i): m for i, m in enumerate(modules)}
        return self

    def extend(self, sequential: Iterable[Module]):
        """Add the modules of another container; return this one."""
        for module in sequential:
            self.append(module)
        return self


class ModuleList(_NumberedModules):
    """A list of modules; it has no forward."""

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def _get_abs_string_index(self, idx) -> str:
        return str(_absolute_index("ModuleList", len(self), idx))

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return self.__class__(list(self._modules.values())[idx])
        return self._modules[self._get_abs_string_index(idx)]

    def __setitem__(self, idx, module: Module) -> None:
        setattr(self, self._get_abs_string_index(idx), module)

    def __delitem__(self, idx) -> None:
        if isinstance(idx, slice):
            for i in range(len(self._modules))[idx]:
                delattr(self, str(i))
        else:
            delattr(self, self._get_abs_string_index(idx))
        self._renumber()

    def __iadd__(self, modules: Iterable[Module]):
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]):
        return ModuleList(chain(self, other))

    def insert(self, index: int, module: Module) -> None:
        """Put ``module`` before entry ``index``."""
        modules = list(self)
        modules.insert(index, module)
        self._modules = {str(i): m for i, m in enumerate(modules)}

    def extend(self, modules: Iterable[Module]):
        """Add several modules at the end; return the list."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend: takes an iterable of modules, got {type(modules).__name__}")
        offset = len(self)
        for i, module in enumerate(modules):
            self.add_module(str(offset + i), module)
        return self

    def __repr__(self) -> str:
        """Runs of equal entries are shown once, with their number."""
        runs: list[list] = []
        for i, text in enumerate(repr(module) for module in self):
            if runs and runs[-1][2] == text:
                runs[-1][1] = i
            else:
                runs.append([i, i, text])
        if not runs:
            return self._get_name() + "()"
        lines = []
        for first, last, text in runs:
            entry = (
                f"({first}): {text}" if first == last else f"({first}-{last}): {last - first + 1} x {text}"
            )
            lines.append(_addindent(entry, 2))
        return self._get_name() + "(\n  " + "\n  ".join(lines) + "\n)"


def _pairs(name: str, items) -> Iterable[tuple]:
    """(key, value) pairs of a mapping, or of an iterable of pairs."""
    if not isinstance(items, Iterable):
        raise TypeError(f"{name}.update: takes a mapping or an iterable of pairs, got {type(items).__name__}")
    if hasattr(items, "items"):
        return items.items()
    pairs = []
    for position, pair in enumerate(items):
        if not isinstance(pair, Iterable):
            raise TypeError(f"{name}.update: element {position} must be a pair, got {type(pair).__name__}")
        pair = tuple(pair)
        if len(pair) != 2:
            raise ValueError(f"{name}.update: element {position} must have 2 entries, got {len(pair)}")
        pairs.append(pair)
    return pairs


class ModuleDict(Module):
    """A dictionary of modules with string keys, in insertion order; it has no forward."""

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self):
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all entries."""
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove and return an entry."""
        value = self[key]
        del self[key]
        return value

    def keys(self):
        """The keys."""
        return self._modules.keys()

    def items(self):
        """(key, module) pairs."""
        return self._modules.items()

    def values(self):
        """The modules."""
        return self._modules.values()

    def update(self, modules) -> None:
        """Add the entries of a mapping, or of an iterable of pairs."""
        for key, module in _pairs("ModuleDict", modules):
            self[key] = module


def _describe_entries(entries: Iterable[tuple], describe_type) -> str:
    lines = []
    for key, value in entries:
        if not isinstance(value, facula.Tensor):
            lines.append(f"  ({key}): Object of type: {type(value).__name__}")
            continue
        kind = "Parameter" if isinstance(value, Parameter) else "Tensor"
        size = "x".join(str(n) for n in value.size())
        device = f" ({value.device})" if value.device.type == "cuda" else ""
        lines.append(f"  ({key}): {kind} containing: [{describe_type(value)} of size {size}{device}]")
    return "\n".join(lines)


def _as_parameter(value):
    if isinstance(value, facula.Tensor) and not isinstance(value, Parameter):
        return Parameter(value)
    return value


class ParameterList(Module):
    """A list of parameters (tensors become parameters) and other values; it cannot be called."""

    def __init__(self, values: Iterable | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def _get_abs_string_index(self, idx) -> str:
        return str(_absolute_index("ParameterList", len(self), idx))

    def __getitem__(self, idx):
        if isinstance(idx, slice):
            return self.__class__([self[i] for i in range(len(self))[idx]])
        return getattr(self, self._get_abs_string_index(idx))

    def __setitem__(self, idx, param) -> None:
        setattr(self, self._get_abs_string_index(idx), _as_parameter(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self):
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, parameters: Iterable):
        return self.extend(parameters)

    def append(self, value):
        """Add a value at the end; return the list."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable):
        """Add several values at the end; return the list."""
        if not isinstance(values, Iterable) or isinstance(values, facula.Tensor):
            raise TypeError(f"ParameterList.extend: takes an iterable of values, got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return _describe_entries(enumerate(self), lambda value: value.dtype)

    def __call__(self, *args, **kwargs):
        raise RuntimeError("ParameterList: it cannot be called, got a call")


class ParameterDict(Module):
    """A dictionary of parameters (tensors become parameters) and other values; it cannot be called."""

    def __init__(self, parameters=None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    @staticmethod
    def _key_to_attr(key: str) -> str:
        if not isinstance(key, str):
            raise TypeError(f"ParameterDict: keys must be strings, got {type(key).__name__}")
        return key

    def __getitem__(self, key: str):
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value) -> None:
        name = self._key_to_attr(key)
        self._keys[key] = None
        setattr(self, name, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self):
        return iter(self._keys)

    def __reversed__(self):
        return reversed(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def copy(self):
        """A new ParameterDict with the same values."""
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default=None):
        """The value of ``key``, which is set to ``default`` when it is missing."""
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all entries."""
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str):
        """Remove and return an entry."""
        value = self[key]
        del self[key]
        return value

    def popitem(self):
        """Remove and return the newest (key, value)."""
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: str, default=None):
        """The value of ``key``, or ``default``."""
        return getattr(self, key) if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default=None):
        """A new ParameterDict with the same value for all keys."""
        return ParameterDict((key, default) for key in keys)

    def keys(self):
        """The keys."""
        return self._keys.keys()

    def items(self):
        """(key, value) pairs."""
        return ((key, self[key]) for key in self._keys)

    def values(self):
        """The values."""
        return (self[key] for key in self._keys)

    def update(self, parameters) -> None:
        """Add the entries of a mapping (plain ones in the order of their keys), or of an iterable of
        pairs.
        """
        pairs = _pairs("ParameterDict", parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            pairs = sorted(pairs, key=lambda pair: pair[0])
        for key, value in list(pairs):
            self[key] = value

    def extra_repr(self) -> str:
        return _describe_entries(self.items(), lambda value: facula.typename(value))

    def __call__(self, input):
        raise RuntimeError("ParameterDict: it cannot be called, got a call")

    def __or__(self, other):
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other):
        result = other.copy()
        result.update(self)
        return result

    def __ior__(self, other):
        self.update(other)
        return self
