"""Inject faults into processes, and check whether every other rank learns who, what and where, how soon, and whether
anything is left.

    python -m benchmarks.distributed_faults --each 5 --seed 1 --json benchmarks/results/faults.json

A run forks 2 to 4 ranks of one program that repeats one operation (a point), and one of them gets a fault: a signal from
outside, or something wrong that it does itself. The table has, for each fault and point, the runs, the longest time until
a rank raised, hangs, and texts that do not name rank, operation and line. Faults that only waiting can tell are measured from
the deadline. A run is repeated exactly by its number: `--only N`.

Long because tests load it by its path as one program: what ranks repeat, what is done to them, and what is judged.
"""

import argparse
import collections
import datetime
import glob
import itertools
import json
import os
import random
import re
import select
import signal
import socket
import sys
import tempfile
import time

import facula
import facula.distributed as dist
from facula import nn

DEADLINE = 3.0  # of operations, where only waiting can tell
HANG = float(os.environ.get("HANG", 10))  # seconds after a fault
SLOW = 0.3

# ---- points: name -> (what the ranks repeat, which wrong calls it can have)

SHAPED = ("shape", "dtype", "op", "order", "missing")
PLAIN = ("op", "order", "missing")


class Steps:
    """Define the operations; `n` and `dtype` are what a rank can have wrong."""

    def __init__(self, rank, size):
        self.rank, self.size, self.model = rank, size, None

    def all_reduce(self, n=1000, dtype=facula.float32):
        x = facula.ones(n, dtype=dtype)
        dist.all_reduce(x)
        assert x[0] == self.size and x[-1] == self.size

    def all_reduce_100_mb(self, n=25_000_000, dtype=facula.float32):
        self.all_reduce(n, dtype)

    def broadcast_25_mb(self, n=6_250_000, dtype=facula.float32):
        x = facula.full((n,), self.rank, dtype=dtype)
        dist.broadcast(x, 1)
        assert x[0] == 1 and x[-1] == 1

    def reduce(self, n=1000, dtype=facula.float32):
        dist.reduce(facula.ones(n, dtype=dtype), 0)

    def all_gather(self, n=1000, dtype=facula.float32):
        x = facula.empty(n * self.size, dtype=dtype)
        dist.all_gather_into_tensor(x, facula.full((n,), self.rank, dtype=dtype))
        assert x[-1] == self.size - 1

    def reduce_scatter(self, n=300_000, dtype=facula.float32):
        x = facula.empty(n, dtype=dtype)
        dist.reduce_scatter_tensor(x, facula.ones(n * self.size, dtype=dtype))
        assert x[-1] == self.size

    def all_to_all(self, n=1000, dtype=facula.float32):
        x = facula.empty(n * self.size, dtype=dtype)
        dist.all_to_all_single(x, facula.full((n * self.size,), self.rank, dtype=dtype))
        assert x[-1] == self.size - 1

    def gather(self, n=1000, dtype=facula.float32):
        places = [facula.empty(n, dtype=dtype) for _ in range(self.size)] if self.rank == 0 else None
        dist.gather(facula.ones(n, dtype=dtype), places, 0)

    def scatter(self, n=1000, dtype=facula.float32):
        parts = [facula.ones(n, dtype=dtype) for _ in range(self.size)] if self.rank == 1 else None
        dist.scatter(facula.empty(n, dtype=dtype), parts, 1)

    def asynchronous(self, n=1000, dtype=facula.float32):
        tensors = [facula.ones(n, dtype=dtype) for _ in range(8)]
        for work in [dist.all_reduce(x, async_op=True) for x in tensors]:
            work.wait()
        assert all(x[0] == self.size for x in tensors)

    def part(self, n=1000, dtype=facula.float32):
        """Give ranks 0 and 1 a group of their own, and the others another."""
        if self.model is None:
            groups = [dist.new_group([0, 1]), dist.new_group(list(range(2, self.size)))]
            self.model = groups[self.rank >= 2]
        dist.all_reduce(facula.ones(n, dtype=dtype), group=self.model)

    def barrier(self):
        dist.barrier()

    def monitored_barrier(self):
        dist.monitored_barrier()

    def new_group(self):
        made = dist.new_group(list(range(self.size)))
        dist.destroy_process_group(made)

    def all_gather_object(self):
        found = [None] * self.size
        dist.all_gather_object(found, {"rank": self.rank})
        assert found[-1] == {"rank": self.size - 1}

    def broadcast_object(self):
        found = [self.rank]
        dist.broadcast_object_list(found, 1)
        assert found == [1]

    def ring(self):
        x = facula.empty(200_000)
        works = [dist.isend(facula.ones(200_000), (self.rank + 1) % self.size), dist.irecv(x, (self.rank - 1) % self.size)]
        for work in works:
            work.wait()

    def ddp_constructor(self, n=100, dtype=facula.float32):
        nn.parallel.DistributedDataParallel(nn.Linear(10, n, dtype=dtype))

    def ddp_backward(self):
        if self.model is None:
            layers = itertools.chain.from_iterable((nn.Linear(300, 300), nn.ReLU()) for _ in range(4))
            self.model = nn.parallel.DistributedDataParallel(nn.Sequential(*layers), bucket_cap_mb=0.1)
        self.model(facula.ones(4, 300)).sum().backward()

    def idle(self):
        time.sleep(0.05)
        dist.all_reduce(facula.ones(1))

    def again(self):
        """End the group and make it anew."""
        dist.barrier()
        dist.destroy_process_group()
        begin()


