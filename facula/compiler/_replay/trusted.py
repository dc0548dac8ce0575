"""Represent calls without Python's interpreter: what is trusted, and the flat list of steps that makes such a call.

`reader.py` follows the source of a function with the very objects that it would meet: modules, parameters, numbers. What it
knows is done at once (which module comes next, whether there is a bias), and noted as a fact; what only a call knows (its
tensors, and what is made of them) becomes a step here. A step calls a function of the core as the program does, so gradients,
modes and errors are its own. Whatever the reader does not know for sure is not trusted, and Python runs.
"""

from __future__ import annotations

import functools
import types
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula.compiler._replay.facts import ABSENT, Entry, Facts, is_plain

if TYPE_CHECKING:
    from typing import Any


class Untrusted(Exception):
    """Report code of which the reader is not certain; the text names it."""


# ---- values


class Known:
    """Represent a value that is known before the call: an object, and the place where it was read (None if it was made)."""

    __slots__ = ("entry", "value")

    def __init__(self, value: Any, entry: Entry | None = None) -> None:
        self.value, self.entry = value, entry

    def decide(self) -> Any:
        """Return the object, by which something is decided."""
        if self.entry is not None:
            self.entry.pinned = True
        return self.value


class Made:
    """Represent a tuple, a list or a dict of values that the function has made and that nothing else refers to."""

    __slots__ = ("items", "keys", "kind", "register")

    def __init__(self, kind: str, items: Any, keys: Any = None) -> None:
        self.kind, self.items, self.keys = kind, list(items), keys
        self.register: Register | None = None


class Register:
    """Represent a value of the call. `kind`: tensor, size (a torch.Size), int, bool, or "" if it may be anything.

    `tensor` is the one of the call that is looked at, for arguments; `sample` a number that follows from the forms of such:
    where something is decided by it, that it is the same is a condition of the program.
    """

    __slots__ = ("kind", "name", "sample", "tensor")

    def __init__(self, name: tuple[str, int], kind: str = "", tensor: Any = None) -> None:
        self.name, self.kind, self.tensor, self.sample = name, kind, tensor, ABSENT


class Method:
    """Represent a function with its first argument: `module.forward`, `x.sum`."""

    __slots__ = ("function", "owner")

    def __init__(self, function: Any, owner: Any) -> None:
        self.function, self.owner = function, owner


# ---- what the core's functions are


class Op:
    """Describe a function of the core: whether it has effects besides its result, and whether the result is a tensor.

    `key` is that of its row in the boxed table, where it may be called through that.
    """

    __slots__ = ("effect", "key", "kind")

    def __init__(self, effect: bool, kind: str, key: str | None = None) -> None:
        self.effect, self.kind, self.key = effect, kind, key


# methods that give numbers of a tensor's form
FORMS = {"dim": "int", "size": "size", "ndimension": "int", "numel": "int", "nelement": "int", "element_size": "int",
         "is_complex": "bool", "is_floating_point": "bool", "is_contiguous": "bool"}  # fmt: skip
# properties, none of which runs code of the user's
_PROPERTIES = {"shape": "size", "ndim": "int", "dtype": "", "device": "", "layout": "", "T": "tensor", "mT": "tensor",
               "H": "tensor", "mH": "tensor", "real": "tensor", "imag": "tensor", "data": "tensor", "grad": "",
               "requires_grad": "bool", "is_leaf": "bool", "is_cuda": "bool", "is_sparse": "bool",
               "itemsize": "int"}  # fmt: skip


# ops of which Python's function does no more than the core's, and which networks call with tensors alone
DIRECT = frozenset(
    """abs addmm bmm cos dot erf exp gelu linear log log1p logsigmoid matmul mm mv neg reciprocal relu rsqrt sigmoid sign sin
    softplus softsign sqrt square tan tanh tanhshrink""".split()
)


