"""Define immutable lists and dicts. The arguments of a node consist of them, because the users of nodes stay correct
only if the arguments do not change.
"""

from __future__ import annotations

from typing import Any

from facula.utils import _pytree

__all__ = ["immutable_list", "immutable_dict"]

_HELP = (
    "{name!r} cannot be changed in place. To give a node other arguments, assign them as a whole:\n\n"
    "    node.args = (...)\n    node.kwargs = {{...}}"
)


def _refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
    """Raise TypeError: the arguments of a node are replaced, not changed."""
    raise TypeError(_HELP.format(name=type(self).__name__))


class immutable_list(list[Any]):  # noqa: N801
    """Hold a list that cannot be changed, and so can be a key.

    Args:
        iterable: its items.

    Errors: TypeError for what would change it.

    >>> one = facula.fx.immutable_collections.immutable_list([1, 2])
    >>> one, one == [1, 2], {one: 3}[one]
    ([1, 2], True, 3)
    """

    __delitem__: Any
    __iadd__: Any
    __imul__: Any
    __setitem__: Any
    append: Any
    clear: Any
    extend: Any
    insert: Any
    pop: Any
    remove: Any
    reverse: Any
    sort: Any
    __delitem__ = __iadd__ = __imul__ = __setitem__ = append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __reduce__(self) -> Any:
        return immutable_list, (tuple(self),)


class immutable_dict(dict[Any, Any]):  # noqa: N801
    """Hold a dict that cannot be changed, and so can be a key.

    Errors: TypeError for what would change it.

    >>> one = facula.fx.immutable_collections.immutable_dict({"a": 1})
    >>> one["b"] = 2  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    TypeError: 'immutable_dict' cannot be changed in place...
    """

    __delitem__: Any
    __ior__: Any
    __setitem__: Any
    clear: Any
    pop: Any
    popitem: Any
    setdefault: Any
    update: Any
    __delitem__ = __ior__ = __setitem__ = clear = pop = popitem = setdefault = update = _refuse

    def __hash__(self) -> int:
        return hash(frozenset(self.items()))

    def __reduce__(self) -> Any:
        return immutable_dict, (tuple(self.items()),)


def _register(cls, like):
    known = _pytree.SUPPORTED_NODES[like]
    _pytree.register_pytree_node(
        cls,
        known.flatten_fn,
        lambda children, context: cls(known.unflatten_fn(children, context)),
        flatten_with_keys_fn=known.flatten_with_keys_fn,
    )


_register(immutable_list, list)
_register(immutable_dict, dict)
