"""Questions about tensors and functions, under the name of PyTorch's private module that packages import."""

from __future__ import annotations

import warnings

import facula


def is_contiguous_or_false(a):
    """Whether the elements are in order."""
    return a.is_contiguous()


def alert_not_deterministic(caller):
    """RuntimeError, or a warning, where the program asked for deterministic algorithms and `caller` has none."""
    if not facula.are_deterministic_algorithms_enabled():
        return
    text = f"{caller} does not have a deterministic implementation, but use_deterministic_algorithms(True) was called"
    if not facula.is_deterministic_algorithms_warn_only_enabled():
        raise RuntimeError(text)
    warnings.warn(text, UserWarning, stacklevel=2)
