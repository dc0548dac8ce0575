"""Interpret the part of the pickle language that describes data, in protocols 2 to 5.

It builds dicts, lists, tuples, numbers and strings itself. Every name that the stream mentions goes
to a `Scope` (see allowed.py), and so does every request to call, create or fill an object: this
file holds no import, no getattr on a name from the stream, and no call of anything it found there.
"""

import struct
from collections import Counter, OrderedDict, defaultdict, deque
from types import FunctionType

from .errors import UnpicklingError
from .nesting import Nesting

_PLAIN_KEYS = frozenset({str, int, float, bool, bytes, complex, type(None)})
_KEY_NODES = 10_000  # what a key is made of is hashed and compared recursively: bound the work
_LINE = 4096  # the longest name
_NUMBERS = {code: struct.Struct("<" + code) for code in "BHIQi"}
_MAX_PROTOCOL = 5
_KNOWN_HASHES = ("enum", "pathlib", "fractions", "decimal", "datetime", "facula", "torch")
_DICTS = frozenset({dict, OrderedDict, Counter, defaultdict})
# What the interpreter's own steps raise on a malformed stream; a Scope's own errors pass unchanged.
_MALFORMED = (
    LookupError,
    TypeError,
    ValueError,
    ArithmeticError,
    AttributeError,
    struct.error,
    RecursionError,
)


class TruncatedPickle(UnpicklingError):
    """Report a buffer that ends before its pickle does."""


