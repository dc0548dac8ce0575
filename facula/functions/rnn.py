"""Define recurrent networks and cells as functions, with torch's signatures."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING

from facula import Tensor
from facula._shared.autocast import in_dtype
from facula.nn.functions.rnn import _one_layer, run

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell"]


_NETWORK = """{doc}

With packed sequences the arguments are data, batch_sizes, hx, params, has_biases, num_layers, dropout, train, bidirectional.

Args:
    input: (time, N, features), or (N, time, features) with batch_first.
    hx: the first state{states}, (layers * directions, N, hidden).
    params: for each layer and direction the weights of the input and of the state, and with has_biases two biases: of
        {gates}hidden rows.
    has_biases: whether there are biases.
    num_layers: how many networks follow one another.
    dropout: the share of a layer's results that the next one does not see, where train is on.
    train: whether values are dropped.
    bidirectional: whether every layer also reads its input from the end.
    batch_first: whether input and output begin with the batch.
    data, batch_sizes: of a packed sequence, in place of input and batch_first.

Returns the results of the last layer, (time, N, directions * hidden), and the last state{states}.

Errors: TypeError for missing and unknown arguments; RuntimeError for shapes that do not fit.

>>> cell = nn.{layer}(3, 4)
>>> x, h = torch.zeros(5, 2, 3), torch.zeros(1, 2, 4)
>>> output, *state = torch.{name}(x, {given}, list(cell.parameters()), True, 1, 0.0, False, False, False)
>>> output.shape, len(state)
(torch.Size([5, 2, 4]), {count})
"""
_CELL = """{doc}

Args:
    input: (N, features), or (features) for one example.
    hx: the state{states}, (N, hidden) or (hidden).
    w_ih, w_hh: the weights of the input, ({gates}hidden, features), and of the state, ({gates}hidden, hidden).
    b_ih, b_hh: biases of as many rows; both or neither.

Returns the next state{states}. Errors: RuntimeError for shapes that do not fit.

