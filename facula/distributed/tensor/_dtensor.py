"""Define DTensor, a tensor whose parts are in several processes.

The object is the part of this process, a Tensor like any other, and also describes the whole: its shape is that of the
whole, and ops follow the rules of `_rules`. Code that works on memory only (optimizers, hooks, autograd) uses the part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C
from facula import distributed as dist

from ._redistribute import redistribute
from ._spec import Spec, count, normalized, whole_shape
from .placement_types import Partial, Replicate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from facula import Size, Tensor
    from facula.distributed.device_mesh import DeviceMesh
    from facula.nn.modules.module import Module

    from .placement_types import Placement

_base_grad = next(base.__dict__["grad"] for base in facula.Tensor.__mro__ if "grad" in base.__dict__)


class _Regrade(facula.autograd.Function):
    """Return the same values; the gradient arrives in another layout than that of the tensor."""

    @staticmethod
    def forward(ctx, local, spec, grad_placements):
        ctx.spec, ctx.grad_placements = spec, grad_placements
        return local.view_as(local)

    @staticmethod
    def backward(ctx, grad):
        target = [Replicate() if isinstance(p, Partial) else p for p in ctx.spec.placements]
        return redistribute(grad, ctx.spec.with_placements(ctx.grad_placements), target), None, None


class DTensor(facula.Tensor):
    """Represent a tensor over a mesh of processes. `distribute_tensor` and `DTensor.from_local` make one.

    It is the part of this process, a Tensor like any other, whose `shape`, `size`, `stride` and `numel` are those of the whole.
    Ops take DTensors of one mesh, move what they must, and give DTensors; those without a rule get the whole of every tensor.
    One is not pickled: TypeError; use `full_tensor` or `facula.distributed.checkpoint`.

    >>> import torch.distributed as dist
    >>> from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor, init_device_mesh
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    >>> x = distribute_tensor(torch.arange(4.0), mesh, [Shard(0)])
    >>> x
    DTensor(local_tensor=tensor([0., 1., 2., 3.]), device_mesh=DeviceMesh('cpu', [0]), placements=(Shard(dim=0),))
    >>> x.sum().full_tensor()
    tensor(6.)
    >>> x.redistribute(placements=[Replicate()]).to_local()
    tensor([0., 1., 2., 3.])
    >>> DTensor.from_local(torch.ones(2), mesh, [Shard(0)]).shape
    torch.Size([2])
    >>> dist.destroy_process_group()
    """

    _spec: Spec
    _call_by_rule: Callable[..., Any]  # of _rules.py, which knows this class

    @staticmethod
    def _wrap(local: facula.Tensor, spec: Spec) -> DTensor:
        with _C.DisableTorchFunctionSubclass():
            made = local.as_subclass(DTensor)
        made._spec = spec
        return made

    @classmethod
    def __torch_function__(cls, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return DTensor._call_by_rule(func, args, kwargs or {})

    # ---- what it is

    @property
    def device_mesh(self) -> DeviceMesh:
        """The processes."""
        return self._spec.mesh

    @property
    def placements(self) -> Any:
        """How it lies on each dimension of the mesh."""
        return self._spec.placements

    @property
    def shape(self) -> Size:
        """The shape of the whole."""
        return self._spec.shape

    def size(self, dim: int | None = None) -> Size | int:
        """Return the shape of the whole, or its length along `dim`.

        Args:
            dim: a dimension; None for all of them.
        """
        return self._spec.shape if dim is None else self._spec.shape[dim]

    def numel(self) -> int:
        """Return the number of elements of the whole."""
        return count(self._spec)

    nelement = numel

    def stride(self, dim: int | None = None) -> tuple[Any, ...]:
        """Return the strides of the whole, if it were contiguous.

        Args:
            dim: a dimension; None for all of them.
        """
        strides, step = [], 1
        for length in reversed(self._spec.shape):
            strides.insert(0, step)
            step *= max(length, 1)
        return tuple(strides) if dim is None else strides[dim]

    def __len__(self) -> int:
        if not self._spec.shape:
            raise TypeError("DTensor: a tensor without dimensions has no length, got ()")
        return self._spec.shape[0]

    @property
    def _local_tensor(self):
        with _C.DisableTorchFunctionSubclass():
            return self.as_subclass(facula.Tensor)

    @property
    def grad(self) -> DTensor | None:
        """The gradient, laid out as the tensor."""
        with _C.DisableTorchFunctionSubclass():
            grad = _base_grad.__get__(self)
        if grad is None or isinstance(grad, DTensor):
            return grad
        return DTensor._wrap(grad, _grad_spec(self._spec))

    @grad.setter
    def grad(self, value: Any) -> None:
        with _C.DisableTorchFunctionSubclass():
            if isinstance(value, DTensor):
                value = redistribute(value._local_tensor, value._spec, _grad_spec(self._spec).placements)
            _base_grad.__set__(self, value)

    def _as_root(self):
        """Return what a backward pass starts from: the gradient of a sum's parts is one, that of others is not."""
        if not any(isinstance(p, Partial) and p != Partial() for p in self.placements):
            return self
        return self.redistribute(placements=[Replicate() if isinstance(p, Partial) else p for p in self.placements])

    def _as_gradient(self, grad):
        """Return a gradient of this tensor's part."""
        return grad if isinstance(grad, DTensor) else DTensor._wrap(grad, _grad_spec(self._spec))

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"DTensor(local_tensor={self.to_local()}, device_mesh={self.device_mesh}, placements={self.placements})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise TypeError("DTensor: a part alone is not pickled; use full_tensor() or facula.distributed.checkpoint")

    def __deepcopy__(self, memo: dict[int, Any]) -> DTensor:
        with _C.DisableTorchFunctionSubclass():
            copy = self._local_tensor.detach().clone()
            copy.requires_grad_(self.requires_grad)
        made = DTensor._wrap(copy, self._spec) if not copy.requires_grad else _leaf(copy, self._spec)
        if getattr(self, "_is_param", False):
            made._is_param = True
        memo[id(self)] = made
        return made

    # ---- between parts and the whole

    @staticmethod
    def from_local(local_tensor: Any, device_mesh: DeviceMesh | None = None, placements: Sequence[Any] | None = None, *,
                   run_check: bool = False, shape: Sequence[int] | None = None, stride: int | Sequence[int] | None = None,
                   grad_placements: Any = None) -> DTensor:  # fmt: skip
        """Return a DTensor of the parts that processes have.

        Args:
            local_tensor: the part of this process.
            device_mesh: the processes. Default: that of the innermost `with mesh`.
            placements: how the parts make the whole. Default: every process has the whole.
            run_check: whether processes that should have the same get it from the first.
            shape, stride: of the whole, where parts differ in size.
            grad_placements: the layout in which the gradient goes back.
        """
        if not isinstance(local_tensor, facula.Tensor) or isinstance(local_tensor, DTensor):
            raise TypeError(f"DTensor.from_local: expected the part as a Tensor, got {type(local_tensor).__name__}")
        mesh, placements = normalized("DTensor.from_local", device_mesh, placements, local_tensor.dim())
        if run_check:
            for number, p in enumerate(placements):
                if isinstance(p, Replicate):
                    group = mesh.get_group(number)
                    with facula.no_grad():
                        dist.broadcast(local_tensor.detach(), dist.get_global_rank(group, 0), group=group)
        del stride
        spec = Spec(mesh, placements, facula.Size(shape) if shape is not None else whole_shape(local_tensor, mesh, placements))
        if local_tensor.requires_grad or not facula.is_grad_enabled():
            local_tensor = local_tensor.view_as(local_tensor)
        if grad_placements is not None:
            _, wanted = normalized("DTensor.from_local", mesh, grad_placements, local_tensor.dim())
            local_tensor = _Regraded.apply(local_tensor, spec, wanted)
        return DTensor._wrap(local_tensor, spec)

    def to_local(self, *, grad_placements: Any = None) -> Any:
        """Return the part of this process.

        Args:
            grad_placements: the layout of the gradient that comes back, where it differs from the tensor's: `Partial()` for
                a whole tensor that every process uses with other data.
        """
        local = self._local_tensor
        if grad_placements is not None:
            _, wanted = normalized("DTensor.to_local", self.device_mesh, grad_placements, len(self.shape))
            local = _Regrade.apply(local, self._spec, wanted)
        return local

    def redistribute(self, device_mesh: DeviceMesh | None = None, placements: Sequence[Any] | None = None, *,
                     async_op: bool = False, forward_dtype: Any = None, backward_dtype: Any = None) -> DTensor:  # fmt: skip
        """Return the same tensor in another layout of the same mesh; gradients go the way back.

        Args:
            device_mesh: the mesh it is on; NotImplementedError for another one.
            placements: a placement for each dimension of the mesh. RuntimeError for None.
            async_op: accepted: it waits.
            forward_dtype, backward_dtype: None; NotImplementedError for anything else.

        Returns: a DTensor of the shape of this one.
        """
        if forward_dtype is not None or backward_dtype is not None:
            raise NotImplementedError("DTensor.redistribute: forward_dtype and backward_dtype are not supported, got one")
        if device_mesh is not None and device_mesh != self.device_mesh:
            raise NotImplementedError(f"DTensor.redistribute: to another mesh is not supported, got {device_mesh}")
        del async_op
        if placements is None:
            raise RuntimeError("DTensor.redistribute: placements must be given, got None")
        _, placements = normalized("DTensor.redistribute", self.device_mesh, placements, len(self.shape))
        return DTensor._wrap(redistribute(self._local_tensor, self._spec, placements), self._spec.with_placements(placements))

    def full_tensor(self, *, grad_placements: Any = None) -> Any:
        """Return the whole, in every process; all of them call it.

        Args:
            grad_placements: the layout of the gradient that comes back, where it is not the same in every process: `Partial()`
                where each uses the whole with other data.
        """
        return self.redistribute(placements=[Replicate()] * self.device_mesh.ndim).to_local(grad_placements=grad_placements)


