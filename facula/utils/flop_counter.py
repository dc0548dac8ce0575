"""Counting the floating-point operations of matrix products, convolutions and attention.

A product of (m, k) and (k, n) is 2 m k n operations. Its backward pass costs as much again for each of the two
factors that receives a gradient, and is counted when it runs within the mode.
"""

from __future__ import annotations

import math
import re
import warnings
from collections import defaultdict
from typing import TYPE_CHECKING

import facula
from facula._text_table import table
from facula.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from facula.overrides import TorchFunctionMode
from facula.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from typing_extensions import Self

__all__ = ["FlopCounterMode", "register_flop_formula"]

#: formulas of programs: packets of operators to (formula, whether it is given tensors rather than their shapes)
flop_registry: dict[Any, Any] = {}


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function that gives the number of operations of a call of an operator, for every `FlopCounterMode`.

    Args:
        targets: the operator, like ``torch.ops.mylib.foo``, or a list of them.
        get_raw: whether the function is called with the operator's arguments and ``out_val``, the result. By default shapes
            stand in the place of tensors, and ``out_shape`` is that of the result.

    Errors: ValueError for what is no operator, or one overload of it.

    >>> @torch.utils.flop_counter.register_flop_formula(torch.ops.aten.lgamma)
    ... def lgamma_flops(x_shape, out_shape):
    ...     return 100 * x_shape.numel()
    >>> with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
    ...     y = torch.lgamma(torch.ones(5))
    >>> counter.get_total_flops()
    500
    >>> _ = torch.utils.flop_counter.flop_registry.pop(torch.ops.aten.lgamma)
    """
    from facula._ops import OpOverloadPacket

    packets = list(targets) if isinstance(targets, (list, tuple)) else [targets]
    for packet in packets:
        if not isinstance(packet, OpOverloadPacket):
            raise ValueError(f"register_flop_formula: targets must be operators (OpOverloadPacket), got {packet}")

    def register(formula):
        flop_registry.update(dict.fromkeys(packets, (formula, get_raw)))
        return formula

    return register


def _shapes(tree):
    from facula.utils._pytree import tree_map

    return tree_map(lambda value: value.shape if isinstance(value, facula.Tensor) else value, tree)


def _product(a, b, out):
    """Matrix products, batches included; vectors are not counted."""
    if a.dim() < 2 or b.dim() < 2:
        return []
    return [(2 * out.numel() * a.shape[-1], (a, b))]


def _convolution(x, weight, out):
    return [(2 * out.numel() * math.prod(weight.shape[1:]), (x, weight))]


def _transposed_convolution(x, weight, out):
    return [(2 * x.numel() * math.prod(weight.shape[1:]), (x, weight))]


def _attention(query, key, value, out):
    pairs = math.prod(query.shape[:-1]) * key.shape[-2]
    return [(2 * pairs * query.shape[-1], (query, key)), (2 * pairs * value.shape[-1], ((query, key), value))]


def _recurrent(gates, h0, c0, weight, bias, out):
    """The products of a recurrent layer with its hidden states; those of the inputs are a product of their own."""
    per_row = 2 * weight.numel()
    first = h0.shape[0]  # rows that meet the initial state; the others a state that depends on everything
    later = (gates, h0, weight) if bias is None else (gates, h0, weight, bias)
    return [(per_row * first, (h0, weight)), (per_row * (gates.shape[0] - first), (later, weight))]


def _cell(x, h, c, weight_ih, weight_hh, out):
    rows = 2 * x.shape[0]
    return [(rows * weight_ih.numel(), (x, weight_ih)), (rows * weight_hh.numel(), (h, weight_hh))]


def _einsum(equation, operands, out):
    """Factor by factor from the left; a label is summed over as soon as nothing that follows has it."""
    if not isinstance(equation, str) or "." in equation:
        raise NotImplementedError(f"FlopCounterMode: einsum with sublists or an ellipsis, got {equation!r}")
    operands = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    inputs, _, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if "->" not in equation:
        output = "".join(label for label in set(inputs) - {","} if inputs.count(label) == 1)
    sizes = {label: size for term, t in zip(terms, operands, strict=True) for label, size in zip(term, t.shape, strict=True)}
    left, factors, found = set(terms[0]), (operands[0],), []
    for i, (term, operand) in enumerate(zip(terms[1:], operands[1:], strict=True), 1):
        labels = left | set(term)
        found.append((2 * math.prod(sizes[label] for label in labels), (factors, operand)))
        left = labels & (set(output) | set("".join(terms[i + 1 :])))
        factors = (*factors, operand)
    return found


def _take(first, *names):
    """The arguments from position `first` on, by position or keyword; "mat1/batch1" is either keyword."""

    def take(args, kwargs):
        found = list(args[first : first + len(names)])
        for name in names[len(found) :]:
            found.append(next(kwargs[word] for word in name.split("/") if word in kwargs))
        return found

    return take


_TWO = _take(0, "input", "weight")
# function name: (which arguments, formula of them and the result)
_FORMULAS = {
    **dict.fromkeys(("mm", "matmul", "bmm", "__matmul__"), (_take(0, "input/self", "mat2/other"), _product)),
    "__rmatmul__": (lambda args, kwargs: args[::-1], _product),
    **dict.fromkeys(("addmm", "baddbmm", "addmm_", "baddbmm_"), (_take(1, "mat1/batch1", "mat2/batch2"), _product)),
    "linear": (_TWO, lambda x, weight, out: [(2 * out.numel() * weight.shape[-1], (x, weight))]),
    **{f"conv{n}d": (_TWO, _convolution) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": (_TWO, _transposed_convolution) for n in (1, 2, 3)},
    "scaled_dot_product_attention": (_take(0, "query", "key", "value"), _attention),
    "_rnn_layer": (lambda args, kwargs: args[:5], _recurrent),
    "_rnn_step": (lambda args, kwargs: args[:5], _cell),
    "einsum": (lambda args, kwargs: (args[0], args[1:]), _einsum),
    "_einsum": (lambda args, kwargs: (args[0], args[1:]), _einsum),
}

_PRODUCTS = re.compile("mm|linear|convolution|attention|einsum|rnn", re.IGNORECASE)  # in names of nodes


def _now():
    """The number that the next node of the graph gets, or one before."""
    with facula.inference_mode(False), facula.enable_grad():
        return (facula.ones((), requires_grad=True) * 1).grad_fn._sequence_nr()


def _refuse_older(outputs, start):
    """The operations of nodes that were recorded before the mode began are not known to it."""
    outputs = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
    todo, seen = [t.grad_fn for t in outputs if t.grad_fn is not None], set()
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        if _PRODUCTS.search(node.name()) and node._sequence_nr() < start:
            raise NotImplementedError(f"FlopCounterMode: a backward pass of what was recorded before it, got {node.name()}")
        todo += [following for following, _ in node.next_functions if following is not None]


def _needs_gradient(factor):
    return any(map(_needs_gradient, factor)) if isinstance(factor, tuple) else factor.requires_grad


class FlopCounterMode:
    """A context in which operations are counted, by function and by the modules that call it.

    A backward pass counts what was recorded within the context; of products recorded before it raises
    NotImplementedError.

    Args:
        mods: not needed: all modules are followed.
        depth: of modules in the table.
        display: print the table at the end.
        custom_mapping: operators, with f(*args, out_shape=shape, **kwargs) that gives the count of a call, with shapes in the
            place of tensors (or with the tensors and out_val, the result, where f has an attribute ``_get_raw`` that is True);
            or functions, with f(*args, out_val=result, **kwargs), for their forward pass.

    >>> counter = torch.utils.flop_counter.FlopCounterMode(display=False)
    >>> with counter:
    ...     y = torch.ones(2, 3) @ torch.ones(3, 4)
    >>> counter.get_total_flops(), counter.get_flop_counts()  # 2 * 3 * 4 multiplications and as many additions
    (48, {'Global': {'matmul': 48}})
    >>> "matmul" in counter.get_table(depth=1)
    True
    """

    def __init__(self, mods: Any = None, depth: int = 2, display: bool = True,
                 custom_mapping: dict[Callable[..., Any], Callable[..., Any]] | None = None) -> None:  # fmt: skip
        if mods is not None:
            warnings.warn("FlopCounterMode: mods is not needed, all modules are followed", UserWarning, stacklevel=2)
        self.depth = depth
        self.display = display
        self.custom_mapping: dict[Any, Any] = dict(custom_mapping or {})
        self.flop_counts: dict[Any, Any] = defaultdict(lambda: defaultdict(int))
        self._mode = _Watch(self)
        self._operators = _WatchOperators(self)
        self._stack = ["Global"]
        self._names = {}
        self._handles = []
        self._active = False
        self._start = 0

    def get_total_flops(self) -> int:
        """The number of operations of everything within the mode."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[str, int]]:
        """{module: {function: count}}; "Global" is everything."""
        return {module: dict(counts) for module, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text: a row for each module up to a depth, and each of its functions."""
        depth = self.depth if depth is None else depth
        total = max(self.get_total_flops(), 1)
        rows = []
        for module, counts in self.flop_counts.items():
            level = 0 if module == "Global" else module.count(".") + 1
            if level > depth:
                continue
            entries = [(" " * level + module, sum(counts.values()))]
            entries += [(f"{' ' * level} - {function}", count) for function, count in counts.items()]
            rows += [(name, str(count), f"{100 * count / total:.2f}%") for name, count in entries]
        return "\n".join(table(("Module", "FLOP", "% Total"), rows))

    def __enter__(self) -> Self:
        self.flop_counts.clear()
        self.flop_counts["Global"]  # first in the table
        self._handles = [register_module_forward_pre_hook(self._enter_module)]
        self._handles.append(register_module_forward_hook(self._leave_module, always_call=True))
        self._start = _now()
        self._active = True
        self._mode.__enter__()
        self._operators.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._operators.__exit__(*exception)
        self._mode.__exit__(*exception)
        self._active = False
        for handle in self._handles:
            handle.remove()
        if self.display and exception[0] is None:
            print(self.get_table())

    def _enter_module(self, module, args):
        if module not in self._names:
            root = type(module).__name__
            for name, part in module.named_modules():
                self._names.setdefault(part, f"{root}.{name}" if name else root)
        self._stack.append(self._names[module])

    def _leave_module(self, module, args, output):
        self._stack.pop()

    def _add(self, count, function, modules):
        for module in dict.fromkeys(modules):
            self.flop_counts[module][function] += count

    def _formulas(self):
        """Return what programs say of operators: packets to (formula, whether it is given tensors)."""
        own = {k: (f, getattr(f, "_get_raw", False)) for k, f in self.custom_mapping.items() if hasattr(k, "overloads")}
        return {**flop_registry, **own}

    def _note_operator(self, packet, args, kwargs, out):
        formula, raw = self._formulas()[packet]
        if raw:
            count = formula(*args, **kwargs, out_val=out)
        else:
            count = formula(*_shapes(args), **_shapes(kwargs), out_shape=_shapes(out))
        self._add(count, packet, self._stack)

    def _note(self, function, args, kwargs, out):
        name = getattr(function, "__name__", "")
        custom = self.custom_mapping.get(function)
        if custom is not None:
            self._add(custom(*args, **kwargs, out_val=out), name, self._stack)
            return
        if name not in _FORMULAS:
            return
        take, formula = _FORMULAS[name]
        products = formula(*take(args, kwargs), out)
        if not products:
            return
        modules = tuple(self._stack)
        self._add(sum(count for count, _ in products), name, modules)
        backward = sum(count * sum(map(_needs_gradient, factors)) for count, factors in products)
        grad_fn = (out if isinstance(out, facula.Tensor) else out[0]).grad_fn
        if grad_fn is not None and backward:

            def when_it_runs(grads):
                if self._active:
                    self._add(backward, f"{name}_backward", modules)

            grad_fn.register_prehook(when_it_runs)


class _WatchOperators(TorchDispatchMode):
    """Sees the operators for which a program has formulas, in backward, too; nothing where it has none."""

    def __init__(self, counter):
        super().__init__()
        self._counter = counter
        self._inside = False

    def __enter__(self):
        if self._counter._formulas():
            self._inside = True
            super().__enter__()
        return self

    def __exit__(self, *exception):
        if self._inside:
            self._inside = False
            super().__exit__(*exception)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        packet = getattr(func, "overloadpacket", None)
        if packet in self._counter._formulas():
            self._counter._note_operator(packet, args, kwargs, out)
        return out


class _Watch(TorchFunctionMode):
    """Sees the calls for a counter."""

    def __init__(self, counter):
        self._counter = counter

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if getattr(func, "__name__", "") in ("backward", "grad") and args:
            _refuse_older(args[0], self._counter._start)
        out = func(*args, **(kwargs or {}))
        self._counter._note(func, args, kwargs or {}, out)
        return out
