"""Apply a plan to a module."""

from __future__ import annotations

import warnings
from fnmatch import fnmatch
from typing import TYPE_CHECKING

from ...device_mesh import _current
from .style import ParallelStyle

if TYPE_CHECKING:
    from typing import Any

    from facula.distributed.device_mesh import DeviceMesh
    from facula.nn.modules.module import Module

__all__ = ["parallelize_module"]


def parallelize_module(module: Module, device_mesh: DeviceMesh | None = None, parallelize_plan: Any = None, *,
                       src_data_rank: int = 0) -> Any:  # fmt: skip
    """Cut parameters as a plan says, and move inputs and outputs between the layouts.

    Args:
        module: the module, changed in place.
        device_mesh: processes in one dimension. Default: that of the innermost `with mesh`.
        parallelize_plan: a style for the module itself, or {name of a submodule: style}; names may have `*`.
        src_data_rank: whose values hold; None: every process takes its own.
    Returns:
        the module.

    Errors: ValueError for a mesh of several dimensions, TypeError for another plan, RuntimeError without a mesh. A name that no
    submodule has is warned of.

    The group of the example is rank 0 of four that send nothing.

    >>> import torch.distributed as dist
    >>> from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
    >>> dist.init_process_group("fake", rank=0, world_size=4)
    >>> model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 4))
    >>> mesh = dist.device_mesh.init_device_mesh("cpu", (4,))
    >>> parallelize_module(model, mesh, {"0": ColwiseParallel(), "2": RowwiseParallel()}) is model
    True
    >>> model[0].weight.to_local().shape, model[2].weight.to_local().shape
    (torch.Size([2, 4]), torch.Size([4, 2]))
    >>> model(torch.ones(3, 4)).shape
    torch.Size([3, 4])
    >>> dist.destroy_process_group()
    """
    mesh = device_mesh or _current()
    if mesh is None:
        raise RuntimeError("parallelize_module: a device_mesh must be given outside of `with mesh`, got None")
    if mesh.ndim != 1:
        raise ValueError(f"parallelize_module: expected a mesh of one dimension, such as mesh['tp'], got {mesh}")
    if parallelize_plan is None:
        warnings.warn("parallelize_module: there is no plan, nothing is done")
        return module
    if isinstance(parallelize_plan, ParallelStyle):
        parallelize_plan.src_data_rank = src_data_rank
        return parallelize_plan._apply(module, mesh)
    if not isinstance(parallelize_plan, dict):
        raise TypeError(f"parallelize_module: expected a style or a dict of them, got {type(parallelize_plan).__name__}")
    for pattern, style in parallelize_plan.items():
        found = [m for name, m in list(module.named_modules()) if _matches(name, pattern)]
        if not found:
            warnings.warn(f"parallelize_module: no submodule has the name {pattern!r}, nothing is done for it")
        for m in found:
            parallelize_module(m, mesh, style, src_data_rank=src_data_rank)
    return module


def _matches(name: str, pattern: str) -> bool:
    parts, patterns = name.split("."), pattern.split(".")
    return len(parts) == len(patterns) and all(fnmatch(part, p) for part, p in zip(parts, patterns))
