"""Define nested tensors: sequences of several lengths as one tensor.

With `layout=torch.jagged` the sequences may differ in one dimension and everything works that is a function of their
rows, along them, or attention; the default, `torch.strided`, is for any shapes of one number of dimensions and knows less
(`facula.nested._strided`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula

from ._internal.nested_tensor import NestedTensor, jagged_from_list, wrap
from ._internal.ragged import Ragged

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor
    from facula.types import Device

__all__ = [
    "as_nested_tensor", "masked_select", "narrow", "nested_tensor", "nested_tensor_from_jagged", "to_padded_tensor",
]  # fmt: skip


def _layout(name, layout):
    if layout not in (None, facula.strided, facula.jagged):
        raise RuntimeError(f"{name}: Specified layout is unsupported for nested tensors, got {layout}")
    return layout is facula.jagged


def _made(name, tensors, jagged):
    if not tensors and jagged:
        raise RuntimeError(f"{name}: the jagged layout needs one tensor or more, got an empty list")
    if jagged:
        return jagged_from_list(tensors)[0]
    from ._strided import strided_from_list

    return strided_from_list(tensors)


def _sequences(name, given):
    if not isinstance(given, (list, tuple)) and not isinstance(given, facula.Tensor):
        raise TypeError(f"{name}: expected a list of tensors, got {type(given).__name__}")
    return list(given.unbind()) if isinstance(given, facula.Tensor) else list(given)


def nested_tensor(tensor_list: Sequence[Sequence[int] | Tensor], *, dtype: facula.dtype | None = None,
                  layout: facula.layout | None = None, device: Device = None, requires_grad: bool = False,
                  pin_memory: bool = False) -> Tensor:  # fmt: skip
    """Return a nested tensor with copies of these sequences.

    Args:
        tensor_list: tensors, or what `torch.tensor` takes, of one number of dimensions; for `layout=torch.jagged` they
            may differ in the length of one dimension.
        dtype, device: of the result. Default: those of the first.
        layout: `torch.jagged`, or `torch.strided`, which is the default.
        requires_grad: whether it gathers a gradient.
        pin_memory: whether its memory is pinned.

    Errors: RuntimeError for an empty list with the layout jagged, sequences that are not alike or other layouts;
        TypeError for what is no list.

    Example::

        >>> x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
        >>> x.to_padded_tensor(0.0).shape
        torch.Size([2, 4, 3])
    """
    jagged = _layout("nested_tensor", layout)
    parts = [
        x.detach() if isinstance(x, facula.Tensor) else facula.as_tensor(x) for x in _sequences("nested_tensor", tensor_list)
    ]
    parts = [x.to(dtype=dtype, device=device) for x in parts] if dtype is not None or device is not None else parts
    made = _made("nested_tensor", parts, jagged)
    if pin_memory:
        made = made.pin_memory()
    return made.requires_grad_(requires_grad)


def as_nested_tensor(ts: Sequence[Tensor] | Tensor, dtype: facula.dtype | None = None, device: Device = None,
                     layout: facula.layout | None = None) -> Tensor:  # fmt: skip
    """Return a nested tensor of these tensors, through which gradients go back to them.

    Args:
        ts: a list of tensors; or one tensor, whose first dimension counts the sequences; or a nested one.
        dtype, device: of the result. Default: those of `ts`.
        layout: as for `nested_tensor`.

    Errors: as `nested_tensor`; TypeError for a list of anything but tensors; RuntimeError for a nested tensor of another
    layout, and for a tensor of less than two dimensions.

    Example::

        >>> torch.nested.as_nested_tensor(torch.ones(2, 3, 4), layout=torch.jagged).to_padded_tensor(0.0).shape
        torch.Size([2, 3, 4])
    """
    jagged = _layout("as_nested_tensor", layout)
    if isinstance(ts, facula.Tensor) and ts.is_nested:
        if isinstance(ts, NestedTensor) != jagged and layout is not None:
            raise RuntimeError(
                "as_nested_tensor: a nested tensor keeps its layout, "
                f"expected {ts.layout}, got {layout}"
            )
        alike = dtype in (None, ts.dtype) and (device is None or facula.device(device) == ts.device)
        return ts if alike else ts.to(dtype=dtype, device=device)
    if isinstance(ts, facula.Tensor) and ts.dim() < 2:
        raise RuntimeError(f"as_nested_tensor: a tensor of at least 2 dimensions is expected, got {ts.dim()}")
    parts = _sequences("as_nested_tensor", ts)
    if not all(isinstance(x, facula.Tensor) for x in parts):
        found = ", ".join(sorted({type(x).__name__ for x in parts}))
        raise TypeError(f"as_nested_tensor: expected a list of tensors, got {found}")
    made = _made("as_nested_tensor", parts, jagged)
    return made.to(dtype=dtype, device=device) if dtype is not None or device is not None else made


def to_padded_tensor(input: Tensor, padding: float, output_size: int | Sequence[int] | None = None) -> Tensor:
    """Return one tensor of the sequences, with `padding` behind those that are shorter.

    Args:
        input: a nested tensor.
        padding: the value that fills.
        output_size: the shape of the result, if it is to be larger than the longest sequence needs.

    Errors: TypeError for a tensor that is not nested, RuntimeError where `output_size` is too small.

    Example::

        >>> x = torch.nested.nested_tensor([torch.ones(1), torch.ones(2)], layout=torch.jagged)
        >>> torch.nested.to_padded_tensor(x, 0.0)
        tensor([[1., 0.],
                [1., 1.]])
    """
    if not isinstance(input, facula.Tensor) or not input.is_nested:
        raise TypeError(f"to_padded_tensor: expected a nested tensor, got {type(input).__name__}")
    return input.to_padded_tensor(padding, output_size)


def nested_tensor_from_jagged(values: Tensor, offsets: Tensor | None = None, lengths: Tensor | None = None,
                              jagged_dim: int | None = None, min_seqlen: Any = None,
                              max_seqlen: Any = None) -> Tensor:  # fmt: skip
    """Return a nested tensor, layout jagged, that is a view of `values`, in which the sequences lie one behind another.

    Args:
        values: the rows of all sequences.
        offsets: where sequences begin, and where the last one ends. Without it, `lengths` follow each other.
        lengths: how long the sequences are. Default: up to the next.
        jagged_dim: the ragged dimension of the result. Default: 1.
        min_seqlen, max_seqlen: the least and the greatest length, which are found from the offsets in any case.

    Tensors with the same `offsets` (the object) have the same structure.

    Errors: RuntimeError where neither is given, and where sequences would leave `values`; ValueError and IndexError for a
    `jagged_dim` that is not there.

    Example::

        >>> x = torch.nested.nested_tensor_from_jagged(torch.arange(5.0), torch.tensor([0, 2, 5]))
        >>> [part.tolist() for part in x]
        [[0.0, 1.0], [2.0, 3.0, 4.0]]
    """
    for what, tensor in (("values", values), ("offsets", offsets), ("lengths", lengths)):
        if not isinstance(tensor, facula.Tensor) and not (tensor is None and what != "values"):
            raise TypeError(f"nested_tensor_from_jagged: {what} must be a Tensor, got {type(tensor).__name__}")
    if offsets is None and lengths is None:
        raise RuntimeError("nested_tensor_from_jagged: expected offsets, lengths or both, got neither")
    at = 1 if jagged_dim is None else jagged_dim
    if not isinstance(at, int) or at < 1:
        raise ValueError(f"nested_tensor_from_jagged: jagged_dim must be at least 1, got {jagged_dim}")
    if at > values.dim():
        raise IndexError(f"nested_tensor_from_jagged: values of {values.dim()} dimensions have no jagged_dim {jagged_dim}")
    if offsets is None:
        if lengths.dim() != 1:
            raise RuntimeError(f"nested_tensor_from_jagged: lengths must have one dimension, got {tuple(lengths.shape)}")
        offsets, lengths = facula.nn.functional.pad(lengths.cumsum(0), (1, 0)), None
    ragged = Ragged.of(offsets, lengths, values.size(at - 1))
    ragged.stated.update(name for name, given in (("min_seqlen", min_seqlen), ("max_seqlen", max_seqlen)) if given is not None)
    return wrap(values, ragged, at)


def narrow(tensor: Tensor, dim: int, start: Tensor | int, length: Tensor | int,
           layout: facula.layout = facula.strided) -> Tensor:  # fmt: skip
    """Return a nested tensor of a part of each row of a tensor.

    Args:
        tensor: its first dimension counts the sequences.
        dim: 1, the dimension that is cut.
        start: where each part begins: a tensor, or an int for all.
        length: how long each part is: a tensor, or an int for all.
        layout: as for `nested_tensor`; jagged gives a view.

    Errors: RuntimeError for another dimension, parts that leave the tensor, and other layouts.

    Example::

        >>> x = torch.nested.narrow(torch.arange(6.0).reshape(2, 3), 1, 0, torch.tensor([1, 3]), layout=torch.jagged)
        >>> [part.tolist() for part in x]
        [[0.0], [3.0, 4.0, 5.0]]
    """
    jagged = _layout("narrow", layout)
    if dim != 1 or tensor.dim() < 2:
        raise RuntimeError(f"narrow: only dim=1 supported for layout jagged, got dim={dim} of shape {tuple(tensor.shape)}")
    count, whole = tensor.shape[:2]

    def each(name, value):
        if not isinstance(value, facula.Tensor):
            value = facula.full((count,), value, dtype=facula.int64, device=tensor.device)
        if value.shape != (count,):
            raise RuntimeError(f"narrow: {name} has a number for each of {count} sequences, got shape {tuple(value.shape)}")
        return value

    starts, lengths = each("start", start), each("length", length)
    if count and (int(starts.min()) < 0 or int(lengths.min()) < 0 or int((starts + lengths).max()) > whole):
        raise RuntimeError(f"narrow: parts must lie within 0 and {whole}, got {starts.tolist()} and {lengths.tolist()}")
    if not jagged:
        parts = zip(tensor.unbind(), starts.tolist(), lengths.tolist(), strict=True)
        return _made("narrow", [row.narrow(0, begin, size) for row, begin, size in parts], False)
    offsets = facula.arange(count, device=tensor.device, dtype=starts.dtype) * whole + starts
    offsets = facula.cat([offsets, offsets[-1:] + lengths[-1:] if count else offsets.new_zeros(1)])
    return wrap(tensor.flatten(0, 1), Ragged.of(offsets, lengths, count * whole), 1)


def masked_select(tensor: Tensor, mask: Tensor) -> Tensor:
    """Return a nested tensor, layout jagged, of the elements of each row at which the mask is true.

    Args:
        tensor: its first dimension counts the sequences.
        mask: booleans that broadcast to it.

    Errors: RuntimeError for a mask of another dtype.

    Example::

        >>> x = torch.nested.masked_select(torch.ones(2, 2), torch.tensor([[True, False], [True, True]]))
        >>> [part.tolist() for part in x]
        [[1.0], [1.0, 1.0]]
    """
    if mask.dtype is not facula.bool:
        raise RuntimeError(f"masked_select: expected BoolTensor for mask, got {mask.dtype}")
    tensor, mask = facula.broadcast_tensors(tensor, mask)
    if tensor.dim() < 1:
        raise RuntimeError(f"masked_select: expected rows, got shape {tuple(tensor.shape)}")
    counts = mask.flatten(1).sum(1) if mask.dim() > 1 else mask.to(facula.int64)
    return nested_tensor_from_jagged(tensor.masked_select(mask), facula.nn.functional.pad(counts.cumsum(0), (1, 0)))
