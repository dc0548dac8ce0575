"""Define `torch.ops`, the operators by namespace. `aten` has Facula's own ops, and the other namespaces have what
programs register.

An operator of `aten` is the public function (or Tensor method) of its name. Its overloads, such as `add.Tensor`, are
names for the same function.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import types
from typing import TYPE_CHECKING

import facula
from facula import _C, library
from facula.functions import control_flow

if TYPE_CHECKING:
    from os import PathLike
    from typing import Any

_missing = object()


@functools.cache
def _python_dispatch():
    return importlib.import_module("facula.utils._python_dispatch")


@functools.cache
def _keys():
    return frozenset(_C._boxed_keys())


@functools.cache
def _arguments(key):
    """Return (name, position or None, default) of every argument of an op of the boxed table."""
    positions = itertools.count()
    return [
        (name, None if keyword_only else next(positions), _missing if required else default)
        for name, _, keyword_only, required, _, default in _C._boxed_op(key)["arguments"]
    ]


@functools.cache
def _in_order(key):
    """Return with how many arguments an op can be called where they come in the order of the table, and all that are missing
    have defaults."""
    arguments = _arguments(key)
    positional = [at for _, at, _ in arguments if at is not None]
    if [at for _, at, _ in arguments[: len(positional)]] != positional:
        return ()
    required = max((i + 1 for i, (_, _, default) in enumerate(arguments) if default is _missing), default=0)
    return range(required, len(positional) + 1)


class OpOverload:
    """Call one overload of an operator, such as `ops.aten.add.Tensor`."""

    ops: Operators

    def __init__(self, packet, overload):
        self.overloadpacket, self._overloadname = packet, overload
        self.namespace = packet._namespace
        self.__name__ = f"{packet.__name__}.{overload}"
        self.__module__ = f"torch._ops.{packet._namespace}"
        self._key = None  # of the boxed table
        if self.namespace == "aten":
            self._key = _C._boxed_by_aten(self.__name__)
        elif self.namespace == "facula":
            self._key = packet._key_of(overload)

    def __call__(self, *args, **kwargs):
        if self.namespace == "aten" and _C._dispatch_possible() and self._is_shown(args, kwargs):
            return _python_dispatch()._dispatch(self, args, kwargs)
        if self._key is None or _C._has_torch_function_variadic(*args, *kwargs.values()):
            return self.overloadpacket.call_overload(self._overloadname, args, kwargs)
        return self._call_boxed(args, kwargs)

    def _is_shown(self, args, kwargs):
        """Return whether a mode or a class in the place of kernels sees the call as this very operator: where Facula would make
        it of others."""
        dispatch = _python_dispatch()
        base = self.overloadpacket.__name__
        whole = base.removesuffix("_") in dispatch._dispatched.WHOLE or base in dispatch._dispatched.OPERATORS
        return whole and dispatch._stands_in(args, kwargs)

    def _call_boxed(self, args, kwargs):
        """Call the op of the table, which knows arguments by PyTorch's order and names."""
        if not kwargs and len(args) in _in_order(self._key) and not _C._recording():
            results = _C._boxed_call(self._key, args)
            return results[0] if len(results) == 1 else results
        arguments = _arguments(self._key)
        values = tuple(
            kwargs[name] if name in kwargs else args[i] if i is not None and i < len(args) else default
            for name, i, default in arguments
        )
        known = {name for name, _, _ in arguments}
        positional = sum(i is not None for _, i, _ in arguments)
        if any(v is _missing for v in values) or len(args) > positional or set(kwargs) - known:
            return self.overloadpacket(*args, **kwargs)

        def run():
            results = _C._boxed_call(self._key, values)
            return results[0] if len(results) == 1 else results

        return _C._record_op(self._key, values, run, ()) if _C._recording() else run()

    @property
    def _schema(self):
        """What arguments and results it has, as text."""
        if self._key:
            return f"{self.namespace}::{_C._boxed_op(self._key)['signature']}"
        function = self.overloadpacket._function
        text = getattr(function, "_text", None) or getattr(function, "_schema", None)
        if text is None or "(" not in text:
            return text
        return f"{self.name()}{text[text.index('(') :]}"

    def written(self, args, kwargs):
        """Return the argument that a call writes to: the first of an in-place form, or `out`; None for others."""
        if kwargs.get("out") is not None:
            return kwargs["out"]
        name = self.overloadpacket.__name__
        return args[0] if name.endswith("_") and not name.endswith("__") else None

    def name(self):
        """Return "namespace::operator.overload", without the overload where that is the default."""
        overload = "" if self._overloadname == "default" else f".{self._overloadname}"
        return f"{self.overloadpacket._qualified_op_name}{overload}"

    def __str__(self):
        return f"{self.namespace}.{self.overloadpacket.__name__}.{self._overloadname}"

    def __deepcopy__(self, memo=None):
        return self

    def __reduce__(self):
        return _operator, (self.namespace, self.overloadpacket.__name__, self._overloadname)

    def __repr__(self):
        return f"<OpOverload(op='{self.namespace}.{self.overloadpacket.__name__}', overload='{self._overloadname}')>"


