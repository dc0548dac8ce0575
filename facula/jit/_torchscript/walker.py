"""Interpret the source of a TorchScript archive: walk its syntax tree, and accept only the kinds of nodes that are
listed.

Nothing is passed to Python's compiler. An expression becomes a closure over the values of its names (`env`). A
statement becomes a closure that returns None, or `(value,)` where the function ends. Names lead to four things only:
variables of the function, the archive's own functions and classes (`__torch__`), its constants, and the ops of
`builtins.py`. TorchScript's control flow has no jumps out of loops, so none are implemented here.
"""

from __future__ import annotations

import ast
import operator
from typing import Any

from facula import Tensor

from . import builtins
from .errors import ScriptError

_DEEPEST = 100  # calls of the archive's functions within one another


class Function:
    """Run a function or method of the archive."""

    __slots__ = ("name", "parameters", "body", "node", "_library", "line")
    name: str
    line: Any

    def __init__(self, name: str, node: Any, library: Any) -> None:
        self.name, self.node, self._library, self.line = name, node, library, node.lineno
        self.parameters: Any = _parameters(node, library, name)
        self.body = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.body is None:  # compiled when first called: archives hold much that is never used
            self.body: Any = Compiler(self._library, self.name).block(self.node.body)
        env = self._bound(args, kwargs)
        library = self._library
        library.depth += 1
        try:
            if library.depth > _DEEPEST:
                raise ScriptError(f"{self.name}: more than {_DEEPEST} calls within one another")
            found = self.body(env)
        finally:
            library.depth -= 1
        return found[0] if found is not None else None

    def _bound(self, args, kwargs):
        if len(args) > len(self.parameters):
            raise TypeError(f"{self.name}: takes {len(self.parameters)} arguments, got {len(args)}")
        env = {}
        for i, (name, default) in enumerate(self.parameters):
            if i < len(args):
                env[name] = args[i]
            elif name in kwargs:
                env[name] = kwargs.pop(name)
            elif default is not None:
                env[name] = default({})
            else:
                raise TypeError(f"{self.name}: the argument {name} is missing")
        if kwargs:
            raise TypeError(f"{self.name}: no argument {next(iter(kwargs))}")
        return env


builtins.CALLABLE.append(Function)


def _parameters(node, library, name):
    given = node.args
    if given.vararg or given.kwarg or given.posonlyargs:
        raise ScriptError(f"{name}: arguments of this kind have no place in TorchScript")
    compiler = Compiler(library, name)
    plain = [None] * (len(given.args) - len(given.defaults)) + list(given.defaults)
    both = [*zip(given.args, plain), *zip(given.kwonlyargs, given.kw_defaults)]
    return [(arg.arg, compiler.expression(default) if default is not None else None) for arg, default in both]


_CASTS = {"int": int, "float": float, "bool": bool, "complex": complex}


