"""Get and set state dicts of models and optimizers with the names of the plain model, whatever wraps it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import facula
from facula import distributed as dist

from ..fsdp._state import _part_of
from ..tensor import DTensor, Replicate
from ..tensor._redistribute import redistribute

if TYPE_CHECKING:
    from facula.nn.modules.module import Module

__all__ = [
    "StateDictOptions",
    "get_model_state_dict",
    "get_optimizer_state_dict",
    "get_state_dict",
    "set_model_state_dict",
    "set_optimizer_state_dict",
    "set_state_dict",
]

# what annotations of PyTorch's programs name
FQNS_T = set[str]
PrimitiveType = DTensor | facula.Tensor | int | float | str
ValueType = PrimitiveType | list[PrimitiveType] | tuple[PrimitiveType, ...] | dict[str, Any]
DictValueType = dict[str, ValueType]
ListDictValueType = list[DictValueType]
OptimizerStateType = dict[str, DictValueType | ListDictValueType]

_WRAPPERS = ("_fsdp_wrapped_module.", "_orig_mod.", "_checkpoint_wrapped_module.")


@dataclass
class StateDictOptions:
    """Hold the options of state dicts.

    Args:
        full_state_dict: whole tensors instead of DTensors.
        cpu_offload: on the CPU; with full_state_dict only in the first process.
        ignore_frozen_params: without parameters that need no gradient.
        keep_submodule_prefixes: accepted.
        strict: as for `load_state_dict`.
        broadcast_from_rank0: the first process has what is loaded.
        flatten_optimizer_state_dict: the optimizer's as one dict, with keys such as "state.weight.exp_avg".
        dsd_fqn_modifiers: accepted.

    >>> from torch.distributed.checkpoint.state_dict import StateDictOptions, get_model_state_dict
    >>> model = nn.Linear(2, 1)
    >>> model.bias = model.bias.requires_grad_(False)
    >>> list(get_model_state_dict(model, options=StateDictOptions(ignore_frozen_params=True)))
    ['weight']
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    keep_submodule_prefixes: bool = True
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False
    dsd_fqn_modifiers: str = "_fqn_modifiers"


class _Incompatible(NamedTuple):
    missing_keys: list[Any]
    unexpected_keys: list[Any]


def _clean(name: str, model) -> str:
    for wrapper in _WRAPPERS:
        name = name.replace(wrapper, "")
    parts, module = [], model
    for part in name.split("."):
        wraps = type(module).__name__ in ("DistributedDataParallel", "DataParallel") and part == "module"
        if not wraps:
            parts.append(part)
        module = getattr(module, part, None)
    return ".".join(parts)


def _names(model) -> dict:
    """Return {name in the plain model: name in the model}."""
    found = [n for n, _ in model.named_parameters()] + list(facula.nn.Module.state_dict(model, keep_vars=True))
    return {_clean(name, model): name for name in found}


def _values(model) -> dict:
    """Return {name in the plain model: parameter or buffer}, as `state_dict` chooses them."""
    from ..fsdp import FullyShardedDataParallel, StateDictType

    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        return {_clean(name, model): value for name, value in model.state_dict(keep_vars=True).items()}


def _is_first() -> bool:
    return not dist.is_initialized() or dist.get_rank() == 0


def _shown(value, options):
    if not isinstance(value, facula.Tensor):
        return value
    value = value.detach()
    if options.full_state_dict and isinstance(value, DTensor):
        value = value.full_tensor()
    return value.cpu() if options.cpu_offload and not isinstance(value, DTensor) else value


def get_model_state_dict(model: Module, *, submodules: Any = None, options: Any = None) -> dict[Any, Any]:
    """Return the model's state by names of the plain model, whatever is wrapped around it or its modules.

    Args:
        model: the model.
        submodules: None; NotImplementedError for others.
        options: a StateDictOptions.

    >>> from torch.distributed.checkpoint.state_dict import get_model_state_dict
    >>> list(get_model_state_dict(nn.DataParallel(nn.Linear(2, 1))))
    ['weight', 'bias']
    """
    options = options or StateDictOptions()
    if submodules:
        raise NotImplementedError("get_model_state_dict: submodules are not supported, got some")
    frozen = {_clean(n, model) for n, p in model.named_parameters() if not p.requires_grad}
    result = {}
    for name, value in _values(model).items():
        if not (options.ignore_frozen_params and name in frozen):
            result[name] = _shown(value, options)
    return {} if options.full_state_dict and options.cpu_offload and not _is_first() else result


