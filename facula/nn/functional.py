"""Functions of neural networks: activations, convolutions, pooling, losses and others.

Each is a function of its arguments alone; layers of ``nn`` hold weights and settings for them. What an op of the core is,
with the same arguments, is taken from there; the rest lives in one file per topic below ``nn/functions``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .functions.activation import (
    celu,
    celu_,
    elu,
    elu_,
    gelu,
    glu,
    gumbel_softmax,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    hardtanh_,
    leaky_relu,
    leaky_relu_,
    log_softmax,
    logsigmoid,
    mish,
    prelu,
    relu,
    relu6,
    relu_,
    rrelu,
    rrelu_,
    selu,
    selu_,
    sigmoid,
    silu,
    softmax,
    softmin,
    softplus,
    softshrink,
    softsign,
    tanh,
    tanhshrink,
    threshold,
    threshold_,
)
from .functions.attention import multi_head_attention_forward, scaled_dot_product_attention
from .functions.conv import (
    conv1d,
    conv2d,
    conv3d,
    conv_tbc,
    conv_transpose1d,
    conv_transpose2d,
    conv_transpose3d,
    fold,
    unfold,
)
from .functions.index import embedding, embedding_bag, one_hot
from .functions.loss_classification import (
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
    cross_entropy,
    ctc_loss,
    linear_cross_entropy,
    multi_margin_loss,
    multilabel_margin_loss,
    multilabel_soft_margin_loss,
    nll_loss,
    soft_margin_loss,
)
from .functions.loss_distance import (
    cosine_embedding_loss,
    hinge_embedding_loss,
    margin_ranking_loss,
    triplet_margin_loss,
    triplet_margin_with_distance_loss,
)
from .functions.loss_regression import (
    gaussian_nll_loss,
    huber_loss,
    kl_div,
    l1_loss,
    mse_loss,
    poisson_nll_loss,
    smooth_l1_loss,
)
from .functions.matmul import (
    ScalingType,
    SwizzleType,
    bilinear,
    cosine_similarity,
    grouped_mm,
    linear,
    pairwise_distance,
    pdist,
    scaled_mm,
)
from .functions.norm import batch_norm, group_norm, instance_norm, layer_norm, local_response_norm, normalize, rms_norm
from .functions.pool import (
    adaptive_avg_pool1d,
    adaptive_avg_pool2d,
    adaptive_avg_pool3d,
    adaptive_max_pool1d,
    adaptive_max_pool1d_with_indices,
    adaptive_max_pool2d,
    adaptive_max_pool2d_with_indices,
    adaptive_max_pool3d,
    adaptive_max_pool3d_with_indices,
    avg_pool1d,
    avg_pool2d,
    avg_pool3d,
    fractional_max_pool2d,
    fractional_max_pool2d_with_indices,
    fractional_max_pool3d,
    fractional_max_pool3d_with_indices,
    lp_pool1d,
    lp_pool2d,
    lp_pool3d,
    max_pool1d,
    max_pool1d_with_indices,
    max_pool2d,
    max_pool2d_with_indices,
    max_pool3d,
    max_pool3d_with_indices,
    max_unpool1d,
    max_unpool2d,
    max_unpool3d,
)
from .functions.random import alpha_dropout, dropout, dropout1d, dropout2d, dropout3d, feature_alpha_dropout
from .functions.resample import (
    GRID_SAMPLE_INTERPOLATION_MODES,
    GRID_SAMPLE_PADDING_MODES,
    affine_grid,
    grid_sample,
    interpolate,
    upsample,
    upsample_bilinear,
    upsample_nearest,
)
from .functions.shape import channel_shuffle, native_channel_shuffle, pixel_shuffle, pixel_unshuffle
from .functions.split_join import pad

if TYPE_CHECKING:
    from typing import Any

    from facula.overrides import has_torch_function as has_torch_function
    from facula.overrides import has_torch_function_unary as has_torch_function_unary
    from facula.overrides import has_torch_function_variadic as has_torch_function_variadic

__all__ = [
    "GRID_SAMPLE_INTERPOLATION_MODES", "GRID_SAMPLE_PADDING_MODES", "ScalingType", "SwizzleType",
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool1d",
    "adaptive_max_pool1d_with_indices", "adaptive_max_pool2d", "adaptive_max_pool2d_with_indices", "adaptive_max_pool3d",
    "adaptive_max_pool3d_with_indices", "affine_grid", "alpha_dropout", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "batch_norm", "bilinear", "binary_cross_entropy", "binary_cross_entropy_with_logits", "celu", "celu_", "channel_shuffle",
    "conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
    "cosine_embedding_loss", "cosine_similarity", "cross_entropy", "ctc_loss", "dropout", "dropout1d", "dropout2d",
    "dropout3d", "elu", "elu_", "embedding", "embedding_bag", "feature_alpha_dropout", "fold", "fractional_max_pool2d",
    "fractional_max_pool2d_with_indices", "fractional_max_pool3d", "fractional_max_pool3d_with_indices", "gaussian_nll_loss",
    "gelu", "glu", "grid_sample", "group_norm", "grouped_mm", "gumbel_softmax", "hardshrink", "hardsigmoid", "hardswish",
    "hardtanh", "hardtanh_", "hinge_embedding_loss", "huber_loss", "instance_norm", "interpolate", "kl_div", "l1_loss",
    "layer_norm", "leaky_relu", "leaky_relu_", "linear", "linear_cross_entropy", "local_response_norm", "log_softmax",
    "logsigmoid", "lp_pool1d", "lp_pool2d", "lp_pool3d", "margin_ranking_loss", "max_pool1d", "max_pool1d_with_indices",
    "max_pool2d", "max_pool2d_with_indices", "max_pool3d", "max_pool3d_with_indices", "max_unpool1d", "max_unpool2d",
    "max_unpool3d", "mish", "mse_loss", "multi_head_attention_forward", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "native_channel_shuffle", "nll_loss", "normalize", "one_hot", "pad", "pairwise_distance",
    "pdist", "pixel_shuffle", "pixel_unshuffle", "poisson_nll_loss", "prelu", "relu", "relu6", "relu_", "rms_norm", "rrelu",
    "rrelu_", "scaled_dot_product_attention", "scaled_mm", "selu", "selu_", "sigmoid", "silu", "smooth_l1_loss",
    "soft_margin_loss", "softmax", "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold",
    "threshold_", "triplet_margin_loss", "triplet_margin_with_distance_loss", "unfold", "upsample", "upsample_bilinear",
    "upsample_nearest",
]  # fmt: skip


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):  # imports ask for __path__
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from facula.compat import placeholders

        return placeholders.member("torch.nn.functional", name)