class _Regraded(_Regrade):
    """Return the same values; the gradient leaves in another layout than that of the tensor."""

    @staticmethod
    def backward(ctx, grad):
        return redistribute(grad, _grad_spec(ctx.spec), ctx.grad_placements), None, None


def _grad_spec(spec: Spec) -> Spec:
    """Return the layout of the gradient: that of what is still to be summed is whole."""
    return spec.with_placements(Replicate() if isinstance(p, Partial) else p for p in spec.placements)


def _leaf(local: facula.Tensor, spec: Spec) -> DTensor:
    """Return a DTensor that gathers a gradient."""
    made = DTensor._wrap(local.detach(), spec)
    with _C.DisableTorchFunctionSubclass():
        facula.Tensor.requires_grad_(made, local.requires_grad)
    return made


def distribute_tensor(tensor: Tensor, device_mesh: DeviceMesh | None = None, placements: Sequence[Any] | None = None, *,
                      src_data_rank: int = 0) -> DTensor:  # fmt: skip
    """Return a DTensor of the values that one process has.

    Args:
        tensor: the whole, of the same shape in every process.
        device_mesh: the processes. Default: that of the innermost `with mesh`.
        placements: how it is to lie. Default: whole in every process.
        src_data_rank: the place in each dimension of the mesh whose values hold; None: every process takes its own.

    Returns: a DTensor of the shape of tensor.

    Errors: RuntimeError for `Partial`, ValueError for a DTensor that lies otherwise, or for a dimension that is not there;
    TypeError for what is no tensor.

    The group of the example is rank 0 of two that send nothing.

    >>> import torch.distributed as dist
    >>> from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> mesh = init_device_mesh("cpu", (2,))
    >>> distribute_tensor(torch.arange(5), mesh, [Shard(0)]).to_local()  # rank 1 has the other two
    tensor([0, 1, 2])
    >>> dist.destroy_process_group()
    """
    if not isinstance(tensor, facula.Tensor):
        raise TypeError(f"distribute_tensor: expected a Tensor, got {type(tensor).__name__}")
    if isinstance(tensor, DTensor):
        same_mesh = device_mesh is None or tensor.device_mesh == device_mesh
        if not same_mesh or placements is None or tuple(placements) != tensor.placements:
            raise ValueError(f"distribute_tensor: the tensor is distributed already, got {tensor.placements}")
        return tensor
    mesh, placements = normalized("distribute_tensor", device_mesh, placements, tensor.dim())
    if any(isinstance(p, Partial) for p in placements):
        raise RuntimeError(f"distribute_tensor: a tensor is cut or copied, not made partial, got {placements}")
    with facula.no_grad():
        whole = tensor.detach().clone(memory_format=facula.contiguous_format)
        if src_data_rank is not None:
            for number in range(mesh.ndim):
                group = mesh.get_group(number)
                dist.broadcast(whole, dist.get_global_rank(group, src_data_rank), group=group)
        spec = Spec(mesh, placements, tensor.shape)
        local = redistribute(whole, spec.with_placements([Replicate()] * mesh.ndim), placements)
    return _leaf(local.requires_grad_(tensor.requires_grad), spec)


