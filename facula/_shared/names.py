"""Define tables of names: dtype aliases, numeric constants, and the submodules that load on first use."""

import math

DTYPE_ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "cfloat": "complex64",
    "cdouble": "complex128",
    "chalf": "complex32",
    "short": "int16",
    "int": "int32",
    "long": "int64",
}

CONSTANTS = {
    "inf": math.inf, "nan": math.nan, "pi": math.pi, "e": math.e, "newaxis": None,
    "has_lapack": True, "has_mkl": False, "has_openmp": True, "has_spectral": True,
}  # fmt: skip

LAZY_MODULES = frozenset(
    """
    __config__ __future__ accelerator amp ao autograd backends compat compiler cpu cuda distributed distributions
    fft functional func
    futures fx hub jit library linalg masked monitor mps mtia multiprocessing nested nn onnx optim overrides package profiler
    quasirandom _dynamo _inductor _logging _prims_common _subclasses _tensor_str _utils
    quantization random return_types serialization signal sparse special storage array_api testing types utils version xpu
    """.split()
)

# `_foreach_` operators, each with a form that writes.
FOREACH_UNARY = """
    abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round rsqrt
    sigmoid sign sin sinh sqrt tan tanh trunc
""".split()
FOREACH_MORE = "add addcdiv addcmul clamp_max clamp_min div lerp maximum minimum mul pow sub".split()

# Public names that are looked up in a module of facula when they are first used.
_LAZY = {
    "functions.scaling": "_amp_foreach_non_finite_check_and_unscale_ _amp_update_scale_",
    "functions.control_flow": "cond while_loop",
    "functions.create": "asarray from_dlpack from_file frombuffer",
    "functions.device": "get_default_device get_device_module set_default_device",
    "functions.dtype": "finfo iinfo",
    "functions.fft": "istft stft",
    "functions.gradient": "gradient",
    "functions.index": "embedding_renorm_",
    "functions.linalg": "frobenius_norm lu native_norm norm_except_dim nuclear_norm pca_lowrank svd_lowrank",
    "functions.lobpcg": "lobpcg",
    "functions.loss": "cosine_embedding_loss hinge_embedding_loss margin_ranking_loss poisson_nll_loss triplet_margin_loss",
    "functions.matmul": "chain_matmul einsum tensordot",
    "functions.reduce": "histogramdd segment_reduce unique unique_consecutive",
    "functions.resample": "affine_grid_generator",
    "functions.rnn": "gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell",
    "functions.settings": """
        init_num_threads is_vulkan_available set_anomaly_enabled
        are_deterministic_algorithms_enabled get_deterministic_debug_mode get_float32_matmul_precision get_num_interop_threads
        get_printoptions is_deterministic_algorithms_warn_only_enabled is_warn_always_enabled set_default_tensor_type
        set_deterministic_debug_mode set_float32_matmul_precision set_num_interop_threads set_printoptions set_warn_always
        use_deterministic_algorithms
        """,
    "functions.shape": "broadcast_shapes",
    "functions.sparse": """
        dsmm hsmm hspmm saddmm smm sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor
        sparse_csc_tensor sparse_csr_tensor spmm sspaddmm
        _convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo
        _validate_sparse_coo_tensor_args _validate_sparse_compressed_tensor_args
        """,
    "functions.streams": "Event Stream",
    "functions.symbolic": """
        SymBool SymFloat SymInt sym_constrain_range sym_constrain_range_for_size sym_float sym_int sym_ite sym_max sym_min
        sym_not sym_sqrt sym_sum
        """,
    "functions.tensor": """
        _shape_as_tensor _softmax_backward_data detach detach_ get_device is_complex is_conj is_distributed is_floating_point
        is_inference is_neg is_nonzero is_same_size is_signed is_storage is_tensor numel typename
        """,
    "functions.tensor_types": """
        BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor ShortTensor
        """,
    "random": """
        get_rng_state initial_seed manual_seed seed set_rng_state
        _dirichlet_grad _sample_dirichlet _standard_gamma _standard_gamma_grad
        """,
    "func": "vmap",
    "functions.quantize": """
        dequantize int_repr per_channel_affine per_channel_affine_float_qparams per_channel_symmetric per_tensor_affine
        per_tensor_symmetric q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point qscheme
        quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic
        _int_mm _scaled_mm _weight_int8pack_mm
        _empty_affine_quantized _make_per_channel_quantized_tensor _make_per_tensor_quantized_tensor
        """,
    "functions.fused_moving_avg_obs_fake_quant": "fused_moving_avg_obs_fake_quant",
    "futures": "Future",
    "jit": "fork wait",
    "amp.autocast_mode": "autocast",
    "amp.grad_scaler": "GradScaler",
    "functions.autocast": """
        is_autocast_enabled set_autocast_enabled get_autocast_dtype set_autocast_dtype
        is_autocast_cpu_enabled set_autocast_cpu_enabled get_autocast_cpu_dtype set_autocast_cpu_dtype
        is_autocast_ipu_enabled set_autocast_ipu_enabled get_autocast_ipu_dtype set_autocast_ipu_dtype
        is_autocast_xla_enabled set_autocast_xla_enabled get_autocast_xla_dtype set_autocast_xla_dtype
        get_autocast_gpu_dtype set_autocast_gpu_dtype
        """,
    "serialization": "PyTorchFileReader load save",
    "storage": """
        Storage TypedStorage BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage
        ComplexFloatStorage
        DoubleStorage FloatStorage HalfStorage IntStorage LongStorage ShortStorage QInt32Storage QInt8Storage
        QUInt2x4Storage QUInt4x2Storage QUInt8Storage
        """,
    "_operators.namespaces": "ops classes",
    "compiler": "compile",
    "functions.check": """
        _assert _assert_async _check _check_index _check_is_size _check_not_implemented _check_tensor_all
        _check_tensor_all_with _check_type _check_value _check_with
        """,
    "functions.foreach": " ".join(
        [f"_foreach_{name}{end}" for name in (*FOREACH_UNARY, *FOREACH_MORE) for end in ("", "_")]
        + [f"_foreach_{name}" for name in ("clone", "copy_", "max", "mm", "norm", "powsum", "zero_")]
    ),
    "functions.array_api": """
        __array_namespace_info__ astype bitwise_invert broadcast_arrays cumulative_prod
        cumulative_sum expand_dims isdtype matrix_transpose permute_dims repeat take_along_axis unique_all unique_counts
        unique_inverse unique_values unstack vecdot
        """,
}
LAZY_NAMES = {name: module for module, names in _LAZY.items() for name in names.split()}
