"""Tables of names: dtype aliases, numeric constants, and the submodules that load on first use."""

import math

DTYPE_ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "cfloat": "complex64",
    "cdouble": "complex128",
    "chalf": "complex32",
    "short": "int16",
    "int": "int32",
    "long": "int64",
}

CONSTANTS = {"inf": math.inf, "nan": math.nan, "pi": math.pi, "e": math.e, "newaxis": None}

LAZY_MODULES = frozenset(
    """
    accelerator amp ao autograd backends compat compiler cpu cuda distributed distributions fft fx func futures hub
    jit library linalg masked mps mtia multiprocessing nested nn onnx optim overrides package profiler quantization
    random return_types serialization signal sparse special storage testing types utils version xpu
    """.split()
)