POINTS = {
    **dict.fromkeys(
        "all_reduce all_reduce_100_mb broadcast_25_mb reduce all_gather reduce_scatter all_to_all gather scatter asynchronous "
        "part ddp_constructor".split(), SHAPED),
    **dict.fromkeys("barrier monitored_barrier new_group all_gather_object broadcast_object ddp_backward".split(), PLAIN),
    **dict.fromkeys("ring idle".split(), ("missing",)),
    "again": (), "init": (),
}  # fmt: skip

STRIKES = ("kill", "stop", "close", "pause")  # from outside, while the ranks repeat the point, or wait there for the victim
OWN = ("slow", "exception", "exit", *SHAPED)  # what the victim does itself
HARMLESS = ("slow", "pause")
WAITED_FOR = ("stop", "missing")

Case = collections.namedtuple("Case", "number fault point size victim late network delay")


def deadline_of(case):
    if case.fault in ("kill", "close") and case.point in ("init", "again"):
        return 5  # who is lost before it has come is missed at the deadline
    if case.fault not in WAITED_FOR:
        return 60
    return DEADLINE * 3 if "mb" in case.point else DEADLINE


def cases(options):
    """Return every fault at every point where it can be, `each` times, with ranks and moments drawn from the seed."""
    made = []
    kinds = [(fault, point) for fault in STRIKES + OWN for point, wrong in POINTS.items()
             if fault not in SHAPED or fault in wrong]  # fmt: skip
    never = {"init": (*OWN, "close"), "again": (*OWN, "pause")}
    kinds = [(fault, point) for fault, point in kinds if fault not in never.get(point, ())]
    for number, (_, (fault, point)) in enumerate(itertools.product(range(options.each), kinds)):
        draw = random.Random(f"{options.seed} {number}")
        size = draw.choice([2, 3, 3, 4])
        victim = draw.randrange(2 if point == "part" else size)
        late = fault in STRIKES and point not in ("init", "again") and draw.random() < 0.4
        delay = draw.uniform(0, 0.06 if point != "init" else 0.1)
        made.append(Case(number, fault, point, size, victim, late, draw.random() < 0.3, delay))
    return made


# ---- a rank


def begin():
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=float(os.environ["DEADLINE"])))


def wrong_call(fault, steps, call):
    """Do what the victim does in the place of `call`; its time is that of the fault."""
    if fault == "shape":
        call(n=call.__defaults__[0] + 1)
    elif fault == "dtype":
        call(dtype=facula.float64)
    elif fault == "op":
        if "barrier" in call.__name__:
            steps.broadcast_object()
        else:
            dist.barrier(steps.model if call.__name__ == "part" else None)
    elif fault == "order":
        dist.all_reduce(facula.ones(3))
        call()
    elif fault == "missing":
        time.sleep(float(os.environ["DEADLINE"]) + 1.5)
    elif fault == "exception":
        raise ValueError("the cause")
    elif fault == "exit":
        sys.exit(0)


