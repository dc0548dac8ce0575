"""Convert arguments that are given once, or once per dimension."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat


def _ntuple(n: int, name: str = "parse"):
    def parse(x):
        if isinstance(x, Iterable):
            return tuple(x)
        return tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single = _ntuple(1, "_single")
_pair = _ntuple(2, "_pair")
_triple = _ntuple(3, "_triple")
_quadruple = _ntuple(4, "_quadruple")


_MOST_LAYERS = 1 << 16


def _layer_count(name: str, count: int) -> int:
    """Return ``count`` as the number of layers of a stack, refused before the first of more layers than can be held is made."""
    if count > _MOST_LAYERS:
        raise ValueError(f"{name}: num_layers must be at most {_MOST_LAYERS}, got {count}")
    return count


def _reverse_repeat_tuple(t: tuple, n: int) -> tuple:
    """Return the entries in reverse order, each ``n`` times: the order in which `functional.pad` wants padding."""
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size, defaults) -> list[int]:
    """Return ``out_size`` with every None replaced by the matching trailing entry of ``defaults``."""
    if isinstance(out_size, (int, float)):
        return out_size
    if len(defaults) <= len(out_size):
        raise ValueError(
            f"output_size: the input needs more than {len(out_size)} dimensions, got {len(defaults)}"
        )
    return [d if v is None else v for v, d in zip(out_size, defaults[-len(out_size) :])]
