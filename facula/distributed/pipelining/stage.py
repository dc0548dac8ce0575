"""Run one part of a model in one process, and exchange tensors with its neighbors.

A message with the number, dtypes and shapes of the tensors precedes them, so that the receiver need not know these in
advance.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import distributed as dist
from facula.autograd.graph import GradientEdge, get_gradient_edge

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from facula import Tensor
    from facula.distributed._group import ProcessGroup
    from facula.nn.modules.module import Module
    from facula.types import Device

__all__ = ["PipelineStage"]


# ---- A backward pass in two halves: gradients of inputs first, those of weights when there is time.
#
# The way from outputs to inputs is a part of the graph; weights hang on it by branches. The first half runs the way and keeps
# what arrives at every node that has a branch; the second runs each of these nodes again, for its branch only.


def _walk(roots) -> list:
    """Return all nodes that are reached."""
    seen, found, waiting = set(), [], list(roots)
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        found.append(node)
        waiting += [n for n, _ in node.next_functions]
    return found


def _on_the_way(nodes, ends) -> set:
    """Return the nodes from which an end can be reached."""
    before: dict[Any, Any] = {}
    for node in nodes:
        for n, _ in node.next_functions:
            before.setdefault(n, []).append(node)
    found, waiting = set(), list(ends)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += before.get(node, [])
    return found


def _leaves(branches) -> list:
    """Return the tensors at the ends of branches."""
    return [node.variable for node in _walk(branches) if hasattr(node, "variable")]


class _WeightGradients:
    """Compute the second half of a backward pass.

    Args:
        outputs, grads: the roots, and their gradients.
        inputs: what the first half, which is run here, gives gradients of: `input_grads`, None for those that have none.
    """

    def __init__(self, outputs, grads, inputs) -> None:
        self._outputs, self._grads, self._kept = outputs, grads, []
        wanted = [t for t in inputs if isinstance(t, facula.Tensor) and t.requires_grad]
        found: dict[Any, Any] = {}
        if wanted:
            roots = [get_gradient_edge(t).node for t in outputs]
            way = _on_the_way(_walk(roots), [get_gradient_edge(t).node for t in wanted])
            self._branches = self._branches_of(way)
            handles = [node.register_prehook(self._keeper(node)) for node in self._branches] if self._splits(roots, way) else []
            try:
                found = dict(
                    zip(map(id, wanted), facula.autograd.grad(outputs, wanted, grads, retain_graph=True, allow_unused=True))
                )
            finally:
                for handle in handles:
                    handle.remove()
            if handles or not self._branches:
                self._outputs = []
        self.input_grads = [found.get(id(t)) for t in inputs]
        self._inputs = wanted

    @staticmethod
    def _branches_of(way) -> dict:
        """Return {node on the way: tensors at the ends of its branches}."""
        found = {}
        for node in way:
            leaves = _leaves(n for n, _ in node.next_functions if n is not None and n not in way)
            if leaves:
                found[node] = leaves
        return found

    def _splits(self, roots, way) -> bool:
        """Return True if every weight hangs on one place of the way only; else the second half runs the whole pass."""
        hanging = [id(leaf) for leaves in self._branches.values() for leaf in leaves]
        return all(root in way for root in roots) and len(set(hanging)) == len(hanging)

    def _keeper(self, node):
        def keep(grads):
            self._kept.append((node, grads))

        return keep

    def run(self) -> None:
        """Accumulate the gradients of weights."""
        for node, grads in self._kept:
            edges = [GradientEdge(node, i) for i, g in enumerate(grads) if g is not None]
            if edges:
                facula.autograd.backward(edges, [g for g in grads if g is not None], inputs=self._branches[node])
        if self._outputs:
            others = {id(t) for t in self._inputs}
            leaves = [t for t in _leaves(get_gradient_edge(t).node for t in self._outputs) if id(t) not in others]
            if leaves:
                facula.autograd.backward(self._outputs, self._grads, inputs=leaves)
        self._kept, self._outputs, self._grads, self._inputs = [], [], [], []


_HEADER = 64
_DTYPES = [facula.float32, facula.float64, facula.float16, facula.bfloat16, facula.int64, facula.int32, facula.int16,
           facula.int8, facula.uint8, facula.bool, facula.complex64, facula.complex128]  # fmt: skip
_NOTHING = -1


class PipelineStage:
    """Hold a part of a model. A schedule calls its methods.

    Args:
        submodule: the part.
        stage_index: its number.
        num_stages: how many parts there are, as many in each process (else ValueError).
        device: where it is.
        group: the processes. Default: all.
        input_args, output_args, output_grads, input_grads, get_mesh: accepted: shapes are found as tensors come.
        dw_builder: for a part that computes gradients of its weights itself, and not in backward passes: called behind each
            pass, gives a function that computes them, which schedules call when there is time. Default: schedules split
            backward passes.

    >>> import torch.distributed as dist
    >>> from torch.distributed.pipelining import PipelineStage
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> stage = PipelineStage(nn.Linear(4, 2), stage_index=0, num_stages=1, device="cpu")
    >>> stage.is_first, stage.is_last
    (True, True)

    What a schedule does with a piece of a batch, here of the only stage; the second one backwards in halves:

    >>> stage.begin()
    >>> inputs, output = stage.forward((torch.ones(3, 4),), {})
    >>> stage.backward(inputs, output, output.sum())
    >>> stage.set_sync(True)  # the last one of a batch
    >>> inputs, output = stage.forward((torch.ones(3, 4),), {})
    >>> weights = stage.backward_inputs(inputs, output, output.sum())
    >>> weights()
    >>> stage.finish()
    >>> stage.submod.bias.grad
    tensor([6., 6.])
    >>> dist.destroy_process_group()
    """

    submod: Module
    stage_index: int
    num_stages: int
    is_first: bool
    is_last: bool

    def __init__(self, submodule: Module, stage_index: int, num_stages: int, device: Device, input_args: Any = None,
                 output_args: Any = None, output_grads: Any = None, input_grads: Any = None, group: ProcessGroup | None = None,
                 dw_builder: Any = None, get_mesh: Any = None) -> None:  # fmt: skip
        self.group: ProcessGroup | None = group if group is not None else dist.group.WORLD
        size = dist.get_world_size(self.group)
        if dw_builder is not None and not callable(dw_builder):
            raise TypeError(f"PipelineStage: dw_builder must be a function, got {type(dw_builder).__name__}")
        if num_stages < size or num_stages % size:
            raise ValueError(f"PipelineStage: expected as many stages in each of {size} processes, got {num_stages} stages")
        if not 0 <= stage_index < num_stages:
            raise ValueError(f"PipelineStage: there are {num_stages} stages, got stage_index {stage_index}")
        self.submod, self.stage_index, self.num_stages = submodule, stage_index, num_stages
        self.dw_builder = dw_builder
        self.device: facula.device = facula.device(device)
        self.is_first, self.is_last = stage_index == 0, stage_index == num_stages - 1
        self._rank_of = lambda stage: stage % size
        self._near: dict[Any, Any] = {}  # stages of this process
        self._mail: dict[Any, Any] = {}  # tensors that such a one has left here, oldest first
        self._sent: list[Any] = []
        self._reducers: list[Any] = []
        self._groups: list[Any] = []

    # ---- messages; those to a stage have its number as their tag, and the direction

    def _send(self, tensors, step: int) -> None:
        target = self.stage_index + step
        if target in self._near:
            # A stage of this process gets tensors that are cut off the graph, too: each stage runs its own backward
            # pass.
            told = [None if t is None else t.detach().requires_grad_(t.requires_grad) for t in tensors]
            self._near[target]._mail.setdefault(step, []).append(told)
            return
        header = [len(tensors)]
        for t in tensors:
            header += [_NOTHING] if t is None else [_DTYPES.index(t.dtype), int(t.requires_grad), t.dim(), *t.shape]
        if len(header) > _HEADER:
            raise NotImplementedError(f"pipeline: a stage sends too many tensors or dimensions, got {len(tensors)} tensors")
        message = facula.tensor(header + [0] * (_HEADER - len(header)), dtype=facula.int64)
        peer, tag = dist.get_global_rank(self.group, self._rank_of(target)), 2 * target + (step > 0)
        for t in (message, *tensors):
            if t is not None:
                part = t.detach().contiguous()
                # The tensor is held until it is sent, because MPI reads its memory meanwhile.
                self._sent.append((dist.isend(part, peer, group=self.group, tag=tag), part))

    def _receive(self, step: int) -> list:
        source = self.stage_index - step
        if source in self._near:
            return self._mail[step].pop(0)
        peer, tag = dist.get_global_rank(self.group, self._rank_of(source)), 2 * self.stage_index + (step > 0)
        header = facula.empty(_HEADER, dtype=facula.int64)
        dist.recv(header, peer, group=self.group, tag=tag)
        numbers, tensors = iter(header.tolist()), []
        for _ in range(next(numbers)):
            kind = next(numbers)
            if kind == _NOTHING:
                tensors.append(None)
                continue
            needs_grad, dims = bool(next(numbers)), next(numbers)
            t = facula.empty([next(numbers) for _ in range(dims)], dtype=_DTYPES[kind], device=self.device)
            dist.recv(t, peer, group=self.group, tag=tag)
            tensors.append(t.requires_grad_(needs_grad))
        return tensors

    def finish(self) -> None:
        """Wait until everything that was sent has arrived."""
        for work, _ in self._sent:
            work.wait()
        self._sent = []

    # ---- gradients of several processes, which are summed with the last piece of a batch

    def begin(self) -> None:
        """Begin a batch: look which gradients are summed over processes."""
        from facula.nn.parallel import DistributedDataParallel

        from ..fsdp import FSDPModule

        modules = list(self.submod.modules()) if isinstance(self.submod, facula.nn.Module) else []
        self._reducers = [m.reducer for m in modules if isinstance(m, DistributedDataParallel) and m.reducer is not None]
        groups = [m._fsdp_group for m in modules if isinstance(m, FSDPModule) and m._fsdp_group is not None]
        # A program may have switched off the sums of some modules; those stay off.
        self._groups = [g for g in groups if g.sync]

    @property
    def sums_gradients(self) -> bool:
        """Whether gradients are summed over processes, which backward passes do by themselves."""
        return bool(self._reducers or self._groups)

    def set_sync(self, sums: bool) -> None:
        """Set whether the next backward passes sum gradients over processes.

        Args:
            sums: whether they do.
        """
        for reducer in self._reducers:
            reducer.enabled = sums
        for group in self._groups:
            group.sync = sums

    # ---- one piece of a batch

    def forward(self, args: Any, kwargs: Any) -> tuple[list[Any], Any]:
        """Return (inputs, output) of one piece; inputs come from the stage before, outputs go to the one behind.

        Args:
            args: the piece, which only the first stage looks at.
            kwargs: further arguments of this part.

        Errors: TypeError where a stage that is not the last gives something that is no tensor.
        """
        inputs = list(args) if self.is_first else self._receive(1)
        output = self.submod(*inputs, **kwargs)
        if not self.is_last:
            several = output if isinstance(output, (tuple, list)) else [output]
            for t in several:
                if not isinstance(t, facula.Tensor):
                    raise TypeError(f"pipeline: a stage gives tensors to the next one, got {type(t).__name__}")
            self._send(list(several), 1)
        return inputs, output

    def _roots(self, output, loss):
        """Return ([tensors], [their gradients]); gradients come from the stage behind."""
        if self.is_last:
            return [loss], [facula.ones_like(loss)]
        several = list(output) if isinstance(output, (tuple, list)) else [output]
        pairs = [(t, g) for t, g in zip(several, self._receive(-1)) if g is not None and t.requires_grad]
        return [t for t, _ in pairs], [g for _, g in pairs]

    def backward(self, inputs: Any, output: Any, loss: Tensor) -> None:
        """Compute the gradients of one piece; they come from the stage behind, and go to the one before.

        Args:
            inputs, output: what `forward` gave.
            loss: the loss, in the last stage; else it is not looked at.
        """
        self._whole_pass(inputs, output, loss)
        if self.dw_builder is not None:
            self.dw_builder()()

    def _whole_pass(self, inputs, output, loss) -> None:
        roots, grads = self._roots(output, loss)
        if roots:
            facula.autograd.backward(roots, grads)
        if not self.is_first:
            self._send([t.grad if isinstance(t, facula.Tensor) else None for t in inputs], -1)

    def backward_inputs(self, inputs: Any, output: Any, loss: Tensor) -> Callable[[], None]:
        """Compute the gradients of one piece without those of the weights: the function that is returned computes them.

        Args:
            inputs, output: what `forward` gave.
            loss: the loss, in the last stage; else it is not looked at.

        Returns: a function without arguments, which computes the gradients of the weights.
        """
        if self.dw_builder is not None:
            self._whole_pass(inputs, output, loss)
            return self.dw_builder()
        rest = _WeightGradients(*self._roots(output, loss), inputs if not self.is_first else [])
        if not self.is_first:
            self._send(rest.input_grads, -1)
        return rest.run
