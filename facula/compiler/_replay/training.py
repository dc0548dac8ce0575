"""Tell the reader of sources (reader.py) about training steps: the methods of the package's optimizers.

The work is the core's own; Python's share is what stands around it. The methods are called as the interpreter would call them,
without the wrapper that looks for hooks, when there are none. (A backward pass runs no code of the user's when no leaf that the
program knows has a hook, which the core asks in each call: what the program records itself cannot have any.)
"""

from __future__ import annotations

import os
import types
from typing import TYPE_CHECKING

import facula
from facula.compiler._replay.facts import ABSENT
from facula.compiler._replay.trusted import Known, Untrusted
from facula.optim import optimizer as optimizer_file

if TYPE_CHECKING:
    from typing import Any

_PACKAGE = os.path.dirname(facula.__file__) + os.sep
# Every optimizer's `step` is wrapped in the same function, whose code identifies it.
_HOOKED = optimizer_file._with_hooks(lambda self: None).__code__


def optimizer_call(reader: Any, target: Any, function: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
    """Return what `optimizer.step()` or `optimizer.zero_grad()` gives; None where the function is neither.

    Args:
        reader: a Reader.
        target: the optimizer.
        function: what the method is.
        args, keywords: others of the call.
    """
    is_step = function.__code__ is _HOOKED
    if not is_step and function is not optimizer_file.Optimizer.__dict__["zero_grad"]:
        return None
    if args or keywords:
        raise Untrusted("arguments for an optimizer")
    _check_class(reader, type(target))
    if is_step:
        _check_hooks(reader, target)
        inside = _cell(reader, function, "inside")
        function = _cell(reader, inside, "step")
        _check_own(function, "step")
    reader.facts.function(function)
    # gradients that are dropped may be dropped once more: where Python makes the call after all, nothing is done twice
    return reader.steps.step("call", [reader.steps.constant(Known(target))], what=function, effect=is_step)


def _cell(reader, function, name):
    reader.facts.function(function)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))
    return Known(None, reader.facts.cell(cells[name])).entry.value


def _check_own(function, name):
    if not function.__code__.co_filename.startswith(_PACKAGE):
        raise Untrusted(f"an optimizer with {name} of its own")


def _check_class(reader, cls):
    """Check that a class is one of the package, none of whose functions has been exchanged."""
    for base in cls.__mro__:
        for name, value in vars(base).items():
            if isinstance(value, types.FunctionType):
                _check_own(value, name)
                reader.facts.of_class(cls, name)


def _check_hooks(reader, target):
    state = reader.facts.object(target)
    tables = [reader.facts.entry(state, f"_optimizer_step_{when}_hooks") for when in ("pre", "post")]
    tables += [reader.facts.entry(vars(optimizer_file), f"_global_{when}_hooks") for when in ("pre", "post")]
    for entry in tables:
        entry.pinned = True
        if entry.value is ABSENT:
            continue
        if entry.value or not isinstance(entry.value, dict):
            raise Untrusted("an optimizer with hooks")
        reader.facts.items(entry.value)
    if reader.facts.entry(state, "_inside_step").value is not ABSENT:
        raise Untrusted("a step within a step")
