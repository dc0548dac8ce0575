"""What can go wrong while a model is exported to ONNX."""


class OnnxExporterError(RuntimeError):
    """The model cannot be exported."""


class OnnxExporterWarning(UserWarning):
    """Something of the model is not in the file."""


class UnsupportedOperatorError(OnnxExporterError, NotImplementedError):
    """An op has no translation to ONNX, or none in this opset."""


class SymbolicValueError(OnnxExporterError):
    """A value of the program is needed that is not known before it runs."""
