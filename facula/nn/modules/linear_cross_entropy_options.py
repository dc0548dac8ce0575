"""LinearCrossEntropyOptions: how a fused linear cross entropy splits its work."""

from __future__ import annotations

import dataclasses

import facula

__all__ = ["LinearCrossEntropyOptions"]


@dataclasses.dataclass
class LinearCrossEntropyOptions:
    """Accepted for compatibility: the options choose between memory and speed and never change the result.

    Facula computes the logits as one product, so they have no effect.

    Args:
        allow_retain_graph: whether backward may run twice, which it always may.
        batch_chunk_size, chunking_method: how many rows at a time, and how that is chosen.
        acc_policy, acc_dtype: how sums over chunks are kept.
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: facula.dtype | None = None
