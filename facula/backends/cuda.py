"""CUDA's flags. Without a GPU they are kept and have no effect."""

import contextlib
from types import SimpleNamespace

matmul = SimpleNamespace(
    allow_tf32=False,
    allow_fp16_reduced_precision_reduction=True,
    allow_bf16_reduced_precision_reduction=True,
    allow_fp16_accumulation=False,
    fp32_precision="none",
)
cufft_plan_cache = SimpleNamespace(size=0, max_size=0, clear=lambda: None)
_attention = {
    "flash": True,
    "math": True,
    "mem_efficient": True,
    "cudnn": True,
    "fp16_bf16_reduction_math": False,
}


def is_built():
    """False: this build has no CUDA kernels."""
    return False


def _switch(name):
    def enable(enabled):
        _attention[name] = bool(enabled)

    def enabled():
        return _attention[name]

    enable.__doc__, enabled.__doc__ = (
        f"Allows or forbids {name} attention.",
        f"Whether {name} attention is allowed.",
    )
    return enable, enabled


enable_flash_sdp, flash_sdp_enabled = _switch("flash")
enable_math_sdp, math_sdp_enabled = _switch("math")
enable_mem_efficient_sdp, mem_efficient_sdp_enabled = _switch("mem_efficient")
enable_cudnn_sdp, cudnn_sdp_enabled = _switch("cudnn")
allow_fp16_bf16_reduction_math_sdp, fp16_bf16_reduction_math_sdp_allowed = _switch("fp16_bf16_reduction_math")


def is_flash_attention_available():
    """False: there is no GPU."""
    return False


def can_use_flash_attention(params, debug=False):
    """False: there is no GPU."""
    return False


can_use_efficient_attention = can_use_cudnn_attention = can_use_flash_attention


@contextlib.contextmanager
def sdp_kernel(enable_flash=True, enable_math=True, enable_mem_efficient=True, enable_cudnn=True):
    """Context: these kinds of attention are allowed inside."""
    before = dict(_attention)
    _attention.update(
        flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn
    )
    try:
        yield {}
    finally:
        _attention.update(before)


def preferred_linalg_library(backend=None):
    """ "default"."""
    return "default"


preferred_blas_library = preferred_rocm_fa_library = preferred_linalg_library
