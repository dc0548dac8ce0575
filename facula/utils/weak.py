"""Refer weakly to tensors, and define dictionaries with tensors as keys. Tensors compare by value, these keys by identity."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any

__all__ = ["TensorWeakRef", "WeakIdRef", "WeakIdKeyDictionary", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):
    """Refer weakly to an object. The reference equals others of the same object and hashes by its identity.

    Args:
        key: the object.
        callback: called when the object goes away.

    >>> from torch.utils.weak import WeakIdRef
    >>> x = torch.ones(2)
    >>> WeakIdRef(x) == WeakIdRef(x), WeakIdRef(x) == WeakIdRef(torch.ones(2))
    (True, False)
    """

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None) -> None:
        self._id = id(key)
        super().__init__(key, callback)

    def __call__(self) -> Any:
        """Return the object, or None when it has gone."""
        return super().__call__()

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        # Strong references for the comparison, so that neither object can be freed in between.
        mine, theirs = self(), other() if isinstance(other, weakref.ref) else None
        return self is other if mine is None or theirs is None else mine is theirs


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """Map objects to values, and drop an entry when nothing else holds its key. Keys are compared by identity.

    Args:
        dict: entries to begin with.
        ref_type: the class of weak references.

    >>> from torch.utils.weak import WeakIdKeyDictionary
    >>> names, x = WeakIdKeyDictionary(), torch.ones(2)
    >>> names[x] = "x"
    >>> names[x], len(names), x in names
    ('x', 1, True)
    >>> del x
    >>> len(names)
    0
    """

    def __init__(self, dict: Any = None, ref_type: Any = WeakIdRef) -> None:
        self._entries: Any = {}
        self.ref_type = ref_type
        # Not a method: the references of the keys must not keep the dictionary alive.
        self._forget = _forgetting(weakref.ref(self))
        if dict is not None:
            self.update(dict)

    def _ref(self, key: Any, watch: bool = False) -> Any:
        return self.ref_type(key, self._forget) if watch else self.ref_type(key)

    def __getitem__(self, key: Any) -> Any:
        return self._entries[self._ref(key)]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._entries[self._ref(key, watch=True)] = value

    def __delitem__(self, key: Any) -> None:
        del self._entries[self._ref(key)]

    def __contains__(self, key: object) -> bool:
        try:
            return self._ref(key) in self._entries
        except TypeError:  # no weak reference can be made to it
            return False

    def __iter__(self) -> Iterator[Any]:
        alive = (ref() for ref in list(self._entries))
        return (key for key in alive if key is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"

    def keyrefs(self) -> list[Any]:
        """Return the weak references to the keys, as a list.

        >>> from torch.utils.weak import WeakIdKeyDictionary
        >>> x = torch.ones(2)
        >>> WeakIdKeyDictionary({}).keyrefs()
        []
        """
        return list(self._entries)

    def copy(self) -> WeakIdKeyDictionary:
        """Return another dictionary with the same entries.

        >>> from torch.utils.weak import WeakIdKeyDictionary
        >>> len(WeakIdKeyDictionary().copy())
        0
        """
        made = type(self)(ref_type=self.ref_type)
        made.update(self.items())
        return made

    __copy__ = copy

    def __deepcopy__(self, memo: Any) -> WeakIdKeyDictionary:
        from copy import deepcopy

        made = type(self)(ref_type=self.ref_type)
        made.update((key, deepcopy(value, memo)) for key, value in self.items())
        return made

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MutableMapping):
            return NotImplemented
        return {id(key): value for key, value in self.items()} == {id(key): value for key, value in other.items()}

    __hash__ = None  # type: ignore[assignment]


def _forgetting(owner: Any) -> Any:
    def forget(ref: Any) -> None:
        mapping = owner()
        if mapping is not None:
            mapping._entries.pop(ref, None)

    return forget


class TensorWeakRef:
    """Refer weakly to a tensor.

    Args:
        tensor: the tensor; TypeError for anything else.

    >>> from torch.utils.weak import TensorWeakRef
    >>> x = torch.ones(2)
    >>> ref = TensorWeakRef(x)
    >>> ref() is x
    True
    >>> del x
    >>> ref() is None
    True
    """

    ref: WeakIdRef

    def __init__(self, tensor: Any) -> None:
        from facula import Tensor

        if not isinstance(tensor, Tensor):
            raise TypeError(f"TensorWeakRef: expected a Tensor, got {type(tensor).__name__}")
        self.ref = WeakIdRef(tensor)

    def __call__(self) -> Any:
        """Return the tensor, or None when it has gone."""
        return self.ref()


class _WeakTensorRef(TensorWeakRef):
    """Refer weakly as `torch._C` does: the reference reports whether its tensor was freed, and does not return the tensor."""

    def expired(self) -> bool:
        """Return whether the tensor has gone."""
        return self.ref() is None


WeakTensorKeyDictionary = WeakIdKeyDictionary
