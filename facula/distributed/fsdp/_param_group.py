"""The parameters that are gathered and scattered together.

Policy
  - A parameter is a DTensor, cut along dimension 0. Before its module's forward all parameters of the group are gathered by
    one message (`_Gather`), whose way back is one more: it sums gradients and leaves each process its part. Gradients
    accumulate on the parts, as those of any leaf do. Behind the gradients each process sends a number for every parameter,
    1 where it has used it: what nobody has used gets no gradient.
  - What autograd saves of a gathered parameter is not the parameter but where to find it: after forward nothing holds it,
    and the first node of the backward pass that asks for it gathers the group again, until its gradients are scattered.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass

import facula
from facula import distributed as dist
from facula.autograd import Function

from ..tensor import Replicate, Shard
from ..tensor._dtensor import _leaf
from ..tensor._spec import Spec


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """In which dtypes a module computes.

    Args:
        param_dtype: of gathered parameters. Default: theirs.
        reduce_dtype: in which gradients are summed. Default: param_dtype.
        output_dtype: of what forward returns. Default: as it comes.
        cast_forward_inputs: whether inputs of forward become param_dtype.
    """

    param_dtype: facula.dtype | None = None
    reduce_dtype: facula.dtype | None = None
    output_dtype: facula.dtype | None = None
    cast_forward_inputs: bool = True


class _Slot:
    """A parameter: the modules and names that have it, and its place in the flat buffers."""

    def __init__(self, places, parameter, mesh, shard_dim: int) -> None:
        self.places = places  # [(module, name)]: shared parameters have several
        self.shape, self.dtype = tuple(parameter.shape), parameter.dtype
        self.dim = shard_dim
        ways = mesh.size(mesh.ndim - 1)
        self.chunk = -(-self.shape[shard_dim] // ways) if self.shape else 1
        self.rest = parameter.numel() // max(self.shape[shard_dim], 1)
        self.count = self.chunk * self.rest  # elements of a padded part

    @property
    def current(self):
        """The parameter that the module has now."""
        module, name = self.places[0]
        return module._parameters[name]

    def put(self, value) -> None:
        """Gives the modules another one."""
        for module, name in self.places:
            module._parameters[name] = value

    def padded(self, part):
        """A part with `chunk` rows in front, flat."""
        moved = part.movedim(self.dim, 0)
        if moved.shape[0] < self.chunk:
            moved = facula.cat([moved, moved.new_zeros((self.chunk - moved.shape[0], *moved.shape[1:]))])
        return moved.reshape(-1)

    def whole(self, parts, ways):
        """The parameter, of the flat parts of all processes, in rows."""
        rows = parts.reshape(ways * self.chunk, *(n for d, n in enumerate(self.shape) if d != self.dim))
        return rows[: self.shape[self.dim]].movedim(0, self.dim).contiguous()

    def part(self, flat, rank):
        """A process's part, of its flat padded one."""
        length = max(0, min(self.chunk, self.shape[self.dim] - rank * self.chunk))
        moved = flat.view(self.chunk, *(n for d, n in enumerate(self.shape) if d != self.dim))[:length]
        return moved.movedim(0, self.dim).contiguous()


class _Gather(Function):
    @staticmethod
    def forward(ctx, group, *parts):
        ctx.group = group
        ctx.set_materialize_grads(False)
        return tuple(group.gather(parts))

    @staticmethod
    def backward(ctx, *grads):
        return None, *ctx.group.scatter(grads)


