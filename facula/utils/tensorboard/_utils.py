"""Provide the conversion of pictures to one form under PyTorch's private name."""

import math

import numpy as np

from ._media import tile, to_hwc

__all__ = ["convert_to_HWC"]


def convert_to_HWC(tensor, input_format):
    """Return a picture, or a batch as one picture, as (H, W, 3); letters of `input_format` name the dimensions."""
    return to_hwc(tensor, input_format.upper())


def _prepare_video(V):
    """Return the films (N, T, C, H, W), uint8 or from 0 to 1, as frames (T, H, W, C) that show all films side by side."""
    films = np.asarray(V)
    films = films.astype(np.float32) / 255.0 if films.dtype == np.uint8 else films
    columns = math.ceil(math.sqrt(len(films)))
    return np.stack([tile(films[:, t].transpose(0, 2, 3, 1), columns) for t in range(films.shape[1])])
