"""Define styles: how a module's parameters are sharded, and the layouts of its inputs and outputs."""

from __future__ import annotations

import abc
from typing import Any

import facula
from facula import nn

from .._dtensor import DTensor, distribute_module, distribute_tensor
from ..placement_types import Replicate, Shard

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
]


class ParallelStyle(abc.ABC):
    """Shard a module; `parallelize_module` applies it, and the styles derive from it.

    >>> from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle
    >>> issubclass(ColwiseParallel, ParallelStyle)
    True
    """

    src_data_rank: int | None = 0

    @abc.abstractmethod
    def _apply(self, module, device_mesh):
        """Change the module, and return it."""


def _as_dtensor(x, mesh, layout):
    return x if isinstance(x, DTensor) or not isinstance(x, facula.Tensor) else DTensor.from_local(x, mesh, [layout])


def _moved(x, layout):
    return x.redistribute(placements=[layout]) if isinstance(x, DTensor) and x.placements != (layout,) else x


def _leave(x, layout, use_local):
    x = _moved(x, layout)
    return x.to_local() if use_local and isinstance(x, DTensor) else x


class _Layer(ParallelStyle):
    """Shard the parameters of a Linear or Embedding."""

    #: {class: {name of the parameter: placement}}
    _cuts: dict[Any, Any] = {}
    input_layout: Any
    output_layout: Any
    use_local_output: Any

    def __init__(self, input_layout: Any, output_layout: Any, use_local_output: Any) -> None:
        self.input_layout, self.output_layout, self.use_local_output = input_layout, output_layout, use_local_output

    def _wanted(self, module):
        raise NotImplementedError(f"{type(self).__name__}._wanted: derive from it, got {type(module).__name__}")

    def _apply(self, module, device_mesh):
        kind = next((kind for kind in self._cuts if isinstance(module, kind)), None)
        if kind is None:
            raise NotImplementedError(f"{type(self).__name__}: for Linear and Embedding, got {type(module).__name__}")
        wanted, given = self._wanted(module), self.input_layout

        def partition(name, submodule, mesh):
            for key, p in list(submodule.named_parameters(recurse=False)):
                cut = distribute_tensor(p.detach(), mesh, [self._cuts[kind][key]], src_data_rank=self.src_data_rank)
                submodule.register_parameter(key, nn.Parameter(cut, requires_grad=p.requires_grad))

        def enter(module, inputs, mesh):
            first = _moved(_as_dtensor(inputs[0], mesh, given or wanted), wanted)
            return (first, *inputs[1:])

        def leave(module, output, mesh):
            return _leave(output, self.output_layout, self.use_local_output)

        return distribute_module(module, device_mesh, partition, enter, leave)


class ColwiseParallel(_Layer):
    """Shard a Linear by its outputs, an Embedding by its features. NotImplementedError, when it is applied, for other
    modules.

    Args:
        input_layouts: of the input. Default: whole.
        output_layouts: of the output. Default: cut along its last dimension.
        use_local_output: whether the output is the part of this process, as a Tensor.

    >>> import torch.distributed as dist
    >>> from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> layer = parallelize_module(nn.Linear(4, 6), dist.device_mesh.init_device_mesh("cpu", (2,)), ColwiseParallel())
    >>> layer.weight.placements, layer(torch.ones(1, 4)).shape
    ((Shard(dim=0),), torch.Size([1, 3]))
    >>> dist.destroy_process_group()
    """

    _cuts = {nn.Linear: {"weight": Shard(0), "bias": Shard(0)}, nn.Embedding: {"weight": Shard(1)}}

    def __init__(self, *, input_layouts: Any = None, output_layouts: Any = None, use_local_output: bool = True) -> None:
        super().__init__(input_layouts or Replicate(), output_layouts or Shard(-1), use_local_output)

    def _wanted(self, module):
        return Replicate()


class RowwiseParallel(_Layer):
    """Shard a Linear by its inputs, an Embedding by its rows. NotImplementedError, when it is applied, for other
    modules.

    Args:
        input_layouts: of the input. Default: cut along its last dimension.
        output_layouts: of the output. Default: whole.
        use_local_output: whether the output is the part of this process, as a Tensor.

    >>> import torch.distributed as dist
    >>> from torch.distributed.tensor.parallel import RowwiseParallel, parallelize_module
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> layer = parallelize_module(nn.Linear(4, 6), dist.device_mesh.init_device_mesh("cpu", (2,)), RowwiseParallel())
    >>> layer.weight.placements, layer(torch.ones(1, 2)).shape
    ((Shard(dim=1),), torch.Size([1, 6]))
    >>> dist.destroy_process_group()
    """

    _cuts = {nn.Linear: {"weight": Shard(1), "bias": Replicate()}, nn.Embedding: {"weight": Shard(0)}}

    def __init__(self, *, input_layouts: Any = None, output_layouts: Any = None, use_local_output: bool = True) -> None:
        super().__init__(input_layouts, output_layouts or Replicate(), use_local_output)

    def _wanted(self, module):
        return Shard(-1) if isinstance(module, nn.Linear) else Replicate()


