"""Collectives of a group of one process: what goes in comes out."""

from __future__ import annotations

import pickle

from facula import Tensor, no_grad

from ._group import ReduceOp, member, supports_complex


class Work:
    """A collective that is done."""

    def __init__(self, result=()):
        self._result = list(result)

    def wait(self, timeout=None):
        """True, at once."""
        return True

    def is_completed(self):
        """True."""
        return True

    is_success = is_completed

    def exception(self):
        """None."""

    def result(self):
        """The tensors it wrote."""
        return self._result

    def synchronize(self):
        """Waits for nothing."""

    def source_rank(self):
        """0."""
        return 0


def _tensors(name, *values):
    for value in values:
        if not isinstance(value, Tensor):
            raise TypeError(f"{name}: expected a Tensor, got {type(value).__name__}")


def _one(name, what, values):
    """The only element of a list with one entry per process."""
    if not isinstance(values, (list, tuple)) or len(values) != 1:
        got = f"{len(values)}" if isinstance(values, (list, tuple)) else type(values).__name__
        raise ValueError(f"{name}: {what} must be a list of one element, the size of the group, got {got}")
    return values[0]


def _peer(name, rank, group_rank=None, needed=True):
    """Checks the rank that sends or receives."""
    if rank is None and group_rank is None and needed:
        raise ValueError(f"{name}: a rank or a rank in the group must be given, got neither")
    for given in (rank, group_rank):
        if given not in (None, 0):
            raise ValueError(f"{name}: the group has rank 0 only, got {given}")


def _reduction(name, op, *tensors):
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{name}: op must be a ReduceOp, got {type(op).__name__}")
    if any(t.is_complex() for t in tensors) and not supports_complex(op):
        raise ValueError(f"{name}: {op.name} does not go with complex tensors, got {tensors[0].dtype}")


def _copy(name, target, source):
    _tensors(name, target, source)
    if target.dtype != source.dtype:
        raise ValueError(f"{name}: input and output of one dtype, got {source.dtype} and {target.dtype}")
    if target.numel() != source.numel():
        raise ValueError(f"{name}: input and output of one size, got {tuple(source.shape)} and {tuple(target.shape)}")
    with no_grad():
        target.copy_(source.reshape(target.shape))


def _done(async_op, *written):
    return Work(written) if async_op else None


