"""Define assertions for tests of exported models."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula import _C, testing

from .verification import arguments_of, wanted_of

if TYPE_CHECKING:
    from typing import Any

_BACKENDS = {"onnxruntime": lambda program: program, "reference": lambda program: program.call_reference}


def assert_onnx_program(program: Any, *, rtol: float | None = None, atol: float | None = None, args: Any = None,
                        kwargs: Any = None, strategy: str = "TorchExportNonStrictStrategy",
                        backend: str = "onnxruntime") -> None:  # fmt: skip
    """Raise an AssertionError unless the file gives what the exported program gives.

    Args:
        program: what `onnx.export` gave.
        rtol, atol: as for `testing.assert_close`.
        args, kwargs: arguments of the model; by default those with which it was exported.
        strategy: how the program was recorded; there is one way, PyTorch's "TorchExportNonStrictStrategy". None: any.
        backend: "onnxruntime", or "reference" for that of the package `onnx`.

    Errors: AssertionError where they differ; ValueError for another strategy or backend; OnnxExporterError without the package
    that runs the file.

    >>> program = torch.onnx.export(nn.ReLU(), (torch.ones(2),))
    >>> import importlib.util
    >>> from facula.onnx.testing import assert_onnx_program
    >>> if importlib.util.find_spec("onnxruntime"):
    ...     assert_onnx_program(program)
    """
    if strategy not in (None, "TorchExportNonStrictStrategy"):
        raise ValueError(f"assert_onnx_program: there is TorchExportNonStrictStrategy only, got strategy={strategy!r}")
    if backend not in _BACKENDS:
        raise ValueError(f"assert_onnx_program: backend must be {_C._one_of(backend, ('onnxruntime', 'reference'))}")
    args, kwargs = arguments_of(program, args, kwargs)
    found = _BACKENDS[backend](program)(*args, **kwargs)
    testing.assert_close(list(found), wanted_of(program, args, kwargs), rtol=rtol, atol=atol)


__all__ = ["assert_onnx_program"]
