"""Top-level functions that are not ops: questions about objects, and process-wide settings."""

from __future__ import annotations

import builtins

from . import _C, _legacy_types
from ._type_info import finfo, iinfo

Tensor = _C.Tensor

__all__ = [
    "are_deterministic_algorithms_enabled",
    "broadcast_shapes",
    "finfo",
    "get_deterministic_debug_mode",
    "get_device_module",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "get_printoptions",
    "iinfo",
    "is_complex",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_distributed",
    "is_floating_point",
    "is_inference",
    "is_conj",
    "is_neg",
    "is_nonzero",
    "is_same_size",
    "is_signed",
    "is_storage",
    "is_tensor",
    "is_warn_always_enabled",
    "numel",
    "set_default_tensor_type",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_num_interop_threads",
    "set_printoptions",
    "set_warn_always",
    "typename",
    "use_deterministic_algorithms",
]


def is_tensor(obj, /):
    """Whether `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj, /):
    """Whether `obj` is an UntypedStorage or a TypedStorage."""
    if isinstance(obj, _C.UntypedStorage):
        return True
    from .storage import TypedStorage

    return isinstance(obj, TypedStorage)


def _ask(name):
    """A function that asks a tensor by calling its method `name`."""

    def question(input):
        if not isinstance(input, Tensor):
            raise TypeError(f"{name}(): input is a Tensor, got {type(input).__name__}")
        return getattr(input, name)()

    question.__name__ = question.__qualname__ = name
    question.__doc__ = f"As Tensor.{name}."
    return question


is_floating_point = _ask("is_floating_point")
is_complex = _ask("is_complex")
is_signed = _ask("is_signed")
is_conj = _ask("is_conj")
is_neg = _ask("is_neg")
is_inference = _ask("is_inference")
numel = _ask("numel")
is_distributed = _ask("is_distributed")


def is_nonzero(input):
    """Whether the one element of `input` differs from zero."""
    if input.numel() != 1:
        raise RuntimeError(f"is_nonzero: a Tensor with one element is expected, got shape {list(input.shape)}")
    return bool(input)


def is_same_size(input, other):
    """Whether the shapes are equal."""
    return input.is_same_size(other)


def typename(obj, /):
    """The dotted name of a type: "torch.FloatTensor" for a tensor, else that of the class or function."""
    if isinstance(obj, Tensor):
        return obj.type()
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", None) or ""
    name = getattr(named, "__qualname__", named.__class__.__qualname__)
    return name if module in ("", "builtins", "__builtin__") else f"{module}.{name}"


def broadcast_shapes(*shapes):
    """The shape that tensors of these shapes (sequences or ints) broadcast to."""
    tuples = [(s,) if isinstance(s, builtins.int) else tuple(s) for s in shapes]
    result = [1] * max(map(len, tuples), default=0)
    for given, shape in zip(shapes, tuples):
        for at, size in enumerate(reversed(shape), start=1):
            if size < 0:
                raise RuntimeError(f"broadcast_shapes: sizes must not be negative, got {given}")
            if size == 1 or result[-at] == size:
                continue
            if result[-at] != 1:
                raise RuntimeError(
                    f"broadcast_shapes: the shapes do not broadcast to one, got {', '.join(map(str, shapes))}"
                )
            result[-at] = size
    return _C.Size(result)


# Printing


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """Sets how tensors print; see facula._tensor_str."""
    from . import _tensor_str

    _tensor_str.set_printoptions(precision, threshold, edgeitems, linewidth, profile, sci_mode)


def get_printoptions():
    """The current settings, as a dict that set_printoptions takes."""
    from . import _tensor_str

    return _tensor_str.get_printoptions()


# Defaults


def set_default_tensor_type(t, /):
    """Sets the default dtype (and device) by a type such as DoubleTensor or its name."""
    dtype, device = _legacy_types.parse(t)
    if device == "cuda":
        raise TypeError(f"set_default_tensor_type: facula was built without CUDA, got {t}")
    _C.set_default_dtype(dtype)


class _Settings:
    """Process-wide switches that only have to be remembered."""

    deterministic = "default"
    warn_always = False
    matmul_precision = "highest"
    interop_threads = None


_DETERMINISTIC_MODES = ("default", "warn", "error")


def use_deterministic_algorithms(mode, *, warn_only=False):
    """Asks for ops whose results do not vary from run to run; on the CPU all of them are so already."""
    _Settings.deterministic = ("warn" if warn_only else "error") if mode else "default"


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
    elif isinstance(debug_mode, builtins.int) and 0 <= debug_mode <= 2:
        _Settings.deterministic = _DETERMINISTIC_MODES[debug_mode]
    elif isinstance(debug_mode, (str, builtins.int)):
        raise RuntimeError(
            f"set_deterministic_debug_mode: one of {_DETERMINISTIC_MODES} or 0, 1, 2, got {debug_mode!r}"
        )
    else:
        raise TypeError(f"set_deterministic_debug_mode: a str or an int, got {type(debug_mode).__name__}")


def get_deterministic_debug_mode():
    """0 (default), 1 (warn) or 2 (error)."""
    return _DETERMINISTIC_MODES.index(_Settings.deterministic)


def set_warn_always(b, /):
    """Whether warnings that appear once appear every time."""
    _Settings.warn_always = builtins.bool(b)


def is_warn_always_enabled():
    """What set_warn_always set."""
    return _Settings.warn_always


def set_float32_matmul_precision(precision):
    """How exact float32 products must be on a GPU: "highest", "high" or "medium"."""
    if precision not in ("highest", "high", "medium"):
        raise ValueError(f"set_float32_matmul_precision: 'highest', 'high' or 'medium', got {precision!r}")
    _Settings.matmul_precision = precision


def get_float32_matmul_precision():
    """What set_float32_matmul_precision set."""
    return _Settings.matmul_precision


def get_num_interop_threads():
    """Threads for independent work (backward of several graphs): by default as many as one op may use."""
    return _Settings.interop_threads or _C.get_num_threads()


def set_num_interop_threads(count, /):
    """Sets get_num_interop_threads."""
    if not isinstance(count, builtins.int):
        raise TypeError(f"set_num_interop_threads: an int, got {type(count).__name__}")
    if count <= 0:
        raise RuntimeError(f"set_num_interop_threads: a positive number of threads, got {count}")
    _Settings.interop_threads = count


def get_device_module(device=None):
    """The module of a kind of device: facula.cpu, facula.cuda."""
    import importlib

    kind = "cpu" if device is None else _C.device(device).type
    return importlib.import_module(f"facula.{kind}")
