"""Start a program in several processes, on one machine or several.

    python -m facula.distributed.run --nproc-per-node 2 train.py --lr 0.1
    facula-run-ranks --standalone --nproc-per-node auto train.py

The options, variables and exit codes are those of PyTorch's torchrun. Every process runs under `python -m facula`, so that
PyTorch programs run unchanged.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import sys
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from .argparse_util import check_env, env
from .elastic.multiprocessing import ChildFailedError, DefaultLogsSpecs, SignalException, Std
from .elastic.rendezvous import RendezvousError
from .elastic.utils import macros, read_settings
from .launcher.api import LaunchConfig, elastic_launch

if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "config_from_args",
    "determine_local_world_size",
    "elastic_launch",
    "get_args_parser",
    "get_rdzv_endpoint",
    "get_use_env",
    "main",
    "parse_args",
    "parse_min_max_nnodes",
    "run",
    "run_script_path",
]


def get_args_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line, an `argparse.ArgumentParser`. Defaults come from PET_<OPTION> of the environment.

    >>> from torch.distributed.run import get_args_parser
    >>> get_args_parser().parse_args(["--nnodes", "2", "train.py"]).nnodes
    '2'
    """
    parser = argparse.ArgumentParser(
        prog="facula.distributed.run", description="Starts a program in several processes, on one machine or several."
    )
    _add_size(parser)
    _add_rendezvous(parser)
    _add_output(parser)
    _add_program(parser)
    return parser


def _add(parser, name: str, action=env, **kwargs) -> None:
    """Add an option under both spellings, with - and with _."""
    names = [f"--{name}"] + ([f"--{name.replace('-', '_')}"] if "-" in name else [])
    parser.add_argument(*names, action=action, **kwargs)


def _add_size(parser) -> None:
    _add(parser, "nnodes", type=str, default="1:1", help="machines, or the least and greatest number as MIN:MAX")
    _add(parser, "nproc-per-node", type=str, default="1", help="processes of each machine: a number, auto, cpu or gpu")
    _add(parser, "max-restarts", type=int, default=0, help="how often the processes are started again after a failure")
    _add(parser, "monitor-interval", type=float, default=0.1, help="seconds between looks at the other machines")
    _add(parser, "start-method", type=str, default="spawn", choices=["spawn", "fork", "forkserver"], help="for --run-path")
    _add(parser, "role", type=str, default="default", help="what the processes are for, in names of logs")
    _add(parser, "signals-to-handle", type=str, default="SIGTERM,SIGINT,SIGHUP,SIGQUIT", help="signals that end the job")
    _add(parser, "shutdown-timeout", type=int, default=None, help="seconds between SIGTERM and SIGKILL at the end (30)")
    _add(parser, "event-log-handler", type=str, default="null", help="accepted for PyTorch's sake; null is the one there is")
    _add(parser, "numa-binding", type=str, default=None, help="not supported: bind the launcher with numactl")
    _add(parser, "virtual-local-rank", action=check_env, help="every process sees one GPU, its own, as number 0")


def _add_rendezvous(parser) -> None:
    _add(parser, "standalone", action=check_env, help="one machine, on a free port: needs no other option of where to meet")
    _add(parser, "rdzv-backend", type=str, default="static", help="static, c10d (machines may come and go) or a name of yours")
    _add(parser, "rdzv-endpoint", type=str, default="", help="where the machines meet: HOST:PORT of one of them")
    _add(parser, "rdzv-id", type=str, default="none", help="the job's name, the same on all machines")
    _add(parser, "rdzv-conf", type=str, default="", help="more settings: key=value,key=value")
    _add(parser, "node-rank", type=int, default=0, help="the number of this machine, with static")
    _add(parser, "master-addr", type=str, default="127.0.0.1", help="the machine of number 0, with static")
    _add(parser, "master-port", type=int, default=29500, help="its port, with static")
    _add(parser, "local-addr", type=str, default=None, help="the address of this machine for the others")


def _add_output(parser) -> None:
    _add(parser, "log-dir", type=str, default=None, help="the folder for output and error files")
    parser.add_argument("-r", "--redirects", action=env, type=str, default="0",
                        help="output to files instead: 1 stdout, 2 stderr, 3 both, or by local rank as 0:1,1:2")  # fmt: skip
    parser.add_argument("-t", "--tee", action=env, type=str, default="0", help="output to files as well, the same way")
    _add(parser, "local-ranks-filter", type=str, default="", help="the only local ranks shown here, as 0,1")
    for stream in ("stdout", "stderr"):
        _add(parser, f"duplicate-{stream}-filters", type=str, default="",
             help=f"lines of {stream} with one of these texts go to a file of their own")  # fmt: skip
    _add(parser, "logs-specs", type=str, default=None, help="the name of an entry point torchrun.logs_specs")


def _add_program(parser) -> None:
    parser.add_argument("-m", "--module", action=check_env, help="the program is a module, as in python -m")
    _add(parser, "no-python", action=check_env, help="the program is no Python program")
    _add(parser, "run-path", action=check_env, help="run the script in the process that the launcher forks or spawns")
    parser.add_argument("training_script", type=str, help="the program")
    parser.add_argument("training_script_args", nargs=argparse.REMAINDER, help="its arguments")


