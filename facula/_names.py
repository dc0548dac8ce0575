"""Tables of names: dtype aliases, numeric constants, and the submodules that load on first use."""

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
    accelerator amp ao autograd backends compat compiler cpu cuda distributed distributions fft functional func futures fx hub
    jit library linalg masked mps mtia multiprocessing nested nn onnx optim overrides package profiler quantization
    random return_types serialization signal sparse special storage array_api testing types utils version xpu
    """.split()
)

# Public names that are looked up in a module of facula when they are first used.
_LAZY = {
    "_interop": "asarray from_dlpack frombuffer",
    "_products": "chain_matmul einsum tensordot",
    "_gradient": "gradient",
    "_lobpcg": "lobpcg",
    "_renamed": """
        cosine_embedding_loss hinge_embedding_loss margin_ranking_loss poisson_nll_loss triplet_margin_loss detach detach_
        get_device frobenius_norm nuclear_norm native_norm norm_except_dim affine_grid_generator embedding_renorm_
        segment_reduce from_file cond while_loop sym_float sym_int sym_max sym_min sym_not sym_ite sym_sum sym_sqrt
        """,
    "_lowrank": "lu pca_lowrank svd_lowrank",
    "_spectrogram": "istft stft",
    "random": """
        get_rng_state initial_seed manual_seed seed set_rng_state
        _dirichlet_grad _sample_dirichlet _standard_gamma _standard_gamma_grad
        """,
    "_device": "get_default_device set_default_device",
    "func": "vmap",
    "serialization": "load save",
    "nn._recurrent": "gru gru_cell lstm lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell",
    "storage": """
        TypedStorage BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage
        DoubleStorage FloatStorage HalfStorage IntStorage LongStorage ShortStorage
        """,
    "_array_api": """
        __array_namespace_info__ astype bitwise_invert broadcast_arrays cumulative_prod
        cumulative_sum expand_dims isdtype matrix_transpose permute_dims repeat take_along_axis unique_all unique_counts
        unique_inverse unique_values unstack vecdot
        """,
}
LAZY_NAMES = {name: module for module, names in _LAZY.items() for name in names.split()}