def distribute_module(module: Module, device_mesh: DeviceMesh | None = None, partition_fn: Any = None, input_fn: Any = None,
                      output_fn: Any = None) -> Module:  # fmt: skip
    """Make the parameters and buffers of a module DTensors.

    Args:
        module: the module, changed in place, and returned.
        device_mesh: the processes. Default: those of the innermost `with mesh`.
        partition_fn: `partition_fn(name, submodule, mesh)` distributes what it wants to cut; all else becomes whole.
        input_fn, output_fn: `input_fn(module, inputs, mesh)` and `output_fn(module, outputs, mesh)`, called around forward.

    Returns: the module.

    >>> import torch.distributed as dist
    >>> from torch.distributed.tensor import Shard, distribute_module, distribute_tensor, init_device_mesh
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> def cut(name, module, mesh):
    ...     module.weight = nn.Parameter(distribute_tensor(module.weight.detach(), mesh, [Shard(0)]))
    >>> layer = distribute_module(nn.Linear(3, 4), init_device_mesh("cpu", (2,)), cut)
    >>> layer.weight.to_local().shape, layer.bias.placements
    (torch.Size([2, 3]), (Replicate(),))
    >>> dist.destroy_process_group()
    """
    device_mesh, _ = normalized("distribute_module", device_mesh, None, 0)
    for name, submodule in module.named_modules():
        if partition_fn is not None:
            partition_fn(name, submodule, device_mesh)
        for key, p in list(submodule._parameters.items()):
            if p is not None and not isinstance(p, DTensor):
                made = facula.nn.Parameter(distribute_tensor(p.detach(), device_mesh), requires_grad=p.requires_grad)
                submodule.register_parameter(key, made)
        for key, b in list(submodule._buffers.items()):
            if b is not None and not isinstance(b, DTensor):
                submodule._buffers[key] = distribute_tensor(b, device_mesh)
    if input_fn is not None:
        module.register_forward_pre_hook(lambda m, inputs: input_fn(m, inputs, device_mesh))
    if output_fn is not None:
        module.register_forward_hook(lambda m, inputs, outputs: output_fn(m, outputs, device_mesh))
    return module


