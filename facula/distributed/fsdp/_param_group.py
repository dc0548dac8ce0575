"""Gather and reduce-scatter the parameters that belong together.

Policy
  - A parameter is a DTensor, cut along one dimension. Before its module's forward all parameters of the group are gathered by
    one message (`_Gather`), whose way back is one more: it sums gradients and leaves each process its part. Gradients
    accumulate on the parts, as those of any leaf do. Behind the gradients each process sends a number for every parameter,
    1 where it has used it: what nobody has used gets no gradient.
  - What autograd saves of a gathered parameter is not the parameter but where to find it: after forward nothing holds it,
    and the first node of the backward pass that asks for it gathers the group again, until its gradients are scattered.
  - When messages begin and are waited for is up to `_passes`.
  - A parameter that is a DTensor already, over other processes, is cut once more: its part is what is gathered.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING

import facula
from facula import _C
from facula import distributed as dist
from facula.autograd import Function

from ..tensor import DTensor, Partial, Replicate, Shard
from ..tensor._dtensor import _leaf
from ..tensor._spec import Spec
from ..tensor.placement_types import _StridedShard
from ._passes import Arrival, Passes

if TYPE_CHECKING:
    from typing import Any


@dataclass(frozen=True)
class MixedPrecisionPolicy:
    """Set the dtypes in which a module computes.

    Args:
        param_dtype: of gathered parameters. Default: theirs.
        reduce_dtype: in which gradients are summed. Default: param_dtype.
        output_dtype: of what forward returns. Default: as it comes.
        cast_forward_inputs: whether inputs of forward become param_dtype.

    >>> import torch.distributed as dist
    >>> from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> layer = fully_shard(nn.Linear(4, 2), mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
    >>> layer(torch.ones(1, 4)).dtype, layer.weight.dtype
    (torch.bfloat16, torch.float32)
    >>> dist.destroy_process_group()
    """

    param_dtype: facula.dtype | None = None
    reduce_dtype: facula.dtype | None = None
    output_dtype: facula.dtype | None = None
    cast_forward_inputs: bool = True


def _local(t):
    return t._local_tensor if isinstance(t, DTensor) else t


class _Slot:
    """Describe a parameter: the modules and names that have it, and its place in the flat buffers."""

    def __init__(self, places, parameter, mesh, shard_dim: int, grid=None) -> None:
        self.places = places  # [(module, name)]: shared parameters have several
        self.inner = parameter._spec if isinstance(parameter, DTensor) else None
        whole = _local(parameter)
        self.shape, self.dtype = tuple(whole.shape), parameter.dtype
        self.dim = shard_dim
        ways, rank = mesh.size(mesh.ndim - 1), mesh.get_local_rank(mesh.ndim - 1)
        # Rounded up as torch.chunk does; messages need parts of equal size, so shorter parts are padded.
        self.chunk = -(-self.shape[shard_dim] // ways) if self.shape else 1
        self.rest = whole.numel() // max(self.shape[shard_dim], 1)
        self.count = self.chunk * self.rest  # elements of a padded part
        self.length, self.offset = Shard.local_shard_size_and_offset(self.shape[shard_dim], ways, rank)
        self.others = [n for d, n in enumerate(self.shape) if d != shard_dim]
        self.spec = self._layout(parameter, mesh) if grid is None else self._layout_on(grid)

    def _layout(self, parameter, mesh) -> Spec:
        outer = [Replicate()] * (mesh.ndim - 1) + [Shard(self.dim)]
        if self.inner is None:
            return Spec(mesh, tuple(outer), facula.Size(self.shape))
        if any(isinstance(p, Partial) for p in self.inner.placements):
            raise ValueError(f"fully_shard: a parameter that is still to be summed cannot be cut, got {self.inner.placements}")
        outer[-1] = self._cut_further()
        names = (*mesh.mesh_dim_names, *self.inner.mesh.mesh_dim_names)
        placements = dict(zip(names, [*outer, *self.inner.placements]))
        root = mesh._get_root_mesh()
        ordered = tuple(sorted(names, key=root.mesh_dim_names.index))
        return Spec(root[ordered], tuple(placements[n] for n in ordered), self.inner.shape)

    def _cut_further(self) -> Shard:
        """Return the placement that cuts further what others cut before."""
        factor = 1
        for i, p in enumerate(self.inner.placements):
            factor *= self.inner.mesh.size(i) if p == Shard(self.dim) else 1
        return Shard(self.dim) if factor == 1 else _StridedShard(self.dim, split_factor=factor)

    def _layout_on(self, grid) -> Spec:
        cut = self._cut_further()
        placements = [cut if i in grid.numbers else p for i, p in enumerate(self.inner.placements)]
        return Spec(grid.mesh, tuple(placements), self.inner.shape)

    @property
    def current(self):
        """The parameter that the module has now."""
        module, name = self.places[0]
        return module._parameters[name]

    def put(self, value) -> None:
        """Give the modules another one."""
        for module, name in self.places:
            module._parameters[name] = value

    def shown(self, whole):
        """Return a gathered parameter as modules know it."""
        return whole if self.inner is None else DTensor._wrap(whole, self.inner)

    def narrowed(self, whole):
        """Return this process's part of a whole."""
        return whole.narrow(self.dim, self.offset, self.length)

    def padded(self, part):
        """Return a part with `chunk` rows in front, flat."""
        moved = part.movedim(self.dim, 0)
        if moved.shape[0] < self.chunk:
            moved = facula.cat([moved, moved.new_zeros((self.chunk - moved.shape[0], *moved.shape[1:]))])
        return moved.reshape(-1)

    def whole(self, parts, ways):
        """Return the parameter, of the flat parts of all processes, in rows."""
        rows = parts.reshape(ways * self.chunk, *self.others)
        return rows[: self.shape[self.dim]].movedim(0, self.dim).contiguous()

    def part(self, flat):
        """Return this process's part, of the flat padded one."""
        moved = flat.view(self.chunk, *self.others)[: self.length]
        return moved.movedim(0, self.dim).contiguous()

    def lay_out(self, grad, rows) -> None:
        """Write a gradient into rows, one for each process."""
        ways, first = rows.shape[0], grad.movedim(self.dim, 0)
        if self.shape[self.dim] == ways * self.chunk:
            rows.copy_(first.reshape(ways, self.count))
            return
        flat = first.reshape(self.shape[self.dim], self.rest)
        for way in range(ways):
            mine = flat[way * self.chunk : (way + 1) * self.chunk].reshape(-1)
            rows[way, : mine.numel()].copy_(mine)
            rows[way, mine.numel() :].zero_()


class _Gather(Function):
    @staticmethod
    def forward(ctx, group, reductions, *parts):
        ctx.group, ctx.reductions = group, reductions
        ctx.set_materialize_grads(False)
        ctx.shapes = [p.shape for p in parts]
        wholes = tuple(group.gather())
        frozen = [w for i, w in enumerate(wholes) if not group.parameter(i).requires_grad]
        # Otherwise autograd would compute gradients that nothing uses, and messages would sum them.
        if frozen:
            ctx.mark_non_differentiable(*frozen)
        return wholes

    @staticmethod
    def backward(ctx, *grads):
        made = ctx.group.scatter(grads)
        ctx.reductions.extend(made)
        if not made:
            return None, None, *(None for _ in grads)
        wanted = ctx.needs_input_grad[2:]
        # Autograd needs a tensor of the right shape now, and the sums are still under way. An expanded zero takes no
        # memory; Arrival replaces it.
        placeholder = made[0].placeholder()
        return None, None, *(placeholder.expand(s) if w else None for s, w in zip(ctx.shapes, wanted))


class _Reduction:
    """Hold gradients of one dtype while they are reduced to the parts of the processes."""

    def __init__(self, group: ParamGroup, chosen, grads) -> None:
        self._group, self._chosen = group, chosen
        self._slots = [group.slots[i] for i in chosen]
        self._numbers = sum(slot.count for slot in self._slots)
        policy, dtype = group.policy, self._slots[0].dtype
        kind = policy.reduce_dtype or policy.param_dtype or dtype
        device = group.parameter(chosen[0]).device
        flat = facula.empty(group.ways, self._numbers + len(chosen), dtype=kind, device=device)
        offset = 0
        for position, (slot, i) in enumerate(zip(self._slots, chosen)):
            # The sum of these numbers tells whether any process has a gradient for the parameter; without one its
            # gradient stays None.
            flat[:, self._numbers + position] = float(grads[i] is not None)
            rows = flat[:, offset : offset + slot.count]
            if grads[i] is None:
                rows.zero_()
            else:
                slot.lay_out(_local(grads[i]), rows)
            offset += slot.count
        self._divisor = group.divisor or group.ways * (1 if group.replicas is None else dist.get_world_size(group.replicas))
        if kind == facula.float16:  # sums could overflow
            flat.div_(self._divisor)
            self._divisor = 1
        self._scattering = self._reducing = None
        self._reduces = False
        if group.grid is not None:  # the whole gradient is here
            self._input, self._mine = None, flat[group.rank].clone()
            return
        self._input, self._mine = flat, flat.new_empty(flat.shape[1])
        self._reduces = group.replicas is not None and group.sync_replicas
        self._scattering = group.reduce_scatter(
            self._mine, flat.view(-1), group=group.scatter_group, op=dist.ReduceOp.SUM, async_op=True
        )

    def placeholder(self):
        """Return what stands for a gradient until it is there."""
        return self._mine.new_zeros((), dtype=self._slots[0].dtype)

    def end_scatter(self) -> None:
        """Wait for this process's part; sums over replicas begin."""
        if self._input is None:
            return
        if self._scattering is not None:
            self._scattering.wait()
        self._input = self._scattering = None
        group, dtype = self._group, self._slots[0].dtype
        # Passes without a sum over replicas left their sums over shards here.
        had = group.partial.pop(dtype, None)
        if had is not None:
            self._mine.add_(had)
        if self._reduces:
            self._reducing = dist.all_reduce(self._mine, group=group.replicas, async_op=True)
        elif group.replicas is not None:
            group.partial[dtype] = self._mine

    def parts(self):
        """Return the gradients of the group's parts, None where there is none."""
        group, found = self._group, [None] * len(self._group.slots)
        self.end_scatter()
        if group.replicas is not None and group.grid is None and not self._reduces:
            return found
        if self._reducing is not None:
            self._reducing.wait()
        if self._divisor != 1:
            self._mine[: self._numbers].div_(self._divisor)
        if group.all_reduce_hook is not None:
            group.all_reduce_hook(self._mine[: self._numbers])
        used, offset = (self._mine[self._numbers :] > 0).tolist(), 0
        for slot, i, was_used in zip(self._slots, self._chosen, used):
            if was_used:
                found[i] = slot.part(self._mine[offset : offset + slot.count]).to(slot.dtype)
            offset += slot.count
        return found


class ParamGroup:
    """Manage the parameters of one `fully_shard`.

    Args:
        places: {parameter: [(module, name)]}.
        mesh: the processes: one dimension, or (replicas, shards).
        policy: dtypes.
        reshard: whether nothing holds gathered parameters between forward and backward.
        shard_dim_of: the dimension along which a parameter is cut.
        grid: the grid on which parameters and inputs are DTensors, whose ops sum gradients over `mesh` as well.
    """

    def __init__(self, places, mesh, policy: MixedPrecisionPolicy, reshard: bool, shard_dim_of, grid=None) -> None:
        self.grid = grid
        self.mesh, self.policy, self.reshard = mesh, policy, reshard
        self.group = self.scatter_group = mesh.get_group(mesh.ndim - 1)
        self.replicas = mesh.get_group(0) if mesh.ndim == 2 else None
        self.ways, self.rank = dist.get_world_size(self.group), dist.get_rank(self.group)
        self.slots = [_Slot(where, p, mesh, shard_dim_of(p), grid) for p, where in places.items()]
        self.sync = self.sync_replicas = self.reshard_after_backward = self.gathers_in_backward = True
        self.divisor: float | None = None
        self.max_inputs = 1
        self.all_gather, self.reduce_scatter = dist.all_gather_into_tensor, dist.reduce_scatter_tensor
        self.all_reduce_hook = None
        self.forward_next = self.backward_next = None  # groups whose gathers begin behind this one's; None: as in the last pass
        self.partial: dict[Any, Any] = {}  # sums over shards that wait for a pass that sums over replicas
        self.arrival: tuple[Any, ...] | None = None
        self._kept: list[Any] = []  # whole gradients that wait for a pass that sums them
        self._sharded: list[Any] | None = None  # the parameters, while the modules have gathered ones
        self._again: list[Any] | None = None  # gathered anew in a backward pass
        self._keeps = False  # whether the next forward may use that
        self._under_way: list[Any] | None = None
        self._asked = False  # whether the user asked for what is under way
        self.by_hand = False  # whether the user has gathered
        self.join(Passes())
        for slot, p in zip(self.slots, list(places)):
            slot.put(self._cut(slot, p))

    def join(self, passes: Passes) -> None:
        """Share passes with other groups."""
        self.passes = passes
        passes.groups.append(self)

    def _cut(self, slot: _Slot, p):
        with facula.no_grad():
            part = slot.narrowed(_local(p.detach())).clone(memory_format=facula.contiguous_format)
        made = _leaf(part, slot.spec)
        return facula.nn.Parameter(made, requires_grad=p.requires_grad)

    # ---- messages

    def begin_gather(self, asked: bool = False) -> None:
        """Begin to gather, unless the parameters are here or under way; what the user has asked for outlives a pass."""
        self._asked = self._asked or asked
        if self._sharded is not None or self._again is not None or self._under_way is not None:
            return
        with facula.no_grad():
            self._under_way = self._messages()

    def _messages(self) -> list:
        """Return [(numbers of parameters, what comes, the message)], one for each dtype."""
        parts, begun = [slot.current._local_tensor.detach() for slot in self.slots], []
        for dtype in dict.fromkeys(p.dtype for p in parts):
            chosen = [i for i, p in enumerate(parts) if p.dtype == dtype]
            flat = facula.cat([self.slots[i].padded(parts[i]) for i in chosen])
            if self.policy.param_dtype is not None and dtype.is_floating_point:
                flat = flat.to(self.policy.param_dtype)
            everything = flat.new_empty(self.ways * flat.numel())
            begun.append((chosen, everything, self.all_gather(everything, flat, group=self.group, async_op=True)))
        return begun

    def gather(self) -> list:
        """Return whole parameters, of the parts of all processes."""
        if self._again is not None:
            # New views, because autograd would otherwise mark the stored tensors as outputs of this function.
            return [t.view_as(t) for t in self._again]
        begun, self._under_way, self._asked = self._under_way or self._messages(), None, False
        wholes: list[Any] = [None] * len(self.slots)
        for chosen, everything, work in begun:
            if work is not None:
                work.wait()
            rows, offset = everything.view(self.ways, -1), 0
            for i in chosen:
                slot = self.slots[i]
                wholes[i] = slot.whole(rows[:, offset : offset + slot.count], self.ways)
                offset += slot.count
        return wholes

    def drop_gather(self) -> None:
        """Let go of what was gathered and is not needed."""
        if not self._asked:
            self._under_way = None

    def expect_gradients(self) -> None:
        """Make the place where gradients of a pass arrive."""
        if self._sharded is None:
            reductions: list[Any] = []
            self.arrival = reductions, Arrival.apply(reductions, *(slot.current._local_tensor for slot in self.slots))

    def scatter(self, grads) -> list:
        """Begin to sum gradients; return the messages, none if this pass does not sum."""
        self.passes.enter_backward()
        if self.reshard_after_backward:
            self._again = None
        grads = [self._with_kept(i, g) for i, g in enumerate(grads)]
        if not self.sync:
            self._kept = grads
            return []
        self._kept = []
        wanted = [i for i in range(len(self.slots)) if self.parameter(i).requires_grad]
        made = []
        for dtype in dict.fromkeys(self.slots[i].dtype for i in wanted):
            self.passes.make_room(self.max_inputs)
            made.append(_Reduction(self, [i for i in wanted if self.slots[i].dtype == dtype], grads))
            self.passes.reductions.append(made[-1])
        return made

    def _with_kept(self, i, grad):
        had = self._kept[i] if self._kept else None
        return grad if had is None else had if grad is None else had + grad

    def end_backward(self) -> None:
        """Let go of what was gathered for a backward pass, or keep it for the next forward."""
        self.drop_gather()
        if self.reshard_after_backward:
            self._again = None
        self._keeps = self._again is not None

    def forget(self) -> None:
        """Let go of what a pass that failed left behind."""
        self.arrival = None
        self.drop_gather()
        if not self._keeps:
            self._again = None

    # ---- modules

    def parameter(self, i):
        """Return the part of a parameter."""
        return self._sharded[i] if self._sharded is not None else self.slots[i].current

    @property
    def is_gathered(self) -> bool:
        """Whether the modules have whole parameters."""
        return self._sharded is not None

    def unshard(self) -> None:
        """Give the modules whole parameters."""
        if self._sharded is not None:
            return
        sharded = [slot.current for slot in self.slots]
        if self.arrival is None and facula.is_grad_enabled():
            self.expect_gradients()
            # The module was called outside of the outermost one, so that no pass has recorded an Arrival for it.
            (reductions, parts), self.arrival = self.arrival, None
        else:
            reductions, parts = self.arrival or ([], [p._local_tensor for p in sharded])
        wholes = _Gather.apply(self, reductions, *parts)
        self._sharded = sharded
        for slot, whole in zip(self.slots, wholes):
            slot.put(slot.shown(whole))
        if not self.reshard and not self.reshard_after_backward:
            self._again = [w.detach() for w in wholes]
        if self.reshard:
            for i, whole in enumerate(wholes):
                # The tensor is held as well: its storage's address must not be used for another one while it is a key.
                _gathered[whole.untyped_storage()._cdata] = (weakref.ref(self), i, whole)

    def write_back(self) -> None:
        """Write what was changed in whole parameters to the parts."""
        for slot, p in zip(self.slots, self._sharded or ()):
            p._local_tensor.detach().copy_(slot.narrowed(_local(slot.current).detach()))

    def shard(self) -> None:
        """Give the modules their parts again."""
        if self._sharded is None:
            return
        for slot, p in zip(self.slots, self._sharded):
            _gathered.pop(_local(slot.current).untyped_storage()._cdata, None)
            slot.put(p)
        self._sharded = None

    def let_go(self) -> None:
        """Give the modules their parts again, and keep nothing gathered."""
        self.shard()
        self._asked = self.by_hand = False
        self.drop_gather()
        self._again = None

    def end_forward(self) -> None:
        """Note that the module has run."""
        self.shard()
        # During a backward pass (recomputation) the gathered parameters are needed by the nodes that follow.
        if self.reshard and _C._pass_id() == 0:
            self._again = None

    def again(self, i):
        """Return a whole parameter for the backward pass, gathered with its group if it is not there."""
        if self._sharded is not None:
            return _local(self.slots[i].current).detach()
        if self._again is None:
            with facula.no_grad():
                wholes = self.gather()
            if _C._pass_id() == 0:
                return wholes[i]
            self.passes.enter_backward()
            self._again = wholes
            self.passes.after_gather_in_backward(self)
        return self._again[i]


#: What modules have gathered now: storage -> (group, number, tensor).
_gathered: dict[Any, Any] = {}


def pack(t):
    """Return, for autograd, where a gathered parameter, or a view of one, can be found; else the tensor."""
    found = _gathered.get(t.untyped_storage()._cdata)
    if found is None:
        return t
    group, number, _ = found
    # The graph then holds the place of the value in the parameter and not the gathered memory, which is freed after
    # forward.
    return group(), number, t.shape, t.stride(), t.storage_offset(), t.is_conj()


pack._leaves_tensors = True  # what it returns as it was given may go within a memory budget


def unpack(packed):
    """Return the tensor that `pack` was given."""
    if isinstance(packed, facula.Tensor):
        return packed
    group, number, shape, strides, offset, conjugate = packed
    t = group.again(number).as_strided(shape, strides, offset)
    return t.conj() if conjugate else t
