"""Check values and raise an error where they are not as expected: `_check`, `_assert` and related functions."""

from __future__ import annotations

import functools

from facula import _C


def _check_with(error_type, cond, message=None):
    """Raise `error_type` unless `cond`; `message` is a function that gives the text."""
    if not isinstance(cond, bool):
        raise TypeError(f"_check: cond is a bool (_check_tensor_all is for tensors), got {cond!r}")
    if cond:
        return
    if message is not None and not callable(message):
        raise TypeError(f"_check: message is a callable, got {message!r}")
    raise error_type(f"_check: the condition does not hold, got {cond}" if message is None else str(message()))


_check = functools.partial(_check_with, RuntimeError)
_check_index = functools.partial(_check_with, IndexError)
_check_value = functools.partial(_check_with, ValueError)
_check_type = functools.partial(_check_with, TypeError)
_check_not_implemented = functools.partial(_check_with, NotImplementedError)


def _check_is_size(i, message=None, *, max=None):
    """Raise RuntimeError unless 0 <= i (<= max)."""
    _check_with(RuntimeError, i >= 0 and (max is None or i <= max), message)


def _check_tensor_all_with(error_type, cond, message=None):
    """Raise `error_type` unless every element of the tensor `cond` is true."""
    if not isinstance(cond, _C.Tensor) or cond.dtype is not _C.bool:
        raise TypeError(f"_check_tensor_all: cond is a tensor of bool, got {cond!r}")
    _check_with(error_type, bool(cond.all()), message)


_check_tensor_all = functools.partial(_check_tensor_all_with, RuntimeError)


def _assert(condition, message):
    """Raise AssertionError with `message` unless `condition`."""
    if not condition:
        raise AssertionError(message)


def _assert_async(input, assert_msg=None):
    """Raise RuntimeError unless the one element of `input` is not zero."""
    if input.numel() != 1:
        raise RuntimeError(f"_assert_async: expected one element, got shape {tuple(input.shape)}")
    if not input:
        raise RuntimeError(assert_msg or f"_assert_async: expected a value other than zero, got {input.item()}")