class OpOverloadPacket:
    """Call an operator by its name; the overloads are its attributes.

    Args:
        namespace, name: its qualified name.
        function: what runs when it is called.
    """

    def __init__(self, namespace, name, function):
        self._namespace, self.__name__, self._function = namespace, name, function
        self._qualified_op_name = f"{namespace}::{name}"

    def __call__(self, *args, **kwargs):
        return self._function(*args, **kwargs)

    def call_overload(self, overload, args, kwargs):
        """Call one overload: only operators from C++ have several."""
        if isinstance(self._function, library.CustomOpDef):
            return self._function.call_overload(overload, args, kwargs)
        return self._function(*args, **kwargs)

    def __getattr__(self, overload):
        if overload.startswith("_"):
            raise AttributeError(f"{self._qualified_op_name}: no attribute {overload!r}")
        found = self.__dict__[overload] = OpOverload(self, overload)
        return found

    def _key_of(self, overload):
        """Return the op of the boxed table; `out=` forms are called add.default_out here."""
        for key in (f"{self.__name__}.{overload}", f"{self.__name__}.{overload.removesuffix('_out')}.out"):
            if key in _keys():
                return key
        return None

    def overloads(self):
        """Return only the default, but of operators from C++: Facula's ops are not overloaded."""
        return list(getattr(self._function, "_overloads", None) or ["default"])

    def __deepcopy__(self, memo=None):
        return self

    def __reduce__(self):
        return _operator, (self._namespace, self.__name__)

    def __repr__(self):
        return f"<OpOverloadPacket(op='{self._namespace}.{self.__name__}')>"

    def __str__(self):
        return f"{self._namespace}.{self.__name__}"


class HigherOrderOperator(OpOverloadPacket):
    """Call an operator that takes functions, such as `ops.higher_order.cond`, or one for which a subclass defines
    rules.

    Args:
        name: its name.
        function: what runs when it is called; None for the rule of `py_impl` that suits the first tensor's device.

    Rules for autograd on that device come first, then those below, then composite ones. Rules for transforms are stored and
    never called: transforms differentiate and batch what the others do.
    """

    def __init__(self, name, function=None):
        self._rules = {}
        super().__init__("higher_order", name, self._by_rule if function is None else function)

    def py_impl(self, key):
        """Return a decorator: the function runs for this key."""

        def register(function):
            self._rules[getattr(key, "name", key)] = function
            return function

        return register

    def _by_rule(self, *args, **kwargs):
        devices = (x.device.type.upper() for x in (*args, *kwargs.values()) if isinstance(x, facula.Tensor))
        device = next(devices, "CPU")
        for key in (f"Autograd{device}", "Autograd", device, "CompositeExplicitAutograd", "CompositeImplicitAutograd"):
            if key in self._rules:
                return self._rules[key](*args, **kwargs)
        raise NotImplementedError(f"{self.__name__}: no rule for {device} was given to py_impl")


def _operator(namespace, name, *overload):
    """Return the operator of a name: what copies and pickles of it are."""
    return functools.reduce(getattr, (namespace, name, *overload), ops)


_PREFIXES = {"linalg_": "linalg", "fft_": "fft", "special_": "special", "functional_": "nn.functional"}


def _own_function(name):
    """Return Facula's function behind aten's `name`, or None. Parts of functions, such as `_softmax`, are among the core's
    ops."""
    for prefix, module in _PREFIXES.items():
        if name.startswith(prefix):
            home = functools.reduce(getattr, module.split("."), facula)
            if callable(found := getattr(home, name.removeprefix(prefix), None)):
                return found
    homes = (facula._C, facula.nn.functional, facula.Tensor, facula._C._ops, facula, facula.special, facula.linalg)
    found = itertools.chain((vars(home).get(name) for home in homes), (getattr(home, name, None) for home in homes))
    return next((value for value in found if callable(value) and not hasattr(value, "_facula_missing")), None)


