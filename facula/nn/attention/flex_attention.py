"""Compute attention whose scores and mask are functions of the position.

A `score_mod` maps (score, batch, head, query index, key index) to a score; a `mask_mod` maps the four indices to True
where a query sees a key. Both are called once, with int64 tensors that broadcast to (B, H, Q_LEN, KV_LEN): they are written
in element-wise ops and may index other tensors.

Long because PyTorch has masks and attention in one file of this name, and each class stands there with its docstring and
example.
"""

from __future__ import annotations

import functools
import inspect
import math
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import facula
from facula import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from typing_extensions import Self

    from facula.types import Device

__all__ = [
    "BlockMask", "flex_attention", "AuxOutput", "AuxRequest", "FlexKernelOptions", "create_block_mask", "create_mask",
    "or_masks", "and_masks", "noop_mask",
]  # fmt: skip


_DEFAULT_BLOCK_SIZE = 128


# ---- Masks of attention: functions of the position, and which blocks of them are seen


def noop_mask(batch: Any, head: Any, token_q: Any, token_kv: Any) -> Tensor:
    """Return True: every query sees every key.

    Args:
        batch, head, token_q, token_kv: indices, which are not read.

    Returns: a bool tensor ().

    >>> from torch.nn.attention.flex_attention import noop_mask
    >>> noop_mask(0, 0, 1, 2)
    tensor(True)
    """
    return facula.ones((), dtype=facula.bool, device=getattr(batch, "device", None))


def and_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """Return a mask_mod that is True where all the given ones are.

    Args:
        mask_mods: functions of four indices.

    Returns: a function of four indices that returns a bool tensor.

    Errors: RuntimeError for something that cannot be called.

    >>> from torch.nn.attention.flex_attention import and_masks, create_mask
    >>> window = and_masks(lambda b, h, q, k: q >= k, lambda b, h, q, k: q - k < 2)
    >>> create_mask(window, 1, 1, 3, 3).int()
    tensor([[[[1, 0, 0],
              [1, 1, 0],
              [0, 1, 1]]]], dtype=torch.int32)
    """
    _check_functions("and_masks", mask_mods)
    return lambda b, h, q, k: functools.reduce(lambda seen, mod: seen & mod(b, h, q, k), mask_mods, noop_mask(b, h, q, k))


def or_masks(*mask_mods: Callable[..., Any]) -> Callable[..., Any]:
    """Return a mask_mod that is True where at least one of the given ones is.

    Args:
        mask_mods: functions of four indices.

    Returns: a function of four indices that returns a bool tensor.

    Errors: RuntimeError for something that cannot be called.

    >>> from torch.nn.attention.flex_attention import create_mask, or_masks
    >>> create_mask(or_masks(lambda b, h, q, k: q == k, lambda b, h, q, k: k < 1), 1, 1, 3, 3).int()
    tensor([[[[1, 0, 0],
              [1, 1, 0],
              [1, 0, 1]]]], dtype=torch.int32)
    """
    _check_functions("or_masks", mask_mods)
    return lambda b, h, q, k: functools.reduce(lambda seen, mod: seen | mod(b, h, q, k), mask_mods, ~noop_mask(b, h, q, k))


def _check_functions(name, mods):
    for mod in mods:
        if not callable(mod):
            raise RuntimeError(f"{name}: all arguments must be callable, got {mod!r}")


def _indices(sizes, device):
    """Return an index tensor for each of the four dimensions, (size, 1, 1, 1), (1, size, 1, 1), ..."""
    shapes = [[-1 if i == d else 1 for i in range(4)] for d in range(4)]
    return [facula.arange(size, device=device).view(shape) for size, shape in zip(sizes, shapes)]


