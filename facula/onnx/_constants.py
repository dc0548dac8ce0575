"""Define the numbers of ONNX's file format, and of the older exporter's arguments, by the names that programs use."""

import enum


class TrainingMode(enum.Enum):
    """Name the mode in which the older interface exports a model.

    >>> [mode.name for mode in torch.onnx.TrainingMode]
    ['EVAL', 'PRESERVE', 'TRAINING']
    """

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.Enum):
    """Name what the older interface does with ops that ONNX lacks; only ONNX is written.

    >>> torch.onnx.OperatorExportTypes.ONNX.value
    0
    """

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


class TensorProtoDataType(enum.IntEnum):
    """Number the dtypes as ONNX does.

    >>> torch.onnx.TensorProtoDataType.FLOAT.value
    1
    """

    UNDEFINED = 0
    FLOAT = 1
    UINT8 = 2
    INT8 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    STRING = 8
    BOOL = 9
    FLOAT16 = 10
    DOUBLE = 11
    UINT32 = 12
    UINT64 = 13
    COMPLEX64 = 14
    COMPLEX128 = 15
    BFLOAT16 = 16
    FLOAT8E4M3FN = 17
    FLOAT8E4M3FNUZ = 18
    FLOAT8E5M2 = 19
    FLOAT8E5M2FNUZ = 20
