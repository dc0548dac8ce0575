"""Define predicates of tensors and functions under the name of PyTorch's private module that packages import."""

from __future__ import annotations

import warnings

import facula


def is_contiguous_or_false(a):
    """Return whether the elements are in order."""
    return a.is_contiguous()


def alert_not_deterministic(caller):
    """Raise RuntimeError, or a warning, where the program asked for deterministic algorithms and `caller` has none."""
    if not facula.are_deterministic_algorithms_enabled():
        return
    text = f"{caller}: does not have a deterministic implementation"
    if not facula.is_deterministic_algorithms_warn_only_enabled():
        asked = "and use_deterministic_algorithms(True) asks for one (warn_only=True warns instead), got a call"
        raise RuntimeError(f"{text}, {asked}")
    warnings.warn(text, UserWarning, stacklevel=2)


_CLASSES = ((bool, ("bool",)), (complex, ("complex",)), (float, ("float", "bfloat")))


def dtype_to_type(dtype):
    """Return the class of Python's numbers that a dtype stands for: bool, int, float or complex.

    >>> dtype_to_type(torch.float16)
    <class 'float'>
    """
    name = str(dtype).rpartition(".")[2]
    return next((cls for cls, starts in _CLASSES if name.startswith(starts)), int)
