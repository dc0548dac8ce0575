"""Call functions in other processes: workers, which are connected by `init_rpc`, call functions of each other and refer
to each other's values. `_agent.py` opens with the protocol.
"""

from __future__ import annotations

from facula._shared.on_demand import _on_demand

from . import api, backend_registry, constants, functions, options
from .api import (
    AllGatherStates,
    BackendType,
    RRef,
    WorkerInfo,
    _get_current_rpc_agent,
    _is_current_rpc_agent_set,
    _rref_context_get_debug_info,
    _set_rpc_timeout,
    get_rpc_timeout,
    get_worker_info,
    init_rpc,
    method_factory,
    new_method,
    remote,
    rpc_async,
    rpc_sync,
    shutdown,
)
from .backend_registry import backend_registered, construct_rpc_backend_options
from .options import TensorPipeRpcBackendOptions

__all__ = [
    "AllGatherStates", "api", "backend_registered", "backend_registry", "BackendType", "constants",
    "construct_rpc_backend_options", "functions", "get_rpc_timeout", "get_worker_info", "init_rpc", "is_available",
    "method_factory", "new_method", "options", "PyRRef", "remote", "rpc_async", "rpc_sync", "RRef", "shutdown",
    "TensorPipeRpcBackendOptions", "WorkerInfo",
]  # fmt: skip

PyRRef = RRef


def is_available() -> bool:
    """Return True: remote calls need nothing but sockets.

    >>> torch.distributed.rpc.is_available()
    True
    """
    return True

__getattr__ = _on_demand(__name__)
