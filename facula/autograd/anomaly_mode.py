"""Implement anomaly mode: an error of backward shows the forward call that it belongs to, and a NaN gradient is an error."""

from __future__ import annotations

import traceback
import warnings

from .. import _C

__all__ = ["detect_anomaly", "set_detect_anomaly"]


def _forward_traceback():
    """Return the Python lines that run now, for the node that is being recorded."""
    frames = traceback.extract_stack()
    while frames and ("/facula/autograd/" in frames[-1].filename or frames[-1].filename.startswith("<")):
        frames.pop()
    return "".join(traceback.format_list(frames))


def _report(name, lines):
    where = f"The op ran here:\n{lines}" if lines else "The op was recorded outside of anomaly mode: its lines are not known."
    warnings.warn(f"Error detected in {name}: its backward raised. {where}", stacklevel=2)


class set_detect_anomaly:
    """Switch the search for the source of NaNs in backward at once; used as a context manager, it restores the setting
    at the end.

    Args:
        mode: on or off.
        check_nan: a NaN among computed gradients is a RuntimeError.

    >>> with torch.autograd.set_detect_anomaly(True):
    ...     torch.is_anomaly_enabled()
    True
    """

    def __init__(self, mode: bool, check_nan: bool = True):
        self.before: tuple[bool, bool] = (_C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled())
        _C._set_anomaly(mode, check_nan)

    def __enter__(self) -> None:
        return None

    def __exit__(self, *exception: object) -> None:
        _C._set_anomaly(*self.before)


class detect_anomaly:
    """Make errors of backward in a block show the forward call that they belong to, and make NaN gradients errors.

    All computations become much slower.

    Args:
        check_nan: whether a NaN among computed gradients is a RuntimeError.

    Warns, when it is made, that it is on.

    >>> import warnings
    >>> x = torch.tensor(0., requires_grad=True)
    >>> with warnings.catch_warnings():  # doctest: +ELLIPSIS
    ...     warnings.simplefilter("ignore")
    ...     with torch.autograd.detect_anomaly():
    ...         (x / x).backward()
    Traceback (most recent call last):
        ...
    RuntimeError: backward: Function 'DivBackward0' returned nan values in its 1th output, ...
    """

    def __init__(self, check_nan: bool = True):
        self.check_nan = check_nan
        warnings.warn(
            "anomaly detection is on: it slows every op down and is meant for debugging",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        self.before: tuple[bool, bool] = (_C.is_anomaly_enabled(), _C.is_anomaly_check_nan_enabled())
        _C._set_anomaly(True, self.check_nan)

    def __exit__(self, *exception: object) -> None:
        _C._set_anomaly(*self.before)
