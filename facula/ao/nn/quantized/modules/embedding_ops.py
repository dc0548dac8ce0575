"""Define tables of vectors whose rows are stored as integers of eight bits."""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import nn
from facula._tensor.quantized.tensor import levels_of
from facula.nn import functional as F

from .utils import quantize_weight

if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor
    from facula.nn.modules.module import Module

__all__ = ["Embedding", "EmbeddingBag", "EmbeddingPackedParams"]


def _checked_dtype(dtype):
    if dtype is facula.quint4x2:
        raise NotImplementedError(f"Embedding: elements of less than a byte are not supported, got {dtype}")
    if dtype is not facula.quint8:
        raise NotImplementedError(f"Embedding: not implemented for this dtype, got {dtype}")
    return dtype


class EmbeddingPackedParams(nn.Module):
    """Hold the rows of a quantized table.

    Args:
        num_embeddings, embedding_dim: its shape.
        dtype: quint8.

    Errors: NotImplementedError for another dtype.

    >>> from torch.ao.nn.quantized.modules.embedding_ops import EmbeddingPackedParams
    >>> params = EmbeddingPackedParams(3, 2)
    >>> params.set_weight(torch.quantize_per_channel(torch.ones(3, 2), torch.ones(3), torch.zeros(3), 0, torch.quint8))
    >>> params._weight().dequantize()[0]
    tensor([1., 1.])
    """

    _version = 1

    def __init__(self, num_embeddings: int, embedding_dim: int, dtype: facula.dtype = facula.quint8) -> None:
        super().__init__()
        self.dtype = _checked_dtype(dtype)
        ones, zeros = facula.ones(num_embeddings), facula.zeros(num_embeddings)
        self.set_weight(facula.quantize_per_channel(facula.zeros(num_embeddings, embedding_dim), ones, zeros, 0, dtype))

    def set_weight(self, weight: Tensor) -> None:
        """Put a table, which is not copied.

        Args:
            weight: of quint8, quantized per row.

        Errors: NotImplementedError for another dtype.
        """
        if not weight.is_quantized or weight.dtype is not self.dtype:
            raise NotImplementedError(f"set_weight: expected a table of {self.dtype}, got {weight.dtype}")
        object.__setattr__(self, "_packed_weight", weight.detach())

    def _weight(self):
        return self._packed_weight

    def forward(self, x: Tensor) -> Tensor:
        """Return `x` itself."""
        return x

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        destination[prefix + "dtype"] = self.dtype
        destination[prefix + "_packed_weight"] = self._packed_weight

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        for key in ("dtype", "_packed_weight"):
            if prefix + key not in state_dict:
                missing_keys.append(prefix + key)
                return
        self.dtype: Any = _checked_dtype(state_dict.pop(prefix + "dtype"))
        self.set_weight(state_dict.pop(prefix + "_packed_weight"))
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def __repr__(self) -> str:
        return repr(self._packed_weight)