def set_model_state_dict(model: Module, model_state_dict: dict[str, Any], *, options: Any = None) -> Any:
    """Load what `get_model_state_dict` gave; whole tensors are cut as the model's are.

    Args:
        model: the model, changed in place.
        model_state_dict: a state by names of the plain model.
        options: a StateDictOptions.

    Returns: (missing_keys, unexpected_keys).

    Errors: RuntimeError for another shape, and with `strict` for missing or further names.

    >>> from torch.distributed.checkpoint.state_dict import set_model_state_dict
    >>> model = nn.Linear(2, 1)
    >>> set_model_state_dict(model, {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}).missing_keys
    []
    >>> model.weight.detach()
    tensor([[1., 1.]])
    """
    options = options or StateDictOptions()
    if options.broadcast_from_rank0:
        model_state_dict = _told(model_state_dict)
    own = _values(model)
    missing = [name for name in own if name not in model_state_dict]
    unexpected = [name for name in model_state_dict if name not in own]
    if options.strict and (missing or unexpected):
        raise RuntimeError(
            f"set_model_state_dict: expected the names of the model, got {missing} missing and {unexpected} besides"
        )
    with facula.no_grad():
        for name, value in own.items():
            if name in model_state_dict and isinstance(value, facula.Tensor):
                _put(name, value.detach(), model_state_dict[name])
    return _Incompatible(missing, unexpected)


def _put(name, target, value) -> None:
    if tuple(target.shape) != tuple(value.shape):
        raise RuntimeError(f"set_model_state_dict: {name} has shape {tuple(target.shape)}, got {tuple(value.shape)}")
    if isinstance(target, DTensor) and isinstance(value, DTensor):
        target.to_local().copy_(redistribute(value.to_local(), value._spec, target.placements))
    elif isinstance(value, DTensor):
        target.copy_(value.full_tensor())
    else:
        target.copy_(value)


def _told(value):
    """Return what the first process has."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return value
    told = [value]
    dist.broadcast_object_list(told, src=0)
    return told[0]


def _optimizers(optimizers):
    return list(optimizers) if isinstance(optimizers, (list, tuple)) else [optimizers]


def _init_optim_state(optimizer) -> None:
    """Give an optimizer that has not stepped yet the state that it will have, by a step that changes nothing."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if optimizer.state or any(p.grad is not None for p in parameters):
        return
    rates = [group["lr"] for group in optimizer.param_groups if "lr" in group]
    # Without a rate that can be zero the step would change the parameters.
    if len(rates) != len(optimizer.param_groups):
        return
    for p in parameters:
        if p.requires_grad:
            p.grad = facula.zeros_like(p)
    for group, rate in zip(optimizer.param_groups, rates):
        group["lr"] = facula.zeros_like(rate) if isinstance(rate, facula.Tensor) else 0.0
    optimizer.step()
    for group, rate in zip(optimizer.param_groups, rates):
        group["lr"] = rate
    optimizer.zero_grad(set_to_none=True)


def get_optimizer_state_dict(model: Module, optimizers: Any, *, submodules: Any = None, options: Any = None) -> dict[Any, Any]:
    """Return the optimizers' state by names of the plain model: {"state": {name: ...}, "param_groups": [...]}. An optimizer
    that has not stepped yet gets the state that it will have.

    Args:
        model: the model.
        optimizers: its optimizer, or several.
        submodules: None; NotImplementedError for others.
        options: a StateDictOptions.

    >>> from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
    >>> model = nn.Linear(2, 1)
    >>> state = get_optimizer_state_dict(model, torch.optim.Adam(model.parameters()))
    >>> state["param_groups"][0]["params"], list(state["state"]["bias"])
    (['weight', 'bias'], ['step', 'exp_avg', 'exp_avg_sq'])
    """
    options = options or StateDictOptions()
    if submodules:
        raise NotImplementedError("get_optimizer_state_dict: submodules are not supported, got some")
    names = {id(p): _clean(n, model) for n, p in model.named_parameters()}
    result: dict[Any, Any] = {"state": {}, "param_groups": []}
    for optimizer in _optimizers(optimizers):
        _init_optim_state(optimizer)
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p in optimizer.state:
                    state = optimizer.state[p]
                    result["state"][names[id(p)]] = {k: _shown(_as_parameter(v, p), options) for k, v in state.items()}
            saved = {k: v for k, v in group.items() if k != "params"}
            result["param_groups"].append({**saved, "params": [names[id(p)] for p in group["params"]]})
    if options.flatten_optimizer_state_dict:
        result = _flat(result)
    return {} if options.full_state_dict and options.cpu_offload and not _is_first() else result


def _as_parameter(value, p):
    """Return a part of an optimizer's state that lies as its parameter does."""
    if not isinstance(value, facula.Tensor) or isinstance(value, DTensor) or not isinstance(p, DTensor):
        return value
    # Scalars, such as the number of steps, are equal in all processes.
    if value.dim() == 0 or value.shape != p.to_local().shape:
        return value
    spec = p._spec.with_placements(q if not q.is_partial() else Replicate() for q in p.placements)
    return DTensor._wrap(value, spec)


