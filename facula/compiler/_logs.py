"""Control which logs are on. A log is a Python logger, `torch.__graph_breaks`, or that of a part of the library,
`torch._dynamo`.

Facula writes graph_breaks, recompiles, graph_code and output_code of compiled functions. PyTorch's other names exist,
and programs can use their loggers, but Facula writes nothing to them.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

#: name -> logger of a part
PARTS = {
    name: f"torch.{path}"
    for name, path in {
        "dynamo": "_dynamo", "aot": "_functorch.aot_autograd", "autograd": "autograd", "inductor": "_inductor",
        "dynamic": "fx.experimental.symbolic_shapes", "distributed": "distributed", "c10d": "distributed.distributed_c10d",
        "export": "export", "ddp": "nn.parallel.distributed", "fsdp": "distributed.fsdp", "dtensor": "distributed.tensor",
        "onnx": "onnx",
    }.items()
}  # fmt: skip
ARTIFACTS = frozenset(
    """
    annotation aot_graphs aot_graphs_effects aot_joint_graph autotuning autotuning_results benchmarking bytecode cache
    caching cache_hit compiled_autograd compiled_autograd_verbose compute_dependencies cudagraph_static_inputs cudagraphs
    ddp_graphs dynamic fusion graph graph_breaks graph_code graph_code_verbose graph_region_expansion graph_sizes guards
    hierarchical_compile incremental inductor_metrics ir_post_fusion ir_pre_fusion kernel_code loop_ordering loop_tiling
    node_runtime_estimation onnx_diagnostics output_code overlap perf_hints post_grad_graphs pre_grad_graphs recompiles
    recompiles_verbose schedule side_effects sym_node trace_bytecode trace_call trace_shape_events trace_source
    """.split()
) - {"dynamic"}
_levels: dict[str, int] = {}  # logger -> level, of what is on
_artifact_loggers: dict[str, str] = {}  # logger -> artifact, of those that programs have asked for


def _artifact(name):
    return f"torch.__{name}"


class _Lines(logging.Formatter):
    def format(self, record):
        name = record.name.removeprefix("torch.")
        head = f"{record.levelname[0]} {self.formatTime(record, '%H:%M:%S')} [{name}] "
        return "\n".join(head + line for line in record.getMessage().split("\n"))


@functools.cache
def _handler(path):
    handler = logging.StreamHandler() if path is None else logging.FileHandler(path)
    handler.setFormatter(_Lines())
    return handler


def _turn_on(levels):
    for name in _levels.keys() - levels.keys():
        logger = logging.getLogger(name)
        logger.setLevel(logging.CRITICAL + 1 if name in _artifact_loggers else logging.NOTSET)
        logger.propagate = True
        logger.handlers = [h for h in logger.handlers if not isinstance(h.formatter, _Lines)]
    levels = {**levels, **{name: logging.DEBUG for name, of in _artifact_loggers.items() if _artifact(of) in levels}}
    _levels.clear()
    _levels.update(levels)
    for name, level in levels.items():
        logger = logging.getLogger(name)
        logger.setLevel(level)
        logger.propagate = False
        handler = _handler(os.environ.get("TORCH_LOGS_OUT"))
        if not isinstance(handler, logging.FileHandler):
            handler.stream = sys.stderr  # that of now: programs and tests exchange it, and close the one before
        if handler not in logger.handlers:
            logger.addHandler(handler)


def set_logs(*, all: int | None = None, modules: dict[str, int | bool] | None = None, **logs: Any) -> None:
    """Say which logs are written to the standard error; what is not named is off.

    Args:
        all: the level of the logs of all parts.
        modules: name of a logger -> level, or True.
        logs: name of an artifact (graph_breaks, recompiles, output_code) -> whether it is told; of a part (dynamo) -> level.

    Errors: TypeError for the name of no log; ValueError for what is no level.

    >>> torch._logging.set_logs(graph_breaks=True, recompiles=True)
    >>> torch._logging.set_logs()
    """
    if "TORCH_LOGS" in os.environ:
        logging.getLogger("torch._logging").warning("set_logs: the variable TORCH_LOGS is set and holds, got a call")
        return
    levels = dict.fromkeys(PARTS.values(), _level("all", all)) if all is not None else {}
    for name, value in logs.items():
        if name in ARTIFACTS:
            if not isinstance(value, bool):
                raise ValueError(f"set_logs: {name} is told or is not, expected True or False, got {value!r}")
            if value:
                levels[_artifact(name)] = logging.DEBUG
        elif name in PARTS:
            if value is not None:
                levels[PARTS[name]] = _level(name, value)
        else:
            raise TypeError(f"set_logs: there is no log of this name, got {name!r}")
    for name, value in (modules or {}).items():
        if value is not False:
            levels[name] = logging.DEBUG if value is True else _level(name, value)
    _turn_on(levels)


def _level(name, value):
    known = (logging.CRITICAL, logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG, logging.NOTSET)
    if isinstance(value, bool) or value not in known:
        raise ValueError(f"set_logs: the level of {name} is one of {', '.join(map(str, known))}, got {value!r}")
    return value


def _of_environment(text):
    """Return the logs that a value of TORCH_LOGS names: "graph_breaks,+dynamo,-inductor,some.module"."""
    levels = {}
    for word in filter(None, (part.strip() for part in text.split(","))):
        name = word.lstrip("+-")
        level = {"+": logging.DEBUG, "-": logging.ERROR}.get(word[0], logging.INFO)
        if name in ARTIFACTS:
            if word[0] != "-":
                levels[_artifact(name)] = logging.DEBUG
        elif name == "all":
            levels |= dict.fromkeys(PARTS.values(), level)
        elif name in PARTS or "." in name:
            levels[PARTS.get(name, name)] = level
        else:
            known = ", ".join(sorted(ARTIFACTS | PARTS.keys()))
            raise ValueError(f"TORCH_LOGS: a log is one of {known}, or the name of a module, got {word!r}")
    return levels


def any_told() -> bool:
    """Return whether any log is on."""
    return bool(_levels)


def told(artifact: str, text: str) -> None:
    """Tell a text, where the log is on."""
    name = _artifact(artifact)
    if name in _levels:
        logging.getLogger(name).debug("%s", text)


def getArtifactLogger(module_qname: str, artifact_name: str) -> logging.Logger:
    """Return the logger of an artifact for a module, which is on when the artifact is.

    Args:
        module_qname: the module that asks.
        artifact_name: such as "graph_breaks".

    Errors: ValueError for the name of no artifact.
    """
    if artifact_name not in ARTIFACTS:
        raise ValueError(f"getArtifactLogger: an artifact is one of {', '.join(sorted(ARTIFACTS))}, got {artifact_name!r}")
    name = f"{module_qname}.__{artifact_name}"
    _artifact_loggers[name] = artifact_name
    logger = logging.getLogger(name)
    if _artifact(artifact_name) in _levels:
        _turn_on(dict(_levels))
    elif name not in _levels:
        logger.setLevel(logging.CRITICAL + 1)  # nobody asked for it
    return logger


@functools.cache
def warning_once(logger_obj: logging.Logger, *args: Any, **kwargs: Any) -> None:
    """Give a warning once for the same arguments.

    Args:
        logger_obj: the logger.
        args, kwargs: those of its `warning`.
    """
    logger_obj.warning(*args, **kwargs)


def trace_structured(name: str, *args: Any, **kwargs: Any) -> None:
    """Do nothing: what PyTorch's compiler writes for its viewers has no reader here.

    Args:
        name: the kind of record.
        args, kwargs: what it would hold.
    """


class LazyString:
    """Format a text only when it is written.

    Args:
        func: makes it.
        args, kwargs: what it is given.

    >>> str(torch._logging.LazyString("{} {}".format, 1, 2))
    '1 2'
    """

    def __init__(self, func: Any, *args: Any, **kwargs: Any) -> None:
        self.func, self.args, self.kwargs = func, args, kwargs

    def __str__(self) -> str:
        return self.func(*self.args, **self.kwargs)


if os.environ.get("TORCH_LOGS"):
    _turn_on(_of_environment(os.environ["TORCH_LOGS"]))
