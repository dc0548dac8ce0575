"""Recurrent layers and cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from typing import ClassVar as ClassVar  # annotations of classes from other files look for it here

import facula

from ..utils.rnn import PackedSequence
from ._home import belong_to
from ._rnn_base import RNNBase
from ._rnn_base import apply_permutation as apply_permutation
from ._rnn_cells import GRUCell, LSTMCell, RNNCell, RNNCellBase

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor
    from facula.types import Device

__all__ = ["RNNBase", "RNN", "LSTM", "GRU", "RNNCellBase", "RNNCell", "LSTMCell", "GRUCell"]


def _refuse_projection(name, proj_size):
    if proj_size is not None:
        raise ValueError(f"{name}: proj_size exists for LSTM only, got {proj_size}")


class RNN(RNNBase):
    """An Elman network: ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)`` at each step, or relu.

    Args:
        input_size: features of the input.
        hidden_size: features of the hidden state.
        nonlinearity: 'tanh' or 'relu'.
        num_layers: how many layers, each of which gets the output of the one before.
        bias: whether b_ih and b_hh are added.
        batch_first: whether tensors are (N, L, features) in the place of (L, N, features); hidden states are not concerned.
        dropout: the probability of dropping between layers, in training.
        bidirectional: whether a second network runs from the end, whose outputs are appended to the features.
        proj_size: of `LSTM` only; not to be given here.
        device, dtype: of the parameters.

    Shapes, with H = hidden_size and D = 2 if bidirectional else 1: input (L, N, input_size), (L, input_size) or a
    `PackedSequence`; hidden states (num_layers * D, N, H), zeros where none are given; output (L, N, D * H).
    Parameters of layer k are ``weight_ih_lk`` (H, its input), ``weight_hh_lk`` (H, H), ``bias_ih_lk`` and ``bias_hh_lk``
    (H), with ``_reverse`` for the second direction, all drawn uniformly within 1 / sqrt(H).

    Errors: ValueError for sizes that are not positive and a probability outside [0, 1]; RuntimeError for inputs and hidden
    states that do not fit.

    >>> rnn = nn.RNN(10, 20, num_layers=2)
    >>> output, h = rnn(torch.randn(5, 3, 10))
    >>> output.shape, h.shape
    (torch.Size([5, 3, 20]), torch.Size([2, 3, 20]))
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: Any = None,
                 device: Device = None, dtype: facula.dtype | None = None) -> None:  # fmt: skip
        _refuse_projection("RNN", proj_size)
        if nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"RNN: Unknown nonlinearity, expected 'tanh' or 'relu', got {nonlinearity!r}")
        mode = "RNN_" + nonlinearity.upper()
        super().__init__(
            mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Long short-term memory (Hochreiter, Schmidhuber 1997; with forget gates).

    At each step, with four blocks of rows in the weights for the gates i, f, g and o:
    ``c' = sigmoid(f) * c + sigmoid(i) * tanh(g)`` and ``h' = sigmoid(o) * tanh(c')``.

    Args:
        input_size: features of the input.
        hidden_size: features of the hidden state and the cell.
        num_layers: how many layers, each of which gets the output of the one before.
        bias: whether b_ih and b_hh are added.
        batch_first: whether tensors are (N, L, features) in the place of (L, N, features); hidden states are not concerned.
        dropout: the probability of dropping between layers, in training.
        bidirectional: whether a second network runs from the end, whose outputs are appended to the features.
        proj_size: where positive, h' is multiplied by a matrix ``weight_hr_lk`` (proj_size, H) and has so many features.
        device, dtype: of the parameters.

    Shapes, with H = hidden_size and D = 2 if bidirectional else 1: input (L, N, input_size), (L, input_size) or a
    `PackedSequence`; the state is a pair: h (num_layers * D, N, P) with P = proj_size or H,
    and c (num_layers * D, N, H), zeros where none is given; output (L, N, D * P).
    Parameters of layer k are ``weight_ih_lk`` (4H, its input), ``weight_hh_lk`` (4H, P), ``bias_ih_lk`` and ``bias_hh_lk``
    (4H), with ``_reverse`` for the second direction, all drawn uniformly within 1 / sqrt(H).

    Errors: ValueError for sizes that are not positive and a probability outside [0, 1]; RuntimeError for inputs and hidden
    states that do not fit.

    >>> lstm = nn.LSTM(10, 20, batch_first=True)
    >>> output, (h, c) = lstm(torch.randn(3, 5, 10))
    >>> output.shape, h.shape, c.shape
    (torch.Size([3, 5, 20]), torch.Size([1, 3, 20]), torch.Size([1, 3, 20]))
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, device: Device = None,
                 dtype: facula.dtype | None = None) -> None:  # fmt: skip
        super().__init__(
            "LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype
        )

    def get_expected_cell_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """The shape that cell states have for an input.

        Args:
            input: (L, N, input_size), or with batch_sizes (sum of lengths, input_size).
            batch_sizes: those of a packed sequence, or None.

        Returns: (num_layers * directions, N, hidden_size).

        >>> nn.LSTM(2, 3).get_expected_cell_size(torch.ones(5, 1, 2), None)
        (1, 1, 3)
        """
        layers, batch, _ = self.get_expected_hidden_size(input, batch_sizes)
        return layers, batch, self.hidden_size

    def check_forward_args(self, input: Tensor, hidden: Sequence[Tensor], batch_sizes: Tensor | None) -> None:
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden[0], self.get_expected_hidden_size(input, batch_sizes))
        self.check_hidden_size(hidden[1], self.get_expected_cell_size(input, batch_sizes), "cell state")

    def permute_hidden(self, hx: Any, permutation: Tensor) -> tuple[Tensor, ...]:
        return hx if permutation is None else tuple(apply_permutation(h, permutation) for h in hx)

    def _checked_hidden(self, input, hidden, batch_sizes) -> tuple:
        if hidden is None:
            self.check_input(input, batch_sizes)
            sizes = (
                self.get_expected_hidden_size(input, batch_sizes),
                self.get_expected_cell_size(input, batch_sizes),
            )
            return tuple(facula.zeros(size, dtype=input.dtype, device=input.device) for size in sizes)
        self.check_forward_args(input, hidden, batch_sizes)
        return hidden

    def forward(self, input: PackedSequence | Tensor, hx: Any = None) -> tuple[Tensor | Any, tuple[Tensor, Tensor]]:
        """Run over a whole sequence.

        Args:
            input: (L, N, input_size), (N, L, input_size) with batch_first, (L, input_size) or a `PackedSequence`.
            hx: the pair (h, c) to begin with, (num_layers * directions, N, size); zeros where it is not given.

        Returns: (output, last (h, c)).

        >>> output, (h, c) = nn.LSTM(4, 8, batch_first=True)(torch.randn(2, 5, 4))
        >>> output.shape, h.shape
        (torch.Size([2, 5, 8]), torch.Size([1, 2, 8]))
        """
        run = self._run_packed if isinstance(input, PackedSequence) else self._run_padded
        return run(input, None if hx is None else tuple(hx))


