"""Hold and set process-wide settings."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from facula import _C
from facula.backends import _cuda

from . import tensor_types

if TYPE_CHECKING:
    from typing import Any

# Printing


def set_printoptions(precision: int | None = None, threshold: Any = None, edgeitems: Any = None, linewidth: Any = None,
                     profile: Any = None, sci_mode: Any = None) -> None:  # fmt: skip
    """Set how tensors print, for all threads. What is not given stays.

    Args:
        precision: digits behind the point, 4 at first.
        threshold: elements from which on only the edges are printed, 1000 at first.
        edgeitems: how many elements of each edge are printed then, 3 at first.
        linewidth: characters of a line, 80 at first.
        profile: "default", "short" (precision 2, edgeitems 2) or "full" (no threshold), before the others are set.
        sci_mode: True for powers of ten, False for none; None chooses by the values.

    >>> torch.set_printoptions(precision=2)
    >>> torch.tensor([1.23456])
    tensor([1.23])
    >>> torch.set_printoptions(profile="default")
    """
    from facula._tensor import printing

    printing.set_printoptions(precision, threshold, edgeitems, linewidth, profile, sci_mode)


def get_printoptions() -> dict[str, Any]:
    """Return the settings of printing, as a dict of the arguments that set_printoptions takes.

    >>> torch.get_printoptions()["precision"]
    4
    """
    from facula._tensor import printing

    return printing.get_printoptions()


# Defaults


def set_default_tensor_type(t: Any, /) -> None:
    """Set the default dtype by a type such as DoubleTensor or its name.

    Args:
        t: a floating tensor type of the CPU, or its name ("torch.DoubleTensor").

    Errors: TypeError for types of CUDA or of integers and for what is no type; ValueError for an unknown name.

    >>> torch.set_default_tensor_type(torch.DoubleTensor)
    >>> torch.tensor(1.0).dtype
    torch.float64
    >>> torch.set_default_tensor_type(torch.FloatTensor)
    """
    warnings.warn(
        "set_default_tensor_type: an old form since PyTorch 2.1; use set_default_dtype and set_default_device",
        UserWarning,
        stacklevel=2,
    )
    if not isinstance(t, (str, type)):
        raise TypeError(f"set_default_tensor_type: expected a tensor type or its name, got {t!r}")
    dtype, device = tensor_types.parse(t)
    if device == "cuda":
        raise TypeError(f"set_default_tensor_type: facula was built without CUDA, got {t}")
    _C.set_default_dtype(dtype)


class _Settings:
    """Hold process-wide switches that other code reads."""

    deterministic = False
    deterministic_warns = False
    warn_always = False
    interop_threads = None


_DETERMINISTIC_MODES = ("default", "warn", "error")


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for ops whose results do not vary from run to run.

    Ops that PyTorch calls nondeterministic on the CPU (max_unpool, put_ without accumulate) then raise, and memory of new
    tensors is filled (torch.utils.deterministic.fill_uninitialized_memory); all others give one result anyway.

    Args:
        mode: True to ask, False to go back.
        warn_only: whether an op that has no such way warns rather than raises.

    Errors: TypeError where one of the two is not a bool.

    >>> torch.use_deterministic_algorithms(True, warn_only=True)
    >>> torch.are_deterministic_algorithms_enabled(), torch.empty(2)
    (True, tensor([nan, nan]))
    >>> torch.use_deterministic_algorithms(False)
    """
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(f"use_deterministic_algorithms: {name} is a bool, got {type(value).__name__}")
    _set_deterministic(mode, warn_only)


def _set_deterministic(mode, warn_only):
    _Settings.deterministic, _Settings.deterministic_warns = mode, warn_only
    _C._set_deterministic((1 if warn_only else 2) if mode else 0)
    _C._cuda_set_flag("deterministic_algorithms", mode)


