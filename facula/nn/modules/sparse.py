"""Define embedding layers: tables whose rows are picked by integers."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import facula

from .. import functional as F
from .. import init
from ..parameter import Parameter
from .module import Module

if TYPE_CHECKING:
    from typing_extensions import Self

    from facula import Tensor
    from facula.types import Device

__all__ = ["Embedding", "EmbeddingBag"]


class _EmbeddingBase(Module):
    """Hold the table of Embedding and EmbeddingBag, and its padding row."""

    num_embeddings: int
    embedding_dim: int
    padding_idx: int | None
    max_norm: float | None
    norm_type: float
    scale_grad_by_freq: bool
    weight: facula.Tensor
    sparse: bool

    def _resolve_padding(self, padding_idx: int | None) -> int | None:
        if padding_idx is None:
            return None
        rows = self.num_embeddings
        if not -rows <= padding_idx < rows:
            raise AssertionError(
                f"{type(self).__name__}: padding_idx must be within {rows} rows, got {padding_idx}"
            )
        return padding_idx % rows

    def _set_weight(self, weight, device, dtype, frozen: bool = False) -> None:
        shape = (self.num_embeddings, self.embedding_dim)
        if weight is None:
            self.weight = Parameter(facula.empty(shape, device=device, dtype=dtype), requires_grad=not frozen)
            self.reset_parameters()
            return
        if tuple(weight.shape) != shape:
            raise AssertionError(
                f"{type(self).__name__}: _weight must have shape {shape}, got {tuple(weight.shape)}"
            )
        self.weight = Parameter(weight, requires_grad=not frozen)

    def _padding_text(self) -> str:
        return "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"

    def _norm_text(self) -> str:
        text = "" if self.max_norm is None else f", max_norm={self.max_norm}"
        if self.norm_type != 2:
            text += f", norm_type={self.norm_type}"
        if self.scale_grad_by_freq is not False:
            text += f", scale_grad_by_freq={self.scale_grad_by_freq}"
        return text

    def reset_parameters(self) -> None:
        """Draw the table anew from a standard normal distribution; the row of padding_idx becomes zeros.

        >>> embedding = nn.Embedding(4, 2, padding_idx=3)
        >>> embedding.reset_parameters()
        >>> embedding.weight[3].tolist()
        [0.0, 0.0]
        """
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with facula.no_grad():
                self.weight[self.padding_idx].fill_(0)

    @staticmethod
    def _check_pretrained(name: str, embeddings) -> None:
        if embeddings.dim() != 2:
            raise AssertionError(
                f"{name}.from_pretrained: embeddings must have 2 dimensions, got {embeddings.dim()}"
            )


class Embedding(_EmbeddingBase):
    """Look up rows of a table of vectors by their numbers.

    Args:
        num_embeddings: the number of rows of the table.
        embedding_dim: the size of a row.
        padding_idx: the number of a row that starts as zeros and gets no gradient.
        max_norm: rows that are used and whose norm is greater are scaled down to it, in place.
        norm_type: p of that norm.
        scale_grad_by_freq: if True, divide the gradient of a row by how often it occurs in the batch.
        sparse: if True, make the gradient of the table a COO tensor with an entry for each index, for `optim.SparseAdam`,
            `SGD` and `Adagrad`.
        _weight: a table that is used instead of a new one.
        _freeze: if True, do not learn the table.
        device, dtype: the device and the dtype of the table.

    Shapes: input of any shape, int64 or int32; output (..., embedding_dim). ``weight`` is (num_embeddings,
    embedding_dim), drawn from a standard normal distribution.

    Errors: AssertionError for a padding_idx that is not a row; IndexError, when called, for an index that is not a row.

    >>> embedding = nn.Embedding(10, 3, padding_idx=0)
    >>> embedding(torch.tensor([[1, 2, 4], [4, 3, 0]])).shape
    torch.Size([2, 3, 3])
    >>> embedding(torch.tensor([0])).tolist()
    [[0.0, 0.0, 0.0]]
    """

    __constants__: ClassVar[list[str]] = [
        "num_embeddings",
        "embedding_dim",
        "padding_idx",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "sparse",
    ]
    freeze: bool

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Device = None,
        dtype: facula.dtype | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx: int | None = self._resolve_padding(padding_idx)
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self._set_weight(_weight, device, dtype, _freeze)
        self.sparse = sparse

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        text = f"{self.num_embeddings}, {self.embedding_dim}{self._padding_text()}{self._norm_text()}"
        return text + (", sparse=True" if self.sparse is not False else "")

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Self:
        """Return an `Embedding` whose table is given.

        Args:
            embeddings: (num_embeddings, embedding_dim): the table; shared, not copied.
            freeze: if True, do not learn the table.
            padding_idx: a row that gets no gradient; it keeps its values.
            max_norm: rows that are used and whose norm is greater are scaled down to it, in place.
            norm_type: p of that norm.
            scale_grad_by_freq: if True, divide the gradient of a row by how often it occurs in the batch.
            sparse: if True, make the gradient of the table a COO tensor.

        Errors: AssertionError for a table that has not two dimensions.

        >>> table = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> nn.Embedding.from_pretrained(table)(torch.tensor([1]))
        tensor([[3., 4.]])
        """
        cls._check_pretrained("Embedding", embeddings)
        return cls(
            num_embeddings=embeddings.shape[0],
            embedding_dim=embeddings.shape[1],
            _weight=embeddings,
            _freeze=freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )


class EmbeddingBag(_EmbeddingBase):
    """Compute the sum, mean or maximum of the rows of a table that each bag of numbers picks, without storing the single rows.

    Args:
        num_embeddings: the number of rows of the table.
        embedding_dim: the size of a row.
        max_norm: rows that are used and whose norm is greater are scaled down to it, in place.
        norm_type: p of that norm.
        scale_grad_by_freq: if True, divide the gradient of a row by how often it occurs in the batch; not for 'max'.
        mode: 'sum', 'mean' or 'max'.
        sparse: if True, make the gradient of the table a COO tensor; not for 'max'.
        _weight: a table that is used instead of a new one.
        include_last_offset: if True, offsets ends with the number of indices, and so has an entry more than there are bags.
        padding_idx: a number that is left out of the bags; its row gets no gradient.
        device, dtype: the device and the dtype of the table.

    Shapes: called with indices (bags, length), or with all indices one after the other and offsets (bags,) that say where
    each bag begins; per_sample_weights, for 'sum', are factors in the shape of the indices. Output (bags, embedding_dim).

    Errors: AssertionError for a padding_idx that is not a row; ValueError, when called, for shapes that do not fit and an
    unknown mode; NotImplementedError for per_sample_weights with another mode than 'sum'.

    >>> bag = nn.EmbeddingBag.from_pretrained(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), mode="sum")
    >>> bag(torch.tensor([0, 1, 1, 2]), torch.tensor([0, 3]))
    tensor([[ 7., 10.],
            [ 5.,  6.]])
    """

    __constants__: ClassVar[list[str]] = [
        "num_embeddings",
        "embedding_dim",
        "max_norm",
        "norm_type",
        "scale_grad_by_freq",
        "mode",
        "sparse",
        "include_last_offset",
        "padding_idx",
    ]
    mode: str
    include_last_offset: bool

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Device = None,
        dtype: facula.dtype | None = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self.padding_idx: int | None = self._resolve_padding(padding_idx)
        self._set_weight(_weight, device, dtype)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def forward(self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}{self._norm_text()}, mode={self.mode!r}{self._padding_text()}"

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Self:
        """Return an `EmbeddingBag` whose table is given.

        Args:
            embeddings: (num_embeddings, embedding_dim): the table; shared, not copied.
            freeze: if True, do not learn the table.
            max_norm: rows that are used and whose norm is greater are scaled down to it, in place.
            norm_type: p of that norm.
            scale_grad_by_freq: if True, divide the gradient of a row by how often it occurs in the batch.
            mode: 'sum', 'mean' or 'max'.
            sparse: if True, make the gradient of the table a COO tensor.
            include_last_offset: if True, offsets ends with the number of indices.
            padding_idx: an index that is left out of the bags.

        Errors: AssertionError for a table that has not two dimensions.

        >>> bag = nn.EmbeddingBag.from_pretrained(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        >>> bag(torch.tensor([[0, 1]]))
        tensor([[2., 3.]])
        """
        cls._check_pretrained("EmbeddingBag", embeddings)
        bag = cls(
            num_embeddings=embeddings.shape[0],
            embedding_dim=embeddings.shape[1],
            _weight=embeddings,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        bag.weight.requires_grad = not freeze
        return bag
