"""Define the errors of compiled functions under PyTorch's names. Errors that only PyTorch's tracer raises exist for
`except`.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from facula import _C

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, NoReturn

__all__ = [
    "BackendCompilerFailed",
    "CondOpArgsMismatchError",
    "FailOnRecompileLimitHit",
    "InternalTorchDynamoError",
    "InvalidBackend",
    "PackageError",
    "RecompileError",
    "RecompileLimitExceeded",
    "ResetRequired",
    "RestartAnalysis",
    "ShortenTraceback",
    "SkipFrame",
    "StepUnsupported",
    "TensorifyScalarRestartAnalysis",
    "TorchDynamoException",
    "TorchRuntimeError",
    "UncapturedHigherOrderOpError",
    "Unsupported",
    "UserError",
    "UserErrorType",
    "unimplemented",
]


class TorchDynamoException(RuntimeError):
    """Report an error of `torch.compile` itself, not of the program."""


class Unsupported(TorchDynamoException):
    """Report that a function compiled with `fullgraph=True` does something that cannot be in one graph.

    Args:
        msg: the message.
        gb_type: the kind of break.
        skip_frame, case_name, real_stack: kept.
    """

    def __init__(self, msg: str, gb_type: str = "", skip_frame: bool = False, *, case_name: str | None = None,
                 real_stack: Any = None) -> None:  # fmt: skip
        super().__init__(msg)
        self.msg, self.gb_type, self.skip_frame, self.case_name = msg, gb_type, skip_frame, case_name
        self.real_stack = real_stack if real_stack is not None else []


class ShortenTraceback(TorchDynamoException):
    """Report an error whose traceback begins at `first_useful_frame`."""

    def __init__(self, *args: Any, first_useful_frame: Any = None) -> None:
        super().__init__(*args)
        self.first_useful_frame = first_useful_frame


class BackendCompilerFailed(ShortenTraceback):
    """Report that a backend raised an error for a graph.

    Args:
        backend_fn: the backend.
        inner_exception: what it raised.
        first_useful_frame: where the traceback begins.
    """

    def __init__(self, backend_fn: Any, inner_exception: Exception, first_useful_frame: Any = None) -> None:
        self.backend_name = getattr(backend_fn, "__name__", "?")
        self.inner_exception = inner_exception
        text = f"compile: the backend {self.backend_name!r} raised {type(inner_exception).__name__}: {inner_exception}"
        super().__init__(text, first_useful_frame=first_useful_frame)


class InvalidBackend(TorchDynamoException):
    """Report a name that belongs to no backend.

    Args:
        name: the name.
        known: the names of backends.
    """

    def __init__(self, name: Any, known: Sequence[str] = ()) -> None:
        expected = f"a backend must be {_C._one_of(name, known)}" if known else f"expected the name of a backend, got {name!r}"
        super().__init__(f"compile: {expected}")


class RecompileError(TorchDynamoException):
    """Report that a function would be recorded again, which `config.error_on_recompile` forbids."""


class FailOnRecompileLimitHit(Exception):
    """Report that a function would be recorded more often than `config.recompile_limit` while
    `config.fail_on_recompile_limit_hit` is set.
    """


RecompileLimitExceeded = FailOnRecompileLimitHit


class ResetRequired(TorchDynamoException):
    """Report that `torch._dynamo.reset()` has to be called first."""

    def __init__(self) -> None:
        super().__init__("compile: call torch._dynamo.reset() first, got another use of what was compiled before")


class TorchRuntimeError(TorchDynamoException):
    """Report that PyTorch's tracer could not run an op. In Facula an op raises its own error, as it does eagerly."""


class InternalTorchDynamoError(TorchDynamoException):
    """Report that PyTorch's tracer failed."""


class ResumePrologueTracingError(TorchDynamoException):
    """Report that PyTorch's tracer failed where it continues after a break."""


class RestartAnalysis(TorchDynamoException):
    """Report that PyTorch's tracer begins anew.

    Args:
        args: the message.
        restart_reason: why.
    """

    def __init__(self, *args: Any, restart_reason: str | None = None) -> None:
        super().__init__(*args)
        self.restart_reason = restart_reason


class SpeculationRestartAnalysis(RestartAnalysis):
    """Report that PyTorch's tracer begins anew."""


class UnspecializeRestartAnalysis(RestartAnalysis):
    """Report that PyTorch's tracer begins anew."""


class CompileCollectiveRestartAnalysis(RestartAnalysis):
    """Report that PyTorch's tracer begins anew."""


class TensorifyScalarRestartAnalysis(RestartAnalysis):
    """Report that PyTorch's tracer begins anew."""


class SkipFrame(TorchDynamoException):
    """Report that PyTorch's tracer skips a function."""


class StepUnsupported(TorchDynamoException):
    """Report that PyTorch's tracer leaves a function at a statement that it cannot trace."""


class UncapturedHigherOrderOpError(TorchDynamoException):
    """Report that a function given to `cond` or a related op cannot be in a graph."""


class InfiniteGeneratorError(TorchDynamoException):
    """Report a generator without an end."""


class ObservedException(TorchDynamoException):
    """Report that the program raised an error while PyTorch's tracer ran it."""


class PackageError(TorchDynamoException):
    """Report that a compiled program could not be written or read."""


class UserErrorType(enum.Enum):
    """Name what the program did."""

    DYNAMIC_CONTROL_FLOW = enum.auto()
    ANTI_PATTERN = enum.auto()
    STANDARD_LIBRARY = enum.auto()
    CONSTRAINT_VIOLATION = enum.auto()
    DYNAMIC_DIM = enum.auto()
    INVALID_INPUT = enum.auto()
    INVALID_OUTPUT = enum.auto()
    UNSUPPORTED_ALIASED_MUTATED_DYNAMIC_INPUTS = enum.auto()


class UserError(Unsupported):
    """Report that the program does something that cannot be in a graph, and that it could do otherwise.

    Args:
        error_type: what it does.
        msg: the message.
        case_name: kept.
    """

    def __init__(self, error_type: UserErrorType, msg: str, case_name: str | None = None) -> None:
        super().__init__(msg, case_name=case_name)
        self.error_type, self.message = error_type, msg


class CondOpArgsMismatchError(TorchDynamoException):
    """Report that the branches of a condition do not return the same structure."""


def unimplemented(*, gb_type: str, context: str = "", explanation: str = "", hints: list[str] | None = None,
                  from_exc: BaseException | None = None, log_warning: bool = False) -> NoReturn:  # fmt: skip
    """Raise Unsupported.

    Args:
        gb_type: the kind of break.
        context, explanation: what the program did, and why it is none.
        hints: what it could do.
        from_exc: the cause.
        log_warning: whether to warn, too.
    """
    text = "\n".join([gb_type, *filter(None, (explanation, context)), *(f"hint: {hint}" for hint in hints or ())])
    if log_warning:
        import logging

        logging.getLogger("torch._dynamo").warning("%s", text)
    raise Unsupported(text, gb_type) from from_exc
