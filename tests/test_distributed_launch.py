"""The launcher: environment, output, failures, restarts, machines that come and go. Long because each is a program of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest
from distributed_ranks import needs_mpi

from facula.distributed import HashStore
from facula.distributed.elastic import multiprocessing as workers
from facula.distributed.elastic.agent.server import LocalElasticAgent
from facula.distributed.elastic.rendezvous import RendezvousParameters, rendezvous_handler_registry
from facula.distributed.elastic.utils import address_of, is_this_machine, read_settings
from facula.distributed.launcher.api import LaunchConfig, elastic_launch
from facula.distributed.run import config_from_args, determine_local_world_size, parse_args, parse_min_max_nnodes

ENVIRONMENT = {**{k: v for k, v in os.environ.items() if k != "OMP_NUM_THREADS"}, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


def command(*options, module="facula.distributed.run"):
    return [sys.executable, "-m", module, *options]


def launch(folder, program, *options, code=0, module="facula.distributed.run", arguments=(), **environment):
    (folder / "program.py").write_text(program)
    started = command(*options, "program.py", *arguments, module=module)
    done = subprocess.run(started, cwd=folder, env={**ENVIRONMENT, **environment}, capture_output=True, text=True, timeout=100)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def start(folder, program, *options):
    (folder / "program.py").write_text(program)
    return subprocess.Popen(
        command(*options, "program.py"), cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_until(true, seconds=60):
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


NAMES = "RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_NAME ROLE_WORLD_SIZE".split()
SAY = "import os, json, sys; open('said' + os.environ['RANK'], 'w').write(json.dumps([dict(os.environ), sys.argv]))\n"


def said(folder, rank):
    return json.loads((folder / f"said{rank}").read_text())


def test_what_processes_are_told(tmp_path):
    launch(tmp_path, SAY, "--standalone", "--nproc-per-node", "2", arguments=["--lr", "1"])
    for rank in range(2):
        environment, arguments = said(tmp_path, rank)
        assert [environment[name] for name in NAMES] == [str(rank), str(rank), "2", "2", "0", "1", str(rank), "default", "2"]
        assert environment["TORCHELASTIC_RESTART_COUNT"] == "0" and environment["TORCHELASTIC_USE_AGENT_STORE"] == "True"
        assert int(environment["OMP_NUM_THREADS"]) == max(1, len(os.sched_getaffinity(0)) // 2)
        assert environment["MASTER_ADDR"] == "localhost" and int(environment["MASTER_PORT"]) > 0
        assert arguments == ["program.py", "--lr", "1"]
    assert said(tmp_path, 0)[0]["TORCHELASTIC_RUN_ID"] == said(tmp_path, 1)[0]["TORCHELASTIC_RUN_ID"]


def test_programs_are_pytorch_programs(tmp_path):
    (tmp_path / "job.py").write_text("import sys, torch; print(torch.ones(2).sum().item(), sys.argv[1:])")
    done = subprocess.run(
        command("--master-port", str(free_port()), "-m", "job", "--x"), cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stdout == "2.0 ['--x']\n", done.stderr


def test_torchs_own_name_for_it(tmp_path):
    arguments = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "program.py"]
    launch(tmp_path, SAY, *arguments[:-1], module="facula")
    assert said(tmp_path, 1)[0]["RANK"] == "1"


def test_the_older_launcher_tells_the_rank_by_an_argument(tmp_path):
    launch(tmp_path, SAY, "--nproc_per_node=2", "--master_port", str(free_port()), module="facula.distributed.launch")
    assert said(tmp_path, 1)[1] == ["program.py", "--local-rank=1"]


def test_programs_that_are_not_python(tmp_path):
    done = subprocess.run(
        command("--master-port", str(free_port()), "--no-python", "sh", "-c", "echo rank $RANK of $WORLD_SIZE"),
        cwd=tmp_path, env=ENVIRONMENT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stdout == "rank 0 of 1\n" and done.returncode == 0


FAILS = """
import os, time
if os.environ["RANK"] == "1":
    raise ValueError("the cause")
