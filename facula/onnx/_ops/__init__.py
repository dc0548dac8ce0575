"""Translate ATen ops to ONNX's, with a file per topic; `find(name, overload)` returns the translation of one."""

from . import (  # noqa: I001
    activation,
    attention,
    compare,
    complex,
    conv,
    create,
    elementwise,
    fft,
    histogram,
    index,
    linalg,
    linalg_values,
    loss,
    matmul,
    norm,
    numbers,
    pool,
    random,
    reduce,
    resample,
    rnn,
    shape,
    sort,
    special,
    split_join,
)
from . import complex_functions  # noqa: I001  after the real ops that it is made of
from ._table import TABLE, find, op
from .complex import Pair
