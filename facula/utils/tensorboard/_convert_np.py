"""PyTorch's private name of what makes arrays of tensors and numbers."""

from ._media import to_numpy

__all__ = ["make_np"]


def make_np(x):
    """The array of a tensor, an array or a number; NotImplementedError for anything else, which is PyTorch's."""
    try:
        return to_numpy(x)
    except TypeError as error:
        raise NotImplementedError(str(error)) from None
