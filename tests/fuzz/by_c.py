"""Call ops through the C interface (include/facula.h), as a program in another language does.

`Library().run(key, values, lie)` finds the op, makes an `fc_value` of each argument, calls, reads what comes and gives it back. `lie`
says what is wrong with the call itself: a kind that is none, a list without its items, room for other results than there are.
"""

from __future__ import annotations

import ctypes

import facula

KINDS = ["none", "int", "float", "bool", "complex", "string", "dtype", "device", "format", "generator", "tensor", "tensors", "ints", "floats", "bools", "layout"]
KIND = {name: number for number, name in enumerate(KINDS)} | {"default": 99}
DTYPES = [
    "bool", "uint8", "int8", "int16", "int32", "int64", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64", "complex32", "complex64",
    "complex128", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz",
]  # fmt: skip
FORMATS = [facula.contiguous_format, facula.preserve_format, facula.channels_last, facula.channels_last_3d]
LAYOUTS = ["strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"]
ERRORS = {1: RuntimeError, 2: ValueError, 3: TypeError, 4: IndexError, 5: NotImplementedError, 6: MemoryError, 7: AttributeError, 8: AssertionError,
          9: facula.linalg.LinAlgError, 10: BufferError}  # fmt: skip
#: what a call may do wrong besides its values
LIES = ["", "", "", "kind", "null", "count", "fewer", "default", "more", "room", "no_results"]
MOST_READ = 1 << 20  # bytes of a result


class Complex(ctypes.Structure):
    _fields_ = [("real", ctypes.c_double), ("imaginary", ctypes.c_double)]


class As(ctypes.Union):
    _fields_ = [("integer", ctypes.c_int64), ("number", ctypes.c_double), ("complex", Complex), ("text", ctypes.c_char_p), ("pointer", ctypes.c_void_p)]


class Value(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("count", ctypes.c_int32), ("value", As)]


