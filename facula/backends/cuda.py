"""Set flags of CUDA's libraries: cuBLAS, which multiplies matrices where it is installed, and attention."""

from __future__ import annotations

import contextlib
import enum
import os
import warnings
from typing import TYPE_CHECKING, Any

import facula
from facula import _C
from facula.backends import _attention, _cuda
from facula.backends._attention import SDPAParams as SDPAParams
from facula.backends._attention import SDPBackend as _Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from facula.types import Device


class _Products:
    """Hold the flags of matrix products."""

    __slots__ = ()
    fp32_precision: Any = _cuda.Precision("matmul")
    allow_fp16_accumulation: Any = _cuda.Switch(False, "half_accumulation")

    @property
    def allow_tf32(self) -> Any:
        """Whether products of float32 may round their factors to TF32."""
        return _cuda.products_allow_tf32()

    @allow_tf32.setter
    def allow_tf32(self, value: Any) -> None:
        _cuda.set_matmul_word("high" if _cuda.need_bool("allow_tf32", value) else "highest")

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"backends.cuda.matmul: there is no such setting, got {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name):
            raise AttributeError(f"backends.cuda.matmul: there is no such setting, got {name!r}")
        object.__setattr__(self, name, value)


def _reduction(name, flag):
    """Set the switches of a dtype: whether parts of its sums may be of it, and (always) whether sums may be divided."""
    switch = _cuda.Switch(True, flag)

    def set_both(self, value):
        may, divided = value if isinstance(value, (tuple, list)) else (value, True)
        if not divided:
            raise RuntimeError(f"{name}: sums that are not divided are not supported, got {value}")
        switch.__set__(self, may)

    switch.name = name
    setattr(_Products, name, property(switch.__get__, set_both))
    setattr(_Products, f"{name}_split_k", property(lambda self: True))


_reduction("allow_fp16_reduced_precision_reduction", "half_reduction")
_reduction("allow_bf16_reduced_precision_reduction", "brain_reduction")
matmul: Any = _Products()


class _PlanCache:
    """Control the cache of plans for Fourier transforms of one device (the current one); it holds the plans that were
    used last.

    `size` is how many there are, `max_size` how many are kept at most; `clear()` forgets them. `cufft_plan_cache[device]`
    is that of another device. Where cuFFT is not installed, the plans are tables of our own kernels, for every length.
    """

    def __init__(self, device: Device = None) -> None:
        self.__dict__["_device"] = device

    def _index(self):
        return facula.cuda._index(self._device, "cufft_plan_cache")

    def __getitem__(self, device: Device) -> Any:
        return _PlanCache(facula.cuda._index(device, "cufft_plan_cache"))

    @property
    def size(self) -> Any:
        """How many plans there are."""
        return _C._cuda_fft_plans(self._index())[0]

    @property
    def max_size(self) -> Any:
        """How many are kept at most."""
        return _C._cuda_fft_plans(self._index())[1]

    @max_size.setter
    def max_size(self, most: float) -> None:
        _C._cuda_set_most_fft_plans(self._index(), most)

    def clear(self) -> None:
        """Forget all of them."""
        _C._cuda_forget_fft_plans(self._index())

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "max_size":
            raise RuntimeError(f"cufft_plan_cache.{name}: it cannot be set")
        object.__setattr__(self, name, value)


cufft_plan_cache: Any = _PlanCache()
def is_built() -> bool:
    """Return True: every build has CUDA kernels, which need NVIDIA's driver to run.

    >>> torch.backends.cuda.is_built()
    True
    """
    return True


def _switch(name, backend):
    def enable(enabled: bool) -> None:
        _attention.allow(backend, enabled)

    def enabled():
        return _attention.is_allowed(backend)

    enable.__name__ = enable.__qualname__ = f"enable_{name}_sdp"
    enabled.__name__ = enabled.__qualname__ = f"{name}_sdp_enabled"
    enable.__doc__ = f"""Allow or forbid {name} attention, on all devices.

    Args:
        enabled: True or False.

    Errors: RuntimeError for anything else.

    >>> torch.backends.cuda.enable_{name}_sdp(False)
    >>> torch.backends.cuda.{name}_sdp_enabled()
    False
    >>> torch.backends.cuda.enable_{name}_sdp(True)
    """
    enabled.__doc__ = f"""Return whether {name} attention is allowed: True at the start.

    >>> torch.backends.cuda.{name}_sdp_enabled()
    True
    """
    return enable, enabled


