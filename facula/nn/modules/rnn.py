"""Define recurrent layers and cells.

Long because PyTorch has all recurrent layers and cells in one file of this name, and each class stands there with its
docstring and example.
"""

from __future__ import annotations

import math
import numbers
import warnings
from typing import TYPE_CHECKING, Any
from typing import ClassVar as ClassVar  # annotations of classes from other files look for it here

import facula
from facula import _C

from .. import init
from .._tuples import _layer_count
from ..functions import rnn as _rnn
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module

if TYPE_CHECKING:
    from collections.abc import Sequence

    from facula import Tensor
    from facula.types import Device

__all__ = ["RNNBase", "RNN", "LSTM", "GRU", "RNNCellBase", "RNNCell", "LSTMCell", "GRUCell"]


_GATES = _rnn.GATES  # per hidden unit


# ---- What recurrent layers share: parameters, checks, and runs over whole sequences


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """Return a tensor with its entries in another order. Deprecated: ``tensor.index_select(dim, permutation)``.

    Args:
        tensor: any tensor.
        permutation: the order, int64.
        dim: the dimension along which the entries lie.

    Returns: a tensor of the shape of tensor.

    Errors: IndexError for an entry or a dim that does not exist.

    >>> nn.modules.rnn.apply_permutation(torch.tensor([[10, 20, 30]]), torch.tensor([2, 0, 1]))
    tensor([[30, 10, 20]])
    """
    return tensor.index_select(dim, permutation)


