"""Read what other launchers tell a process: its rank, the number of processes, and how they can find each other.

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT have precedence, whoever sets them (torchrun, Kubernetes, a loop of a
shell). Without MASTER_ADDR, the processes find each other by what their launcher provides: srun's list of nodes, the
table that mpiexec holds for its processes (PMI-1), or the folder that Open MPI's mpirun makes for a job.
"""

from __future__ import annotations

import datetime
import os
import re
import secrets
import socket
from typing import NamedTuple

from ._errors import DistStoreError
from ._store import FileStore, Store, TCPStore


class _Names(NamedTuple):
    """Hold the names of a launcher's environment variables."""

    rank: str
    size: str
    local_rank: str


# torchrun and all that imitate it; MPICH's, Intel's and other hydras' mpiexec; Open MPI's mpirun; Slurm's srun
NAMES = [
    _Names("RANK", "WORLD_SIZE", "LOCAL_RANK"),
    _Names("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
    _Names("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    _Names("SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID"),
    _Names("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"),
]

_LEAST_PORT, _PORTS = 10000, 20000  # below those that systems give to connections

_met: dict[str, Store] = {}  # by launcher: who makes its group anew finds the same store


def number(variables: list[str], name: str = "init_process_group") -> int | None:
    """Return the first of some environment variables that is there, as a number. ValueError, of function `name`, where it is
    none."""
    for variable in variables:
        if variable in os.environ:
            try:
                return int(os.environ[variable])
            except ValueError:
                raise ValueError(f"{name}: {variable} must be a number, got {os.environ[variable]!r}") from None
    return None


def local_rank() -> int | None:
    """Return the number of this process on its machine; None where no launcher tells it."""
    return number([names.local_rank for names in NAMES], "get_node_local_rank")


# ---- Slurm


def nodes_of(text: str) -> list[str]:
    """Return the nodes of a list as Slurm writes it: "a,gpu[01-03,7]-ib" is a, gpu01-ib, gpu02-ib, gpu03-ib and gpu7-ib."""
    parts = re.findall(r"(?:[^,\[\]]|\[[^\[\]]*\])+", text)
    if not parts or ",".join(parts) != text:
        raise ValueError(f"init_process_group: a list of nodes has closed brackets and no empty parts, got {text!r}")
    return [node for part in parts for node in _expanded(part, text)]


def _expanded(part: str, text: str) -> list[str]:
    before, bracket, rest = part.partition("[")
    if not bracket:
        return [part]
    inside, _, after = rest.partition("]")
    numbers = []
    for piece in inside.split(","):
        first, dash, last = piece.partition("-")
        last = last if dash else first
        if not (first.isdigit() and last.isdigit() and int(first) <= int(last) < int(first) + 1_000_000):
            raise ValueError(f"init_process_group: brackets in a list of nodes hold numbers and ranges of them, got {text!r}")
        numbers += [str(i).zfill(len(first)) for i in range(int(first), int(last) + 1)]
    ends = _expanded(after, text)
    return [before + n + end for n in numbers for end in ends]


def slurm_address() -> str:
    """Return where rank 0 of a step runs: the first node of its list."""
    for variable in ("SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"):
        if os.environ.get(variable):
            nodes = nodes_of(os.environ[variable])
            return nodes[0] if len(nodes) > 1 else "127.0.0.1"
    if "SLURM_LAUNCH_NODE_IPADDR" in os.environ:
        return os.environ["SLURM_LAUNCH_NODE_IPADDR"]
    raise ValueError("init_process_group: neither MASTER_ADDR nor SLURM_STEP_NODELIST is there")


def slurm_port() -> int:
    """Return a port that all processes of a step know, and those of other steps do not take."""
    job = number(["SLURM_JOB_ID", "SLURM_JOBID"])
    if job is None:
        raise ValueError("init_process_group: MASTER_PORT must be set where there is no SLURM_JOB_ID, got neither")
    step = number(["SLURM_STEP_ID", "SLURM_STEPID"]) or 0
    # The factor, a prime, separates the ports of consecutive jobs that have a few steps each.
    return _LEAST_PORT + (job * 31 + step) % _PORTS


def _is_a_step(rank: int, size: int) -> bool:
    return number(["SLURM_PROCID"]) == rank and number(["SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"]) == size


def _check_that_srun_started() -> None:
    """Check that srun has started this process: the script of a job has SLURM_PROCID and SLURM_NTASKS as well, and would wait
    for others that never come."""
    if "SLURM_STEP_ID" not in os.environ and "SLURM_STEPID" not in os.environ:
        raise ValueError("init_process_group: this is no step of the Slurm job (no SLURM_STEP_ID): start the program with srun")


# ---- mpiexec's table


class _Pmi:
    """Query an mpiexec by PMI-1: lines of `key=value` on the file descriptor that it passes to the process."""

    def __init__(self, fd: int, timeout: float) -> None:
        # A copy of the descriptor, because closing the socket must not close mpiexec's: an MPI library may use it
        # later.
        self._socket = socket.socket(fileno=os.dup(fd))
        self._socket.settimeout(timeout)
        self._lines = self._socket.makefile("rb")

    def ask(self, question: str, answer: str) -> dict[str, str]:
        self._socket.sendall(f"cmd={question}\n".encode())
        line = self._lines.readline().decode(errors="replace").strip()
        words = dict(word.partition("=")[::2] for word in line.split())
        if words.get("cmd") != answer or words.get("rc", "0") != "0":
            raise DistStoreError(f"init_process_group: mpiexec answers {line!r} to {question!r}")
        return words

    def close(self) -> None:
        self._lines.close()
        self._socket.close()


def _by_mpiexec(rank: int, size: int, timeout: datetime.timedelta) -> Store:
    """Rank 0 writes where its store is into mpiexec's table."""
    pmi = _Pmi(int(os.environ["PMI_FD"]), timeout.total_seconds())
    try:
        pmi.ask("init pmi_version=1 pmi_subversion=1", "response_to_init")
        table = pmi.ask("get_my_kvsname", "my_kvsname")["kvsname"]
        store = None
        if rank == 0:
            store, where = serve(number(["MPI_LOCALNRANKS"]) == size, timeout)
            pmi.ask(f"put kvsname={table} key=facula value={where}", "put_result")
        # What is put into the table is visible to others only after a barrier.
        pmi.ask("barrier_in", "barrier_out")
        if rank:
            store = connect(pmi.ask(f"get kvsname={table} key=facula", "get_result")["value"], timeout)
        pmi.ask("finalize", "finalize_ack")
    except TimeoutError:
        seconds = timeout.total_seconds()
        raise DistStoreError(f"init_process_group: not all of {size} ranks came to mpiexec's table in {seconds:g} s") from None
    finally:
        pmi.close()
    return store


def serve(alone: bool, timeout: datetime.timedelta) -> tuple[TCPStore, str]:
    """Return a store on any port of this process, and the words by which `connect` finds it.

    Args:
        alone: whether all processes are on this machine.
    """
    # The port is open to the whole network, so that processes of others must not be able to use the store.
    token = secrets.token_hex(16)
    address = "127.0.0.1" if alone else _address_for_others()
    served = TCPStore(address, 0, None, True, timeout, _token=token)
    return served, f"{address},{served.port},{token}"


def _address_for_others() -> str:
    """Return the address of the host's name, or where this is a loop (as Debian has it) that of the way to other networks."""
    address = socket.gethostbyname(socket.gethostname())
    if not address.startswith("127."):
        return address
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        try:
            s.connect(("192.0.2.1", 9))  # an address of nobody: nothing is sent
        except OSError:
            return address
        return s.getsockname()[0]


def connect(where: str, timeout: datetime.timedelta) -> TCPStore:
    """Return the store of another process."""
    address, port, token = where.split(",")
    return TCPStore(address, int(port), None, False, timeout, _token=token)


# ---- Open MPI's folder


def _by_mpirun(rank: int, size: int, timeout: datetime.timedelta) -> Store:
    needed = "init_process_group: MASTER_ADDR and MASTER_PORT must be set"
    if number(["OMPI_COMM_WORLD_LOCAL_SIZE"]) != size:
        raise ValueError(f"{needed} for several machines: mpirun -x MASTER_ADDR=... -x MASTER_PORT=...")
    folder, job = (os.environ.get(name) for name in ("PMIX_SERVER_TMPDIR", "PMIX_NAMESPACE"))
    if not folder or not job:
        raise ValueError(f"{needed}: mpirun tells no folder (PMIX_SERVER_TMPDIR)")
    return FileStore(os.path.join(folder, f"facula.{job.replace('/', '_')}"), size)


# ---- all of them


def meeting(rank: int, size: int, timeout: datetime.timedelta) -> Store | tuple[str, int] | None:
    """Return by what processes without MASTER_ADDR meet: a store, or the address and port of rank 0's; None without a launcher.

    ValueError for a launcher that does not tell enough.
    """
    if _is_a_step(rank, size):
        _check_that_srun_started()
        port = number(["MASTER_PORT"])
        return slurm_address(), slurm_port() if port is None else port
    for variable, meet in (("PMI_FD", _by_mpiexec), ("OMPI_COMM_WORLD_SIZE", _by_mpirun)):
        if variable in os.environ:
            if variable not in _met:
                _met[variable] = meet(rank, size, timeout)
            return _met[variable]
    return None