enable_flash_sdp: Callable[[bool], None]
flash_sdp_enabled: Callable[[], bool]
enable_math_sdp: Callable[[bool], None]
math_sdp_enabled: Callable[[], bool]
enable_mem_efficient_sdp: Callable[[bool], None]
mem_efficient_sdp_enabled: Callable[[], bool]
enable_cudnn_sdp: Callable[[bool], None]
cudnn_sdp_enabled: Callable[[], bool]
enable_flash_sdp, flash_sdp_enabled = _switch("flash", _Kind.FLASH_ATTENTION)
enable_math_sdp, math_sdp_enabled = _switch("math", _Kind.MATH)
enable_mem_efficient_sdp, mem_efficient_sdp_enabled = _switch("mem_efficient", _Kind.EFFICIENT_ATTENTION)
enable_cudnn_sdp, cudnn_sdp_enabled = _switch("cudnn", _Kind.CUDNN_ATTENTION)
_reduces_in_half = False


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """Allow math attention to add up in float16 and bfloat16; it adds up in float32 all the same.

    Args:
        enabled: True or False.

    Errors: RuntimeError for anything else.

    >>> torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(True)
    >>> torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    True
    >>> torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(False)
    """
    global _reduces_in_half
    _reduces_in_half = _cuda.need_bool("allow_fp16_bf16_reduction_math_sdp", enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """Return whether math attention may add up in float16 and bfloat16: False at the start.

    >>> torch.backends.cuda.fp16_bf16_reduction_math_sdp_allowed()
    False
    """
    return _reduces_in_half


def is_flash_attention_available() -> bool:
    """Return whether there is a CUDA device: attention in one pass is part of every build.

    >>> torch.backends.cuda.is_flash_attention_available() == torch.cuda.is_available()
    True
    """
    return facula.cuda.is_available()


def can_use_flash_attention(params: Any, debug: bool = False) -> bool:
    """Return whether attention in one pass can compute a call on a CUDA device.

    Args:
        params: the call, SDPAParams.
        debug: whether a warning says why not.

    >>> x = torch.rand(1, 2, 4, 8)
    >>> torch.backends.cuda.can_use_flash_attention(torch.backends.cuda.SDPAParams(x, x, x, None, 0.0, True, False))
    False
    """
    return _attention.can_use(_Kind.FLASH_ATTENTION, params, debug)


def can_use_efficient_attention(params: Any, debug: bool = False) -> bool:
    """Return whether memory-efficient attention can compute a call on a CUDA device: the one of flash attention, with its own
    switch.

    Args:
        params: the call, SDPAParams.
        debug: whether a warning says why not.

    >>> x = torch.rand(1, 2, 4, 8)
    >>> torch.backends.cuda.can_use_efficient_attention(torch.backends.cuda.SDPAParams(x, x, x, None, 0.0, True, False))
    False
    """
    return _attention.can_use(_Kind.EFFICIENT_ATTENTION, params, debug)


def can_use_cudnn_attention(params: Any, debug: bool = False) -> bool:
    """Return whether cuDNN can compute a call on a CUDA device.

    Args:
        params: the call, SDPAParams.
        debug: whether a warning says why not.

    >>> x = torch.rand(1, 2, 4, 8)
    >>> torch.backends.cuda.can_use_cudnn_attention(torch.backends.cuda.SDPAParams(x, x, x, None, 0.0, True, False))
    False
    """
    return _attention.can_use(_Kind.CUDNN_ATTENTION, params, debug)


@contextlib.contextmanager
def sdp_kernel(enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True,
               enable_cudnn: bool = True):  # fmt: skip
    """Allow these kinds of attention inside. Deprecated (a FutureWarning): use `nn.attention.sdpa_kernel`.

    Args:
        enable_flash, enable_math, enable_mem_efficient, enable_cudnn: whether each is.

    >>> import warnings
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     with torch.backends.cuda.sdp_kernel(enable_flash=False):
    ...         torch.backends.cuda.flash_sdp_enabled(), torch.backends.cuda.math_sdp_enabled()
    (False, True)
    """
    warnings.warn("sdp_kernel is deprecated: use nn.attention.sdpa_kernel", FutureWarning, stacklevel=3)
    with _attention.kept():
        enable_flash_sdp(enable_flash)
        enable_math_sdp(enable_math)
        enable_mem_efficient_sdp(enable_mem_efficient)
        enable_cudnn_sdp(enable_cudnn)
        yield {}


_LinalgBackend = enum.Enum("_LinalgBackend", {"Default": 0, "Cusolver": 1, "Magma": 2})
_BlasBackend = enum.Enum("_BlasBackend", {"Default": 0, "Cublas": 1, "Cublaslt": 2, "Ck": 3})
_ROCmFABackend = enum.Enum("_ROCmFABackend", {"Default": 0, "AOTriton": 1, "Ck": 2})


def _preference(name, kinds, now, supported, used, tell=lambda kind: None):
    """Get, and with an argument set, what is preferred; what is used is what is there. `tell` is told."""

    def preferred(backend: Any = None):
        nonlocal now
        if backend is None:
            return now
        if isinstance(backend, str):
            names = {kind.name.lower(): kind for kind in kinds}
            if backend.lower() not in names:
                raise RuntimeError(f"{name}: backend must be {_C._one_of(backend, names)}")
            backend = names[backend.lower()]
        if not isinstance(backend, kinds):
            raise RuntimeError(
                f"{name}: backend must be a name or a {kinds.__name__}, got {type(backend).__name__}"
            )
        if backend.name not in supported:
            raise RuntimeError(
                f"{name}: {backend.name.upper()} is not supported, only {', '.join(supported)}"
            )
        now = kinds.Cublas if backend.name == "Default" and kinds is _BlasBackend else backend
        tell(now)
        return now

    preferred.__name__ = preferred.__qualname__ = name
    preferred.__doc__ = f"""Get, and with an argument set, the library that is preferred{used}

Args:
    backend: None, or the name of one, or a member of {kinds.__name__}: {', '.join(supported)}.

Errors: RuntimeError for another.

>>> before = torch.backends.cuda.{name}()
>>> torch.backends.cuda.{name}("default").name
{now.name if now.name == "Cublas" else "Default"!r}
>>> torch.backends.cuda.{name}(before) == before
True
"""
    return preferred


preferred_linalg_library: Callable[..., Any] = _preference(
    "preferred_linalg_library",
    _LinalgBackend,
    _LinalgBackend(int(os.environ.get("TORCH_LINALG_PREFER_CUSOLVER") == "1")),  # as src/cuda/flags.h
    ("Default", "Cusolver"),
    """ for factorizations on CUDA.

By default cuSOLVER, where it is there, does single and large matrices, and our own kernels batches of small ones; with
"cusolver" (or TORCH_LINALG_PREFER_CUSOLVER=1 in the environment) it does all that it can. There is no MAGMA.""",
    lambda kind: _C._cuda_set_flag("prefer_cusolver", kind.name == "Cusolver"),
)
preferred_blas_library: Callable[..., Any] = _preference(
    "preferred_blas_library", _BlasBackend, _BlasBackend.Cublas, ("Default", "Cublas", "Cublaslt"),
    " for matrix products on CUDA; kept, and without effect: each product has its way.",
)
preferred_rocm_fa_library: Callable[..., Any] = _preference(
    "preferred_rocm_fa_library", _ROCmFABackend, _ROCmFABackend.Default, ("Default",),
    " for attention with ROCm, which is not there."
)
