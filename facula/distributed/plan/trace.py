"""Measure a training step of one process: when gradients come, how long modules take, and what autograd saves."""

from __future__ import annotations

import runpy
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import facula
from facula import nn
from facula.autograd.graph import saved_tensors_hooks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula.nn.modules.module import Module


@dataclass(frozen=True)
class Parameter:
    """Describe a parameter that is trained.

    Attributes:
        name: its name in the model.
        nbytes: its size, and that of its gradient.
        ready: seconds from the beginning of the backward pass to its gradient.
        unit: which of the trace's units it belongs to.

    >>> from torch.distributed.plan.trace import Parameter
    >>> Parameter("weight", nbytes=4000, ready=0.02, unit=0).nbytes
    4000
    """

    name: str
    nbytes: int
    ready: float
    unit: int


@dataclass(frozen=True)
class Trace:
    """Hold the measurements of one step of one process: medians, in seconds and bytes. `trace_step` makes it.

    Attributes:
        parameters: in the order of registration.
        units: names of what `fully_shard` would be called for, in the order in which forward enters them; the first is the
            model, with the parameters that are in no other.
        begins: when forward enters each unit.
        forward, backward, update: the three parts of a step.
        samples: in a batch.
        saved: what autograd keeps for the backward pass, parameters left out.
        state: bytes of optimizer state for each byte of parameters.
        buffers: of the model, and parameters that are not trained.

    >>> from torch.distributed.plan import Trace
    >>> from torch.distributed.plan.trace import Parameter
    >>> trace = Trace(
    ...     parameters=(Parameter("weight", 4000, ready=0.02, unit=0),), units=("",), begins=(0.0,), forward=0.01,
    ...     backward=0.02, update=0.002, samples=32, saved=1000, state=2.0, buffers=0,
    ... )
    >>> trace.parameter_bytes, trace.faster(2).forward
    (4000, 0.005)
    """

    parameters: tuple[Parameter, ...]
    units: tuple[str, ...]
    begins: tuple[float, ...]
    forward: float
    backward: float
    update: float
    samples: int
    saved: int
    state: float
    buffers: int

    @property
    def parameter_bytes(self) -> int:
        """Of all that are trained."""
        return sum(p.nbytes for p in self.parameters)

    def faster(self, factor: float) -> Trace:
        """Return the same on a device that computes `factor` times as fast.

        Args:
            factor: a number above 0; ValueError for others.
        """
        if not factor > 0:
            raise ValueError(f"plan: a device computes above 0 times as fast, got {factor}")
        times = {name: getattr(self, name) / factor for name in ("forward", "backward", "update")}
        parameters = tuple(replace(p, ready=p.ready / factor) for p in self.parameters)
        return replace(self, parameters=parameters, begins=tuple(b / factor for b in self.begins), **times)


@dataclass(frozen=True)
class Program:
    """Hold what a file defines about its training.

    Attributes:
        model: makes the module.
        example: example(batch) makes what the module is called with: a tensor, a tuple of arguments or a dict of keywords.
        loss: loss(output) makes the number that is minimized; by default the mean of the output's squares.
        optimizer: optimizer(parameters) makes the optimizer; by default Adam.

    >>> from torch.distributed.plan.trace import Program
    >>> program = Program(lambda: nn.Linear(4, 2), lambda batch: torch.ones(batch, 4), torch.sum, torch.optim.SGD)
    >>> program.model()(program.example(3)).shape
    torch.Size([3, 2])
    """

    model: Callable[..., Any]
    example: Callable[..., Any]
    loss: Callable[..., Any]
    optimizer: Callable[..., Any]


def _mean_square(output):
    while not isinstance(output, facula.Tensor):
        output = next(iter(output.values())) if isinstance(output, dict) else output[0]
    return output.float().square().mean() if output.dim() else output


def load_program(path: Any) -> Program:
    r"""Return the functions of a file, as a Program; `import torch` gives Facula there.

    Args:
        path: the file. ValueError when it is not there, or model() or example() is not in it.

    >>> import tempfile
    >>> from torch.distributed.plan import load_program
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with open(f"{folder}/model.py", "w") as file:
    ...         text = file.write("from facula import nn, randn\n\n")
    ...         text = file.write("def model():\n    return nn.Linear(4, 2)\n\n")
    ...         text = file.write("def example(batch):\n    return randn(batch, 4)\n")
    ...     load_program(f"{folder}/model.py").example(3).shape
    torch.Size([3, 4])
    """
    from facula import compat

    if not Path(path).is_file():
        raise ValueError(f"plan: a file with model() and example(batch) is expected, got {str(path)!r}")
    compat.install()
    scope = runpy.run_path(str(path), run_name="facula_plan")
    missing = [name for name in ("model", "example") if not callable(scope.get(name))]
    if missing:
        raise ValueError(f"plan: {path} must define model() and example(batch), got none of the name {missing[0]}")
    return Program(
        scope["model"], scope["example"], scope.get("loss", _mean_square), scope.get("optimizer", facula.optim.Adam)
    )


def call(model: Module, inputs: Any) -> Any:
    """Return the model's output for what `example` made.

    Args:
        model: the module.
        inputs: a tensor, a tuple of arguments or a dict of keywords.

    >>> from torch.distributed.plan.trace import call
    >>> call(nn.Linear(4, 2), {"input": torch.ones(3, 4)}).shape
    torch.Size([3, 2])
    """
    if isinstance(inputs, dict):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, (tuple, list)) else model(inputs)