class GRU(RNNBase):
    """Gated recurrent units (Cho et al. 2014), with the reset gate after the product with W_hn, as in cuDNN.

    At each step, with three blocks of rows in the weights for r, z and n, where r and z are sigmoids of their sums:
    ``n = tanh(W_in x + b_in + r * (W_hn h + b_hn))`` and ``h' = (1 - z) * n + z * h``.

    Args:
        input_size: features of the input.
        hidden_size: features of the hidden state.
        num_layers: how many layers, each of which gets the output of the one before.
        bias: whether b_ih and b_hh are added.
        batch_first: whether tensors are (N, L, features) in the place of (L, N, features); hidden states are not concerned.
        dropout: the probability of dropping between layers, in training.
        bidirectional: whether a second network runs from the end, whose outputs are appended to the features.
        proj_size: of `LSTM` only; not to be given here.
        device, dtype: of the parameters.

    Shapes, with H = hidden_size and D = 2 if bidirectional else 1: input (L, N, input_size), (L, input_size) or a
    `PackedSequence`; hidden states (num_layers * D, N, H), zeros where none are given; output (L, N, D * H).
    Parameters of layer k are ``weight_ih_lk`` (3H, its input), ``weight_hh_lk`` (3H, H), ``bias_ih_lk`` and ``bias_hh_lk``
    (3H), with ``_reverse`` for the second direction, all drawn uniformly within 1 / sqrt(H).

    Errors: ValueError for sizes that are not positive and a probability outside [0, 1]; RuntimeError for inputs and hidden
    states that do not fit.

    >>> gru = nn.GRU(10, 20, bidirectional=True)
    >>> output, h = gru(torch.randn(5, 3, 10))
    >>> output.shape, h.shape
    (torch.Size([5, 3, 40]), torch.Size([2, 3, 20]))
    """

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, proj_size: Any = None, device: Device = None,
                 dtype: facula.dtype | None = None) -> None:  # fmt: skip
        _refuse_projection("GRU", proj_size)
        super().__init__(
            "GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )


belong_to(__name__, GRUCell, LSTMCell, RNNBase, RNNCell, RNNCellBase)
