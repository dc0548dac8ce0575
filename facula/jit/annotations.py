"""Define the types that TorchScript annotations name, and check values against them."""

import builtins
import types
import typing
from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: F401,UP035  (programs import them from here)

BroadcastingList1 = list
BroadcastingList2 = list
BroadcastingList3 = list
BroadcastingList4 = list
BroadcastingList5 = list
BroadcastingList6 = list


def _matches(value, wanted):
    """Return whether `value` is of type `wanted`, which may be a generic such as list[int] or Optional[str]."""
    if builtins.isinstance(wanted, tuple):
        return any(_matches(value, one) for one in wanted)
    if wanted is Any:
        return True
    origin, args = typing.get_origin(wanted), typing.get_args(wanted)
    if origin in (Union, types.UnionType):
        return any(_matches(value, one if one is not None else type(None)) for one in args)
    if origin is None or not builtins.isinstance(value, origin):
        return origin is None and builtins.isinstance(value, wanted)
    if origin is tuple:
        if len(args) == 2 and args[1] is ...:
            return all(_matches(item, args[0]) for item in value)
        return len(value) == len(args) and all(_matches(item, one) for item, one in zip(value, args))
    if origin is dict:
        return all(_matches(k, args[0]) and _matches(v, args[1]) for k, v in value.items())
    return all(_matches(item, args[0]) for item in value) if args else True
