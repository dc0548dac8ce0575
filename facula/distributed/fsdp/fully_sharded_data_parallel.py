"""Define FullyShardedDataParallel, the older interface of `fully_shard`: a wrapper around a module.

Parameters are DTensors with the names of the module inside, as `use_orig_params=True` has them in PyTorch.

Long because PyTorch has the wrapper and its set-up in one file of this name.
"""

from __future__ import annotations

import contextlib
import os
from enum import Enum, auto
from typing import TYPE_CHECKING

import facula
from facula import distributed as dist
from facula.nn import Module

from ..device_mesh import DeviceMesh
from ..tensor import DTensor
from ._fully_shard import fully_shard
from ._param_group import MixedPrecisionPolicy
from ._state import _PREFIX, _after_state_dict, _before_load_state_dict, _converted, _grouped, _part_of
from .api import (
    BackwardPrefetch,
    CPUOffload,
    FullOptimStateDictConfig,
    FullStateDictConfig,
    LocalOptimStateDictConfig,
    LocalStateDictConfig,
    MixedPrecision,
    ShardedOptimStateDictConfig,
    ShardedStateDictConfig,
    ShardingStrategy,
    StateDictSettings,
    StateDictType,
)
from .wrap import CustomPolicy, ModuleWrapPolicy, auto_wrap

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from typing_extensions import Self

    from facula.distributed._group import ProcessGroup
    from facula.optim.optimizer import Optimizer

__all__ = ["FullyShardedDataParallel", "OptimStateKeyType"]


# ---- From the arguments of FullyShardedDataParallel to what it spreads


def _mesh(process_group, strategy, kind):
    if isinstance(process_group, tuple):
        shards, replicas = process_group
        ranks, rows = dist.get_process_group_ranks(shards), dist.get_process_group_ranks(replicas)
        table = facula.full((len(rows), len(ranks)), -1, dtype=facula.int64)
        everybody: list = [None] * dist.get_world_size()
        dist.all_gather_object(everybody, (rows.index(dist.get_rank()), ranks))
        for row, columns in everybody:
            table[row] = facula.tensor(columns)
        return DeviceMesh.from_group([replicas, shards], kind, table, mesh_dim_names=("replicas", "shards"))
    hybrid = strategy in (ShardingStrategy.HYBRID_SHARD, ShardingStrategy._HYBRID_SHARD_ZERO2)
    ranks = dist.get_process_group_ranks(process_group)
    if strategy is ShardingStrategy.NO_SHARD or hybrid:
        inside = int(os.environ.get("LOCAL_WORLD_SIZE", len(ranks))) if hybrid else 1
        return DeviceMesh(kind, facula.tensor(ranks).view(-1, inside), mesh_dim_names=("replicas", "shards"))
    group = process_group if process_group is not None else dist.group.WORLD
    return DeviceMesh.from_group(group, kind, mesh_dim_names=("shards",))


def _device(module, device_id):
    """Return (the device to move to, if one is given, the kind of device)."""
    if device_id is None:
        return None, next((p.device.type for p in module.parameters() if not p.is_meta), "cpu")
    device = facula.device(f"cuda:{device_id}" if isinstance(device_id, int) else device_id)
    return device, device.type


def _ignored_parameters(module, ignored_modules, ignored_states):
    found = set()
    for entry in [*(ignored_modules or ()), *(ignored_states or ())]:
        found.update(entry.parameters() if isinstance(entry, Module) else [entry])
    return found & set(module.parameters())


def _materialize(module, param_init_fn, device) -> None:
    for m in module.modules():
        if any(t is not None and t.is_meta for t in [*m._parameters.values(), *m._buffers.values()]):
            if param_init_fn is not None:
                param_init_fn(m)
            else:
                m.to_empty(device=device or "cpu", recurse=False)
                m.reset_parameters()
    if device is not None:
        module.to(device)


def _sync(module, ignored, mesh) -> None:
    with facula.no_grad():
        for t in [*module.parameters(), *module.buffers()]:
            if t not in ignored and not isinstance(t, DTensor):
                for number in range(mesh.ndim):
                    group = mesh.get_group(number)
                    dist.broadcast(t.detach(), dist.get_global_rank(group, 0), group=group)


