"""Restore dtypes, scalars and arrays of NumPy from checked fields.

NumPy trusts the states that it is given: flags of the wrong kind make it free memory it never had. So a state from
a file is only compared with what NumPy itself says of a dtype that was made from its name, and only states made here are
passed to it. Records and subarrays are not restored.
"""

from .errors import UnpicklingError, need
from .texts import shown

_SIZES = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8, 12, 16), "c": (8, 16, 24, 32)}
#: The kinds whose items have one size each, by the names that NumPy pickles them under.
_FIXED = frozenset(f"{kind}{size}" for kind, sizes in _SIZES.items() for size in sizes) | {"O8", "M8", "m8"}
_SIZED = "SUV"
_ORDERS = "<>|="
_UNITS = ("Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as", "generic")
# Sizes from a file are bounded before anything is computed with them, so that no product overflows.
_MAX_ITEM = 1 << 30
_MAX_DIMENSIONS = 32
_MAX_ELEMENTS = 1 << 48


def dtype(*args):
    """Return the dtype that `numpy.dtype(name, False, True)` in a pickle means."""
    name = args[0] if 1 <= len(args) <= 3 and type(args[0]) is str else ""
    order, plain = (name[:1], name[1:]) if name[:1] in tuple(_ORDERS) else ("", name)
    size = plain[1:]
    sized = plain[:1] in tuple(_SIZED) and size.isascii() and size.isdigit() and len(size) < 10
    need(
        plain in _FIXED or (sized and int(size) <= _MAX_ITEM),
        f"numpy dtype {shown(name or args)} is not a plain one",
    )
    return _numpy().dtype(order + plain, False, True)  # a copy: its state is set later


def build_dtype(target, state, nesting):
    """Give a dtype, just made by `dtype`, the byte order and time unit of its pickled state."""
    need(type(state) is tuple and len(state) in (8, 9), "a numpy dtype's state is malformed")
    _, order, subarray, names, fields, *numbers = state[:8]
    need(type(order) is str and order in tuple(_ORDERS), "a numpy dtype's byte order is malformed")
    need(
        subarray is None and names is None and fields is None,
        "a numpy dtype has a structure or subarray, which is not restored",
    )
    need(all(type(n) is int for n in numbers), "a numpy dtype's sizes are malformed")
    unit = _unit(target, state[8]) if len(state) == 9 else ""
    own = _state_of(f"{target.kind}{_letters(target)}{unit}", order)
    # the third number is flags, which are NumPy's to know
    need(tuple(numbers[:2]) == own[5:7], f"a numpy dtype contradicts itself: {shown(numbers)} for {target.name}")
    target.__setstate__(own)


def _letters(dtype):
    """Return the number in a dtype's name: bytes of an item, for text its characters."""
    return dtype.itemsize // 4 if dtype.kind == "U" else dtype.itemsize


def _state_of(name, order):
    """Return the state that NumPy pickles for the dtype of that name, with `order` where the dtype has one."""
    return _numpy().dtype(order + name, False, True).__reduce__()[2]


def _unit(dtype, described):
    """Return a time unit as in a dtype's name: "[25s]"."""
    need(
        dtype.kind in "mM" and type(described) is tuple and len(described) == 2, "a numpy time unit is malformed"
    )
    unit = described[1]
    need(
        type(unit) is tuple
        and len(unit) == 4
        and type(unit[0]) is bytes
        and unit[0].decode("latin1") in _UNITS
        and type(unit[1]) is int
        and 1 <= unit[1] < 1 << 31
        and all(type(n) is int and n == 1 for n in unit[2:]),
        "a numpy time unit is malformed",
    )
    name, count = unit[0].decode(), unit[1]
    return "" if name == "generic" else f"[{count if count > 1 else ''}{name}]"


def scalar(kind, data=None):
    """Return one element from its bytes."""
    numpy = _numpy()
    kind = _checked(kind, objects=False)
    data = _bytes(data)
    need(data is not None and len(data) == kind.itemsize, "a numpy scalar has the wrong size")
    _check_text(data, kind)
    return numpy.frombuffer(data, kind)[0] if data else numpy.zeros((), kind)[()]


