"""Provide the default hooks under their short name."""

from .default_hooks import allreduce_hook, bf16_compress_hook, fp16_compress_hook

__all__ = ["allreduce_hook", "bf16_compress_hook", "fp16_compress_hook"]