class Library:
    def __init__(self):
        library = ctypes.CDLL(facula._C.__file__)  # which has the names of libfacula, too
        functions = "op_find error_text call value_release generator_new generator_release tensor_numel tensor_dims tensor_size tensor_dtype dtype_size tensor_read tensor_requires_grad tensor_backward"
        for name in functions.split():
            setattr(self, name, getattr(library, f"fc_{name}"))
        self.op_find.restype, self.error_text.restype, self.tensor_numel.restype = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int64
        self.tensor_size.restype, self.tensor_size.argtypes = ctypes.c_int64, [ctypes.c_void_p, ctypes.c_int32]
        self.dtype_size.restype, self.tensor_requires_grad.restype = ctypes.c_size_t, ctypes.c_bool
        for name in ("tensor_numel", "tensor_dims", "tensor_dtype", "tensor_requires_grad", "generator_release"):
            getattr(self, name).argtypes = [ctypes.c_void_p]
        self.tensor_read.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t]
        self.tensor_backward.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_bool, ctypes.c_bool]
        self.call.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p, ctypes.c_size_t]

    def raised(self, status: int) -> None:
        """Raise what the interface reports. A status that is no kind of error is a fault of the library."""
        if status:
            text = self.error_text().decode("utf-8", "surrogateescape")
            raise ERRORS.get(status, SystemError)(text)

    def run(self, key: str, values, lie: str = "") -> None:
        info = facula._C._boxed_op(key)
        kept: list = []  # what the arguments point to
        try:
            given = [self.value(v, kind, kept) for v, (_, kind, *_) in zip(values, info["arguments"])]
            self.lied(given, lie)
            count = len(info["results"]) + (lie == "room")
            results = (Value * max(count, 1))()
            place = None if lie == "no_results" else ctypes.addressof(results)
            array = (Value * max(len(given), 1))(*given)
            self.raised(self.call(self.op_find(key.encode()), ctypes.addressof(array), len(given), place, count))
            try:
                for result in results:
                    self.look(result)
            finally:
                for result in results:
                    self.value_release(ctypes.byref(result))
        finally:
            for item in kept:
                if isinstance(item, ctypes.c_void_p):
                    self.generator_release(item)

    @staticmethod
    def lied(given: list, lie: str) -> None:
        if lie == "more":
            given.append(Value())
        if not given:
            return
        place = len(given) // 2
        if lie == "kind":
            given[place].kind = (16, 98, -1, 2**31 - 1)[len(given) % 4]
        elif lie == "null":
            given[place].value.pointer = None
        elif lie == "count":
            given[place].count = (-1, -(2**31))[len(given) % 2]
        elif lie == "fewer":
            given.pop()
        elif lie == "default":
            given[place].kind = KIND["default"]

    def value(self, value, kind: str, kept: list) -> Value:
        if isinstance(value, (list, tuple)):
            return self.listed(list(value), kind.rstrip("?"), kept)
        if value is None:
            return Value(KIND["none"])
        if isinstance(value, facula.Tensor):
            kept.append(value)
            return self.pointing("tensor", value._cdata)
        if isinstance(value, bool):
            return Value(KIND["bool"], 0, As(integer=value))
        if isinstance(value, int):
            return Value(KIND["int"], 0, As(integer=value))
        if isinstance(value, float):
            return Value(KIND["float"], 0, As(number=value))
        if isinstance(value, complex):
            return Value(KIND["complex"], 0, As(complex=Complex(value.real, value.imag)))
        if isinstance(value, (str, facula.device)):
            return Value(KIND["device" if kind.startswith("device") else "string"], 0, As(text=str(value).encode("utf-8", "surrogatepass")))
        if isinstance(value, facula.Generator):
            made = ctypes.c_void_p()
            self.raised(self.generator_new(b"cpu", ctypes.c_uint64(value.initial_seed()), ctypes.byref(made)))
            kept.append(made)
            return self.pointing("generator", made.value)
        for name, table in (("dtype", [getattr(facula, d) for d in DTYPES]), ("format", FORMATS), ("layout", [getattr(facula, w) for w in LAYOUTS])):
            if any(value is each for each in table):
                return Value(KIND[name], 0, As(integer=table.index(value)))
        raise TypeError(f"fc_call: no value of C is a {type(value).__name__}")

    @staticmethod
    def pointing(kind: str, address, count: int = 0) -> Value:
        return Value(KIND[kind], count, As(pointer=address))

    def listed(self, items: list, kind: str, kept: list) -> Value:
        if kind.startswith(("Tensor", "Operand")) or any(isinstance(i, facula.Tensor) for i in items):
            name, array = "tensors", (ctypes.c_void_p * max(len(items), 1))(*[i._cdata if isinstance(i, facula.Tensor) else None for i in items])
        elif kind.startswith("bool"):
            name, array = "bools", (ctypes.c_uint8 * max(len(items), 1))(*[2 * bool(i) for i in items])
        elif kind.startswith("float") or any(isinstance(i, float) for i in items):
            name, array = "floats", (ctypes.c_double * max(len(items), 1))(*items)
        else:
            name, array = "ints", (ctypes.c_int64 * max(len(items), 1))(*items)
        kept += [items, array]
        return self.pointing(name, ctypes.addressof(array), len(items))

    def look(self, result: Value) -> None:
        """Read a tensor and differentiate it; what the library refuses is raised."""
        if result.kind != KIND["tensor"] or not result.value.pointer:
            return
        tensor = result.value.pointer
        numel = self.tensor_numel(tensor)
        size = numel * self.dtype_size(self.tensor_dtype(tensor))
        if not 0 <= numel < MOST_READ:
            return
        data = ctypes.create_string_buffer(size)
        self.raised(self.tensor_read(tensor, data, size))
        if self.tensor_requires_grad(tensor):
            shape = [self.tensor_size(tensor, dim) for dim in range(self.tensor_dims(tensor))]
            gradient = facula.ones(shape, dtype=getattr(facula, DTYPES[self.tensor_dtype(tensor)]))
            self.raised(self.tensor_backward(tensor, gradient._cdata, False, False))


class CCalls:
    """`by_c['mm.default', ''](lambda: (a, b))`: the arguments are made, between guard pages where asked, and the op is called."""

    def __init__(self, library=None, key="", lie="", paged=False):
        self.library, self.key, self.lie, self.paged = library, key, lie, paged

    def __getitem__(self, asked):
        return CCalls(self.library or Library(), *asked)

    def __call__(self, make):
        facula._C._guard_pages(self.paged)
        try:
            self.library.run(self.key, make(), self.lie)
        finally:
            facula._C._guard_pages(False)