def program(case, rank, say):
    """Repeat the point; tell when it is ready, when the last call began, and what was raised."""
    steps = Steps(rank, case.size)
    call = getattr(steps, case.point, None)
    mine = rank == case.victim
    say("begin")
    began = time.monotonic()
    try:
        begin()
        if call is None:
            call = steps.all_reduce
        for _ in range(2):
            call()
        dist.barrier()
        say("ready")
        if mine and case.late:
            time.sleep(30 if case.fault != "close" else 0.5)
        for i in itertools.count():
            began = time.monotonic()
            if case.fault in OWN and i == 2 and mine:
                time.sleep(case.delay if case.fault != "slow" else SLOW)
                say("fault")
                began = time.monotonic()
            if case.fault in SHAPED and i == 2 and mine:
                wrong_call(case.fault, steps, call)
                if case.fault == "missing":
                    return 0
            elif case.fault in ("exception", "exit") and i == 2 and mine:
                wrong_call(case.fault, steps, call)
            else:
                call()
            if case.fault == "order" and i == 2 and not mine:
                dist.all_reduce(facula.ones(3))
            if case.fault in HARMLESS:
                time.sleep(0.01)
                if i == (4 if case.fault == "slow" else 25):
                    return 0
    except RuntimeError as error:
        say("raised", began=began, at=time.monotonic(), text=f"{type(error).__name__}: {error}")
        return 5


def child(case, rank, port, pipe, errors):
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(case.size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                   "DEADLINE": str(deadline_of(case)),
                   "FACULA_DIST_WARN_AFTER": "0.1" if case.fault == "slow" else "60"}  # fmt: skip
    if case.network:
        os.environ["FACULA_DIST_MACHINE"] = f"machine{rank}"
    os.dup2(errors, 2)
    signal.signal(signal.SIGUSR1, shut_connections)

    def say(what, **more):
        pipe.send(json.dumps({"rank": rank, "what": what, "at": time.monotonic(), **more}).encode())

    return program(case, rank, say)


def shut_connections(number, frame):
    """Take the network of this process away."""
    for name in os.listdir("/proc/self/fd"):
        try:
            with socket.socket(fileno=os.dup(int(name))) as s:
                if s.family in (socket.AF_INET, socket.AF_INET6):
                    s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


# ---- a run


