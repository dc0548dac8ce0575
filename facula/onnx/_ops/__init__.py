"""ATen ops as ONNX's, a file per topic; `find(name, overload)` is the translation of one."""

from . import (  # noqa: I001
    activation,
    attention,
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
from ._table import TABLE, find, op
from .complex import Pair