class RNNBase(Module):
    """Hold the parameters, checks and kernel calls that `RNN`, `LSTM` and `GRU` share.

    Args:
        mode: 'RNN_TANH', 'RNN_RELU', 'LSTM' or 'GRU'.
        input_size: the number of features of the input.
        hidden_size: H, the number of features of the hidden state.
        num_layers: the number of layers, each of which gets the output of the one before.
        bias: if True, add learned biases.
        batch_first: if True, tensors are (N, L, features) instead of (L, N, features); hidden states stay as they are.
        dropout: the probability of dropping between layers, in training.
        bidirectional: if True, run a second network from the end.
        proj_size: for 'LSTM' only: the size to which hidden states are projected, or 0.
        device, dtype: the device and the dtype of the parameters.

    Shapes: those of `RNN`, `LSTM` and `GRU`.

    Errors: ValueError for another mode, sizes that are not positive and a dropout outside [0, 1]; TypeError for sizes
    that are no integers.

    >>> nn.RNNBase("GRU", 4, 8).weight_ih_l0.shape
    torch.Size([24, 4])
    """

    __constants__: ClassVar[list[str]] = [
        "mode",
        "input_size",
        "hidden_size",
        "num_layers",
        "bias",
        "batch_first",
        "dropout",
        "bidirectional",
        "proj_size",
    ]
    __jit_unused_properties__: list[str] = ["all_weights"]
    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    proj_size: int

    def __init__(
        self,
        mode: str,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Device = None,
        dtype: facula.dtype | None = None,
    ) -> None:
        super().__init__()
        self._check_arguments(
            mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size
        )
        self.mode = mode
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = float(dropout)
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        self._all_weights: list[list[str]] = []
        for layer in range(num_layers):
            for direction in range(2 if bidirectional else 1):
                shapes = self._weight_shapes(layer, "_reverse" if direction else "")
                for name, shape in shapes.items():
                    setattr(self, name, Parameter(facula.empty(shape, device=device, dtype=dtype)))
                self._all_weights.append(list(shapes))
        # In the order in which the kernels take them: layer by layer, direction by direction.
        self._flat_weights_names = [name for names in self._all_weights for name in names]
        self.flatten_parameters()
        self.reset_parameters()

    def _check_arguments(
        self, mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size
    ) -> None:
        name = type(self).__name__
        if mode not in _GATES:
            raise ValueError(f"{name}: mode must be {_C._one_of(mode, _GATES)}")
        if not isinstance(dropout, numbers.Number) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(f"{name}: dropout must be a number between 0 and 1, got {dropout!r}")
        if dropout > 0 and num_layers == 1:
            warnings.warn(
                f"{name}: dropout comes between layers and has no effect with one layer, got {dropout}",
                stacklevel=4,
            )
        for key, value, kind in (
            ("bias", bias, bool),
            ("batch_first", batch_first, bool),
            ("input_size", input_size, int),
            ("hidden_size", hidden_size, int),
        ):
            if not isinstance(value, kind):
                raise TypeError(f"{name}: {key} must be a {kind.__name__}, got {type(value).__name__}")
        for key, value in (
            ("input_size", input_size),
            ("hidden_size", hidden_size),
            ("num_layers", num_layers),
        ):
            if value <= 0:
                raise ValueError(f"{name}: {key} must be greater than zero, got {value}")
        _layer_count(name, num_layers)
        if not 0 <= proj_size < hidden_size:
            raise ValueError(
                f"{name}: proj_size must be 0 (none) or positive and below hidden_size {hidden_size}, got "
                f"{proj_size}"
            )

    def _weight_shapes(self, layer: int, suffix: str) -> dict[str, tuple[int, ...]]:
        """Return the names and shapes of one layer and direction, in the order of the state dict."""
        gates = _GATES[self.mode] * self.hidden_size
        output_size = self.proj_size or self.hidden_size
        input_size = self.input_size if layer == 0 else output_size * (2 if self.bidirectional else 1)
        end = f"_l{layer}{suffix}"
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih" + end: (gates, input_size),
            "weight_hh" + end: (gates, output_size),
        }
        if self.bias:
            shapes["bias_ih" + end] = (gates,)
            shapes["bias_hh" + end] = (gates,)
        if self.proj_size:
            shapes["weight_hr" + end] = (self.proj_size, self.hidden_size)
        return shapes

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction, a list of lists.

        >>> [[tuple(p.shape) for p in row] for row in nn.RNN(2, 3).all_weights]
        [[(3, 2), (3, 3), (3,), (3,)]]
        """
        return [[getattr(self, name) for name in names] for names in self._all_weights]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return [getattr(self, name) for name in self._flat_weights_names]

    def flatten_parameters(self) -> None:
        """Move the parameters into one block of memory, where they are on CUDA and cuDNN reads them so; elsewhere do
        nothing. Their values stay.

        >>> nn.LSTM(2, 3).flatten_parameters()
        """
        weights = self._flat_weights
        # A shared parameter cannot lie in two places of the block.
        if not all(type(w) is Parameter and w.is_cuda for w in weights) or len({id(w) for w in weights}) < len(weights):
            return
        network = _rnn.network_of(self.mode, weights, self.bias, self.num_layers, self.bidirectional)
        for weight, flat in zip(weights, facula._C._rnn_weights_in_one(network, weights)):
            weight.data = flat

    def _apply(self, fn, recurse: bool = True):
        super()._apply(fn, recurse)
        self.flatten_parameters()
        return self

    def reset_parameters(self) -> None:
        """Draw all parameters anew, uniformly within 1 / sqrt(hidden_size).

        >>> rnn = nn.RNN(2, 4)
        >>> rnn.reset_parameters()
        >>> rnn.weight_hh_l0.abs().max().item() <= 0.5
        True
        """
        bound = 1.0 / math.sqrt(self.hidden_size) if self.hidden_size > 0 else 0
        for weight in self.parameters():
            init.uniform_(weight, -bound, bound)

    def check_input(self, input: Tensor, batch_sizes: Tensor | None) -> None:
        """Raise an error where an input does not fit.

        Args:
            input: (L, N, input_size), (L, input_size), or with batch_sizes (sum of lengths, input_size).
            batch_sizes: those of a packed sequence, or None.

        Errors: RuntimeError for another number of dimensions or of features, ValueError for another dtype.

        >>> nn.RNN(2, 3).check_input(torch.ones(5, 1, 2), None)
        """
        name = type(self).__name__
        weight = getattr(self, self._flat_weights_names[0])
        if input.dtype != weight.dtype and not facula.is_autocast_enabled(input.device.type):
            raise ValueError(
                f"{name}: the input must have the dtype of the weights {weight.dtype}, got {input.dtype}"
            )
        wanted = 2 if batch_sizes is not None else 3
        if input.dim() != wanted:
            raise RuntimeError(f"{name}: the input must have {wanted} dimensions, got {input.dim()}")
        if input.size(-1) != self.input_size:
            raise RuntimeError(
                f"{name}: the input must have {self.input_size} features, got {input.size(-1)}"
            )

    def get_expected_hidden_size(self, input: Tensor, batch_sizes: Tensor | None) -> tuple[int, int, int]:
        """Return the shape that hidden states have for an input.

        Args:
            input: (L, N, input_size), or with batch_sizes (sum of lengths, input_size).
            batch_sizes: those of a packed sequence, or None.

        Returns: (num_layers * directions, N, size of a hidden state).

        >>> nn.RNN(2, 3, num_layers=2).get_expected_hidden_size(torch.ones(5, 1, 2), None)
        (2, 1, 3)
        """
        if batch_sizes is not None:
            batch = int(batch_sizes[0])
        else:
            batch = input.size(0 if self.batch_first else 1)
        return self.num_layers * (2 if self.bidirectional else 1), batch, self.proj_size or self.hidden_size

    def check_hidden_size(self, hx: Any, expected_hidden_size: Sequence[int], msg: str = "hidden state") -> None:
        """Raise an error where a hidden state has another shape.

        Args:
            hx: the hidden state.
            expected_hidden_size: the shape that it is to have.
            msg: what the error's text is about.

        Errors: RuntimeError for another shape.

        >>> nn.RNN(2, 3).check_hidden_size(torch.zeros(1, 1, 3), (1, 1, 3))
        """
        if tuple(hx.shape) != tuple(expected_hidden_size):
            raise RuntimeError(
                f"{type(self).__name__}: the {msg} must be {tuple(expected_hidden_size)}, got "
                f"{tuple(hx.shape)}"
            )

    def check_forward_args(self, input: Tensor, hidden: Any, batch_sizes: Tensor | None) -> None:
        """Raise an error where input or hidden state do not fit.

        Args:
            input: (L, N, input_size), or with batch_sizes (sum of lengths, input_size).
            hidden: the hidden state (for `LSTM` the pair of hidden and cell state).
            batch_sizes: those of a packed sequence, or None.

        Errors: RuntimeError for shapes that do not fit, ValueError for another dtype.

        >>> nn.RNN(2, 3).check_forward_args(torch.ones(5, 1, 2), torch.zeros(1, 1, 3), None)
        """
        self.check_input(input, batch_sizes)
        self.check_hidden_size(hidden, self.get_expected_hidden_size(input, batch_sizes))

    def permute_hidden(self, hx: Any, permutation: Tensor | None) -> Tensor:
        """Return a hidden state with its samples in another order.

        Args:
            hx: (layers, N, size).
            permutation: the order, (N,), or None for the one that it has.

        >>> nn.RNN(2, 3).permute_hidden(torch.arange(2.0).reshape(1, 2, 1), torch.tensor([1, 0])).flatten()
        tensor([1., 0.])
        """
        return hx if permutation is None else apply_permutation(hx, permutation)

    def extra_repr(self) -> str:
        text = f"{self.input_size}, {self.hidden_size}"
        defaults = {
            "proj_size": 0,
            "num_layers": 1,
            "bias": True,
            "batch_first": False,
            "dropout": 0,
            "bidirectional": False,
        }
        for name, default in defaults.items():
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text

    # -- running
    # -------------------------------------------------------------------------------------------------

    def _run_padded(self, input, hidden: tuple | None):
        """Run over (L, N, F), (N, L, F) or (L, F); hidden and result are tuples of tensors."""
        name = type(self).__name__
        if input.dim() not in (2, 3):
            raise ValueError(f"{name}: the input must have 2 or 3 dimensions, got {input.dim()}")
        is_batched = input.dim() == 3
        batch_dim = 0 if self.batch_first else 1
        if not is_batched:
            input = input.unsqueeze(batch_dim)
        if hidden is not None:
            for h in hidden:
                if h.dim() != (3 if is_batched else 2):
                    raise RuntimeError(
                        f"{name}: hidden states must have {3 if is_batched else 2} dimensions, got {h.dim()}"
                    )
            if not is_batched:
                hidden = tuple(h.unsqueeze(1) for h in hidden)
        hidden = self._checked_hidden(input, hidden, None)
        output, hidden = self._run(input.transpose(0, 1) if self.batch_first else input, hidden, None)
        if self.batch_first:
            output = output.transpose(0, 1)
        if not is_batched:
            return output.squeeze(batch_dim), tuple(h.squeeze(1) for h in hidden)
        return output, hidden

    def _run_packed(self, packed: PackedSequence, hidden: tuple | None):
        """Run over a packed sequence; hidden states are in the order of the user's batch."""
        input, batch_sizes, sorted_indices, unsorted_indices = packed
        if hidden is not None:
            hidden = tuple(RNNBase.permute_hidden(self, h, sorted_indices) for h in hidden)
        hidden = self._checked_hidden(input, hidden, batch_sizes)
        output, hidden = self._run(input, hidden, batch_sizes.tolist())
        hidden = tuple(RNNBase.permute_hidden(self, h, unsorted_indices) for h in hidden)
        return PackedSequence(output, batch_sizes, sorted_indices, unsorted_indices), hidden

    def _checked_hidden(self, input, hidden: tuple | None, batch_sizes) -> tuple:
        expected = self.get_expected_hidden_size(input, batch_sizes)
        self.check_input(input, batch_sizes)
        if hidden is None:
            return (facula.zeros(expected, dtype=input.dtype, device=input.device),)
        self.check_hidden_size(hidden[0], expected)
        return hidden

    def _run(self, input, hidden: tuple, batch_sizes: list[int] | None):
        return _rnn.run(
            self.mode,
            input,
            hidden,
            self._flat_weights,
            self.bias,
            self.num_layers,
            self.dropout,
            self.training,
            self.bidirectional,
            batch_sizes,
        )

    def forward(self, input: PackedSequence | Tensor, hx: Any = None) -> tuple[Tensor | Any, Any]:
        """Run over a whole sequence.

        Args:
            input: (L, N, input_size), (N, L, input_size) with batch_first, (L, input_size) or a `PackedSequence`.
            hx: the hidden state to begin with, (num_layers * directions, N, H); zeros where it is not given.

        Returns: (output, last hidden state).

        >>> output, h = nn.GRU(4, 8, bidirectional=True)(torch.randn(5, 2, 4))
        >>> output.shape, h.shape
        (torch.Size([5, 2, 16]), torch.Size([2, 2, 8]))
        """
        hidden = None if hx is None else (hx,)
        run = self._run_packed if isinstance(input, PackedSequence) else self._run_padded
        output, hidden = run(input, hidden)
        return output, hidden[0]


