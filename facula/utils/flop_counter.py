"""Count the floating-point operations of matrix products, convolutions and attention.

A product of (m, k) and (k, n) is 2 m k n operations. All operators that run are counted, whoever calls them: a module,
a backward pass (also that of a program's own Function), or a second computation under `checkpoint`.
"""

from __future__ import annotations

import math
import warnings
from collections import defaultdict
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._shared.text_table import table
from facula.overrides import TorchFunctionMode
from facula.utils._python_dispatch import TorchDispatchMode
from facula.utils.module_tracker import ModuleTracker

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
    from facula._operators.namespaces import OpOverloadPacket

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


def sdpa_flop_count(query_shape: Any, key_shape: Any, value_shape: Any) -> int:
    """Count the operations of scaled dot product attention: of query and key, and of the weights and value.

    Args:
        query_shape: (batch, heads, length, size).
        key_shape: (batch, heads, source length, size); the heads divide those of the query.
        value_shape: (batch, heads, source length, value size).

    Errors: AssertionError for shapes that do not belong together.

    >>> torch.utils.flop_counter.sdpa_flop_count((1, 2, 3, 4), (1, 2, 5, 4), (1, 2, 5, 6))
    600
    """
    (b, heads, _, size), (kb, key_heads, source, key_size) = query_shape, key_shape
    vb, value_heads, value_source, value_size = value_shape
    fits = b == kb == vb and key_heads == value_heads and size == key_size and source == value_source
    if not fits or heads % key_heads:
        raise AssertionError(
            "sdpa_flop_count: batches, lengths and sizes agree, and heads of key divide those of query, got "
            f"{tuple(query_shape)}, {tuple(key_shape)} and {tuple(value_shape)}"
        )
    return _of_attention(math.prod(query_shape[:-1]) * source, size, value_size)


def _of_attention(pairs, size, value_size):
    return 2 * pairs * (size + value_size)


def _product(out, a, b, *_):
    return 2 * out.numel() * a.shape[-1]


def _product_added(out, _, a, *__):
    return 2 * out.numel() * a.shape[-1]


def _convolution(out, x, weight, bias, stride, padding, dilation, transposed, *_):
    return 2 * (x if transposed else out).numel() * math.prod(weight.shape[1:])


def _convolution_weight(out, grad, x, sizes, *_):
    return 2 * grad.numel() * math.prod(sizes[1:])  # what stands first is as large as the result, or as the input if transposed


def _attention(out, query, key, value, *_):
    return _of_attention(math.prod(query.shape[:-1]) * key.shape[-2], query.shape[-1], value.shape[-1])


def _attention_backward(out, grad, query, key, value, *_):
    """Return the operations of a backward pass: the weights are computed again; then come the gradients of value, weights,
    query and key."""
    pairs = math.prod(query.shape[:-1]) * key.shape[-2]
    return _of_attention(pairs, 3 * query.shape[-1], 2 * value.shape[-1])


def _recurrent(out, gates, h0, c0, weight, *_):
    """Return the products of a recurrent layer with its hidden states; those of the inputs are a product of their own."""
    return 2 * weight.numel() * gates.shape[0]


def _recurrent_backward(out, *args):
    weight, batch_sizes, first, of_state, of_weight = args[3], args[8], *args[10:13]
    rows = sum(batch_sizes)
    return 2 * weight.numel() * (rows * of_weight + rows - (0 if of_state else first))


# operators to formulas of (result, *arguments); "facula" are those that do the work of several of PyTorch's
_FORMULAS = {
    **dict.fromkeys(("aten.mm", "aten.bmm"), _product),
    **dict.fromkeys(("aten.addmm", "aten.baddbmm"), _product_added),
    "aten.convolution": _convolution,
    "facula.convolution_weight": _convolution_weight,
    "facula._attention": _attention,
    "facula._attention_backward": _attention_backward,
    "facula._rnn_steps": _recurrent,
    "facula._rnn_steps_backward": _recurrent_backward,
}