class PickleReader:
    """Read one object from `buffer` at `start`.

    Args:
        buffer: any bytes-like object; may hold more than the pickle.
        scope: decides what names mean; see `allowed.Scope`.
        persistent_load: called with each persistent id (a value from the stream).
        start: offset of the first opcode.
        encoding: how byte strings written by Python 2 become str; "bytes" keeps them.
    """

    def __init__(self, buffer, scope, persistent_load, start=0, encoding="utf-8"):
        self._view = memoryview(buffer).cast("B")
        self._scope = scope
        self._persistent_load = persistent_load
        self._encoding = encoding
        self._at = start
        self._stack = []
        self._marks = []
        self._memo = {}
        self._nesting = Nesting()

    @property
    def position(self):
        """Offset of the first byte not read yet: after `load`, where the pickle ended."""
        return self._at

    def load(self):
        """Return the object. Raises UnpicklingError; never runs code that the stream chose."""
        view, table, size = self._view, _HANDLERS, len(self._view)
        op = None
        try:
            while True:
                if self._at >= size:
                    raise TruncatedPickle(f"load: the pickle has no end; it has {size} bytes")
                op = view[self._at]
                self._at += 1
                if op == _STOP:
                    if self._marks or len(self._stack) != 1:
                        raise UnpicklingError(
                            "load: the pickle ends with a stack that does not hold one object"
                        )
                    return self._stack.pop()
                handler = table[op]
                if handler is None:
                    raise UnpicklingError(
                        f"load: pickle opcode 0x{op:02x} at byte {self._at - 1} is not one that "
                        f"checkpoints of protocol 2 to {_MAX_PROTOCOL} use"
                    )
                handler(self)
        except _MALFORMED as error:
            what = f"{type(error).__name__}: {error}"
            raise UnpicklingError(
                f"load: the pickle is malformed near byte {self._at} "
                f"(opcode {'none' if op is None else hex(op)}; {what})"
            ) from None

    # -- bytes ------------------------------------------------------------------------------------

    def _take(self, n):
        at = self._at
        if n > len(self._view) - at:
            raise TruncatedPickle(
                f"load: the pickle asks for {n} bytes at byte {at}, but only {len(self._view) - at} are left"
            )
        self._at = at + n
        return self._view[at : at + n]

    def _number(self, code):
        form, at = _NUMBERS[code], self._at
        if form.size > len(self._view) - at:
            self._take(form.size)  # says what is missing
        self._at = at + form.size
        return form.unpack_from(self._view, at)[0]

    def _line(self):
        window = bytes(self._view[self._at : self._at + _LINE])
        end = window.find(b"\n")
        if end < 0:
            raise (UnpicklingError if len(window) == _LINE else TruncatedPickle)(
                f"load: the name at byte {self._at} of the pickle has no end"
            )
        self._at += end + 1
        return window[:end].decode("utf-8")

    # -- stack ------------------------------------------------------------------------------------

    def _push(self, value):
        self._stack.append(value)

    def _pop_mark(self):
        items = self._stack
        self._stack = self._marks.pop()
        return items

    def _mark(self):
        self._marks.append(self._stack)
        self._stack = []

    def _pop(self):
        if self._stack:
            self._stack.pop()
        else:
            self._pop_mark()

    def _tuple(self, n):
        stack = self._stack
        if len(stack) < n:
            raise IndexError("the stack is too short")
        items = stack[len(stack) - n :]
        stack[len(stack) - n :] = [self._nesting.around(tuple(items), items)]

    def _tuple_to_mark(self):
        items = self._pop_mark()
        self._push(self._nesting.around(tuple(items), items))

    # -- filling containers -----------------------------------------------------------------------

    def _append(self, items):
        target = self._stack[-1]
        if type(target) in (list, deque):
            target.extend(items)
        elif isinstance(target, list) and self._scope.owns(target):
            list.extend(target, items)
        else:
            raise UnpicklingError(f"load: the pickle appends to {type(target).__name__}, which is not a list")

    def _set_items(self, items):
        target = self._stack[-1]
        if len(items) % 2:
            raise UnpicklingError("load: the pickle sets a key without a value")
        if type(target) in _DICTS:
            store = type(target).__setitem__
        elif isinstance(target, dict) and self._scope.owns(target):
            store = dict.__setitem__
        else:
            raise UnpicklingError(
                f"load: the pickle sets items of {type(target).__name__}, which is not a dict"
            )
        for i in range(0, len(items), 2):
            check_key(items[i])
            store(target, items[i], items[i + 1])

    def _add_items(self, items):
        target = self._stack[-1]
        if type(target) is not set:
            raise UnpicklingError(f"load: the pickle adds to {type(target).__name__}, which is not a set")
        for item in items:
            check_key(item)
        target.update(items)

    def _frozenset(self):
        items = self._pop_mark()
        for item in items:
            check_key(item)
        self._push(frozenset(items))

    def _dict_entry(self):
        value, key = self._stack.pop(), self._stack.pop()
        self._set_items([key, value])

    # -- names, calls, objects --------------------------------------------------------------------

    def _protocol(self):
        version = self._number("B")
        if not 2 <= version <= _MAX_PROTOCOL:
            raise UnpicklingError(
                f"load: the pickle has protocol {version}; 2 to {_MAX_PROTOCOL} can be read"
            )

    def _global(self):
        module, name = self._line(), self._line()
        self._push(self._scope.find(module, name))

    def _stack_global(self):
        name, module = self._stack.pop(), self._stack.pop()
        if type(name) is not str or type(module) is not str:
            raise UnpicklingError("load: the pickle names an object by something that is not text")
        self._push(self._scope.find(module, name))

    def _reduce(self):
        args, function = self._stack.pop(), self._stack.pop()
        given = (args,) if isinstance(function, self._scope.bare) else _arguments(args)
        self._push(self._nesting.around(self._scope.call(function, given), args))

    def _new_object(self):
        args, cls = self._stack.pop(), self._stack.pop()
        self._push(self._nesting.around(self._scope.new(cls, _arguments(args)), args))

    def _new_object_ex(self):
        options = self._stack.pop()
        if type(options) is not dict or options:
            raise UnpicklingError("load: the pickle creates an object with keyword arguments")
        self._new_object()

    def _build(self):
        state = self._stack.pop()
        self._scope.build(self._stack[-1], state, self._nesting)

    def _persistent(self):
        self._push(self._persistent_load(self._stack.pop()))

    def _text(self, n):
        self._push(str(self._take(n), "utf-8", "surrogatepass"))

    def _old_text(self, n):
        data = bytes(self._take(n))
        self._push(data if self._encoding == "bytes" else str(data, self._encoding))

    def _long(self, n):
        self._push(int.from_bytes(self._take(n), "little", signed=True))

    def _length8(self):
        return self._number("Q")

    def _remember(self, index):
        self._memo[index] = self._stack[-1]

    def _frame(self):
        # A frame only groups opcodes for reading ahead; it must lie inside the buffer, no more.
        length = self._length8()
        self._take(length)
        self._at -= length


