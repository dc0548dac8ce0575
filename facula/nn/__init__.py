"""Define neural networks: modules, their parameters, functions, initializers and utilities."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula._shared.on_demand import _on_demand

from . import attention, common_types, functional, init, modules, parallel, parameter, utils
from .modules import *  # noqa: F403
from .parallel import DataParallel as DataParallel
from .parameter import Buffer as Buffer
from .parameter import Parameter as Parameter
from .parameter import UninitializedBuffer as UninitializedBuffer
from .parameter import UninitializedParameter as UninitializedParameter

from . import grad  # isort: skip

if TYPE_CHECKING:
    from typing import Any

    from . import intrinsic, qat, quantized


if not TYPE_CHECKING:
    __getattr__ = _on_demand(__name__, ("intrinsic", "qat", "quantized"))  # old names of what stands in ao.nn


def factory_kwargs(kwargs: Any) -> dict[Any, Any]:
    """Return the arguments ``device``, ``dtype`` and ``memory_format`` out of keyword arguments, for functions that make
    tensors.

    Args:
        kwargs: a dict; it may have them in a dict of its own under ``factory_kwargs``. None stands for an empty one.

    Errors: TypeError for other names and for one that is given twice.

    >>> nn.factory_kwargs({"dtype": torch.float64})
    {'dtype': torch.float64}
    """
    if kwargs is None:
        return {}
    simple = {"device", "dtype", "memory_format"}
    unknown = kwargs.keys() - simple - {"factory_kwargs"}
    if unknown:
        raise TypeError(f"factory_kwargs: takes {sorted(simple)}, got {sorted(unknown)}")
    result = dict(kwargs.get("factory_kwargs", {}))
    for key in simple & kwargs.keys():
        if key in result:
            raise TypeError(f"factory_kwargs: {key} is given twice, got {result[key]} and {kwargs[key]}")
        result[key] = kwargs[key]
    return result