class Run:
    """Start the ranks of a case, inject the fault, and observe how they end."""

    def __init__(self, case):
        self.case, self.problems, self.struck, self.events = case, [], None, []
        self.latency = 0.0

    def start(self):
        with socket.create_server(("127.0.0.1", 0)) as s:
            port = s.getsockname()[1]
        self.pipe, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.errors = [tempfile.TemporaryFile() for _ in range(self.case.size)]
        self.pids = []
        for rank in range(self.case.size):
            pid = os.fork()
            if pid == 0:
                self.pipe.close()
                sys.exit(child(self.case, rank, port, theirs, self.errors[rank].fileno()))
            self.pids.append(pid)
        theirs.close()
        self.port, self.status = port, {}

    def listen(self, until):
        """Take what ranks say until the moment, or until all have closed; return whether they have."""
        while (left := until - time.monotonic()) > 0:
            if not select.select([self.pipe], [], [], left)[0]:
                return False
            message = self.pipe.recv(1 << 18)
            if not message:
                return True
            self.events.append(json.loads(message))
            if self.events[-1]["what"] == "fault":
                self.struck = self.events[-1]["at"]
            if self.wanted and self.count(self.wanted) == self.case.size:
                return False
        return False

    def count(self, what):
        return sum(e["what"] == what for e in self.events)

    def run(self):
        case = self.case
        self.start()
        self.wanted = "begin" if case.point == "init" else "ready"
        self.listen(time.monotonic() + 60)
        if not self.count(self.wanted) == case.size:
            self.problems.append(f"hang or end before {self.wanted}")
        self.wanted = None
        if case.fault in STRIKES:
            self.strike()
        self.wait_for_raised()
        if self.count("raised") < len(self.expected()) and case.fault not in HARMLESS:
            self.problems.append("hang, or no error")
        for rank, pid in enumerate(self.pids):
            if rank not in self.must_end() and self.poll(rank) is None:
                os.kill(pid, signal.SIGKILL)
        self.collect()
        self.judge()
        return self

    def strike(self):
        case, victim = self.case, self.pids[self.case.victim]
        self.listen(time.monotonic() + case.delay + 0.1 * case.late)
        if victim in self.status:
            return
        number = {"kill": signal.SIGKILL, "stop": signal.SIGSTOP, "close": signal.SIGUSR1, "pause": signal.SIGSTOP}[case.fault]
        self.struck = time.monotonic()
        os.kill(victim, number)
        if case.fault == "pause":
            self.listen(time.monotonic() + SLOW)
            os.kill(victim, signal.SIGCONT)

    def wait_for_raised(self):
        """Wait until those who must have raised and ended, though the victim, which may hold the store, does not answer."""
        told = deadline_of(self.case) if self.case.fault in WAITED_FOR else DEADLINE
        deadline = time.monotonic() + (HANG + told if self.case.fault not in HARMLESS else 120)
        while time.monotonic() < deadline and any(self.poll(r) is None for r in self.must_end()):
            self.listen(time.monotonic() + 0.005)
        self.listen(time.monotonic() + 0.02)  # what the last one said

    def must_end(self):
        """Return the ranks that end by themselves."""
        case = self.case
        if case.fault in HARMLESS:
            return range(case.size)
        itself = case.fault in ("exception", "exit", "missing")
        return [r for r in range(case.size) if r in self.expected() or (r == case.victim and itself)]

    def poll(self, rank):
        if rank not in self.status:
            pid, status = os.waitpid(self.pids[rank], os.WNOHANG)
            if pid:
                self.status[rank] = os.waitstatus_to_exitcode(status)
        return self.status.get(rank)

    def collect(self):
        deadline = time.monotonic() + HANG
        while any(self.poll(r) is None for r in range(self.case.size)) and time.monotonic() < deadline:
            time.sleep(0.002)
        for rank, pid in enumerate(self.pids):
            if self.poll(rank) is None:
                self.problems.append(f"hang of rank {rank} at its end")
                os.kill(pid, signal.SIGKILL)
                self.status[rank] = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        self.texts = []
        for file in self.errors:
            file.seek(0)
            self.texts.append(file.read().decode(errors="replace"))
            file.close()
        self.pipe.close()

    # ---- judging

    def expected(self):
        """Return the ranks that must raise."""
        case = self.case
        if case.fault in HARMLESS:
            return []
        everybody = range(2 if case.point == "part" and case.fault not in ("kill", "close") else case.size)
        itself = case.fault in ("shape", "dtype", "op", "order") or case.fault == "close"
        return [r for r in everybody if r != case.victim or itself]

    def judge(self):
        raised = {e["rank"]: e for e in self.events if e["what"] == "raised"}
        last_call = max((e["began"] for e in raised.values()), default=0)
        for rank in self.expected():
            if rank not in raised:
                self.problems.append(f"rank {rank} raised nothing (exit code {self.status[rank]})")
                continue
            event = raised[rank]
            since = max(self.struck or 0, event["began"])
            if self.case.fault in ("shape", "dtype", "op", "order"):
                since = max(since, last_call)
            if self.case.fault in WAITED_FOR:
                since = event["began"] + deadline_of(self.case)
            if "ranks came within" in event["text"]:
                since = event["began"] + deadline_of(self.case)
            self.latency = max(self.latency, event["at"] - since)
            if rank != self.case.victim or self.case.fault not in ("kill", "close"):
                self.problems += [f"rank {rank} {p}: {event['text']}" for p in self.bad_text(event["text"])]
        self.judge_status()

    def bad_text(self, text):
        case, victim = self.case, self.case.victim
        who = f"ranks? .*\\b{victim}\\b"
        meets = "init_process_group" in text  # where the others may not know the process id yet
        if case.fault in ("shape", "dtype", "op", "order"):
            wanted = ["do not agree", who, r"\.py:\d+"] if "same parameters" not in text else [f"rank ({victim}|0)"]
        elif case.fault in WAITED_FOR:
            missing = " rank" if case.point == "ring" else f".*rank {victim}\\b"
            wanted = [] if meets else [f"missing {missing}", "gave up after", r"\.py:\d+"]
        elif case.fault in ("kill", "close"):
            cut = case.fault == "close" and victim == 0  # who has lost the store, or is told that others have
            pid = "" if meets else f".*pid {self.pids[victim]}\\b"
            missed = f"|missing: ranks? .*\\b{victim}\\b" if case.point in ("init", "again") else ""
            wanted = ["rank .*is gone"] if cut else [f"rank {victim}\\b{pid}.*is gone{missed}"]
        elif case.fault == "exception":
            wanted = [f"rank {victim} .*ended by ValueError: the cause"]
        else:  # who holds the store takes with it what is heard of the others
            wanted = [f"rank {victim} has left" + ("|its process has ended" if victim == 0 and case.point == "ring" else "")]
        return [f"lacks /{w}/" for w in wanted if not re.search(w, text)]

    def judge_status(self):
        case = self.case
        for rank, code in self.status.items():
            mine = rank == case.victim
            good = (0,) if case.fault in HARMLESS else (5,)
            if mine:
                own = {"kill": (-9,), "stop": (-9,), "close": (5, 1), "exception": (1,), "exit": (0,), "missing": (0, 5)}
                good = own.get(case.fault, good)
            elif rank not in self.expected():
                good = (0, 5, -9)
            if code not in good:
                self.problems.append(f"exit code {code} of rank {rank}: {self.texts[rank][-600:]}")
        if case.fault == "slow" and not any(f"rank {case.victim} " in t and "waits" in t for r, t in enumerate(self.texts)):
            self.problems.append("no warning names the slow rank")


