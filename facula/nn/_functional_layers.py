"""Linear, convolution, embedding, dropout and normalisation functions of nn.functional."""

from __future__ import annotations

import math
import warnings

import facula
from facula import _C

from ._native import functional_op, op
from ._tuples import _pair

_nn = _C.nn_functional

bilinear = op("bilinear")
channel_shuffle = op("channel_shuffle")
conv1d = op("conv1d")
conv2d = op("conv2d")
conv3d = op("conv3d")
conv_tbc = op("conv_tbc")
conv_transpose1d = op("conv_transpose1d")
conv_transpose2d = op("conv_transpose2d")
conv_transpose3d = op("conv_transpose3d")
linear = functional_op("linear")
native_channel_shuffle = op("native_channel_shuffle")
one_hot = functional_op("one_hot")
pixel_shuffle = op("pixel_shuffle")
pixel_unshuffle = op("pixel_unshuffle")

_dropout = op("dropout")
_dropout_ = op("dropout_")


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """Sliding blocks of (N, C, H, W) as columns: (N, C * kernel area, number of blocks)."""
    return _nn.im2col(input, _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride))


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Sum columns (N, C * kernel area, blocks) back into images (N, C, *output_size); the adjoint of
    `unfold`.
    """
    return _nn.col2im(
        input, _pair(output_size), _pair(kernel_size), _pair(dilation), _pair(padding), _pair(stride)
    )


# -- embeddings
# ------------------------------------------------------------------------------------------------------


def _renormalise_rows(weight, indices, max_norm: float, norm_type: float) -> None:
    """Scale the rows of ``weight`` that ``indices`` names down to a norm of at most ``max_norm``, in
    place.
    """
    with facula.no_grad():
        rows = facula.unique(indices.reshape(-1))
        values = weight.index_select(0, rows)
        norms = facula.linalg.vector_norm(values, norm_type, dim=1, keepdim=True)
        scale = facula.where(norms > max_norm, max_norm / (norms + 1e-7), facula.ones_like(norms))
        weight.index_copy_(0, rows, values * scale)


def embedding(
    input, weight, padding_idx=None, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False
):
    """Rows of ``weight`` (rows, features) picked by ``input`` (any shape of int64 or int32).

    Args:
        padding_idx: a row that gets no gradient.
        max_norm: rows that are picked and longer than this are scaled down in place first.
        norm_type: p of that norm.
        scale_grad_by_freq: divide the gradients by how often a row occurs in the input.
        sparse: give the gradient of ``weight`` as a sparse tensor.
    """
    rows = weight.size(0)
    if padding_idx is None:
        padding_idx = -1
    elif not -rows <= padding_idx < rows:
        raise AssertionError(f"embedding: padding_idx must be within {rows} rows, got {padding_idx}")
    elif padding_idx < 0:
        padding_idx += rows
    if max_norm is not None:
        input = input.contiguous()
        _renormalise_rows(weight, input, max_norm, norm_type)
    return facula.embedding(weight, input, padding_idx, scale_grad_by_freq, sparse)


_BAG_MODES = {"sum": 0, "mean": 1, "max": 2}


def embedding_bag(
    input,
    weight,
    offsets=None,
    max_norm=None,
    norm_type=2,
    scale_grad_by_freq=False,
    mode="mean",
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=None,
):
    """Sums, means or maxima of bags of embeddings, without keeping the single embeddings.

    Args:
        input: indices, (bags, length); or one dimension, and ``offsets`` gives the start of each bag.
        weight: (rows, features).
        mode: 'sum', 'mean' or 'max'.
        per_sample_weights: factors of the same shape as ``input``, for 'sum' only.
        include_last_offset: ``offsets`` ends with the number of indices.
        padding_idx: an index that is left out of the bags.

    Returns:
        (bags, features).
    """
    if weight.dtype == facula.int64 and input.is_floating_point():
        warnings.warn("embedding_bag: takes (input, weight), got (weight, input)", stacklevel=2)
        weight, input = input, weight
    if per_sample_weights is not None and input.shape != per_sample_weights.shape:
        raise ValueError(
            f"embedding_bag: per_sample_weights must have the shape of input {tuple(input.shape)}, "
            f"got {tuple(per_sample_weights.shape)}"
        )
    if weight.dim() != 2:
        raise ValueError(f"embedding_bag: weight must have 2 dimensions, got {weight.dim()}")
    if mode not in _BAG_MODES:
        raise ValueError(f"embedding_bag: mode must be 'sum', 'mean' or 'max', got {mode!r}")
    if mode == "max" and (scale_grad_by_freq or sparse):
        raise ValueError(
            "embedding_bag: mode 'max' has neither scale_grad_by_freq nor sparse, got one of them"
        )
    if input.dim() == 2:
        if offsets is not None:
            raise ValueError(f"embedding_bag: a 2-D input takes no offsets, got {type(offsets).__name__}")
        offsets = facula.arange(0, input.numel(), input.size(1), dtype=input.dtype, device=input.device)
        include_last_offset = False
        input = input.reshape(-1)
        per_sample_weights = None if per_sample_weights is None else per_sample_weights.reshape(-1)
    elif input.dim() != 1:
        raise ValueError(f"embedding_bag: input must have 1 or 2 dimensions, got {input.dim()}")
    elif offsets is None or offsets.dim() != 1:
        got = "None" if offsets is None else f"{offsets.dim()} dimensions"
        raise ValueError(f"embedding_bag: a 1-D input needs 1-D offsets, got {got}")
    if max_norm is not None:
        _renormalise_rows(weight, input, max_norm, norm_type)
    if per_sample_weights is not None and mode != "sum":
        raise NotImplementedError(f"embedding_bag: per_sample_weights needs mode 'sum', got {mode!r}")
    return facula.embedding_bag(
        weight,
        input,
        offsets,
        scale_grad_by_freq,
        _BAG_MODES[mode],
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )[0]


# -- dropout
# ---------------------------------------------------------------------------------------------------------


def _check_probability(name: str, p: float) -> None:
    if p < 0.0 or p > 1.0:
        raise ValueError(f"{name}: the probability must be between 0 and 1, got {p}")


def dropout(input, p: float = 0.5, training: bool = True, inplace: bool = False):
    """In training, set each element to zero with probability ``p`` and scale the rest by 1 / (1 - p)."""
    _check_probability("dropout", p)
    return _dropout_(input, p, training) if inplace else _dropout(input, p, training)


# Of the SELU function; alpha dropout keeps the mean and variance of its outputs.
_SELU_SATURATION = 1.7580993408473766


def _noise_dropout(input, p: float, training: bool, inplace: bool, per_channel: bool, alpha: bool):
    """Dropout with one draw per element or per (sample, channel), to zero or to SELU's lower limit."""
    if p == 0 or not training or input.numel() == 0:
        return input
    if p == 1:
        zero = facula.zeros((), dtype=input.dtype, device=input.device)
        return input.mul_(zero) if inplace else input * zero
    if per_channel:
        if input.dim() < 2:
            raise RuntimeError(f"feature dropout: the input needs at least 2 dimensions, got {input.dim()}")
        noise = input.new_empty((input.size(0), input.size(1)) + (1,) * (input.dim() - 2))
    else:
        noise = facula.empty_like(input)
    noise.bernoulli_(1 - p)
    if not alpha:
        noise.div_(1 - p)
        return input.mul_(noise) if inplace else input * noise
    scale = 1.0 / math.sqrt((_SELU_SATURATION * _SELU_SATURATION * p + 1) * (1 - p))
    shift = noise.add(-1).mul_(_SELU_SATURATION * scale).add_(_SELU_SATURATION * scale * p)
    noise.mul_(scale)
    return (input.mul_(noise) if inplace else input * noise).add_(shift)


