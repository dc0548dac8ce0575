"""Translate normalization."""

import warnings

import numpy as np

from ..errors import OnnxExporterWarning
from ._table import op
from .reduce import summed


def _standard(g, input, dims, eps):
    away = input - g.reduce("Mean", input, dims, True)
    return away / g.Sqrt(g.reduce("Mean", away * away, dims, True) + float(eps))


def _scaled(g, result, weight, bias):
    result = result if weight is None else result * weight
    return result if bias is None else result + bias


@op("layer_norm")
def layer_norm(g, input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    dims = list(range(-len(normalized_shape), 0))
    if weight is None:
        return _scaled(g, _standard(g, input, dims, eps), None, bias)
    return g.LayerNormalization(input, weight, bias, axis=dims[0], epsilon=float(eps))


@op("native_layer_norm")
def native_layer_norm(g, input, normalized_shape, weight, bias, eps):
    dims = list(range(-len(normalized_shape), 0))
    middle = g.reduce("Mean", input, dims, True)
    away = input - middle
    scale = g.Reciprocal(g.Sqrt(g.reduce("Mean", away * away, dims, True) + float(eps)))
    return _scaled(g, away * scale, weight, bias), middle, scale


# The distance of 1 to the next number of each dtype, PyTorch's default for `rms_norm`.
_EPSILON = {"float32": 1.1920929e-07, "float64": 2.220446049250313e-16, "float16": 0.0009765625, "bfloat16": 0.0078125}


@op("rms_norm")
def rms_norm(g, input, normalized_shape, weight=None, eps=None):
    dims = list(range(-len(normalized_shape), 0))
    eps = _EPSILON[input.dtype] if eps is None else eps
    result = input * g.Reciprocal(g.Sqrt(g.reduce("Mean", input * input, dims, True) + float(eps)))
    return _scaled(g, result, weight, None)


def _channels(g, value, rank):
    """Return one number for each channel, to be broadcast over (N, C, ...)."""
    return value if value is None or value.rank == 0 else g.reshape(value, [value.shape[0]] + [1] * (rank - 2))


def _ones(g, like, value):
    return g.constant([value] * like.shape[1], like.dtype)


@op("batch_norm _native_batch_norm_legit_no_training cudnn_batch_norm")
def batch_norm(g, input, weight, bias, running_mean, running_var, *args, training=None, momentum=None, eps=None, **_):
    if len(args) == 2:  # momentum, eps
        training, momentum, eps = False, *args
    elif args:
        training, momentum, eps = (*args, None, None)[:3] if eps is None else (args[0], momentum, eps)
    if training and running_mean is not None:
        what = "onnx.export: the file does not update the running statistics of batch_norm while training"
        warnings.warn(what, OnnxExporterWarning, stacklevel=2)
    if training or running_mean is None:
        dims = [0, *range(2, input.rank)]
        result = _standard(g, input, dims, eps)
        return _scaled(g, result, _channels(g, weight, input.rank), _channels(g, bias, input.rank))
    weight = _ones(g, input, 1.0) if weight is None else weight
    bias = _ones(g, input, 0.0) if bias is None else bias
    result = g.BatchNormalization(input, weight, bias, running_mean, running_var, epsilon=float(eps))
    return (result, None, None) if len(g.results) == 3 else result


@op("native_batch_norm _native_batch_norm_legit _batch_norm_with_update")
def native_batch_norm(g, input, weight, bias, running_mean, running_var, *args):
    if isinstance(running_mean, bool):  # the form without running statistics
        running_mean, running_var, args = None, None, (running_mean, running_var, *args)
    training, eps = args[0], args[2]
    if not training:
        nothing = g.constant(np.zeros((0,)), input.dtype)
        made = batch_norm(g, input, weight, bias, running_mean, running_var, training=False, momentum=0.1, eps=eps)
        return (made[0] if isinstance(made, tuple) else made), nothing, nothing
    dims = [0, *range(2, input.rank)]
    middle = g.reduce("Mean", input, dims)
    away = input - _channels(g, middle, input.rank)
    scale = g.Reciprocal(g.Sqrt(g.reduce("Mean", away * away, dims) + float(eps)))
    result = batch_norm(g, input, weight, bias, running_mean, running_var, training=training, momentum=0.1, eps=eps)
    return (result[0] if isinstance(result, tuple) else result), middle, scale


@op("instance_norm")
def instance_norm(g, input, weight, bias, running_mean, running_var, use_input_stats, momentum, eps, cudnn_enabled=True):
    if not use_input_stats:
        return batch_norm(g, input, weight, bias, running_mean, running_var, False, momentum, eps)
    result = _standard(g, input, list(range(2, input.rank)), eps)
    return _scaled(g, result, _channels(g, weight, input.rank), _channels(g, bias, input.rank))


@op("group_norm")
def group_norm(g, input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    sizes = g.shape_of(input)
    if 0 in sizes:
        return input
    result = g.reshape(_standard(g, g.reshape(input, [sizes[0], num_groups, -1]), [2], eps), sizes)
    return _scaled(g, result, _channels(g, weight, input.rank), _channels(g, bias, input.rank))


@op("native_group_norm")
def native_group_norm(g, input, weight, bias, N, C, HxW, group, eps):
    groups = g.reshape(input, [g.size(input, 0), group, -1])
    middle = g.reduce("Mean", groups, 2)
    away = groups - g.unsqueeze(middle, 2)
    scale = g.Reciprocal(g.Sqrt(g.reduce("Mean", away * away, 2) + float(eps)))
    return group_norm(g, input, group, weight, bias, eps), middle, scale


@op("local_response_norm")
def local_response_norm(g, input, size, alpha=1e-4, beta=0.75, k=1.0):
    return g.LRN(input, size=size, alpha=float(alpha), beta=float(beta), bias=float(k))


@op("normalize")
def normalize(g, input, p=2.0, dim=1, eps=1e-12):
    return input / g.Max(summed(g, g.Abs(input) ** float(p), dim, True) ** (1 / p), eps)


@op("weight_norm _weight_norm_interface _weight_norm")
def weight_norm(g, v, g_, dim=0):
    dims = [d for d in range(v.rank) if d != dim % v.rank] if dim != -1 else list(range(v.rank))
    return v * (g_ / g.reduce("L2", v, dims, True))