_rnn_step = facula._C.nn_functional._rnn_step
_GATES = _rnn.GATES  # per hidden unit


# ---- Single steps of recurrent layers


class RNNCellBase(Module):
    """Hold the parameters of `RNNCell`, `LSTMCell` and `GRUCell`, and initialize them.

    Args:
        input_size: the number of features of the input.
        hidden_size: H, the number of features of the hidden state.
        bias: if True, add learned biases.
        num_chunks: the number of gates of a hidden unit.
        device, dtype: the device and the dtype of the parameters.

    Shapes: ``weight_ih`` is (num_chunks * H, input_size), ``weight_hh`` (num_chunks * H, H), the biases (num_chunks * H,).

    Errors: ValueError, when called, for another number of dimensions.

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
        """Run one step over (N, F) or (F,) inputs and (h, c), where c may be None; without hidden states from zeros."""
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
    """Make one step of an `RNN`: ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)``, or relu.

    Args:
        input_size: the number of features of the input.
        hidden_size: H, the number of features of the hidden state.
        bias: if True, add the learned biases b_ih and b_hh.
        nonlinearity: 'tanh' or 'relu'.
        device, dtype: the device and the dtype of the parameters.

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
        """Run one step.

        Args:
            input: (N, input_size) or (input_size,).
            hx: the hidden state (N, H) or (H,); zeros where it is not given.

        Returns: the new hidden state.

        >>> nn.RNNCell(10, 20)(torch.randn(3, 10)).shape
        torch.Size([3, 20])
        """
        if self.nonlinearity not in ("tanh", "relu"):
            raise RuntimeError(f"RNNCell: nonlinearity must be {_C._one_of(self.nonlinearity, ('tanh', 'relu'))}")
        mode = "RNN_TANH" if self.nonlinearity == "tanh" else "RNN_RELU"
        if hx is None or input.dim() != 2:
            return self._step_of_any_shape(mode, input, None if hx is None else (hx, None))[0]
        return _rnn_step(input, hx, None, self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh, mode)[0]


