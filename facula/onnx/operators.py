"""Two functions that keep sizes as tensors in a traced program; here sizes that vary are recorded anyway."""

import facula


def shape_as_tensor(x):
    """The sizes of `x` as an int64 tensor."""
    return facula.tensor(list(x.shape), dtype=facula.int64)


def reshape_from_tensor_shape(x, shape):
    """`x` with the sizes that a tensor holds."""
    return x.reshape(shape.tolist())
