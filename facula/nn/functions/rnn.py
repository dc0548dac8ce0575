"""Compute recurrent layers: one op of the core per layer and direction, or all of them by cuDNN on CUDA.

A layer projects its whole input once; what is left for each step is one product with the hidden state and the
cell's formula, which `_rnn_layer` does for all steps. Layers that it does not know (LSTM with a projection, narrow
dtypes) run the same steps here, packed sequences over batches that shrink (or, backwards in time, grow). An LSTM of
bfloat16 over equal batches is computed in float32 and rounded in the end, as PyTorch's is by oneDNN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C
from facula._C.nn_functional import linear
from facula._shared import autocast

from .random import dropout

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from facula import Tensor

_nn = _C.nn_functional


def tanh_cell(gates_x: Tensor, hidden: Sequence[Tensor], weight_hh: Tensor, bias_hh: Tensor) -> tuple[Tensor]:
    """Return the new hidden state of (N, H) projected input and hidden state."""
    return ((gates_x + linear(hidden[0], weight_hh, bias_hh)).tanh(),)


def relu_cell(gates_x: Tensor, hidden: Any, weight_hh: Tensor, bias_hh: Tensor) -> tuple[Tensor]:
    """Return what `tanh_cell` gives, with relu."""
    return ((gates_x + linear(hidden[0], weight_hh, bias_hh)).relu(),)


def lstm_cell(gates_x: Tensor, hidden: Sequence[Tensor], weight_hh: Tensor, bias_hh: Tensor,
              weight_hr: Tensor | None = None) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Compute one step, with gates in the order input, forget, cell, output; ``weight_hr`` projects the new hidden state."""
    h, c = hidden
    i, f, g, o = (gates_x + linear(h, weight_hh, bias_hh)).chunk(4, 1)
    c = f.sigmoid() * c + i.sigmoid() * g.tanh()
    h = o.sigmoid() * c.tanh()
    if weight_hr is not None:
        h = linear(h, weight_hr)
    return h, c


def gru_cell(gates_x: Tensor, hidden: Sequence[Tensor], weight_hh: Tensor, bias_hh: Tensor) -> tuple[Tensor]:
    """Compute one step, with gates in the order reset, update, new."""
    h = hidden[0]
    reset_x, update_x, new_x = gates_x.chunk(3, 1)
    reset_h, update_h, new_h = linear(h, weight_hh, bias_hh).chunk(3, 1)
    update = (update_x + update_h).sigmoid()
    new = (new_x + (reset_x + reset_h).sigmoid() * new_h).tanh()
    # The same as update * h + (1 - update) * new, with one product less.
    return ((h - new) * update + new,)


CELLS: dict[Any, Any] = {"RNN_TANH": tanh_cell, "RNN_RELU": relu_cell, "LSTM": lstm_cell, "GRU": gru_cell}


def _direction(cell, steps, hidden, weights, reverse: bool):
    """Run one layer in one direction over equal batches; returns (outputs in time order, final hidden)."""
    outputs = []
    for gates_x in reversed(steps) if reverse else steps:
        hidden = cell(gates_x, hidden, *weights)
        outputs.append(hidden[0])
    return (outputs[::-1] if reverse else outputs), hidden


def _direction_packed(cell, steps, hidden, weights):
    """Return what `_direction` gives, forwards over shrinking batches: sequences that end leave with their hidden state."""
    outputs, ended = [], []
    for gates_x in steps:
        n = gates_x.size(0)
        if n < hidden[0].size(0):
            ended.append(tuple(h[n:] for h in hidden))
            hidden = tuple(h[:n] for h in hidden)
        hidden = cell(gates_x, hidden, *weights)
        outputs.append(hidden[0])
    # Sequences are sorted by length, so the last to end come first.
    parts = [hidden, *reversed(ended)]
    return outputs, tuple(facula.cat(states) for states in zip(*parts))


