"""LinearCrossEntropyOptions: how a fused linear cross entropy splits its work."""

from __future__ import annotations

import dataclasses

import facula

__all__ = ["LinearCrossEntropyOptions"]


@dataclasses.dataclass
class LinearCrossEntropyOptions:
    """Options of `functional.linear_cross_entropy`. They choose between memory and speed and never change the result;
    Facula computes the logits as one product, so they have no effect.

    Args:
        allow_retain_graph: whether backward may run twice, which it always may.
        batch_chunk_size: how many rows at a time.
        chunking_method: how the chunks are chosen.
        acc_policy: how sums over chunks are kept.
        acc_dtype: the dtype of these sums.

    >>> options = nn.LinearCrossEntropyOptions(batch_chunk_size=128)
    >>> options.batch_chunk_size
    128
    """

    allow_retain_graph: bool = False
    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: facula.dtype | None = None