class SequenceParallel(ParallelStyle):
    """Shard the input of a module along the sequence, with whole parameters: LayerNorm, Dropout.

    Args:
        sequence_dim: the dimension of the sequence.
        use_local_output: whether the output is the part of this process, as a Tensor.

    >>> import torch.distributed as dist
    >>> from torch.distributed.tensor.parallel import SequenceParallel, parallelize_module
    >>> dist.init_process_group("fake", rank=0, world_size=2)
    >>> layer = parallelize_module(nn.LayerNorm(4), dist.device_mesh.init_device_mesh("cpu", (2,)), SequenceParallel())
    >>> layer(torch.ones(1, 3, 4)).shape  # of sequences of length 6
    torch.Size([1, 6, 4])
    >>> dist.destroy_process_group()
    """

    layout: Shard
    use_local_output: bool

    def __init__(self, *, sequence_dim: int = 1, use_local_output: bool = False) -> None:
        self.layout, self.use_local_output = Shard(sequence_dim), use_local_output

    def _apply(self, module, device_mesh):
        def enter(module, inputs, mesh):
            return (_moved(_as_dtensor(inputs[0], mesh, self.layout), self.layout), *inputs[1:])

        def leave(module, output, mesh):
            return output.to_local() if self.use_local_output and isinstance(output, DTensor) else output

        return distribute_module(module, device_mesh, None, enter, leave)


def _tuple(value):
    return value if isinstance(value, tuple) else (value,)


class PrepareModuleInput(ParallelStyle):
    """Convert the inputs of a module from one layout to another.

    Args:
        input_layouts: of the inputs that come; None for what is left alone.
        desired_input_layouts: of those that the module gets.
        input_kwarg_layouts, desired_input_kwarg_layouts: the same by name.
        use_local_output: whether the module gets parts, as Tensors.

    Errors: ValueError where layouts and desired ones are not as many, or another number of inputs comes.

    >>> import torch.distributed as dist
    >>> from torch.distributed.tensor import Replicate, Shard
    >>> from torch.distributed.tensor.parallel import PrepareModuleInput, parallelize_module
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> style = PrepareModuleInput(input_layouts=(Shard(0),), desired_input_layouts=(Replicate(),))
    >>> layer = parallelize_module(nn.Identity(), dist.device_mesh.init_device_mesh("cpu", (1,)), style)
    >>> layer(torch.ones(2)).placements
    (Replicate(),)
    >>> dist.destroy_process_group()
    """

    given: Any
    wanted: Any
    named: Any
    named_wanted: Any

    def __init__(self, *, input_layouts: Any = None, desired_input_layouts: Any = None, input_kwarg_layouts: Any = None,
                 desired_input_kwarg_layouts: Any = None, use_local_output: bool = False) -> None:  # fmt: skip
        self.given, self.wanted = _tuple(input_layouts), _tuple(desired_input_layouts)
        self.named, self.named_wanted = input_kwarg_layouts or {}, desired_input_kwarg_layouts or {}
        self.use_local_output = use_local_output
        if len(self.given) != len(self.wanted) or set(self.named) != set(self.named_wanted):
            raise ValueError(
                "PrepareModuleInput: expected a desired layout for every layout, got "
                f"{self.given}, {self.wanted}, {sorted(self.named)}, {sorted(self.named_wanted)}"
            )

    def _one(self, x, mesh, layout, wanted):
        if layout is None:
            return x
        x = _as_dtensor(x, mesh, layout)
        return _leave(x, wanted, self.use_local_output) if wanted is not None else x

    def _apply(self, module, device_mesh):
        def enter(module, args, kwargs):
            if self.given != (None,) and len(args) != len(self.given):
                raise ValueError(f"PrepareModuleInput: expected {len(self.given)} inputs, got {len(args)}")
            if self.given != (None,):
                args = tuple(self._one(x, device_mesh, g, w) for x, g, w in zip(args, self.given, self.wanted))
            for key, given in self.named.items():
                if key in kwargs:
                    kwargs = {**kwargs, key: self._one(kwargs[key], device_mesh, given, self.named_wanted[key])}
            return args, kwargs

        module.register_forward_pre_hook(enter, with_kwargs=True)
        return module


