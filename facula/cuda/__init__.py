"""CUDA devices. This build has none: questions are answered so, and what needs a GPU raises (compat/placeholders.py).

What a program may call without asking first (manual_seed_all, empty_cache, memory statistics) does nothing.
"""

import contextlib

import facula
from facula.functions import tensor_types

__all__ = [
    "is_available",
    "device_count",
    "is_initialized",
    "init",
    "synchronize",
    "current_device",
    "set_device",
]

has_half = True
has_magma = False
default_generators = ()
_initialized = False


def _needs_gpu(name, *args):
    from facula.compat import placeholders

    placeholders.refuse(f"torch.cuda.{name}", args)


def is_available():
    """False."""
    return False


def is_bf16_supported(including_emulation=True):
    """False."""
    return False


def is_tf32_supported():
    """False."""
    return False


def is_initialized():
    """False."""
    return False


def is_current_stream_capturing():
    """False."""
    return False


def device_count():
    """0."""
    return 0


def get_arch_list():
    """No architectures."""
    return []


def get_gencode_flags():
    """No compiler flags."""
    return ""


def init():
    """Raises: there is no device to initialise."""
    _needs_gpu("init")


_lazy_init = init


def _lazy_call(callable, **kwargs):
    """Would run `callable` when CUDA starts, which never happens here."""


# -- harmless without a GPU -----------------------------------------------------------------------------


def manual_seed(seed):
    """Nothing to seed."""


def manual_seed_all(seed):
    """Nothing to seed."""


def seed():
    """Nothing to seed."""


def seed_all():
    """Nothing to seed."""


def empty_cache():
    """Nothing is cached."""


def ipc_collect():
    """Nothing is shared."""


def reset_peak_memory_stats(device=None):
    """Nothing is counted."""


def reset_max_memory_allocated(device=None):
    """Nothing is counted."""


def reset_accumulated_memory_stats(device=None):
    """Nothing is counted."""


def memory_allocated(device=None):
    """0 bytes."""
    return 0


max_memory_allocated = memory_reserved = max_memory_reserved = memory_allocated
memory_cached = max_memory_cached = memory_allocated


def memory_stats(device=None):
    """Nothing is counted."""
    return {}


def memory_summary(device=None, abbreviated=False):
    """Says that there is no device."""
    return "no CUDA device"


def get_rng_state_all():
    """No devices, no states."""
    return []


def set_rng_state_all(new_states):
    """Nothing to set."""


def set_sync_debug_mode(debug_mode):
    """Nothing synchronises."""


def get_sync_debug_mode():
    """0: off."""
    return 0


class device:
    """Context: work goes to another device inside. Without a GPU only no device (None, -1) can be named."""

    def __init__(self, device):
        self.idx = (
            -1 if device is None else facula.device(device).index if not isinstance(device, int) else device
        )

    def __enter__(self):
        if self.idx is not None and self.idx >= 0:
            _needs_gpu("device", self.idx)

    def __exit__(self, *_):
        return False


class device_of(device):
    """Context: work goes to the device of a tensor; one on the CPU changes nothing."""

    def __init__(self, obj):
        super().__init__(obj.get_device() if getattr(obj, "is_cuda", False) else None)


@contextlib.contextmanager
def stream(stream):
    """Context: work goes to `stream`; None changes nothing."""
    if stream is not None:
        _needs_gpu("stream", stream)
    yield


class StreamContext:
    """Context for a stream; None changes nothing."""

    def __init__(self, stream):
        if stream is not None:
            _needs_gpu("StreamContext", stream)

    def __enter__(self):
        pass

    def __exit__(self, *_):
        pass


class OutOfMemoryError(RuntimeError):
    """Device memory is short."""


if hasattr(facula, "OutOfMemoryError"):
    OutOfMemoryError = facula.OutOfMemoryError  # noqa: F811
CudaError = type(
    "CudaError", (RuntimeError,), {"__module__": __name__, "__doc__": "A call of the CUDA runtime failed."}
)
DeferredCudaCallError = type("DeferredCudaCallError", (Exception,), {"__module__": __name__})


def __getattr__(name):
    if name in ("amp", "nvtx", "nccl", "memory", "random", "streams"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    from facula.compat import placeholders

    return placeholders.member("torch.cuda", name)


# FloatTensor, LongTensor, ...: names for `isinstance` and `Tensor.type`
globals().update(tensor_types.CUDA_TYPES)