class ParamGroup:
    """The parameters of one `fully_shard`.

    Args:
        places: {parameter: [(module, name)]}.
        mesh: the processes: one dimension, or (replicas, shards).
        policy: dtypes.
        reshard: whether nothing holds gathered parameters between forward and backward.
        shard_dim_of: the dimension along which a parameter is cut.
    """

    def __init__(self, places, mesh, policy: MixedPrecisionPolicy, reshard: bool, shard_dim_of) -> None:
        self.mesh, self.policy, self.reshard = mesh, policy, reshard
        self.group = mesh.get_group(mesh.ndim - 1)
        self.replicas = mesh.get_group(0) if mesh.ndim == 2 else None
        self.ways, self.rank = dist.get_world_size(self.group), dist.get_rank(self.group)
        self.slots = [_Slot(where, p, mesh, shard_dim_of(p)) for p, where in places.items()]
        self.sync = self.sync_replicas = True
        self.divisor: float | None = None
        self._kept: list = []  # whole gradients that wait for a pass that sums them
        self._sharded: list | None = None  # the parameters, while the modules have gathered ones
        self._again: list | None = None  # gathered anew in a backward pass
        for slot, p in zip(self.slots, list(places)):
            slot.put(self._cut(slot, p))

    def _cut(self, slot: _Slot, p):
        placements = [Replicate()] * (self.mesh.ndim - 1) + [Shard(slot.dim)]
        spec = Spec(self.mesh, tuple(placements), facula.Size(slot.shape))
        with facula.no_grad():
            shape, offset = spec.local_shape_and_offset()
            part = p.detach().narrow(slot.dim, offset[slot.dim], shape[slot.dim]).clone(memory_format=facula.contiguous_format)
        made = _leaf(part, spec)
        return facula.nn.Parameter(made, requires_grad=p.requires_grad)

    # ---- messages

    def gather(self, parts):
        """Whole parameters, of the parts of all processes; one message for each dtype."""
        wholes: list = [None] * len(parts)
        for dtype in {p.dtype for p in parts}:
            chosen = [i for i, p in enumerate(parts) if p.dtype == dtype]
            flat = facula.cat([self.slots[i].padded(parts[i]) for i in chosen])
            if self.policy.param_dtype is not None and dtype.is_floating_point:
                flat = flat.to(self.policy.param_dtype)
            everything = flat.new_empty(self.ways * flat.numel())
            dist.all_gather_into_tensor(everything, flat, group=self.group)
            rows, offset = everything.view(self.ways, -1), 0
            for i in chosen:
                slot = self.slots[i]
                wholes[i] = slot.whole(rows[:, offset : offset + slot.count], self.ways)
                offset += slot.count
        return wholes

    def scatter(self, grads):
        """This process's parts of the averages of gradients; None for what no process must have."""
        self._again = None
        grads = [self._with_kept(i, g) for i, g in enumerate(grads)]
        if not self.sync:
            self._kept = grads
            return [None] * len(grads)
        self._kept = []
        parts: list = [None] * len(grads)
        wanted = [i for i, slot in enumerate(self.slots) if self._parameter(i).requires_grad]
        for dtype in {self.slots[i].dtype for i in wanted}:
            self._scatter_of([i for i in wanted if self.slots[i].dtype == dtype], grads, parts)
        return parts

    def _with_kept(self, i, grad):
        had = self._kept[i] if self._kept else None
        return grad if had is None else had if grad is None else had + grad

    def _scatter_of(self, chosen, grads, parts) -> None:
        dtype = self.slots[chosen[0]].dtype
        kind = self.policy.reduce_dtype or self.policy.param_dtype or dtype
        device = self._parameter(chosen[0]).device
        numbers = sum(self.slots[i].count for i in chosen)
        flat = facula.zeros(self.ways, numbers + len(chosen), dtype=kind, device=device)
        offset = 0
        for position, i in enumerate(chosen):
            slot = self.slots[i]
            if grads[i] is not None:
                flat[:, numbers + position] = 1
                rows = grads[i].movedim(slot.dim, 0).reshape(slot.shape[slot.dim], slot.rest)
                target = flat[:, offset : offset + slot.count]
                for way in range(self.ways):
                    mine = rows[way * slot.chunk : (way + 1) * slot.chunk]
                    target[way, : mine.numel()].copy_(mine.reshape(-1))
            offset += slot.count
        flat.div_(self.divisor or self.ways * (dist.get_world_size(self.replicas) if self.replicas is not None else 1))
        mine = flat.new_empty(flat.shape[1])
        dist.reduce_scatter_tensor(mine, flat.view(-1), group=self.group)
        if self.replicas is not None and self.sync_replicas:
            dist.all_reduce(mine, group=self.replicas)
        used, offset = (mine[numbers:] > 0).tolist(), 0
        for position, i in enumerate(chosen):
            if used[position]:
                parts[i] = self.slots[i].part(mine[offset : offset + self.slots[i].count], self.rank).to(dtype)
            offset += self.slots[i].count

    # ---- modules

    def _parameter(self, i):
        return self._sharded[i] if self._sharded is not None else self.slots[i].current

    @property
    def is_gathered(self) -> bool:
        """Whether the modules have whole parameters."""
        return self._sharded is not None

    def unshard(self) -> None:
        """Gives the modules whole parameters."""
        if self._sharded is not None:
            return
        sharded = [slot.current for slot in self.slots]
        wholes = _Gather.apply(self, *(p._local_tensor for p in sharded))
        self._sharded = sharded
        for slot, whole in zip(self.slots, wholes):
            slot.put(whole)
        if self.reshard:
            for i, whole in enumerate(wholes):
                _gathered[whole.untyped_storage()._cdata] = (weakref.ref(self), i, whole)

    def write_back(self) -> None:
        """What was changed in whole parameters goes to the parts."""
        for slot, p in zip(self.slots, self._sharded or ()):
            shape, offset = p._spec.local_shape_and_offset()
            part = slot.current.detach().narrow(slot.dim, offset[slot.dim], shape[slot.dim])
            p._local_tensor.detach().copy_(part)

    def shard(self) -> None:
        """Gives the modules their parts again."""
        if self._sharded is None:
            return
        for slot, p in zip(self.slots, self._sharded):
            _gathered.pop(slot.current.untyped_storage()._cdata, None)
            slot.put(p)
        self._sharded = None

    def again(self, i):
        """A whole parameter for the backward pass, gathered with its group if it is not there."""
        if self._sharded is not None:
            return self.slots[i].current.detach()
        if self._again is None:
            with facula.no_grad():
                self._again = self.gather([slot.current._local_tensor.detach() for slot in self.slots])
        return self._again[i]


#: What modules have gathered now: storage -> (group, number, tensor).
_gathered: dict = {}


def pack(t):
    """For autograd: where a gathered parameter, or a view of one, can be found; else the tensor."""
    found = _gathered.get(t.untyped_storage()._cdata)
    if found is None:
        return t
    group, number, _ = found
    return group(), number, t.shape, t.stride(), t.storage_offset(), t.is_conj()


def unpack(packed):
    """The tensor that `pack` was given."""
    if isinstance(packed, facula.Tensor):
        return packed
    group, number, shape, strides, offset, conjugate = packed
    t = group.again(number).as_strided(shape, strides, offset)
    return t.conj() if conjugate else t