def _arguments(args):
    if type(args) is not tuple:
        raise UnpicklingError(
            f"load: the pickle passes {type(args).__name__} where a tuple of arguments belongs"
        )
    return args


def check_key(key):
    """Raise UnpicklingError when hashing or comparing `key` could take for ever, or run code.

    How deep it is nested was bounded when it was built, see `Nesting`.
    """
    if type(key) in _PLAIN_KEYS:
        return
    waiting, nodes = [key], 1
    while waiting:
        part = waiting.pop()
        _check_hash(part)
        if isinstance(part, (tuple, frozenset)):
            nodes += len(part)
            if nodes > _KEY_NODES:
                raise UnpicklingError(f"load: a dict key or set element has more than {_KEY_NODES} parts")
            waiting.extend(part)


def _check_hash(part):
    function = type(part).__hash__
    if isinstance(function, FunctionType) and function.__module__.partition(".")[0] not in _KNOWN_HASHES:
        raise UnpicklingError(
            f"load: a {type(part).__name__} stands as a key, and its own code would hash it"
        )


def _handlers():
    r = PickleReader
    by_code = {
        "\x80": r._protocol,
        "\x95": r._frame,
        "(": r._mark,
        "0": r._pop,
        "1": r._pop_mark,
        "N": lambda s: s._push(None),
        "\x88": lambda s: s._push(True),
        "\x89": lambda s: s._push(False),
        "K": lambda s: s._push(s._number("B")),
        "M": lambda s: s._push(s._number("H")),
        "J": lambda s: s._push(s._number("i")),
        "G": lambda s: s._push(struct.unpack(">d", s._take(8))[0]),
        "\x8a": lambda s: s._long(s._number("B")),
        "\x8b": lambda s: s._long(s._number("I")),
        "X": lambda s: s._text(s._number("I")),
        "\x8c": lambda s: s._text(s._number("B")),
        "\x8d": lambda s: s._text(s._length8()),
        "U": lambda s: s._old_text(s._number("B")),
        "T": lambda s: s._old_text(s._number("I")),
        "B": lambda s: s._push(bytes(s._take(s._number("I")))),
        "C": lambda s: s._push(bytes(s._take(s._number("B")))),
        "\x8e": lambda s: s._push(bytes(s._take(s._length8()))),
        "\x96": lambda s: s._push(bytearray(s._take(s._length8()))),
        "]": lambda s: s._push([]),
        "}": lambda s: s._push({}),
        ")": lambda s: s._push(()),
        "\x8f": lambda s: s._push(set()),
        "\x91": r._frozenset,
        "t": r._tuple_to_mark,
        "\x85": lambda s: s._tuple(1),
        "\x86": lambda s: s._tuple(2),
        "\x87": lambda s: s._tuple(3),
        "l": lambda s: s._push(s._pop_mark()),
        "a": lambda s: s._append([s._stack.pop()]),
        "e": lambda s: s._append(s._pop_mark()),
        "s": r._dict_entry,
        "u": lambda s: s._set_items(s._pop_mark()),
        "\x90": lambda s: s._add_items(s._pop_mark()),
        "q": lambda s: s._remember(s._number("B")),
        "r": lambda s: s._remember(s._number("I")),
        "\x94": lambda s: s._remember(len(s._memo)),
        "h": lambda s: s._push(s._memo[s._number("B")]),
        "j": lambda s: s._push(s._memo[s._number("I")]),
        "c": r._global,
        "\x93": r._stack_global,
        "R": r._reduce,
        "\x81": r._new_object,
        "\x92": r._new_object_ex,
        "b": r._build,
        "Q": r._persistent,
    }
    table = [None] * 256
    for code, handler in by_code.items():
        table[ord(code)] = handler
    return table


_STOP = ord(".")
_HANDLERS = _handlers()
