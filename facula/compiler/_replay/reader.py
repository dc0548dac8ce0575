"""Interpret the source of functions as Python would, and write down the steps that are left for a call (trusted.py).

Policy: what is not in a table is not trusted. There are: assignments to local names, calls of modules, of functions of the core
and of functions that are read themselves, attributes and entries of what is known, operators, `if` and `for` over what is
known. An `if` about what only the call knows is a condition of the program: that it does not complain (raise or warn), or goes
the way of the call that is looked at, where that is known from the forms of its arguments.
"""

from __future__ import annotations

import ast
import builtins
import functools
import inspect
import types
from collections import OrderedDict
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula.autograd import grad_mode
from facula.compiler._replay.expressions import Expressions, Frame
from facula.compiler._replay.facts import ABSENT, is_plain
from facula.compiler._replay.reading import FORMS, VIEWS, is_own, is_simple
from facula.compiler._replay.sources import tree_of
from facula.compiler._replay.training import _PACKAGE, optimizer_call
from facula.compiler._replay.trusted import (
    BINARY,
    Known,
    Made,
    Method,
    Op,
    Register,
    Steps,
    Untrusted,
    argument,
    method_op,
    ops,
)
from facula.nn import _reduction
from facula.nn.modules import module as module_file

if TYPE_CHECKING:
    from typing import Any

_PLAIN_FUNCTION = ~(inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)


def _complains(body):
    """Return whether statements only raise an error, or warn. Nobody follows them, so what that needs may be there."""
    ends = [one for one in body if not isinstance(one, ast.Assign)]
    return bool(ends) and all(isinstance(one, ast.Raise) or _warns(one) or _may_complain(one) for one in ends)


def _may_complain(statement):
    return isinstance(statement, ast.If) and _complains(statement.body) and not statement.orelse


def _warns(statement):
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and ast.unparse(call.func) == "warnings.warn"


