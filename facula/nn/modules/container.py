"""Define containers: modules and parameters in sequences, lists and dictionaries.

Long because PyTorch has all containers in one file of this name, and each class stands there with its docstring and example.
"""

from __future__ import annotations

import operator
import warnings
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import chain, islice
from typing import TYPE_CHECKING

import facula

from ..parameter import Parameter
from .module import Module, _addindent

if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterator, KeysView, ValuesView
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor

__all__ = ["Container", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"]


# ---- What containers share: submodules with numbers as names, and pairs of keys and values


def _absolute_index(name: str, size: int, index) -> int:
    index = operator.index(index)
    if not -size <= index < size:
        raise IndexError(f"{name}: the index must be within {size} entries, got {index}")
    return index % size


class _NumberedModules(Module):
    """Name submodules '0', '1', ... in Sequential and ModuleList."""

    def _get_item_by_idx(self, iterator, idx):
        return next(islice(iterator, _absolute_index(type(self).__name__, len(self), idx), None))

    def _renumber(self) -> None:
        self._modules = {str(i): module for i, module in enumerate(self._modules.values())}

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def append(self, module: Module) -> Self:
        """Add a module at the end.

        Args:
            module: what is added.

        Returns: the container.

        Errors: TypeError for what is no Module.

        >>> nn.Sequential(nn.Linear(2, 3)).append(nn.ReLU())
        Sequential(
          (0): Linear(in_features=2, out_features=3, bias=True)
          (1): ReLU()
        )
        """
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: Any) -> Any:
        """Remove an entry, or with a slice several; those behind move up.

        Args:
            key: its number, or a slice.

        Returns: what was removed.

        Errors: IndexError for an entry that does not exist.

        >>> layers = nn.ModuleList([nn.ReLU(), nn.Tanh()])
        >>> layers.pop(0), len(layers)
        (ReLU(), 1)
        """
        value = self[key]
        del self[key]
        return value


def _pairs(name: str, items) -> Iterable[tuple]:
    """Return (key, value) pairs of a mapping, or of an iterable of pairs."""
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