class Embedding(nn.Module):
    """Look up rows of a table of quint8 by index; results are float32.

    Args:
        num_embeddings, embedding_dim: its shape.
        _weight: a quantized table to begin with.
        dtype: quint8.
        padding_idx, max_norm, norm_type, scale_grad_by_freq, sparse: taken for the float module's sake.

    Shapes: indices of any shape to (*, embedding_dim).

    Example::

        >>> torch.ao.nn.quantized.Embedding(10, 3)(torch.tensor([1, 2])).shape
        torch.Size([2, 3])
    """

    _version = 1
    num_embeddings: int
    embedding_dim: int
    dtype: facula.dtype

    def __init__(self, num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None,
                 norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: Tensor | None = None,
                 dtype: facula.dtype = facula.quint8) -> None:  # fmt: skip
        super().__init__()
        self.num_embeddings, self.embedding_dim, self.dtype = num_embeddings, embedding_dim, dtype
        self._packed_params = EmbeddingPackedParams(num_embeddings, embedding_dim, dtype)
        if _weight is not None:
            if list(_weight.shape) != [num_embeddings, embedding_dim]:
                shape = (num_embeddings, embedding_dim)
                raise AssertionError(f"{self._get_name()}: expected a table of shape {shape}, got {tuple(_weight.shape)}")
            self._packed_params.set_weight(_weight)

    def _get_name(self):
        return "QuantizedEmbedding"

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    def extra_repr(self) -> str:
        """Return what printing shows."""
        return (
            f"num_embeddings={self.num_embeddings}, embedding_dim={self.embedding_dim}, "
            f"dtype={self._packed_params.dtype}, qscheme={self.weight().qscheme()}"
        )

    def set_weight(self, w: Any) -> None:
        """Put a quantized table.

        Args:
            w: of quint8, quantized per row.

        Errors: NotImplementedError for another dtype.

        >>> table = torch.quantize_per_channel(torch.ones(3, 2), torch.ones(3), torch.zeros(3), 0, torch.quint8)
        >>> layer = torch.ao.nn.quantized.Embedding(3, 2)
        >>> layer.set_weight(table)
        >>> layer(torch.tensor([1]))
        tensor([[1., 1.]])
        """
        self._packed_params.set_weight(w)

    def weight(self) -> Tensor:
        """Return the quantized table.

        >>> torch.ao.nn.quantized.Embedding(3, 2).weight().dtype
        torch.quint8
        """
        return self._packed_params._weight()

    def _rows(self, indices):
        """Return the vectors at indices of one dimension, float32."""
        table = self.weight()
        rows = levels_of(table)[indices].float()
        scheme = table._scheme
        if hasattr(scheme, "scales"):
            return (rows - scheme.zero_points[indices].unsqueeze(1)) * scheme.scales[indices].float().unsqueeze(1)
        return scheme.values(rows)

    def forward(self, indices: Tensor) -> Tensor:
        """Return the vectors at `indices`, float32."""
        return self._rows(indices.reshape(-1)).view(*indices.shape, self.embedding_dim)

    @classmethod
    def _table(cls, mod):
        from facula.ao.quantization.qconfig import float_qparams_weight_only_qconfig

        config = getattr(mod, "qconfig", None) or float_qparams_weight_only_qconfig
        observer = config.weight()
        if observer.qscheme is not facula.per_channel_affine_float_qparams:
            raise AssertionError(
                f"{cls.__name__}.from_float: Embedding quantization is only supported with float_qparams_weight_only_qconfig, "
                f"got {observer.qscheme}"
            )
        weight = mod.weight.detach()
        observer(weight)
        return quantize_weight(weight, observer)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the quantized form of nn.Embedding; `convert` calls it.

        Args:
            mod: the layer; its qconfig, or else one of a scale and a zero point for each row, says how.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        Errors: AssertionError for a qconfig of another scheme.

        >>> layer = nn.Embedding.from_pretrained(torch.tensor([[0.0, 1.0], [2.0, 3.0]]))
        >>> torch.ao.nn.quantized.Embedding.from_float(layer)(torch.tensor([1]))
        tensor([[2.0000, 3.0000]])
        """
        table = cls._table(mod)
        return cls(mod.num_embeddings, mod.embedding_dim, _weight=table, dtype=table.dtype)


class EmbeddingBag(Embedding):
    """Compute sums, means or maxima of rows of a table of quint8; results are float32.

    Args:
        num_embeddings, embedding_dim: the shape of the table.
        mode: "sum", "mean" or "max".
        include_last_offset: as for nn.EmbeddingBag.
        _weight: a quantized table to begin with.
        dtype: quint8.
        max_norm, norm_type, scale_grad_by_freq, sparse: taken for the float module's sake.

    Example::

        >>> bag = torch.ao.nn.quantized.EmbeddingBag(10, 3)
        >>> bag(torch.tensor([1, 2, 4]), torch.tensor([0, 2])).shape
        torch.Size([2, 3])
    """

    mode: str
    pruned_weights: bool
    include_last_offset: bool

    def __init__(self, num_embeddings: int, embedding_dim: int, max_norm: float | None = None, norm_type: float = 2.0,
                 scale_grad_by_freq: bool = False, mode: str = "sum", sparse: bool = False, _weight: Tensor | None = None,
                 include_last_offset: bool = False, dtype: facula.dtype = facula.quint8) -> None:  # fmt: skip
        super().__init__(num_embeddings, embedding_dim, _weight=_weight, dtype=dtype)
        self.mode, self.pruned_weights, self.include_last_offset = mode, False, include_last_offset

    def _get_name(self):
        return "QuantizedEmbeddingBag"

    def forward(self, indices: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None,
                compressed_indices_mapping: Any = None) -> Tensor:  # fmt: skip
        """Return a row for each bag, float32."""
        used, places = facula.unique(indices.reshape(-1), return_inverse=True)
        return F.embedding_bag(
            places.view(indices.shape), self._rows(used), offsets, mode=self.mode, per_sample_weights=per_sample_weights,
            include_last_offset=self.include_last_offset,
        )  # fmt: skip

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the quantized form of nn.EmbeddingBag."""
        table = cls._table(mod)
        return cls(
            mod.num_embeddings, mod.embedding_dim, mode=mod.mode, include_last_offset=mod.include_last_offset, _weight=table,
            dtype=table.dtype,
        )  # fmt: skip
