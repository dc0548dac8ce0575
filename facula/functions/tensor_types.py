"""Define the tensor types of old programs: FloatTensor, cuda.LongTensor, ...

Each is a constructor, a name that `Tensor.type()` gives and takes, and a class that `isinstance` understands; tensors
themselves are all of class Tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C

if TYPE_CHECKING:
    from typing import Any

    import facula
    from facula import Tensor

_LEGACY_NAMES = {
    "float32": "Float",
    "float64": "Double",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "int64": "Long",
    "int32": "Int",
    "int16": "Short",
    "int8": "Char",
    "uint8": "Byte",
    "bool": "Bool",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
    "complex32": "ComplexHalf",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
    "float8_e4m3fn": "Float8_e4m3fn",
    "float8_e5m2": "Float8_e5m2",
    "float8_e4m3fnuz": "Float8_e4m3fnuz",
    "float8_e5m2fnuz": "Float8_e5m2fnuz",
}
_DTYPES = {getattr(_C, name): legacy for name, legacy in _LEGACY_NAMES.items()}
#: Those that exist as classes.
_CLASSES = "Float Double Half BFloat16 Long Int Short Char Byte Bool".split()


class tensortype(type):
    """Implement isinstance and construction for FloatTensor and its relatives; it is their class."""

    def __new__(mcs, name: str, bases: tuple[type, ...], body: dict[str, Any]) -> Any:
        if bases:
            base = f"{bases[0].__module__}.{bases[0].__name__}"
            raise TypeError(f"{name}: type {base!r} is not an acceptable base type (use Tensor)")
        return super().__new__(mcs, name, bases, body)

    def __call__(cls, *args: Any, **kwargs: Any) -> Tensor:
        if cls.device_type == "cuda":
            facula.cuda._need_device(cls.__name__, f"{len(args)} arguments")
        return _C._legacy_new(cls.__name__, cls.dtype, cls.device_type, args, kwargs)

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, _C.Tensor) and value.dtype is cls.dtype and value.device.type == cls.device_type

    def __subclasscheck__(cls, other: Tensor) -> bool:
        return other is cls

    def __repr__(cls) -> str:
        return f"<class '{cls.__module__}.{cls.__name__}'>"

    @property
    def is_cuda(cls) -> bool:
        """Whether its tensors are on a GPU."""
        return cls.device_type == "cuda"


def _module(device_type):
    return "torch" if device_type == "cpu" else f"torch.{device_type}"


_TEXT = """Makes and stands for tensors of {dtype} on {device}; tensors themselves are of class Tensor.

`isinstance` asks for dtype and device; `Tensor.type` gives and takes the class and its name, "{name}".

Args:
    args, kwargs: sizes, for a tensor that is not initialized; numbers in nested sequences or an array; a tensor to look at;
        or nothing, for an empty tensor.

Errors: TypeError for other arguments.
"""
_EXAMPLE = """>>> torch.{name}([0, 1]).dtype
{dtype}
>>> isinstance(torch.ones(1, dtype={dtype}), torch.{name})
True
"""


def _make(legacy, dtype, device_type):
    doc = _TEXT.format(dtype=dtype, device=device_type, name=f"{_module(device_type)}.{legacy}Tensor")
    if device_type == "cpu":
        doc += f"\n{_EXAMPLE.format(name=f'{legacy}Tensor', dtype=dtype)}"
    body = {"__doc__": doc, "dtype": dtype, "device_type": device_type, "layout": _C.strided, "is_sparse": False}
    return tensortype(f"{legacy}Tensor", (), {**body, "__module__": _module(device_type)})


CPU_TYPES = {f"{legacy}Tensor": _make(legacy, dtype, "cpu") for dtype, legacy in _DTYPES.items() if legacy in _CLASSES}
CUDA_TYPES = {
    f"{legacy}Tensor": _make(legacy, dtype, "cuda") for dtype, legacy in _DTYPES.items() if legacy in _CLASSES
}
globals().update(CPU_TYPES)
_BY_NAME = {
    f"{_module(device)}.{legacy}Tensor": (dtype, device)
    for dtype, legacy in _DTYPES.items()
    for device in ("cpu", "cuda")
}


def name_of(dtype: facula.dtype, device: facula.device) -> str:
    """ Return "torch.FloatTensor" for float32 on the CPU."""
    return f"{_module(device.type)}.{_DTYPES[dtype]}Tensor"


def parse(kind: facula.dtype | str | type) -> tuple[facula.dtype, str | None]:
    """Return (dtype, device or None) of a dtype, a type such as FloatTensor, or its name."""
    if isinstance(kind, (_C.dtype, type)) and not isinstance(kind, tensortype) and kind is not _C.Tensor:
        return kind, None
    if kind is _C.Tensor or kind in ("torch.Tensor", "Tensor"):
        return _C.get_default_dtype(), "cpu"
    if isinstance(kind, tensortype):
        return kind.dtype, kind.device_type
    name = str(kind).replace("facula.", "torch.", 1)
    if name in _BY_NAME:
        return _BY_NAME[name]
    raise ValueError(f"type: expected a dtype or the name of a tensor type, got {kind!r}")