def _direction_packed_reverse(cell, steps, first_hidden, weights):
    """Return what `_direction` gives, backwards over growing batches: sequences join with their initial hidden state."""
    outputs = []
    n = steps[-1].size(0)
    hidden = tuple(h[:n] for h in first_hidden)
    for gates_x in reversed(steps):
        joined = gates_x.size(0)
        if joined > n:
            hidden = tuple(facula.cat([h, first[n:joined]]) for h, first in zip(hidden, first_hidden))
            n = joined
        hidden = cell(gates_x, hidden, *weights)
        outputs.append(hidden[0])
    return outputs[::-1], hidden


def _one_layer(mode, input, start, weights, has_biases, batch_sizes, reverse: bool):
    """Return one layer in one direction: (output like input, tuple of final hidden tensors)."""
    if mode == "LSTM" and _widened(input, start, weights, has_biases, batch_sizes):
        return _in_float32(input, start, weights, has_biases, reverse)
    w_ih, w_hh, *rest = weights
    b_ih, b_hh, *projection = rest if has_biases else (None, None, *rest)
    gates = linear(input, w_ih, b_ih)
    # The core's kernel knows neither projections nor narrow dtypes.
    if projection or gates.dtype not in (facula.float32, facula.float64):
        return _steps_in_python(CELLS[mode], gates, start, (w_hh, b_hh, *projection), batch_sizes, reverse)
    sizes = [gates.size(1)] * gates.size(0) if batch_sizes is None else batch_sizes
    cell = start[1] if mode == "LSTM" else None
    flat = gates.reshape(-1, gates.size(-1))
    output, h, c = _nn._rnn_layer(flat, start[0], cell, w_hh, b_hh, mode, sizes, reverse)
    return output.reshape(*gates.shape[:-1], output.size(-1)), (h, c) if mode == "LSTM" else (h,)


def _widened(input, start, weights, has_biases, batch_sizes) -> bool:
    """Return True if a layer of an LSTM is computed in float32: all is bfloat16, except that the cell may be float32."""
    if input.dtype != facula.bfloat16 or input.device.type != "cpu" or batch_sizes is not None:
        return False
    h, c = start
    known = len(weights) == (4 if has_biases else 2) and c.dtype in (facula.bfloat16, facula.float32)
    return known and all(t.dtype == facula.bfloat16 for t in (h, *weights))


def _in_float32(input, start, weights, has_biases, reverse: bool):
    """Compute what `_one_layer` does in float32, and round the results to the dtypes of the input and of the states."""
    input32, h32, c32, *weights32 = (t.float() for t in (input, *start, *weights))
    with autocast.paused():  # a region would make the products narrow again
        output, final = _one_layer("LSTM", input32, (h32, c32), weights32, has_biases, None, reverse)
    return output.to(input.dtype), tuple(state.to(given.dtype) for state, given in zip(final, start))


def _steps_in_python(cell, gates, start, weights, batch_sizes, reverse: bool):
    """Return what `_one_layer` gives, step by step."""
    steps = gates.unbind(0) if batch_sizes is None else gates.split(batch_sizes)
    if batch_sizes is None:
        outputs, final = _direction(cell, steps, start, weights, reverse)
        return _C.stack(outputs), final
    run_packed = _direction_packed_reverse if reverse else _direction_packed
    outputs, final = run_packed(cell, steps, start, weights)
    return _C.cat(outputs), final


GATES = {"RNN_TANH": 1, "RNN_RELU": 1, "LSTM": 4, "GRU": 3}


def network_of(mode: str, weights: Sequence[Tensor], has_biases: bool, num_layers: int,
               bidirectional: bool) -> tuple[int | str, ...]:  # fmt: skip
    """Return the sizes of a network, as the core takes them."""
    hidden = weights[0].size(0) // GATES[mode]
    projected = weights[1].size(1) if len(weights) // (num_layers * (2 if bidirectional else 1)) % 2 else 0
    return (mode, weights[0].size(1), hidden, projected, num_layers, has_biases, bidirectional)