def alpha_dropout(input, p: float = 0.5, training: bool = False, inplace: bool = False):
    """Dropout for SELU networks: dropped elements take SELU's lower limit, mean and variance are kept."""
    _check_probability("alpha_dropout", p)
    return _noise_dropout(input, p, training, inplace, per_channel=False, alpha=True)


def feature_alpha_dropout(input, p: float = 0.5, training: bool = False, inplace: bool = False):
    """Alpha dropout of whole channels of (N, C, ...)."""
    _check_probability("feature_alpha_dropout", p)
    return _noise_dropout(input, p, training, inplace, per_channel=True, alpha=True)


def dropout1d(input, p: float = 0.5, training: bool = True, inplace: bool = False):
    """Dropout of whole channels of (N, C, L) or (C, L)."""
    _check_probability("dropout1d", p)
    if input.dim() not in (2, 3):
        raise RuntimeError(f"dropout1d: the input must have 2 or 3 dimensions, got {input.dim()}")
    return _channel_dropout(input, p, training, inplace, unbatched=input.dim() == 2)


def dropout2d(input, p: float = 0.5, training: bool = True, inplace: bool = False):
    """Dropout of whole channels of (N, C, H, W). Three dimensions are taken as (N, C, L), with a warning."""
    _check_probability("dropout2d", p)
    if input.dim() != 4:
        advice = "it is read as (N, C, L): use dropout1d" if input.dim() == 3 else "use dropout"
        warnings.warn(
            f"dropout2d: the input should have 4 dimensions ({advice}), got {input.dim()}", stacklevel=2
        )
    return _channel_dropout(input, p, training, inplace, unbatched=False)