time.sleep(100)
"""


def test_the_first_failure_is_shown_with_its_traceback(tmp_path):
    begin = time.monotonic()
    done = launch(tmp_path, FAILS, "--standalone", "--nproc-per-node", "2", "--log-dir", "logs", code=1)
    assert time.monotonic() - begin < 30  # nobody waited for the one that sleeps
    summary = done.stderr[done.stderr.index("====") :]
    assert "program.py failed" in summary and "rank 1 (local rank 1" in summary
    assert 'program.py", line 4, in <module>' in summary and "ValueError: the cause" in summary
    assert "launcher" not in summary and "then rank" not in summary


def test_a_process_that_is_killed_is_named(tmp_path):
    program = "import os, signal, time\nif os.environ['RANK'] == '0': os.kill(os.getpid(), signal.SIGKILL)\ntime.sleep(100)"
    done = launch(tmp_path, program, "--standalone", "--nproc-per-node", "2", code=1)
    assert "rank 0 (local rank 0" in done.stderr and "signal 9 (SIGKILL)" in done.stderr


def test_restarts(tmp_path):
    program = SAY + "if os.environ['TORCHELASTIC_RESTART_COUNT'] != '2': sys.exit(3)"
    done = launch(tmp_path, program, "--standalone", "--max-restarts", "2", "--nproc-per-node", "2")
    assert done.stdout.count("starting the processes of this machine again") == 2
    assert said(tmp_path, 0)[0]["TORCHELASTIC_RESTART_COUNT"] == "2"
    done = launch(tmp_path, "import sys; sys.exit(3)", "--standalone", "--max-restarts", "1", code=1)
    assert "exit code 3" in done.stderr


@needs_mpi
def test_groups_of_processes_that_are_started_again(tmp_path):
    program = """
import os, torch, torch.distributed as dist
dist.init_process_group()
t = torch.full((3,), float(dist.get_rank() + 1))
dist.all_reduce(t)
assert t.tolist() == [3.0] * 3
if os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and dist.get_rank() == 1:
    os.kill(os.getpid(), 9)
dist.barrier()
print("all here", flush=True)
dist.destroy_process_group()
"""
    done = launch(tmp_path, program, "--standalone", "--nproc-per-node=2", "--max-restarts=1")
    assert done.stdout.count("all here") == 2 and "rank 1 failed: signal 9" in done.stdout


@pytest.mark.slow
@needs_mpi
def test_training_goes_on_after_a_kill_as_if_there_had_been_none(tmp_path):
    program = """
import os, sys, torch, torch.distributed as dist
dist.init_process_group()
rank, first = dist.get_rank(), os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
step = 0
if os.path.exists("state"):
    model_state, optimizer_state, step = torch.load("state")
    model.load_state_dict(model_state)
    optimizer.load_state_dict(optimizer_state)
