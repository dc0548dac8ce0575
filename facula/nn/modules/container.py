"""Containers: modules and parameters in sequences, lists and dictionaries."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import TYPE_CHECKING

from ._container_base import _absolute_index, _NumberedModules, _pairs
from ._home import belong_to
from ._parameter_containers import ParameterDict, ParameterList
from .module import Module, _addindent

if TYPE_CHECKING:
    from collections.abc import ItemsView, Iterator, KeysView, ValuesView
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor

__all__ = ["Container", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"]


class Container(Module):
    """A Module with submodules that are given by keyword. Deprecated: `Module` does this; a warning tells so.

    Args:
        kwargs: the submodules.

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
    """Modules that are called one after the other, each with what the one before returned.

    Args:
        args: the modules, or one OrderedDict of names and modules.

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
    """A list of modules, whose parameters are found. It has no forward.

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
        """Runs of equal entries are shown once, with their number."""
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
    """A dictionary of modules with strings as keys, in the order in which they came, whose parameters are found. It has
    no forward.

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
        """The keys.

        >>> list(nn.ModuleDict({"relu": nn.ReLU()}).keys())
        ['relu']
        """
        return self._modules.keys()

    def items(self) -> ItemsView[str, Module]:
        """Pairs of key and module.

        >>> list(nn.ModuleDict({"relu": nn.ReLU()}).items())
        [('relu', ReLU())]
        """
        return self._modules.items()

    def values(self) -> ValuesView[Module]:
        """The modules.

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


belong_to(__name__, ParameterDict, ParameterList)