def units_of(model: Module, classes: Sequence[str] | tuple[Any, ...] = ()) -> dict[str, nn.Module]:
    """Return the modules that get a `fully_shard` of their own, by name: those of the named classes, else the elements of the
    outermost ModuleLists and Sequentials that have parameters.

    Args:
        model: the module.
        classes: names of classes.

    >>> from torch.distributed.plan.trace import units_of
    >>> list(units_of(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))))
    ['0', '2']
    """
    found: dict[str, nn.Module] = {}

    def visit(prefix, module):
        for name, child in module.named_children():
            if not any(p.requires_grad for p in child.parameters()):
                continue
            listed = isinstance(module, (nn.ModuleList, nn.Sequential))
            if type(child).__name__ in classes if classes else listed and not isinstance(child, (nn.ModuleList, nn.Sequential)):
                found[prefix + name] = child
            else:
                visit(f"{prefix}{name}.", child)

    visit("", model)
    return found


class _Watch:
    """Record by hooks when forward enters units and when gradients come."""

    def __init__(self, model, units) -> None:
        self.entered: dict[str, float] = {}
        self.ready: dict[str, float] = {}
        self.handles = [unit.register_forward_pre_hook(self._enter(name)) for name, unit in units.items()]
        self.handles += [
            p.register_post_accumulate_grad_hook(self._came(name)) for name, p in model.named_parameters() if p.requires_grad
        ]

    def _enter(self, name):
        def hook(*_):
            self.entered.setdefault(name, time.perf_counter())

        return hook

    def _came(self, name):
        def hook(_):
            self.ready[name] = time.perf_counter()

        return hook

    def stop(self) -> None:
        for handle in self.handles:
            handle.remove()


def _saved_bytes(model, inputs, loss) -> int:
    """Return what one forward pass keeps, each storage once, without parameters."""
    known = {p.untyped_storage()._cdata for p in model.parameters()}
    kept: dict[int, Any] = {}

    def pack(t):
        storage = t.untyped_storage()
        if storage._cdata not in known:
            # The storage is referenced too, since the address of a freed one may be given to the next.
            kept[storage._cdata] = storage
        return t

    with saved_tensors_hooks(pack, lambda t: t):
        loss(call(model, inputs))
    return sum(storage.nbytes() for storage in kept.values())


def _state_bytes(optimizer) -> int:
    states = [value for state in optimizer.state.values() for value in state.values()]
    return sum(value.nbytes for value in states if isinstance(value, facula.Tensor) and value.dim())


def _step(model, inputs, program, optimizer, watch) -> dict:
    """Return the times of one step: floats, or dicts of them by name."""
    watch.entered.clear(), watch.ready.clear()
    optimizer.zero_grad()
    times = [time.perf_counter()]
    loss = program.loss(call(model, inputs))
    times.append(time.perf_counter())
    loss.backward()
    times.append(time.perf_counter())
    optimizer.step()
    times.append(time.perf_counter())
    return {
        "forward": times[1] - times[0], "backward": times[2] - times[1], "update": times[3] - times[2],
        "begins": {name: t - times[0] for name, t in watch.entered.items()},
        "ready": {name: t - times[1] for name, t in watch.ready.items()},
    }  # fmt: skip


def _medians(steps: list[dict], key: str):
    values = [step[key] for step in steps]
    if isinstance(values[0], dict):
        return {name: statistics.median(value[name] for value in values) for name in values[0]}
    return statistics.median(values)


def trace_step(program: Program, batch: int, steps: int = 7, unit_classes: tuple[Any, ...] = ()) -> Trace:
    """Run steps of a program here, after two that warm up, and note what they take.

    Args:
        program: a Program, e.g. of `load_program`.
        batch: how many samples.
        steps: how many steps; medians of them count. ValueError for less than one, or a model without anything to train.
        unit_classes: names of classes of modules that get a `fully_shard` of their own.

    Returns: a Trace; seconds are medians of the steps, and sizes are bytes.

    Errors: ValueError for less than one sample or step, and for a model without anything to train.

    >>> from torch.distributed.plan import trace_step
    >>> from torch.distributed.plan.trace import Program
    >>> program = Program(lambda: nn.Linear(4, 2), lambda batch: torch.ones(batch, 4), torch.sum, torch.optim.SGD)
    >>> trace = trace_step(program, batch=3, steps=1)
    >>> trace.samples, trace.parameter_bytes, trace.state
    (3, 40, 0.0)
    """
    if batch < 1 or steps < 1:
        raise ValueError(f"plan: expected at least one sample and one step, got {batch} and {steps}")
    model, inputs = program.model(), program.example(batch)
    trained = sum(p.nbytes for p in model.parameters() if p.requires_grad)
    if not trained:
        raise ValueError("plan: the model has nothing to train, got no parameter that requires a gradient")
    optimizer = program.optimizer(model.parameters())
    units = units_of(model, unit_classes)
    watch = _Watch(model, units)
    measured = [_step(model, inputs, program, optimizer, watch) for _ in range(steps + 2)][2:]
    watch.stop()
    begins, ready = _medians(measured, "begins"), _medians(measured, "ready")
    order = sorted(begins, key=begins.get)
    place = {id(p): number for number, name in enumerate(order, 1) for p in units[name].parameters()}
    parameters = tuple(
        Parameter(name, p.nbytes, ready.get(name, 0.0), place.get(id(p), 0))
        for name, p in model.named_parameters() if p.requires_grad
    )  # fmt: skip
    others = [p for p in model.parameters() if not p.requires_grad] + list(model.buffers())
    return Trace(
        parameters, ("", *order), (0.0, *(begins[name] for name in order)), _medians(measured, "forward"),
        _medians(measured, "backward"), _medians(measured, "update"), batch, _saved_bytes(model, inputs, program.loss),
        _state_bytes(optimizer) / trained, sum(t.nbytes for t in others),
    )  # fmt: skip