class PrepareModuleOutput(ParallelStyle):
    """Convert the outputs of a module from one layout to another.

    Args:
        output_layouts: of the outputs that come; None for what is left alone.
        desired_output_layouts: of those that leave.
        use_local_output: whether parts leave, as Tensors.

    Errors: ValueError where layouts and desired ones are not as many, or another number of outputs comes.

    >>> import torch.distributed as dist
    >>> from torch.distributed.tensor import Replicate, Shard
    >>> from torch.distributed.tensor.parallel import PrepareModuleOutput, parallelize_module
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> style = PrepareModuleOutput(output_layouts=Shard(0), desired_output_layouts=Replicate(), use_local_output=False)
    >>> layer = parallelize_module(nn.Identity(), dist.device_mesh.init_device_mesh("cpu", (1,)), style)
    >>> layer(torch.ones(2)).placements
    (Replicate(),)
    >>> dist.destroy_process_group()
    """

    given: Any
    wanted: Any

    def __init__(self, *, output_layouts: Any, desired_output_layouts: Any, use_local_output: bool = True) -> None:
        self.given, self.wanted = _tuple(output_layouts), _tuple(desired_output_layouts)
        self.use_local_output = use_local_output
        if len(self.given) != len(self.wanted):
            raise ValueError(
                f"PrepareModuleOutput: expected a desired layout for every layout, got {self.given}, {self.wanted}"
            )

    def _apply(self, module, device_mesh):
        def leave(module, inputs, outputs):
            several = _tuple(outputs)
            if len(several) != len(self.given):
                raise ValueError(f"PrepareModuleOutput: expected {len(self.given)} outputs, got {len(several)}")
            done = tuple(
                x if g is None else _leave(_as_dtensor(x, device_mesh, g), w, self.use_local_output)
                for x, g, w in zip(several, self.given, self.wanted)
            )
            return done if isinstance(outputs, tuple) else done[0]

        module.register_forward_hook(leave)
        return module


class PrepareModuleInputOutput(ParallelStyle):
    """Apply `PrepareModuleInput` and `PrepareModuleOutput` together.

    Args:
        input_layouts: of the inputs that come; None for what is left alone.
        desired_input_layouts: of those that the module gets.
        input_kwarg_layouts, desired_input_kwarg_layouts: the same by name.
        use_local_input: whether the module gets parts, as Tensors.
        output_layouts: of the outputs that come from it; None for what is left alone.
        desired_output_layouts: of those that leave.
        use_local_output: whether parts leave, as Tensors.

    >>> import torch.distributed as dist
    >>> from torch.distributed.tensor import Replicate, Shard
    >>> from torch.distributed.tensor.parallel import PrepareModuleInputOutput, parallelize_module
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> style = PrepareModuleInputOutput(
    ...     input_layouts=Shard(0), desired_input_layouts=Replicate(),
    ...     output_layouts=Replicate(), desired_output_layouts=Shard(0),
    ... )
    >>> layer = parallelize_module(nn.Identity(), dist.device_mesh.init_device_mesh("cpu", (1,)), style)
    >>> layer(torch.ones(2))
    tensor([1., 1.])
    >>> dist.destroy_process_group()
    """

    def __init__(self, *, input_layouts: Any = None, desired_input_layouts: Any = None, input_kwarg_layouts: Any = None,
                 desired_input_kwarg_layouts: Any = None, use_local_input: bool = False, output_layouts: Any,
                 desired_output_layouts: Any, use_local_output: bool = True) -> None:  # fmt: skip
        self.inputs: PrepareModuleInput = PrepareModuleInput(
            input_layouts=input_layouts, desired_input_layouts=desired_input_layouts, input_kwarg_layouts=input_kwarg_layouts,
            desired_input_kwarg_layouts=desired_input_kwarg_layouts, use_local_output=use_local_input,
        )  # fmt: skip
        self.outputs: PrepareModuleOutput = PrepareModuleOutput(
            output_layouts=output_layouts, desired_output_layouts=desired_output_layouts, use_local_output=use_local_output
        )

    def _apply(self, module, device_mesh):
        return self.outputs._apply(self.inputs._apply(module, device_mesh), device_mesh)
