"""Interpret expressions for the reader of sources (reader.py)."""

from __future__ import annotations

import ast
import operator
import types
from typing import TYPE_CHECKING

import facula
from facula.compiler._replay.facts import ABSENT, is_plain
from facula.compiler._replay.reading import FORMS, VIEWS, Values, is_own, is_simple
from facula.compiler._replay.trusted import BINARY, COMPARE, UNARY, Known, Made, Method, Register, Untrusted
from facula.nn.modules import container

if TYPE_CHECKING:
    from typing import Any

_OPERATORS = {
    "Add": operator.add, "Sub": operator.sub, "Mult": operator.mul, "Div": operator.truediv, "FloorDiv": operator.floordiv,
    "Mod": operator.mod, "BitAnd": operator.and_, "BitOr": operator.or_, "BitXor": operator.xor, "Pow": operator.pow,
    "USub": operator.neg, "UAdd": operator.pos, "Invert": operator.invert, "Lt": operator.lt, "LtE": operator.le,
    "Eq": operator.eq, "NotEq": operator.ne, "Gt": operator.gt, "GtE": operator.ge,
}  # fmt: skip


class Not:
    """Represent the opposite of a register's truth value."""

    def __init__(self, register):
        self.register = register


class Frame:
    """Hold the state of a function that is read: its local names, and where the others are."""

    def __init__(self, function, names):
        code = function.__code__
        self.function, self.names = function, names
        self.locals = {*code.co_varnames, *code.co_cellvars}
        self.cells = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))


