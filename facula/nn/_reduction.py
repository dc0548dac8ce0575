"""Convert the ``reduction`` argument of losses: names, the core's numbers, and the two old flags that it replaced."""

from __future__ import annotations

import warnings

from facula import _C

_ENUM = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """Return the core's number for a reduction name."""
    try:
        return _ENUM[reduction]
    except (KeyError, TypeError):
        raise ValueError(f"reduction: expected {_C._one_of(reduction, ('none', 'mean', 'sum'))}") from None


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """Return the reduction name that the old flags ``size_average`` and ``reduce`` stand for (both default to
    True).
    """
    if reduce is False:
        reduction = "none"
    else:
        reduction = "sum" if size_average is False else "mean"
    if emit_warning:
        warnings.warn(
            f"size_average and reduce are deprecated: use reduction={reduction!r} instead", stacklevel=4
        )
    return reduction


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """Return the core's number for what `legacy_get_string` returns."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))


def resolve(size_average: bool | None, reduce: bool | None, reduction: str) -> str:
    """Return ``reduction``, unless one of the old flags is given."""
    if size_average is None and reduce is None:
        return reduction
    return legacy_get_string(size_average, reduce)


def number(size_average: bool | None, reduce: bool | None, reduction: str) -> int:
    """Return the core's number for ``reduction``, unless one of the old flags is given."""
    if size_average is None and reduce is None and type(reduction) is str:
        code = _ENUM.get(reduction)
        if code is not None:
            return code
    return get_enum(resolve(size_average, reduce, reduction))


def reduced(loss, reduction: str):
    """Return a loss of each element, reduced."""
    code = get_enum(reduction)
    if code == 1:
        return loss.mean()
    return loss.sum() if code == 2 else loss
