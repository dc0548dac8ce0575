"""Provide the conversion of tensors and numbers to arrays under PyTorch's private name."""

import numpy as np

from ._media import to_numpy

__all__ = ["make_np"]


def make_np(x):
    """Return the array of a tensor or an array, or of a number, with one dimension; NotImplementedError for anything else."""
    return np.atleast_1d(to_numpy(x))