_VALUES = {
    "empty": "whose values are not set", "full": "of one value", "ones": "of ones", "zeros": "of zeros",
    "rand": "of random numbers between 0 and 1, the same as in one process with the same seed",
    "randn": "of normal random numbers, the same as in one process with the same seed",
}  # fmt: skip
_CREATED = """Return a DTensor {values}.

Args:
    size: the shape of the whole, as numbers or one sequence.
    device_mesh: the processes. Default: that of the innermost `with mesh`.
    placements: how it lies on each dimension of the mesh. Default: whole in every process.
    requires_grad: whether it gathers a gradient.
    options: dtype and whatever else `facula.{name}` takes by keyword.

The group of the example is rank 0 of four that send nothing.

>>> import torch.distributed as dist
>>> dist.init_process_group("fake", rank=0, world_size=4)
>>> mesh = dist.tensor.init_device_mesh("cpu", (4,))
>>> x = dist.tensor.{name}(8, 2, device_mesh=mesh, placements=[dist.tensor.Shard(0)])
>>> x.shape, x.to_local().shape
(torch.Size([8, 2]), torch.Size([2, 2]))
>>> dist.destroy_process_group()
"""


def _created(name, make):
    def create(
        *size: int | Sequence[int],
        device_mesh: DeviceMesh | None = None,
        placements: Sequence[Placement] | None = None,
        requires_grad: bool = False,
        **options: Any,
    ) -> DTensor:
        shape = facula.Size(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
        mesh, found = normalized(name, device_mesh, placements, len(shape))
        whole = make(shape, **options)
        spec = Spec(mesh, found, shape)
        local = redistribute(whole, spec.with_placements([Replicate()] * mesh.ndim), found)
        return _leaf(local.requires_grad_(requires_grad), spec)

    create.__name__ = create.__qualname__ = name
    create.__doc__ = _CREATED.format(name=name, values=_VALUES[name])
    return create


empty: Callable[..., DTensor]
ones: Callable[..., DTensor]
zeros: Callable[..., DTensor]
rand: Callable[..., DTensor]
randn: Callable[..., DTensor]
empty, ones, zeros = (_created(n, getattr(facula, n)) for n in ("empty", "ones", "zeros"))
rand, randn = (_created(n, getattr(facula, n)) for n in ("rand", "randn"))


def full(size: Sequence[int], fill_value: float, *, device_mesh: DeviceMesh | None = None,
         placements: Sequence[Any] | None = None, requires_grad: bool = False, **options: Any) -> DTensor:  # fmt: skip
    """Return a DTensor of one value.

    Args:
        size: the shape of the whole, a sequence.
        fill_value: the value.
        device_mesh: the processes. Default: that of the innermost `with mesh`.
        placements: how it lies on each dimension of the mesh. Default: whole in every process.
        requires_grad: whether it gathers a gradient.
        options: dtype and whatever else `facula.full` takes by keyword.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("fake", rank=0, world_size=4)
    >>> mesh = dist.tensor.init_device_mesh("cpu", (4,))
    >>> dist.tensor.full((8,), 7.0, device_mesh=mesh, placements=[dist.tensor.Shard(0)]).to_local()
    tensor([7., 7.])
    >>> dist.destroy_process_group()
    """
    create = _created("full", lambda shape, **more: facula.full(shape, fill_value, **more))
    return create(size, device_mesh=device_mesh, placements=placements, requires_grad=requires_grad, **options)
