"""Name PyTorch's ways to divide a graph of both passes. Facula has no such graph: the tape determines what a backward
pass needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any, NoReturn

__all__ = ["check", "default_partition", "min_cut_rematerialization_partition"]


def _refused(name: str) -> NoReturn:
    raise NotImplementedError(
        f"{name}: a graph of both passes is not divided: backward passes have graphs of their own (aot_autograd), got a call"
    )


def default_partition(joint_module: Any, _joint_inputs: Any, *, num_fwd_outputs: int, **more: Any) -> NoReturn:
    """Name a way to choose what is kept for the backward pass, for `partition_fn`; it is not called.

    Args:
        joint_module, _joint_inputs, num_fwd_outputs, more: those of PyTorch's.

    Errors: NotImplementedError when it is called.
    """
    _refused("default_partition")


def min_cut_rematerialization_partition(joint_module: Any, _joint_inputs: Any, compiler: str = "inductor", *,
                                        num_fwd_outputs: int, **more: Any) -> NoReturn:  # fmt: skip
    """Name a way to choose what is kept for the backward pass, for `partition_fn`; it is not called.

    Args:
        joint_module, _joint_inputs, compiler, num_fwd_outputs, more: those of PyTorch's.

    Errors: NotImplementedError when it is called.
    """
    _refused("min_cut_rematerialization_partition")


def check(partition_fn: Any) -> None:
    """Return whether a `partition_fn` is one whose choice means nothing here.

    Args:
        partition_fn: None, or a function.

    Errors: NotImplementedError for a function that wants to be called.
    """
    function = getattr(partition_fn, "func", partition_fn)  # of functools.partial
    if function not in (None, default_partition, min_cut_rematerialization_partition):
        raise NotImplementedError(
            "aot_autograd: there is no graph of both passes that a partition_fn could divide (use default_partition), got "
            f"{getattr(function, '__name__', function)!r}"
        )
