"""Make a batch out of samples: tensors are stacked, containers are collated item by item, and other objects stay in a
list.

`default_collate_fn_map` maps types to the functions that collate them; programs add to it.
"""

from __future__ import annotations

import collections.abc
import copy
import re
from typing import TYPE_CHECKING

import facula

if TYPE_CHECKING:
    from typing import Any

_TEXT_OR_OBJECTS = re.compile(r"[SaUO]")
_NO_WAY = (
    "default_collate: a batch holds tensors, numpy arrays, numbers, text, and dicts, lists, tuples of them; "
    "got {}. Give DataLoader a collate_fn for it"
)
np_str_obj_array_pattern = _TEXT_OR_OBJECTS
default_collate_err_msg_format = _NO_WAY


def _is_numpy(kind, *names):
    return kind.__module__ == "numpy" and (not names or kind.__name__ in names)


def _rebuild_like(original, pairs_or_items, fallback):
    """Return a container of the type of `original` with other contents, or `fallback` of them."""
    mapping = isinstance(original, collections.abc.Mapping)
    mutable = collections.abc.MutableMapping if mapping else collections.abc.MutableSequence
    try:
        if not isinstance(original, mutable):
            return type(original)(pairs_or_items)
        # a copy keeps what else the object carries
        clone = copy.copy(original)
        if mapping:
            clone.update(pairs_or_items)
        else:
            for i, item in enumerate(pairs_or_items):
                clone[i] = item
        return clone
    except TypeError:
        return fallback(pairs_or_items)


def apply_to_parts(data, function):
    """Return `data` with `function` applied to each part of a container, which keeps its type."""
    if isinstance(data, collections.abc.Mapping):
        return _rebuild_like(data, {key: function(value) for key, value in data.items()}, dict)
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(function(part) for part in data))
    if isinstance(data, collections.abc.Sequence):
        return _rebuild_like(data, [function(part) for part in data], list)
    return data


def default_convert(data: Any) -> Any:
    """Convert NumPy arrays and scalars to tensors, through containers, and return everything else as it is. A loader without
    batches does so.

    Args:
        data: a sample.

    Returns: the sample, with tensors of the shapes of the arrays.

    >>> import numpy as np
    >>> torch.utils.data.default_convert({"x": np.array([1, 2]), "name": "a"})
    {'x': tensor([1, 2]), 'name': 'a'}
    """
    if isinstance(data, facula.Tensor):
        return data
    if type(data).__module__ == "numpy" and not _is_numpy(type(data), "str_", "string_", "bytes_"):
        if _is_numpy(type(data), "ndarray", "memmap") and _TEXT_OR_OBJECTS.search(data.dtype.str):
            return data
        return facula.as_tensor(data)
    if isinstance(data, tuple) and not hasattr(data, "_fields"):
        return [default_convert(part) for part in data]
    if isinstance(data, (str, bytes)):
        return data
    return apply_to_parts(data, default_convert)


def collate(batch, *, collate_fn_map=None):
    """Return one batch from a list of samples.

    Args:
        batch: a list of samples of one structure.
        collate_fn_map: a dict from a type, or tuple of types, to a function(batch, *, collate_fn_map).

    Errors: TypeError for samples of a type without a function; RuntimeError for lists or tuples of different lengths.
    """
    first = batch[0]
    if collate_fn_map is not None:
        function = collate_fn_map.get(type(first)) or _inherited(first, collate_fn_map)
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)

    def column(samples):
        return collate(samples, collate_fn_map=collate_fn_map)

    if isinstance(first, collections.abc.Mapping):
        return _rebuild_like(first, {key: column(_under(key, batch)) for key in first}, dict)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(column(samples) for samples in zip(*batch)))
    if isinstance(first, collections.abc.Sequence):
        lengths = {len(sample) for sample in batch}
        if len(lengths) > 1:
            raise RuntimeError(f"default_collate: samples must be of equal length, got {sorted(lengths)}")
        columns = [column(samples) for samples in zip(*batch)]
        return columns if isinstance(first, tuple) else _rebuild_like(first, columns, list)
    raise TypeError(_NO_WAY.format(type(first)))


