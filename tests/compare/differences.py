"""Find the first difference of every program between two results of `execute.py`, and group what is found."""

from __future__ import annotations

import collections
import contextlib
import json
import math
import re
from typing import NamedTuple

from .accepted import ACCEPTED

# Relative tolerance of values; a tensor's largest element is what an error is measured against.
TOLERANCE = {"float16": 5e-3, "complex32": 5e-3, "bfloat16": 3e-2, "float32": 2e-4, "complex64": 2e-4, "float64": 2e-4, "complex128": 2e-4}
NARROW = 2e-2
TINY = 1e-3  # below it numbers are what rounding has left of zero
EXTREME = 1e5  # numbers beyond it come from poles and singular matrices
# Kinds of differences that a program does not notice by an exception.
SILENT = ("value", "gradient", "dtype", "shape", "requires_grad", "is_leaf", "kind", "layout", "no gradient", "backward only ours", "died", "too long")
# After a difference of these kinds the rest of the program can still be compared.
HARMLESS = ("stride", "warning", "error class", "lazy")


class Difference(NamedTuple):
    kind: str
    statement: str
    detail: str
    line: int
    said: str = ""  # the text of PyTorch's exception or warnings, and of Facula's
    values: tuple = ()  # what differs, PyTorch's and Facula's

    @property
    def silent(self) -> bool:
        return self.kind.startswith(SILENT)

    @property
    def group(self) -> str:
        return f"{self.kind}: {re.sub(r'v[0-9]+', 'v', self.statement)}"


def near(a: list, b: list, dtype: str, narrow: bool = False) -> bool:
    if len(a) != len(b):
        return False
    tolerance = TOLERANCE.get(dtype, 0.0)
    if narrow and tolerance:  # numbers that were narrow once are no more exact afterwards
        tolerance = max(tolerance, NARROW)
    largest = max((abs(v) for v in a if v != "nan" and math.isfinite(v)), default=0.0)
    bound = tolerance * max(largest, 0.25)
    for x, y in zip(a, b):
        if x == y:
            continue
        if "nan" in (x, y) or not (math.isfinite(x) and math.isfinite(y)):
            return False
        if abs(x - y) > bound:
            return False
    return True


def differ(a, b, narrow: bool = False) -> str | None:
    """What differs between two descriptions of a value, or None."""
    if isinstance(a, dict) and isinstance(b, dict):
        for key in ("dtype", "shape", "layout"):
            if a[key] != b[key]:
                return key
        if not near(a["values"], b["values"], a["dtype"], narrow):
            return "value"
        for key in ("requires_grad", "is_leaf"):
            if a[key] != b[key]:
                return key
        if "grad" in a or "grad" in b:
            if not ("grad" in a and "grad" in b):
                return "gradient missing" if "grad" in a else "gradient only ours"
            inner = differ(a["grad"], b["grad"], narrow)
            if inner and inner not in HARMLESS:
                return "gradient " + inner
        if a["lazy"] != b["lazy"]:
            return "lazy"
        return "stride" if a.get("stride") != b.get("stride") else None
    if isinstance(a, list) and isinstance(b, list):
        if len(a) != len(b) or a[0] != b[0]:
            return "kind"
        return next((d for d in (differ(x, y, narrow) for x, y in zip(a[1:], b[1:])) if d), None)
    if isinstance(a, str) and isinstance(b, str) and a != b:
        try:
            x, y = complex(a), complex(b)
            return None if abs(x - y) <= (NARROW if narrow else 2e-4) * max(1e-2, abs(x)) or (x != x and y != y) else "value"
        except ValueError:
            return "kind"
    return None if a == b else "kind"


def of_program(program: list[str] | str, ours: list | str, theirs: list | str) -> list[Difference]:
    """The differences of one program: harmless ones, and at most one that ends the comparison."""
    program = [program] if isinstance(program, str) else program
    if isinstance(theirs, str) or isinstance(ours, str):
        return [] if theirs == ours or isinstance(theirs, str) else [Difference(ours if ours == "too long" else "died", program[-1], ours, len(program) - 1)]
    found, here, there = [], {}, {}
    narrow = any("16" in line or "half" in line for line in program)
    for i, (row, expected) in enumerate(zip(ours, theirs)):
        statement = program[i] if i < len(program) else "backward"
        (end, warned, changed, text), (end0, warned0, changed0, text0) = row, expected
        said = f"{text0} | {text}"
        if (end == "ok") != (end0 == "ok"):
            who = f"only PyTorch raises {end0}" if end == "ok" else f"only Facula raises {end}"
            if statement == "backward" or ".backward(" in statement:
                who = f"backward only {'theirs' if end == 'ok' else 'ours'}: {who}"
            return [*found, Difference(who, statement, said, i, said)]
        if end != end0:
            found.append(Difference(f"error class {end0} not {end}", statement, said, i, said))
        here, there = here | changed, there | changed0
        if end != "ok" and "out=" in statement:
            return found  # what a refused out= leaves behind is nobody's promise
        for name in sorted(set(changed) | set(changed0)):
            a, b = there.get(name), here.get(name)
            kind = differ(a, b, narrow)
            if kind and (kind not in HARMLESS):
                return [*found, Difference(kind, statement, f"{name}: {brief(a)} | {brief(b)}", i, said, (a, b))]
            if kind and statement != "backward":
                found.append(Difference(kind, statement, f"{name}: {brief(a)} | {brief(b)}", i, said))
        if warned != warned0 and statement != "backward" and end == "ok":
            found.append(Difference(f"warning {','.join(warned0)} not {','.join(warned)}", statement, said, i, said))
    return found


