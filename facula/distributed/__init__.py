"""Process groups, which this build does not have.

`is_available()` and `is_initialized()` say so; a program that asks runs as a single process. What needs a
group raises NotImplementedError with its name; the classes exist for annotations and isinstance.
"""

import enum

__all__ = ["is_available", "is_initialized", "get_rank", "get_world_size"]


def is_available():
    """False."""
    return False


def is_initialized():
    """False."""
    return False


is_nccl_available = is_gloo_available = is_mpi_available = is_ucc_available = is_xccl_available = is_available
is_torchelastic_launched = is_initialized


def is_backend_available(backend):
    """False."""
    return False


class ReduceOp(enum.Enum):
    """How values of several processes become one."""

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


reduce_op = ReduceOp


class Backend(str):
    """The name of a backend."""

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl"


class ProcessGroup:
    """For annotations: no group can be made."""


class Work:
    """For annotations: no collective runs."""


class group:
    """The group of all processes."""

    WORLD = None


class GroupMember:
    """The group of all processes, and the mark for "not a member"."""

    WORLD = None
    NON_GROUP_MEMBER = -100


class DistError(RuntimeError):
    """Something failed between processes."""


DistBackendError = DistNetworkError = DistStoreError = DistError
_FUNCTIONS = (
    "init_process_group destroy_process_group get_rank get_world_size get_backend new_group barrier "
    "monitored_barrier  all_reduce all_gather all_gather_object all_gather_into_tensor all_to_all "
    "all_to_all_single broadcast  broadcast_object_list gather gather_object scatter "
    "scatter_object_list reduce reduce_scatter reduce_scatter_tensor  send recv isend irecv "
    "batch_isend_irecv send_object_list recv_object_list get_process_group_ranks get_global_rank "
    "get_group_rank get_node_local_rank new_subgroups new_subgroups_by_enumeration split_group "
    "all_gather_coalesced  all_reduce_coalesced supports_complex init_device_mesh"
).split()


def _needs_group(name):
    def call(*args, **kwargs):
        raise NotImplementedError(f"distributed.{name}: this build of Facula has no process groups")

    call.__name__ = call.__qualname__ = name
    call.__doc__ = "Raises NotImplementedError: there are no process groups."
    return call


globals().update({name: _needs_group(name) for name in _FUNCTIONS})