for step in range(step, 6):
    if sys.argv[1] == "kill" and first and step == 3 and rank == 1:
        os.kill(os.getpid(), 9)
    x = torch.randn(8, 4, generator=torch.Generator().manual_seed(2 * step + rank))
    loss = (model(x) - x.sum(1, keepdim=True)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    dist.all_reduce(loss.detach_())
    if rank == 0:
        print(f"loss {step} {loss.item():.9g}", flush=True)
        torch.save([model.state_dict(), optimizer.state_dict(), step + 1], "new")
        os.replace("new", "state")
dist.destroy_process_group()
"""
    curves = []
    for how in ("kill", "none"):
        (tmp_path / how).mkdir()
        done = launch(tmp_path / how, program, "--standalone", "--nproc-per-node=2", "--max-restarts=1", arguments=[how])
        curves.append([line for line in done.stdout.splitlines() if line.startswith("loss")])
    assert len(curves[1]) == 6 and curves[0] == curves[1]


@needs_mpi
def test_the_cause_comes_before_those_who_waited_for_it(tmp_path):
    program = """
import torch, torch.distributed as dist
dist.init_process_group()
if dist.get_rank() == 1:
    raise ValueError("the cause")
dist.all_reduce(torch.ones(1))
"""
    done = launch(tmp_path, program, "--standalone", "--nproc-per-node=2", code=1)
    summary = done.stderr[done.stderr.index("====") :]
    assert "rank 1 (local rank 1" in summary and "ValueError: the cause" in summary
    assert "then rank 0" not in summary or "rank 1" in summary[summary.index("then rank 0") :]


def test_output_to_files(tmp_path):
    program = "import os, sys; print('out', os.environ['RANK']); print('error', os.environ['RANK'], file=sys.stderr)"
    done = launch(tmp_path, program, "--standalone", "--nproc-per-node=2", "--log-dir=logs", "-r", "1", "--tee", "0:0,1:2")
    assert done.stdout == "" and sorted(done.stderr.splitlines()) == ["[default1]:error 1", "error 0"]
    (run,) = (tmp_path / "logs").iterdir()
    assert (run / "attempt_0" / "0" / "stdout.log").read_text() == "out 0\n"
    assert (run / "attempt_0" / "1" / "stderr.log").read_text() == "error 1\n"
    template = {"TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": "<${rank}> "}
    done = launch(tmp_path, program, "--standalone", "--nproc-per-node=2", "-t", "1", "--local-ranks-filter", "1", "--duplicate-stdout-filters=ou",
                  "--log-dir=more", **template)  # fmt: skip
    assert done.stdout == "<1> out 1\n" and done.stderr == "error 1\n"
    (run,) = (tmp_path / "more").iterdir()
    assert sorted((run / "attempt_0" / "filtered_stdout.log").read_text().split()) == ["0", "1", "out", "out"]


def test_output_goes_where_a_package_says(tmp_path):
    info = tmp_path / "others-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: others\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[torchrun.logs_specs]\nloud = others_logs:Loud\n")
    (tmp_path / "others_logs.py").write_text("""
from facula.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
class Loud(DefaultLogsSpecs):
    def __init__(self, log_dir, redirects, *rest):
        super().__init__(log_dir, Std.ALL, *rest)
""")
    more = {"PYTHONPATH": os.pathsep.join([str(tmp_path), ENVIRONMENT["PYTHONPATH"]])}
    done = launch(tmp_path, "print('here')", "--standalone", "--log-dir=logs", "--logs-specs=loud", **more)
    (run,) = (tmp_path / "logs").iterdir()
    assert done.stdout == "" and (run / "attempt_0" / "0" / "stdout.log").read_text() == "here\n"
    done = launch(tmp_path, "print('here')", "--standalone", "--logs-specs=silent", code=1, **more)
    assert "--logs-specs: expected the name of an entry point" in done.stderr and "'loud'" in done.stderr and "got 'silent'" in done.stderr


def is_alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):  # gone, or gone between opening and reading
        return False


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_process_outlives_the_launcher(tmp_path, number):
    program = """
import os, time
if os.environ["RANK"] == "0" and os.fork() == 0:
    name = "child"
else:
    name = "rank" + os.environ["RANK"]
open(name, "w").write(str(os.getpid()))
os.rename(name, name + ".pid")
time.sleep(100)
"""
    job = start(tmp_path, program, "--standalone", "--nproc-per-node", "2")
    names = ["rank0", "rank1"] + (["child"] if number == signal.SIGTERM else [])
    wait_until(lambda: all((tmp_path / f"{name}.pid").exists() for name in ["rank0", "rank1", "child"]))
    pids = {name: int((tmp_path / f"{name}.pid").read_text()) for name in ["rank0", "rank1", "child"]}
    job.send_signal(number)
    try:
        wait_until(lambda: not any(is_alive(pids[name]) for name in names), 10)
    finally:
        for pid in pids.values():
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
    output = job.communicate()[0]
    if number == signal.SIGTERM:
        assert job.returncode == 128 + number and "ended by SIGTERM" in output


@pytest.mark.parametrize("way", ["static", "c10d"])
def test_two_machines(tmp_path, way):
    port = free_port()
    folders = [tmp_path / "a", tmp_path / "b"]
    jobs = []
    for number, folder in enumerate(folders):
        folder.mkdir()
        where = (
            ["--node-rank", str(number), "--master-port", str(port)]
            if way == "static"
            else ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"localhost:{port}", "--rdzv-id", "job"]
        )
        jobs.append(start(folder, SAY, "--nnodes", "2", "--nproc-per-node", str(number + 1), *where))
    for job in jobs:
        output = job.communicate(timeout=60)[0]
        assert job.returncode == 0, output
    told = {}
    for folder in folders:
        for file in folder.glob("said*"):
            environment = json.loads(file.read_text())[0]
            told[environment["RANK"]] = environment
    assert sorted(told) == ["0", "1", "2"] and all(e["WORLD_SIZE"] == "3" and e["GROUP_WORLD_SIZE"] == "2" for e in told.values())
    assert len({e["FACULA_STORE_PREFIX"] for e in told.values()}) == len({e["MASTER_PORT"] for e in told.values()}) == 1
    assert {e["LOCAL_WORLD_SIZE"] for e in told.values()} == {"1", "2"}


@pytest.mark.parametrize("hosts, rank, stays", [(True, 1, True), (False, 0, False), (None, 0, True), (None, 1, False)])
def test_the_launcher_that_has_the_store_ends_last(hosts, rank, stays):
    store = HashStore()
    agent = object.__new__(LocalElasticAgent)
    agent._group, agent._info = SimpleNamespace(group_world_size=2), SimpleNamespace(store=store, rank=rank)
    agent._spec, agent._exit_barrier_timeout = SimpleNamespace(rdzv_handler=SimpleNamespace(_hosts_store=hosts)), 30
    store.add("finished", 1)  # the other one, which has not read yet that all have
    leaving = threading.Thread(target=agent._wait_for_other_machines)
    leaving.start()
    leaving.join(0.3 if stays else 60)
    assert leaving.is_alive() == stays
    store.add("gone", 1)
    leaving.join(60)
    assert not leaving.is_alive()


def test_a_failure_on_one_machine_ends_the_others(tmp_path):
    port, jobs = str(free_port()), []
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        jobs.append(start(folder, FAILS, "--nnodes=2", "--node-rank", str(number), "--master-port", port))
    for job in jobs:
        output = job.communicate(timeout=60)[0]
        assert job.returncode == 1 and "rank 1" in output and "ValueError: the cause" in output, output


def test_a_machine_joins_later(tmp_path):
    program = """
import os, time
world = os.environ["WORLD_SIZE"]
open(f"world{world}", "w").close()
while not os.path.exists("../go"):
    time.sleep(0.02)
assert world == "2"
"""
    port, jobs = str(free_port()), []
    options = ["--nnodes=1:2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}", "--rdzv-id=job", "--rdzv-conf=last_call_timeout=0"]
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        jobs.append(start(folder, program, *options))
        wait_until(lambda folder=folder, number=number: (folder / f"world{number + 1}").exists())
    wait_until(lambda: (tmp_path / "0" / "world2").exists())
    (tmp_path / "go").touch()
    for job in jobs:
        output = job.communicate(timeout=60)[0]
        assert job.returncode == 0, output


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_machine_is_lost(tmp_path, number):
    program = """
import os, time
open("world" + os.environ["WORLD_SIZE"], "w").close()
while os.environ["WORLD_SIZE"] == "2":
    time.sleep(0.02)
"""
    port, jobs = str(free_port()), []
    settings = "--rdzv-conf=last_call_timeout=1,keep_alive_interval=0.2,keep_alive_max_attempt=3"
    options = ["--nnodes=1:2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{port}", "--rdzv-id=job", settings]
    for number in range(2):
        folder = tmp_path / str(number)
        folder.mkdir()
        jobs.append(start(folder, program, *options))
    wait_until(lambda: all((tmp_path / str(number) / "world2").exists() for number in range(2)))
    guest = next(job for job in jobs if job is not host_of(jobs, port))
    guest.send_signal(number)
    other = next(job for job in jobs if job is not guest)
    assert "begin a new round" in other.communicate(timeout=60)[0] and other.returncode == 0
    guest.communicate()


def host_of(jobs, port):
    """The launcher that listens on the port."""
    with open("/proc/net/tcp") as file:
        rows = [line.split() for line in file][1:]
    inodes = {row[9] for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) == int(port)}
    with open("/proc/net/tcp6") as file:
        rows = [line.split() for line in file][1:]
    inodes |= {row[9] for row in rows if row[3] == "0A" and int(row[1].split(":")[1], 16) == int(port)}
    for job in jobs:
        for fd in os.listdir(f"/proc/{job.pid}/fd"):
            try:
                link = os.readlink(f"/proc/{job.pid}/fd/{fd}")
            except FileNotFoundError:
                continue
            if any(link == f"socket:[{inode}]" for inode in inodes):
                return job
    raise AssertionError("no launcher listens")


def double(x):
    return 2 * x * (int(os.environ["RANK"]) + 1)


def fail(x):
    raise ValueError(f"not {x}")


def config(**more):
    return LaunchConfig(1, 1, 2, run_id="run", rdzv_endpoint="localhost:0", max_restarts=0, **more)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_functions(method, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)]))
    assert elastic_launch(config(start_method=method), double)(4) == {0: 8, 1: 16}
    with pytest.raises(workers.ChildFailedError, match="(?s)fail failed on .*ValueError: not 7") as caught:
        logs = workers.DefaultLogsSpecs(str(tmp_path), redirects=workers.Std.ALL)
        elastic_launch(config(start_method=method, logs_specs=logs), fail)(7)
    rank, failure = caught.value.get_first_failure()
    assert failure.exitcode == 1 and failure.message == "ValueError: not 7" and rank in (0, 1)
    assert failure.error_file_data["message"]["extraInfo"]["py_callstack"].endswith("ValueError: not 7\n")


def test_large_results_come_back(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)]))
    assert elastic_launch(config(), double)(b"x" * 1_000_000) == {0: b"x" * 2_000_000, 1: b"x" * 4_000_000}


def test_record(tmp_path, monkeypatch):
    path = tmp_path / "deep" / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))

    @workers.record
    def main(x):
        return 1 / x

    assert main(2) == 0.5 and not path.exists()
    with pytest.raises(ZeroDivisionError):
        main(0)
    failure = workers.ProcessFailure(0, 17, 1, str(path))
    assert failure.message == "ZeroDivisionError: division by zero" and abs(failure.timestamp - time.time()) < 60
    assert "return 1 / x" in failure.traceback and failure.signal_name() == "<N/A>"
    text = path.read_text()
    with pytest.raises(ZeroDivisionError):
        main(0.0)
    assert path.read_text() == text  # the first one is kept


def test_a_failure_that_follows_another_is_not_the_first(tmp_path):
    def failure(rank, when, consequence):
        path = tmp_path / f"{rank}.json"
        extra = {"py_callstack": f"stack {rank}", "timestamp": str(when), "consequence": consequence}
        path.write_text(json.dumps({"message": {"message": f"error {rank}", "extraInfo": extra}}))
        return workers.ProcessFailure(rank, rank + 10, 1, str(path))

    error = workers.ChildFailedError("job", {0: failure(0, 5, True), 1: failure(1, 9, False), 2: failure(2, 10, False)})
    assert error.get_first_failure()[0] == 1 and "stack 1" in str(error) and "then rank 0 (pid 10, exit code 1): error 0" in str(error)
    with pytest.raises(ValueError, match="got none"):
        workers.ChildFailedError("job", {})


def test_options():
    assert parse_min_max_nnodes("2") == (2, 2) and parse_min_max_nnodes("1:4") == (1, 4)
    assert determine_local_world_size("3") == 3 and determine_local_world_size("cpu") == len(os.sched_getaffinity(0))
    with pytest.raises(RuntimeError, match="got '1:2:3'"):
        parse_min_max_nnodes("1:2:3")
    for bad in ("0", "many", "-1"):
        with pytest.raises(ValueError, match=f"^--nproc-per-node: .*'{bad}'"):
            determine_local_world_size(bad)
    for bad, text in (
        (["--nnodes", "1:2"], "^--nnodes: a range needs"),
        (["--nnodes", "0"], "^--nnodes: .*'0'"),
        (["--nnodes", "2", "--node-rank", "2"], "^--node-rank: .*got 2"),
        (["--rdzv-conf", "a"], "got 'a'"),
        (["--local-ranks-filter", "x"], "^--local-ranks-filter: .*'x'"),
        (["-r", "7"], "^Std: .*'7'"),
        (["--no-python", "-m"], "got both"),
    ):
        with pytest.raises(ValueError, match=text):
            config_from_args(parse_args([*bad, "program.py"]))
    found, entrypoint, arguments = config_from_args(parse_args(["--nproc_per_node", "2", "--master_addr", "::1", "p.py", "--x"]))
    assert found.rdzv_endpoint == "[::1]:29500" and entrypoint == sys.executable
    assert arguments == ["-u", "-m", "facula", "p.py", "--x"]


def test_options_from_the_environment(monkeypatch):
    monkeypatch.setenv("PET_NPROC_PER_NODE", "5")
    monkeypatch.setenv("PET_STANDALONE", "1")
    args = parse_args(["p.py"])
    assert args.nproc_per_node == "5" and args.standalone and not args.module
    assert parse_args(["--nproc-per-node", "2", "p.py"]).nproc_per_node == "2"


def test_addresses_and_settings():
    assert address_of("host", 5) == ("host", 5) and address_of("host:7", 5) == ("host", 7)
    assert address_of("[::1]:7", 5) == ("::1", 7) and address_of("::1", 5) == ("::1", 5)
    with pytest.raises(ValueError, match="got 'host:70000'"):
        address_of("host:70000", 5)
    assert is_this_machine("localhost") and is_this_machine("127.0.0.1") and not is_this_machine("192.0.2.7")
    assert read_settings("a=1, b=x") == {"a": "1", "b": "x"}
    parameters = RendezvousParameters("c10d", "h", "id", 1, 2, flag="yes", n="x")
    assert parameters.get_as_bool("flag") is True and parameters.get("other", 3) == 3
    with pytest.raises(ValueError, match="n must be a whole number, got 'x'"):
        parameters.get_as_int("n")
    with pytest.raises(ValueError, match="must be one of c10d, static.*got 'etcd'"):
        rendezvous_handler_registry.create_handler(RendezvousParameters("etcd", "h", "id", 1, 2))


def test_a_port_in_use_is_said(tmp_path):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        done = launch(tmp_path, SAY, "--master-port", str(s.getsockname()[1]), code=1)
    assert str(s) is not None and "cannot be opened at 127.0.0.1:" in done.stderr and "Traceback" not in done.stderr
    assert f"{os.getpid()}" in done.stderr  # who has it


def test_too_few_machines_in_time(tmp_path):
    options = ["--nnodes=2", "--rdzv-backend=c10d", f"--rdzv-endpoint=localhost:{free_port()}", "--rdzv-id=job", "--rdzv-conf=join_timeout=1"]
    done = launch(tmp_path, SAY, *options, code=1)
    assert "1 of at least 2 launchers came in 1 s" in done.stderr and "Traceback" not in done.stderr
