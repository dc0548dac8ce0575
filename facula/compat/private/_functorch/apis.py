"""Provide transforms of functions: vmap and gradients."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula.func import grad, grad_and_value, vmap

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["chunk_vmap", "grad", "grad_and_value", "vmap"]


def chunk_vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error",
               chunks: int = 2) -> Callable[..., Any]:  # fmt: skip
    """Return `vmap` in so many chunks of examples, to save memory.

    Args:
        func, in_dims, out_dims, randomness: as for `vmap`.
        chunks: how many; 1 is vmap itself.
    """
    from facula.func import _batching as mapping

    if chunks == 1:
        return vmap(func, in_dims, out_dims, randomness)

    def batched(*args, **kwargs):
        size = mapping._process_batched_inputs(in_dims, args, func)[0]
        return vmap(func, in_dims, out_dims, randomness, chunk_size=-(-size // min(chunks, size)))(*args, **kwargs)

    return batched
