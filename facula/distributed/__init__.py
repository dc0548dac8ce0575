"""Communicate among several processes: groups, collectives, messages, and the stores by which processes find each
other.

Tensors are sent by MPI, whose library is opened when `init_process_group` is called for more than one process (the
package `mpich`, or the library that FACULA_MPI names). A program that is started as one process runs as well: its group
has size 1, and collectives return the process's own values.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula._shared.on_demand import _on_demand

from ._backends import (
    Backend,
    BackendConfig,
    ReduceOp,
    _make_nccl_premul_sum,
    get_default_backend_for_device,
    is_available,
    is_backend_available,
    is_gloo_available,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
    reduce_op,
    supports_complex,
)
from ._collectives import (
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
)
from ._debug import DebugLevel, breakpoint, get_debug_level, set_debug_level, set_debug_level_from_env
from ._errors import DistBackendError, DistError, DistNetworkError, DistStoreError, QueueEmptyError
from ._group import (
    GroupMember,
    ProcessGroup,
    _rank_not_in_group,
    destroy_process_group,
    get_backend,
    get_backend_config,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_initialized,
)
from ._group_methods import (
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from ._messages import P2POp, _coalescing_manager, batch_isend_irecv, irecv, isend, recv, send
from ._objects import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from ._operations import Work
from ._store import FileStore, HashStore, PrefixStore, Store, TCPStore
from ._subgroups import new_group, new_subgroups, new_subgroups_by_enumeration, split_group
from .rendezvous import register_rendezvous_handler, rendezvous

if TYPE_CHECKING:
    from ._reducer import GradBucket as GradBucket
    from .device_mesh import DeviceMesh as DeviceMesh
    from .device_mesh import init_device_mesh as init_device_mesh

__all__ = [
    "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_object", "all_gather_single",
    "all_reduce", "all_reduce_coalesced", "all_to_all", "all_to_all_single", "AllreduceCoalescedOptions",
    "AllreduceOptions", "AllToAllOptions", "Backend", "BackendConfig", "barrier", "BarrierOptions", "batch_isend_irecv",
    "breakpoint", "broadcast", "broadcast_object_list", "BroadcastOptions", "DebugLevel", "destroy_process_group",
    "DistBackendError", "DistError", "DistNetworkError", "DistStoreError", "FileStore", "gather", "gather_object",
    "GatherOptions", "get_backend", "get_backend_config", "get_debug_level", "get_default_backend_for_device",
    "get_global_rank", "get_group_rank", "get_node_local_rank", "get_pg_count", "get_process_group_ranks", "get_rank",
    "get_world_size", "group", "GroupMember", "HashStore", "init_process_group", "irecv", "is_available",
    "is_backend_available", "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available",
    "is_torchelastic_launched", "is_ucc_available", "is_xccl_available", "isend", "monitored_barrier", "new_group",
    "new_subgroups", "new_subgroups_by_enumeration", "P2POp", "PrefixStore", "ProcessGroup", "QueueEmptyError", "recv",
    "recv_object_list", "reduce", "reduce_op", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor",
    "ReduceOp", "ReduceOptions", "ReduceScatterOptions", "register_rendezvous_handler", "rendezvous", "scatter",
    "scatter_object_list", "ScatterOptions", "send", "send_object_list", "set_debug_level", "set_debug_level_from_env",
    "split_group", "Store", "supports_complex", "TCPStore", "Work",
]  # fmt: skip

#: modules that programs reach as attributes, imported then
_MODULES = frozenset("algorithms autograd constants device_mesh distributed_c10d rpc".split())

__getattr__ = _on_demand(__name__, _MODULES)