# ---- Lists and dictionaries of parameters


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
    """Hold a list of parameters, which the module around it finds. Tensors become parameters; other values can be there, too.

    Args:
        values: an iterable of the first entries.

    Errors: TypeError for what is no iterable, RuntimeError for a call, IndexError for an entry that does not exist.

    >>> weights = nn.ParameterList([torch.ones(2) * k for k in range(3)])
    >>> weights[1].tolist(), len(weights), type(weights[1]).__name__
    ([1.0, 1.0], 3, 'Parameter')
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self += values

    def _get_abs_string_index(self, idx) -> str:
        return str(_absolute_index("ParameterList", len(self), idx))

    def __getitem__(self, idx: int | slice) -> Tensor:
        if isinstance(idx, slice):
            return self.__class__([self[i] for i in range(len(self))[idx]])
        return getattr(self, self._get_abs_string_index(idx))

    def __setitem__(self, idx: int | slice, param: Tensor) -> None:
        setattr(self, self._get_abs_string_index(idx), _as_parameter(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Self | Any]:
        return iter(self[i] for i in range(len(self)))

    def __iadd__(self, parameters: Iterable[Any]) -> Self:
        return self.extend(parameters)

    def append(self, value: Any) -> Self:
        """Add a value at the end.

        Args:
            value: a parameter, a tensor, which becomes one, or anything else.

        Returns: the list.

        >>> weights = nn.ParameterList().append(torch.ones(2))
        >>> len(weights), type(weights[0]).__name__
        (1, 'Parameter')
        """
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> Self:
        """Add several values at the end.

        Args:
            values: an iterable; not a tensor.

        Returns: the list.

        Errors: TypeError for what is no iterable, and for a tensor.

        >>> len(nn.ParameterList().extend([torch.ones(2), torch.ones(3)]))
        2
        """
        if not isinstance(values, Iterable) or isinstance(values, facula.Tensor):
            raise TypeError(f"ParameterList.extend: takes an iterable of values, got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return _describe_entries(enumerate(self), lambda value: value.dtype)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList: it cannot be called, got a call")


class ParameterDict(Module):
    """Hold a dictionary of parameters with strings as keys, which the module around it finds. Tensors become parameters; other
    values can be there, too. ``|`` and ``|=`` join two.

    Args:
        parameters: a mapping, or an iterable of pairs, to begin with.

    Errors: TypeError for keys that are no strings, RuntimeError for a call.

    >>> weights = nn.ParameterDict({"left": torch.ones(2), "right": torch.zeros(2)})
    >>> weights["left"].tolist(), list(weights), "up" in weights
    ([1.0, 1.0], ['left', 'right'], False)
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    @staticmethod
    def _key_to_attr(key: str) -> str:
        if not isinstance(key, str):
            raise TypeError(f"ParameterDict: keys must be strings, got {type(key).__name__}")
        return key

    def __getitem__(self, key: str) -> Any:
        return getattr(self, self._key_to_attr(key))

    def __setitem__(self, key: str, value: Any) -> None:
        name = self._key_to_attr(key)
        self._keys[key] = None
        setattr(self, name, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, self._key_to_attr(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        """Return a new ParameterDict with the same values.

        >>> weights = nn.ParameterDict({"left": torch.ones(2)})
        >>> weights.copy()["left"] is weights["left"]
        True
        """
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, which is set first where it is missing.

        Args:
            key: the key.
            default: the value that a missing key gets.

        >>> weights = nn.ParameterDict()
        >>> weights.setdefault("left", torch.ones(2)).tolist(), list(weights)
        ([1.0, 1.0], ['left'])
        """
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        """Remove all entries.

        >>> weights = nn.ParameterDict({"left": torch.ones(2)})
        >>> weights.clear()
        >>> len(weights)
        0
        """
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        """Remove an entry.

        Args:
            key: its key.

        Returns: the value that was removed.

        Errors: AttributeError for a key that does not exist.

        >>> weights = nn.ParameterDict({"left": torch.ones(2)})
        >>> weights.pop("left").tolist(), len(weights)
        ([1.0, 1.0], 0)
        """
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Remove the entry that came last.

        Returns: (key, value).

        >>> weights = nn.ParameterDict([("left", torch.ones(2)), ("right", torch.zeros(2))])
        >>> weights.popitem()[0], list(weights)
        ('right', ['left'])
        """
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key.

        Args:
            key: the key.
            default: what is returned for a missing key.

        >>> nn.ParameterDict().get("left", 0)
        0
        """
        return getattr(self, key) if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Return a new ParameterDict that has one value for all keys.

        Args:
            keys: an iterable of strings.
            default: the value.

        >>> list(nn.ParameterDict().fromkeys(["left", "right"], torch.ones(2)))
        ['left', 'right']
        """
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> Any:
        """Return the keys.

        >>> list(nn.ParameterDict({"left": torch.ones(2)}).keys())
        ['left']
        """
        return self._keys.keys()

    def items(self) -> Iterator[tuple[str, Any]]:
        """Return the pairs of key and value.

        >>> [(key, value.tolist()) for key, value in nn.ParameterDict({"left": torch.ones(2)}).items()]
        [('left', [1.0, 1.0])]
        """
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterator[Any]:
        """Return the values.

        >>> [value.tolist() for value in nn.ParameterDict({"left": torch.ones(2)}).values()]
        [[1.0, 1.0]]
        """
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        """Add entries; those of the same keys are replaced.

        Args:
            parameters: an OrderedDict, another mapping, whose entries come in the order of their keys, or an iterable of
                pairs.

        Errors: TypeError for what is none of these, ValueError for a pair of another length.

        >>> weights = nn.ParameterDict()
        >>> weights.update({"right": torch.ones(2), "left": torch.zeros(2)})
        >>> list(weights)
        ['left', 'right']
        """
        pairs = _pairs("ParameterDict", parameters)
        if isinstance(parameters, Mapping) and not isinstance(parameters, OrderedDict):
            # PyTorch sorts the keys of plain mappings, so that parameters have one order for optimizers.
            pairs = sorted(pairs, key=lambda pair: pair[0])
        for key, value in list(pairs):
            self[key] = value

    def extra_repr(self) -> str:
        return _describe_entries(self.items(), lambda value: facula.typename(value))

    def __call__(self, input: Tensor) -> Any:
        raise RuntimeError("ParameterDict: it cannot be called, got a call")

    def __or__(self, other: Any) -> ParameterDict:
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other: Any) -> Any:
        result = other.copy()
        result.update(self)
        return result

    def __ior__(self, other: Any) -> Self:
        self.update(other)
        return self


class Container(Module):
    """Hold submodules that are given by keyword. Deprecated: `Module` does this; it warns.

    Args:
        kwargs: the submodules.

    Errors: TypeError for what is no Module.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     container = nn.Container(act=nn.ReLU())
    >>> container.act
    ReLU()
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        warnings.warn("Container: deprecated, use Module", FutureWarning, stacklevel=2)
        for key, value in kwargs.items():
            self.add_module(key, value)


class Sequential(_NumberedModules):
    """Call modules one after the other, each with what the one before returned.

    Args:
        args: the modules, or one OrderedDict of names and modules.

    Shapes: those of the modules, one after the other.

    Errors: TypeError for what is no Module, IndexError for an entry that does not exist.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> net(torch.randn(5, 2)).shape, len(net)
    (torch.Size([5, 1]), 3)
    >>> net[:2]
    Sequential(
      (0): Linear(in_features=2, out_features=3, bias=True)
      (1): ReLU()
    )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        if len(args) == 1 and isinstance(args[0], OrderedDict):
            items = args[0].items()
        else:
            items = ((str(i), module) for i, module in enumerate(args))
        for name, module in items:
            self.add_module(name, module)

    def forward(self, input: Tensor) -> Tensor:
        for module in self._modules.values():
            input = module(input)
        return input

    def __getitem__(self, idx: int | slice) -> Self:
        if isinstance(idx, slice):
            return self.__class__(OrderedDict(list(self._modules.items())[idx]))
        return self._get_item_by_idx(self._modules.values(), idx)

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._get_item_by_idx(self._modules.keys(), idx), module)

    def __delitem__(self, idx: int) -> None:
        if isinstance(idx, slice):
            for key in list(self._modules.keys())[idx]:
                delattr(self, key)
        else:
            delattr(self, self._get_item_by_idx(self._modules.keys(), idx))
        self._renumber()

    def _check_operand(self, other) -> None:
        if not isinstance(other, Sequential):
            raise ValueError(f"Sequential: + takes another Sequential, got {type(other).__name__}")

    def __add__(self, other: Iterable[Module]) -> Sequential:
        self._check_operand(other)
        return Sequential(*self, *other)

    def __iadd__(self, other: Iterable[Module]) -> Self:
        self._check_operand(other)
        return self.extend(list(other))

    def _check_factor(self, factor) -> None:
        if not isinstance(factor, int):
            raise TypeError(f"Sequential: * takes an int, got {type(factor).__name__}")
        if factor <= 0:
            raise ValueError(f"Sequential: * takes a positive number, got {factor}")

    def __mul__(self, other: int) -> Sequential:
        self._check_factor(other)
        return Sequential(*(list(self) * other))

    def __rmul__(self, other: int) -> Sequential:
        return self.__mul__(other)

    def __imul__(self, other: int) -> Self:
        self._check_factor(other)
        return self.extend(list(self) * (other - 1))

    def insert(self, index: int, module: Module) -> Self:
        """Put a module before an entry.

        Args:
            index: the number of that entry; the length for the end.
            module: what is put there.

        Returns: the container.

        Errors: AssertionError for what is no Module, IndexError for an index out of reach.

        >>> nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1)).insert(1, nn.ReLU())
        Sequential(
          (0): Linear(in_features=2, out_features=3, bias=True)
          (1): ReLU()
          (2): Linear(in_features=3, out_features=1, bias=True)
        )
        """
        if not isinstance(module, Module):
            raise AssertionError(f"Sequential.insert: module must be a Module, got {type(module).__name__}")
        n = len(self)
        if not -n <= index <= n:
            raise IndexError(f"Sequential.insert: the index must be within {n} entries, got {index}")
        modules = list(self)
        modules.insert(index, module)
        self._modules = {str(i): m for i, m in enumerate(modules)}
        return self

    def extend(self, sequential: Iterable[Module]) -> Self:
        """Add several modules at the end.

        Args:
            sequential: another container, or any iterable of modules.

        Returns: this container.

        >>> nn.Sequential(nn.Linear(2, 3)).extend([nn.ReLU(), nn.Linear(3, 1)])
        Sequential(
          (0): Linear(in_features=2, out_features=3, bias=True)
          (1): ReLU()
          (2): Linear(in_features=3, out_features=1, bias=True)
        )
        """
        for module in sequential:
            self.append(module)
        return self