class FlopCounterMode:
    """Count operations in a block, by operator and by the modules that call it, also in backward passes.

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
    >>> counter.get_total_flops()  # 2 * 3 * 4 multiplications and as many additions
    48
    >>> counter.get_flop_counts()["Global"][torch.ops.aten.mm]
    48
    >>> "aten.mm" in counter.get_table(depth=1)
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
        self.mod_tracker = ModuleTracker()
        self._mode = _WatchFunctions(self)
        self._operators = _WatchOperators(self)

    def get_total_flops(self) -> int:
        """Return the number of operations of everything within the mode."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Return {module: {operator: count}}; "Global" is everything."""
        return {module: dict(counts) for module, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """Return the counts as text: a row for each module up to a depth, and each of its operators."""
        depth = self.depth if depth is None else depth
        total = max(self.get_total_flops(), 1)
        rows = []
        for module, counts in sorted(self.flop_counts.items(), key=lambda item: (item[0] != "Global", item[0])):
            level = 0 if module == "Global" else module.count(".") + 1
            if level > depth:
                continue
            entries = [(" " * level + module, sum(counts.values()))]
            entries += [(f"{' ' * level} - {operator}", count) for operator, count in counts.items()]
            rows += [(name, str(count), f"{100 * count / total:.2f}%") for name, count in entries]
        return "\n".join(table(("Module", "FLOP", "% Total"), rows))

    def __enter__(self) -> Self:
        self.flop_counts.clear()
        self.flop_counts["Global"]  # first in the table
        self.mod_tracker.__enter__()
        self._mode.__enter__()
        self._operators.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._operators.__exit__(*exception)
        self._mode.__exit__(*exception)
        self.mod_tracker.__exit__(*exception)
        if self.display and exception[0] is None:
            print(self.get_table())

    def _add(self, operator, count):
        for module in self.mod_tracker.parents:
            self.flop_counts[module][operator] += count

    def _formulas(self):
        """Return what programs say of operators: packets to (formula, whether it is given tensors)."""
        own = {k: (f, getattr(f, "_get_raw", False)) for k, f in self.custom_mapping.items() if hasattr(k, "overloads")}
        return {**flop_registry, **own}

    def _note_operator(self, packet, args, kwargs, out):
        formula, raw = self._formulas().get(packet, (None, False))
        if formula is None:
            own = _FORMULAS.get(str(packet))
            if own is not None:
                self._add(_shown_as(packet), own(out, *args))
        elif raw:
            self._add(packet, formula(*args, **kwargs, out_val=out))
        else:
            self._add(packet, formula(*_shapes(args), **_shapes(kwargs), out_shape=_shapes(out)))

    def _note_function(self, function, args, kwargs, out):
        custom = self.custom_mapping.get(function)
        if custom is not None:
            self._add(getattr(function, "__name__", str(function)), custom(*args, **kwargs, out_val=out))


def _shown_as(packet):
    """Return what is shown of an operator: a backward pass computes the two gradients of a convolution by operators of their
    own, which PyTorch has in one."""
    backward = str(packet) == "facula.convolution_weight" or (str(packet) == "aten.convolution" and _C._pass_id())
    return facula.ops.aten.convolution_backward if backward else packet


class _WatchOperators(TorchDispatchMode):
    """Report every operator to a counter."""

    def __init__(self, counter):
        super().__init__()
        self._counter = counter

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        packet = getattr(func, "overloadpacket", None)
        if packet is not None:
            self._counter._note_operator(packet, args, kwargs, out)
        return out


class _WatchFunctions(TorchFunctionMode):
    """Report to a counter the functions for which a program has registered formulas."""

    def __init__(self, counter):
        self._counter = counter

    def __torch_function__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        self._counter._note_function(func, args, kwargs or {}, out)
        return out
