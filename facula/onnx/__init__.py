"""Export models as ONNX files: `export(model, args, "model.onnx")`.

The model is recorded as `facula.export` records it, every op is translated to those of ONNX (`_ops`, a file per topic), and the
file is written here, without another package. `onnx` (to look at the result) and `onnxruntime` (to run it) are used where a
program asks for it.
"""

from .. import __version__
from . import errors, symbolic_helper
from ._constants import OperatorExportTypes, TensorProtoDataType, TrainingMode
from ._export import ExportableModule, export, is_in_onnx_export
from ._program import ONNXProgram
from ._registered import register_custom_op_symbolic, unregister_custom_op_symbolic
from .errors import OnnxExporterError

__all__ = [
    "errors", "export", "ExportableModule", "is_in_onnx_export", "OnnxExporterError", "ONNXProgram",
    "OperatorExportTypes", "producer_name", "register_custom_op_symbolic", "symbolic_helper", "TensorProtoDataType",
    "TrainingMode", "unregister_custom_op_symbolic",
]  # fmt: skip

producer_name = "facula"
producer_version = __version__