def brief(value) -> str:
    if isinstance(value, dict):
        rest = {k: v for k, v in value.items() if k in ("requires_grad", "is_leaf", "stride", "lazy") and v}
        return f"{value['dtype']}{value['shape']} {value['values'][:8]} {rest}" + (f" grad {brief(value['grad'])}" if "grad" in value else "")
    if isinstance(value, list):
        return "[" + ", ".join(map(brief, value)) + "]"
    return str(value)[:150]


def numbers(value):
    """Return all numbers in a description of a value, its gradient included."""
    if isinstance(value, dict):
        yield from value["values"]
        if "grad" in value:
            yield from numbers(value["grad"])
    elif isinstance(value, list):
        for part in value:
            yield from numbers(part)
    elif isinstance(value, str):
        with contextlib.suppress(ValueError):
            yield float(value)


def fits(only: str, values: tuple) -> bool:
    """Return whether numbers are such that a pattern is about them."""
    if not only:
        return True
    if only == "zero":
        return any(all(v != "nan" and abs(v) < TINY for v in numbers(side)) for side in values)
    if only == "step":
        pairs = zip(*(numbers(side) for side in values))
        return all(x == y or (x != "nan" and y != "nan" and min(abs(x - y), abs(abs(x - y) - 1)) < TINY * max(1, abs(x))) for x, y in pairs)
    seen = list(numbers(list(values)))
    nan = any(v == "nan" or v != v for v in seen)
    return nan or (only == "extreme" and any(v != "nan" and not abs(v) < EXTREME for v in seen))


def accepted(program: list[str], difference: Difference) -> str | None:
    """Return the reason for which the table accepts a difference."""
    history = "\n".join(program[: difference.line + 1])
    texts = f"{difference.said} {difference.detail}"
    for reason, patterns in ACCEPTED.items():
        for p in patterns:
            if re.search(p.kind, difference.kind) and re.search(p.statement, difference.statement) and re.search(p.program, history) and re.search(p.said, texts) and fits(p.only, difference.values):
                return reason
    return None


# What a program whose differences are listed shows at worst.
SEVERITIES = ("warning", "layout", "error class", "only PyTorch refuses", "only Facula refuses", "silent")


def severity(difference: Difference) -> str:
    if difference.silent:
        return "silent"
    if difference.kind.startswith(("stride", "lazy")):
        return "layout"
    if difference.kind.startswith(("warning", "error class")):
        return "warning" if difference.kind.startswith("warning") else "error class"
    return "only PyTorch refuses" if "only PyTorch raises" in difference.kind else "only Facula refuses"


class Summary:
    def __init__(self):
        self.programs = 0
        self.different = collections.Counter()
        self.examples: dict[str, tuple[list[str], Difference]] = {}
        self.accepted = collections.Counter()
        self.silent = self.other = 0
        self.listed = collections.Counter()  # programs whose differences are all in the table, by the worst of them

    def add(self, program, differences):
        program = [program] if isinstance(program, str) else program
        self.programs += 1
        worst = listed = None
        for difference in differences:
            reason = accepted(program, difference)
            if reason:
                self.accepted[reason] += 1
                listed = max(filter(None, (listed, severity(difference))), key=SEVERITIES.index)
                continue
            group = difference.group
            self.different[group] += 1
            if group not in self.examples or len(self.examples[group][0]) > difference.line + 1:
                self.examples[group] = (program[: difference.line + 1], difference)
            worst = max(filter(None, (worst, difference)), key=lambda d: d.silent)
        self.silent += worst is not None and worst.silent
        self.other += worst is not None and not worst.silent
        self.listed[listed] += worst is None and listed is not None

    def lines(self, most: int = 100):
        for group, count in self.different.most_common(most):
            program, difference = self.examples[group]
            yield f"{count:5d} {'SILENT ' if difference.silent else ''}{group}"
            yield "        " + "; ".join(line.replace("\n", "\\n") for line in program)
            if difference.detail:
                yield "        " + difference.detail
        for reason, count in self.accepted.most_common():
            yield f"{count:5d} accepted: {reason}"
        share = 100 / max(1, self.programs)
        listed = ", ".join(f"{name} {self.listed[name]} ({self.listed[name] * share:.2f} %)" for name in SEVERITIES)
        total = sum(self.listed.values())
        yield f"SUMMARY programs {self.programs} silent {self.silent} other {self.other} kinds {len(self.different)} listed {total} ({total * share:.2f} %): {listed}"


def read(path: str) -> dict[int, list | str]:
    with open(path) as file:
        return dict(json.loads(line) for line in file)


def compare(programs: list[list[str]], theirs: str, ours: str) -> Summary:
    summary = Summary()
    a, b = read(theirs), read(ours)
    for index, program in enumerate(programs):
        summary.add(program, of_program(program, b[index], a[index]))
    return summary
