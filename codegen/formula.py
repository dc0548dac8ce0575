"""Translate the text of a derivative to C++ text and the list of values to save for it.

A formula is a C++ expression over `grad` / `grads[i]`, the arguments, `result` (or the named results) and any
`facula::` function. Only what it names is saved. `self.sizes()` and the like become a saved description (`TensorInfo`)
that holds no data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from .op import Argument, Op

# what TensorInfo (src/autograd/saved.h) answers without the tensor's data
INFO_METHODS = ("sizes", "size", "dim", "numel", "dtype", "device", "is_complex", "strides", "item_size", "is_floating", "info")

# schema type -> how a node holds the value
STORED_TYPES = {
    "Tensor": "SavedTensor",
    "Tensor?": "SavedTensor",
    "Tensor[]": "std::vector<SavedTensor>",
    "Operand": "SavedOperand",
    "Scalar": "Scalar",
    "Scalar?": "std::optional<Scalar>",
    "int[]": "Dims",
    "int[]?": "std::optional<Dims>",
    "float[]": "std::vector<double>",
    "float[]?": "std::optional<std::vector<double>>",
    "str": "std::string",
    "str?": "std::optional<std::string>",
    "Generator?": "Generator*",
}


def stored_type(arg: Argument) -> str:
    return STORED_TYPES.get(arg.type, arg.cpp_type)


@dataclass(frozen=True)
class Formula:
    """Hold the derivative with respect to one differentiable argument."""

    arg: Argument
    text: str
    uses: frozenset[str]  # arguments, results, "x_info" names
    together: tuple[str, ...] = ()  # the arguments whose gradients the formula gives as a tuple, where there are several


def result_names(op: Op) -> tuple[str, ...]:
    return op.return_names or ("result",)


def read(op: Op) -> list[Formula]:
    """Return the formulas of an op in the order of the schema, which is that of its node's edges."""
    by_name = {a.name: a for a in op.args}
    formulas = []
    for name, given in (op.grad or {}).items():
        if name in by_name:
            text, uses = _rewrite(op, given, by_name)
            together = next((names for names in op.grad_together if name in names), ())
            formulas.append(Formula(by_name[name], text, frozenset(uses), together))
    return formulas


def _rewrite(op: Op, text: str, by_name: dict[str, Argument]) -> tuple[str, set[str]]:
    uses: set[str] = set()
    tensors = [n for n, a in by_name.items() if a.type in ("Tensor", "Tensor?", "Operand")] + list(result_names(op))

    def info(match: re.Match) -> str:
        uses.add(f"{match.group(1)}_info")
        return f"{match.group(1)}_info.{match.group(2)}("

    pattern = rf"(?<![\w.])({'|'.join(map(re.escape, tensors))})\.({'|'.join(INFO_METHODS)})\(" if tensors else r"(?!)"
    text = re.sub(pattern, info, text)
    for name in (n for n, a in by_name.items() if a.type == "Tensor[]" and f"{n}.info()" in text):
        uses.add(f"{name}_info")
        text = text.replace(f"{name}.info()", f"{name}_info")
    known = set(by_name) | set(result_names(op))
    for word in re.findall(r"(?<![\w.:])([A-Za-z_]\w*)(?!\s*::)", _without_strings(text)):
        if word in known and not _is_call(text, word):
            uses.add(word)
    return text, uses


def _without_strings(text: str) -> str:
    return re.sub(r'"[^"]*"', '""', text)


def _is_call(text: str, word: str) -> bool:
    """Return whether a name is used only as a function, such as `exp(...)` in the formula of an op with an argument `exp`."""
    return all(re.match(r"\s*\(", text[m.end():]) for m in re.finditer(rf"(?<![\w.]){word}(?!\w)", text))


def out_history(op: Op) -> str:
    """Return what a tracked out= means to the op (OutHistory in function_support.h)."""
    if not any(a.is_tensor for a in op.args) or (op.grad is None and not op.composite):
        return "Missing"
    return "None" if op.grad == {} else "Recorded"
