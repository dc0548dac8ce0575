"""Define names for annotations."""

import os
from builtins import bool as _bool  # noqa: F401
from builtins import bytes as _bytes  # noqa: F401
from builtins import complex as _complex  # noqa: F401
from builtins import float as _float  # noqa: F401
from builtins import int as _int  # noqa: F401
from builtins import str as _str  # noqa: F401
from collections.abc import Sequence
from typing import IO, Any, Union

import facula
from facula import Tensor, UntypedStorage
from facula import device as _device
from facula import dtype as _dtype  # noqa: F401
from facula import layout as _layout  # noqa: F401

_TensorOrTensors = Union[Tensor, Sequence[Tensor]]
_TensorOrOptionalTensors = Union[Tensor, None, Sequence[Tensor | None]]
_size = Union[facula.Size, list[int], tuple[int, ...]]
_symsize = _size
_dispatchkey = str
Number = Union[int, float, bool]
_Number = (int, float, bool)
Device = Union[_device, str, int, None]
FileLike = Union[str, "os.PathLike[str]", IO[bytes]]
Storage = UntypedStorage
_qscheme = Any
