"""Provide the named tuples that ops with several results return: `facula.return_types.max`, ..."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from typing import Any


def pytree_register_structseq(cls: type) -> None:
    """Let trees of containers (`utils._pytree`) go through the named tuples of a class."""
    from facula.utils import _pytree

    _pytree.register_pytree_node(cls, lambda value: (list(value), None), lambda parts, _: cls(parts))


def __getattr__(name: str) -> Any:
    if name == "all_return_types":
        return [_C._result_tuple(key) for key in _C._result_tuples()]
    found = _C._result_tuple(name)
    if found is None:
        from facula._shared.near_names import no_attribute

        raise no_attribute(__name__, name)
    return found