class Reader(Expressions):
    """Interpret calls and write their steps down.

    Args:
        steps: where to.
    """

    def __init__(self, steps: Steps) -> None:
        self.steps, self.facts = steps, steps.facts
        self._frames: list[Frame] = []

    # ---- calls

    def call(self, function: Any, args: list[Any], keywords: dict[str, Any]) -> Any:
        """Return what a call gives."""
        if isinstance(function, Method):
            if isinstance(function.owner, Register):
                return self._tensor_method(function, args, keywords)
            if isinstance(function.owner, Known) and isinstance(function.owner.value, facula.optim.Optimizer):
                made = optimizer_call(self, function.owner.decide(), function.function.value, args, keywords)
                if made is not None:
                    return made
            return self.call(function.function, [function.owner, *args], keywords)
        if not isinstance(function, Known):
            raise Untrusted("a call of a value of the call")
        target = function.decide()
        kind = next((kind for cls, kind in _CALLS.items() if type(target) is cls), None)
        if kind is not None:
            return kind(self, target, args, keywords)
        if isinstance(target, facula.nn.Module):
            return self._call_module(target, args, keywords)
        return self._call_builtin(target, args, keywords)

    def _call_core(self, target, args, keywords):
        op = ops().get(target)
        if op is None:
            return self._call_builtin(target, args, keywords)
        out = keywords.get("out")
        effect = op.effect or ("out" in keywords and not (isinstance(out, Known) and out.value is None))
        operands = [*args, *keywords.values()]
        # Functions such as `relu(x, inplace=True)` change their input only where this argument is True.
        if "inplace" in (target.__text_signature__ or ""):
            effect = effect or any(
                isinstance(one, Known) and one.decide() is True for one in operands if not self._is_tensor(one)
            )
        return self.steps.step("call", operands, what=target, names=tuple(keywords), effect=effect, gives=op.kind, key=op.key)

    def _tensor_method(self, method, args, keywords):
        is_backward = method.function == "backward" and not args and not keywords
        op = Op(True, "") if is_backward else method_op(method.function)
        if op is None:
            return self._python_method(method, args, keywords)
        # The facts record the method of both classes, so that the steps become invalid if it is replaced.
        for cls in (facula.Tensor, facula.nn.Parameter):
            self.facts.of_class(cls, method.function)
        if method.function == "size" and args:
            op = Op(False, "int")
        what = facula.Tensor.__dict__[method.function]
        operands = [self.steps.owner(method.owner), *args, *keywords.values()]
        name, names = method.function, tuple(keywords)
        about = {"names": names, "effect": op.effect, "gives": op.kind, "key": op.key}
        made = self.steps.step("method", operands, what=what, name=name, **about)
        samples = [self._sample(one) for one in args]
        if op.kind in FORMS and method.owner.tensor is not None and ABSENT not in samples and not keywords:
            made.sample = getattr(method.owner.tensor, name)(*samples)
        return made

    def _python_method(self, method, args, keywords):
        """Read a method of tensors that is written in Python."""
        found = {self.facts.of_class(cls, method.function) for cls in (facula.Tensor, facula.nn.Parameter)}
        function = found.pop()
        if found or method.owner.kind != "tensor" or not isinstance(function, types.FunctionType):
            raise Untrusted(f"the method {method.function} of a value of the call")
        return self._inline(function, [self.steps.owner(method.owner), *args], keywords)

    def _call_module(self, module, args, keywords):
        cls = type(module)
        if not is_own(self.facts.of_class(cls, "__call__"), module_file, "Module.__call__"):
            raise Untrusted(f"{cls.__name__} has a __call__ of its own")
        if self.attribute(Known(module), "_hooked").decide() is not False:
            self._check_hooks(module)
        return self.call(self.attribute(Known(module), "forward"), args, keywords)

    def _check_hooks(self, module):
        """Check that a module that has had hooks, or where there have been global ones, has none now."""
        if self.attribute(Known(module), "_compiled_call_impl").decide() is not None:
            raise Untrusted(f"{type(module).__name__} is compiled itself")
        own = [self.attribute(Known(module), name).decide() for name in module_file._CALL_HOOK_DICTS]
        of_all = [self._entry(vars(module_file), name).decide() for name in vars(module_file) if name.endswith("_hooks")]
        for hooks in (*own, *of_all):
            if not isinstance(hooks, dict):
                continue
            if hooks or type(hooks) not in (dict, OrderedDict):
                raise Untrusted(f"{type(module).__name__} has hooks")
            self.facts.items(hooks)

    def _inline(self, function, args, keywords):
        if any(is_own(function, _reduction, name) for name in ("get_enum", "number")) and not keywords:
            return self._simple_call(function, args, keywords)  # of texts alone
        code = function.__code__
        if code.co_flags & ~_PLAIN_FUNCTION:
            raise Untrusted(f"{code.co_name} is a generator or a coroutine")
        # This stops a recursion that depends on values of the call, and would be read without end.
        if len(self._frames) >= 30:
            raise Untrusted("calls within calls, more than 30")
        self.facts.function(function)
        if code is _SWITCHED:
            return self._switched(function, args, keywords)
        tree = tree_of(function)
        if tree is None:
            raise Untrusted(f"no source of {code.co_name}")
        self._frames.append(Frame(function, self._bound(function, args, keywords)))
        self.steps.places.append((code.co_filename, code.co_name, code.co_firstlineno))
        try:
            if isinstance(tree, ast.Lambda):
                return self.value(tree.body)
            end = self.run(tree.body)
        finally:
            self._frames.pop()
            self.steps.places.pop()
        return Known(None) if end is None else end[1]

    def _bound(self, function, args, keywords):
        """Return the local names that arguments are given under."""
        code = function.__code__
        count, names = code.co_argcount, code.co_varnames
        positional, only = names[:count], names[count : count + code.co_kwonlyargcount]
        bound, rest = dict(zip(positional, args, strict=False)), list(args[count:])
        others = dict(keywords)
        for name in (*positional[code.co_posonlyargcount :], *only):
            if name in others:
                if name in bound:
                    raise Untrusted(f"two values for {name}")
                bound[name] = others.pop(name)
        defaults = function.__defaults__ or ()
        for name, value in zip(positional[count - len(defaults) :], defaults, strict=True):
            bound.setdefault(name, Known(value))
        for name in function.__kwdefaults__ or ():
            if name not in bound:
                entry = self.facts.entry(function.__kwdefaults__, name)
                bound[name] = Known(entry.value, entry)
        extra = iter(names[count + len(only) :])
        if code.co_flags & inspect.CO_VARARGS:
            bound[next(extra)], rest = Made("tuple", rest), []
        if code.co_flags & inspect.CO_VARKEYWORDS:
            bound[next(extra)], others = Made("dict", others.values(), list(others)), {}
        if rest or others or any(name not in bound for name in (*positional, *only)):
            raise Untrusted(f"other arguments than {code.co_name} takes")
        return bound

    def _switched(self, function, args, keywords):
        """Return what `torch.no_grad()` has made of a function."""
        cells = dict(zip(function.__code__.co_freevars, function.__closure__, strict=True))
        how, inner = (self.facts.cell(cells[name]) for name in ("self", "function"))
        mode = self._mode(Known(how.value, how))
        self.steps.step("grad", [], how=mode)
        result = self.call(Known(inner.value, inner), args, keywords)
        self.steps.step("grad_back", [])
        return result

    def _mode(self, switch):
        """Return whether gradients are recorded within a no_grad() or enable_grad() object, which is known."""
        cls = type(switch.decide())
        if cls not in (grad_mode.no_grad, grad_mode.enable_grad):
            raise Untrusted(f"a block of {cls.__name__}")
        for name in ("__new__", "__enter__", "__exit__"):
            found = self.facts.of_class(cls, name)
            if not is_own(getattr(found, "__func__", found), grad_mode, f"{cls.__name__}.{name}"):
                raise Untrusted(f"{cls.__name__} has been changed")
        return int(cls is grad_mode.enable_grad)

    # ---- functions of Python's own

    def _call_builtin(self, target, args, keywords):
        if (target is grad_mode.no_grad or target is grad_mode.enable_grad) and not args and not keywords:
            if self.facts.of_class(target, "__init__") is object.__init__:
                return Known(target())
        handler = _BUILTINS.get(target) if type(target) in (type, types.BuiltinFunctionType) else None
        if handler is None:
            raise Untrusted(f"a call of {getattr(target, '__qualname__', type(target).__name__)}")
        return handler(self, target, args, keywords)

    def _simple_call(self, target, args, keywords):
        """Read a call of a function of numbers and texts that are known."""
        values = [self._simple(one) for one in args]
        try:
            return Known(target(*values, **{name: self._simple(one) for name, one in keywords.items()}))
        except Exception as error:
            raise Untrusted(f"{target.__name__} raises {error}") from None

    def _len(self, target, args, keywords):
        if len(args) == 1 and isinstance(args[0], Known) and not is_simple(args[0].value):
            return Known(len(self._elements(args[0])))
        if len(args) == 1 and isinstance(args[0], Made):
            return Known(len(args[0].items))
        return self._simple_call(target, args, keywords)

    def _isinstance(self, target, args, keywords):
        value, classes = args
        wanted = classes.decide() if isinstance(classes, Known) else self._classes(classes)
        if isinstance(value, Register) and value.kind == "tensor":
            return self._is_of(wanted if type(wanted) is tuple else (wanted,))
        if isinstance(value, Known) and type(wanted if isinstance(wanted, type) else object) is type:
            return Known(isinstance(value.decide(), wanted))
        if isinstance(value, Known) and type(wanted) is tuple and all(type(one) is type for one in wanted):
            return Known(isinstance(value.decide(), wanted))
        raise Untrusted("isinstance of a value of the call")

    def _is_of(self, classes):
        """Return whether tensors are of one of the classes: Tensor and Parameter alike."""
        tensor, parameter = facula.Tensor, facula.nn.Parameter
        own = {cls for cls in classes if cls is tensor or type(cls) is type}
        answers = {any(issubclass(one, tuple(own)) for one in (kind,)) for kind in (tensor, parameter)}
        if len(own) != len(classes) or len(answers) != 1:
            raise Untrusted("isinstance of a value of the call")
        return Known(answers.pop())

    def _classes(self, made):
        return tuple(one.decide() for one in made.items if isinstance(one, Known))

    def _getattr(self, target, args, keywords):
        if len(args) != 2:
            raise Untrusted("getattr with a default")
        return self.attribute(args[0], self._simple(args[1]))

    def _iter(self, target, args, keywords):
        return Made("tuple", self._elements(*args))

    def _enumerate(self, target, args, keywords):
        elements = self._elements(args[0])
        begin = self._simple(args[1]) if len(args) > 1 else 0
        return Made("tuple", [Made("tuple", [Known(i), one]) for i, one in enumerate(elements, begin)])

    def _zip(self, target, args, keywords):
        rows = zip(*map(self._elements, args), strict=False)
        return Made("tuple", [Made("tuple", row) for row in rows])

    # ---- statements: None, or how they end: ("return", value), ("break", None), ("continue", None)

    def run(self, body: list[Any]) -> Any:
        """Follow statements."""
        for statement in body:
            handler = _STATEMENTS.get(type(statement))
            if handler is None:
                raise Untrusted(f"a statement {type(statement).__name__}")
            file, name, _ = self.steps.places[-1]
            self.steps.places[-1] = (file, name, statement.lineno)
            end = handler(self, statement)
            if end is not None:
                return end
        return None

    def _try(self, node):
        """Follow the body of a `try` whose handlers only raise: where a step raises, Python makes the call and they run.

        Behind an effect Python cannot make the call again. There only the package's own code is followed, whose handlers put
        an error of the same class in other words.
        """
        if node.finalbody or node.orelse or not all(isinstance(handler.body[-1], ast.Raise) for handler in node.handlers):
            raise Untrusted("a try that does more than raise another error")
        end = self.run(node.body)
        if self.steps.effects and not self.steps.places[-1][0].startswith(_PACKAGE):
            raise Untrusted("a try around or behind something that has an effect")
        return end

    def _expression(self, node):
        if not isinstance(node.value, ast.Constant):
            self.value(node.value)

    def _return(self, node):
        return "return", Known(None) if node.value is None else self.value(node.value)

    def _assign(self, node):
        value = self.value(node.value)
        for target in node.targets:
            self._set(target, value)

    def _annotated(self, node):
        if not node.simple or node.value is None:
            raise Untrusted("an annotation")
        self._set(node.target, self.value(node.value))

    def _augmented(self, node):
        if not isinstance(node.target, ast.Name):
            raise Untrusted("a change of an attribute or an entry")
        name = type(node.op).__name__
        old, value = self._name(node.target), self.value(node.value)
        if isinstance(old, Made):
            raise Untrusted("a change of a list")
        if isinstance(old, Known) and not is_plain(old.value):
            self._simple(old)
            return self._set(node.target, self._operate(name, old, value))
        if name not in BINARY:
            raise Untrusted(f"the operator {name}=")
        kind = old.kind if isinstance(old, Register) else "tensor"
        made = self.steps.step("inplace", [old, value], how=BINARY.index(name), effect=True, gives=kind)
        return self._set(node.target, made)

    def _set(self, target, value):
        if isinstance(target, ast.Name):
            if target.id not in self._frames[-1].locals:
                raise Untrusted(f"an assignment to {target.id}, which is not local")
            self._frames[-1].names[target.id] = value
        elif isinstance(target, (ast.Tuple, ast.List)):
            for one, part in zip(target.elts, self._parts(value, len(target.elts)), strict=True):
                self._set(one, part)
        elif isinstance(target, ast.Subscript):
            owner = self.value(target.value)
            if not (isinstance(owner, Register) and owner.kind == "tensor"):
                raise Untrusted("an assignment to an entry")
            self.steps.step("set_item", [owner, self.value(target.slice), value], effect=True)
        else:
            raise Untrusted("an assignment to an attribute")

    def _parts(self, value, count):
        if isinstance(value, Register):
            if value.kind == "tensor":
                raise Untrusted("a tensor that is taken apart")
            first = self.steps.step("unpack", [value], how=count, results=count)
            return [Register(("result", first.name[1] + i)) for i in range(count)]
        parts = self._elements(value)
        if len(parts) != count:
            raise Untrusted("another number of values to unpack")
        return parts

    def _if(self, node):
        truth = self._truth(self.value(node.test))
        if isinstance(truth, bool):
            return self.run(node.body if truth else node.orelse)
        register, polarity = truth
        # A branch that only raises is taken to be skipped; calls that would enter it are made by Python.
        if _complains(node.body):
            goes_in = False
        elif _complains(node.orelse):
            goes_in = True
        elif type(register.sample) is bool:
            goes_in = register.sample is polarity
        else:
            raise Untrusted("an if about values of the call")
        self.steps.expect(register, polarity is goes_in)
        return self.run(node.body if goes_in else node.orelse)

    def _assert(self, node):
        truth = self._truth(self.value(node.test))
        if truth is False:
            raise Untrusted("an assert that fails")
        if truth is not True:
            self.steps.expect(*truth)

    def _for(self, node):
        for one in self._elements(self.value(node.iter)):
            self._set(node.target, one)
            end = self.run(node.body)
            if end is not None and end[0] == "break":
                return None
            if end is not None and end[0] == "return":
                return end
        return self.run(node.orelse)

    def _with(self, node):
        for item in node.items:
            if item.optional_vars is not None:
                raise Untrusted("a block that gives something")
            self.steps.step("grad", [], how=self._mode(self._known(self.value(item.context_expr))))
        if len(node.items) > 8 or len(self._frames) > 8:
            raise Untrusted("many blocks")
        end = self.run(node.body)
        for _ in node.items:
            self.steps.step("grad_back", [])
        return end

    def _known(self, value):
        if not isinstance(value, Known):
            raise Untrusted("a block of a value of the call")
        return value