def parse_args(args: Any) -> argparse.Namespace:
    """Return the options of a command line.

    Args:
        args: a list of texts; None for those of this program.

    >>> from torch.distributed.run import parse_args
    >>> options = parse_args(["--nproc-per-node", "2", "train.py", "--lr", "0.1"])
    >>> options.nproc_per_node, options.training_script, options.training_script_args
    ('2', 'train.py', ['--lr', '0.1'])
    """
    return get_args_parser().parse_args(args)


def parse_min_max_nnodes(nnodes: str) -> tuple[int, int]:
    """Return (least, greatest) number of machines.

    Args:
        nnodes: "N" or "MIN:MAX". RuntimeError for anything else.

    >>> from torch.distributed.run import parse_min_max_nnodes
    >>> parse_min_max_nnodes("1:4"), parse_min_max_nnodes("2")
    ((1, 4), (2, 2))
    """
    parts = nnodes.split(":")
    if len(parts) > 2 or not all(part.isdigit() for part in parts):
        raise RuntimeError(f"parse_min_max_nnodes: expected N or MIN:MAX, got {nnodes!r}")
    return int(parts[0]), int(parts[-1])


def determine_local_world_size(nproc_per_node: str) -> int:
    """Return how many processes a machine gets.

    Args:
        nproc_per_node: a number; "cpu" for as many as there are processors, "gpu" for GPUs (ValueError without any), "auto" for
            GPUs if there are any, else processors. ValueError for anything else.

    >>> from torch.distributed.run import determine_local_world_size
    >>> determine_local_world_size("3"), determine_local_world_size("cpu") > 0
    (3, True)
    """
    if nproc_per_node.isdigit() and int(nproc_per_node) > 0:
        return int(nproc_per_node)
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if nproc_per_node == "cpu":
        return cpus
    if nproc_per_node in ("gpu", "auto"):
        from facula import cuda

        gpus = cuda.device_count() if cuda.is_available() else 0
        if gpus or nproc_per_node == "auto":
            return gpus or cpus
        raise ValueError(f"--nproc-per-node: there is no GPU ({cuda.why_unavailable()}), got 'gpu'")
    raise ValueError(f"--nproc-per-node: expected a positive number, auto, cpu or gpu, got {nproc_per_node!r}")


def get_use_env(args: Any) -> bool:
    """Return whether the local rank is told by the environment only, not by an argument `--local-rank`.

    Args:
        args: options of a command line; those of `facula.distributed.launch` may say no.

    >>> from torch.distributed.run import get_use_env, parse_args
    >>> get_use_env(parse_args(["train.py"]))
    True
    """
    return getattr(args, "use_env", True)


def config_from_args(args: Any) -> tuple[LaunchConfig, Callable[..., Any] | str, list[str]]:
    """Return (how to launch, what, with which arguments): a LaunchConfig, a command or function, and a list.

    Args:
        args: options of a command line. ValueError for those that do not fit together; NotImplementedError for --numa-binding.

    >>> from torch.distributed.run import config_from_args, parse_args
    >>> config, command, arguments = config_from_args(parse_args(["--nproc-per-node", "2", "train.py", "--lr", "0.1"]))
    >>> config.nproc_per_node, arguments
    (2, ['-u', '-m', 'facula', 'train.py', '--lr', '0.1'])
    """
    least, greatest = parse_min_max_nnodes(args.nnodes)
    if not 0 < least <= greatest:
        raise ValueError(f"--nnodes: expected 0 < MIN <= MAX, got {args.nnodes!r}")
    if args.numa_binding:
        raise NotImplementedError(f"--numa-binding is not supported, got {args.numa_binding!r}")
    stdout, stderr = _texts(args.duplicate_stdout_filters), _texts(args.duplicate_stderr_filters)
    backend, endpoint, settings = _meeting(args, least, greatest)
    config = LaunchConfig(
        min_nodes=least, max_nodes=greatest, nproc_per_node=determine_local_world_size(args.nproc_per_node),
        run_id=args.rdzv_id, role=args.role, rdzv_endpoint=endpoint, rdzv_backend=backend, rdzv_configs=settings,
        max_restarts=args.max_restarts, monitor_interval=args.monitor_interval, start_method=args.start_method,
        log_line_prefix_template=os.environ.get("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE"), local_addr=args.local_addr,
        signals_to_handle=args.signals_to_handle, duplicate_stdout_filters=stdout, duplicate_stderr_filters=stderr,
        virtual_local_rank=args.virtual_local_rank, shutdown_timeout=args.shutdown_timeout,
        logs_specs=_logs_specs(args.logs_specs)(args.log_dir, Std.from_str(args.redirects), Std.from_str(args.tee),
                                                _ranks(args.local_ranks_filter), stdout, stderr),
    )  # fmt: skip
    return config, *_command(args)


