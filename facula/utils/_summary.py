"""Summarize a model: what its modules return for given inputs, how many parameters they have, and what they cost.

The model runs once. A hook before and after every module records the call. The cost of a call is the difference of the
counter of `flop_counter` between both. Calls within calls form a tree, which `_summary_drawing` draws.
"""

from __future__ import annotations

import contextlib
import dataclasses
import html
from typing import TYPE_CHECKING

import facula
from facula._shared.text_table import table
from facula.nn.modules.module import Module, register_module_forward_hook, register_module_forward_pre_hook
from facula.nn.parameter import is_lazy
from facula.utils import _pytree
from facula.utils.flop_counter import FlopCounterMode

if TYPE_CHECKING:
    import os
    from typing import Any

_COLUMNS = ("layer", "output", "parameters", "multiply-adds")


@dataclasses.dataclass
class Call:
    """Describe one call of a module: the name of its layer, its output, its multiply-adds, and the calls within it."""

    name: str
    kind: str
    output: str = ""
    multiply_adds: int = 0
    inside: list[Call] = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Layer:
    """Describe a module of the model under one of its names.

    Attributes:
        name: where it stands, such as "encoder.0"; "" is the model itself.
        kind: its class.
        depth: how many modules it is inside of.
        calls: how often it ran; ``ran`` is also True where only modules inside of it ran.
        output: the shape of the result of its last call, in words where that is no tensor; "" where it did not run.
        parameters, trainable: numbers in the parameters of it and of all modules inside, each parameter once, and how many of
            them require grad.
        multiply_adds: of all its calls, with what is called inside.
        same_as: the first name of a module that stands in several places, else None.
    """

    name: str
    kind: str
    depth: int
    calls: int = 0
    ran: bool = False
    output: str = ""
    parameters: int = 0
    trainable: int = 0
    multiply_adds: int = 0
    same_as: str | None = None


@dataclasses.dataclass(repr=False)
class Summary:
    """Hold the result of `facula.utils.summary`; its text is the table.

    Attributes:
        layers: a `Layer` for each module, in the order of `named_modules`, a module that stands twice under both names.
        calls: a `Call` for each call of a module that no other module made, with the calls within it; in order.
        parameters, trainable, buffers: numbers in them, of the whole model.
        multiply_adds: of the whole call; half of what `FlopCounterMode` counts.
    """

    layers: list[Layer]
    calls: list[Call]
    parameters: int
    trainable: int
    buffers: int
    multiply_adds: int

    def _rows(self):
        for layer in self.layers:
            name = layer.name.rpartition(".")[2] or layer.kind
            name += f" ({layer.kind})" if layer.name else ""
            name += f" × {layer.calls}" if layer.calls > 1 else ""
            if layer.same_as is not None:
                yield layer.depth, (name, f"same as {layer.same_as or 'the model'}", "", "")
            else:
                cost = f"{layer.multiply_adds:,}" if layer.multiply_adds else "-"
                held = f"{layer.parameters:,}" if layer.parameters else "-"
                yield layer.depth, (name, layer.output if layer.ran else "not called", held, cost)

    def _totals(self):
        yield f"parameters: {self.parameters:,} ({self.trainable:,} trainable), in buffers: {self.buffers:,}"
        yield f"multiply-adds: {self.multiply_adds:,}"

    def __repr__(self) -> str:
        rows = [("  " * depth + name, *rest) for depth, (name, *rest) in self._rows()]
        lines = table(_COLUMNS, rows, left=2)
        return "\n".join([*lines, lines[1], *self._totals()])

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        left = 'style="text-align:left"'
        written = ["<tr>" + "".join(f"<th>{column}</th>" for column in _COLUMNS) + "</tr>"]
        for depth, (name, output, *numbers) in self._rows():
            cells = f'<td style="text-align:left;padding-left:{0.5 + 1.2 * depth:.1f}em">{html.escape(name)}</td>'
            cells += f"<td {left}>{html.escape(output)}</td>" + "".join(f"<td>{number}</td>" for number in numbers)
            written.append(f"<tr>{cells}</tr>")
        totals = "".join(f"<div>{html.escape(line)}</div>" for line in self._totals())
        return f'<div style="font-family:monospace"><table style="text-align:right">{"".join(written)}</table>{totals}</div>'

    def svg(self) -> str:
        """Return the drawing as the text of an SVG file: a box for each call, from top to bottom in the order in which they
        ran, and around the calls that a module made a frame of its own. Of many calls the outer ones are drawn.

        >>> torch.utils.summary(torch.nn.Linear(2, 3), torch.ones(1, 2)).svg().startswith("<svg ")
        True
        """
        from ._summary_drawing import drawing

        return drawing(self)

    def draw(self, path: str | os.PathLike[str]) -> None:
        """Write the drawing of `svg` to a file.

        Args:
            path: where.

        >>> import os, tempfile
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = os.path.join(folder, "model.svg")
        ...     torch.utils.summary(torch.nn.Linear(2, 3), torch.ones(1, 2)).draw(path)
        ...     print(open(path).read()[:4])
        <svg
        """
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg())


def _described(value, depth=0):
    """Return in short what a module returned: shapes, and what holds them."""
    if isinstance(value, facula.Tensor):
        return str(list(value.shape))
    if depth < 3 and isinstance(value, dict):
        parts = [f"{key}: {_described(part, depth + 1)}" for key, part in list(value.items())[:4]]
        return "{" + ", ".join(parts + ["..."] * (len(value) > 4)) + "}"
    if depth < 3 and isinstance(value, (tuple, list)):
        parts = [_described(part, depth + 1) for part in value[:4]]
        return "(" + ", ".join(parts + ["..."] * (len(value) > 4)) + ")"
    return "None" if value is None else type(value).__name__


