"""Define DataParallel, which splits one batch over several devices in one process."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import facula

from ..modules.module import Module
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter_kwargs

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor
    from facula.types import Device

__all__ = ["DataParallel", "data_parallel"]


def _device_index(device) -> int:
    if isinstance(device, int):
        return device
    device = facula.device(device)
    return device.index if device.index is not None else facula.cuda.current_device()


class DataParallel(Module):
    """Run a module on every GPU with a part of the batch; without GPUs just call the module.

    Args:
        module: the module; it is found under ``.module``.
        device_ids: the GPUs. Default: all.
        output_device: the device on which the results are joined. Default: the first GPU.
        dim: the batch dimension.

    Shapes: those of the module; tensors are cut along dim.

    Errors: RuntimeError for no GPUs in device_ids, and, at a call, for parameters that are not on the first GPU.

    `DistributedDataParallel`, with a process for each GPU, is faster.

    >>> model = nn.DataParallel(nn.Linear(2, 1))
    >>> model(torch.ones(4, 2)).shape, type(model.module).__name__
    (torch.Size([4, 1]), 'Linear')
    """

    def __init__(self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Device = None,
                 dim: int = 0) -> None:  # fmt: skip
        super().__init__()
        self.module = module
        self.device_ids: list[Any] = []
        self.dim = dim
        if not facula.cuda.is_available():
            return
        if device_ids is None:
            device_ids = list(range(facula.cuda.device_count()))
        if not device_ids:
            raise RuntimeError("DataParallel: no CUDA device was found, got an empty device_ids")
        self.device_ids = [_device_index(d) for d in device_ids]
        self.output_device: int = _device_index(self.device_ids[0] if output_device is None else output_device)
        self.src_device_obj: facula.device = facula.device("cuda", self.device_ids[0])
        if len(self.device_ids) == 1:
            self.module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Tensor:
        if not self.device_ids:
            return self.module(*inputs, **kwargs)
        for t in chain(self.module.parameters(), self.module.buffers()):
            if t.device != self.src_device_obj:
                raise RuntimeError(
                    f"DataParallel: parameters and buffers must be on {self.src_device_obj}, got {t.device}"
                )
        args, keywords = self.scatter(inputs, kwargs, self.device_ids)
        if not args:
            args, keywords = ((),), ({},)
        if len(self.device_ids) == 1:
            return self.module(*args[0], **keywords[0])
        replicas = self.replicate(self.module, self.device_ids[: len(args)])
        return self.gather(self.parallel_apply(replicas, args, keywords), self.output_device)

    def replicate(self, module: Module, device_ids: Sequence[Any]) -> list[Any]:
        """Return copies of a module on the devices.

        Args:
            module: the module.
            device_ids: the devices.

        >>> model = nn.DataParallel(nn.Linear(2, 1))
        >>> len(model.replicate(model.module, ["cpu", "cpu"]))
        2
        """
        return replicate(module, device_ids, not facula.is_grad_enabled())

    def scatter(self, inputs: Any, kwargs: Any, device_ids: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return the parts of the arguments for each device: two tuples of the positional ones and those by name.

        Args:
            inputs: a tuple.
            kwargs: a dict.
            device_ids: the devices.

        >>> model = nn.DataParallel(nn.Linear(2, 1))
        >>> args, keywords = model.scatter((torch.ones(4, 2),), {}, ["cpu", "cpu"])
        >>> [part.shape for (part,) in args], keywords
        ([torch.Size([2, 2]), torch.Size([2, 2])], ({}, {}))
        """
        return scatter_kwargs(inputs, kwargs, device_ids, dim=self.dim)

    def parallel_apply(self, replicas: Any, inputs: Any, kwargs: Any) -> list[Any]:
        """Return the results of the replicas.

        Args:
            replicas: as `replicate` gives them.
            inputs: a tuple of arguments for each.
            kwargs: a dict of arguments by name for each.

        >>> model = nn.DataParallel(nn.Identity())
        >>> model.device_ids = ["cpu"]
        >>> model.parallel_apply([model.module], [(torch.ones(1),)], [{}])
        [tensor([1.])]
        """
        return parallel_apply(replicas, inputs, kwargs, self.device_ids[: len(replicas)])

    def gather(self, outputs: Any, output_device: Device) -> Any:
        """Return the results, joined along the batch dimension.

        Args:
            outputs: a list of them.
            output_device: where they are joined.

        >>> model = nn.DataParallel(nn.Identity())
        >>> model.gather([torch.ones(1), torch.zeros(1)], "cpu")
        tensor([1., 0.])
        """
        return gather(outputs, output_device, dim=self.dim)


def data_parallel(module: Module, inputs: Any, device_ids: Sequence[Any] | None = None, output_device: Device = None,
                  dim: int = 0, module_kwargs: dict[str, Any] | None = None) -> Any:  # fmt: skip
    """Make one call of a module as `DataParallel` would make it.

    Args:
        module: the module.
        inputs: a tuple of arguments, one argument, or None.
        device_ids: the GPUs. Default: all.
        output_device: the device on which the results are joined. Default: the first GPU.
        dim: the batch dimension.
        module_kwargs: arguments by name.

    Returns: what the module returns, joined along dim.

    Errors: those of `DataParallel`.

    >>> nn.parallel.data_parallel(nn.Identity(), torch.ones(4, 2)).shape
    torch.Size([4, 2])
    """
    inputs = inputs if isinstance(inputs, tuple) else (() if inputs is None else (inputs,))
    return DataParallel(module, device_ids, output_device, dim)(*inputs, **(module_kwargs or {}))
