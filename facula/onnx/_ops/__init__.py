"""ATen ops as ONNX's, a file per topic; `find(name, overload)` is the translation of one."""

from . import (  # noqa: I001
    activation,
    attention,
    conv,
    create,
    elementwise,
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
