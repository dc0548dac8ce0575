"""Decide what is saved and loaded: everything, or only entries that the checkpoint has."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula._shared.on_demand import _on_demand

if TYPE_CHECKING:
    from typing import Any

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]


class DefaultSavePlanner:
    """Save as `save` does without a planner.

    Args:
        flatten_state_dict, flatten_sharded_tensors: False is not supported (NotImplementedError): names are those of all
            entries.
        dedup_replicated_tensors, dedup_save_to_lowest_rank, enable_plan_caching: accepted: what several processes have is
            written by one of them.

    >>> import tempfile
    >>> import torch.distributed.checkpoint as dcp
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     metadata = dcp.save({"x": torch.ones(2)}, checkpoint_id=folder, planner=dcp.DefaultSavePlanner())
    >>> list(metadata.state_dict_metadata)
    ['x']
    """

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True, dedup_replicated_tensors: Any = None,
        dedup_save_to_lowest_rank: bool = False, enable_plan_caching: bool = False,
    ) -> None:  # fmt: skip
        _check_flat(self, flatten_state_dict, flatten_sharded_tensors)


class DefaultLoadPlanner:
    """Load as `load` does without a planner.

    Args:
        flatten_state_dict, flatten_sharded_tensors: False is not supported (NotImplementedError).
        allow_partial_load: whether what the checkpoint has no entry for stays as it is, instead of an error.

    >>> import tempfile
    >>> import torch.distributed.checkpoint as dcp
    >>> state = {"x": torch.zeros(2), "new": torch.zeros(1)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     metadata = dcp.save({"x": torch.ones(2)}, checkpoint_id=folder)
    ...     dcp.load(state, checkpoint_id=folder, planner=dcp.DefaultLoadPlanner(allow_partial_load=True))
    >>> state
    {'x': tensor([1., 1.]), 'new': tensor([0.])}
    """

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True, allow_partial_load: bool = False
    ) -> None:
        _check_flat(self, flatten_state_dict, flatten_sharded_tensors)
        self.allow_partial_load = allow_partial_load


def _check_flat(planner, *flat) -> None:
    if not all(flat):
        raise NotImplementedError(f"{type(planner).__name__}: state dicts are always flattened, got {flat}")


def checked(caller: str, planner: DefaultLoadPlanner | DefaultSavePlanner | None,
            kind: type) -> DefaultLoadPlanner | DefaultSavePlanner:  # fmt: skip
    """Return the planner, or a plain one; NotImplementedError for one of the program's own."""
    if planner is None:
        return kind()
    if type(planner) is not kind:
        raise NotImplementedError(f"{caller}: planners of your own are not supported, got {type(planner).__name__}")
    return planner

__getattr__ = _on_demand(__name__)
