"""Provide the data of benchmarks/models as NumPy arrays."""

import numpy
from ncf import FILMS, USERS

BELOW = {2: USERS, 3: FILMS, 4: 2}  # by seed


def images(batch: int, channels_last: bool) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Return normal numbers and labels of a thousand classes."""
    shape = (batch, 224, 224, 3) if channels_last else (batch, 3, 224, 224)
    pixels = numpy.random.default_rng(1).standard_normal(shape, numpy.float32)
    return pixels, numpy.random.default_rng(2).integers(0, 1000, batch)


def ratings(batch: int) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """Return users, films, and whether the one liked the other."""
    users, films, liked = (numpy.random.default_rng(seed).integers(0, below, batch) for seed, below in BELOW.items())
    return users, films, liked.astype(numpy.float32)