def left_behind(before):
    """Return shared memory and files that were not there before, and that no process has."""
    names = set(glob.glob("/dev/shm/*") + glob.glob("/tmp/mpich*") + glob.glob("/tmp/*ucx*")) - before
    if names:
        time.sleep(0.5)
    return sorted(name for name in names if os.path.exists(name) and not is_used(name))


def is_used(name):
    for maps in glob.glob("/proc/[0-9]*/maps"):
        try:
            with open(maps) as file:
                if name in file.read():
                    return True
        except OSError:
            continue
    return False


def table(runs, columns):
    """Print rows of faults, columns of points: runs, longest time in ms, problems if any."""
    cells = collections.defaultdict(list)
    for run in runs:
        cells[run.case.point, run.case.fault].append(run)
    print("| point | " + " | ".join(columns) + " |\n|" + "---|" * (len(columns) + 1))
    for point in POINTS:
        texts = []
        for fault in columns:
            found = cells[point, fault]
            bad = sum(bool(r.problems) for r in found)
            longest = max((r.latency for r in found), default=0) * 1e3
            texts.append(f"{len(found)}: {longest:.0f} ms{f' **{bad} bad**' if bad else ''}" if found else "")
        print(f"| {point} | " + " | ".join(texts) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--each", type=int, default=1, help="runs of each fault at each point")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, nargs="+", help="numbers of runs")
    parser.add_argument("--faults", nargs="+", default=[*STRIKES, *OWN])
    parser.add_argument("--points", nargs="+", default=[*POINTS])
    parser.add_argument("--verbose", action="store_true", help="shows what was raised")
    parser.add_argument("--seconds", type=float, default=1e9, help="no run is begun later than that")
    parser.add_argument("--json")
    options = parser.parse_args()
    facula.set_num_threads(1)
    dist.is_mpi_available()  # opens the library before the forks
    before = set(glob.glob("/dev/shm/*") + glob.glob("/tmp/mpich*") + glob.glob("/tmp/*ucx*"))
    chosen = [c for c in cases(options) if c.fault in options.faults and c.point in options.points]
    runs, began, loads = [], time.monotonic(), [os.getloadavg()[0]]
    for case in chosen:
        if options.only and case.number not in options.only:
            continue
        if time.monotonic() - began > options.seconds:
            break
        runs.append(Run(case).run())
        loads.append(os.getloadavg()[0])
        late = runs[-1].latency > 1
        if options.verbose:
            print(*(f"rank {e['rank']}: {e['text']}" for e in runs[-1].events if e["what"] == "raised"), sep="\n")
        if runs[-1].problems or late or options.only:
            print(f"{case}: {runs[-1].latency * 1e3:.0f} ms", *runs[-1].problems, sep="\n    ", flush=True)
    left = left_behind(before)
    table(runs, options.faults)
    found = {
        "runs": len(runs), "seed": options.seed, "hangs": sum(any("hang" in p for p in r.problems) for r in runs),
        "with problems": sum(bool(r.problems) for r in runs), "later than 1 s": sum(r.latency > 1 for r in runs),
        "longest, ms": round(max(r.latency for r in runs) * 1e3), "left behind": left,
        "load": [round(min(loads), 1), round(max(loads), 1)], "processors": len(os.sched_getaffinity(0)),
        "seconds": round(time.monotonic() - began),
    }  # fmt: skip
    print(found)
    if options.json:
        rows = [{**r.case._asdict(), "ms": round(r.latency * 1e3, 1), "problems": r.problems} for r in runs]
        with open(options.json, "w") as file:
            json.dump({**found, "cases": rows}, file, indent=0)
    sys.exit(bool(found["with problems"] or left))


if __name__ == "__main__":
    main()
