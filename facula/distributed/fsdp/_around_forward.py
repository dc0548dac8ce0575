"""Define the hooks that run before and after the forward of a module that `fully_shard` has sharded."""

from __future__ import annotations

import facula
from facula import _C

from ._param_group import pack, unpack


def _before_forward(module, args, kwargs):
    _mark_inside(module)
    group, policy = module._fsdp_group, module._fsdp_policy
    if not module._fsdp_inside:
        module._fsdp_passes.begin_forward()
    if policy.param_dtype is not None and policy.cast_forward_inputs:
        args, kwargs = _cast((args, kwargs), policy.param_dtype)
    # What this call has done, for the hook after forward: calls of one module may be nested (checkpoints run it again).
    pushed = gathers = False
    if group is not None:
        gathers, group.by_hand = group.by_hand or not group.is_gathered, False
        group.unshard()
        module._fsdp_passes.after_gather_in_forward(group)
        if group.reshard and facula.is_grad_enabled():
            _C._push_saved_hooks(pack, unpack)
            pushed = True
    module._fsdp_calls.append((pushed, gathers))
    return args, kwargs


def _mark_inside(module) -> None:
    """Mark what is inside: the outermost module keeps its parameters between forward and backward: they are needed again at
    once."""
    if module._fsdp_inside is not None:
        return
    module._fsdp_inside = False
    passes = module._fsdp_passes
    for m in module.modules():
        if not hasattr(m, "_fsdp_policy") or m is module:  # FSDPModules have one
            continue
        if m._fsdp_group is not None:
            if m._fsdp_inside is False and not m._fsdp_reshard_given:  # it has run alone before
                m._fsdp_group.reshard = True
            if m._fsdp_group.passes is not passes:
                m._fsdp_group.join(passes)
        m._fsdp_inside, m._fsdp_passes = True, passes
    if not module._fsdp_reshard_given and module._fsdp_group is not None:
        module._fsdp_group.reshard = False


def _after_forward(module, args, output):
    if not module._fsdp_calls:
        return None
    pushed, gathers = module._fsdp_calls.pop()
    if pushed:
        _C._pop_saved_hooks()
    if gathers:
        module._fsdp_group.end_forward()
    if not module._fsdp_inside:
        module._fsdp_passes.end_forward()
    dtype = module._fsdp_policy.output_dtype
    return _cast(output, dtype) if dtype is not None else None


def _cast(value, dtype):
    if isinstance(value, facula.Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, dict):
        return {k: _cast(v, dtype) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_cast(v, dtype) for v in value)
    return value
