"""Provide torch.functional, a second place for some functions of the top level."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from typing import Any

    from facula import (
        atleast_1d,
        atleast_2d,
        atleast_3d,
        block_diag,
        broadcast_shapes,
        broadcast_tensors,
        cartesian_prod,
        cdist,
        chain_matmul,
        einsum,
        istft,
        lu,
        meshgrid,
        norm,
        pca_lowrank,
        split,
        stft,
        svd_lowrank,
        tensordot,
        unique,
        unique_consecutive,
        unravel_index,
    )

__all__ = [
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors", "cartesian_prod", "cdist",
    "chain_matmul", "einsum", "istft", "lu", "meshgrid", "norm", "pca_lowrank", "split", "stft", "svd_lowrank", "tensordot",
    "unique", "unique_consecutive", "unravel_index",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(facula, name)
    if name == "F":  # programs that take it from here
        return facula.nn.functional
    from facula._shared.near_names import no_attribute

    raise no_attribute(__name__, name)