class _Watcher:
    """Record the calls of modules, and the cost of each one."""

    def __init__(self, model, counter):
        self.counter = counter
        self.names = {}
        for name, module in model.named_modules():
            self.names.setdefault(module, name)
        self.calls: list[Call] = []  # those that no module made
        self.running: list[Any] = []  # (call, count at its begin)
        self.by_module: dict[Any, list[Call]] = {}

    def before(self, module, args):
        call = Call(self.names.get(module, "not a part of the model"), type(module).__name__)
        (self.running[-1][0].inside if self.running else self.calls).append(call)
        self.by_module.setdefault(module, []).append(call)
        self.running.append((call, self.counter.get_total_flops()))

    def after(self, module, args, output):
        call, begin = self.running.pop()
        call.output = _described(output)
        call.multiply_adds = (self.counter.get_total_flops() - begin) // 2

    def __enter__(self):
        self.handles = [
            register_module_forward_pre_hook(self.before),
            register_module_forward_hook(self.after, always_call=True),
        ]
        return self

    def __exit__(self, *exception):
        for handle in self.handles:
            handle.remove()


@contextlib.contextmanager
def _buffers_as_they_were(model):
    """Give modules copies of their buffers within the block; what they do with them is forgotten."""
    kept = [(module, dict(module._buffers)) for module in model.modules()]
    copies: dict[int, Any] = {}
    for module, buffers in kept:
        for name, buffer in buffers.items():
            if buffer is not None and not is_lazy(buffer):
                module._buffers[name] = copies.setdefault(id(buffer), buffer.detach().clone())
    try:
        yield
    finally:
        for module, buffers in kept:
            made = {name: value for name, value in module._buffers.items() if is_lazy(buffers.get(name)) and not is_lazy(value)}
            module._buffers.clear()
            module._buffers.update({**buffers, **made})


def _accelerators(tensors):
    """Return the numbers of the CUDA devices of tensors, whose generators the model may draw from."""
    return sorted({tensor.device.index or 0 for tensor in tensors if tensor.device.type == "cuda"})


def _call(model, inputs):
    """Call the model; the counter and the hooks are inside what is to be as it was before."""
    counter = FlopCounterMode(display=False)
    watcher = _Watcher(model, counter)
    leaves = [leaf for leaf in _pytree.tree_leaves(inputs) if isinstance(leaf, facula.Tensor)]
    devices = _accelerators([*model.parameters(), *model.buffers(), *leaves])
    with facula.no_grad(), facula.random.fork_rng(devices), _buffers_as_they_were(model), counter, watcher:
        if isinstance(inputs, dict):
            model(**inputs)
        else:
            model(*(inputs if isinstance(inputs, (tuple, list)) else (inputs,)))
    return counter, watcher


def _numbers(tensors):
    return sum(0 if is_lazy(tensor) else tensor.numel() for tensor in tensors)


def _layers(model, by_module):
    """Yield a layer for each name of a module."""
    first: dict[Any, str] = {}
    for name, module in model.named_modules(remove_duplicate=False):
        layer = Layer(name, type(module).__name__, name.count(".") + 1 if name else 0)
        calls = by_module.get(module, [])
        layer.calls, layer.output = len(calls), calls[-1].output if calls else ""
        layer.ran = any(inner in by_module for inner in module.modules())
        layer.parameters = _numbers(module.parameters())
        layer.trainable = _numbers(p for p in module.parameters() if p.requires_grad)
        layer.multiply_adds = sum(call.multiply_adds for call in calls)
        layer.same_as = first.get(module)
        first.setdefault(module, name)
        yield layer


def summary(model: Module, inputs: Any) -> Summary:
    """Run a model once, and return what its modules make, hold and cost. `print` shows the result as a table, a notebook as
    well; its method `draw` writes a picture.

    The model runs without gradients, in the mode that it is in. Training flags, buffers and the random state (of the CPU and of
    the devices that hold its tensors) are the same afterwards; what a module keeps otherwise, such as a counter,
    is not put back. A lazy module gets its shapes, as in any call. On the device meta nothing is computed.

    Args:
        model: the module.
        inputs: what it is called with: a tensor, a tuple or list of arguments, or a dict of keyword arguments. A model that
            takes a tuple or a dict itself gets it in a tuple: ``({"x": x},)``.

    Returns:
        An object with ``layers``, ``parameters``, ``trainable``, ``buffers`` and ``multiply_adds``: those of matrix products,
        convolutions, recurrent layers and attention, as ``flop_counter`` counts them.

    Errors: TypeError for what is no module; what the model raises.

    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    >>> found = torch.utils.summary(net, torch.ones(3, 4))
    >>> print(found)
    layer         output  parameters  multiply-adds
    ------------  ------  ----------  -------------
    Sequential    [3, 2]          58            144
      0 (Linear)  [3, 8]          40             96
      1 (ReLU)    [3, 8]           -              -
      2 (Linear)  [3, 2]          18             48
    ------------  ------  ----------  -------------
    parameters: 58 (58 trainable), in buffers: 0
    multiply-adds: 144
    >>> found.layers[1].parameters, found.multiply_adds
    (40, 144)
    """
    if not isinstance(model, Module):
        raise TypeError(f"summary: model must be a Module, got {type(model).__name__}")
    counter, watcher = _call(model, inputs)
    parameters = list(model.parameters())
    return Summary(
        layers=list(_layers(model, watcher.by_module)),
        calls=watcher.calls,
        parameters=_numbers(parameters),
        trainable=_numbers(parameter for parameter in parameters if parameter.requires_grad),
        buffers=_numbers(model.buffers()),
        multiply_adds=counter.get_total_flops() // 2,
    )
