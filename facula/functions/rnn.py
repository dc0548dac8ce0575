"""Recurrent networks and cells as functions, with torch's signatures."""

from __future__ import annotations

from facula import Tensor
from facula._autocast import in_dtype
from facula.nn.functions.rnn import _one_layer, run

__all__ = ["gru", "gru_cell", "lstm", "lstm_cell", "rnn_relu", "rnn_relu_cell", "rnn_tanh", "rnn_tanh_cell"]


def _network(mode: str, name: str, doc: str):
    """``torch.lstm`` and its like: (input, hx, params, has_biases, num_layers, dropout, train, bidirectional,
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
    network.__doc__ = doc
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


lstm = _network("LSTM", "lstm", "A long short-term memory network: (output, h_n, c_n).")
gru = _network("GRU", "gru", "A network of gated recurrent units: (output, h_n).")
rnn_tanh = _network("RNN_TANH", "rnn_tanh", "An Elman network with tanh: (output, h_n).")
rnn_relu = _network("RNN_RELU", "rnn_relu", "An Elman network with relu: (output, h_n).")


def _cell(mode: str, name: str, doc: str):
    @in_dtype(None, ("cuda",))
    def cell(input, hx, w_ih, w_hh, b_ih=None, b_hh=None):
        batched = input.dim() == 2
        hidden = tuple(hx) if mode == "LSTM" else (hx,)
        if not batched:
            input, hidden = input.unsqueeze(0), tuple(h.unsqueeze(0) for h in hidden)
        weights = (w_ih, w_hh) if b_ih is None and b_hh is None else (w_ih, w_hh, b_ih, b_hh)
        _, final = _one_layer(mode, input.unsqueeze(0), hidden, weights, len(weights) == 4, None, False)
        final = final if batched else tuple(h.squeeze(0) for h in final)
        return final if mode == "LSTM" else final[0]

    cell.__name__ = cell.__qualname__ = name
    cell.__doc__ = doc
    return cell


lstm_cell = _cell("LSTM", "lstm_cell", "One step of `lstm` for inputs (N, features): (h, c).")
gru_cell = _cell("GRU", "gru_cell", "One step of `gru` for inputs (N, features): h.")
rnn_tanh_cell = _cell("RNN_TANH", "rnn_tanh_cell", "One step of `rnn_tanh` for inputs (N, features): h.")
rnn_relu_cell = _cell("RNN_RELU", "rnn_relu_cell", "One step of `rnn_relu` for inputs (N, features): h.")