#: of which the public function is another one: it takes no None among the indices, or gives fewer results
_PARTS = frozenset({"index", "unique_consecutive"})
#: of Python, which aten has under their names
_OPERATORS = frozenset(f"__{i}{name}__" for name in ("and", "or", "xor", "lshift", "rshift") for i in ("", "i"))


class OpNamespace(types.ModuleType):
    """Find the operators of one library as attributes."""

    def __init__(self, name):
        super().__init__(f"torch.ops.{name}")
        self.__dict__["name"] = name
        self.__dict__["_made_packets"] = {}

    def __getattr__(self, op):
        if op.startswith("__") and op not in _OPERATORS:
            raise AttributeError(f"ops.{self.name}: no attribute {op!r}")
        own = self.name in ("aten", "prims") and op not in _PARTS
        function = _own_function(op) if own else library.find(self.name, op)
        if function is None and self.name == "higher_order":
            function = control_flow.HIGHER_ORDER.get(op)
        if function is None and self.name == "profiler":
            function = _RANGES.get(op)
        if function is None and self.name == "facula":  # what PyTorch has no name for
            function = _own_function(op)
            if function is None and any(key.partition(".")[0] == op for key in _keys()):
                function = functools.partial(_refuse, f"torch.ops.facula.{op}")  # its overloads are of the table
        if function is None and self.name == "aten":
            parts = importlib.import_module("facula._operators.aten_parts")
            function = getattr(parts, op, None) if op != "facula" else None
        if function is None and self.name == "aten":
            function = functools.partial(_refuse, f"torch.ops.aten.{op}")
        if function is None:
            raise AttributeError(f"ops.{self.name}: no operator {op!r} is registered")
        if self.name == "aten":
            packet = self.__dict__[op] = OpOverloadPacket(self.name, op, function)
            return packet
        known = self.__dict__["_made_packets"].get(op)  # one object for one operator; a program may define its own anew
        if known is None or known[0] is not function:
            functions = self.name == "higher_order"
            made = HigherOrderOperator(op, function) if functions else OpOverloadPacket(self.name, op, function)
            known = self.__dict__["_made_packets"][op] = function, made
        return known[1]


def _enter_range(name, args=None):
    range_ = facula.autograd.profiler.record_function(name, args)
    range_.__enter__()
    return range_


#: `torch.ops.profiler`: a named range of a profile as two calls, which graphs can hold
_RANGES = {
    "_record_function_enter": _enter_range,
    "_record_function_enter_new": _enter_range,
    "_record_function_exit": lambda range_: range_.__exit__(None, None, None),
}


def _refuse(full_name, *args, **kwargs):
    from facula.compat import placeholders

    placeholders.refuse(full_name, args, kwargs)


class Operators(types.ModuleType):
    """Find namespaces of operators as attributes: `torch.ops`."""

    def __init__(self):
        super().__init__("torch.ops")
        self.loaded_libraries: set[Any] = set()

    def __getattr__(self, namespace: str) -> Any:
        if namespace.startswith("__"):
            raise AttributeError(f"ops: no attribute {namespace!r}")
        found = self.__dict__[namespace] = OpNamespace(namespace)
        return found

    def load_library(self, path: str | PathLike[str]) -> None:
        """Load a shared library, whose operators are then among these; or what Facula provides in its place.

        Raises OSError where it cannot be loaded, as one that was compiled for PyTorch's own libraries cannot unless
        docs/package_operators.md lists it, and RuntimeError where it declares an operator wrongly.
        """
        from facula.compat import packages

        path = os.path.realpath(path)
        if path in self.loaded_libraries:
            return
        if not packages.load(path):
            try:
                _C._custom_load(path)
            except RuntimeError as error:
                raise OSError(str(error)) from None
            self.check_registrations()
        self.loaded_libraries.add(path)

    @staticmethod
    def check_registrations() -> None:
        """Raise RuntimeError where a library that was loaded since the last call declared operators wrongly."""
        library.take_over_operators()

    import_module = load_library


class Classes(Operators):
    """Stand for `torch.classes`, the classes that compiled extensions register. There are none."""

    def __init__(self):
        super().__init__()
        self.__name__ = "torch.classes"

    def __getattr__(self, namespace: str) -> Any:
        if namespace.startswith("__"):
            raise AttributeError(f"classes: no attribute {namespace!r}")
        raise RuntimeError(f"classes: no class is registered, got {namespace!r}")


ops: Operators = Operators()
classes: Classes = Classes()