class ModuleList(_NumberedModules):
    """Hold a list of modules, whose parameters are found. It has no forward.

    Args:
        modules: the modules to begin with.

    Errors: TypeError for what is no Module, IndexError for an entry that does not exist.

    >>> layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(3)])
    >>> layers
    ModuleList(
      (0-2): 3 x Linear(in_features=2, out_features=2, bias=True)
    )
    >>> x = torch.ones(2)
    >>> for layer in layers:
    ...     x = layer(x)
    >>> x.shape, len(list(layers.parameters()))
    (torch.Size([2]), 6)
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self += modules

    def _get_abs_string_index(self, idx) -> str:
        return str(_absolute_index("ModuleList", len(self), idx))

    def __getitem__(self, idx: int | slice) -> Self:
        if isinstance(idx, slice):
            return self.__class__(list(self._modules.values())[idx])
        return self._modules[self._get_abs_string_index(idx)]

    def __setitem__(self, idx: int, module: Module) -> None:
        setattr(self, self._get_abs_string_index(idx), module)

    def __delitem__(self, idx: int) -> None:
        if isinstance(idx, slice):
            for i in range(len(self._modules))[idx]:
                delattr(self, str(i))
        else:
            delattr(self, self._get_abs_string_index(idx))
        self._renumber()

    def __iadd__(self, modules: Iterable[Module]) -> Self:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList(chain(self, other))

    def insert(self, index: int, module: Module) -> None:
        """Put a module before an entry.

        Args:
            index: the number of that entry.
            module: what is put there.

        >>> layers = nn.ModuleList([nn.Linear(2, 3)])
        >>> layers.insert(0, nn.ReLU())
        >>> layers[0]
        ReLU()
        """
        modules = list(self)
        modules.insert(index, module)
        self._modules = {str(i): m for i, m in enumerate(modules)}

    def extend(self, modules: Iterable[Module]) -> Self:
        """Add several modules at the end.

        Args:
            modules: an iterable of modules.

        Returns: the list.

        Errors: TypeError for what is no iterable.

        >>> len(nn.ModuleList([nn.ReLU()]).extend([nn.Tanh(), nn.Tanh()]))
        3
        """
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend: takes an iterable of modules, got {type(modules).__name__}")
        offset = len(self)
        for i, module in enumerate(modules):
            self.add_module(str(offset + i), module)
        return self

    def __repr__(self) -> str:
        """Return the text, in which runs of equal entries are shown once, with their number."""
        runs: list[list[Any]] = []
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


class ModuleDict(Module):
    """Hold a dictionary of modules with strings as keys, in the order in which they came, whose parameters are found. It has no
    forward.

    Args:
        modules: a mapping, or an iterable of pairs, to begin with.

    Errors: TypeError for what is no Module and for keys that are no strings, KeyError for a key that does not exist.

    >>> choices = nn.ModuleDict({"relu": nn.ReLU(), "tanh": nn.Tanh()})
    >>> choices["tanh"], "relu" in choices, list(choices)
    (Tanh(), True, ['relu', 'tanh'])
    """

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

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        """Remove all entries.

        >>> choices = nn.ModuleDict({"relu": nn.ReLU()})
        >>> choices.clear()
        >>> len(choices)
        0
        """
        self._modules.clear()

    def pop(self, key: str) -> Module:
        """Remove an entry.

        Args:
            key: its key.

        Returns: the module that was removed.

        Errors: KeyError for a key that does not exist.

        >>> choices = nn.ModuleDict({"relu": nn.ReLU()})
        >>> choices.pop("relu"), len(choices)
        (ReLU(), 0)
        """
        value = self[key]
        del self[key]
        return value

    def keys(self) -> KeysView[str]:
        """Return the keys.

        >>> list(nn.ModuleDict({"relu": nn.ReLU()}).keys())
        ['relu']
        """
        return self._modules.keys()

    def items(self) -> ItemsView[str, Module]:
        """Return the pairs of key and module.

        >>> list(nn.ModuleDict({"relu": nn.ReLU()}).items())
        [('relu', ReLU())]
        """
        return self._modules.items()

    def values(self) -> ValuesView[Module]:
        """Return the modules.

        >>> list(nn.ModuleDict({"relu": nn.ReLU()}).values())
        [ReLU()]
        """
        return self._modules.values()

    def update(self, modules: Mapping[str, Module] | Iterable[tuple[str, Module]]) -> None:
        """Add entries; those of the same keys are replaced.

        Args:
            modules: a mapping, or an iterable of pairs.

        Errors: TypeError for what is neither, ValueError for a pair of another length.

        >>> choices = nn.ModuleDict({"act": nn.ReLU()})
        >>> choices.update([("act", nn.Tanh()), ("last", nn.Sigmoid())])
        >>> choices["act"], list(choices)
        (Tanh(), ['act', 'last'])
        """
        for key, module in _pairs("ModuleDict", modules):
            self[key] = module