class Expressions(Values):
    """Interpret expressions; a base of the reader."""

    _frames: list[Frame]

    def _truth(self, value):
        """Return True or False, or a register and what it has to be."""
        if isinstance(value, Not):
            return value.register, False
        if isinstance(value, Register):
            return value, True
        if isinstance(value, Made):
            return bool(value.items)
        if isinstance(value, Known) and is_simple(value.value):
            return bool(value.decide())
        if isinstance(value, Known) and isinstance(value.value, (types.FunctionType, types.BuiltinFunctionType)):
            return bool(value.decide())
        raise Untrusted(f"whether a {type(getattr(value, 'value', value)).__name__} is true")

    def value(self, node: Any) -> Any:
        """Return what an expression gives."""
        handler = _EXPRESSIONS.get(type(node))
        if handler is None:
            raise Untrusted(f"an expression {type(node).__name__}")
        return handler(self, node)

    def _constant(self, node):
        return Known(node.value)

    def _name(self, node):
        frame, name = self._frames[-1], node.id
        if name in frame.locals:
            if name not in frame.names:
                raise Untrusted(f"the name {name} without a value")
            return frame.names[name]
        if name in frame.cells:
            entry = self.facts.cell(frame.cells[name])
        else:
            entry = self.facts.entry(frame.function.__globals__, name)
            if entry.value is ABSENT:
                entry = self.facts.entry(frame.function.__builtins__, name)
        if entry.value is ABSENT:
            raise Untrusted(f"the name {name} without a value")
        return Known(entry.value, entry)

    def _attribute(self, node):
        return self.attribute(self.value(node.value), node.attr)

    def _call(self, node):
        function = self.value(node.func)
        args, keywords = [], {}
        for one in node.args:
            if isinstance(one, ast.Starred):
                args += self._elements(self.value(one.value))
            else:
                args.append(self.value(one))
        for one in node.keywords:
            more = {one.arg: self.value(one.value)} if one.arg else self._spread(self.value(one.value))
            if more.keys() & keywords.keys():
                raise Untrusted("two values for a keyword")
            keywords.update(more)
        return self.call(function, args, keywords)

    def _spread(self, value):
        if not isinstance(value, Made) or value.kind != "dict":
            raise Untrusted("keywords from a value of the call")
        return dict(zip(value.keys, value.items, strict=True))

    def _binary(self, node):
        return self._operate(type(node.op).__name__, self.value(node.left), self.value(node.right))

    def _operate(self, name, a, b):
        if all(isinstance(one, Known) and is_simple(one.value) for one in (a, b)):
            try:
                return Known(_OPERATORS[name](a.decide(), b.decide()))
            except Exception as error:
                raise Untrusted(f"an operator that raises {error}") from None
        tensors = any(self._is_tensor(one) for one in (a, b))
        if name == "Pow" and tensors:
            raise Untrusted("a power")
        if name not in BINARY or any(isinstance(one, Made) for one in (a, b)):
            raise Untrusted(f"the operator {name}")
        gives = "tensor" if tensors else "int" if all(map(self._is_int, (a, b))) and name != "Div" else ""
        made = self.steps.step("binary", [a, b], how=BINARY.index(name), gives=gives)
        return made if tensors else self._sampled(made, _OPERATORS[name], a, b)

    def _unary(self, node):
        value, name = self.value(node.operand), type(node.op).__name__
        if name == "Not":
            truth = self._truth(value)
            if isinstance(truth, bool):
                return Known(not truth)
            return Not(truth[0]) if truth[1] else truth[0]
        if isinstance(value, Known) and is_simple(value.value):
            return Known(_OPERATORS[name](value.decide()))
        gives = "tensor" if self._is_tensor(value) else ""
        return self.steps.step("unary", [value], how=UNARY.index(name), gives=gives)

    def _boolean(self, node):
        is_or = isinstance(node.op, ast.Or)
        for i, one in enumerate(node.values):
            value = self.value(one)
            # The last operand is the result, whether it is true or not.
            if i == len(node.values) - 1:
                return value
            truth = self._truth(value)
            if not isinstance(truth, bool):
                return self._conditions(node.values[i + 1 :], value, is_or)
            if truth is is_or:
                return value
        raise Untrusted("an empty and")

    def _conditions(self, nodes, first, is_or):
        """Join several conditions on the call, which are numbers of forms: all are asked, which changes nothing."""
        found = first
        for node in nodes:
            value = self.value(node)
            if isinstance(value, Known) and type(value.value) is bool:
                value = self.steps.operand(value)
                value.kind = "bool"
            if any(not isinstance(one, Register) or one.kind != "bool" for one in (found, value)):
                raise Untrusted("conditions on values of the call")
            found = self._both("BitOr" if is_or else "BitAnd", found, value)
        return found

    def _compare(self, node):
        if len(node.ops) != 1:
            raise Untrusted("a chain of comparisons")
        name, a, b = type(node.ops[0]).__name__, self.value(node.left), self.value(node.comparators[0])
        if name in ("Is", "IsNot"):
            return Known(self._is(a, b) is (name == "Is"))
        if name in ("In", "NotIn") and isinstance(a, Register) and a.kind == "int":
            return self._is_one_of(a, self._elements(b), name == "In")
        if name in ("In", "NotIn"):
            return Known((self._simple(a) in self._simple(b)) is (name == "In"))
        if all(isinstance(one, Known) and is_simple(one.value) for one in (a, b)):
            return Known(_OPERATORS[name](a.decide(), b.decide()))
        if any(isinstance(one, Made) for one in (a, b)):
            raise Untrusted("a comparison with a tuple")
        return self._compared(name, a, b)

    def _compared(self, name, a, b):
        forms = all(isinstance(one, Known) or one.kind in FORMS for one in (a, b))
        gives = "tensor" if any(map(self._is_tensor, (a, b))) else "bool" if forms else ""
        made = self.steps.step("compare", [a, b], how=COMPARE.index(name), gives=gives)
        return self._sampled(made, _OPERATORS[name], a, b)

    def _both(self, name, a, b):
        made = self.steps.step("binary", [a, b], how=BINARY.index(name), gives="bool")
        return self._sampled(made, _OPERATORS[name], a, b)

    def _is_one_of(self, number, values, wanted):
        found = None
        for one in values:
            equal = self._compared("Eq", number, Known(self._simple(one)))
            found = equal if found is None else self._both("BitOr", found, equal)
        if found is None:
            raise Untrusted("a number in nothing")
        return found if wanted else Not(found)

    def _is(self, a, b):
        """Read `a is b`, where it is certain. That something is a tensor, not None, stays so when another one takes its
        place."""
        if isinstance(b, Known) and b.value is None:
            if self._is_tensor(a) or isinstance(a, Made) or (isinstance(a, Register) and a.kind):
                return False
            if isinstance(a, Known):
                return a.decide() is None
        if all(isinstance(one, Known) for one in (a, b)):
            return a.decide() is b.decide()
        raise Untrusted("whether a value of the call is another one")

    def _either(self, node):
        truth = self._truth(self.value(node.test))
        if not isinstance(truth, bool):
            register, polarity = truth
            if type(register.sample) is not bool:
                raise Untrusted("a choice by values of the call")
            # The branch that this call takes is recorded, with the condition that later calls take it too.
            self.steps.expect(register, register.sample)
            truth = register.sample is polarity
        return self.value(node.body if truth else node.orelse)

    def _subscript(self, node):
        owner = self.value(node.value)
        if isinstance(owner, Register) or (isinstance(owner, Known) and is_plain(owner.value)):
            gives = "tensor" if self._is_tensor(owner) else "int" if owner.kind == "size" else ""
            index = self.value(node.slice)
            made = self.steps.step("item", [owner, index], gives="" if gives == "int" and not self._is_int(index) else gives)
            return (
                self._sampled(made, operator.getitem, owner, index)
                if isinstance(owner, Register) and owner.kind == "size"
                else made
            )
        key = self._simple(self.value(node.slice))
        if isinstance(owner, Made) and owner.kind != "dict":
            if type(key) is slice:
                return Made(owner.kind, owner.items[key])
            if type(key) is not int or not -len(owner.items) <= key < len(owner.items):
                raise Untrusted("an index of a tuple")
            return owner.items[key]
        if isinstance(owner, Made) and type(key) is str and key in owner.keys:
            return owner.items[owner.keys.index(key)]
        if isinstance(owner, Known) and type(owner.value) is dict and type(key) in (str, int):
            return self._entry(owner.decide(), key)
        if isinstance(owner, Known) and isinstance(owner.value, facula.nn.Module):
            return self._module_item(owner, key)
        if isinstance(owner, Known) and type(owner.value) is tuple:
            try:
                return Known(owner.decide()[key])
            except (IndexError, TypeError):
                pass
        raise Untrusted("an entry of what is not known")

    def _module_item(self, owner, key):
        """Read `module[key]`; lists of modules are looked into directly."""
        numbered = "_NumberedModules.__getitem__", "Sequential.__getitem__", "ModuleList.__getitem__"
        getter = self.facts.of_class(type(owner.value), "__getitem__")
        if (
            type(key) is int
            and getattr(getter, "__qualname__", "") in numbered
            and is_own(getter, container, getter.__qualname__)
        ):
            modules = self._elements(self.call(Method(Known(VIEWS["values"]), self.attribute(owner, "_modules")), [], {}))
            if -len(modules) <= key < len(modules):
                return modules[key]
        return self.call(self.attribute_of_class(owner, "__getitem__"), [Known(key)], {})

    def _slice(self, node):
        parts = [Known(None) if one is None else self.value(one) for one in (node.lower, node.upper, node.step)]
        if all(isinstance(one, Known) and is_simple(one.value) for one in parts):
            return Known(slice(*(one.decide() for one in parts)))
        return self.steps.step("slice", parts)

    def _sequence(self, node):
        kind = "tuple" if isinstance(node, ast.Tuple) else "list"
        items = [self.value(one) for one in node.elts]
        # A tuple of constants is a constant; a list can be changed, so every call makes its own.
        if kind == "tuple" and all(isinstance(one, Known) and is_simple(one.value) for one in items):
            return Known(tuple(one.decide() for one in items))
        return Made(kind, items)

    def _dict(self, node):
        # In a syntax tree the key None stands for `**other`.
        if any(key is None for key in node.keys):
            raise Untrusted("a dict of dicts")
        keys = [self._simple(self.value(key)) for key in node.keys]
        return Made("dict", [self.value(one) for one in node.values], keys)

    def _view(self, target, args, keywords):
        d = args[0].decide()
        items = [Made("tuple", [Known(key), Known(value)]) for key, value in self.facts.items(d)]
        part = {dict.keys: 0, dict.values: 1}.get(target)
        return Made("tuple", items if part is None else [item.items[part] for item in items])


_EXPRESSIONS = {
    ast.Constant: Expressions._constant,
    ast.Name: Expressions._name,
    ast.Attribute: Expressions._attribute,
    ast.Call: Expressions._call,
    ast.BinOp: Expressions._binary,
    ast.UnaryOp: Expressions._unary,
    ast.BoolOp: Expressions._boolean,
    ast.Compare: Expressions._compare,
    ast.IfExp: Expressions._either,
    ast.Subscript: Expressions._subscript,
    ast.Slice: Expressions._slice,
    ast.Tuple: Expressions._sequence,
    ast.List: Expressions._sequence,
    ast.Dict: Expressions._dict,
}
