"""Compute the cost of a program: operations of products, bytes that ops read and write, and the largest memory of live
values.

Sizes that vary have the values with which the program was recorded. The operations are those that `utils.flop_counter`
counts (matrix products, convolutions, attention), and one for every element of the result of any other op.
"""

from __future__ import annotations

import dataclasses
import math

from facula import _C


def _product(a, b, out):
    """Return the cost of matrix products, batches included; vectors are not counted."""
    if a.dim() < 2 or b.dim() < 2:
        return 0
    # A multiplication and the addition behind it count as two operations.
    return 2 * out.numel() * a.shape[-1]


def _convolution(x, weight, out):
    return 2 * out.numel() * math.prod(weight.shape[1:])


def _transposed_convolution(x, weight, out):
    return 2 * x.numel() * math.prod(weight.shape[1:])


def _attention(query, key, value, out):
    pairs = math.prod(query.shape[:-1]) * key.shape[-2]
    return 2 * pairs * (query.shape[-1] + value.shape[-1])


def _einsum(equation, operands, out):
    """Return the cost, factor by factor from the left; a label is summed over as soon as nothing that follows has it."""
    if not isinstance(equation, str) or "." in equation:
        raise NotImplementedError(f"costs: einsum with sublists or an ellipsis is not supported, got {equation!r}")
    operands = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    inputs, _, output = equation.replace(" ", "").partition("->")
    terms = inputs.split(",")
    if "->" not in equation:
        output = "".join(label for label in set(inputs) - {","} if inputs.count(label) == 1)
    sizes = {label: size for term, t in zip(terms, operands, strict=True) for label, size in zip(term, t.shape, strict=True)}
    left, found = set(terms[0]), 0
    for i, term in enumerate(terms[1:], 1):
        labels = left | set(term)
        found += 2 * math.prod(sizes[label] for label in labels)
        left = labels & (set(output) | set("".join(terms[i + 1 :])))
    return found


def _take(first, *names):
    """Return the arguments from position `first` on, by position or keyword; "mat1/batch1" is either keyword."""

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
    "linear": (_TWO, lambda x, weight, out: 2 * out.numel() * weight.shape[-1]),
    **{f"conv{n}d": (_TWO, _convolution) for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": (_TWO, _transposed_convolution) for n in (1, 2, 3)},
    "scaled_dot_product_attention": (_take(0, "query", "key", "value"), _attention),
    "einsum": (lambda args, kwargs: (args[0], args[1:]), _einsum),
    "_einsum": (lambda args, kwargs: (args[0], args[1:]), _einsum),
}


class _Sized:
    """Provide what formulas read from a tensor: its sizes."""

    def __init__(self, sizes):
        self.shape = sizes

    def dim(self):
        return len(self.shape)

    def numel(self):
        return math.prod(self.shape)


@dataclasses.dataclass
class Cost:
    """Hold the cost of one op, or of several together."""

    count: int = 0
    operations: int = 0
    read: int = 0
    written: int = 0

    def __add__(self, other):
        return Cost(*(a + b for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(other))))


class Costs:
    """Compute the costs of a program.

    Args:
        program: a `_C._Program`.
    """

    def __init__(self, program):
        self.program, self.values = program, program.values
        self.samples = {name: sample for name, _, _, sample in program.symbols}
        self.nodes = [self._node(*node[:4]) for node in program.nodes]

    def by_op(self):
        """Return the cost by name of op, the dearest first."""
        found = {}
        for node, cost in zip(self.program.nodes, self.nodes):
            name = node[1] or node[0]
            found[name] = found.get(name, Cost()) + cost
        return dict(sorted(found.items(), key=lambda item: -item[1].operations))

    def total(self):
        """Return the cost of all nodes."""
        return sum(self.nodes, Cost())

    def sizes(self, number):
        """Return the sizes of a value, as numbers; None for one that is no tensor."""
        meta = self.values[number][2]
        if meta is None:
            return None
        return [s if isinstance(s, int) else _C._evaluate(s, self.samples) for s in meta[1]]

    def bytes(self, number):
        """Return how many bytes a value has."""
        sizes = self.sizes(number)
        return 0 if sizes is None else math.prod(sizes) * self.values[number][2][0].itemsize

    def peak(self):
        """Return the most bytes that values made by nodes have at once: each from its node to its last use. Views count as
        values."""
        last, kept = {}, set()
        for i, node in enumerate(self.program.nodes):
            for number in (*_values_in(node[2]), *(v for made in node[3] for v in made)):
                last[number] = i
        for number in _values_in(self.program.outputs):
            kept.add(number)
        now = most = 0
        ends = {}
        made_by = set()
        for number, i in last.items():
            ends.setdefault(i, []).append(number)
        for i, node in enumerate(self.program.nodes):
            fresh = [v for made in node[3] for v in made]
            made_by.update(fresh)
            now += sum(map(self.bytes, fresh))
            most = max(most, now)
            now -= sum(self.bytes(v) for v in ends.get(i, ()) if v in made_by and v not in kept)
        return most

    def _node(self, key, aten, arguments, results):
        taken, made = list(_values_in(arguments)), [v for one in results for v in one]
        cost = Cost(1, 0, sum(map(self.bytes, taken)), sum(map(self.bytes, made)))
        cost.operations = self._operations(key, arguments, made)
        return cost

    def _operations(self, key, arguments, made):
        out = _Sized(self.sizes(made[0])) if made and self.sizes(made[0]) is not None else _Sized([0])
        info = _C._boxed_op(key)
        inside = [Costs(v).total().operations for kind, v in arguments if isinstance(v, _C._Program)]
        if inside:  # of a branch the dearer; of a loop one round
            return max(inside)
        formula = _FORMULAS.get(info["name"])
        if formula is None:
            return sum(math.prod(self.sizes(v) or [0]) for v in made)
        given = [self._argument(a) for a in arguments]
        names = ["weight" if a[0] == "weight" else a[0] for a in info["arguments"]]
        taken = formula[0](given, dict(zip(names, given)))
        if info["name"] == "_einsum":
            taken = (given[0], given[1])
        return formula[1](*taken, out)

    def _argument(self, argument):
        kind, value = argument
        if kind == "value":
            sizes = self.sizes(value)
            return _Sized(sizes) if sizes is not None else None
        return [self._argument(item) for item in value] if kind == "list" else value


def _values_in(arguments):
    for kind, value in arguments:
        if kind == "value":
            yield value
        elif kind == "list":
            yield from _values_in(value)
