"""Write the signature of a function of the core as `inspect` reads it: one for all overloads of its name.

Python reads it in the first line of the text that a function is made with, up to a line of two dashes: `add($self, other, *,
alpha=1)`. A parameter that not every overload has gets a default; the signature takes every call that an overload takes.
"""

from __future__ import annotations

import keyword
from dataclasses import dataclass, replace

from .emit_docs import Form, python_default, python_name
from .op import Op

LITERALS = {"inf": "1e999", "-inf": "-1e999", "nan": "1e999-1e999", "contiguous_format": "None"}
SPREAD = {("int[]", 0), ("Tensor[]", 1)}  # what may be given item by item: int[], and Tensor[1]
#: What stands for arguments that some overloads have not, where it is not None.
DEFAULTS = {
    ("arange", "start"): "0", ("arange", "step"): "1", ("randint", "low"): "0", ("randint_like", "low"): "0",
    ("random_", "from_"): "0", ("round", "decimals"): "0",
}  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    name: str
    default: str | None  # a literal; None: required
    keyword_only: bool
    spread: bool = False  # whether it may be given item by item


Row = list[Parameter]


def _row(op: Op, form: Form) -> Row:
    """Return the parameters of one overload."""
    found = []
    for arg in form.arguments(op):
        given = python_default(arg)
        default = None if given is None else LITERALS.get(given, given)
        name = python_name(arg) + ("_" if keyword.iskeyword(arg.name) else "")
        spread = (arg.type, arg.list_size) in SPREAD and default is None
        found.append(Parameter(name, default, arg.keyword_only, spread))
    if form.has_out(op):
        found.append(Parameter("out", "None", True))
    return found


def _positional(row: Row) -> list[str]:
    return [p.name for p in row if not p.keyword_only]


def _takes(order: list[str], row: Row) -> bool:
    """Return whether positional parameters in this order take every call of an overload, in which each may be a keyword,
    too."""
    own = [p.name for p in row]
    places = _positional(row)
    return len(places) <= len(order) and all(
        order[i] not in own or order[i] in places[:i + 1] for i in range(len(places))
    )


def _in_all_orders(rows: list[Row]) -> list[str] | None:
    """Return all positional names, each after those that it follows in some overload; None where overloads contradict each
    other."""
    left = [_positional(row) for row in rows]
    order: list[str] = []
    while left := [names for names in left if names]:
        for names in sorted(left, key=len, reverse=True):
            if all(names[0] not in other[1:] for other in left):
                order.append(names[0])
                left = [other[1:] if other[0] == order[-1] else other for other in left]
                break
        else:
            return None
    return order


def _preferred(rows: list[Row]) -> list[str]:
    """Return the positional names of the longest overload, or the single one that may be given item by item."""
    places = [_positional(row) for row in rows]
    spread = [p.name for row in rows for p in row if p.spread and not p.keyword_only]
    return spread[:1] if spread and all(len(names) <= 1 for names in places) else max(places, key=len)


def merged(name: str, rows: list[Row]) -> Row | None:
    """Return one row that takes the calls of all overloads of `name`; None where there is none but (*args, **kwargs)."""
    longest = _preferred(rows)
    order: list[str] | None = longest
    if not all(_takes(longest, row) for row in rows):
        order = _in_all_orders(rows)
        if order is None or not all(_takes(order, row) for row in rows):
            return None
    known = {p.name: p for row in reversed(rows) for p in row}
    found, optional = [], False
    for place, each in enumerate(order):
        needed = all(place < len(_positional(row)) and _positional(row)[place] == each for row in rows)
        optional = optional or not needed or any(p.default is not None for row in rows for p in row if p.name == each)
        found.append(replace(known[each], default=_default(name, each, rows) if optional else None, keyword_only=False))
    for each in sorted(known.keys() - set(order), key=lambda n: (n == "out", list(known).index(n))):
        needed = all(any(p.name == each and p.default is None for p in row) for row in rows)
        found.append(replace(known[each], default=None if needed else _default(name, each, rows), keyword_only=True))
    return found


def _default(op: str, name: str, rows: list[Row]) -> str:
    stated = (p.default for row in rows for p in row if p.name == name and p.default is not None)
    return DEFAULTS.get((op, name)) or next(stated, "None")


def _written(parameters: Row) -> list[str]:
    """Return the parameters as Python writes them, a single one that may be spread as `*size`."""
    positional = [p for p in parameters if not p.keyword_only]
    if len(positional) == 1 and positional[0].spread:
        parts, star = [f"*{positional[0].name}"], True
    else:
        parts, star = [_one(p) for p in positional], False
    for p in parameters:
        if p.keyword_only:
            parts += ([] if star else ["*"]) + [_one(p)]
            star = True
    return parts


def _one(p: Parameter) -> str:
    return p.name if p.default is None else f"{p.name}={p.default}"


def text_signature(members: list[Op], form: Form) -> str:
    """Return `(input, other, *, alpha=1, out=None)`, of a method `($self, other, *, alpha=1)`."""
    parameters = merged(members[0].name, [_row(op, form) for op in members])
    parts = ["*args", "**kwargs"] if parameters is None else _written(parameters)
    return f"({', '.join(['$self'] * form.method + parts)})"