# All functions that these decorators return share the code of one wrapper.
_SWITCHED = grad_mode.no_grad()(lambda: None).__code__
_CALLS = {
    types.FunctionType: Reader._inline,
    types.BuiltinFunctionType: Reader._call_core,
    types.MethodType: lambda self, f, args, keywords: self.call(Known(f.__func__), [Known(f.__self__), *args], keywords),
    functools.partial: lambda self, f, args, keywords: self.call(
        Known(f.func), [*map(Known, f.args), *args], {**{n: Known(v) for n, v in f.keywords.items()}, **keywords}
    ),
    _C._CompiledFunction: lambda self, f, args, keywords: self.call(Known(f.function), args, keywords),
    types.MethodDescriptorType: lambda self, f, args, keywords: (
        self._view(f, args, keywords) if f in VIEWS.values() else self._call_builtin(f, args, keywords)
    ),
}
_BUILTINS = {
    **dict.fromkeys((int, float, bool, abs, min, max, range, sum, round, str, builtins.divmod), Reader._simple_call),
    _C._region_on: lambda self, f, args, keywords: Known(True),  # is_compiling()
    _C._watching: lambda self, f, args, keywords: Known(False),  # else Python makes the call
    len: Reader._len, isinstance: Reader._isinstance, getattr: Reader._getattr, iter: Reader._iter, tuple: Reader._iter,
    enumerate: Reader._enumerate, zip: Reader._zip,
}  # fmt: skip
_STATEMENTS = {
    ast.Expr: Reader._expression, ast.Return: Reader._return, ast.Assign: Reader._assign, ast.AnnAssign: Reader._annotated,
    ast.AugAssign: Reader._augmented, ast.If: Reader._if, ast.For: Reader._for, ast.With: Reader._with,
    ast.Assert: Reader._assert, ast.Pass: lambda self, node: None, ast.Break: lambda self, node: ("break", None),
    ast.Continue: lambda self, node: ("continue", None), ast.Try: Reader._try,
}  # fmt: skip


def steps_of(function: Any, values: tuple[Any, ...], keywords: tuple[str, ...] | None) -> Any:
    """Return the program of a function for calls with such arguments; raises Untrusted.

    Args:
        function: what is compiled.
        values: arguments of a call, those by keyword last.
        keywords: their names.
    """
    steps = Steps()
    checks, given = [], []
    for number, value in enumerate(values):
        check, taken = argument(number, value)
        checks.append(check)
        given.append(taken)
    count = len(values) - len(keywords or ())
    by_name = dict(zip(keywords or (), given[count:], strict=True))
    result = Reader(steps).call(Known(function), given[:count], by_name)
    return steps.program(checks, keywords, result)