@functools.cache
def _schema() -> dict[str, Op]:
    """Return the ops of the schema by their names in Python; "add_" is another one than "add"."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for key in _C._boxed_keys():
        row = _C._boxed_op(key)
        rows.setdefault(row["name"], []).append(row)
    found = {}
    for name, all_rows in rows.items():
        plain = [row for row in all_rows if row["form"] != "out"]
        effect = name.endswith("_") or any(row["draws"] or any(a[4] for a in row["arguments"]) for row in plain)
        kinds = {tuple(row["results"]) for row in plain}
        key = plain[0]["key"] if name in DIRECT and len(plain) == 1 else None
        found[name] = Op(effect, "tensor" if kinds == {("Tensor",)} else "", key)
    return found


@functools.cache
def ops() -> dict[Any, Op]:
    """Return the functions of the core that steps may call."""
    found = {}
    for room in (_C, _C.nn_functional, _C.linalg, _C.special, _C.fft):
        for name, value in vars(room).items():
            if isinstance(value, types.BuiltinFunctionType) and not name.startswith("_") and name in _schema():
                found[value] = _schema()[name]
    return found


def method_op(name: str) -> Op | None:
    """Return what is known of a method of tensors, None where it is no op of the core.

    Args:
        name: its name.
    """
    if not isinstance(facula.Tensor.__dict__.get(name), types.MethodDescriptorType):
        return None
    if name in FORMS:
        return Op(False, FORMS[name])
    return None if name.startswith("_") else _schema().get(name)


def property_kind(name: str) -> str | None:
    """Return the kind of a property of tensors; None where it is not one that steps may read.

    Args:
        name: its name.
    """
    return _PROPERTIES.get(name)


# ---- steps

# as in python/replay.cpp
_KINDS = {kind: number for number, kind in enumerate((
    "call", "method", "attribute", "binary", "inplace", "unary", "compare", "item", "set_item", "tuple", "list", "dict",
    "slice", "unpack", "expect", "grad", "grad_back"))}  # fmt: skip
BINARY = ("Add", "Sub", "Mult", "Div", "FloorDiv", "Mod", "BitAnd", "BitOr", "BitXor", "MatMult")
UNARY = ("USub", "UAdd", "Invert")
COMPARE = ("Lt", "LtE", "Eq", "NotEq", "Gt", "GtE")

# what may be handed to a function of the core without code of the user's being run
_HANDED = (type(None), bool, int, float, complex, str, facula.dtype, facula.device, facula.layout, facula.memory_format,
           facula.Size, slice, type(Ellipsis))  # fmt: skip


def is_handed(value: Any) -> bool:
    """Return whether a known object may be an operand.

    Args:
        value: the object.
    """
    if type(value) in (tuple, list):
        return all(map(is_handed, value))
    return is_plain(value) or type(value) in _HANDED


class Steps:
    """Write steps down.

    `places` says where the program is: (file, function, line), the outermost first.
    """

    _MOST = 400

    def __init__(self) -> None:
        self.facts = Facts()
        self.effects = False
        self.places: list[tuple[str, str, int]] = []
        self._rows: list[tuple[Any, ...]] = []
        self._constants: list[Any] = []
        self._entries: dict[int, Entry] = {}  # by the number of the constant
        self._without_dict: set[int] = set()
        self._results = 0

    def operand(self, value: Any) -> Register:
        """Return the register of a value."""
        if isinstance(value, Register):
            return value
        if isinstance(value, Made):
            if value.register is None:
                names = value.keys if value.kind == "dict" else None
                value.register = self.step(value.kind, value.items, names=names)
            return value.register
        if isinstance(value, Method) and isinstance(value.owner, Register) and not value.owner.kind:
            return self.step("attribute", [value.owner], name=value.function)  # a field of a named tuple
        if not isinstance(value, Known) or not is_handed(value.value):
            raise Untrusted(f"a value of type {type(getattr(value, 'value', value)).__name__} for a function of the core")
        return self.constant(value)

    def constant(self, value: Known) -> Register:
        """Return the register of a known object."""
        entry = value.entry
        if entry is not None and entry.constant >= 0:
            number = entry.constant
        else:
            number = len(self._constants)
            self._constants.append(value.value)
            if entry is not None:
                entry.constant = number
        return Register(("constant", number), "tensor" if is_plain(value.value) else "")

    def owner(self, value: Any) -> Register:
        """Return the register of a tensor, a method or a property of which is asked for: it has no attributes of its own."""
        register = self.operand(value)
        if register.name[0] == "constant":
            self._without_dict.add(register.name[1])
        return register

    def step(self, kind: str, operands: Any, how: int = 0, what: Any = None, name: str | None = None, names: Any = None,
             effect: bool = False, gives: str = "", results: int = 1, key: str | None = None) -> Register:  # fmt: skip
        """Add a step; the register of its result, or of the first of several."""
        registers = [self.operand(value) for value in operands]
        if len(self._rows) >= self._MOST:
            raise Untrusted(f"more than {self._MOST} steps")
        if len(registers) > 60:
            raise Untrusted("more than 60 operands")
        places = tuple(self.places) if self.effects or effect else None
        self.effects = self.effects or effect
        names = tuple(names) if names else None
        operands = [register.name for register in registers]
        self._rows.append((_KINDS[kind], how, self._results, operands, what, name, names, effect, places, key))
        made = Register(("result", self._results), gives)
        if kind not in ("expect", "grad", "grad_back"):
            self._results += results
        return made

    def expect(self, value: Any, truth: bool) -> None:
        """Add a condition on the call: where it is another one, Python makes the call."""
        if self.effects:
            raise Untrusted("a condition on values of the call behind something that has an effect")
        self.step("expect", [value], how=int(truth))

    def program(self, arguments: list[tuple[int, Any]], keywords: Any, result: Any) -> Any:
        """Return what the core takes."""
        last = self.operand(result)
        first = {"argument": 0, "constant": len(arguments), "result": len(arguments) + len(self._constants)}

        def number(name):
            return first[name[0]] + name[1]

        rows = tuple(
            (kind, how, first["result"] + to, tuple(map(number, operands)), *others)
            for kind, how, to, operands, *others in self._rows
        )
        registers = first["result"] + self._results
        # A bound on the memory that every call needs for its values.
        if registers > 500:
            raise Untrusted("more than 500 values")
        without = tuple(sorted(self._without_dict))
        constants = tuple(self._constants)
        spec = (tuple(arguments), keywords, constants, without, rows, registers, number(last.name), self.facts.spec())
        return _C._Replay(spec)


# ---- programs


def argument(number: int, value: Any) -> tuple[tuple[int, Any], Any]:
    """Return how the core checks an argument, and what the reader takes it for.

    Args:
        number: which argument it is.
        value: what was given in the call that is looked at.
    """
    if is_plain(value):
        return (0, None), Register(("argument", number), "tensor", value)
    if type(value) is float:
        return (1, float), Register(("argument", number))
    if type(value) in (type(None), bool, int, str, facula.dtype, facula.device):
        return (2, value), Known(value)
    if isinstance(value, facula.nn.Module):
        return (3, value), Known(value)
    raise Untrusted(f"an argument of type {type(value).__name__}")
