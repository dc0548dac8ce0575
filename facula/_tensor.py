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


def backward(self, gradient=None, retain_graph=None, create_graph=False, inputs=None):
    """Accumulates the gradient of this tensor into the leaves it was made from."""
    if gradient is None and retain_graph is None and not create_graph and inputs is None:
        return self._backward_fast()
    from . import autograd

    return autograd.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


_C._install_methods({"numpy": numpy, "backward": backward})
