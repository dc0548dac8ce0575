"""Record the steps of functions that the user declares pure by `options={"pure": True}`: calls are observed, and no
source is read.

The promise: what a call does follows from the forms of its tensors (sizes, dtype, device, layout, whether they require
gradients) and from its other arguments, and it does nothing but call public functions. Calls are watched until two did
the same with the same tensors from outside. A call that asks for a value of a tensor is not replayed.
"""

from __future__ import annotations

import os
import types
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula.compiler._replay import trusted
from facula.compiler._replay.facts import is_plain
from facula.compiler._replay.trusted import COMPARE, Known, Made, Op, Register, Steps, Untrusted
from facula.overrides import TorchFunctionMode

if TYPE_CHECKING:
    from typing import Any

_PACKAGE = os.path.dirname(facula.__file__) + os.sep
_FORM = ("shape", "dtype", "device", "layout", "requires_grad")
# operators that come as special methods: (kind of step, operator, whether the operands change places)
_SPECIAL = {
    "__radd__": ("binary", "Add", True), "__rsub__": ("binary", "Sub", True), "__rmul__": ("binary", "Mult", True),
    "__rtruediv__": ("binary", "Div", True), "__rmatmul__": ("binary", "MatMult", True), "__getitem__": ("item", "", False),
    "__setitem__": ("set_item", "", False), "__lt__": ("compare", "Lt", False), "__le__": ("compare", "LtE", False),
    "__eq__": ("compare", "Eq", False), "__ne__": ("compare", "NotEq", False), "__gt__": ("compare", "Gt", False),
    "__ge__": ("compare", "GtE", False),
}  # fmt: skip


class _Watch(TorchFunctionMode):
    """Write down the public functions that are called."""

    def __init__(self, steps):
        self.steps, self.known, self.alive, self.why = steps, {}, [], None
        self.autocast = facula.is_autocast_enabled("cpu")
        self.grad = self.grad_before = facula.is_grad_enabled()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        try:
            row = self._row(func, args, kwargs)
        except Untrusted as error:
            self.why, row = self.why or str(error), None
        result = func(*args, **kwargs)
        if row is not None and self.why is None:
            try:
                self._note(row, result)
            except Untrusted as error:
                self.why = str(error)
        return result

    def _row(self, func, args, kwargs):
        """Return (kind, operands, others) of the step; its operands are looked at before they are written to."""
        if facula.is_autocast_enabled("cpu") != self.autocast:
            raise Untrusted("autocast within the function")
        name, operands = getattr(func, "__name__", ""), [*map(self.value, args), *map(self.value, kwargs.values())]
        others = {"names": tuple(kwargs)}
        if isinstance(func, types.MethodDescriptorType) and (op := trusted.method_op(name)) is not None:
            return "method", operands, {**others, "what": func, "name": name, "effect": op.effect}
        if isinstance(func, types.WrapperDescriptorType) and name in _SPECIAL:
            kind, operator, swaps = _SPECIAL[name]
            how = COMPARE.index(operator) if kind == "compare" else trusted.BINARY.index(operator) if kind == "binary" else 0
            return kind, operands[::-1] if swaps else operands, {"how": how, "effect": kind == "set_item"}
        if isinstance(func, types.MethodWrapperType) and name == "__get__":
            name = func.__self__.__name__
            if trusted.property_kind(name) is None:
                raise Untrusted(f"the attribute {name}")
            return "attribute", operands, {"name": name}
        op = trusted.ops().get(func) if isinstance(func, types.BuiltinFunctionType) else None
        if op is None and isinstance(func, types.FunctionType) and func.__code__.co_filename.startswith(_PACKAGE):
            op = Op(True, "")
        if op is None:
            raise Untrusted(f"a call of {name}")
        return "call", operands, {**others, "what": func, "effect": op.effect or "out" in kwargs or "inplace" in kwargs}

    def value(self, value: Any) -> Any:
        """Return what an object of the call is for the program."""
        if type(value) in (tuple, list) and not trusted.is_handed(value):
            return Made(type(value).__name__, map(self.value, value))
        if type(value) is dict:
            return Made("dict", map(self.value, value.values()), list(value))
        found = self.known.get(id(value))
        if isinstance(found, tuple):  # of a result that is a tuple
            owner, number = found
            found = self.known[id(value)] = self.steps.step("item", [owner, Known(number)])
        if found is not None:
            return found
        if type(value) in (tuple, list) and any(id(one) in self.known for one in value):
            return Made(type(value).__name__, map(self.value, value))
        return Known(value)

    def learn(self, value: Any, register: Any) -> None:
        """Note which register an object is in; it lives as long as the watch, so that its address is its own."""
        self.alive.append(value)
        self.known[id(value)] = register

    def _note(self, row, result):
        self._switch(facula.is_grad_enabled())
        kind, operands, others = row
        register = self.steps.step(kind, operands, **others)
        if is_plain(result):
            if id(result) not in self.known:
                self.learn(result, register)
        elif isinstance(result, (tuple, list)):
            self.learn(result, register)
            for number, one in enumerate(result):
                if is_plain(one):
                    self.learn(one, (register, number))
        elif result is not None and kind != "attribute" and not (kind == "method" and others["name"] in trusted.FORMS):
            self.learn(result, register)

    def _switch(self, enabled):
        if enabled == self.grad:
            return
        if enabled == self.grad_before:
            self.steps.step("grad_back", [])
        else:
            self.steps.step("grad", [], how=int(enabled))
        self.grad = enabled


def watched_call(function: Any, values: tuple[Any, ...], keywords: tuple[str, ...] | None) -> tuple[Any, Any, str]:
    """Watch a call; return its result, the program or None, and why there is none.

    Args:
        function: what is compiled.
        values: the arguments, those by keyword last.
        keywords: their names.
    """
    count = len(values) - len(keywords or ())
    by_name = dict(zip(keywords or (), values[count:], strict=True))
    steps = Steps()
    watch = _Watch(steps)
    try:
        checks = []
        for number, value in enumerate(values):
            check, taken = trusted.argument(number, value)
            checks.append(check)
            if isinstance(taken, Register):
                watch.learn(value, taken)
                if taken.kind == "tensor":
                    _expect_form(steps, taken, value)
    except Untrusted as error:
        watch.why = str(error)
    with watch:
        result, recording = _C._region_explain(function, values[:count], by_name)
    if recording.demands:
        watch.why = watch.why or "a call that asks for values of tensors"
    if watch.why is not None:
        return result, None, watch.why
    try:
        watch._switch(watch.grad_before)
        return result, steps.program(checks, keywords, watch.value(result)), ""
    except Untrusted as error:
        return result, None, str(error)


def _expect_form(steps, register, value):
    for name in _FORM:
        found = steps.step("attribute", [register], name=name)
        steps.expect(steps.step("compare", [found, Known(getattr(value, name))], how=COMPARE.index("Eq")), True)


def are_alike(a: Any, b: Any) -> bool:
    """Return whether two programs do the same with the same objects.

    Args:
        a, b: programs.
    """
    return _is_same(a.spec, b.spec)


def _is_same(a, b):
    if type(a) is tuple and type(b) is tuple:
        return len(a) == len(b) and all(map(_is_same, a, b))
    if is_plain(a) or is_plain(b):
        return a is b
    return type(a) is type(b) and (a is b or (not isinstance(a, types.FunctionType) and repr(a) == repr(b)))