>>> x, h = torch.zeros(2, 3), torch.zeros(2, 4)
>>> new = torch.{name}(x, {given}, torch.zeros({rows}, 3), torch.zeros({rows}, 4))
>>> {new}.shape
torch.Size([2, 4])
"""
_GATES = {"LSTM": 4, "GRU": 3}


def _shown(mode, name):
    """Return what differs between the texts of the kinds of networks."""
    long, gates = mode == "LSTM", _GATES.get(mode, 1)
    layer = mode if gates > 1 else "RNN"
    return {
        "name": name, "layer": layer, "states": "s h and c" if long else "", "gates": f"{gates} * " if gates > 1 else "",
        "given": "(h, h)" if long else "h", "count": 2 if long else 1, "rows": 4 * gates, "new": "new[0]" if long else "new",
    }  # fmt: skip


def _network(mode: str, name: str, doc: str):
    """Return ``torch.lstm`` and its like: (input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
    batch_first), or with packed data (data, batch_sizes, hx, params, ... bidirectional).
    """
    states = 2 if mode == "LSTM" else 1

    def network(input, *args, **kwargs):
        packed = "batch_sizes" in kwargs or (
            len(args) > 1 and isinstance(args[0], Tensor) and _is_state(args[1], states)
        )
        names = ("batch_sizes",) if packed else ()
        names += ("hx", "params", "has_biases", "num_layers", "dropout", "train", "bidirectional")
        names += () if packed else ("batch_first",)
        if len(args) > len(names) or set(kwargs) - set(names[len(args) :]):
            given = f"{len(args) + 1} positional ones and {sorted(kwargs)}"
            raise TypeError(f"{name}: takes the arguments input, {', '.join(names)}, got {given}")
        options = {**dict(zip(names, args, strict=False)), **kwargs}
        missing = [n for n in names if n not in options]
        if missing:
            raise TypeError(f"{name}: takes the arguments input, {', '.join(names)}, got no {missing[0]}")
        return _run_network(mode, input, states, **options)

    network.__name__ = network.__qualname__ = name
    network.__doc__ = _NETWORK.format(doc=doc, **_shown(mode, name))
    words = {
        "input": "Tensor", "hx": "Tensor" if states == 1 else "Sequence[Tensor]", "params": "Sequence[Tensor]",
        "has_biases": "bool", "num_layers": "int", "dropout": "float", "train": "bool", "bidirectional": "bool",
        "batch_first": "bool",
    }  # fmt: skip
    either = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(word, either, annotation=kind) for word, kind in words.items()]
    network.__signature__ = inspect.Signature(parameters, return_annotation="tuple[Tensor, ...]")
    return network


def _is_state(value, states: int) -> bool:
    return isinstance(value, Tensor) if states == 1 else isinstance(value, (tuple, list)) and len(value) == states


def _run_network(
    mode, input, states, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first=False,
    batch_sizes=None,
):  # fmt: skip
    input = input.transpose(0, 1) if batch_first else input
    sizes = None if batch_sizes is None else batch_sizes.tolist()
    hidden = (hx,) if states == 1 else tuple(hx)
    output, final = run(
        mode, input, hidden, list(params), has_biases, num_layers, dropout, train, bidirectional, sizes
    )
    return (output.transpose(0, 1) if batch_first else output, *final)


lstm: Callable[..., tuple[Tensor, ...]] = _network("LSTM", "lstm", "Run a long short-term memory network, of state (h, c).")
gru: Callable[..., tuple[Tensor, ...]] = _network("GRU", "gru", "Run a network of gated recurrent units.")
rnn_tanh: Callable[..., tuple[Tensor, ...]] = _network(
    "RNN_TANH", "rnn_tanh", "Run an Elman network: h' = tanh(W_ih x + b_ih + W_hh h + b_hh)."
)
rnn_relu: Callable[..., tuple[Tensor, ...]] = _network(
    "RNN_RELU", "rnn_relu", "Run an Elman network: h' = relu(W_ih x + b_ih + W_hh h + b_hh)."
)


def _cell(mode: str, name: str, doc: str):
    @in_dtype(None, ("cuda",))
    def cell(
        input: Tensor,
        hx: Tensor | Sequence[Tensor],
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor | None = None,
        b_hh: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, ...]:
        batched = input.dim() == 2
        hidden = tuple(hx) if mode == "LSTM" else (hx,)
        if not batched:
            input, hidden = input.unsqueeze(0), tuple(h.unsqueeze(0) for h in hidden)
        weights = (w_ih, w_hh) if b_ih is None and b_hh is None else (w_ih, w_hh, b_ih, b_hh)
        _, final = _one_layer(mode, input.unsqueeze(0), hidden, weights, len(weights) == 4, None, False)
        final = final if batched else tuple(h.squeeze(0) for h in final)
        return final if mode == "LSTM" else final[0]

    cell.__name__ = cell.__qualname__ = name
    cell.__doc__ = _CELL.format(doc=doc, **_shown(mode, name))
    return cell


lstm_cell: Callable[..., tuple[Tensor, Tensor]] = _cell(
    "LSTM", "lstm_cell", "Make one step of a long short-term memory network, from state (h, c) to the next."
)
gru_cell: Callable[..., Tensor] = _cell("GRU", "gru_cell", "Make one step of a network of gated recurrent units.")
rnn_tanh_cell: Callable[..., Tensor] = _cell(
    "RNN_TANH", "rnn_tanh_cell", "Make one step of an Elman network: tanh(W_ih x + b_ih + W_hh h + b_hh)."
)
rnn_relu_cell: Callable[..., Tensor] = _cell(
    "RNN_RELU", "rnn_relu_cell", "Make one step of an Elman network: relu(W_ih x + b_ih + W_hh h + b_hh)."
)