def dropout3d(input, p: float = 0.5, training: bool = True, inplace: bool = False):
    """Dropout of whole channels of (N, C, D, H, W) or (C, D, H, W)."""
    _check_probability("dropout3d", p)
    if input.dim() not in (4, 5):
        warnings.warn(
            f"dropout3d: the input should have 4 or 5 dimensions (use dropout), got {input.dim()}",
            stacklevel=2,
        )
    return _channel_dropout(input, p, training, inplace, unbatched=input.dim() == 4)


def _channel_dropout(input, p: float, training: bool, inplace: bool, unbatched: bool):
    if not unbatched:
        return _noise_dropout(input, p, training, inplace, per_channel=True, alpha=False)
    batch = input.unsqueeze_(0) if inplace else input.unsqueeze(0)
    result = _noise_dropout(batch, p, training, inplace, per_channel=True, alpha=False)
    return result.squeeze_(0) if inplace else result.squeeze(0)


# -- normalisation
# ---------------------------------------------------------------------------------------------------


def _check_values_per_channel(name: str, size) -> None:
    """Training statistics need more than one value per channel of (N, C, ...)."""
    if size[0] * math.prod(size[2:]) == 1:
        raise ValueError(
            f"{name}: training needs more than one value per channel, got input shape {tuple(size)}"
        )


def batch_norm(
    input, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05
):
    """Normalise each channel of (N, C, ...) over the batch and the positions.

    Args:
        running_mean, running_var: (C,); updated in place when ``training``, used otherwise. May be None in
            training.
        weight, bias: (C,), applied after the normalisation.
        momentum: share of the new statistics in the running ones.
        eps: added to the variance.
    """
    if training:
        _check_values_per_channel("batch_norm", input.size())
    return facula.batch_norm(input, weight, bias, running_mean, running_var, training, momentum, eps, True)


def instance_norm(
    input,
    running_mean=None,
    running_var=None,
    weight=None,
    bias=None,
    use_input_stats=True,
    momentum=0.1,
    eps=1e-05,
):
    """Normalise each channel of each sample of (N, C, ...) over its positions."""
    if use_input_stats and math.prod(input.shape[2:]) == 1:
        raise ValueError(
            "instance_norm: training needs more than one position per channel, got input shape "
            f"{tuple(input.shape)}"
        )
    return facula.instance_norm(
        input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, True
    )


def layer_norm(input, normalized_shape, weight=None, bias=None, eps=1e-05):
    """Normalise over the last dimensions, whose shape is ``normalized_shape``; then scale and shift."""
    return facula.layer_norm(input, normalized_shape, weight, bias, eps)


def rms_norm(input, normalized_shape, weight=None, eps=None):
    """Divide by the root mean square over the last dimensions; ``eps`` None is the dtype's machine
    epsilon.
    """
    return facula.rms_norm(input, normalized_shape, weight, eps)


def group_norm(input, num_groups, weight=None, bias=None, eps=1e-05):
    """Normalise each of ``num_groups`` groups of channels of each sample of (N, C, ...)."""
    if input.dim() < 2:
        raise RuntimeError(f"group_norm: the input needs at least 2 dimensions, got {input.dim()}")
    size = input.shape
    if num_groups > 0 and size[0] * size[1] // num_groups * math.prod(size[2:]) == 1:
        raise ValueError(f"group_norm: needs more than one value per channel, got input shape {tuple(size)}")
    return facula.group_norm(input, num_groups, weight, bias, eps)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """Divide (N, C, ...) by ``(k + alpha * mean of squares over size neighbouring channels) ** beta``."""
    if input.dim() < 3:
        raise ValueError(f"local_response_norm: the input must have 3 dimensions or more, got {input.dim()}")
    if input.numel() == 0:
        return input
    shape = input.size()
    squares = input.mul(input).reshape(shape[0], 1, shape[1], -1)
    # A window of `size` channels around each one, with zeros beyond the ends.
    squares = _nn.pad(squares, [0, 0, size // 2, (size - 1) // 2])
    means = _nn.avg_pool2d(squares, (size, 1), stride=1).reshape(shape)
    return input / means.mul(alpha).add(k).pow(beta)


def normalize(input, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out=None):
    """Divide by the p-norm along ``dim`` (at least ``eps``)."""
    norm = input.norm(p, dim, keepdim=True).clamp_min(eps)
    if out is None:
        return input / norm
    return facula.div(input, norm, out=out)
