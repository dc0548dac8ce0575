"""List the transports of remote calls, of which there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from facula._shared.on_demand import _on_demand

from . import constants
from .api import BackendType
from .options import TensorPipeRpcBackendOptions

if TYPE_CHECKING:
    from typing import Any

__all__ = ["BackendType", "backend_registered", "construct_rpc_backend_options"]


def backend_registered(backend_name: str) -> bool:
    """Return whether there is a way of that name.

    Args:
        backend_name: "TENSORPIPE" is the only one.

    >>> torch.distributed.rpc.backend_registered("TENSORPIPE")
    True
    """
    return backend_name in BackendType.__members__


def construct_rpc_backend_options(backend: BackendType, rpc_timeout: float = constants.DEFAULT_RPC_TIMEOUT_SEC,
                                  init_method: str = constants.DEFAULT_INIT_METHOD,
                                  **kwargs: Any) -> TensorPipeRpcBackendOptions:  # fmt: skip
    """Return the options of a way, as a TensorPipeRpcBackendOptions.

    Args:
        backend: BackendType.TENSORPIPE; TypeError for anything else.
        rpc_timeout: seconds that a call may take.
        init_method: how workers find each other.
        kwargs: further options.

    Errors: TypeError for another backend.

    >>> from torch.distributed import rpc
    >>> rpc.construct_rpc_backend_options(rpc.BackendType.TENSORPIPE, rpc_timeout=5.0).rpc_timeout
    5.0
    """
    if backend is not BackendType.TENSORPIPE:
        raise TypeError(f"construct_rpc_backend_options: backend is BackendType.TENSORPIPE, got {backend!r}")
    return TensorPipeRpcBackendOptions(rpc_timeout=rpc_timeout, init_method=init_method, **kwargs)

__getattr__ = _on_demand(__name__)
