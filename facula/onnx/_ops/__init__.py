"""ATen ops as ONNX's, a file per topic; `find(name, overload)` is the translation of one."""

from . import (  # noqa: I001
    activation,
    attention,
    conv,
    create,
    elementwise,
    index,
    loss,
    matmul,
    norm,
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
