"""NumPy's transforms on the memory of tensors; called from src/python/fft.cpp."""

from __future__ import annotations

import numpy as np

# By kind: NumPy's function and the norm with which it scales nothing.
_ONE = (("fft", "backward"), ("ifft", "forward"), ("rfft", "backward"), ("irfft", "forward"))
_SEVERAL = tuple((f"{name}n", norm) for name, norm in _ONE)
_WRITES_IN_PLACE = int(np.__version__.partition(".")[0]) >= 2  # out= came with NumPy 2


def transform(out, source, dims: tuple[int, ...], kind: int) -> None:
    """Writes the unscaled transform of `source` along `dims` into `out`; `kind` as FftKind in src/ops/fft.h."""
    array, target = source.numpy(), out.numpy()
    if len(dims) == 1 and _WRITES_IN_PLACE:
        name, norm = _ONE[kind]
        getattr(np.fft, name)(
            array, n=target.shape[dims[0]] if kind == 3 else None, axis=dims[0], norm=norm, out=target
        )
        return
    name, norm = _SEVERAL[kind]
    sizes = [target.shape[d] for d in dims] if kind == 3 else None
    target[...] = getattr(np.fft, name)(array, s=sizes, axes=dims, norm=norm)
