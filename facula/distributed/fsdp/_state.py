"""Convert the entries of state dicts to the form that the settings of FullyShardedDataParallel require."""

from __future__ import annotations

import facula
from facula import distributed as dist

from ..tensor import DTensor
from .api import StateDictType

_PREFIX = "_fsdp_wrapped_module."


def _grouped(group):
    """Return the parameters of a group of an optimizer."""
    return list(group["params"]) if isinstance(group, dict) else list(group)


def _converted(value, p, settings, config):
    """Return an entry as the settings want it; an optimizer's is a part without a layout, that of its parameter."""
    if not isinstance(value, facula.Tensor):
        return value
    if not isinstance(value, DTensor):
        if not isinstance(p, DTensor) or value.shape != p.to_local().shape or value.dim() == 0:
            return value
        value = DTensor._wrap(value, p._spec)
    if settings.state_dict_type is StateDictType.FULL_STATE_DICT:
        value = value.full_tensor()
    elif settings.state_dict_type is StateDictType.LOCAL_STATE_DICT:
        value = value.to_local()
    return value.cpu() if config.offload_to_cpu else value


def _part_of(value, p):
    if not isinstance(p, DTensor) or not isinstance(value, facula.Tensor) or value.dim() == 0:
        return value
    if isinstance(value, DTensor):
        return value.to_local()
    if value.shape != p.shape:
        return value
    shape, offset = p._spec.local_shape_and_offset()
    return value[tuple(slice(o, o + n) for o, n in zip(offset, shape))].clone()


def _after_state_dict(module, state_dict, prefix, local_metadata):
    """Return the names of the module inside, and values as the settings want them."""
    del local_metadata
    settings, rank0_only = module._settings, getattr(module._settings.state_dict_config, "rank0_only", False)
    for key in [key for key in state_dict if key.startswith(prefix)]:
        value = state_dict.pop(key)
        if isinstance(value, DTensor):
            value = _converted(value.detach(), None, settings, settings.state_dict_config)
        if not rank0_only or dist.get_rank() == 0:
            state_dict[prefix + key[len(prefix) :].removeprefix(_PREFIX)] = value
    return state_dict


def _before_load_state_dict(state_dict, prefix, *rest):
    for key in [key for key in state_dict if key.startswith(prefix) and not key.startswith(prefix + _PREFIX)]:
        state_dict[f"{prefix}{_PREFIX}{key[len(prefix):]}"] = state_dict.pop(key)