def empty(kind, shape, typecode):
    """Return the empty array that NumPy's pickles begin with; `build_array` fills it."""
    numpy = _numpy()
    need(
        kind is numpy.ndarray
        and type(shape) is tuple
        and len(shape) == 1
        and type(shape[0]) is int
        and shape[0] == 0
        and type(typecode) in (bytes, str)
        and typecode in (b"b", "b"),
        "a numpy array subclass is not restored",
    )
    return numpy.ndarray.__new__(numpy.ndarray, (0,), "b")


def build_array(array, state, nesting):
    """Give an array, just made by `empty`, its shape, dtype and elements."""
    need(type(state) is tuple and len(state) == 5, "a numpy array's state is malformed")
    need(array.shape == (0,) and array.dtype.char == "b" and array.base is None, "a numpy array is filled twice")
    _, shape, kind, fortran, data = state
    kind = _checked(kind)
    total = _count(shape, kind)
    need(type(fortran) in (bool, int), "a numpy array's order is malformed")
    if kind.kind == "O":
        need(
            type(data) is list and len(data) == total,
            "a numpy array does not have as many objects as its shape says",
        )
        nesting.enclose(array, data)
        data = list(data)
    else:
        data = _bytes(data)
        need(
            data is not None and len(data) == total * kind.itemsize,
            "a numpy array does not have as many bytes as its shape says",
        )
        _check_text(data, kind)
    array.__setstate__((1, shape, kind, bool(fortran), data))


def from_buffer(data, kind, shape, order):
    """Return an array over bytes that traveled beside it (protocol 5)."""
    need(
        type(data) in (bytes, bytearray) and type(order) is str and order in ("C", "F"),
        "a numpy array's buffer is malformed",
    )
    kind = _checked(kind, objects=False)
    need(
        len(data) == _count(shape, kind) * kind.itemsize,
        "a numpy array does not have as many bytes as its shape says",
    )
    _check_text(data, kind)
    return _numpy().frombuffer(bytearray(data), kind).reshape(shape, order=order)


def builder_of_state(obj):
    """Return the function(obj, state, nesting) that fills a NumPy value, or None."""
    if not type(obj).__module__.startswith("numpy"):
        return None
    numpy = _numpy()
    if isinstance(obj, numpy.dtype):
        return build_dtype
    return build_array if type(obj) is numpy.ndarray else None


def _checked(kind, objects=True):
    """Return a copy of a dtype that nothing later in the stream can change."""
    need(isinstance(kind, _numpy().dtype), "a numpy value has no dtype")
    need(kind.names is None and kind.subdtype is None, f"a numpy value of dtype {kind.name} is not plain data")
    allowed = "biufcSUVmMO" if objects else "biufcSUVmM"
    need(kind.kind in tuple(allowed), f"a numpy value of dtype {kind.name} is not plain data")
    return _numpy().dtype(kind.str)


def _count(shape, kind):
    need(
        type(shape) is tuple
        and len(shape) <= _MAX_DIMENSIONS
        and all(type(n) is int and 0 <= n < _MAX_ELEMENTS for n in shape),
        "a numpy array has an impossible shape",
    )
    total = 1
    for n in shape:
        total *= n or 1  # strides are products of all sizes but one, also where another is 0
    need(total < _MAX_ELEMENTS and total * kind.itemsize < 1 << 62, "a numpy array has an impossible shape")
    total = 0 if 0 in shape else total
    need(total == 0 or kind.itemsize > 0, "a numpy array has elements of no size")
    return total


def _check_text(data, kind):
    if kind.kind == "U" and data:
        letters = _numpy().frombuffer(data, kind.str[0] + "u4")
        need(int(letters.max()) <= 0x10FFFF, "a numpy text has letters beyond Unicode's last")


def _bytes(data):
    """Return the bytes of a value; text where Python 2 wrote them and they were read as latin1. Else None."""
    if type(data) is str:
        return data.encode("latin1")
    return bytes(data) if type(data) in (bytes, bytearray) else None


def _numpy():
    try:
        import numpy
    except ImportError:
        raise UnpicklingError(
            "load: the checkpoint holds numpy data, and numpy is not installed"
        ) from None
    return numpy