def _by_library(network, input, hidden, weights, dropout_p, batch_sizes):
    """Return what cuDNN gives for the whole network; None where it does not compute it."""
    if not input.is_cuda or input.numel() == 0 or type(input) is not facula.Tensor:
        return None
    sizes = [input.size(1)] * input.size(0) if batch_sizes is None else batch_sizes
    given = (input.reshape(-1, input.size(-1)), *hidden)
    found = _C._rnn_by_library(network, given, weights, dropout_p, sizes, batch_sizes is not None)
    if found is None:
        return None
    output, *final = found
    return output.reshape(*input.shape[:-1], output.size(-1)), tuple(final)


def _recorded(mode, input, hidden, weights, *options):
    """Record a network as one node of the program."""
    states = list(hidden) if mode == "LSTM" else hidden[0]
    has_biases, num_layers, dropout_p, training, bidirectional = options
    arguments = (input, states, weights, has_biases, num_layers, float(dropout_p), training, bidirectional, False)

    def network():
        output, final = run(mode, input, hidden, weights, *options)
        return (output, *final)

    output, *final = _C._record_op(f"{mode.lower()}.input", arguments, network, ())
    return output, tuple(final)


def run(mode: str, input: Tensor, hidden: Sequence[Tensor], weights: Sequence[Tensor], has_biases: bool, num_layers: int,
        dropout_p: float, training: bool, bidirectional: bool,
        batch_sizes: Sequence[int] | None = None) -> tuple[Tensor, tuple[Tensor, ...]]:  # fmt: skip
    """Run all layers of a recurrent network.

    Args:
        mode: a key of `CELLS`.
        input: (T, N, features), or (sum of lengths, features) with ``batch_sizes``.
        hidden: tuple of (layers * directions, N, size) tensors: (h,) or, for LSTM, (h, c).
        weights: per layer and direction: w_ih, w_hh[, b_ih, b_hh][, w_hr].
        batch_sizes: list with the number of sequences of each time step, or None for equal ones.

    Returns:
        (output of the last layer like input, tuple of final hidden tensors).
    """
    projected = len(weights) // (num_layers * (2 if bidirectional else 1)) % 2
    # An exported program has the network as one op, as PyTorch's have, instead of an op for every step.
    if batch_sizes is None and not projected and _C._recording():
        return _recorded(mode, input, hidden, weights, has_biases, num_layers, dropout_p, training, bidirectional)
    if _C._autocasts():
        devices = ("cpu", "cuda") if mode == "LSTM" and batch_sizes is None else ("cuda",)
        input, hidden, weights = (autocast.cast(tensors, None, devices) for tensors in (input, hidden, weights))
    network = network_of(mode, weights, has_biases, num_layers, bidirectional)
    # Dropout is between layers only, and a library must not draw numbers for none.
    drops = dropout_p if training and num_layers > 1 else 0.0
    found = _by_library(network, input, hidden, weights, drops, batch_sizes)
    if found is not None:
        return found
    directions = 2 if bidirectional else 1
    per_row = len(weights) // (num_layers * directions)
    finals = []
    for layer in range(num_layers):
        layer_outputs = []
        for direction in range(directions):
            row = layer * directions + direction
            row_weights = weights[row * per_row : (row + 1) * per_row]
            start = tuple(h[row] for h in hidden)
            output, final = _one_layer(mode, input, start, row_weights, has_biases, batch_sizes, direction == 1)
            layer_outputs.append(output)
            finals.append(final)
        input = layer_outputs[0] if directions == 1 else facula.cat(layer_outputs, -1)
        if dropout_p > 0 and training and layer < num_layers - 1:
            input = dropout(input, dropout_p, True)
    return input, tuple(facula.stack(states) for states in zip(*finals))