class Compiler:
    """Convert the statements and expressions of one function to closures."""

    def __init__(self, library: Any, name: str) -> None:
        self._library, self._name = library, name

    def _refuse(self, node, what):
        raise ScriptError(f"{self._name}, line {getattr(node, 'lineno', '?')}: {what}")

    # statements

    def block(self, statements: Any) -> Any:
        """Return the statements one after another, as one closure."""
        steps = [self.statement(s) for s in statements if not isinstance(s, ast.Pass)]
        if len(steps) == 1:
            return steps[0]

        def run(env):
            for step in steps:
                found = step(env)
                if found is not None:
                    return found
            return None

        return run

    def statement(self, node: Any) -> Any:
        """Return the closure of a statement."""
        maker = getattr(self, f"_do_{type(node).__name__}", None)
        if maker is None:
            self._refuse(node, f"TorchScript has no {type(node).__name__} statement")
        return maker(node)

    def _do_Expr(self, node):
        value = self.expression(node.value)

        def run(env):
            value(env)

        return run

    def _do_Assign(self, node):
        if len(node.targets) != 1:
            self._refuse(node, "several targets")
        value, put = self.expression(node.value), self._target(node.targets[0])

        def run(env):
            put(env, value(env))

        return run

    def _do_AnnAssign(self, node):
        if node.value is None:
            return lambda env: None
        return self._do_Assign(ast.Assign(targets=[node.target], value=node.value, lineno=node.lineno))

    def _target(self, node):
        if isinstance(node, ast.Name):
            name = node.id

            def put(env, value):
                env[name] = value

            return put
        if isinstance(node, ast.Attribute):
            owner, attribute = self.expression(node.value), node.attr
            return lambda env, value: builtins.set_attribute(owner(env), attribute, value)
        if isinstance(node, (ast.Tuple, ast.List)):
            parts = [self._target(e) for e in node.elts]

            def put_all(env, value):
                value = list(value)
                if len(value) != len(parts):
                    raise ScriptError(f"{self._name}: {len(parts)} names for {len(value)} values")
                for part, v in zip(parts, value):
                    part(env, v)

            return put_all
        return self._refuse(node, f"no assignment to {type(node).__name__}")

    def _do_If(self, node):
        test, then, other = self.expression(node.test), self.block(node.body), self.block(node.orelse)
        return lambda env: then(env) if test(env) else other(env)

    def _do_While(self, node):
        if node.orelse:
            self._refuse(node, "a loop with else")
        test, body = self.expression(node.test), self.block(node.body)

        def run(env):
            while test(env):
                found = body(env)
                if found is not None:
                    return found
            return None

        return run

    def _do_For(self, node):
        if node.orelse:
            self._refuse(node, "a loop with else")
        items, put, body = self.expression(node.iter), self._target(node.target), self.block(node.body)

        def run(env):
            for item in items(env):
                put(env, item)
                found = body(env)
                if found is not None:
                    return found
            return None

        return run

    def _do_Return(self, node):
        if node.value is None:
            # A closure of a statement returns None where the function goes on, so a returned value is in a tuple.
            return lambda env: (None,)
        value = self.expression(node.value)
        return lambda env: (value(env),)

    def _do_Assert(self, node):
        test, text = self.expression(node.test), self.expression(node.msg) if node.msg else lambda env: ""

        def run(env):
            if not test(env):
                raise AssertionError(text(env))

        return run

    # expressions

    def expression(self, node: Any) -> Any:
        """Return the closure of an expression."""
        maker = getattr(self, f"_get_{type(node).__name__}", None)
        if maker is None:
            self._refuse(node, f"TorchScript has no {type(node).__name__}")
        return maker(node)

    def _get_Constant(self, node):
        value = node.value
        if not isinstance(value, (bool, int, float, complex, str, type(None))):
            self._refuse(node, f"no constant {value!r}")
        return lambda env: value

    def _get_Name(self, node):
        name = node.id
        if name in builtins.NAMES:
            value = builtins.NAMES[name]
            return lambda env: env[name] if name in env else value

        def read(env):
            try:
                return env[name]
            except KeyError:
                raise ScriptError(f"{self._name}: nothing is called {name}") from None

        return read

    def _get_List(self, node):
        items = [self.expression(e) for e in node.elts]
        return lambda env: [item(env) for item in items]

    def _get_Tuple(self, node):
        items = [self.expression(e) for e in node.elts]
        return lambda env: tuple([item(env) for item in items])

    def _get_Dict(self, node):
        pairs = [(self.expression(k), self.expression(v)) for k, v in zip(node.keys, node.values)]
        return lambda env: {k(env): v(env) for k, v in pairs}

    def _get_Subscript(self, node):
        owner, index = self.expression(node.value), self.expression(node.slice)

        def read(env):
            of, at = owner(env), index(env)
            if not isinstance(of, (list, tuple, dict, str, Tensor)):
                raise ScriptError(f"{self._name}: no elements in {type(of).__name__}")
            return of[at]

        return read

    def _get_IfExp(self, node):
        test, then, other = self.expression(node.test), self.expression(node.body), self.expression(node.orelse)
        return lambda env: then(env) if test(env) else other(env)

    _UNARY = {ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_}

    def _get_UnaryOp(self, node):
        compute, value = self._UNARY.get(type(node.op)), self.expression(node.operand)
        if compute is None:
            self._refuse(node, f"TorchScript has no {type(node.op).__name__}")
        return lambda env: compute(value(env))

    _BINARY = {
        ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "remainder",
        ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "__and__", ast.BitOr: "__or__", ast.BitXor: "__xor__",
    }  # fmt: skip

    def _get_BinOp(self, node):
        name = self._BINARY.get(type(node.op))
        if name is None:
            self._refuse(node, f"TorchScript has no {type(node.op).__name__}")
        return self._applied(builtins.op("aten", name), [self.expression(node.left), self.expression(node.right)], {})

    _COMPARE = {
        ast.Eq: "eq", ast.NotEq: "ne", ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Is: "__is__",
        ast.IsNot: "__isnot__",
    }  # fmt: skip

    def _get_Compare(self, node):
        name = self._COMPARE.get(type(node.ops[0]))
        if name is None or len(node.ops) != 1:
            self._refuse(node, "a comparison of this kind")
        sides = [self.expression(node.left), self.expression(node.comparators[0])]
        return self._applied(builtins.op("aten", name), sides, {})

    def _get_BoolOp(self, node):
        values, every = [self.expression(v) for v in node.values], isinstance(node.op, ast.And)
        return lambda env: all(v(env) for v in values) if every else any(v(env) for v in values)

    def _get_Attribute(self, node):
        path = _path(node)
        if path and path[0] == "CONSTANTS":
            return self._constant(node, path)
        if path and path[0] == "__torch__":
            return lambda env: self._library.named(".".join(path))
        if path and path[0] in ("torch", "ops"):
            return self._named(node, path)
        owner, attribute = self.expression(node.value), node.attr
        return lambda env: builtins.attribute(owner(env), attribute)

    def _constant(self, node, path):
        constants = self._library.constants
        if len(path) != 2 or path[1][:1] != "c" or not path[1][1:].isdigit() or int(path[1][1:]) >= len(constants):
            self._refuse(node, f"the archive has no constant {'.'.join(path)}")
        value = constants[int(path[1][1:])]
        return lambda env: value

    def _named(self, node, path):
        """Return `torch.inf`, and functions that are passed on rather than called."""
        if path[0] == "torch" and len(path) == 2 and path[1] in builtins.CONSTANTS:
            value = builtins.CONSTANTS[path[1]]
            return lambda env: value
        function = self._function(path)
        return lambda env: function

    def _function(self, path):
        if path[0] == "torch":
            return builtins.op("aten" if len(path) == 2 else ".".join(path[1:-1]), path[-1])
        return builtins.op(".".join(path[1:-1]), path[-1])

    # calls

    def _applied(self, function, args, kwargs):
        if not kwargs:
            if len(args) == 1:
                (one,) = args
                return lambda env: function(one(env))
            return lambda env: function(*[a(env) for a in args])
        return lambda env: function(*[a(env) for a in args], **{key: v(env) for key, v in kwargs.items()})

    def _get_Call(self, node):
        function = node.func
        if isinstance(function, ast.Name) and function.id in ("annotate", "unchecked_cast", "uninitialized", "getattr"):
            return self._special(node, function.id)
        args, kwargs = [self.expression(a) for a in node.args], {k.arg: self.expression(k.value) for k in node.keywords}
        if None in kwargs:
            self._refuse(node, "arguments of a dict")
        path = _path(function)
        if path and path[0] in ("torch", "ops") and len(path) > 1:
            return self._applied(self._function(path), args, kwargs)
        if isinstance(function, ast.Attribute) and not (path and path[0] in ("__torch__", "CONSTANTS")):
            return self._method(function, args, kwargs)
        called = self.expression(function)

        def call(env):
            target = called(env)
            if not builtins.callable_here(target):
                raise ScriptError(f"{self._name}: {type(target).__name__} is not called in TorchScript")
            return target(*[a(env) for a in args], **{key: v(env) for key, v in kwargs.items()})

        return call

    def _method(self, function, args, kwargs):
        owner, name = self.expression(function.value), function.attr

        def call(env):
            method = builtins.method(owner(env), name)
            return method(*[a(env) for a in args], **{key: v(env) for key, v in kwargs.items()})

        return call

    def _special(self, node, word):
        # The compiler puts it where a branch that raises leaves a variable without a value.
        if word == "uninitialized":
            return lambda env: None
        if len(node.args) != 2:
            self._refuse(node, f"{word} takes two arguments")
        if word == "getattr":
            owner, name = self.expression(node.args[0]), node.args[1]
            if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
                self._refuse(node, "an attribute whose name is computed")
            return lambda env: builtins.attribute(owner(env), name.value)
        value, kind = self.expression(node.args[1]), node.args[0]
        cast = _CASTS.get(kind.id) if isinstance(kind, ast.Name) else None
        if word == "unchecked_cast" or cast is None:
            return value

        def number(env):
            found = value(env)
            return cast(found) if isinstance(found, Tensor) else found

        return number


def _path(node):
    """Return `["torch", "nn", "relu"]` of `torch.nn.relu`, or None."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return None
    names.append(node.id)
    return names[::-1]
