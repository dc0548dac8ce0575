"""Define recurrent layers on float tensors with weights of qint8 or float16; biases and gates are float32.

Long because every function states its types and explains its arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import facula
from facula import _C, nn
from facula.ao.nn.quantized.modules.utils import quantize_weight
from facula.nn.utils.rnn import PackedSequence

from .linear import product

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from typing_extensions import Self

    from facula import Tensor
    from facula.nn.modules.module import Module

__all__ = ["GRU", "GRUCell", "LSTM", "LSTMCell", "RNNCell", "pack_weight_bias"]

_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}


def pack_weight_bias(qweight: Any, bias: Tensor | None, dtype: facula.dtype) -> tuple[Any, Tensor]:
    """Return the weight and bias of one product, as a pair.

    Args:
        qweight: a quantized weight.
        bias: of float32, or None.
        dtype: accepted, and without effect.

    >>> from torch.ao.nn.quantized.dynamic.modules.rnn import pack_weight_bias
    >>> pack_weight_bias(torch.ones(1), None, torch.qint8)
    (tensor([1.]), None)
    """
    return qweight, bias


def _blank(rows, columns, dtype):
    if dtype is facula.float16:
        return facula.zeros(rows, columns, dtype=facula.float16)
    if dtype is not facula.qint8:
        raise RuntimeError(f"RNN: dtype must be qint8 or float16, got {dtype}")
    return facula._empty_affine_quantized([rows, columns], scale=1, zero_point=0, dtype=facula.qint8)


def _weights(mod, names):
    """Return the pairs of quantized weights of a float module, by name."""
    from facula.ao.quantization.qconfig import default_dynamic_qconfig

    config = getattr(mod, "qconfig", None)
    maker = config.weight if config is not None and config.weight is not None else default_dynamic_qconfig.weight
    observer = maker()
    if observer.dtype not in (facula.qint8, facula.float16):
        raise RuntimeError(
            f"from_float: the dtype of a dynamic quantization must be qint8 or float16, got {observer.dtype}"
        )
    found = {}
    for name in names:
        weight = getattr(mod, name).detach().float()
        if observer.dtype is facula.float16:
            found[name] = weight.to(facula.float16)
            continue
        fresh = maker()
        fresh(weight)
        found[name] = quantize_weight(weight, fresh)
    return found, observer.dtype


def step(mode: str, from_input: Tensor, from_hidden: Tensor, state: Sequence[Tensor]) -> tuple[Tensor, Tensor] | tuple[Tensor]:
    """Compute one step of a cell from the two products (N, gates * H): the new state."""
    if mode == "LSTM":
        h, c = state
        i, f, g, o = (from_input + from_hidden).chunk(4, -1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c
    if mode == "GRU":
        (h,) = state
        (xr, xz, xn), (hr, hz, hn) = from_input.chunk(3, -1), from_hidden.chunk(3, -1)
        z = (xz + hz).sigmoid()
        n = (xn + (xr + hr).sigmoid() * hn).tanh()
        return ((h - n) * z + n,)
    total = from_input + from_hidden
    return (total.tanh() if mode == "RNN_TANH" else total.relu(),)


class _RNNBase(nn.Module):
    _FLOAT_MODULE: type = nn.RNNBase
    _version = 2
    mode: str
    input_size: int
    hidden_size: int
    num_layers: int
    bias: bool
    batch_first: bool
    dropout: float
    bidirectional: bool
    dtype: facula.dtype
    training: bool

    def __init__(self, mode: str, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
                 dtype: facula.dtype = facula.qint8) -> None:  # fmt: skip
        super().__init__()
        if not isinstance(dropout, (int, float)) or isinstance(dropout, bool) or not 0 <= dropout <= 1:
            raise ValueError(f"{mode}: dropout should be a number in range [0, 1], got {dropout!r}")
        self.mode, self.input_size, self.hidden_size, self.num_layers = mode, input_size, hidden_size, num_layers
        self.bias, self.batch_first, self.dropout, self.bidirectional = bias, batch_first, float(dropout), bidirectional
        # Quantized layers are for inference, so that dropout is off from the start.
        self.dtype, self.training = dtype, False
        self._weights = {}
        gates = _GATES[mode] * hidden_size
        for layer, suffix in self._places():
            width = input_size if layer == 0 else hidden_size * self._directions
            for name, columns in (("weight_ih", width), ("weight_hh", hidden_size)):
                self._weights[f"{name}_{suffix}"] = _blank(gates, columns, dtype)
            for name in ("bias_ih", "bias_hh"):
                self._weights[f"{name}_{suffix}"] = facula.zeros(gates) if bias else None

    @property
    def _directions(self):
        return 2 if self.bidirectional else 1

    def _places(self):
        """Yield the layers and the suffixes of their parameters' names."""
        for layer in range(self.num_layers):
            for direction in range(self._directions):
                yield layer, f"l{layer}{'_reverse' if direction else ''}"

    def _get_name(self):
        return f"DynamicQuantized{type(self).__name__}"

    def extra_repr(self) -> str:
        """Return what printing shows."""
        text = f"{self.input_size}, {self.hidden_size}"
        usual_values = (("num_layers", 1), ("bias", True), ("batch_first", False), ("dropout", 0), ("bidirectional", False))
        for name, usual in usual_values:
            if getattr(self, name) != usual:
                text += f", {name}={getattr(self, name)}"
        return text

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    def get_weight(self) -> dict[Any, Any]:
        """Return the quantized weights by name.

        >>> sorted(torch.ao.nn.quantized.dynamic.GRU(3, 4).get_weight())
        ['weight_hh_l0', 'weight_ih_l0']
        """
        return {name: value for name, value in self._weights.items() if name.startswith("weight")}

    def get_bias(self) -> dict[Any, Any]:
        """Return the biases by name.

        >>> sorted(torch.ao.nn.quantized.dynamic.GRU(3, 4).get_bias())
        ['bias_hh_l0', 'bias_ih_l0']
        """
        return {name: value for name, value in self._weights.items() if name.startswith("bias")}

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for name, value in self._weights.items():
            destination[f"{prefix}_weights.{name}"] = value

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        for name in self._weights:
            key = f"{prefix}_weights.{name}"
            if key in state_dict:
                self._weights[name] = state_dict.pop(key)
            else:
                missing_keys.append(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def _direction(self, x, sizes, suffix, state, reverse):
        """Run one layer in one direction over rows (T, N, width), or over packed rows with the sizes of their batches."""
        w = self._weights
        rows = product(x, w[f"weight_ih_{suffix}"], w[f"bias_ih_{suffix}"])
        parts = rows.unbind(0) if sizes is None else rows.split(sizes)
        hidden, bias = w[f"weight_hh_{suffix}"], w[f"bias_hh_{suffix}"]
        outputs = []
        for part in reversed(parts) if reverse else parts:
            count = len(part)
            # Sequences are sorted by length: the first `count` have an element at this step, and the states of the
            # others stay.
            known = tuple(s[:count] for s in state)
            new = step(self.mode, part, product(known[0], hidden, bias), known)
            outputs.append(new[0])
            state = tuple(facula.cat([n, s[count:]]) if len(s) > count else n for n, s in zip(new, state, strict=True))
        outputs = outputs[::-1] if reverse else outputs
        return (facula.stack(outputs) if sizes is None else facula.cat(outputs)), state

    def _run(self, x, sizes, states):
        finals = []
        for layer in range(self.num_layers):
            outputs = []
            for direction in range(self._directions):
                index = layer * self._directions + direction
                suffix = f"l{layer}{'_reverse' if direction else ''}"
                y, final = self._direction(x, sizes, suffix, tuple(s[index] for s in states), direction == 1)
                outputs.append(y)
                finals.append(final)
            x = facula.cat(outputs, -1) if len(outputs) > 1 else outputs[0]
            if self.dropout and self.training and layer + 1 < self.num_layers:
                x = nn.functional.dropout(x, self.dropout)
        return x, tuple(facula.stack(parts) for parts in zip(*finals, strict=True))

    def forward(self, input: PackedSequence | Tensor,
                hx: Any = None) -> tuple[PackedSequence | Tensor | Any, tuple[Tensor, ...] | Tensor]:  # fmt: skip
        """Do as the float layer does, for inputs of float32: return outputs, and the last states.

        Errors: RuntimeError for inputs or states of other shapes.
        """
        with facula.no_grad():
            return self._forward(input, hx)

    def _forward(self, input, hx):
        packed = isinstance(input, PackedSequence)
        rows = input.data if packed else input
        wanted = 2 if packed else 3
        if rows.dim() != wanted or rows.size(-1) != self.input_size:
            raise RuntimeError(
                f"{self._get_name()}: input must have {wanted} dimensions and {self.input_size} features, "
                f"got shape {tuple(rows.shape)}"
            )
        sizes = input.batch_sizes.tolist() if packed else None
        if not packed and self.batch_first:
            rows = rows.transpose(0, 1)
        batch = sizes[0] if packed else rows.size(1)
        states = self._states(hx, batch, rows, input.sorted_indices if packed else None)
        y, finals = self._run(rows, sizes, states)
        if packed:
            y = PackedSequence(y, input.batch_sizes, input.sorted_indices, input.unsorted_indices)
            if input.unsorted_indices is not None:
                finals = tuple(s.index_select(1, input.unsorted_indices) for s in finals)
        elif self.batch_first:
            y = y.transpose(0, 1)
        return y, finals if self.mode == "LSTM" else finals[0]

    def _states(self, hx, batch, rows, order):
        shape = [self.num_layers * self._directions, batch, self.hidden_size]
        count = 2 if self.mode == "LSTM" else 1
        if hx is None:
            return (facula.zeros(shape, dtype=rows.dtype, device=rows.device),) * count
        states = tuple(hx) if isinstance(hx, (tuple, list)) else (hx,)
        if len(states) != count or any(list(s.shape) != shape for s in states):
            given = [tuple(s.shape) for s in states]
            raise RuntimeError(f"{self._get_name()}: expected hidden states of shape {tuple(shape)}, got {given}")
        return states if order is None else tuple(s.index_select(1, order) for s in states)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the layer with its weights quantized as the module's qconfig says; `quantize_dynamic` calls it.

        Args:
            mod: the layer, such as nn.GRU; without a qconfig weights become qint8.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        Errors: RuntimeError for weights that are neither to be qint8 nor float16, NotImplementedError for projections.

        >>> torch.ao.nn.quantized.dynamic.GRU.from_float(nn.GRU(3, 4))
        DynamicQuantizedGRU(3, 4)
        """
        if getattr(mod, "proj_size", 0):
            raise NotImplementedError(
                f"{cls.__name__}.from_float: projections are not supported, got proj_size={mod.proj_size}"
            )
        ends = ("", "_reverse")[: 2 if mod.bidirectional else 1]
        suffixes = [f"l{layer}{end}" for layer in range(mod.num_layers) for end in ends]
        weights, dtype = _weights(mod, [f"{name}_{s}" for s in suffixes for name in ("weight_ih", "weight_hh")])
        made = cls(
            mod.input_size, mod.hidden_size, mod.num_layers, mod.bias, mod.batch_first, mod.dropout, mod.bidirectional,
            dtype=dtype,
        )  # fmt: skip
        made._weights.update(weights)
        if mod.bias:
            names = [f"{name}_{s}" for s in suffixes for name in ("bias_ih", "bias_hh")]
            made._weights.update({name: getattr(mod, name).detach() for name in names})
        return made


class LSTM(_RNNBase):
    """Run nn.LSTM with weights of qint8 or float16. It is not differentiable.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional: as for nn.LSTM.
        dtype: of the weights.

    Shapes: as for nn.LSTM with batches.

    Example::

        >>> y, (h, c) = torch.ao.nn.quantized.dynamic.LSTM(3, 4)(torch.ones(5, 2, 3))
        >>> y.shape
        torch.Size([5, 2, 4])
    """

    _FLOAT_MODULE = nn.LSTM

    def __init__(self, input_size: Any, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, dtype: facula.dtype = facula.qint8) -> None:  # fmt: skip
        super().__init__("LSTM", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype)


class GRU(_RNNBase):
    """Run nn.GRU with weights of qint8 or float16. It is not differentiable.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional: as for nn.GRU.
        dtype: of the weights.

    Shapes: as for nn.GRU with batches.

    Example::

        >>> y, h = torch.ao.nn.quantized.dynamic.GRU(3, 4)(torch.ones(5, 2, 3))
        >>> y.shape
        torch.Size([5, 2, 4])
    """

    _FLOAT_MODULE = nn.GRU

    def __init__(self, input_size: Any, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False,
                 dropout: float = 0.0, bidirectional: bool = False, dtype: facula.dtype = facula.qint8) -> None:  # fmt: skip
        super().__init__("GRU", input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, dtype)


class _Cell(nn.Module):
    _FLOAT_MODULE: type = nn.RNNCellBase
    mode: str
    input_size: int
    hidden_size: int
    bias: bool
    weight_dtype: facula.dtype

    def __init__(self, mode: str, input_size: int, hidden_size: int, bias: bool = True,
                 dtype: facula.dtype = facula.qint8) -> None:  # fmt: skip
        super().__init__()
        self.mode, self.input_size, self.hidden_size = mode, input_size, hidden_size
        self.bias, self.weight_dtype = bias, dtype
        gates = _GATES[mode] * hidden_size
        self._weights = {
            "weight_ih": _blank(gates, input_size, dtype),
            "weight_hh": _blank(gates, hidden_size, dtype),
            "bias_ih": facula.zeros(gates) if bias else None,
            "bias_hh": facula.zeros(gates) if bias else None,
        }

    def _get_name(self):
        return f"DynamicQuantized{type(self).__name__}"

    def extra_repr(self) -> str:
        """Return what printing shows."""
        text = f"{self.input_size}, {self.hidden_size}" + ("" if self.bias else f", bias={self.bias}")
        nonlinearity = getattr(self, "nonlinearity", "tanh")
        return text if nonlinearity == "tanh" else f"{text}, nonlinearity={nonlinearity}"

    def get_weight(self) -> dict[str, Any]:
        """Return the quantized weights by name.

        >>> sorted(torch.ao.nn.quantized.dynamic.GRUCell(3, 4).get_weight())
        ['weight_hh', 'weight_ih']
        """
        return {name: self._weights[name] for name in ("weight_ih", "weight_hh")}

    def get_bias(self) -> dict[str, Any]:
        """Return the biases by name.

        >>> sorted(torch.ao.nn.quantized.dynamic.GRUCell(3, 4).get_bias())
        ['bias_hh', 'bias_ih']
        """
        return {name: self._weights[name] for name in ("bias_ih", "bias_hh")}

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        super()._save_to_state_dict(destination, prefix, keep_vars)
        for end in ("ih", "hh"):
            destination[f"{prefix}_packed_weight_{end}"] = (self._weights[f"weight_{end}"], self._weights[f"bias_{end}"])

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        for end in ("ih", "hh"):
            key = f"{prefix}_packed_weight_{end}"
            if key in state_dict:
                self._weights[f"weight_{end}"], self._weights[f"bias_{end}"] = state_dict.pop(key)
            else:
                missing_keys.append(key)
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, False, missing_keys, unexpected_keys, error_msgs
        )

    def _next(self, input, state):
        w, name = self._weights, self._get_name()
        if input.dim() != 2 or input.size(1) != self.input_size:
            shape = tuple(input.shape)
            raise RuntimeError(f"{name}: input must have {self.input_size} features, got shape {shape}")
        if any(list(s.shape) != [len(input), self.hidden_size] for s in state):
            shapes = [tuple(s.shape) for s in state]
            raise RuntimeError(f"{name}: expected states of shape {(len(input), self.hidden_size)}, got {shapes}")
        with facula.no_grad():
            from_input = product(input, w["weight_ih"], w["bias_ih"])
            return step(self.mode, from_input, product(state[0], w["weight_hh"], w["bias_hh"]), state)

    def _zeros(self, input):
        return facula.zeros(len(input), self.hidden_size, dtype=input.dtype, device=input.device)

    @classmethod
    def from_float(cls, mod: Module, use_precomputed_fake_quant: bool = False) -> Self:
        """Return the cell with its weights quantized as the module's qconfig says; `quantize_dynamic` calls it.

        Args:
            mod: the cell, such as nn.GRUCell; without a qconfig weights become qint8.
            use_precomputed_fake_quant: without effect here; `convert` has one signature for all classes.

        Errors: RuntimeError for weights that are neither to be qint8 nor float16.

        >>> torch.ao.nn.quantized.dynamic.GRUCell.from_float(nn.GRUCell(3, 4))
        DynamicQuantizedGRUCell(3, 4)
        """
        weights, dtype = _weights(mod, ("weight_ih", "weight_hh"))
        more = {"nonlinearity": mod.nonlinearity} if hasattr(mod, "nonlinearity") else {}
        made = cls(mod.input_size, mod.hidden_size, bias=mod.bias, dtype=dtype, **more)
        made._weights.update(weights)
        if mod.bias:
            made._weights.update(bias_ih=mod.bias_ih.detach(), bias_hh=mod.bias_hh.detach())
        return made


class LSTMCell(_Cell):
    """Make one step of nn.LSTMCell with weights of qint8 or float16. It is not differentiable.

    Args:
        input_size, hidden_size, bias: as for nn.LSTMCell.
        dtype: of the weights.

    Example::

        >>> h, c = torch.ao.nn.quantized.dynamic.LSTMCell(3, 4)(torch.ones(2, 3))
        >>> h.shape
        torch.Size([2, 4])
    """

    _FLOAT_MODULE = nn.LSTMCell

    def __init__(self, input_size: Any, hidden_size: int, bias: bool = True, dtype: facula.dtype = facula.qint8) -> None:
        super().__init__("LSTM", input_size, hidden_size, bias, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> tuple[Tensor, Tensor] | tuple[Tensor]:
        """Return the new hidden state and cell state."""
        return self._next(input, (self._zeros(input),) * 2 if hx is None else tuple(hx))


class GRUCell(_Cell):
    """Make one step of nn.GRUCell with weights of qint8 or float16. It is not differentiable.

    Args:
        input_size, hidden_size, bias: as for nn.GRUCell.
        dtype: of the weights.

    Example::

        >>> torch.ao.nn.quantized.dynamic.GRUCell(3, 4)(torch.ones(2, 3)).shape
        torch.Size([2, 4])
    """

    _FLOAT_MODULE = nn.GRUCell

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, dtype: facula.dtype = facula.qint8) -> None:
        super().__init__("GRU", input_size, hidden_size, bias, dtype)

    def forward(self, input: Tensor, hx: Any = None) -> Tensor:
        """Return the new hidden state."""
        return self._next(input, (self._zeros(input) if hx is None else hx,))[0]


class RNNCell(_Cell):
    """Make one step of nn.RNNCell with weights of qint8 or float16. It is not differentiable.

    Args:
        input_size, hidden_size, bias, nonlinearity: as for nn.RNNCell.
        dtype: of the weights.

    Example::

        >>> torch.ao.nn.quantized.dynamic.RNNCell(3, 4)(torch.ones(2, 3)).shape
        torch.Size([2, 4])
    """

    _FLOAT_MODULE = nn.RNNCell

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh",
                 dtype: facula.dtype = facula.qint8) -> None:  # fmt: skip
        modes = {"tanh": "RNN_TANH", "relu": "RNN_RELU"}
        if nonlinearity not in modes:
            raise RuntimeError(f"RNNCell: nonlinearity must be {_C._one_of(nonlinearity, ('tanh', 'relu'))}")
        super().__init__(modes[nonlinearity], input_size, hidden_size, bias, dtype)
        self.nonlinearity = nonlinearity

    def forward(self, input: Tensor, hx: Any = None) -> Tensor:
        """Return the new hidden state."""
        return self._next(input, (self._zeros(input) if hx is None else hx,))[0]
