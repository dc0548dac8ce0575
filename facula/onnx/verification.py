"""Measure how far results of a file are from those of the model."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import facula

from ._program import real_parts

if TYPE_CHECKING:
    from typing_extensions import Self

    from facula import Tensor

__all__ = ["VerificationInfo", "verify_onnx_program"]

_EDGES = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 1e6)


@dataclasses.dataclass
class VerificationInfo:
    """Describe how far one result is from the expected one; `verify_onnx_program` returns one for each output.

    Args:
        name: the name of the output.
        max_abs_diff, max_rel_diff: the largest difference, and the largest divided by what it should be.
        abs_diff_hist, rel_diff_hist: (numbers of elements whose differences lie between bounds, the bounds, powers of ten).
        expected_dtype, actual_dtype: the dtypes of both.

    >>> from facula.onnx.verification import VerificationInfo
    >>> info = VerificationInfo.from_tensors("y", torch.ones(2), torch.tensor([1.0, 3.0]))
    >>> info.max_abs_diff, info.asdict()["expected_dtype"]
    (2.0, 'torch.float32')
    """

    name: str
    max_abs_diff: float
    max_rel_diff: float
    abs_diff_hist: tuple[Any, ...]
    rel_diff_hist: tuple[Any, ...]
    expected_dtype: facula.dtype
    actual_dtype: facula.dtype

    @classmethod
    def from_tensors(cls, name: str, expected: Any, actual: Any) -> Self:
        """Compare two tensors of one shape.

        Args:
            name: what the result is called.
            expected, actual: the tensors.

        Errors: ValueError where the shapes differ.
        """
        expected, actual = facula.as_tensor(expected), facula.as_tensor(actual)
        if expected.shape != actual.shape:
            told = f"got {tuple(expected.shape)} and {tuple(actual.shape)}"
            raise ValueError(f"VerificationInfo.from_tensors: both tensors need one shape, {told}")
        wanted = expected.to(facula.float32)
        away = (actual.to(facula.float32) - wanted).abs()
        relative = away / (wanted.abs() + 1e-7)
        largest = lambda t: t.max().item() if t.numel() else 0.0
        edges = facula.tensor(_EDGES)
        counted = lambda t: facula.histogram(t.reshape(-1), edges)
        return cls(
            name, largest(away), largest(relative), counted(away), counted(relative), expected.dtype, actual.dtype
        )

    def asdict(self) -> dict[str, Any]:
        """Return the same as a dict of names, numbers and lists."""
        made = dataclasses.asdict(self)
        for name in ("abs_diff_hist", "rel_diff_hist"):
            made[name] = [part.tolist() for part in getattr(self, name)]
        return {**made, "expected_dtype": str(self.expected_dtype), "actual_dtype": str(self.actual_dtype)}


def arguments_of(program: Any, args: Any, kwargs: Any) -> tuple[Any | tuple[()], Any | dict[Any, Any]]:
    """Return the given arguments, or those with which the model was exported."""
    if args is None and kwargs is None:
        args, kwargs = program.exported_program.example_inputs
    return args or (), kwargs or {}


def wanted_of(program: Any, args: Any, kwargs: Any) -> list[Tensor]:
    """Return what the exported program computes, as it would be in the file."""
    with facula.no_grad():
        results = program.exported_program.module()(*args, **kwargs)
    leaves = facula.utils._pytree.tree_leaves(results)
    return [real_parts(facula.as_tensor(r).detach()) for r in leaves if r is not None]


def verify_onnx_program(onnx_program: Any, args: Any = None, kwargs: Any = None,
                        compare_intermediates: bool = False) -> list[VerificationInfo]:  # fmt: skip
    """Compare onnxruntime's results with those of the exported program: a `VerificationInfo` for every output.

    Args:
        onnx_program: what `onnx.export` gave.
        args, kwargs: arguments of the model; by default those with which it was exported.
        compare_intermediates: must be False: values within the file are not those of the program, one by one.

    Errors: OnnxExporterError without the package onnxruntime; NotImplementedError for compare_intermediates.

    >>> program = torch.onnx.export(nn.ReLU(), (torch.ones(2),))
    >>> import importlib.util
    >>> from facula.onnx.verification import verify_onnx_program
    >>> if importlib.util.find_spec("onnxruntime"):
    ...     assert [info.max_abs_diff for info in verify_onnx_program(program)] == [0.0]
    """
    if compare_intermediates:
        raise NotImplementedError("verify_onnx_program: values within the program are not compared, got compare_intermediates")
    args, kwargs = arguments_of(onnx_program, args, kwargs)
    found = onnx_program(*args, **kwargs)
    wanted = wanted_of(onnx_program, args, kwargs)
    return [VerificationInfo.from_tensors(*each) for each in zip(onnx_program.output_names, wanted, found)]
