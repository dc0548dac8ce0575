"""Counting floating-point operations of matrix products, convolutions and attention.

A product of (m, k) by (k, n) counts 2 m k n; a convolution 2 * elements of the result * elements of a filter; the rest
counts nothing. What is counted is the forward pass.
"""

from __future__ import annotations

import math
from collections import defaultdict

import facula
from facula.overrides import TorchFunctionMode

__all__ = ["FlopCounterMode"]


def _product(a, b, result):
    return 2 * result.numel() * a.shape[-1]


def _linear(input, weight, result):
    return 2 * result.numel() * weight.shape[1]


def _convolution(input, weight, result):
    return 2 * result.numel() * math.prod(weight.shape[1:])


def _transposed_convolution(input, weight, result):
    return 2 * input.numel() * math.prod(weight.shape[1:])


def _attention(query, key, result):
    scores = math.prod(query.shape[:-1]) * key.shape[-2]
    return 2 * scores * (query.shape[-1] + result.shape[-1])


def _einsum(equation, operands, result):
    if len(operands) != 2 or "." in equation:
        return 0
    terms = equation.replace(" ", "").partition("->")[0].split(",")
    sizes = {letter: n for term, operand in zip(terms, operands) for letter, n in zip(term, operand.shape)}
    return 2 * math.prod(sizes.values())


#: function name -> (formula of two operands and the result, position of the first operand)
_FORMULAS = {
    **dict.fromkeys(("mm", "bmm", "matmul", "__matmul__", "mv", "dot"), (_product, 0)),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), (_product, 1)),
    "linear": (_linear, 0),
    "_einsum": (_einsum, 0),
    **{f"conv{n}d": (_convolution, 0) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": (_transposed_convolution, 0) for n in (1, 2, 3)},
    "scaled_dot_product_attention": (_attention, 0),
}
_NAMES = {"input": 0, "mat1": 1, "batch1": 1, "weight": 1, "mat2": 2, "batch2": 2, "query": 0, "key": 1, "other": 1}
_BACKWARD = ("backward", "grad")


class FlopCounterMode(TorchFunctionMode):
    """A context manager that counts floating-point operations, in all and by module.

    Args:
        mods: without effect, as in PyTorch: the modules are found by themselves.
        depth: how deep modules are listed in the table.
        display: print the table at the end.
        custom_mapping: more functions, and for each a function of its arguments and `out_val=` that gives the count.

    Raises:
        NotImplementedError: a backward pass within it, whose operations would not be counted.
    """

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        super().__init__()
        self.depth, self.display, self._custom = depth, display, dict(custom_mapping or {})
        self.flop_counts = defaultdict(lambda: defaultdict(int))
        self._path, self._handles = [], []

    def __enter__(self):
        self.flop_counts.clear()
        hooks = facula.nn.modules.module
        self._handles = [
            hooks.register_module_forward_pre_hook(self._enter_module),
            hooks.register_module_forward_hook(self._leave_module, always_call=True),
        ]
        return super().__enter__()

    def __exit__(self, *exception):
        super().__exit__(*exception)
        for handle in self._handles:
            handle.remove()
        self._path.clear()
        if self.display:
            print(self.get_table(self.depth))

    def _enter_module(self, module, args):
        name = type(module).__name__
        if self._path:
            outer, path = self._path[-1]
            inner = next((key for key, child in outer.named_children() if child is module), name)
            name = f"{path}.{inner}"
        self._path.append((module, name))

    def _leave_module(self, module, args, result):
        if self._path and self._path[-1][0] is module:
            self._path.pop()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in _BACKWARD:
            raise NotImplementedError(f"FlopCounterMode: a backward pass is not counted, got {name}")
        result = func(*args, **kwargs)
        count = 0
        if func in self._custom:
            count = self._custom[func](*args, **kwargs, out_val=result)
        elif name in _FORMULAS:
            formula, first = _FORMULAS[name]
            operands = [*args, *([None] * 3)][:3]
            for key, at in _NAMES.items():
                operands[at] = kwargs.get(key, operands[at]) if operands[at] is None else operands[at]
            count = formula(*operands[first : first + 2], result)
        if count:
            for where in {"Global", *(path for _, path in self._path)}:
                self.flop_counts[where][name] += count
        return result

    def get_flop_counts(self):
        """{module path: {function name: operations}}; "Global" holds the sums."""
        return {where: dict(counts) for where, counts in self.flop_counts.items()}

    def get_total_flops(self):
        """All operations counted."""
        return sum(self.flop_counts["Global"].values())

    def get_table(self, depth=None):
        """The counts as text, for modules down to `depth`."""
        depth = self.depth if depth is None else depth
        total = max(self.get_total_flops(), 1)
        lines = [f"{'module':40}{'operations':>16}{'share':>9}"]
        for where, counts in self.flop_counts.items():
            if where.count(".") <= depth:
                for name, count in (("", sum(counts.values())), *counts.items()):
                    label = f"  {name}" if name else where
                    lines.append(f"{label:40}{count:>16}{count / total:>9.1%}")
        return "\n".join(lines)