def are_deterministic_algorithms_enabled() -> bool:
    """Return whether use_deterministic_algorithms asked for results that do not vary.

    >>> torch.are_deterministic_algorithms_enabled()
    False
    """
    return _Settings.deterministic


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return whether use_deterministic_algorithms was called with warn_only: an op without such a way warns rather than raises.

    >>> torch.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return _Settings.deterministic_warns


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set what use_deterministic_algorithms sets, by a word or a number.

    Args:
        debug_mode: "default" or 0, "warn" or 1, "error" or 2: what happens where an op's results vary from run to run.

    Errors: RuntimeError for other words and numbers, TypeError for what is neither.

    >>> torch.set_deterministic_debug_mode("warn")
    >>> torch.get_deterministic_debug_mode()
    1
    >>> torch.set_deterministic_debug_mode(0)
    """
    if isinstance(debug_mode, str) and debug_mode in _DETERMINISTIC_MODES:
        debug_mode = _DETERMINISTIC_MODES.index(debug_mode)
    if isinstance(debug_mode, int) and 0 <= debug_mode <= 2:
        _set_deterministic(debug_mode > 0, debug_mode == 1)
    elif isinstance(debug_mode, (str, int)):
        raise RuntimeError(
            f"set_deterministic_debug_mode: one of {_DETERMINISTIC_MODES} or 0, 1, 2, got {debug_mode!r}"
        )
    else:
        raise TypeError(f"set_deterministic_debug_mode: expected a str or an int, got {type(debug_mode).__name__}")


def get_deterministic_debug_mode() -> int:
    """Return what happens where an op's results vary from run to run: 0 (nothing), 1 (a warning) or 2 (an error).

    >>> torch.get_deterministic_debug_mode()
    0
    """
    return (1 if _Settings.deterministic_warns else 2) if _Settings.deterministic else 0


def set_warn_always(b: Any, /) -> None:
    """Set whether warnings that appear once appear every time.

    Args:
        b: True for every time.

    >>> torch.set_warn_always(True)
    >>> torch.is_warn_always_enabled()
    True
    >>> torch.set_warn_always(False)
    """
    _Settings.warn_always = bool(b)
    _C._set_warn_always(_Settings.warn_always)


def is_warn_always_enabled() -> bool:
    """Return whether warnings that appear once appear every time, as set_warn_always set it.

    >>> torch.is_warn_always_enabled()
    False
    """
    return _Settings.warn_always


def set_float32_matmul_precision(precision: str) -> None:
    """Set how exact float32 products must be on a GPU; on the CPU they are always float32's.

    Args:
        precision: "highest" for float32, "high" for TensorFloat-32 (10 bits of mantissa), "medium" for what is fastest.

    Errors: ValueError for other words.

    >>> torch.set_float32_matmul_precision("high")
    >>> torch.get_float32_matmul_precision()
    'high'
    >>> torch.set_float32_matmul_precision("highest")
    """
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"set_float32_matmul_precision: it must be {_C._one_of(precision, ('highest', 'high', 'medium'))}")
    _cuda.set_matmul_word(precision)


def get_float32_matmul_precision() -> str:
    """Return how exact float32 products are on a GPU: "highest", "high" or "medium".

    >>> torch.get_float32_matmul_precision()
    'highest'
    """
    return _cuda.matmul_word()


def get_num_interop_threads() -> int:
    """Return the number of threads for independent work (backward of several graphs): by default as many as one op may use.

    >>> torch.get_num_interop_threads() > 0
    True
    """
    return _Settings.interop_threads or _C.get_num_threads()


def init_num_threads() -> None:
    """Do nothing: threads are counted when the first op needs them.

    >>> torch.init_num_threads()
    """


def set_anomaly_enabled(mode: bool, check_nan: bool = True) -> None:
    """Switch the search for the source of NaNs in backward on or off for good; autograd.detect_anomaly does it for a block.

    Args:
        mode: whether forward remembers where each op was called, for backward's error to tell.
        check_nan: whether backward raises RuntimeError at the first op that makes a NaN.

    >>> torch.set_anomaly_enabled(True)
    >>> torch.is_anomaly_enabled()
    True
    >>> torch.set_anomaly_enabled(False)
    """
    _C._set_anomaly(mode, check_nan)


def is_vulkan_available() -> bool:
    """Return False: there are no kernels for Vulkan.

    >>> torch.is_vulkan_available()
    False
    """
    return False


def set_num_interop_threads(count: Any, /) -> None:
    """Set the number of threads for independent work that get_num_interop_threads tells.

    Args:
        count: at least 1.

    Errors: RuntimeError for a number that is not positive, ValueError for one of more than 64 bits, TypeError for what is no
    int.

    >>> torch.set_num_interop_threads(2)
    >>> torch.get_num_interop_threads()
    2
    """
    if not isinstance(count, int):
        raise TypeError(f"set_num_interop_threads: expected an int, got {type(count).__name__}")
    if count <= 0:
        raise RuntimeError(f"set_num_interop_threads: expected a positive number of threads, got {count}")
    if count >= 2**63:
        raise ValueError(f"set_num_interop_threads: expected a number of 64 bits, got one of {count.bit_length()}")
    _Settings.interop_threads = count
