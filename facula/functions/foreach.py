"""Define the `_foreach_` operators, which apply an op to each tensor of a list. The names are private in PyTorch, but
some programs use them.

They are loops; the optimizers of `facula.optim` have fused passes of their own. In-place forms return the list that
they received.
"""

from __future__ import annotations

from numbers import Number

import facula
from facula._shared.names import FOREACH_UNARY

# What each parameter is called, and what it may be besides a list for each tensor:
# a number for all ("number"), a 0-d tensor for all ("tensor"), one tensor of a number for each ("packed").
_OTHER = (("other", "scalar", "scalars"), ("number",))
_OTHER_TENSOR = (("other", "scalar", "scalars", "tensor"), ("number", "tensor"))
_POINTWISE = ((("tensor1",), ()), (("tensor2",), ()), (("value", "scalars"), ("number", "packed")))
_OPS = {
    **{name: (name, ()) for name in (*FOREACH_UNARY, "clone")},
    **{name: (name, (_OTHER_TENSOR,)) for name in ("add", "sub", "mul", "div")},
    **{name: (name, (_OTHER,)) for name in ("clamp_min", "clamp_max")},
    "pow": ("pow", ((("exponent",), ("number",)),)),
    "maximum": ("clamp_min", (_OTHER,)),
    "minimum": ("clamp_max", (_OTHER,)),
    "lerp": ("lerp", ((("tensors1",), ()), (("weight", "weights"), ("number",)))),
    "addcmul": ("addcmul", _POINTWISE),
    "addcdiv": ("addcdiv", _POINTWISE),
    "mm": ("mm", ((("mat2",), ()),)),
}


def _tensors(name, tensors):
    """Return the tensors of a list, of which there must be one."""
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(tensor, facula.Tensor) for tensor in tensors):
        raise TypeError(f"_foreach_{name}: expected a list of tensors, got {type(tensors).__name__}")
    if not tensors:
        raise RuntimeError(f"_foreach_{name}: expected one tensor or more, got an empty list")
    return tensors


def _per_tensor(name, argument, kinds, count):
    """Return `argument` as one value for each tensor."""
    if isinstance(argument, facula.Tensor):
        argument = _of_one_tensor(name, argument, kinds)
        if not isinstance(argument, list):
            return [argument] * count
    elif not isinstance(argument, (list, tuple)):
        if "number" not in kinds or not isinstance(argument, Number):
            raise TypeError(f"_foreach_{name}: expected a list of tensors, got {type(argument).__name__}")
        return [argument] * count
    if len(argument) != count:
        raise RuntimeError(f"_foreach_{name}: {count} tensors need as many operands, got {len(argument)}")
    return argument


def _of_one_tensor(name, argument, kinds):
    if "packed" in kinds:
        if argument.dim() != 1:
            raise RuntimeError(f"_foreach_{name}: numbers in a tensor of one dimension, got {argument.dim()} dimensions")
        return argument.tolist()
    if "tensor" not in kinds:
        raise TypeError(f"_foreach_{name}: expected a list of tensors or numbers, got a Tensor")
    if argument.dim() != 0:
        raise RuntimeError(f"_foreach_{name}: a tensor for all must have 0 dimensions, got shape {tuple(argument.shape)}")
    return argument


def _over_lists(name, method, parameters):
    """Return the function `_foreach_<name>`, which calls `method` of each tensor."""
    in_place = name.endswith("_")

    def run(self, *args, **kwargs):
        if name == "pow" and not isinstance(self, (list, tuple)):  # a number to the power of each tensor
            return tuple(facula.pow(self, exponent) for exponent in _tensors(name, *args, **kwargs))
        _tensors(name, self)
        operands = list(args[: len(parameters)])
        for names, _ in parameters[len(operands) :]:
            operands += [kwargs.pop(key) for key in names if key in kwargs]
        columns = [_per_tensor(name, operand, kinds, len(self)) for operand, (_, kinds) in zip(operands, parameters)]
        if method.startswith("addc") and len(columns) == 3:
            calls = [((a, b), {"value": value}) for a, b, value in zip(*columns)]
        else:
            calls = [(operands, kwargs) for operands in zip(*columns)] if columns else [((), kwargs)] * len(self)
        results = tuple(getattr(tensor, method)(*given, **named) for tensor, (given, named) in zip(self, calls))
        return self if in_place else results

    run.__name__ = run.__qualname__ = f"_foreach_{name}"
    run.__doc__ = f"Tensor.{method} of each tensor of a list; an operand may be a list too."
    return run


for _name, (_method, _parameters) in _OPS.items():
    globals()[f"_foreach_{_name}"] = _over_lists(_name, _method, _parameters)
    if _name not in ("clone", "mm"):
        globals()[f"_foreach_{_name}_"] = _over_lists(f"{_name}_", f"{_method}_", _parameters)


def _foreach_zero_(self):
    """Set every element of every tensor to zero; return the list."""
    for tensor in _tensors("zero_", self):
        tensor.zero_()
    return self


def _foreach_copy_(self, src, non_blocking=False):
    """Copy each tensor of `src` into its counterpart; return the list."""
    for tensor, source in zip(_tensors("copy_", self), _per_tensor("copy_", src, (), len(self))):
        tensor.copy_(source, non_blocking)
    return self


def _foreach_norm(self, ord=2, dtype=None):
    """Return the vector norm of each tensor."""
    return tuple(facula.linalg.vector_norm(tensor, ord, dtype=dtype) for tensor in _tensors("norm", self))


def _foreach_powsum(self, ord=2, dtype=None):
    """Return the sum of the sizes of each tensor's elements to the power of `ord`: a vector norm without its root."""
    return tuple(facula.sum(tensor.abs() ** ord, dtype=dtype) for tensor in _tensors("powsum", self))


def _foreach_max(self):
    """Return the greatest element of each tensor."""
    return tuple(tensor.max() for tensor in _tensors("max", self))
