"""List the backends, their names, and the reductions."""

from __future__ import annotations

import enum
import os
from typing import TYPE_CHECKING

import facula
from facula import _C

from . import _rendezvous

if TYPE_CHECKING:
    from typing_extensions import Self


def is_available() -> bool:
    """Return True: several processes can always be used.

    >>> torch.distributed.is_available()
    True
    """
    return True


def is_mpi_available() -> bool:
    """Return whether there is an MPI library with the standard ABI, which groups of several processes use.

    It is the one that FACULA_MPI names, one that is loaded already, that of the package `mpich`, or the system's. A group of
    one process needs none.

    >>> isinstance(torch.distributed.is_mpi_available(), bool)
    True
    """
    _rendezvous.look_for_mpi()
    return bool(_C._dist_mpi())


def is_gloo_available() -> bool:
    """Return True: "gloo" is a name for groups on the CPU, which MPI serves here.

    >>> torch.distributed.is_gloo_available()
    True
    """
    return True


def is_nccl_available() -> bool:
    """Return whether there are CUDA devices and a library of NCCL, so that `backend="nccl"` can be asked for.

    >>> isinstance(torch.distributed.is_nccl_available(), bool)
    True
    """
    return not _C._dist_why_no_nccl()


def is_ucc_available() -> bool:
    """Return False: UCC is not supported, and XCCL, which has the same function, is not either.

    >>> torch.distributed.is_ucc_available(), torch.distributed.is_xccl_available()
    (False, False)
    """
    return False


is_xccl_available = is_ucc_available


def is_backend_available(backend: str) -> bool:
    """Return whether a backend can be asked for.

    Args:
        backend: its name, in any case: "gloo" and "fake" always can, "mpi" and "nccl" where their libraries are found; of any
            other name the answer is False.

    >>> torch.distributed.is_backend_available("Gloo"), torch.distributed.is_backend_available("ucc")
    (True, False)
    """
    name = str(backend).lower()
    asked = {"gloo": True, "fake": True, "mpi": is_mpi_available, "nccl": is_nccl_available}.get(name, False)
    return asked() if callable(asked) else asked


def is_torchelastic_launched() -> bool:
    """Return whether a launcher that starts processes again (`python -m facula.distributed.run`) started this one: it looks for
    TORCHELASTIC_RUN_ID in the environment.

    >>> torch.distributed.is_torchelastic_launched()
    False
    """
    return "TORCHELASTIC_RUN_ID" in os.environ


class ReduceOp(enum.Enum):
    """Name a reduction of the values of several processes: SUM, AVG (the sum over the number of processes), PRODUCT,
    MIN, MAX, the bitwise BAND, BOR and BXOR of integers and bools, and PREMUL_SUM, which multiplies before it sums.

    Complex tensors are reduced by SUM, AVG and PREMUL_SUM only.

    >>> import torch.distributed as dist
    >>> dist.init_process_group("gloo", rank=0, world_size=1)
    >>> x = torch.tensor([2.0, 5.0])
    >>> dist.all_reduce(x, op=dist.ReduceOp.MAX)
    >>> x
    tensor([2., 5.])
    >>> dist.destroy_process_group()
    """

    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = range(9)


class PremulSum:
    """Sum values that are multiplied by `factor` first.

    Args:
        factor: a number.
    """

    name: str = "PREMUL_SUM"
    value: int = ReduceOp.PREMUL_SUM.value

    def __init__(self, factor: float) -> None:
        self.factor: float = float(factor)


_make_nccl_premul_sum = PremulSum
ReduceOp.RedOpType = ReduceOp  # the type of its members has a name of its own in PyTorch
reduce_op = ReduceOp


def supports_complex(reduceOp: ReduceOp | PremulSum) -> bool:
    """Return whether complex tensors can be reduced so.

    Args:
        reduceOp: a ReduceOp.

    >>> torch.distributed.supports_complex(torch.distributed.ReduceOp.SUM)
    True
    >>> torch.distributed.supports_complex(torch.distributed.ReduceOp.MAX)
    False
    """
    return reduceOp not in (ReduceOp.MAX, ReduceOp.MIN, ReduceOp.PRODUCT, ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)


class Backend(str):
    """Name a backend, as a str in lower case.

    Args:
        name: "gloo", "mpi", "nccl" or "fake", or one for each kind of device, "cpu:gloo,cuda:nccl". That a name is known does
            not mean that it can be used (see `is_backend_available`).

    Errors: ValueError for a name that is not known, or that is no str.

    >>> torch.distributed.Backend("NCCL")
    'nccl'
    >>> torch.distributed.Backend.GLOO
    'gloo'
    """

    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, FAKE = "undefined", "gloo", "nccl", "ucc", "mpi", "xccl", "fake"
    backend_list: list[str] = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map: dict[str, str] = {"cpu": GLOO, "cuda": NCCL}
    backend_capability: dict[str, list[str]] = {
        GLOO: ["cpu", "cuda"], NCCL: ["cuda"], MPI: ["cpu", "cuda"], FAKE: ["cpu", "cuda"],
    }  # fmt: skip

    def __new__(cls, name: str) -> Self:
        if not isinstance(name, str):
            raise ValueError(f"Backend: expected a str, got {type(name).__name__}")
        known = all(part.rpartition(":")[2] in cls.backend_list for part in name.lower().split(","))
        if not known:
            raise ValueError(f"Backend: a name must be {_C._one_of(name, cls.backend_list)}")
        return super().__new__(cls, name.lower())


class BackendConfig:
    """Map each kind of device to the backend that moves its tensors.

    Args:
        backend: such as "gloo", which is meant for all kinds of devices, or "cpu:gloo,cuda:nccl".

    Errors: ValueError for an unknown name, and for two backends of one kind of device.

    >>> config = torch.distributed.BackendConfig("cpu:gloo,cuda:nccl")
    >>> config.get_device_backend_map()
    {'cpu': 'gloo', 'cuda': 'nccl'}
    >>> torch.distributed.BackendConfig("gloo")
    cpu:gloo,cuda:gloo
    """

    def __init__(self, backend: str) -> None:
        parts = str(Backend(str(backend))).split(",")
        if ":" in parts[0]:
            pairs = [part.partition(":") for part in parts]
            self.device_backend_map: dict[str, Backend] = {kind: Backend(name) for kind, _, name in pairs}
            if len(self.device_backend_map) != len(pairs):
                raise ValueError(f"BackendConfig: expected a backend for each kind of device, got {backend!r}")
        else:
            kinds = ("cuda",) if parts[0] == "nccl" else ("cpu", "cuda")
            self.device_backend_map = dict.fromkeys(kinds, Backend(parts[0]))

    def __repr__(self) -> str:
        return ",".join(f"{kind}:{name}" for kind, name in self.device_backend_map.items())

    def get_device_backend_map(self) -> dict[str, Backend]:
        """Return {kind of device: its backend}."""
        return self.device_backend_map


def get_default_backend_for_device(device: facula.device | str) -> str:
    """Return the backend that moves tensors of a device where none is asked for: "nccl" for CUDA devices, else "gloo".

    Args:
        device: a torch.device, or its name. RuntimeError for a name that is not known.

    >>> torch.distributed.get_default_backend_for_device("cpu")
    'gloo'
    """
    return "nccl" if facula.device(device).type == "cuda" else "gloo"
