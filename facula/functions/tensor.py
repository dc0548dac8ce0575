"""Define predicates of objects, and methods of tensors as functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

Tensor = _C.Tensor


def is_tensor(obj: Any, /) -> bool:
    """Return whether `obj` is a Tensor; instances of its subclasses, such as nn.Parameter, are.

    Args:
        obj: any object.

    >>> torch.is_tensor(torch.ones(2)), torch.is_tensor(nn.Parameter(torch.ones(2))), torch.is_tensor([1.0])
    (True, True, False)
    """
    return isinstance(obj, Tensor)


def is_storage(obj: Any, /) -> bool:
    """Return whether `obj` is an UntypedStorage or a TypedStorage.

    Args:
        obj: any object.

    >>> torch.is_storage(torch.ones(2).untyped_storage()), torch.is_storage(torch.ones(2))
    (True, False)
    """
    if isinstance(obj, _C.UntypedStorage):
        return True
    from facula.storage import TypedStorage

    return isinstance(obj, TypedStorage)


def _ask(name, doc, example):
    """Return a function that asks a tensor by calling its method `name`."""

    def question(input: Tensor):
        if not isinstance(input, Tensor):
            raise TypeError(f"{name}: input is a Tensor, got {type(input).__name__}")
        return getattr(input, name)()

    question.__name__ = question.__qualname__ = name
    about = "Args:\n    input: the tensor.\n\nErrors: TypeError for what is no tensor."
    question.__doc__ = f"{doc}\n\n{about}\n\n{example}\n"
    return question


is_floating_point: Callable[[Tensor], bool] = _ask(
    "is_floating_point", "Return whether the dtype has a fraction: float32, bfloat16 and so on, not complex64.",
    ">>> torch.is_floating_point(torch.ones(2)), torch.is_floating_point(torch.tensor([1, 2]))\n(True, False)",
)  # fmt: skip
is_complex: Callable[[Tensor], bool] = _ask(
    "is_complex", "Return whether the dtype is complex.",
    ">>> torch.is_complex(torch.tensor(1j)), torch.is_complex(torch.ones(2))\n(True, False)",
)  # fmt: skip
is_signed: Callable[[Tensor], bool] = _ask(
    "is_signed", "Return whether the dtype has negative numbers.",
    ">>> torch.is_signed(torch.ones(2)), torch.is_signed(torch.ones(2, dtype=torch.uint8))\n(True, False)",
)  # fmt: skip
is_conj: Callable[[Tensor], bool] = _ask(
    "is_conj", "Return whether the elements in memory are the conjugates of the tensor's, as lazy conjugation leaves them.",
    ">>> x = torch.tensor([1j])\n>>> torch.is_conj(x.conj()), torch.is_conj(x)\n(True, False)",
)  # fmt: skip
is_neg: Callable[[Tensor], bool] = _ask(
    "is_neg", "Return whether the elements in memory are negatives of the tensor's, as in the imaginary part of a conjugate.",
    ">>> torch.is_neg(torch.tensor([1j]))\nFalse",
)  # fmt: skip
is_inference: Callable[[Tensor], bool] = _ask(
    "is_inference", "Return whether the tensor was made in inference_mode, and so never takes part in recording.",
    ">>> with torch.inference_mode():\n...     x = torch.ones(1)\n>>> torch.is_inference(x)\nTrue",
)  # fmt: skip
numel: Callable[[Tensor], int] = _ask(
    "numel", "Return the number of elements, the product of the sizes.", ">>> torch.numel(torch.ones(2, 3))\n6"
)
is_distributed: Callable[[Tensor], bool] = _ask(
    "is_distributed", "Return False: a plain tensor is of one process.", ">>> torch.is_distributed(torch.ones(2))\nFalse"
)


def is_nonzero(input: Tensor) -> bool:
    """Return whether the one element of `input` differs from zero.

    Args:
        input: a tensor with one element, of any shape and dtype.

    Errors: RuntimeError for any other number of elements.

    >>> torch.is_nonzero(torch.tensor([0.0])), torch.is_nonzero(torch.tensor(True))
    (False, True)
    """
    if input.numel() != 1:
        raise RuntimeError(f"is_nonzero: a Tensor with one element is expected, got shape {tuple(input.shape)}")
    return bool(input)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return whether the shapes of two tensors are equal.

    Args:
        input, other: the tensors; their dtypes and strides do not matter.

    >>> torch.is_same_size(torch.ones(2, 3), torch.zeros(2, 3).int()), torch.is_same_size(torch.ones(6), torch.ones(2, 3))
    (True, False)
    """
    return input.is_same_size(other)


def typename(obj: Any, /) -> str:
    """Return the dotted name of a type: "torch.FloatTensor" for a tensor, else that of the class or function.

    Args:
        obj: a tensor, a class, a function or any other object, of which the class is named.

    >>> torch.typename(torch.ones(1)), torch.typename("text")
    ('torch.FloatTensor', 'str')
    """
    if isinstance(obj, Tensor):
        return obj.type()
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", None) or ""
    name = getattr(named, "__qualname__", named.__class__.__qualname__)
    return name if module in ("", "builtins", "__builtin__") else f"{module}.{name}"


def detach(input: Tensor) -> Tensor:
    """Return a tensor on the memory of `input` without its history: no gradient flows back through it.

    Args:
        input: the tensor.

    Returns: a tensor of the shape of input, which shares its memory.

    >>> x = torch.ones(2, requires_grad=True)
    >>> y = torch.detach(x * 2)
    >>> y.requires_grad, y
    (False, tensor([2., 2.]))
    """
    return input.detach()


def detach_(input: Tensor) -> Tensor:
    """Cut off the history of `input` itself, which becomes a leaf that does not require gradients; return it.

    Args:
        input: the tensor; no view, whose history is its base's.

    Errors: RuntimeError for a view.

    >>> y = torch.ones(2, requires_grad=True) * 2
    >>> torch.detach_(y).requires_grad, y.is_leaf
    (False, True)
    """
    return input.detach_()


def get_device(input: Tensor) -> int:
    """Return the number of the GPU that the tensor is on; -1 for the CPU.

    Args:
        input: the tensor.

    >>> torch.get_device(torch.ones(2))
    -1
    """
    return input.get_device()


def _shape_as_tensor(self):
    """Return the shape, as integers in one dimension."""
    return _C.tensor(list(self.shape), dtype=_C.int64)


def _softmax_backward_data(grad_output, output, dim, input_dtype):
    """Return the gradient of a softmax's input, from its result and that one's gradient."""
    product = grad_output * output
    return (product - output * product.sum(dim, keepdim=True)).to(input_dtype)