def _policy(mixed_precision):
    if mixed_precision is None:
        return MixedPrecisionPolicy()
    cast = mixed_precision.cast_forward_inputs or mixed_precision.cast_root_forward_inputs
    return MixedPrecisionPolicy(mixed_precision.param_dtype, mixed_precision.reduce_dtype, None, cast)


_CONFIGS = {
    StateDictType.FULL_STATE_DICT: (FullStateDictConfig, FullOptimStateDictConfig),
    StateDictType.LOCAL_STATE_DICT: (LocalStateDictConfig, LocalOptimStateDictConfig),
    StateDictType.SHARDED_STATE_DICT: (ShardedStateDictConfig, ShardedOptimStateDictConfig),
}


class OptimStateKeyType(Enum):
    """Name how an optimizer's state_dict identifies parameters: by their names in the model, or by numbers.

    >>> from torch.distributed.fsdp import OptimStateKeyType
    >>> [kind.name for kind in OptimStateKeyType]
    ['PARAM_NAME', 'PARAM_ID']
    """

    PARAM_NAME = auto()
    PARAM_ID = auto()


class FullyShardedDataParallel(Module):
    """Shard the parameters of a module over processes. Inner modules that a policy selects are gathered separately.

    Parameters are DTensors with the names of the inner module, as `use_orig_params=True` has them in PyTorch. Pass
    `parameters()` of the wrapper to the optimizer.

    Args:
        module: the module, changed in place.
        process_group: the processes, or a pair (shards, replicas) for hybrid strategies. Default: all.
        sharding_strategy: what is spread. Default: FULL_SHARD.
        auto_wrap_policy: which modules inside are wrapped. See `facula.distributed.fsdp.wrap`.
        mixed_precision: dtypes.
        ignored_modules, ignored_states: modules, and modules or parameters, that are left alone.
        param_init_fn: called with modules that have parameters on the meta device.
        device_id: a device to move the module to.
        sync_module_states: whether values are taken from rank 0.
        device_mesh: processes in one dimension, or (replicas, shards), in the place of process_group.
        cpu_offload: NotImplementedError where parts of a module on GPUs are to be on the CPU.
        backward_prefetch, forward_prefetch, limit_all_gathers, use_orig_params: accepted; parameters always keep their names.

    Errors: TypeError for what is no Module, ValueError for one that is wrapped already.

    >>> import torch.distributed as dist
    >>> from torch.distributed.fsdp import FullyShardedDataParallel as FSDP, OptimStateKeyType, StateDictType
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> model = FSDP(nn.Linear(4, 2))
    >>> optimizer = torch.optim.Adam(model.parameters())
    >>> with model.no_sync():
    ...     model(torch.ones(1, 4)).sum().backward()
    >>> model(torch.ones(1, 4)).sum().backward()
    >>> model.clip_grad_norm_(1.0)
    tensor(6.3246)
    >>> optimizer.step()
    >>> {name: tuple(value.shape) for name, value in model.state_dict().items()}
    {'weight': (2, 4), 'bias': (2,)}
    >>> with FSDP.summon_full_params(model):
    ...     type(model.weight) is torch.Tensor
    True
    >>> model.check_is_root(), len(FSDP.fsdp_modules(model))
    (True, 1)

    State dicts of the model and the optimizer:

    >>> with FSDP.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
    ...     type(model.state_dict()["weight"]).__name__
    'DTensor'
    >>> FSDP.set_state_dict_type(model, StateDictType.FULL_STATE_DICT).state_dict_type == StateDictType.FULL_STATE_DICT
    True
    >>> FSDP.get_state_dict_type(model).state_dict_config
    FullStateDictConfig(offload_to_cpu=False, rank0_only=False)
    >>> saved = FSDP.optim_state_dict(model, optimizer)
    >>> list(saved["state"])
    ['weight', 'bias']
    >>> optimizer.load_state_dict(FSDP.optim_state_dict_to_load(model, optimizer, saved))
    >>> whole = FSDP.full_optim_state_dict(model, optimizer)
    >>> list(FSDP.rekey_optim_state_dict(whole, OptimStateKeyType.PARAM_ID, model, optim=optimizer)["state"])
    [0, 1]
    >>> optimizer.load_state_dict(FSDP.shard_full_optim_state_dict(whole, model, optim=optimizer))
    >>> optimizer.load_state_dict(FSDP.scatter_full_optim_state_dict(whole, model, optim=optimizer))
    >>> dist.destroy_process_group()
    """

    def __init__(self, module: Module, process_group: ProcessGroup | None = None,
                 sharding_strategy: ShardingStrategy | None = None, cpu_offload: CPUOffload | None = None,
                 auto_wrap_policy: Any = None, backward_prefetch: Any = BackwardPrefetch.BACKWARD_PRE,
                 mixed_precision: MixedPrecision | None = None, ignored_modules: Any = None, param_init_fn: Any = None,
                 device_id: Any = None, sync_module_states: bool = False, forward_prefetch: bool = False,
                 limit_all_gathers: bool = True, use_orig_params: bool = False, ignored_states: Any = None,
                 device_mesh: DeviceMesh | None = None) -> None:  # fmt: skip
        super().__init__()
        if not isinstance(module, Module):
            raise TypeError(f"FullyShardedDataParallel: the module has to be an nn.Module, got {type(module).__name__}")
        if isinstance(module, FullyShardedDataParallel):
            raise ValueError("FullyShardedDataParallel: the module is wrapped already, got a FullyShardedDataParallel")
        strategy = sharding_strategy or ShardingStrategy.FULL_SHARD
        device, kind = _device(module, device_id)
        if cpu_offload is not None and cpu_offload.offload_params and kind != "cpu":
            raise NotImplementedError("FullyShardedDataParallel: cpu_offload is for the CPU, got offload_params=True")
        mesh = device_mesh if device_mesh is not None else _mesh(process_group, strategy, kind)
        ignored = _ignored_parameters(module, ignored_modules, ignored_states)
        if auto_wrap_policy is not None:
            options = {
                "sharding_strategy": strategy, "mixed_precision": mixed_precision, "device_mesh": mesh,
                "ignored_states": list(ignored), "param_init_fn": param_init_fn, "device_id": device_id,
                "sync_module_states": sync_module_states, "cpu_offload": cpu_offload,
            }  # fmt: skip
            policy = auto_wrap_policy if callable(auto_wrap_policy) or isinstance(auto_wrap_policy, CustomPolicy) \
                else ModuleWrapPolicy(auto_wrap_policy)  # fmt: skip
            auto_wrap(module, policy, FullyShardedDataParallel, set(ignored_modules or ()), options)
        _materialize(module, param_init_fn, device)
        self._strategy, self._mesh = strategy, mesh
        if sync_module_states:
            _sync(module, ignored, mesh)
        reshard = strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.HYBRID_SHARD)
        self._fsdp_wrapped_module = fully_shard(
            module, mesh=mesh, reshard_after_forward=True if reshard else False, mp_policy=_policy(mixed_precision),
            ignored_params=ignored,
        )  # fmt: skip
        if mixed_precision is not None and mixed_precision.buffer_dtype is not None:
            for m in module.modules():
                for name, b in m._buffers.items():
                    if b is not None and b.is_floating_point():
                        m._buffers[name] = b.to(mixed_precision.buffer_dtype)
        self._settings = StateDictSettings(StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig())
        self._register_state_dict_hook(_after_state_dict)
        self._register_load_state_dict_pre_hook(_before_load_state_dict)

    @property
    def module(self) -> Any:
        """The module inside."""
        return self._fsdp_wrapped_module

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("_fsdp_wrapped_module"), name)

    def __getitem__(self, key: Any) -> Any:
        return self._fsdp_wrapped_module[key]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._fsdp_wrapped_module(*args, **kwargs)

    # ---- names

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Yield (name, parameter) pairs, with the names of the module inside.

        Args:
            args, kwargs: those of `Module.named_parameters`.
        """
        for name, p in super().named_parameters(*args, **kwargs):
            yield name.replace(_PREFIX, ""), p

    def named_buffers(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        """Yield (name, buffer) pairs, with the names of the module inside.

        Args:
            args, kwargs: those of `Module.named_buffers`.
        """
        for name, b in super().named_buffers(*args, **kwargs):
            yield name.replace(_PREFIX, ""), b

    # ---- training

    def _groups(self):
        return self._fsdp_wrapped_module._fsdp_groups()

    def check_is_root(self) -> bool:
        """Return whether no other wrapper is around this one, as far as forwards have shown."""
        return not self._fsdp_wrapped_module._fsdp_inside

    @contextlib.contextmanager
    def no_sync(self):
        """Keep gradients whole in backward passes inside the block, to be summed by the next one outside."""
        groups = self._groups()
        for group in groups:
            group.sync = False
        try:
            yield
        finally:
            for group in groups:
                group.sync = True

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> Any:
        """Scale all gradients down so that their norm is not above `max_norm`; give the norm over all processes, as it was.

        Args:
            max_norm: the largest norm.
            norm_type: which norm.

        Returns: a 0-d tensor, the norm before.
        """
        norm = facula.nn.utils.clip_grad_norm_(self.parameters(), max_norm, norm_type)
        return norm.full_tensor() if isinstance(norm, DTensor) else norm

    def apply(self, fn: Callable[..., Any]) -> Self:
        """Apply a function to this module and all inside, with whole parameters, whose changes last.

        Args:
            fn: `fn(module)`.
        """
        with self.summon_full_params(self):
            return super().apply(fn)

    def register_comm_hook(self, state: dict[str, Any], hook: Callable[..., Any]) -> None:
        """Raise NotImplementedError: this is not supported.

        Args:
            state, hook: not looked at.

        >>> torch.distributed.fsdp.FullyShardedDataParallel.register_comm_hook(None, None, None)
        Traceback (most recent call last):
        NotImplementedError: register_comm_hook: FullyShardedDataParallel has no hooks, got None and None
        """
        raise NotImplementedError(f"register_comm_hook: FullyShardedDataParallel has no hooks, got {hook} and {state}")

    # ---- the model as a whole

    @staticmethod
    def fsdp_modules(module: Module, root_only: bool = False) -> list[FullyShardedDataParallel]:
        """Return the wrappers in a module, itself included.

        Args:
            module: the module.
            root_only: whether only those are meant that no other is around.
        """
        found = [m for m in module.modules() if isinstance(m, FullyShardedDataParallel)]
        if not root_only:
            return found
        inside = {id(i) for m in found for i in m.modules() if i is not m}
        return [m for m in found if id(m) not in inside]

    @staticmethod
    @contextlib.contextmanager
    def summon_full_params(
        module: Module, recurse: bool = True, writeback: bool = True, rank0_only: bool = False, offload_to_cpu: bool = False,
        with_grads: bool = False,
    ):  # fmt: skip
        """Return a context in which modules have whole parameters. All processes enter it.

        Args:
            module: the module.
            recurse: also those of wrappers inside.
            writeback: whether changes last.
            rank0_only, offload_to_cpu: accepted: parameters are whole in every process, on their device.
            with_grads: False; NotImplementedError for True, and for `rank0_only` with `writeback`.
        """
        if with_grads:
            raise NotImplementedError("summon_full_params: with_grads is not supported, got True")
        if writeback and rank0_only:
            raise NotImplementedError("summon_full_params: rank0_only with writeback is not supported, got both")
        wrappers = FullyShardedDataParallel.fsdp_modules(module)
        if not recurse:
            wrappers = [module] if isinstance(module, FullyShardedDataParallel) else []
        groups = [w._fsdp_wrapped_module._fsdp_group for w in wrappers if w._fsdp_wrapped_module._fsdp_group is not None]
        groups = [group for group in groups if not group.is_gathered]
        with facula.no_grad():
            for group in groups:
                group.unshard()
        try:
            yield
        finally:
            for group in groups:
                if writeback:
                    group.write_back()
                group.shard()

    @staticmethod
    def set_state_dict_type(module: Module, state_dict_type: StateDictType, state_dict_config: Any = None,
                            optim_state_dict_config: Any = None) -> StateDictSettings:  # fmt: skip
        """Choose what `state_dict` holds; give the settings from before.

        Args:
            module: the model: all wrappers in it.
            state_dict_type: a StateDictType.
            state_dict_config, optim_state_dict_config: settings of the model's and the optimizer's state dicts; RuntimeError
                for those of another type.

        Returns: the StateDictSettings from before.
        """
        kinds = _CONFIGS[state_dict_type]
        for value, kind in zip((state_dict_config, optim_state_dict_config), kinds):
            if value is not None and type(value) is not kind:
                raise RuntimeError(f"set_state_dict_type: expected a {kind.__name__}, got {type(value).__name__}")
        before = FullyShardedDataParallel.get_state_dict_type(module)
        settings = StateDictSettings(state_dict_type, state_dict_config or kinds[0](), optim_state_dict_config or kinds[1]())
        for wrapper in FullyShardedDataParallel.fsdp_modules(module):
            wrapper._settings = settings
        return before

    @staticmethod
    def get_state_dict_type(module: Module) -> StateDictSettings:
        """Return what `state_dict` holds, a StateDictSettings.

        Args:
            module: the model; the first wrapper in it tells.
        """
        found = FullyShardedDataParallel.fsdp_modules(module)
        return found[0]._settings if found else StateDictSettings(
            StateDictType.FULL_STATE_DICT, FullStateDictConfig(), FullOptimStateDictConfig())  # fmt: skip

    @staticmethod
    @contextlib.contextmanager
    def state_dict_type(module: Module, state_dict_type: StateDictType, state_dict_config: Any = None,
                        optim_state_dict_config: Any = None):  # fmt: skip
        """Return a context in which `state_dict` holds something else.

        Args:
            module: the model: all wrappers in it.
            state_dict_type: a StateDictType.
            state_dict_config, optim_state_dict_config: settings of the model's and the optimizer's state dicts.
        """
        wrappers = FullyShardedDataParallel.fsdp_modules(module)
        before = [wrapper._settings for wrapper in wrappers]
        FullyShardedDataParallel.set_state_dict_type(module, state_dict_type, state_dict_config, optim_state_dict_config)
        try:
            yield
        finally:
            for wrapper, settings in zip(wrappers, before):
                wrapper._settings = settings

    @staticmethod
    def optim_state_dict(model: Module, optim: Optimizer, optim_state_dict: dict[str, Any] | None = None,
                         group: ProcessGroup | None = None) -> dict[Any, Any]:  # fmt: skip
        """Return an optimizer's state by names of parameters: whole tensors, or parts as the model's `state_dict` has them.

        Args:
            model: the model.
            optim: its optimizer.
            optim_state_dict: a state of it, in the place of `optim.state_dict()`.
            group: accepted.
        """
        del group
        settings = FullyShardedDataParallel.get_state_dict_type(model)
        names = {id(p): name.replace(_PREFIX, "") for name, p in model.named_parameters()}
        saved = optim_state_dict or optim.state_dict()
        numbers = [n for g in saved["param_groups"] for n in g["params"]]
        parameters = dict(zip(numbers, (p for g in optim.param_groups for p in g["params"])))
        result: dict[Any, Any] = {"state": {}, "param_groups": []}
        for number, values in saved["state"].items():
            p = parameters[number]
            config = settings.optim_state_dict_config
            result["state"][names[id(p)]] = {k: _converted(v, p, settings, config) for k, v in values.items()}
        for g in saved["param_groups"]:
            result["param_groups"].append({**g, "params": [names[id(parameters[n])] for n in g["params"]]})
        rank0_only = getattr(settings.optim_state_dict_config, "rank0_only", False)
        return {} if rank0_only and dist.get_rank() != 0 else result

    @staticmethod
    def optim_state_dict_to_load(model: Module, optim: Optimizer, optim_state_dict: dict[str, Any],
                                 is_named_optimizer: bool = False, load_directly: bool = False,
                                 group: ProcessGroup | None = None) -> dict[Any, Any]:  # fmt: skip
        """Return what `optim.load_state_dict` takes, of what `optim_state_dict` gave; every process needs the whole.

        Args:
            model: the model.
            optim: its optimizer.
            optim_state_dict: what was saved.
            is_named_optimizer: whether the optimizer knows parameters by names.
            load_directly: whether the optimizer loads it at once.
            group: accepted.
        """
        del group
        named = {name.replace(_PREFIX, ""): p for name, p in model.named_parameters()}
        number = {id(p): n for n, p in enumerate(p for g in optim.param_groups for p in g["params"])}
        key = (lambda name: name) if is_named_optimizer else (lambda name: number[id(named[name])])
        result: dict[Any, Any] = {"state": {}, "param_groups": []}
        for name, values in optim_state_dict["state"].items():
            result["state"][key(name)] = {k: _part_of(v, named[name]) for k, v in values.items()}
        for g in optim_state_dict["param_groups"]:
            result["param_groups"].append({**g, "params": [key(name) for name in g["params"]]})
        if load_directly:
            optim.load_state_dict(result)
        return result

    @staticmethod
    def rekey_optim_state_dict(optim_state_dict: dict[str, Any], optim_state_key_type: Any, model: Module,
                               optim_input: Any = None, optim: Optimizer | None = None) -> dict[str, Any]:  # fmt: skip
        """Return an optimizer's state with parameters called by names in place of numbers, or the other way round.

        Args:
            optim_state_dict: a state by numbers (of a model that is not wrapped) or by names.
            optim_state_key_type: what it is to be by, an `OptimStateKeyType`.
            model: whose parameters they are.
            optim_input: what the optimizer was given, parameters or groups of them; default: the model's parameters.
            optim: the optimizer, in place of `optim_input`.

        Returns: a new state; one that is so already keeps its keys.

        Errors: ValueError for parameters that the model does not have and for keys of both kinds; TypeError for another type of
        keys.
        """
        if not isinstance(optim_state_key_type, OptimStateKeyType):
            raise TypeError(f"rekey_optim_state_dict: an OptimStateKeyType is needed, got {optim_state_key_type!r}")
        given = [g["params"] for g in optim.param_groups] if optim is not None else list(optim_input or model.parameters())
        flat = [p for each in given for p in ([each] if isinstance(each, facula.Tensor) else _grouped(each))]
        names = {id(p): name.replace(_PREFIX, "") for name, p in model.named_parameters()}
        if len(names) < len(flat) or not all(id(p) in names for p in flat):
            raise ValueError(f"rekey_optim_state_dict: parameters of the model are needed, got {len(flat)} and other ones")
        by_name = optim_state_key_type is OptimStateKeyType.PARAM_NAME
        keys = [*optim_state_dict["state"], *(key for g in optim_state_dict["param_groups"] for key in g["params"])]
        if all(isinstance(key, str if by_name else int) for key in keys):
            return {**optim_state_dict}
        numbered = [names[id(p)] for p in flat]
        new = dict(enumerate(numbered)) if by_name else {name: number for number, name in enumerate(numbered)}
        if not all(key in new for key in keys):
            raise ValueError(f"rekey_optim_state_dict: keys of the model's parameters are needed, got {keys}")
        groups = [{**g, "params": sorted(new[key] for key in g["params"])} for g in optim_state_dict["param_groups"]]
        return {"state": {new[key]: values for key, values in optim_state_dict["state"].items()}, "param_groups": groups}

    @staticmethod
    def full_optim_state_dict(model: Module, optim: Optimizer, optim_input: Any = None, rank0_only: bool = True,
                              group: ProcessGroup | None = None) -> dict[Any, Any]:  # fmt: skip
        """Return an optimizer's state by names, whole.

        Args:
            model: the model.
            optim: its optimizer.
            optim_input: accepted.
            rank0_only: whether other processes than the first get an empty dict.
            group: accepted.
        """
        del optim_input
        config = FullOptimStateDictConfig(rank0_only=rank0_only)
        with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, None, config):
            return FullyShardedDataParallel.optim_state_dict(model, optim, group=group)

    @staticmethod
    def shard_full_optim_state_dict(full_optim_state_dict: Any, model: Module, optim_input: Any = None,
                                    optim: Optimizer | None = None) -> dict[Any, Any]:  # fmt: skip
        """Return what `optim.load_state_dict` takes, of what `full_optim_state_dict` gave.

        Args:
            full_optim_state_dict: what was saved, in every process.
            model: the model.
            optim_input: accepted.
            optim: its optimizer.
        """
        del optim_input
        return FullyShardedDataParallel.optim_state_dict_to_load(model, optim, full_optim_state_dict)

    @staticmethod
    def scatter_full_optim_state_dict(full_optim_state_dict: Any, model: Module, optim_input: Any = None,
                                      optim: Optimizer | None = None, group: ProcessGroup | None = None) -> dict[Any, Any]:
        """Return what `optim.load_state_dict` takes, of what `full_optim_state_dict` gave the first process.

        Args:
            full_optim_state_dict: what was saved; only the first process needs it.
            model: the model.
            optim_input: accepted.
            optim: its optimizer.
            group: the processes. Default: all.
        """
        del optim_input
        told = [full_optim_state_dict]
        dist.broadcast_object_list(told, src=0, group=group)
        return FullyShardedDataParallel.optim_state_dict_to_load(model, optim, told[0])
