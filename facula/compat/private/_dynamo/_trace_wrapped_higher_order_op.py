"""Define a mode in which indices remain tensors."""

import facula
from facula.overrides import TorchFunctionMode

__all__ = ["TransformGetItemToIndex"]


class TransformGetItemToIndex(TorchFunctionMode):
    """Compute `x[i]` with tensors as indices by the op `index` in a block, which never reads the number in a tensor.

    So `x[i]` works under `vmap` where each i is another: masks that are functions of positions are computed this way.

    Example:
        >>> from facula._dynamo._trace_wrapped_higher_order_op import TransformGetItemToIndex
        >>> table = facula.tensor([5, 6, 7])
        >>> with TransformGetItemToIndex():
        ...     facula.vmap(lambda i: table[i])(facula.tensor([2, 0]))
        tensor([7, 5])
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is facula.Tensor.__getitem__:
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            if index and all(isinstance(i, facula.Tensor) and not i.dtype.is_floating_point for i in index):
                return facula.ops.aten.index.Tensor(args[0], list(index))
        return func(*args, **(kwargs or {}))
