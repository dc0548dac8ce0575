"""`_foreach_` operators: an op over each tensor of a list. PyTorch's private names, which some programs use.

They are loops; the optimizers of `facula.optim` have fused passes of their own.
"""

from __future__ import annotations

import facula

_UNARY = """
    abs acos asin atan ceil clone cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round
    rsqrt sigmoid sign sin sinh sqrt tan tanh trunc
"""
# what each parameter of the op is called in a call of `_foreach_<op>`, and then the Tensor method
_BINARY = (("other", "scalar", "scalars", "exponent"),)
_POINTWISE = (("tensor1",), ("tensor2",), ("value", "scalars"))
_OPS = {
    **{name: (name, ()) for name in _UNARY.split()},
    **{name: (name, _BINARY) for name in ("add", "sub", "mul", "div", "pow", "clamp_min", "clamp_max")},
    "maximum": ("clamp_min", _BINARY),
    "minimum": ("clamp_max", _BINARY),
    "lerp": ("lerp", (("tensors1",), ("weight", "weights"))),
    "addcmul": ("addcmul", _POINTWISE),
    "addcdiv": ("addcdiv", _POINTWISE),
}


def _per_tensor(name, argument, count):
    """`argument` as one value for each tensor."""
    if isinstance(argument, facula.Tensor) and argument.dim() == 1:
        argument = argument.tolist()  # a tensor of scalars
    if not isinstance(argument, (list, tuple)):
        return [argument] * count
    if len(argument) != count:
        raise RuntimeError(f"_foreach_{name}: {count} tensors need as many operands, got {len(argument)}")
    return argument


def _over_lists(name, method, parameters):
    """The function `_foreach_<name>`, which calls `method` of each tensor."""
    in_place = name.endswith("_")

    def run(self, *args, **kwargs):
        operands = list(args[: len(parameters)])
        for names in parameters[len(operands) :]:
            operands += [kwargs.pop(key) for key in names if key in kwargs]
        columns = [_per_tensor(name, operand, len(self)) for operand in operands]
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
    if _name != "clone":
        globals()[f"_foreach_{_name}_"] = _over_lists(f"{_name}_", f"{_method}_", _parameters)


def _foreach_zero_(self):
    """Sets every element of every tensor to zero."""
    for tensor in self:
        tensor.zero_()
    return self


def _foreach_copy_(self, src, non_blocking=False):
    """Copies each tensor of `src` into its counterpart."""
    for tensor, source in zip(self, _per_tensor("copy_", src, len(self))):
        tensor.copy_(source, non_blocking)
    return self


def _foreach_norm(self, ord=2, dtype=None):
    """The vector norm of each tensor."""
    return tuple(facula.linalg.vector_norm(tensor, ord, dtype=dtype) for tensor in self)


def _foreach_max(self):
    """The greatest element of each tensor."""
    return tuple(tensor.max() for tensor in self)
