"""Single steps of recurrent layers."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import facula

from .. import init
from ..functions import rnn as _rnn
from ..parameter import Parameter
from .module import Module

if TYPE_CHECKING:
    from typing import Any, ClassVar

    from facula import Tensor
    from facula.types import Device

_rnn_step = facula._C.nn_functional._rnn_step
_GATES = _rnn.GATES  # per hidden unit


class RNNCellBase(Module):
    """What `RNNCell`, `LSTMCell` and `GRUCell` share: parameters and their first values.

    Args:
        input_size: features of the input.
        hidden_size: features of the hidden state.
        bias: whether biases are added.
        num_chunks: gates of a hidden unit.
        device, dtype: of the parameters.

    >>> nn.RNNCellBase(2, 3, bias=True, num_chunks=4).weight_ih.shape
    torch.Size([12, 2])
    """

    __constants__: ClassVar[list[str]] = ["input_size", "hidden_size", "bias"]
    input_size: int
    hidden_size: int
    bias: bool

    def __init__(self, input_size: int, hidden_size: int, bias: bool, num_chunks: int, device: Device = None,
                 dtype: facula.dtype | None = None) -> None:  # fmt: skip
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.bias = bias
        gates = num_chunks * hidden_size
        self.weight_ih: Parameter = Parameter(facula.empty((gates, input_size), device=device, dtype=dtype))
        self.weight_hh: Parameter = Parameter(facula.empty((gates, hidden_size), device=device, dtype=dtype))
        for name in ("bias_ih", "bias_hh"):
            value = Parameter(facula.empty(gates, device=device, dtype=dtype)) if bias else None
            self.register_parameter(name, value)
        self.reset_parameters()

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        if self.bias is not True:
            text += f", bias={self.bias}"
        if getattr(self, "nonlinearity", "tanh") != "tanh":
            text += f", nonlinearity={self.nonlinearity}"
        return text

    def reset_parameters(self) -> None:
        """Draw all parameters anew, uniformly within 1 / sqrt(hidden_size).

        >>> cell = nn.GRUCell(2, 4)
        >>> cell.reset_parameters()
        >>> cell.weight_hh.abs().max().item() <= 0.5
        True
        """
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def _step_of_any_shape(self, mode: str, input, hidden: tuple | None) -> tuple:
        """One step over (N, F) or (F,) inputs and (h, c), where c may be None; without hidden states from zeros."""
        if input.dim() not in (1, 2):
            raise ValueError(f"{type(self).__name__}: the input must have 1 or 2 dimensions, got {input.dim()}")
        rows = input if input.dim() == 2 else input.unsqueeze(0)
        if hidden is None:
            zeros = facula.zeros(rows.size(0), self.hidden_size, dtype=input.dtype, device=input.device)
            hidden = (zeros, zeros)
        elif input.dim() == 1:
            hidden = tuple(None if h is None else self._as_row(h) for h in hidden)
        weights = self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh
        result = _rnn_step(rows, *hidden, *weights, mode)
        return result if input.dim() == 2 else tuple(h.squeeze(0) for h in result)

    def _as_row(self, h):
        if h.dim() != 1:
            expected = f"a hidden state of shape ({self.hidden_size},) for an input of one dimension"
            raise RuntimeError(f"{type(self).__name__}: expected {expected}, got {tuple(h.shape)}")
        return h.unsqueeze(0)


class RNNCell(RNNCellBase):
    """One step of an `RNN`: ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)``, or relu.

    Args:
        input_size: features of the input.
        hidden_size: H, features of the hidden state.
        bias: whether b_ih and b_hh are added.
        nonlinearity: 'tanh' or 'relu'.
        device, dtype: of the parameters.

    Shapes: called with x (N, input_size) or (input_size,) and h (N, H) or (H,), zeros where it is not given; output like
    h. ``weight_ih`` is (H, input_size), ``weight_hh`` (H, H), the biases (H,), all drawn uniformly within 1 / sqrt(H).

    Errors: RuntimeError, when called, for shapes that do not fit and another nonlinearity; ValueError for another number
    of dimensions.

    >>> cell = nn.RNNCell(10, 20)
    >>> h = torch.zeros(3, 20)
    >>> for x in torch.randn(6, 3, 10):
    ...     h = cell(x, h)
    >>> h.shape
    torch.Size([3, 20])
    """

    __constants__: ClassVar[list[str]] = ["input_size", "hidden_size", "bias", "nonlinearity"]
    nonlinearity: str

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Device = None,
        dtype: facula.dtype | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, 1, device, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Any = None) -> Tensor:
        """One step.

        Args:
            input: (N, input_size) or (input_size,).
            hx: the hidden state (N, H) or (H,); zeros where it is not given.

        Returns: the new hidden state.

        >>> nn.RNNCell(10, 20)(torch.randn(3, 10)).shape
        torch.Size([3, 20])
        """
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"RNNCell: nonlinearity must be 'tanh' or 'relu', got {self.nonlinearity!r}")
        mode = "RNN_TANH" if self.nonlinearity == "tanh" else "RNN_RELU"
        if hx is None or input.dim() != 2:
            return self._step_of_any_shape(mode, input, None if hx is None else (hx, None))[0]
        return _rnn_step(input, hx, None, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh, mode)[0]


class LSTMCell(RNNCellBase):
    """One step of an `LSTM`: with the gates i, f, o = sigmoid and g = tanh of ``W_ih x + b_ih + W_hh h + b_hh``, ``c' = f
    * c + i * g`` and ``h' = o * tanh(c')``.

    Args:
        input_size: features of the input.
        hidden_size: H, features of the hidden state.
        bias: whether b_ih and b_hh are added.
        device, dtype: of the parameters.

    Shapes: called with x (N, input_size) or (input_size,) and (h, c), each (N, H) or (H,), zeros where they are not
    given; output the new (h, c). ``weight_ih`` is (4 * H, input_size), ``weight_hh`` (4 * H, H), the biases (4 * H,),
    with the gates in the order i, f, g, o, all drawn uniformly within 1 / sqrt(H).

    Errors: RuntimeError, when called, for shapes that do not fit; ValueError for another number of dimensions.

    >>> cell = nn.LSTMCell(10, 20)
    >>> h, c = cell(torch.randn(3, 10))
    >>> h.shape, c.shape
    (torch.Size([3, 20]), torch.Size([3, 20]))
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Device = None,
                 dtype: facula.dtype | None = None) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 4, device, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Tensor]:
        """One step.

        Args:
            input: (N, input_size) or (input_size,).
            hx: the pair (h, c), each (N, H) or (H,); zeros where it is not given.

        Returns: the new pair (h, c).

        >>> cell = nn.LSTMCell(10, 20)
        >>> h, c = cell(torch.randn(3, 10), (torch.zeros(3, 20), torch.zeros(3, 20)))
        >>> h.shape
        torch.Size([3, 20])
        """
        if hx is None:
            return tuple(self._step_of_any_shape("LSTM", input, None))
        try:
            h, c = hx
        except (TypeError, ValueError):
            raise ValueError(f"LSTMCell: hx must be a pair (h, c), got {type(hx).__name__}") from None
        if input.dim() != 2:
            return self._step_of_any_shape("LSTM", input, (h, c))
        return tuple(_rnn_step(input, h, c, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh, "LSTM"))