def _under(key, batch):
    try:
        return [sample[key] for sample in batch]
    except KeyError:
        keys = next(list(sample) for sample in batch if key not in sample)
        raise KeyError(f"default_collate: each sample must have the keys of the first, {list(batch[0])}, got {keys}") from None


def _inherited(first, collate_fn_map):
    for kinds, function in collate_fn_map.items():
        if isinstance(first, kinds):
            return function
    return None


def collate_tensor_fn(batch, *, collate_fn_map=None):
    """Stack tensors of equal shape along a new first dimension."""
    if batch[0].layout is not facula.strided:
        raise RuntimeError(
            f"default_collate: tensors of layout {batch[0].layout} need a collate_fn of your own"
        )
    try:
        return facula.stack(batch, 0)
    except RuntimeError as error:
        shapes = {tuple(sample.shape) for sample in batch if isinstance(sample, facula.Tensor)}
        if len(shapes) < 2:
            raise
        raise RuntimeError(
            f"default_collate: the samples of a batch must have equal shapes, got {sorted(shapes)[:8]}: pad or crop them in "
            "the "
            "dataset or in a collate_fn (nn.utils.rnn.pad_sequence pads)"
        ) from error


def collate_numpy_array_fn(batch, *, collate_fn_map=None):
    """Stack numpy arrays into a tensor."""
    if _TEXT_OR_OBJECTS.search(batch[0].dtype.str):
        raise TypeError(_NO_WAY.format(batch[0].dtype))
    return collate([facula.as_tensor(array) for array in batch], collate_fn_map=collate_fn_map)


def collate_numpy_scalar_fn(batch, *, collate_fn_map=None):
    """Return a tensor of numpy scalars, of their dtype."""
    return facula.as_tensor(batch)


def _tensor_of(numbers, dtype=None):
    try:
        return facula.tensor(numbers, dtype=dtype)
    except TypeError:
        kinds = sorted({type(number).__name__ for number in numbers})
        raise TypeError(f"default_collate: the samples of a batch must be of one kind, got {' and '.join(kinds)}") from None


def collate_float_fn(batch, *, collate_fn_map=None):
    """Return a float64 tensor."""
    return _tensor_of(batch, facula.float64)


def collate_int_fn(batch, *, collate_fn_map=None):
    """Return an int64 (or bool) tensor."""
    return _tensor_of(batch)


def collate_str_fn(batch, *, collate_fn_map=None):
    """Return the text, which stays a list of text."""
    return batch


default_collate_fn_map = {facula.Tensor: collate_tensor_fn}
try:
    import numpy
except ImportError:
    pass
else:
    default_collate_fn_map[numpy.ndarray] = collate_numpy_array_fn
    default_collate_fn_map[(numpy.bool_, numpy.number, numpy.object_)] = collate_numpy_scalar_fn
default_collate_fn_map.update(
    {float: collate_float_fn, int: collate_int_fn, str: collate_str_fn, bytes: collate_str_fn}
)


def default_collate(batch: Any) -> Any:
    """Return one batch from a list of samples, as a loader makes it.

    Tensors of shape (...) become one of shape (len(batch), ...); numbers a tensor of shape (len(batch),), of float64 or int64;
    NumPy arrays and scalars tensors of their dtype; text a list; dicts, lists and tuples the same with each part collated.

    Args:
        batch: a list of samples of one structure.

    Returns: a batch of the structure of a sample.

    Errors: TypeError for samples of other types, RuntimeError for tensors of different shapes, and lists of different lengths.

    >>> torch.utils.data.default_collate([{"x": torch.tensor([1., 2.]), "y": 0}, {"x": torch.tensor([3., 4.]), "y": 1}])
    {'x': tensor([[1., 2.],
            [3., 4.]]), 'y': tensor([0, 1])}
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)
