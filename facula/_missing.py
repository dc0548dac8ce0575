"""Public names of PyTorch that only serve quantisation, sparse layouts, other hardware or a compiler.

They exist, so that a program can mention them (in annotations, comparisons, isinstance checks), and raise
NotImplementedError with their name when called.
"""

from __future__ import annotations

_NAMES = """
    quantize_per_tensor quantize_per_tensor_dynamic quantize_per_channel quantized_batch_norm quantized_gru
    quantized_gru_cell quantized_lstm quantized_lstm_cell quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d
    quantized_rnn_relu_cell quantized_rnn_tanh_cell dequantize int_repr q_per_channel_axis q_per_channel_scales
    q_per_channel_zero_points q_scale q_zero_point fake_quantize_per_channel_affine fake_quantize_per_tensor_affine
    fused_moving_avg_obs_fake_quant choose_qparams_optimized empty_quantized qscheme per_channel_affine
    per_channel_affine_float_qparams per_channel_symmetric per_tensor_affine per_tensor_symmetric
    qint8 qint32 quint8 quint2x4 quint4x2 QInt8Storage QInt32Storage QUInt8Storage QUInt2x4Storage QUInt4x2Storage
    bits8 bits16 bits1x8 bits2x4 bits4x2 int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5 uint6 uint7
    float4_e2m1fn_x2 float8_e8m0fnu
    fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight
    fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16
    fbgemm_pack_quantized_matrix
    sparse_coo_tensor sparse_csr_tensor sparse_csc_tensor sparse_bsr_tensor sparse_bsc_tensor sparse_compressed_tensor
    smm spmm sspaddmm hspmm saddmm dsmm hsmm resize_as_sparse_ ccol_indices_copy col_indices_copy crow_indices_copy
    row_indices_copy indices_copy values_copy slice_inverse
    batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats
    batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats
    cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution cudnn_convolution_add_relu cudnn_convolution_relu
    cudnn_convolution_transpose cudnn_grid_sampler cudnn_is_acceptable miopen_batch_norm miopen_convolution
    miopen_convolution_add_relu miopen_convolution_relu miopen_convolution_transpose miopen_ctc_loss
    miopen_depthwise_convolution miopen_rnn mkldnn_adaptive_avg_pool2d mkldnn_convolution mkldnn_linear_backward_weights
    mkldnn_max_pool2d mkldnn_max_pool3d mkldnn_rnn_layer
    Event Stream AcceleratorError Tag SymInt SymFloat SymBool export sym_constrain_range
    sym_constrain_range_for_size sym_fresh_size thread_safe_generator
    """
MISSING = frozenset(_NAMES.split())

_REMOVED = {
    "eig": "linalg.eig", "lstsq": "linalg.lstsq", "matrix_rank": "linalg.matrix_rank", "solve": "linalg.solve",
    "symeig": "linalg.eigh",
}  # fmt: skip


def lookup(name):
    """What stands for `facula.name`; None where there is no such name."""
    if name in MISSING:
        from .compat.placeholders import placeholder

        return placeholder(f"torch.{name}")
    return _removed(name, _REMOVED[name]) if name in _REMOVED else None


def _removed(name, successor):
    def function(*args, **kwargs):
        raise RuntimeError(f"{name}: was removed, use {successor}, got {len(args) + len(kwargs)} arguments")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Raises RuntimeError: the function is {successor} now."
    return function
