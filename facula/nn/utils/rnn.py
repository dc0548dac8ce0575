"""Pack sequences of different lengths in one tensor, or pad them to one length."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable
from typing import TYPE_CHECKING

import facula
from facula import _C

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpad_sequence",
    "pack_sequence",
    "unpack_sequence",
]

_PackedSequence = namedtuple("PackedSequence", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])
_PackedSequence.__annotations__ = {
    "data": facula.Tensor,
    "batch_sizes": facula.Tensor,
    "sorted_indices": facula.Tensor,
    "unsorted_indices": facula.Tensor,
}


class PackedSequence(_PackedSequence):
    """Hold sequences without padding: all their first steps, then all second steps, ..., longest sequence first.

    `pack_padded_sequence` and `pack_sequence` make it, recurrent layers take and return it.

    Args:
        data: (sum of lengths, ...), or (data, batch_sizes).
        batch_sizes: the number of sequences that have each step, (longest length,), int64 on the CPU.
        sorted_indices: the original positions of the sorted sequences, (N,), or None when they were sorted.
        unsorted_indices: the inverse permutation; default: computed.

    Errors: ValueError for batch_sizes that are not on the CPU, or none.

    >>> packed = nn.utils.rnn.pack_sequence([torch.tensor([1.0, 2.0, 3.0]), torch.tensor([4.0, 5.0])])
    >>> packed.data, packed.batch_sizes
    (tensor([1., 4., 2., 5., 3.]), tensor([2, 2, 1]))
    >>> floats = packed.double(), packed.float(), packed.half()
    >>> whole = packed.long(), packed.int(), packed.short(), packed.char(), packed.byte()
    >>> [each.data.dtype for each in floats], [each.data.dtype for each in whole][-2:]
    ([torch.float64, torch.float32, torch.float16], [torch.int8, torch.uint8])
    >>> packed.cpu() is packed, packed.to(torch.float64).data.dtype, packed.is_pinned()
    (True, torch.float64, False)
    """

    def __new__(cls, data: Any, batch_sizes: Tensor | None = None, sorted_indices: Tensor | None = None,
                unsorted_indices: Tensor | None = None) -> Self:  # fmt: skip
        if batch_sizes is not None and batch_sizes.device.type != "cpu":
            raise ValueError(f"PackedSequence: batch_sizes must be on the CPU, got {batch_sizes.device}")
        if batch_sizes is None:
            # An old form of the call gives (data, batch_sizes) as one argument.
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise ValueError(f"PackedSequence: needs data and batch_sizes, got {type(data).__name__}")
            data, batch_sizes = data
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def pin_memory(self) -> Self:
        """Return the sequences in page-locked memory, from which copies to a GPU can run beside other work.

        >>> packed = nn.utils.rnn.pack_sequence([torch.tensor([1.0, 2.0])])
        >>> if torch.cuda.is_available():
        ...     assert packed.pin_memory().is_pinned()
        """
        return type(self)(
            self.data.pin_memory(),
            self.batch_sizes,
            None if self.sorted_indices is None else self.sorted_indices.pin_memory(),
            None if self.unsorted_indices is None else self.unsorted_indices.pin_memory(),
        )

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Return the sequences with moved or converted ``data``; indices follow its device. Itself where nothing changes.

        Args:
            args, kwargs: what ``Tensor.to`` takes.
        """
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        kwargs = {key: value for key, value in kwargs.items() if key not in ("device", "dtype")}
        sorted_indices = self.sorted_indices
        unsorted_indices = self.unsorted_indices
        if sorted_indices is not None:
            sorted_indices = sorted_indices.to(data.device, **kwargs)
        if unsorted_indices is not None:
            unsorted_indices = unsorted_indices.to(data.device, **kwargs)
        return type(self)(data, self.batch_sizes, sorted_indices, unsorted_indices)

    def cuda(self, *args: Any, **kwargs: Any) -> Self:
        """Return the sequences on a CUDA device.

        Args:
            args, kwargs: what ``Tensor.to`` takes; by default ``device="cuda"``.

        >>> packed = nn.utils.rnn.pack_sequence([torch.tensor([1.0, 2.0])])
        >>> if torch.cuda.is_available():
        ...     assert packed.cuda().is_cuda
        """
        return self.to(*args, device="cuda", **kwargs) if not args else self.to(*args, **kwargs)

    def cpu(self, *args: Any, **kwargs: Any) -> Self:
        """Return the sequences on the CPU; itself where they are there.

        Args:
            args, kwargs: what ``Tensor.to`` takes beside the device.
        """
        return self.to(*args, device="cpu", **kwargs)

    def double(self) -> Self:
        """Convert to float64."""
        return self.to(dtype=facula.float64)

    def float(self) -> Self:
        """Convert to float32."""
        return self.to(dtype=facula.float32)

    def half(self) -> Self:
        """Convert to float16."""
        return self.to(dtype=facula.float16)

    def long(self) -> Self:
        """Convert to int64."""
        return self.to(dtype=facula.int64)

    def int(self) -> Self:
        """Convert to int32."""
        return self.to(dtype=facula.int32)

    def short(self) -> Self:
        """Convert to int16."""
        return self.to(dtype=facula.int16)

    def char(self) -> Self:
        """Convert to int8."""
        return self.to(dtype=facula.int8)

    def byte(self) -> Self:
        """Convert to uint8."""
        return self.to(dtype=facula.uint8)

    @property
    def is_cuda(self) -> bool:
        """Whether the data are on a CUDA device."""
        return self.data.is_cuda

    def is_pinned(self) -> bool:
        """Return whether the data are in page-locked memory."""
        return self.data.is_pinned()


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the permutation that undoes a permutation.

    Args:
        permutation: a vector of integers, or None, for which None is returned.

    Returns: a vector of the same size, or None.

    >>> nn.utils.rnn.invert_permutation(torch.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    if permutation is None:
        return None
    places = facula.arange(0, permutation.numel(), device=permutation.device)
    return facula.empty_like(permutation).scatter_(0, permutation, places.to(permutation.dtype))


def pack_padded_sequence(
    input: Tensor, lengths: Tensor | Sequence[int], batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Pack padded sequences: store their steps without the padding.

    Args:
        input: (T, N, ...), or (N, T, ...) with batch_first.
        lengths: the length of each sequence, (N,), a list or a CPU tensor.
        batch_first: if True, the batch is dimension 0.
        enforce_sorted: if True, require lengths in decreasing order; otherwise sort the sequences here.

    Returns: a `PackedSequence`, whose data are (sum of lengths, ...).

    Errors: RuntimeError for lengths that are not positive, too long, another number of them, or not in order.

    >>> padded = torch.tensor([[1, 2, 0], [3, 0, 0], [4, 5, 6]])
    >>> packed = nn.utils.rnn.pack_padded_sequence(padded, [2, 1, 3], batch_first=True, enforce_sorted=False)
    >>> packed.data, packed.batch_sizes, packed.sorted_indices
    (tensor([4, 1, 3, 5, 2, 6]), tensor([3, 2, 1]), tensor([2, 0, 1]))
    """
    lengths = facula.as_tensor(lengths, dtype=facula.int64, device="cpu")
    sorted_indices = None
    if not enforce_sorted:
        lengths, sorted_indices = facula.sort(lengths, descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    if batch_first:
        input = input.transpose(0, 1)
    sizes = lengths.tolist()
    _check_lengths(sizes, input)
    batch_sizes = [sum(length > step for length in sizes) for step in range(sizes[0])]
    data = facula.cat([input[step, :n] for step, n in enumerate(batch_sizes)])
    return PackedSequence(data, facula.tensor(batch_sizes, dtype=facula.int64), sorted_indices, None)


def _check_lengths(lengths: list[int], input) -> None:
    name = "pack_padded_sequence"
    if input.numel() == 0 and not lengths:
        raise RuntimeError(f"{name}: cannot pack an empty tensor, got shape {tuple(input.shape)}")
    if len(lengths) != input.size(1):
        raise RuntimeError(
            f"{name}: needs one length for each of {input.size(1)} sequences, got {len(lengths)}"
        )
    if lengths[-1] <= 0:
        raise RuntimeError(f"{name}: lengths must be positive, got {lengths}")
    if any(a < b for a, b in zip(lengths, lengths[1:])):
        raise RuntimeError(
            f"{name}: lengths must be sorted in decreasing order, got {lengths}. You can pass `enforce_sorted=False` to sort "
            "here"
        )
    if lengths[0] > input.size(0):
        raise RuntimeError(f"{name}: lengths must be at most {input.size(0)}, got {lengths[0]}")


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Undo `pack_padded_sequence`: return the padded sequences in the original order, and their lengths.

    Args:
        sequence: a `PackedSequence`.
        batch_first: if True, return (N, T, ...) instead of (T, N, ...).
        padding_value: the number that the padding has.
        total_length: T. Default: the length of the longest sequence.

    Returns: a pair of the sequences, (T, N, ...) or (N, T, ...), and the lengths, (N,), int64 on the CPU.

    Errors: ValueError for a total_length that is too short.

    >>> packed = nn.utils.rnn.pack_sequence([torch.tensor([1, 2, 3]), torch.tensor([4])])
    >>> nn.utils.rnn.pad_packed_sequence(packed, batch_first=True, padding_value=-1)
    (tensor([[ 1,  2,  3],
            [ 4, -1, -1]]), tensor([3, 1]))
    """
    batch_sizes = sequence.batch_sizes.tolist()
    longest = len(batch_sizes)
    if total_length is not None:
        if total_length < longest:
            raise ValueError(
                f"pad_packed_sequence: total_length must be at least {longest}, the longest length, got "
                f"{total_length}"
            )
        longest = total_length
    steps = sequence.data.split(batch_sizes)
    lengths = [sum(n > i for n in batch_sizes) for i in range(batch_sizes[0])]
    padded = pad_sequence(
        [facula.stack([step[i] for step in steps[:length]]) for i, length in enumerate(lengths)],
        batch_first,
        padding_value,
    )
    time_dim = 1 if batch_first else 0
    missing = longest - padded.size(time_dim)
    if missing > 0:
        shape = list(padded.shape)
        shape[time_dim] = missing
        padded = facula.cat([padded, padded.new_full(shape, padding_value)], time_dim)
    length_tensor = facula.tensor(lengths, dtype=facula.int64)
    unsorted_indices = sequence.unsorted_indices
    if unsorted_indices is not None:
        padded = padded.index_select(0 if batch_first else 1, unsorted_indices)
        length_tensor = length_tensor.index_select(0, unsorted_indices.cpu())
    return padded, length_tensor


def pad_sequence(
    sequences: Sequence[Tensor], batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Stack sequences, padded to the longest length.

    Args:
        sequences: an iterable of tensors (length, ...) that agree behind dimension 0.
        batch_first: if True, the batch is dimension 0.
        padding_value: the number that the padding has.
        padding_side: 'right' or 'left'.

    Returns: (T, N, ...), or (N, T, ...) with batch_first.

    Errors: RuntimeError for no sequences, other shapes, or another padding_side.

    >>> sequences = [torch.tensor([1, 2, 3]), torch.tensor([4])]
    >>> nn.utils.rnn.pad_sequence(sequences, batch_first=True)
    tensor([[1, 2, 3],
            [4, 0, 0]])
    >>> nn.utils.rnn.pad_sequence(sequences, batch_first=True, padding_side="left")
    tensor([[1, 2, 3],
            [0, 0, 4]])
    """
    if isinstance(sequences, facula.Tensor):
        sequences = sequences.unbind(0)
    if not isinstance(sequences, Iterable):
        raise RuntimeError(f"pad_sequence: sequences must be iterable, got {type(sequences).__name__}")
    sequences = tuple(sequences)
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"pad_sequence: padding_side must be {_C._one_of(padding_side, ('left', 'right'))}")
    if not sequences:
        raise RuntimeError("pad_sequence: needs at least one sequence, got none")
    longest = max(s.size(0) for s in sequences)
    rest = tuple(sequences[0].shape[1:])
    pieces = []  # all in one row: a sequence, what it lacks, the next sequence, ...
    fill = sequences[0].new_full((longest, *rest), padding_value)
    for s in sequences:
        if tuple(s.shape[1:]) != rest:
            raise RuntimeError(
                f"pad_sequence: sequences must agree after dimension 0 {rest}, got shape {tuple(s.shape)}"
            )
        filler = fill[s.size(0) :]
        pieces += [s, filler] if padding_side == "right" else [filler, s]
    padded = facula.cat(pieces).view(len(sequences), longest, *rest)
    return padded if batch_first else padded.transpose(0, 1).contiguous()


def unpad_sequence(padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False) -> list[Any]:
    """Undo `pad_sequence`: cut sequences to their lengths.

    Args:
        padded_sequences: (T, N, ...), or (N, T, ...) with batch_first, padded at the right.
        lengths: the length of each, (N,), a tensor.
        batch_first: if True, the batch is dimension 0.

    Returns: a list of N tensors (length, ...).

    >>> nn.utils.rnn.unpad_sequence(torch.tensor([[1, 2, 3], [4, 0, 0]]), torch.tensor([3, 1]), batch_first=True)
    [tensor([1, 2, 3]), tensor([4])]
    """
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [row[:length] for row, length in zip(padded_sequences.unbind(0), lengths.tolist())]


def pack_sequence(sequences: Sequence[Tensor], enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of sequences.

    Args:
        sequences: tensors (length, ...) that agree behind dimension 0.
        enforce_sorted: if True, require sequences in order of decreasing length; otherwise sort them here.

    Returns: a `PackedSequence`, whose data are (sum of lengths, ...).

    Errors: RuntimeError for sequences that are not in order.

    >>> nn.utils.rnn.pack_sequence([torch.tensor([1, 2, 3]), torch.tensor([4])]).data
    tensor([1, 4, 2, 3])
    """
    lengths = facula.as_tensor([v.size(0) for v in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Any]:
    """Undo `pack_sequence`: return the single sequences.

    Args:
        packed_sequences: a `PackedSequence`.

    Returns: a list of N tensors (length, ...).

    >>> nn.utils.rnn.unpack_sequence(nn.utils.rnn.pack_sequence([torch.tensor([1, 2, 3]), torch.tensor([4])]))
    [tensor([1, 2, 3]), tensor([4])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
