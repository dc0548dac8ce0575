"""Lists and dictionaries of parameters."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import facula

from ..parameter import Parameter
from ._container_base import _absolute_index, _pairs
from .module import Module

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor


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
    """A list of parameters, which are found by the module that holds it. Tensors become parameters; other values can be
    there, too.

    Args:
        values: what to begin with.

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
    """A dictionary of parameters with strings as keys, which are found by the module that holds it. Tensors become
    parameters; other values can be there, too. ``|`` and ``|=`` join two.

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
        """A new ParameterDict with the same values.

        >>> weights = nn.ParameterDict({"left": torch.ones(2)})
        >>> weights.copy()["left"] is weights["left"]
        True
        """
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a key, which is set first where it is missing.

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
        """The value of a key.

        Args:
            key: the key.
            default: what is returned for a missing key.

        >>> nn.ParameterDict().get("left", 0)
        0
        """
        return getattr(self, key) if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A new ParameterDict that has one value for all keys.

        Args:
            keys: an iterable of strings.
            default: the value.

        >>> list(nn.ParameterDict().fromkeys(["left", "right"], torch.ones(2)))
        ['left', 'right']
        """
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> Any:
        """The keys.

        >>> list(nn.ParameterDict({"left": torch.ones(2)}).keys())
        ['left']
        """
        return self._keys.keys()

    def items(self) -> Iterator[tuple[str, Any]]:
        """Pairs of key and value.

        >>> [(key, value.tolist()) for key, value in nn.ParameterDict({"left": torch.ones(2)}).items()]
        [('left', [1.0, 1.0])]
        """
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterator[Any]:
        """The values.

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
