"""What recurrent layers share: parameters, checks, and runs over whole sequences."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import TYPE_CHECKING

import facula

from .. import init
from .._tuples import _layer_count
from ..functions import rnn as _rnn
from ..parameter import Parameter
from ..utils.rnn import PackedSequence
from .module import Module

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, ClassVar

    from facula import Tensor
    from facula.types import Device

_GATES = _rnn.GATES  # per hidden unit


def apply_permutation(tensor: Tensor, permutation: Tensor, dim: int = 1) -> Tensor:
    """A tensor with its entries in another order. Deprecated: ``tensor.index_select(dim, permutation)``.

    Args:
        tensor: any tensor.
        permutation: the order, int64.
        dim: the dimension along which the entries lie.

    >>> nn.modules.rnn.apply_permutation(torch.tensor([[10, 20, 30]]), torch.tensor([2, 0, 1]))
    tensor([[30, 10, 20]])
    """
    return tensor.index_select(dim, permutation)


class RNNBase(Module):
    """What `RNN`, `LSTM` and `GRU` share: parameters, checks and the calls of the kernels.

    Args:
        mode: 'RNN_TANH', 'RNN_RELU', 'LSTM' or 'GRU'.
        input_size: features of the input.
        hidden_size: features of the hidden state.
        num_layers: how many layers, each of which gets the output of the one before.
        bias: whether biases are added.
        batch_first: whether tensors are (N, L, features) in the place of (L, N, features); hidden states are not
            concerned.
        dropout: the probability of dropping between layers, in training.
        bidirectional: whether a second network runs from the end.
        proj_size: of 'LSTM' only: the size to which hidden states are projected, or 0.
        device, dtype: of the parameters.

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
        self._flat_weights_names = [name for names in self._all_weights for name in names]
        self.flatten_parameters()
        self.reset_parameters()

    def _check_arguments(
        self, mode, input_size, hidden_size, num_layers, bias, batch_first, dropout, proj_size
    ) -> None:
        name = type(self).__name__
        if mode not in _GATES:
            raise ValueError(f"{name}: mode must be one of {tuple(_GATES)}, got {mode!r}")
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
        """Names and shapes of one layer and direction, in the order of the state dict."""
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
        """The shape that hidden states have for an input.

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
        """A hidden state with its samples in another order.

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
