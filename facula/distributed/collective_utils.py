"""Exchange objects between processes, and raise in all of them the error of a process that failed to make its object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from facula import distributed as dist

if TYPE_CHECKING:
    from facula.distributed._group import ProcessGroup

__all__ = ["SyncPayload", "all_gather", "all_gather_object_enforce_type", "broadcast"]


@dataclass
class SyncPayload:
    """Hold what a process sends to the others: an object, or the error that occurred when it was made.

    Args:
        stage_name: what all of them must call it.
        success: whether all is well.
        payload: the object.
        exception: what went wrong.

    >>> from torch.distributed.collective_utils import SyncPayload
    >>> SyncPayload("load", True, 3).exception is None
    True
    """

    stage_name: str | None
    success: bool
    payload: Any
    exception: Exception | None = None


def _made(data_or_fn, stage_name, success=True) -> SyncPayload:
    if not callable(data_or_fn):
        return SyncPayload(stage_name, success, data_or_fn)
    try:
        return SyncPayload(stage_name, success, data_or_fn())
    except Exception as error:
        return SyncPayload(stage_name, False, None, error)


def broadcast(data_or_fn: Any, *, success: bool = True, stage_name: str | None = None, rank: int = 0,
              pg: ProcessGroup | None = None) -> Any:  # fmt: skip
    """Return the object of one rank, in all of them.

    Args:
        data_or_fn: the object, or a function that gives it, which only that rank calls.
        success: False stops all ranks.
        stage_name: for errors.
        rank: the rank in the group.
        pg: the group; without one a process is alone.
    Raises:
        RuntimeError: in all ranks, from the exception of the one that has failed.

    >>> from torch.distributed import collective_utils
    >>> collective_utils.broadcast(lambda: [1, 2], stage_name="load")
    [1, 2]
    """
    if not success and data_or_fn is not None:
        raise AssertionError("broadcast: with success=False there are no data, got some")
    made = None
    if pg is None or rank == pg.rank():
        made = _made(data_or_fn, stage_name, success)
    if pg is not None:
        told = [made]
        dist.broadcast_object_list(told, dist.get_global_rank(pg, rank), group=pg)
        made = told[0]
    if not made.success:
        where = "" if stage_name is None else f" in {stage_name}"
        raise RuntimeError(f"broadcast: rank {rank} failed{where}, got {made.exception!r}") from made.exception
    return made.payload


def all_gather(data_or_fn: Any, stage_name: str | None = None, pg: ProcessGroup | None = None) -> list[Any]:
    """Return the objects of all ranks, as a list.

    Args:
        data_or_fn: an object, or a function that gives it.
        stage_name: what all ranks must call it, so that those that are elsewhere are noticed.
        pg: the group; without one a process is alone.
    Raises:
        RuntimeError: in all ranks, where a rank has failed or calls it otherwise.

    >>> from torch.distributed import collective_utils
    >>> collective_utils.all_gather(lambda: "mine", stage_name="load")
    ['mine']
    """
    mine = _made(data_or_fn, stage_name)
    everybody: list[Any] = [mine]
    if pg is not None:
        everybody = [None] * pg.size()
        all_gather_object_enforce_type(pg, everybody, mine)
    names = {made.stage_name for made in everybody}
    if len(names) > 1:
        raise RuntimeError(f"all_gather: ranks are not at one stage, got {sorted(map(str, names))}")
    failed = {rank: made.exception for rank, made in enumerate(everybody) if made.exception is not None}
    if failed:
        raise RuntimeError(f"all_gather: ranks failed, got {failed}") from next(iter(failed.values()))
    return [made.payload for made in everybody]


def all_gather_object_enforce_type(pg: ProcessGroup | None, object_list: Any, obj: Any, type_checker: Any = lambda x,
                                   y: type(x) is type(y)) -> None:  # fmt: skip
    """Do `all_gather_object` for objects of one type.

    Args:
        pg: the group.
        object_list: a list with one element for each process, which are replaced.
        obj: what this process gives.
        type_checker: `type_checker(one, other)` says whether two are of one type. Default: whether their types are the same.

    Errors: TypeError where they are not.

    >>> import torch.distributed as dist
    >>> from torch.distributed.collective_utils import all_gather_object_enforce_type
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> found = [None]
    >>> all_gather_object_enforce_type(dist.group.WORLD, found, 5)
    >>> found
    [5]
    >>> dist.destroy_process_group()
    """
    dist.all_gather_object(object_list, obj, group=pg)
    for other in object_list[1:]:
        if not type_checker(object_list[0], other):
            kinds = [type(o).__name__ for o in object_list]
            raise TypeError(f"all_gather_object_enforce_type: objects must be of one type, got {kinds}")
