"""The Python half of Tensor: what needs no speed. Installed into the built-in type by `install`."""

from __future__ import annotations

import numpy as np

from . import _C


def numpy(self, *, force=False):
    """The elements as a NumPy array on the same memory.

    Errors: TypeError for a tensor that requires grad, is conjugated lazily or not on the CPU, unless `force`, which
    makes a copy where needed.
    """
    tensor = self
    if force:
        tensor = tensor.detach().cpu().resolve_conj()
    if tensor.requires_grad:
        raise RuntimeError(
            "numpy: can't be called on a Tensor that requires grad (use tensor.detach().numpy()), "
            f"got shape {list(tensor.shape)}"
        )
    if tensor.is_conj():
        raise RuntimeError("numpy: the values are stored as conjugates (use tensor.resolve_conj().numpy())")
    return np.asarray(_Exporter(tensor))


class _Exporter:
    """Shows a tensor's memory to NumPy and keeps it alive."""

    __slots__ = ("__array_interface__", "tensor")

    def __init__(self, tensor):
        self.tensor = tensor
        self.__array_interface__ = tensor._array_interface()


_C._install_methods({"numpy": numpy})