def create_mask(mod_fn: Callable[..., Any], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,
                device: facula.device | str | None = None) -> Tensor:  # fmt: skip
    """Return the values of a mask_mod (bool), or those of a score_mod for scores of 0.

    Args:
        mod_fn: a function of four indices, or of a score and four indices.
        B, H: the batch size and the number of heads; None for 1.
        Q_LEN, KV_LEN: the numbers of queries and keys.
        device: the device of the result.

    Returns: (B, H, Q_LEN, KV_LEN).

    Errors: AssertionError for a function of another number of arguments.

    >>> from torch.nn.attention.flex_attention import create_mask
    >>> create_mask(lambda b, h, q, k: q >= k, 1, 1, 2, 3)
    tensor([[[[ True, False, False],
              [ True,  True, False]]]])
    """
    sizes = (B or 1, H or 1, Q_LEN, KV_LEN)
    indices = _indices(sizes, device)
    count = sum(p.default is p.empty for p in inspect.signature(mod_fn).parameters.values())
    if count not in (4, 5):
        raise AssertionError(f"create_mask: expected a function of 4 indices, or of a score and them, got {count} arguments")
    values = mod_fn(*indices) if count == 4 else mod_fn(facula.zeros(sizes, device=device), *indices)
    return values.expand(sizes)


def _pair(block_size):
    return (block_size, block_size) if isinstance(block_size, int) else tuple(block_size)


def _ordered(dense):
    """Return (counts, indices) of a dense block matrix: the blocks of each row, first those that are there."""
    counts = dense.sum(-1).to(facula.int32)
    indices = facula.argsort(dense.to(facula.int32), dim=-1, descending=True, stable=True)
    return counts, indices.to(facula.int32).contiguous()


def _dense(counts, indices, columns=None):
    """Return the matrix of 0 and 1 that `_ordered` came from."""
    there = facula.arange(indices.shape[-1], device=indices.device) < counts.unsqueeze(-1)
    width = indices.shape[-1] if columns is None else columns
    result = facula.zeros((*indices.shape[:-1], width), dtype=facula.int32, device=indices.device)
    return result.scatter_add_(-1, indices.to(facula.int64), there.to(facula.int32))


