"""Define the errors of an export to ONNX."""


class OnnxExporterError(RuntimeError):
    """Report a model that cannot be exported."""


class OnnxExporterWarning(UserWarning):
    """Warn that a part of the model is not in the file."""


class UnsupportedOperatorError(OnnxExporterError, NotImplementedError):
    """Report an op that has no translation to ONNX, or none in this opset."""


class SymbolicValueError(OnnxExporterError):
    """Report that the export needs a value of the program that is not known before it runs."""
