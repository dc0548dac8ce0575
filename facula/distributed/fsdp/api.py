"""Define the settings of FullyShardedDataParallel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

import facula

__all__ = [
    "BackwardPrefetch",
    "CPUOffload",
    "FullOptimStateDictConfig",
    "FullStateDictConfig",
    "LocalOptimStateDictConfig",
    "LocalStateDictConfig",
    "MixedPrecision",
    "OptimStateDictConfig",
    "ShardedOptimStateDictConfig",
    "ShardedStateDictConfig",
    "ShardingStrategy",
    "StateDictConfig",
    "StateDictSettings",
    "StateDictType",
]


class ShardingStrategy(Enum):
    """Name what is sharded: parameters, gradients and optimizer state (FULL_SHARD), gradients and optimizer state
    (SHARD_GRAD_OP), nothing (NO_SHARD), or one of the first two within a machine, with replicas on others
    (HYBRID_SHARD, _HYBRID_SHARD_ZERO2).

    >>> from torch.distributed.fsdp import ShardingStrategy
    >>> ShardingStrategy.FULL_SHARD
    <ShardingStrategy.FULL_SHARD: 1>
    """

    FULL_SHARD = auto()
    SHARD_GRAD_OP = auto()
    NO_SHARD = auto()
    HYBRID_SHARD = auto()
    _HYBRID_SHARD_ZERO2 = auto()


class BackwardPrefetch(Enum):
    """Name when the next parameters of a backward pass are gathered. It is accepted without effect: they are gathered
    one module ahead.

    >>> from torch.distributed.fsdp import BackwardPrefetch
    >>> [kind.name for kind in BackwardPrefetch]
    ['BACKWARD_PRE', 'BACKWARD_POST']
    """

    BACKWARD_PRE = auto()
    BACKWARD_POST = auto()


class StateDictType(Enum):
    """Name what `state_dict` of a FullyShardedDataParallel contains: whole tensors, the parts of this process, or
    DTensors.

    >>> from torch.distributed.fsdp import StateDictType
    >>> [kind.name for kind in StateDictType]
    ['FULL_STATE_DICT', 'LOCAL_STATE_DICT', 'SHARDED_STATE_DICT']
    """

    FULL_STATE_DICT = auto()
    LOCAL_STATE_DICT = auto()
    SHARDED_STATE_DICT = auto()


@dataclass
class MixedPrecision:
    """Set the dtypes in which a FullyShardedDataParallel computes.

    Args:
        param_dtype: of gathered parameters. Default: theirs.
        reduce_dtype: in which gradients are summed. Default: param_dtype.
        buffer_dtype: of buffers of floats, which are cast once. Default: theirs.
        keep_low_precision_grads: accepted: gradients have the dtype of the parts.
        cast_forward_inputs, cast_root_forward_inputs: inputs of forward become param_dtype if one of the two is True.

    >>> from torch.distributed.fsdp import MixedPrecision
    >>> MixedPrecision(param_dtype=torch.bfloat16).cast_root_forward_inputs
    True
    """

    param_dtype: facula.dtype | None = None
    reduce_dtype: facula.dtype | None = None
    buffer_dtype: facula.dtype | None = None
    keep_low_precision_grads: bool = False
    cast_forward_inputs: bool = False
    cast_root_forward_inputs: bool = True
    _module_classes_to_ignore: Sequence[type] = (facula.nn.modules.batchnorm._BatchNorm,)


@dataclass
class CPUOffload:
    """Set whether the parts are stored on the CPU; NotImplementedError for modules on GPUs.

    Args:
        offload_params: False at first.

    >>> from torch.distributed.fsdp import CPUOffload
    >>> CPUOffload(offload_params=True)
    CPUOffload(offload_params=True)
    """

    offload_params: bool = False


@dataclass
class StateDictConfig:
    """Hold the settings that all kinds of state dicts of a model have in common.

    Args:
        offload_to_cpu: whether values are moved to the CPU.

    >>> from torch.distributed.fsdp import FullStateDictConfig, StateDictConfig
    >>> issubclass(FullStateDictConfig, StateDictConfig)
    True
    """

    offload_to_cpu: bool = False


@dataclass
class FullStateDictConfig(StateDictConfig):
    """Hold the settings of FULL_STATE_DICT, for a model.

    Args:
        offload_to_cpu: whether values are moved to the CPU.
        rank0_only: whether other processes than the first get an empty dict.

    >>> from torch.distributed.fsdp import FullStateDictConfig
    >>> FullStateDictConfig(rank0_only=True)
    FullStateDictConfig(offload_to_cpu=False, rank0_only=True)
    """

    rank0_only: bool = False


@dataclass
class LocalStateDictConfig(StateDictConfig):
    """Hold the settings of LOCAL_STATE_DICT, for a model.

    Args:
        offload_to_cpu: whether values are moved to the CPU.

    >>> from torch.distributed.fsdp import LocalStateDictConfig
    >>> LocalStateDictConfig()
    LocalStateDictConfig(offload_to_cpu=False)
    """


@dataclass
class ShardedStateDictConfig(StateDictConfig):
    """Hold the settings of SHARDED_STATE_DICT, for a model; values are always DTensors.

    Args:
        offload_to_cpu: whether values are moved to the CPU.

    >>> from torch.distributed.fsdp import ShardedStateDictConfig
    >>> ShardedStateDictConfig(offload_to_cpu=True).offload_to_cpu
    True
    """

    _use_dtensor: bool = False


@dataclass
class OptimStateDictConfig:
    """Hold the settings that all kinds of state dicts of an optimizer have in common.

    Args:
        offload_to_cpu: whether values are moved to the CPU.

    >>> from torch.distributed.fsdp import OptimStateDictConfig
    >>> OptimStateDictConfig()
    OptimStateDictConfig(offload_to_cpu=True)
    """

    offload_to_cpu: bool = True


@dataclass
class FullOptimStateDictConfig(OptimStateDictConfig):
    """Hold the settings of FULL_STATE_DICT, for an optimizer.

    Args:
        offload_to_cpu: whether values are moved to the CPU.
        rank0_only: whether other processes than the first get an empty dict.

    >>> from torch.distributed.fsdp import FullOptimStateDictConfig
    >>> FullOptimStateDictConfig(rank0_only=True)
    FullOptimStateDictConfig(offload_to_cpu=True, rank0_only=True)
    """

    rank0_only: bool = False


@dataclass
class LocalOptimStateDictConfig(OptimStateDictConfig):
    """Hold the settings of LOCAL_STATE_DICT, for an optimizer.

    Args:
        offload_to_cpu: whether values are moved to the CPU.

    >>> from torch.distributed.fsdp import LocalOptimStateDictConfig
    >>> LocalOptimStateDictConfig()
    LocalOptimStateDictConfig(offload_to_cpu=False)
    """

    offload_to_cpu: bool = False


@dataclass
class ShardedOptimStateDictConfig(OptimStateDictConfig):
    """Hold the settings of SHARDED_STATE_DICT, for an optimizer; values are always DTensors.

    Args:
        offload_to_cpu: whether values are moved to the CPU.

    >>> from torch.distributed.fsdp import ShardedOptimStateDictConfig
    >>> ShardedOptimStateDictConfig().offload_to_cpu
    True
    """

    _use_dtensor: bool = False


@dataclass
class StateDictSettings:
    """Hold the result of `FullyShardedDataParallel.get_state_dict_type`.

    Args:
        state_dict_type: a StateDictType.
        state_dict_config: the settings of the model's state dict.
        optim_state_dict_config: the settings of the optimizer's.

    >>> from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
    >>> FSDP.get_state_dict_type(nn.Linear(2, 2)).state_dict_type.name
    'FULL_STATE_DICT'
    """

    state_dict_type: StateDictType
    state_dict_config: StateDictConfig
    optim_state_dict_config: OptimStateDictConfig
