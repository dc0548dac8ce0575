"""Process-wide settings."""

from __future__ import annotations

from facula import _C
from facula.backends import _cuda

from . import tensor_types

# Printing


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """Sets how tensors print; see facula._tensor_str."""
    from facula import _tensor_str

    _tensor_str.set_printoptions(precision, threshold, edgeitems, linewidth, profile, sci_mode)


def get_printoptions():
    """The current settings, as a dict that set_printoptions takes."""
    from facula import _tensor_str

    return _tensor_str.get_printoptions()


# Defaults


def set_default_tensor_type(t, /):
    """Sets the default dtype (and device) by a type such as DoubleTensor or its name."""
    dtype, device = tensor_types.parse(t)
    if device == "cuda":
        raise TypeError(f"set_default_tensor_type: facula was built without CUDA, got {t}")
    _C.set_default_dtype(dtype)


class _Settings:
    """Process-wide switches that only have to be remembered."""

    deterministic = "default"
    warn_always = False
    interop_threads = None


_DETERMINISTIC_MODES = ("default", "warn", "error")


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Asks for ops whose results do not vary from run to run; on the CPU all of them are so already."""
    set_deterministic_debug_mode(("warn" if warn_only else "error") if mode else "default")


def are_deterministic_algorithms_enabled():
    """What use_deterministic_algorithms set."""
    return _Settings.deterministic != "default"


def is_deterministic_algorithms_warn_only_enabled():
    """Whether it only warns."""
    return _Settings.deterministic == "warn"


def set_deterministic_debug_mode(debug_mode):
    """As use_deterministic_algorithms, by "default", "warn", "error" or 0, 1, 2."""
    if isinstance(debug_mode, str) and debug_mode in _DETERMINISTIC_MODES:
        _Settings.deterministic = debug_mode
    elif isinstance(debug_mode, int) and 0 <= debug_mode <= 2:
        _Settings.deterministic = _DETERMINISTIC_MODES[debug_mode]
    elif isinstance(debug_mode, (str, int)):
        raise RuntimeError(
            f"set_deterministic_debug_mode: one of {_DETERMINISTIC_MODES} or 0, 1, 2, got {debug_mode!r}"
        )
    else:
        raise TypeError(f"set_deterministic_debug_mode: a str or an int, got {type(debug_mode).__name__}")
    _C._cuda_set_flag("deterministic_algorithms", _Settings.deterministic != "default")


def get_deterministic_debug_mode():
    """0 (default), 1 (warn) or 2 (error)."""
    return _DETERMINISTIC_MODES.index(_Settings.deterministic)


def set_warn_always(b, /):
    """Whether warnings that appear once appear every time."""
    _Settings.warn_always = bool(b)


def is_warn_always_enabled():
    """What set_warn_always set."""
    return _Settings.warn_always


def set_float32_matmul_precision(precision):
    """How exact float32 products must be on a GPU: "highest", "high" or "medium"."""
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"set_float32_matmul_precision: 'highest', 'high' or 'medium', got {precision!r}")
    _cuda.set_matmul_word(precision)


def get_float32_matmul_precision():
    """What set_float32_matmul_precision set."""
    return _cuda.matmul_word()


def get_num_interop_threads():
    """Threads for independent work (backward of several graphs): by default as many as one op may use."""
    return _Settings.interop_threads or _C.get_num_threads()


def init_num_threads():
    """Nothing to do: threads are counted when the first op needs them."""


def set_anomaly_enabled(mode, check_nan=True):
    """As autograd.set_detect_anomaly, for good."""
    _C._set_anomaly(mode, check_nan)


def is_vulkan_available():
    """False."""
    return False


def set_num_interop_threads(count, /):
    """Sets get_num_interop_threads."""
    if not isinstance(count, int):
        raise TypeError(f"set_num_interop_threads: an int, got {type(count).__name__}")
    if count <= 0:
        raise RuntimeError(f"set_num_interop_threads: a positive number of threads, got {count}")
    _Settings.interop_threads = count