def _logs_specs(name: str | None):
    """Return the class that decides where output goes: the default, or what a package offers under a name."""
    if name is None:
        return DefaultLogsSpecs
    offered = importlib.metadata.entry_points(group="torchrun.logs_specs")
    if name not in offered.names:
        raise ValueError(f"--logs-specs: expected the name of an entry point {sorted(offered.names)}, got {name!r}")
    return offered[name].load()


def _texts(text: str) -> list[str] | None:
    """Return the parts between commas; a double comma is one of the text."""
    return [part.replace("\0", ",") for part in text.replace(",,", "\0").split(",") if part] or None


def _ranks(text: str) -> set[int] | None:
    try:
        return {int(part) for part in text.split(",")} if text else None
    except ValueError:
        raise ValueError(f"--local-ranks-filter: expected numbers with commas, got {text!r}") from None


def _meeting(args, least: int, greatest: int) -> tuple[str, str, dict]:
    """Return (backend, endpoint, settings)."""
    settings = read_settings(args.rdzv_conf)
    if args.standalone:
        args.rdzv_id = uuid.uuid4().hex
        return "c10d", "localhost:0", settings
    if args.rdzv_backend == "static":
        if least != greatest:
            raise ValueError(f"--nnodes: a range needs --rdzv-backend c10d, got {args.nnodes!r} with static")
        if not 0 <= args.node_rank < greatest:
            raise ValueError(f"--node-rank: expected 0 to {greatest - 1}, got {args.node_rank}")
        settings["rank"] = args.node_rank
        return "static", get_rdzv_endpoint(args), settings
    return args.rdzv_backend, get_rdzv_endpoint(args), settings


def get_rdzv_endpoint(args: Any) -> str:
    """Return where the machines meet, as "host:port".

    Args:
        args: options of a command line.

    >>> from torch.distributed.run import get_rdzv_endpoint, parse_args
    >>> get_rdzv_endpoint(parse_args(["--master-addr", "node0", "train.py"]))
    'node0:29500'
    """
    if args.rdzv_backend != "static" or args.rdzv_endpoint:
        return args.rdzv_endpoint.strip()
    host = args.master_addr
    return f"[{host}]:{args.master_port}" if ":" in host and not host.startswith("[") else f"{host}:{args.master_port}"


def _command(args) -> tuple[Callable | str, list[str]]:
    """Return (what to run, arguments)."""
    rank = [] if get_use_env(args) else [f"--local-rank={macros.local_rank}"]
    rest = [*rank, *args.training_script_args]
    if args.run_path:
        return run_script_path, [args.training_script, *rest]
    if args.no_python:
        if not get_use_env(args):
            raise ValueError("--no-python: a program that is not Python reads LOCAL_RANK: give --use-env, too, got none")
        if args.module:
            raise ValueError("--no-python: -m is for Python programs, got both")
        return args.training_script, rest
    return os.environ.get("PYTHON_EXEC", sys.executable), [
        "-u", "-m", "facula", *(["-m"] if args.module else []), args.training_script, *rest
    ]  # fmt: skip


def run_script_path(training_script: str, *training_script_args: str) -> None:
    """Run a script in this process, as `python -m facula` would: the process becomes its program (arguments, `__main__`,
    `torch`), and `--run-path` has the launcher's children call it. SystemExit where the script ends with another code than 0.

    Args:
        training_script: the file.
        training_script_args: its arguments.

    >>> from torch.distributed.run import run_script_path
    >>> run_script_path("train.py", "--lr", "0.1")  # doctest: +SKIP
    """
    from facula.compat.run import main as run_program

    code = run_program([training_script, *training_script_args])
    if code:
        sys.exit(code)


def run(args: Any) -> None:
    """Launch what the options say, and wait. ChildFailedError when processes failed.

    Args:
        args: options of a command line.

    >>> import tempfile
    >>> from torch.distributed.run import parse_args, run
    >>> with tempfile.TemporaryDirectory() as logs:
    ...     run(parse_args(["--standalone", "--nproc-per-node", "2", "--log-dir", logs, "--no-python", "true"]))
    """
    config, entrypoint, rest = config_from_args(args)
    elastic_launch(config, entrypoint)(*rest)


def main(args: Any = None, parse: Any = parse_args) -> int:
    """Run the command; return 0, or 1 after a summary of what failed (128 and the number of a signal that ended it).

    Args:
        args: a list of texts; None for those of this program.
        parse: makes options of it.

    >>> import tempfile
    >>> from torch.distributed.run import main
    >>> with tempfile.TemporaryDirectory() as logs:
    ...     main(["--standalone", "--log-dir", logs, "--no-python", "true"])
    0
    """
    try:
        run(parse(args))
    except ChildFailedError as error:
        print(error, file=sys.stderr)
        return 1
    except SignalException as error:
        print(f"facula.distributed.run: ended by {error.sigval.name}", file=sys.stderr)
        return 128 + error.sigval
    except (ValueError, RuntimeError, RendezvousError, OSError) as error:
        print(f"facula.distributed.run: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
