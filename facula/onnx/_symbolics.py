"""The exporter's own translations as functions of `(g, *arguments)`, for programs that build theirs upon them."""

import functools

from . import _ops
from ._graph import Value

#: ops whose result is told by their arguments alone
NAMES = frozenset(
    """abs add cos dropout exp expand log log_softmax masked_fill mul neg permute relu reshape select sigmoid sin softmax sqrt
    squeeze sub tanh transpose unsqueeze""".split()
)
#: dtypes as the programs number them
_DTYPES = (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool qint8 quint8 qint32 bfloat16"
).split()


def _dtype_word(dtype):
    return _DTYPES[dtype] if isinstance(dtype, int) else str(dtype).rpartition(".")[2]


@functools.cache
def translation(name):
    """The translation of the op `name`; its nodes are those of the graph's opset, whichever module it is taken from."""
    if name not in NAMES:
        raise AttributeError(f"onnx has no translation of this name for programs, got {name!r}")
    function = _ops.find(name, "")

    @functools.wraps(function)
    def symbolic(g, *args, **kwargs):
        if name in ("softmax", "log_softmax") and len(args) > 2:
            args, kwargs = args[:2], {**kwargs, "dtype": args[2]}
        dtype = kwargs.pop("dtype", None)
        if name in ("add", "sub") and len(args) > 2:
            args = args[:2] if args[2] is None else args
        before, (g.dtype, g.shape, g.results) = (g.dtype, g.shape, g.results), (None, None, ())
        try:
            result = function(g, *args, **kwargs)
        finally:
            g.dtype, g.shape, g.results = before
        return g.cast(result, _dtype_word(dtype)) if dtype is not None and isinstance(result, Value) else result

    symbolic.__name__ = symbolic.__qualname__ = name
    symbolic.__doc__ = f"The value of the op `aten::{name}` in the graph `g`; its arguments follow in the op's order."
    return symbolic
