"""Define embeddings that round their weights in training."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import nn
from facula.ao.nn.qat._base import as_parameter, qconfig_of, weight_rounding
from facula.nn import functional as F

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor
    from facula.nn.modules.module import Module
    from facula.types import Device

__all__ = ["Embedding", "EmbeddingBag"]

_SHARED = "num_embeddings embedding_dim max_norm norm_type scale_grad_by_freq sparse padding_idx".split()


class _Embeddings(nn.Module):
    """Round the table of Embedding and EmbeddingBag."""

    _FLOAT_MODULE: type
    _NAMES: list[str]

    def _round_with(self, qconfig, device):
        rounding = weight_rounding(type(self).__name__, qconfig, device)
        if rounding.qscheme is not facula.per_channel_affine_float_qparams:
            raise AssertionError(
                f"qat.{type(self).__name__}: expected the weight's qscheme per_channel_affine_float_qparams, "
                f"got {rounding.qscheme}"
            )
        self.qconfig: Any = qconfig
        self.weight_fake_quant: Any = rounding

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the layer made of one of floating point with a qconfig, whose weight it takes over.

        Args:
            mod: the layer.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        Errors: AssertionError for another class, or without a qconfig of one scale and zero point for each row.

        >>> layer = nn.Embedding(3, 2)
        >>> layer.qconfig = torch.ao.quantization.default_embedding_qat_qconfig
        >>> rounded = torch.ao.nn.qat.Embedding.from_float(layer)
        >>> bool((rounded.weight == layer.weight).all())
        True
        """
        qconfig = qconfig_of(cls, mod)
        return cls(**{name: getattr(mod, name) for name in cls._NAMES}, qconfig=qconfig, _weight=mod.weight)

    def to_float(self) -> EmbeddingBag:
        """Return the layer without rounding.

        >>> torch.ao.nn.qat.Embedding(3, 2, qconfig=torch.ao.quantization.default_embedding_qat_qconfig).to_float()
        Embedding(3, 2)
        """
        made = self._FLOAT_MODULE(**{name: getattr(self, name) for name in self._NAMES}, _weight=as_parameter(self.weight))
        return made.train(self.training)


class Embedding(_Embeddings, nn.Embedding):
    """Look up rows as nn.Embedding with a weight rounded as `convert` will round it.

    Args:
        num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight, device, dtype:
            as for nn.Embedding.
        qconfig: its `weight` says how, a scale and a zero point of floating point for each row.

    Errors: AssertionError without a qconfig, or for one of another scheme.

    >>> from torch.ao.quantization import default_embedding_qat_qconfig
    >>> layer = torch.ao.nn.qat.Embedding(3, 2, qconfig=default_embedding_qat_qconfig)
    >>> layer(torch.tensor([0, 2])).shape
    torch.Size([2, 2])
    """

    _FLOAT_MODULE = nn.Embedding
    _NAMES = _SHARED

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
                 norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None,
                 device: Device = None, dtype: facula.dtype | None = None, qconfig: Any = None) -> None:  # fmt: skip
        super().__init__(
            num_embeddings, embedding_dim, padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse, _weight,
            device=device, dtype=dtype,
        )  # fmt: skip
        self._round_with(qconfig, device)

    def forward(self, input: Tensor) -> Tensor:
        """Return the rows of the rounded weight."""
        return F.embedding(
            input, self.weight_fake_quant(self.weight), self.padding_idx, self.max_norm, self.norm_type,
            self.scale_grad_by_freq, self.sparse,
        )  # fmt: skip


class EmbeddingBag(_Embeddings, nn.EmbeddingBag):
    """Reduce rows as nn.EmbeddingBag with a weight rounded as `convert` will round it.

    Args:
        num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, mode, sparse, _weight, include_last_offset,
            padding_idx, device, dtype: as for nn.EmbeddingBag.
        qconfig: its `weight` says how, a scale and a zero point of floating point for each row.

    Errors: AssertionError without a qconfig, or for one of another scheme.

    >>> from torch.ao.quantization import default_embedding_qat_qconfig
    >>> layer = torch.ao.nn.qat.EmbeddingBag(3, 2, qconfig=default_embedding_qat_qconfig)
    >>> layer(torch.tensor([[0, 2]])).shape
    torch.Size([1, 2])
    """

    _FLOAT_MODULE = nn.EmbeddingBag
    _NAMES = [*_SHARED, "mode", "include_last_offset"]

    def __init__(self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
                 scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False, _weight: Any = None,
                 include_last_offset: bool = False, padding_idx: int | None = None, qconfig: Any = None, device: Device = None,
                 dtype: facula.dtype | None = None) -> None:  # fmt: skip
        super().__init__(
            num_embeddings, embedding_dim, max_norm, norm_type, scale_grad_by_freq, mode, sparse, _weight,
            include_last_offset, padding_idx, device, dtype,
        )  # fmt: skip
        self._round_with(qconfig, device)

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        """Return the sums, means or maxima of rows of the rounded weight."""
        return F.embedding_bag(
            input, self.weight_fake_quant(self.weight), offsets, self.max_norm, self.norm_type, self.scale_grad_by_freq,
            self.mode, self.sparse, per_sample_weights, self.include_last_offset, self.padding_idx,
        )  # fmt: skip