class BlockMask:
    """Describe by blocks which keys each query attends to: every block of queries lists the blocks of keys that it
    attends to wholly (`full`) or in part. `create_block_mask` makes it.

    Args:
        seq_lengths: (Q_LEN, KV_LEN).
        kv_num_blocks, kv_indices: (B, H, rows) and (B, H, rows, columns), int32: for each block of queries the number of
            blocks that it sees in part, and their indices, followed by the others.
        full_kv_num_blocks, full_kv_indices: the same for blocks that it sees wholly, or None.
        q_num_blocks, q_indices, full_q_num_blocks, full_q_indices: the same for each block of keys, or None.
        BLOCK_SIZE: the rows and columns of a block, or one number for both.
        mask_mod: the mask within blocks that are seen in part.
        dq_write_order, dq_write_order_full, dq_kv_order, dq_kv_order_spt: orders for compiled kernels: stored without effect.

    All but the last four are attributes.

    Errors: RuntimeError for indices of fewer than 2 dimensions; AssertionError for one of num_blocks and indices without the
    other.

    >>> from torch.nn.attention.flex_attention import create_block_mask
    >>> mask = create_block_mask(lambda b, h, q, k: q <= k, 1, 1, 6, 6, BLOCK_SIZE=2)
    >>> mask.to_dense(), mask.sparsity(), mask.numel()
    (tensor([[[[1, 1, 1],
              [0, 1, 1],
              [0, 0, 1]]]], dtype=torch.int32), 33.333333333333336, 36)
    >>> mask.kv_num_blocks, mask.full_kv_num_blocks
    (tensor([[[1, 1, 1]]], dtype=torch.int32), tensor([[[2, 1, 0]]], dtype=torch.int32))
    >>> print(mask.to_string())
    (0, 0)
    ██████
      ████
        ██
    >>> mask.to("cpu").shape, len(mask.as_tuple())
    ((1, 1, 6, 6), 17)
    """

    _TENSORS = tuple(
        f"{full}{side}_{what}" for side in ("kv", "q") for full in ("", "full_") for what in ("num_blocks", "indices")
    )
    kv_num_blocks: Tensor
    kv_indices: Tensor
    full_kv_num_blocks: Tensor | None
    full_kv_indices: Tensor | None
    q_num_blocks: Tensor | None
    q_indices: Tensor | None
    full_q_num_blocks: Tensor | None
    full_q_indices: Tensor | None
    dq_write_order: Any
    dq_write_order_full: Any

    def __init__(self, seq_lengths: Sequence[int], kv_num_blocks: Tensor, kv_indices: Tensor,
                 full_kv_num_blocks: Tensor | None, full_kv_indices: Tensor | None, q_num_blocks: Tensor | None,
                 q_indices: Tensor | None, full_q_num_blocks: Tensor | None, full_q_indices: Tensor | None,
                 BLOCK_SIZE: int | Sequence[int] = (_DEFAULT_BLOCK_SIZE, _DEFAULT_BLOCK_SIZE),
                 mask_mod: Callable[..., Any] = noop_mask, *, dq_write_order: Any = None, dq_write_order_full: Any = None,
                 dq_kv_order: Any = None, dq_kv_order_spt: Any = None) -> None:  # fmt: skip
        if kv_indices.dim() < 2:
            raise RuntimeError(f"BlockMask: kv_indices must have 2 dimensions or more, got {kv_indices.dim()}")
        for name in ("kv", "q"):
            counts, indices = locals()[f"full_{name}_num_blocks"], locals()[f"full_{name}_indices"]
            if (counts is None) != (indices is None):
                raise AssertionError(f"BlockMask: full_{name}_num_blocks and full_{name}_indices go together, got one of them")
        values = locals()
        for name in self._TENSORS:
            setattr(self, name, values[name])
        self.seq_lengths: tuple[Any, ...] = tuple(seq_lengths)
        self.BLOCK_SIZE: tuple[Any, ...] = _pair(BLOCK_SIZE)
        self.mask_mod = mask_mod
        self.dq_write_order, self.dq_write_order_full = dq_write_order, dq_write_order_full
        self._dq_kv_order, self._dq_kv_order_spt = dq_kv_order, dq_kv_order_spt

    @classmethod
    def from_kv_blocks(cls, kv_num_blocks: Tensor, kv_indices: Tensor, full_kv_num_blocks: Tensor | None = None,
                       full_kv_indices: Tensor | None = None, BLOCK_SIZE: Sequence[int] | int = _DEFAULT_BLOCK_SIZE,
                       mask_mod: Callable[..., Any] | None = None, seq_lengths: Sequence[int] | None = None,
                       compute_q_blocks: bool = True, **order: Any) -> Self:  # fmt: skip
        """Return the mask of the blocks that each block of queries sees; those of each block of keys follow from them.

        Args:
            kv_num_blocks, kv_indices: (B, H, rows) and (B, H, rows, columns), int32: for each block of queries the number of
                blocks that it sees in part, and their indices, followed by the others.
            full_kv_num_blocks, full_kv_indices: of the blocks that it sees wholly, or None.
            BLOCK_SIZE: rows and columns of a block, or one number for both.
            mask_mod: the mask within blocks that are seen in part; default: everything.
            seq_lengths: (Q_LEN, KV_LEN); default: those of whole blocks.
            compute_q_blocks: if True, compute those of each block of keys.
            order: orders for compiled kernels: without effect.

        Errors: RuntimeError for indices of fewer than 2 dimensions; AssertionError for one of num_blocks and indices without
        the
        other.

        >>> from torch.nn.attention.flex_attention import BlockMask
        >>> counts, indices = torch.tensor([[[1, 2]]]).int(), torch.tensor([[[[0, 1], [0, 1]]]]).int()
        >>> BlockMask.from_kv_blocks(counts, indices, BLOCK_SIZE=4).to_dense()
        tensor([[[[1, 0],
                  [1, 1]]]], dtype=torch.int32)
        """
        if kv_indices.dim() < 2:
            raise RuntimeError(f"BlockMask: kv_indices must have 2 dimensions or more, got {kv_indices.dim()}")
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError("BlockMask: full_kv_num_blocks and full_kv_indices go together, got one of them")
        size = _pair(BLOCK_SIZE)
        if seq_lengths is None:
            seq_lengths = (kv_indices.shape[-2] * size[0], kv_indices.shape[-1] * size[1])

        def turned(counts, indices):
            if counts is None or not compute_q_blocks:
                return None, None
            return _ordered(_dense(counts, indices).transpose(-1, -2))

        return cls(
            seq_lengths, kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices, *turned(kv_num_blocks, kv_indices),
            *turned(full_kv_num_blocks, full_kv_indices), size, mask_mod or noop_mask,
        )  # fmt: skip

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(B, H, Q, K) of the scores that are masked."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def as_tuple(self, flatten: bool = True) -> Any:
        """Return the arguments of the constructor.

        Args:
            flatten: if True, return a flat tuple.
        """
        head, size = (self.seq_lengths, self.BLOCK_SIZE) if flatten else ((self.seq_lengths,), (self.BLOCK_SIZE,))
        order = (self.dq_write_order, self.dq_write_order_full, self._dq_kv_order, self._dq_kv_order_spt)
        return (*head, *(getattr(self, name) for name in self._TENSORS), *order, *size, self.mask_mod)

    def numel(self) -> int:
        """Count the pairs of a query and a key the mask describes."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """Return the percentage of pairs in blocks that are left out; negative when blocks reach far over the end."""
        blocks = self.kv_num_blocks.sum().item()
        if self.full_kv_num_blocks is not None:
            blocks += self.full_kv_num_blocks.sum().item()
        return 100 * (1 - blocks * math.prod(self.BLOCK_SIZE) / self.numel())

    def to_dense(self) -> Tensor:
        """Return (B, H, rows, columns), int32: 1 for every block that is seen wholly or in part."""
        dense = _dense(self.kv_num_blocks, self.kv_indices)
        return dense if self.full_kv_num_blocks is None else dense | _dense(self.full_kv_num_blocks, self.full_kv_indices)

    def _map(self, function):
        tensors = [None if (t := getattr(self, name)) is None else function(t) for name in self._TENSORS]
        return BlockMask(self.seq_lengths, *tensors, self.BLOCK_SIZE, self.mask_mod)

    def to(self, device: Device) -> BlockMask:
        """Return the same mask with its tensors on a device.

        Args:
            device: a device or its name.
        """
        return self._map(lambda t: t.to(device))

    def __getitem__(self, index: Sequence[int | slice] | int) -> BlockMask:
        """Return the masks of some batch entries and heads; a dimension taken by a number stays, with size 1."""
        index = index if isinstance(index, tuple) else (index,)
        if any(i is Ellipsis for i in index) or len(index) > 2:
            raise IndexError(f"BlockMask: an index of the batch and one of the head are expected, got {index}")
        # `or None` is for the index -1, whose slice would end at 0.
        kept = tuple(slice(i, i + 1 or None) if isinstance(i, int) else i for i in index)
        return self._map(lambda t: t[kept])

    def _adjust(self, new_q_len, new_kv_len):
        """Return the upper left part for shorter sequences."""
        rows, columns = (-(-n // size) for n, size in zip((new_q_len, new_kv_len), self.BLOCK_SIZE))

        def cut(counts, indices):
            return (None, None) if counts is None else _ordered(_dense(counts, indices)[..., :rows, :columns])

        parts = cut(self.kv_num_blocks, self.kv_indices), cut(self.full_kv_num_blocks, self.full_kv_indices)
        return BlockMask.from_kv_blocks(*parts[0], *parts[1], self.BLOCK_SIZE, self.mask_mod, (new_q_len, new_kv_len))

    def to_string(self, grid_size: Sequence[int] = (20, 20), limit: int = 4) -> str:
        """Return pictures of the first masks: blocks that are seen wholly, in part, and not at all.

        Args:
            grid_size: the largest number of lines and characters, or one for both; larger masks are shrunk.
            limit: of how many masks.
        """
        dense = self.to_dense()
        batch = dense.shape[:-2]
        pictures = []
        for i, matrix in enumerate(dense.reshape(-1, *dense.shape[-2:])):
            if i == limit:
                pictures.append("...")
                break
            place = [i // math.prod(batch[d + 1 :]) % n for d, n in enumerate(batch)]
            pictures.append(f"{tuple(place)}\n{_picture(matrix, grid_size)}")
        return "\n".join(pictures)

    def __repr__(self) -> str:
        lines = [f"{name}={t if t is None else t.shape}" for name in self._TENSORS for t in [getattr(self, name)]]
        lines += [f"BLOCK_SIZE={self.BLOCK_SIZE}", f"shape={tuple(self.shape)}", f"sparsity={self.sparsity():.2f}%"]
        lines.append(f"mask_mod={getattr(self.mask_mod, '__name__', self.mask_mod)}")
        return "BlockMask(\n    " + ",\n    ".join(lines) + "\n)"

    def __str__(self) -> str:
        picture = self.to_string()
        return f"BlockMask(shape={tuple(self.shape)}, sparsity={self.sparsity():.2f}%, \n{picture}\n)"


def _picture(matrix, grid_size):
    rows, columns = grid_size if isinstance(grid_size, tuple) else (grid_size, grid_size)
    height, width = (max(1, -(-n // limit)) for n, limit in zip(matrix.shape, (rows, columns)))
    lines = []
    for top in range(0, matrix.shape[0], height):
        cells = [matrix[top : top + height, left : left + width] for left in range(0, matrix.shape[1], width)]
        shares = [cell.float().mean().item() for cell in cells]
        lines.append("".join("██" if s == 1 else "░░" if s > 0 else "  " for s in shares))
    return "\n".join(lines)


def create_block_mask(mask_mod: Callable[..., Any], B: int | None, H: int | None, Q_LEN: int, KV_LEN: int,
                      device: facula.device | str | None = None, BLOCK_SIZE: Sequence[int] | int = _DEFAULT_BLOCK_SIZE,
                      _compile: bool = False, separate_full_blocks: bool = True, compute_dq_write_order: bool = False,
                      dq_kv_order: bool = True) -> BlockMask:  # fmt: skip
    """Return the blocks of a mask_mod.

    Args:
        mask_mod: a function of four indices (batch, head, query, key) that returns True where a query sees a key. It is called
            once, with tensors.
        B, H: the batch size and the number of heads; None or 1 for a mask that is the same for all.
        Q_LEN, KV_LEN: the numbers of queries and keys.
        device: the device of the mask.
        BLOCK_SIZE: the rows and columns of a block, or one number for both.
        separate_full_blocks: if True, list blocks without a hidden pair apart, where the mask need not be applied.
        compute_dq_write_order, dq_kv_order: accepted without effect: they are for compiled kernels.

    Returns: a `BlockMask` of the shape (B, H, Q_LEN, KV_LEN).

    Errors: AssertionError for something that cannot be called.

    >>> from torch.nn.attention.flex_attention import create_block_mask
    >>> create_block_mask(lambda b, h, q, k: q >= k, None, None, 256, 256).to_dense()
    tensor([[[[1, 0],
              [1, 1]]]], dtype=torch.int32)
    """
    if not callable(mask_mod):
        raise AssertionError(f"create_block_mask: mask_mod must be a function of four indices, got {mask_mod!r}")
    size = _pair(BLOCK_SIZE)
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device).to(facula.bool)
    rows, columns = (-(-n // s) for n, s in zip((Q_LEN, KV_LEN), size))
    padded = facula.zeros((*mask.shape[:2], rows * size[0], columns * size[1]), dtype=facula.int64, device=mask.device)
    # The last blocks are filled up with zeros, so that they count as full only if they end where the sequences do.
    padded[..., :Q_LEN, :KV_LEN] = mask
    counts = padded.view(*mask.shape[:2], rows, size[0], columns, size[1]).sum((3, 5))
    whole = counts == math.prod(size)
    full = (None, None)
    partly = counts > 0
    if separate_full_blocks:
        full = _ordered(whole)
        partly = partly & ~whole
    return BlockMask.from_kv_blocks(*_ordered(partly), *full, size, mask_mod, (Q_LEN, KV_LEN))


_DEFAULT_SPARSE_BLOCK_SIZE = _DEFAULT_BLOCK_SIZE


class AuxRequest(NamedTuple):
    """Request what `flex_attention` returns besides the result.

    Args:
        lse: if True, the logarithm of the sum of exponentials of the scores of each query.
        max_scores: if True, the largest score of each query.

    >>> from torch.nn.attention.flex_attention import AuxRequest
    >>> AuxRequest(lse=True)
    AuxRequest(lse=True, max_scores=False)
    """

    lse: bool = False
    max_scores: bool = False


class AuxOutput(NamedTuple):
    """Hold what an `AuxRequest` requested; None for the rest.

    Args:
        lse: (B, H, Q_LEN), the logarithm of the sum of exponentials of the scores.
        max_scores: (B, H, Q_LEN), the largest scores.

    >>> from torch.nn.attention.flex_attention import AuxRequest, flex_attention
    >>> x = torch.zeros(1, 1, 4, 2)
    >>> _, aux = flex_attention(x, x, x, return_aux=AuxRequest(lse=True))
    >>> aux.lse, aux.max_scores
    (tensor([[[1.3863, 1.3863, 1.3863, 1.3863]]]), None)
    """

    lse: Tensor | None = None
    max_scores: Tensor | None = None


class FlexKernelOptions(TypedDict, total=False):
    """List options of PyTorch's compiled kernels, as a dict. `flex_attention` accepts and ignores them.

    >>> from torch.nn.attention.flex_attention import FlexKernelOptions
    >>> FlexKernelOptions(BLOCK_M=64, num_warps=4)
    {'BLOCK_M': 64, 'num_warps': 4}
    """

    num_warps: int
    num_stages: int
    BLOCK_M: int
    BLOCK_N: int
    BLOCK_M1: int
    BLOCK_N1: int
    BLOCK_M2: int
    BLOCK_N2: int
    kpack: int
    matrix_instr_nonkdim: int
    waves_per_eu: int
    PRESCALE_QK: bool
    ROWS_GUARANTEED_SAFE: bool
    BLOCKS_ARE_CONTIGUOUS: bool
    WRITE_DQ: bool
    FORCE_USE_FLEX_ATTENTION: bool
    USE_TMA: bool
    BACKEND: str


def _check(query, key, value, block_mask, enable_gqa):
    if any(t.dim() != 4 for t in (query, key, value)):
        raise NotImplementedError(
            f"flex_attention: query, key and value must have 4 dimensions, got {query.dim()}, {key.dim()} and {value.dim()}"
        )
    (b_q, h_q, q_len, e), (b_k, h_k, kv_len, _) = query.shape, key.shape
    if not enable_gqa and h_q != h_k:
        raise ValueError(
            f"flex_attention: expected as many key heads as query heads, or enable_gqa=True, got {h_q} and {h_k} heads"
        )
    if enable_gqa and h_q % h_k:
        raise ValueError(f"flex_attention: the query heads must be a multiple of the key heads, got {h_q} and {h_k}")
    if b_q != b_k and not (b_k == 1 or (b_q == 1 and block_mask is not None)):
        raise ValueError(f"flex_attention: expected query and key of one batch size, got {b_q} and {b_k}")
    if key.shape[-1] != e or value.shape[:-1] != key.shape[:-1]:
        raise ValueError(
            f"flex_attention: query and key must have one head size, key and value one length, got shapes "
            f"{tuple(query.shape)}, {tuple(key.shape)} and {tuple(value.shape)}"
        )
    if block_mask is not None and block_mask.shape[-2:] != (q_len, kv_len):
        raise ValueError(
            f"flex_attention: the block_mask is for lengths {tuple(block_mask.shape[-2:])}, got {(q_len, kv_len)}"
        )


def _seen(block_mask, indices, q_len, kv_len):
    """Return the bool mask of a BlockMask: within the blocks that are there, what mask_mod says."""
    rows, columns = block_mask.BLOCK_SIZE
    there = block_mask.to_dense().repeat_interleave(rows, -2).repeat_interleave(columns, -1)
    there = there[..., :q_len, :kv_len].to(facula.bool)
    return there & block_mask.mask_mod(*indices)


def flex_attention(query: Tensor, key: Any, value: Any, score_mod: Callable[..., Any] | None = None,
                   block_mask: BlockMask | None = None, scale: float | None = None, enable_gqa: bool = False,
                   return_lse: bool = False, kernel_options: Any = None, *,
                   return_aux: AuxRequest | None = None) -> Any:  # fmt: skip
    """Return ``softmax(score_mod(query @ key.T * scale)) @ value``, where pairs that the mask hides are left out.

    Args:
        query: the queries, (B, H, Q_LEN, E).
        key: the keys, (B, H or fewer with enable_gqa, KV_LEN, E).
        value: the values, (B, as key, KV_LEN, E_v).
        score_mod: a function (score, batch, head, query index, key index) that returns a score, or None. It is called once,
            with tensors.
        block_mask: a `BlockMask`, or None for everything.
        scale: the factor of scores. Default: 1 / sqrt(E).
        enable_gqa: if True, there may be fewer key than query heads; their number must divide that of the query heads.
        return_lse: if True, also return the logarithm of the sum of exponentials of the scores, (B, H, Q_LEN).
        kernel_options: accepted without effect: they are for compiled kernels.
        return_aux: an `AuxRequest`, for which an `AuxOutput` is returned, too.

    A query that sees nothing gets zeros. Scores are computed in float32, for float64 in float64.

    Returns: (B, H, Q_LEN, E_v), or a pair with what return_lse or return_aux request.

    Errors: NotImplementedError for other than 4 dimensions; ValueError for shapes that do not fit, or return_lse with
    return_aux.

    >>> from torch.nn.attention.flex_attention import create_block_mask, flex_attention
    >>> query = key = torch.zeros(1, 1, 3, 2)
    >>> value = torch.arange(3.0).reshape(1, 1, 3, 1)
    >>> causal = create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 3, 3)
    >>> flex_attention(query, key, value, block_mask=causal).flatten()
    tensor([0.0000, 0.5000, 1.0000])
    >>> flex_attention(query, key, value, score_mod=lambda score, b, h, q, k: score + 100.0 * (k == 2)).flatten()
    tensor([2., 2., 2.])
    """
    _check(query, key, value, block_mask, enable_gqa)
    if return_lse and return_aux is not None:
        raise ValueError("flex_attention: expected return_lse or return_aux, got both")
    if enable_gqa:
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    wide = facula.float64 if query.dtype == facula.float64 else facula.float32
    scale = 1.0 / math.sqrt(query.shape[-1]) if scale is None else scale
    scores = (query.to(wide) @ key.to(wide).transpose(-2, -1)) * scale
    indices = _indices(scores.shape, query.device)
    if score_mod is not None:
        scores = score_mod(scores, *indices).to(wide)
    if block_mask is not None:
        seen = _seen(block_mask, indices, *scores.shape[-2:])
        scores = scores.masked_fill(~seen, -math.inf)
    # Softmax is the same whatever is subtracted from all scores, so no gradient goes through the maximum.
    top = scores.detach().amax(-1, keepdim=True)
    # The scores of a query that sees no key are all -inf, and -inf - -inf would be NaN; it gets zeros.
    weights = (scores - top.masked_fill(top == -math.inf, 0.0)).exp()
    total = weights.sum(-1, keepdim=True)
    result = ((weights / total.masked_fill(total == 0, 1.0)) @ value.to(wide)).to(query.dtype)
    if not return_lse and return_aux is None:
        return result
    lse = (total.log() + top).squeeze(-1)
    if return_lse:
        return result, lse
    return result, AuxOutput(lse if return_aux.lse else None, top.squeeze(-1) if return_aux.max_scores else None)
