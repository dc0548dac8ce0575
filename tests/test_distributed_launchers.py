"""Launchers of others: mpiexec, mpirun, srun, Kubernetes, a loop of a shell."""

import datetime
import os
import shutil
import subprocess
import sys
import time

import pytest
from distributed_ranks import free_port, needs_mpi

import facula.distributed as dist
from facula.distributed import _launchers

TOLD = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_", "PMI", "MPI_", "OMPI_", "SLURM_", "TORCHELASTIC_", "FACULA_STORE", "FACULA_DIST")
CLEAN = {name: value for name, value in os.environ.items() if not name.startswith(TOLD)}
CLEAN["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
MPIEXEC = shutil.which("mpiexec.hydra", path=os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")]))

JOB = """
import sys, facula, facula.distributed as dist
for again in range(2):
    dist.init_process_group()
    t = facula.full((3,), float(dist.get_rank() + 1))
    dist.all_reduce(t)
    sys.stdout.write(f"{dist.get_rank()} of {dist.get_world_size()}, {dist.get_node_local_rank()} here: {t.tolist()}\\n")
    sys.stdout.flush()
    dist.destroy_process_group()
"""
SAID = sorted(2 * ["0 of 2, 0 here: [3.0, 3.0, 3.0]", "1 of 2, 1 here: [3.0, 3.0, 3.0]"])


def ends(processes):
    """What they print, sorted; all must end well."""
    done = [process.communicate(timeout=120) for process in processes]
    assert all(process.returncode == 0 for process in processes), done
    return sorted(line for out, _ in done for line in out.splitlines())


def start(code, **environment):
    command = [sys.executable, "-c", code]
    return subprocess.Popen(command, env={**CLEAN, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run_two(environment_of, **common):
    return ends([start(JOB, **common, **{name: str(value) for name, value in environment_of(rank).items()}) for rank in range(2)])


@needs_mpi
@pytest.mark.skipif(not MPIEXEC, reason="no mpiexec (pip install mpich brings one)")
def test_mpiexec():
    command = [MPIEXEC, "-launcher", "fork", "-n", "2", sys.executable, "-c", JOB]
    done = subprocess.run(command, env=CLEAN, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and sorted(done.stdout.splitlines()) == SAID, done.stdout + done.stderr


@needs_mpi
def test_mpirun_of_open_mpi_on_one_machine(tmp_path):
    def told(rank):
        return {
            "OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": 2, "OMPI_COMM_WORLD_LOCAL_RANK": rank, "OMPI_COMM_WORLD_LOCAL_SIZE": 2,
            "PMIX_NAMESPACE": "prterun-host-1@1", "PMIX_RANK": rank, "PMIX_SERVER_TMPDIR": tmp_path,
        }  # fmt: skip

    assert run_two(told) == SAID


def step(rank, **more):
    """What srun tells a process of a step with two of them on one node."""
    return {
        "SLURM_PROCID": str(rank), "SLURM_NTASKS": "8", "SLURM_STEP_NUM_TASKS": "2", "SLURM_LOCALID": str(rank), "SLURM_STEP_ID": "3",
        "SLURM_JOB_ID": str(os.getpid()), "SLURM_STEP_NODELIST": "node07", "SLURM_NODELIST": "node[06-07]",
        "SLURM_LAUNCH_NODE_IPADDR": "192.0.2.1", **more,
    }  # fmt: skip


@needs_mpi
def test_srun():
    assert run_two(step, PMIX_NAMESPACE="slurm.pmix.1.0") == SAID  # as srun --mpi=pmix


@needs_mpi
def test_kubernetes():
    def told(rank):  # as its operators for PyTorch do
        return {"RANK": rank, "WORLD_SIZE": 2, "LOCAL_RANK": rank, "MASTER_ADDR": "localhost", "MASTER_PORT": port, "PET_NNODES": 2}

    port = free_port()
    assert run_two(told, KUBERNETES_SERVICE_HOST="10.0.0.1") == SAID


@needs_mpi
def test_a_loop_of_a_shell():
    loop = 'for i in 0 1; do RANK=$i LOCAL_RANK=$i WORLD_SIZE=2 "$0" -c "$1" & done; wait'
    environment = {**CLEAN, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
    done = subprocess.run(["sh", "-c", loop, sys.executable, JOB], env=environment, capture_output=True, text=True, timeout=120)
    assert sorted(done.stdout.splitlines()) == SAID, done.stderr


# ---- what they tell


@pytest.fixture
def told(monkeypatch):
    """Sets what a launcher tells, and nothing else."""
    for name in os.environ:
        if name not in CLEAN:
            monkeypatch.delenv(name)

    def tell(**environment):
        for name, value in environment.items():
            monkeypatch.setenv(name, value)

    return tell


@pytest.mark.parametrize("text, nodes", [
    ("node", "node"), ("a,b", "a b"), ("node[01-03,7]", "node01 node02 node03 node7"), ("n[9-11]", "n9 n10 n11"),
    ("r[1-2]n[05,08]-ib,x", "r1n05-ib r1n08-ib r2n05-ib r2n08-ib x"), ("a,b[2],c[098-100]", "a b2 c098 c099 c100"),
])  # fmt: skip
def test_lists_of_nodes(text, nodes):
    assert _launchers.nodes_of(text) == nodes.split()


@pytest.mark.parametrize("text", ["", "a,,b", "a[", "a]", "a[1-", "a[1-2", "a[]", "a[2-1]", "a[x]", "a[1,]", "a[0-99999999]"])
def test_what_is_no_list_of_nodes(text):
    with pytest.raises(ValueError, match="^init_process_group: .*list of nodes.*got "):
        _launchers.nodes_of(text)


def meeting(rank=0, size=2):
    return _launchers.meeting(rank, size, datetime.timedelta(seconds=1))


def test_where_a_step_of_slurm_meets(told):
    told(**step(0))
    address, port = meeting()
    assert address == "127.0.0.1" and 10000 <= port < 30000
    told(SLURM_STEP_ID="4")
    assert meeting()[1] != port
    told(MASTER_PORT="4711", SLURM_STEP_NODELIST="gpu[03-04]")
    assert meeting() == ("gpu03", 4711)
    told(SLURM_STEP_NODELIST="", SLURM_JOB_NODELIST="b,c")
    assert meeting()[0] == "b"


def test_a_step_without_a_list(told):
    told(SLURM_PROCID="1", SLURM_NTASKS="2", SLURM_STEP_ID="0", SLURM_LAUNCH_NODE_IPADDR="192.0.2.1", SLURM_JOB_ID="5")
    assert meeting(1)[0] == "192.0.2.1"


@pytest.mark.parametrize("environment, text", [
    ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_JOB_ID": "5"}, "start the program with srun"),
    ({**step(0), "SLURM_JOB_ID": ""}, "SLURM_JOB_ID must be a number, got ''"),
    ({"SLURM_PROCID": "0", "SLURM_NTASKS": "2", "SLURM_STEP_ID": "0", "SLURM_NODELIST": "a"}, "MASTER_PORT must be set where there is no SLURM_JOB_ID"),
    ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "1"}, "mpirun -x MASTER_ADDR"),
    ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, "PMIX_SERVER_TMPDIR"),
    ({"PMI_RANK": "0", "PMI_SIZE": "2"}, "needs the environment variable MASTER_ADDR"),
    ({"PMI_RANK": "none", "PMI_SIZE": "2"}, "PMI_RANK must be a number, got 'none'"),
    ({"RANK": "0", "WORLD_SIZE": "2"}, "needs the environment variable MASTER_ADDR"),
])  # fmt: skip
def test_what_is_missing_is_said(told, environment, text):
    told(**environment)
    with pytest.raises(ValueError, match=f"^init_process_group: .*{text}"):
        dist.init_process_group()
    assert not dist.is_initialized()


def test_local_ranks(told):
    with pytest.raises(RuntimeError, match="^get_node_local_rank: "):
        dist.get_node_local_rank()
    assert dist.get_node_local_rank(4) == 4
    told(SLURM_LOCALID="1")
    assert dist.get_node_local_rank(4) == 1
    told(LOCAL_RANK="2")
    assert dist.get_node_local_rank() == 2
    told(LOCAL_RANK="x")
    with pytest.raises(ValueError, match="^get_node_local_rank: LOCAL_RANK must be a number, got 'x'"):
        dist.get_node_local_rank()


def test_a_table_that_does_not_answer(told):
    import socket

    ours, theirs = socket.socketpair()
    with ours, theirs:
        told(PMI_FD=str(theirs.fileno()), PMI_RANK="0", PMI_SIZE="2")
        with pytest.raises(dist.DistStoreError, match="^init_process_group: not all of 2 ranks came to mpiexec's table in 1 s"):
            meeting()
        ours.sendall(b"cmd=response_to_init rc=1\n")
        with pytest.raises(dist.DistStoreError, match="^init_process_group: mpiexec answers 'cmd=response_to_init rc=1'"):
            meeting()


def test_a_name_that_is_not_known_yet(told):
    def seconds():
        begin = time.monotonic()
        with pytest.raises(dist.DistNetworkError, match="the address 'nobody.invalid' is not known"):
            dist.TCPStore("nobody.invalid", 29500, 2, False, datetime.timedelta(seconds=2))
        return time.monotonic() - begin

    told(KUBERNETES_SERVICE_HOST="10.0.0.1")
    assert seconds() >= 2


def test_what_packages_ask_a_backend():
    assert dist.Backend.default_device_backend_map == {"cpu": "gloo", "cuda": "nccl"}
    assert dist.Backend.backend_capability["gloo"] == ["cpu", "cuda"] and dist.Backend.backend_capability["nccl"] == ["cuda"]