class GRUCell(RNNCellBase):
    """One step of a `GRU`: with the gates ``r, z = sigmoid(W_ih x + b_ih + W_hh h + b_hh)`` and ``n = tanh(W_in x + b_in
    + r * (W_hn h + b_hn))``, ``h' = (1 - z) * n + z * h``.

    Args:
        input_size: features of the input.
        hidden_size: H, features of the hidden state.
        bias: whether b_ih and b_hh are added.
        device, dtype: of the parameters.

    Shapes: called with x (N, input_size) or (input_size,) and h (N, H) or (H,), zeros where it is not given; output like
    h. ``weight_ih`` is (3 * H, input_size), ``weight_hh`` (3 * H, H), the biases (3 * H,), with the gates in the order r,
    z, n, all drawn uniformly within 1 / sqrt(H).

    Errors: RuntimeError, when called, for shapes that do not fit; ValueError for another number of dimensions.

    >>> cell = nn.GRUCell(10, 20)
    >>> cell(torch.randn(3, 10), torch.zeros(3, 20)).shape
    torch.Size([3, 20])
    """

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Device = None,
                 dtype: facula.dtype | None = None) -> None:  # fmt: skip
        super().__init__(input_size, hidden_size, bias, 3, device, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> Tensor:
        """One step.

        Args:
            input: (N, input_size) or (input_size,).
            hx: the hidden state (N, H) or (H,); zeros where it is not given.

        Returns: the new hidden state.

        >>> nn.GRUCell(10, 20)(torch.randn(10)).shape
        torch.Size([20])
        """
        if hx is None or input.dim() != 2:
            return self._step_of_any_shape("GRU", input, None if hx is None else (hx, None))[0]
        return _rnn_step(input, hx, None, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh, "GRU")[0]
