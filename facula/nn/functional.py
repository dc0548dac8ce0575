"""Define functions of neural networks: activations, convolutions, pooling, losses and others.

Each is a function of its arguments alone; layers of ``nn`` hold weights and settings for them. What an op of the core is,
with the same arguments, is taken from there; the rest lives in one file per topic below ``nn/functions``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

# Ops of the core with the same arguments.
from facula._C import adaptive_avg_pool1d as adaptive_avg_pool1d
from facula._C import avg_pool1d as avg_pool1d
from facula._C import bilinear as bilinear
from facula._C import celu_ as celu_
from facula._C import channel_shuffle as channel_shuffle
from facula._C import conv1d as conv1d
from facula._C import conv2d as conv2d
from facula._C import conv3d as conv3d
from facula._C import conv_tbc as conv_tbc
from facula._C import conv_transpose1d as conv_transpose1d
from facula._C import conv_transpose2d as conv_transpose2d
from facula._C import conv_transpose3d as conv_transpose3d
from facula._C import cosine_similarity as cosine_similarity
from facula._C import native_channel_shuffle as native_channel_shuffle
from facula._C import pairwise_distance as pairwise_distance
from facula._C import pdist as pdist
from facula._C import pixel_shuffle as pixel_shuffle
from facula._C import pixel_unshuffle as pixel_unshuffle
from facula._C import relu_ as relu_
from facula._C import rrelu_ as rrelu_
from facula._C import selu_ as selu_
from facula._C import threshold_ as threshold_
from facula._C.nn_functional import avg_pool2d as avg_pool2d
from facula._C.nn_functional import avg_pool3d as avg_pool3d
from facula._C.nn_functional import celu as celu
from facula._C.nn_functional import elu as elu
from facula._C.nn_functional import elu_ as elu_
from facula._C.nn_functional import gelu as gelu
from facula._C.nn_functional import hardshrink as hardshrink
from facula._C.nn_functional import hardsigmoid as hardsigmoid
from facula._C.nn_functional import hardswish as hardswish
from facula._C.nn_functional import hardtanh_ as hardtanh_
from facula._C.nn_functional import leaky_relu as leaky_relu
from facula._C.nn_functional import leaky_relu_ as leaky_relu_
from facula._C.nn_functional import linear as linear
from facula._C.nn_functional import logsigmoid as logsigmoid
from facula._C.nn_functional import mish as mish
from facula._C.nn_functional import one_hot as one_hot
from facula._C.nn_functional import prelu as prelu
from facula._C.nn_functional import relu as relu
from facula._C.nn_functional import relu6 as relu6
from facula._C.nn_functional import scaled_dot_product_attention as scaled_dot_product_attention
from facula._C.nn_functional import selu as selu
from facula._C.nn_functional import sigmoid as sigmoid
from facula._C.nn_functional import silu as silu
from facula._C.nn_functional import softplus as softplus
from facula._C.nn_functional import softshrink as softshrink
from facula._C.nn_functional import softsign as softsign
from facula._C.nn_functional import tanh as tanh
from facula._C.nn_functional import tanhshrink as tanhshrink
from facula._C.nn_functional import threshold as threshold
from facula._shared.on_demand import _on_demand
from facula.nn import _reduction as _Reduction

from .functions.activation import *
from .functions.attention import *
from .functions.conv import *
from .functions.index import *
from .functions.loss_classification import *
from .functions.loss_distance import *
from .functions.loss_regression import *
from .functions.matmul import *
from .functions.norm import *
from .functions.pool import *
from .functions.pool_adaptive import *
from .functions.random import *
from .functions.resample import *
from .functions.split_join import *

if TYPE_CHECKING:
    from facula.overrides import has_torch_function as has_torch_function
    from facula.overrides import has_torch_function_unary as has_torch_function_unary
    from facula.overrides import has_torch_function_variadic as has_torch_function_variadic

if not TYPE_CHECKING:
    __all__ = sorted(name for name in globals() if not name.startswith("_") and name not in ("annotations", "TYPE_CHECKING"))

    __getattr__ = _on_demand(__name__)