class LSTMCell(RNNCellBase):
    """Make one step of an `LSTM`: ``c' = f * c + i * g`` and ``h' = o * tanh(c')``.

    The gates are i, f, o = sigmoid and g = tanh of ``W_ih x + b_ih + W_hh h + b_hh``.

    Args:
        input_size: the number of features of the input.
        hidden_size: H, the number of features of the hidden state.
        bias: if True, add the learned biases b_ih and b_hh.
        device, dtype: the device and the dtype of the parameters.

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
        """Run one step.

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
    """Make one step of a `GRU`: ``h' = (1 - z) * n + z * h``.

    The gates are ``r, z = sigmoid(W_ih x + b_ih + W_hh h + b_hh)`` and ``n = tanh(W_in x + b_in + r * (W_hn h + b_hn))``.

    Args:
        input_size: the number of features of the input.
        hidden_size: H, the number of features of the hidden state.
        bias: if True, add the learned biases b_ih and b_hh.
        device, dtype: the device and the dtype of the parameters.

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
        """Run one step.

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


def _refuse_projection(name, proj_size):
    if proj_size is not None:
        raise ValueError(f"{name}: proj_size exists for LSTM only, got {proj_size}")


class RNN(RNNBase):
    """Run an Elman network over sequences: ``h' = tanh(W_ih x + b_ih + W_hh h + b_hh)`` at each step, or relu.

    Args:
        input_size: the number of features of the input.
        hidden_size: H, the number of features of the hidden state.
        nonlinearity: 'tanh' or 'relu'.
        num_layers: the number of layers, each of which gets the output of the one before.
        bias: if True, add the learned biases b_ih and b_hh.
        batch_first: if True, tensors are (N, L, features) instead of (L, N, features); hidden states stay as they are.
        dropout: the probability of dropping between layers, in training.
        bidirectional: if True, run a second network from the end and append its outputs to the features.
        proj_size: accepted by `LSTM` only.
        device, dtype: the device and the dtype of the parameters.

    Shapes, with H = hidden_size and D = 2 if bidirectional else 1: input (L, N, input_size), (L, input_size) or a
    `PackedSequence`; hidden states (num_layers * D, N, H), zeros where none are given; output (L, N, D * H).
    Parameters of layer k are ``weight_ih_lk`` (H, its input), ``weight_hh_lk`` (H, H), ``bias_ih_lk`` and ``bias_hh_lk``
    (H), with ``_reverse`` for the second direction, all drawn uniformly within 1 / sqrt(H).

    Errors: ValueError for sizes that are not positive and a probability outside [0, 1]; RuntimeError, when called, for inputs
    and hidden states that do not fit; ValueError for another number of dimensions.

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
            raise ValueError(f"RNN: nonlinearity must be {_C._one_of(nonlinearity, ('tanh', 'relu'))}")
        mode = "RNN_" + nonlinearity.upper()
        super().__init__(
            mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )
        self.nonlinearity = nonlinearity


class LSTM(RNNBase):
    """Run long short-term memory over sequences (Hochreiter, Schmidhuber 1997; with forget gates).

    At each step, with four blocks of rows in the weights for the gates i, f, g and o:
    ``c' = sigmoid(f) * c + sigmoid(i) * tanh(g)`` and ``h' = sigmoid(o) * tanh(c')``.

    Args:
        input_size: the number of features of the input.
        hidden_size: H, the number of features of the hidden state and the cell.
        num_layers: the number of layers, each of which gets the output of the one before.
        bias: if True, add the learned biases b_ih and b_hh.
        batch_first: if True, tensors are (N, L, features) instead of (L, N, features); hidden states stay as they are.
        dropout: the probability of dropping between layers, in training.
        bidirectional: if True, run a second network from the end and append its outputs to the features.
        proj_size: if positive, multiply h' by a matrix ``weight_hr_lk`` (proj_size, H), so that it has as many features.
        device, dtype: the device and the dtype of the parameters.

    Shapes, with H = hidden_size and D = 2 if bidirectional else 1: input (L, N, input_size), (L, input_size) or a
    `PackedSequence`; the state is a pair: h (num_layers * D, N, P) with P = proj_size or H,
    and c (num_layers * D, N, H), zeros where none is given; output (L, N, D * P).
    Parameters of layer k are ``weight_ih_lk`` (4H, its input), ``weight_hh_lk`` (4H, P), ``bias_ih_lk`` and ``bias_hh_lk``
    (4H), with ``_reverse`` for the second direction, all drawn uniformly within 1 / sqrt(H).

    Errors: ValueError for sizes that are not positive and a probability outside [0, 1]; RuntimeError, when called, for inputs
    and hidden states that do not fit; ValueError for another number of dimensions.

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
        """Return the shape that cell states have for an input.

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
    """Run gated recurrent units over sequences (Cho et al. 2014), with the reset gate after the product with W_hn, as in cuDNN.

    At each step, with three blocks of rows in the weights for r, z and n, where r and z are sigmoids of their sums:
    ``n = tanh(W_in x + b_in + r * (W_hn h + b_hn))`` and ``h' = (1 - z) * n + z * h``.

    Args:
        input_size: the number of features of the input.
        hidden_size: H, the number of features of the hidden state.
        num_layers: the number of layers, each of which gets the output of the one before.
        bias: if True, add the learned biases b_ih and b_hh.
        batch_first: if True, tensors are (N, L, features) instead of (L, N, features); hidden states stay as they are.
        dropout: the probability of dropping between layers, in training.
        bidirectional: if True, run a second network from the end and append its outputs to the features.
        proj_size: accepted by `LSTM` only.
        device, dtype: the device and the dtype of the parameters.

    Shapes, with H = hidden_size and D = 2 if bidirectional else 1: input (L, N, input_size), (L, input_size) or a
    `PackedSequence`; hidden states (num_layers * D, N, H), zeros where none are given; output (L, N, D * H).
    Parameters of layer k are ``weight_ih_lk`` (3H, its input), ``weight_hh_lk`` (3H, H), ``bias_ih_lk`` and ``bias_hh_lk``
    (3H), with ``_reverse`` for the second direction, all drawn uniformly within 1 / sqrt(H).

    Errors: ValueError for sizes that are not positive and a probability outside [0, 1]; RuntimeError, when called, for inputs
    and hidden states that do not fit; ValueError for another number of dimensions.

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
