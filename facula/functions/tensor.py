"""Questions about objects, and methods of tensors as functions."""

from __future__ import annotations

from facula import _C

Tensor = _C.Tensor


def is_tensor(obj, /):
    """Whether `obj` is a Tensor."""
    return isinstance(obj, Tensor)


def is_storage(obj, /):
    """Whether `obj` is an UntypedStorage or a TypedStorage."""
    if isinstance(obj, _C.UntypedStorage):
        return True
    from facula.storage import TypedStorage

    return isinstance(obj, TypedStorage)


def _ask(name):
    """A function that asks a tensor by calling its method `name`."""

    def question(input):
        if not isinstance(input, Tensor):
            raise TypeError(f"{name}(): input is a Tensor, got {type(input).__name__}")
        return getattr(input, name)()

    question.__name__ = question.__qualname__ = name
    question.__doc__ = f"As Tensor.{name}."
    return question


is_floating_point = _ask("is_floating_point")
is_complex = _ask("is_complex")
is_signed = _ask("is_signed")
is_conj = _ask("is_conj")
is_neg = _ask("is_neg")
is_inference = _ask("is_inference")
numel = _ask("numel")
is_distributed = _ask("is_distributed")


def is_nonzero(input):
    """Whether the one element of `input` differs from zero."""
    if input.numel() != 1:
        raise RuntimeError(f"is_nonzero: a Tensor with one element is expected, got shape {list(input.shape)}")
    return bool(input)


def is_same_size(input, other):
    """Whether the shapes are equal."""
    return input.is_same_size(other)


def typename(obj, /):
    """The dotted name of a type: "torch.FloatTensor" for a tensor, else that of the class or function."""
    if isinstance(obj, Tensor):
        return obj.type()
    named = obj if hasattr(obj, "__qualname__") else type(obj)
    module = getattr(named, "__module__", None) or ""
    name = getattr(named, "__qualname__", named.__class__.__qualname__)
    return name if module in ("", "builtins", "__builtin__") else f"{module}.{name}"


def detach(input):
    """As Tensor.detach."""
    return input.detach()


def detach_(input):
    """As Tensor.detach_."""
    return input.detach_()


def get_device(input):
    """The number of the GPU the tensor is on; -1 for the CPU."""
    return input.get_device()


def _shape_as_tensor(self):
    """The shape, as integers in one dimension."""
    return _C.tensor(list(self.shape), dtype=_C.int64)


def _softmax_backward_data(grad_output, output, dim, input_dtype):
    """The gradient of a softmax's input, from its result and that one's gradient."""
    product = grad_output * output
    return (product - output * product.sum(dim, keepdim=True)).to(input_dtype)
