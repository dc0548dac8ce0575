"""Define LinearCrossEntropyOptions, which sets how a fused linear cross entropy splits its work."""

from __future__ import annotations

import dataclasses

import facula

__all__ = ["LinearCrossEntropyOptions"]


@dataclasses.dataclass
class LinearCrossEntropyOptions:
    """Hold options of `functional.linear_cross_entropy`, which choose between memory and speed and never change the result.

    Facula computes the logits as one product, so they have no effect.

    Args:
        allow_retain_graph: if True, backward may run twice, which it always may here.
        batch_chunk_size: the number of rows that are computed at a time.
        chunking_method: the way in which the chunks are chosen.
        acc_policy: the way in which sums over chunks are stored.
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