def _flat(state) -> dict:
    flat = {f"state.{name}.{k}": v for name, values in state["state"].items() for k, v in values.items()}
    for group in state["param_groups"]:
        for name in group["params"]:
            flat.update({f"param_groups.{name}.{k}": v for k, v in group.items() if k != "params"})
    return flat


def _unflat(flat, names, groups) -> dict:
    result: dict[Any, Any] = {"state": {}, "param_groups": []}
    for key, value in flat.items():
        if key.startswith("state."):
            name, _, field = key[len("state.") :].rpartition(".")
            result["state"].setdefault(name, {})[field] = value
    for members in groups:
        first = f"param_groups.{members[0]}."
        options = {k[len(first) :]: v for k, v in flat.items() if k.startswith(first) and "." not in k[len(first) :]}
        result["param_groups"].append({**options, "params": members})
    del names
    return result


def set_optimizer_state_dict(model: Module, optimizers: Any, optim_state_dict: dict[str, Any], *, options: Any = None) -> None:
    """Load what `get_optimizer_state_dict` gave.

    Args:
        model: the model.
        optimizers: its optimizer, or several.
        optim_state_dict: the state, flattened or not. RuntimeError where a group of parameters is missing.
        options: a StateDictOptions.

    >>> from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict, set_optimizer_state_dict
    >>> model = nn.Linear(2, 1)
    >>> state = get_optimizer_state_dict(model, torch.optim.Adam(model.parameters(), lr=0.5))
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> set_optimizer_state_dict(model, optimizer, state)
    >>> optimizer.param_groups[0]["lr"]
    0.5
    """
    options = options or StateDictOptions()
    if options.broadcast_from_rank0:
        optim_state_dict = _told(optim_state_dict)
    names = {id(p): _clean(n, model) for n, p in model.named_parameters()}
    for optimizer in _optimizers(optimizers):
        groups = [[names[id(p)] for p in g["params"]] for g in optimizer.param_groups]
        saved = optim_state_dict if "param_groups" in optim_state_dict else _unflat(optim_state_dict, names, groups)
        by_member = {name: g for g in saved["param_groups"] for name in g["params"]}
        local: dict[Any, Any] = {"state": {}, "param_groups": []}
        number = 0
        for group, members in zip(optimizer.param_groups, groups):
            numbers = []
            for p, name in zip(group["params"], members):
                if name in saved["state"]:
                    local["state"][number] = {k: _part_of(v, p) for k, v in saved["state"][name].items()}
                numbers.append(number)
                number += 1
            found = by_member.get(members[0]) if members else None
            if members and found is None:
                raise RuntimeError(f"set_optimizer_state_dict: no group of the state has this parameter, got {members[0]!r}")
            options_of = {k: v for k, v in (found or group).items() if k != "params"}
            local["param_groups"].append({**options_of, "params": numbers})
        optimizer.load_state_dict(local)


def get_state_dict(model: Module, optimizers: Any, *, submodules: Any = None,
                   options: Any = None) -> tuple[dict[Any, Any], dict[Any, Any]]:  # fmt: skip
    """Return (the model's state, the optimizers'), by names of the plain model.

    Args:
        model: the model.
        optimizers: its optimizer, or several.
        submodules: None; NotImplementedError for others.
        options: a StateDictOptions.

    >>> from torch.distributed.checkpoint.state_dict import get_state_dict
    >>> model = nn.Linear(2, 1)
    >>> model_state, optimizer_state = get_state_dict(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    >>> list(model_state), list(optimizer_state)
    (['weight', 'bias'], ['state', 'param_groups'])
    """
    return (
        get_model_state_dict(model, submodules=submodules, options=options),
        get_optimizer_state_dict(model, optimizers, submodules=submodules, options=options),
    )


def set_state_dict(model: Module, optimizers: Any, *, model_state_dict: dict[str, Any], optim_state_dict: dict[str, Any],
                   options: Any = None) -> Any:  # fmt: skip
    """Load what `get_state_dict` gave.

    Args:
        model: the model, changed in place.
        optimizers: its optimizer, or several.
        model_state_dict, optim_state_dict: the two states.
        options: a StateDictOptions.

    Returns: (missing_keys, unexpected_keys) of the model.

    >>> from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    >>> model = nn.Linear(2, 1)
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> saved, steps = get_state_dict(model, optimizer)
    >>> set_state_dict(model, optimizer, model_state_dict=saved, optim_state_dict=steps).unexpected_keys
    []
    """
    result = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return result
