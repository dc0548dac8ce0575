"""NumPy's transforms on the memory of tensors; called from src/python/fft.cpp."""

from __future__ import annotations

import numpy as np


def transform(out, source, dims: tuple[int, ...], kind: int) -> None:
    """Writes the unscaled transform of `source` along `dims` into `out`; `kind` as FftKind in src/ops/fft.h."""
    array, target = source.numpy(), out.numpy()
    if kind == 0:
        target[...] = np.fft.fftn(array, axes=dims)
    elif kind == 1:
        target[...] = np.fft.ifftn(array, axes=dims, norm="forward")
    elif kind == 2:
        target[...] = np.fft.rfftn(array, axes=dims)
    else:
        target[...] = np.fft.irfftn(array, s=[target.shape[d] for d in dims], axes=dims, norm="forward")