def all_reduce(tensor, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces `tensor` over the processes, in place."""
    _tensors("all_reduce", tensor)
    _reduction("all_reduce", op, tensor)
    return _done(async_op, tensor) if member("all_reduce", group) else None


def all_reduce_coalesced(tensors, op=ReduceOp.SUM, group=None, async_op=False):
    """all_reduce of several tensors."""
    _tensors("all_reduce_coalesced", *tensors)
    _reduction("all_reduce_coalesced", op, *tensors)
    return _done(async_op, *tensors) if member("all_reduce_coalesced", group) else None


def reduce(tensor, dst=None, op=ReduceOp.SUM, group=None, async_op=False, group_dst=None):
    """Reduces to the process `dst`."""
    _tensors("reduce", tensor)
    _reduction("reduce", op, tensor)
    if not member("reduce", group):
        return None
    _peer("reduce", dst, group_dst)
    return _done(async_op, tensor)


def broadcast(tensor, src=None, group=None, async_op=False, group_src=None):
    """Gives every process the tensor of `src`."""
    _tensors("broadcast", tensor)
    if not member("broadcast", group):
        return None
    _peer("broadcast", src, group_src)
    return _done(async_op, tensor)


def all_gather(tensor_list, tensor, group=None, async_op=False):
    """Fills a list with the tensors of all processes."""
    if not member("all_gather", group):
        return None
    _copy("all_gather", _one("all_gather", "tensor_list", tensor_list), tensor)
    return _done(async_op, *tensor_list)


def all_gather_coalesced(output_tensor_lists, input_tensor_list, group=None, async_op=False):
    """all_gather of several tensors."""
    if not member("all_gather_coalesced", group):
        return None
    for target, source in zip(_one("all_gather_coalesced", "output_tensor_lists", output_tensor_lists), input_tensor_list):
        _copy("all_gather_coalesced", target, source)
    return _done(async_op, *output_tensor_lists[0])


def all_gather_into_tensor(output_tensor, input_tensor, group=None, async_op=False):
    """Concatenates or stacks the tensors of all processes."""
    if not member("all_gather_into_tensor", group):
        return None
    _copy("all_gather_into_tensor", output_tensor, input_tensor)
    return _done(async_op, output_tensor)


def gather(tensor, gather_list=None, dst=None, group=None, async_op=False, group_dst=None):
    """Fills a list on the process `dst` (default 0) with the tensors of all."""
    if not member("gather", group):
        return None
    _peer("gather", dst, group_dst, needed=False)
    _copy("gather", _one("gather", "gather_list", gather_list), tensor)
    return _done(async_op, *gather_list)


def scatter(tensor, scatter_list=None, src=None, group=None, async_op=False, group_src=None):
    """Gives each process its element of the list on `src` (default 0)."""
    if not member("scatter", group):
        return None
    _peer("scatter", src, group_src, needed=False)
    _copy("scatter", tensor, _one("scatter", "scatter_list", scatter_list))
    return _done(async_op, tensor)


def reduce_scatter(output, input_list, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces lists, and gives each process its element."""
    if not member("reduce_scatter", group):
        return None
    _reduction("reduce_scatter", op, output)
    _copy("reduce_scatter", output, _one("reduce_scatter", "input_list", input_list))
    return _done(async_op, output)


def reduce_scatter_tensor(output, input, op=ReduceOp.SUM, group=None, async_op=False):
    """Reduces, and gives each process its part."""
    if not member("reduce_scatter_tensor", group):
        return None
    _reduction("reduce_scatter_tensor", op, output)
    _copy("reduce_scatter_tensor", output, input)
    return _done(async_op, output)


def all_to_all(output_tensor_list, input_tensor_list, group=None, async_op=False):
    """Sends each process its element of the list."""
    if not member("all_to_all", group):
        return None
    source = _one("all_to_all", "input_tensor_list", input_tensor_list)
    _copy("all_to_all", _one("all_to_all", "output_tensor_list", output_tensor_list), source)
    return _done(async_op, *output_tensor_list)


def all_to_all_single(output, input, output_split_sizes=None, input_split_sizes=None, group=None, async_op=False):
    """Sends each process its part of a tensor."""
    if not member("all_to_all_single", group):
        return None
    _copy("all_to_all_single", output, input)
    return _done(async_op, output)


def barrier(group=None, async_op=False, device_ids=None, timeout=None):
    """Waits for all processes."""
    return _done(async_op) if member("barrier", group) else None


def monitored_barrier(group=None, timeout=None, wait_all_ranks=False):
    """Waits for all processes."""
    member("monitored_barrier", group)


# objects


def _through_pickle(value):
    """As the object of another process would arrive: a copy."""
    return pickle.loads(pickle.dumps(value))


def all_gather_object(object_list, obj, group=None):
    """Fills a list with copies of the objects of all processes."""
    if member("all_gather_object", group):
        _one("all_gather_object", "object_list", object_list)
        object_list[0] = _through_pickle(obj)


def gather_object(obj, object_gather_list=None, dst=None, group=None, group_dst=None):
    """Fills a list on the process `dst` (default 0) with copies of the objects of all."""
    if member("gather_object", group):
        _peer("gather_object", dst, group_dst, needed=False)
        _one("gather_object", "object_gather_list", object_gather_list)
        object_gather_list[0] = _through_pickle(obj)


def broadcast_object_list(object_list, src=None, group=None, device=None, group_src=None):
    """Gives every process the objects of `src` (default 0)."""
    if member("broadcast_object_list", group):
        _peer("broadcast_object_list", src, group_src, needed=False)


def scatter_object_list(scatter_object_output_list, scatter_object_input_list=None, src=None, group=None, group_src=None):
    """Gives each process its element of the list on `src` (default 0)."""
    if not member("scatter_object_list", group):
        return
    _peer("scatter_object_list", src, group_src, needed=False)
    if not scatter_object_output_list:
        raise ValueError("scatter_object_list: scatter_object_output_list must have an element, got none")
    value = _one("scatter_object_list", "scatter_object_input_list", scatter_object_input_list)
    scatter_object_output_list[0] = _through_pickle(value)


# from one process to another: there is no other


def _no_peer(name, what):
    def call(tensor, *args, **kwargs):
        member(name, kwargs.get("group"))
        raise ValueError(f"{name}: a process does not exchange with itself, got a group of one process")

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"{what} ValueError: a group of one process has no other."
    return call


send = _no_peer("send", "Sends a tensor to another process.")
recv = _no_peer("recv", "Receives a tensor from another process.")
isend = _no_peer("isend", "Sends a tensor to another process.")
irecv = _no_peer("irecv", "Receives a tensor from another process.")
send_object_list = _no_peer("send_object_list", "Sends objects to another process.")
recv_object_list = _no_peer("recv_object_list", "Receives objects from another process.")


class P2POp:
    """One isend or irecv of a batch."""

    def __init__(self, op, tensor, peer=None, group=None, tag=0, group_peer=None):
        if op not in (isend, irecv):
            raise ValueError(f"P2POp: op must be distributed.isend or distributed.irecv, got {op!r}")
        _tensors("P2POp", tensor)
        self.op, self.tensor, self.peer, self.group, self.tag = op, tensor, peer, group, tag


def batch_isend_irecv(p2p_op_list):
    """Runs exchanges together. ValueError for an empty list, and in a group of one process."""
    member("batch_isend_irecv")
    if not p2p_op_list or not all(isinstance(op, P2POp) for op in p2p_op_list):
        raise ValueError(f"batch_isend_irecv: expected a list of P2POp, got {p2p_op_list!r}")
    return [op.op(op.tensor, op.peer, group=op.group) for op in p2p_op_list]
