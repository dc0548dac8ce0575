"""Define helpers of modules: tuples from single numbers, and prefixes of state dicts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._tuples import _list_with_default, _ntuple, _pair, _quadruple, _reverse_repeat_tuple, _single, _triple

if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "_list_with_default",
    "_ntuple",
    "_pair",
    "_quadruple",
    "_reverse_repeat_tuple",
    "_single",
    "_triple",
    "consume_prefix_in_state_dict_if_present",
]


def consume_prefix_in_state_dict_if_present(state_dict: dict[Any, Any], prefix: str) -> None:
    """Remove a prefix from the keys (and the metadata) of a state dict, in place: such as 'module.' of a `DataParallel`.

    Args:
        state_dict: a dict; keys without the prefix stay.
        prefix: the prefix, with its dot.

    >>> from torch.nn.modules.utils import consume_prefix_in_state_dict_if_present
    >>> state = nn.DataParallel(nn.Linear(2, 1)).state_dict()
    >>> consume_prefix_in_state_dict_if_present(state, "module.")
    >>> list(state)
    ['weight', 'bias']
    """
    for key in list(state_dict.keys()):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    for key in list(metadata or ()):
        # "module" and "module." both stand for the prefix itself.
        if key == "":
            continue
        if key == prefix.replace(".", "") or key.startswith(prefix):
            metadata[key[len(prefix) :]] = metadata.pop(key)
