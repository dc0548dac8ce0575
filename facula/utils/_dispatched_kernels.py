"""Define which operators of PyTorch stand for kernels of Facula in `__torch_dispatch__`: rules by the names of the
schema (see _dispatched.py).
"""

from __future__ import annotations

import functools
import math

import facula
from facula import _C
from facula.utils._dispatched import KERNELS, call, pattern, rule, trimmed

Tensor = _C.Tensor


def _binary(base, **overloads):
    return lambda do, self, other: call(f"{base}.{overloads[pattern(self, other)]}", self, other)


KERNELS["_remainder"] = _binary("remainder", TT="Tensor", TS="Scalar", ST="Scalar_Tensor")
KERNELS["_fmod"] = _binary("fmod", TT="Tensor", TS="Scalar", ST="Tensor")
KERNELS["_div_floor"] = _binary("floor_divide", TT="default", TS="default", ST="default")
KERNELS["_pow"] = _binary("pow", TT="Tensor_Tensor", TS="Tensor_Scalar", ST="Scalar")
KERNELS["_div_trunc"] = lambda do, self, other: call("div.Tensor_mode", self, other, rounding_mode="trunc")
KERNELS["_square"] = lambda do, self: call("pow.Tensor_Scalar", self, 2)
KERNELS["_cube"] = lambda do, self: call("pow.Tensor_Scalar", self, 3)
KERNELS["_nextafter"] = lambda do, self, other, *_: call("nextafter.default", self, other)
KERNELS["_complex"] = lambda do, real, imag: call("complex.default", real, imag)
KERNELS["_logit"] = lambda do, self, eps=None: call("logit.default", self, *(() if eps is None or eps < 0 else (eps,)))
KERNELS["_threshold"] = lambda do, self, threshold, value: call("threshold.default", self, threshold, value)
KERNELS["_trigamma"] = lambda do, self: call("polygamma.default", 1, self)
KERNELS["_gelu_erf"] = lambda do, self: call("gelu.default", self)
KERNELS["_gelu_tanh"] = lambda do, self: call("gelu.default", self, approximate="tanh")
KERNELS["to_dtype"] = lambda do, self, dtype: call("_to_copy.default", self, dtype=dtype)
KERNELS["conj"] = lambda do, self: call("_conj.default", self)
KERNELS["_softmax"] = lambda do, self, dim: call("_softmax.default", self, dim, False)
KERNELS["_log_softmax"] = lambda do, self, dim: call("_log_softmax.default", self, dim, False)
KERNELS["_cross"] = lambda do, self, other, dim: call(
    "linalg_cross.default", self, other, **({} if dim == -1 else {"dim": dim})
)
KERNELS["_linalg_qr"] = lambda do, A, mode: call("linalg_qr.default", *((A,) if mode == "reduced" else (A, mode)))
KERNELS["_unique_consecutive"] = lambda do, self, return_inverse, return_counts: call(
    "unique_consecutive.default", self, *trimmed((return_inverse, return_counts), (False, False))
)
KERNELS["elu"] = lambda do, self, alpha=1, scale=1, input_scale=1: call(
    "elu.default", self, alpha, *trimmed((scale, input_scale), (1, 1))
)
KERNELS["hardtanh"] = lambda do, self, min_val=-1, max_val=1: call("hardtanh.default", self, min_val, max_val)
KERNELS["linalg_det"] = lambda do, A: do("_linalg_det.default", A)[0]
KERNELS["linalg_slogdet"] = lambda do, A: do("_linalg_slogdet.default", A)[:2]
KERNELS["log_sigmoid"] = KERNELS["logsigmoid"] = lambda do, self: do("log_sigmoid_forward.default", self)[0]


@rule(KERNELS, "_round_scaled")
def _(do, self, scale, inverse=1.0):
    decimals = round(math.log10(scale / inverse))
    return call("round.decimals", self, decimals=decimals)


@rule(KERNELS, "_nan_to_num")
def _(do, self, nan, posinf, neginf):
    limit = facula.finfo(self.dtype)
    given = [nan if nan != 0 else None, None if posinf == limit.max else posinf, None if neginf == limit.min else neginf]
    return call("nan_to_num.default", self, *trimmed(given, (None, None, None)))


@rule(KERNELS, "_clamp")
def _(do, self, min, max):
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        return call("clamp.Tensor", self, *(_as_tensor(do, value, self.dtype) for value in (min, max)))
    return call("clamp.default", self, min, max)


def _as_tensor(do, value, dtype):
    if isinstance(value, Tensor):
        return value
    return do("scalar_tensor.default", value, dtype=dtype, layout=facula.strided, device=facula.device("cpu"))


@rule(KERNELS, "_where")
def _(do, condition, self, other):
    dtype = next((v.dtype for v in (self, other) if isinstance(v, Tensor)), None) or facula.get_default_dtype()
    return call("where.self", condition, *(_as_tensor(do, value, dtype) for value in (self, other)))


@rule(KERNELS, "_var", "_std")
def _var(do, self, dim, correction, keepdim, _name="var"):
    whole = int(correction) if correction == int(correction) else correction
    kwargs = {} if dim is None and correction == 1 else {"correction": whole}
    if keepdim:
        kwargs["keepdim"] = True
    return call(f"{_name}.correction", *((self,) if dim is None else (self, dim)), **kwargs)


KERNELS["_std"] = functools.partial(_var, _name="std")


@rule(KERNELS, "slice")
def _(do, self, dim, start, end, step):
    return call("slice.Tensor", self, dim, start, end, *trimmed((step,), (1,)))


def _without_dim(name):
    def rule(do, self, dim=None, keepdim=False, dtype=None):
        if dim is not None or keepdim:
            return NotImplemented
        return call(f"{name}.default", self, **({} if dtype is None else {"dtype": dtype}))

    return rule


KERNELS.update({f"{name}.dims": _without_dim(name) for name in ("all", "any")})
KERNELS["mean.dim"] = _without_dim("mean")


@rule(KERNELS, "argsort.default")
def _(do, self, dim=-1, descending=False):
    return do("sort.default", self, *trimmed((dim, descending), (-1, False)))[1]


@rule(KERNELS, "argsort.stable")
def _(do, self, *, stable=False, dim=-1, descending=False):
    kwargs = {"stable": stable}
    if dim != -1:
        kwargs["dim"] = dim
    return do("sort.stable", self, **kwargs, **({"descending": True} if descending else {}))[1]


@rule(KERNELS, "_unique")
def _(do, self, return_inverse, return_counts):
    return call("_unique2.default", self, *trimmed((True, return_inverse, return_counts), (True, False, False)))


@rule(KERNELS, "_linalg_pinv")
def _(do, A, atol=None, rtol=None, hermitian=False):
    given = {"atol": atol, "rtol": rtol, "hermitian": hermitian or None}
    return call("linalg_pinv.atol_rtol_tensor", A, **{name: value for name, value in given.items() if value is not None})


def _checked(name, operator):
    """Return an op with results (..., info) whose errors PyTorch raises apart from it."""

    def rule(do, A, *args, check_errors=False, **kwargs):
        if not check_errors:
            return NotImplemented
        results = do(f"{name}.default", A, *args, **kwargs)
        do("_linalg_check_errors.default", results[-1], operator, is_matrix=A.dim() == 2)
        return results

    return rule


@rule(KERNELS, "linalg_inv_ex")
def _(do, A, check_errors=False):
    return _checked("linalg_inv_ex", "linalg.inv")(do, A, check_errors=check_errors)


@rule(KERNELS, "linalg_cholesky_ex")
def _(do, A, *, upper=False, check_errors=False):
    more = {"upper": True} if upper else {}
    return _checked("linalg_cholesky_ex", "linalg.cholesky")(do, A, check_errors=check_errors, **more)


@rule(KERNELS, "isfinite")
def _(do, self):
    if not (self.is_floating_point() or self.is_complex()):
        return do("ones_like.default", self, dtype=facula.bool, memory_format=facula.preserve_format)
    finite = do("ne.Scalar", do("abs.default", self), math.inf)
    return do("mul.Tensor", do("eq.Tensor", self, self), finite)


@rule(KERNELS, "isreal")
def _(do, self):
    if self.is_complex():
        return NotImplemented
    return do("ones_like.default", self, dtype=facula.bool, memory_format=facula.preserve_format)


@rule(KERNELS, "linear")
def _(do, input, weight, bias=None):
    if weight.dim() != 2 or input.dim() == 0:
        return NotImplemented
    if input.dim() == 2 and bias is not None:
        return do("addmm.default", bias, input, do("t.default", weight))
    if bias is not None and input.dim() == 3 and input.is_contiguous():
        rows = do("view.default", input, [input.shape[0] * input.shape[1], input.shape[2]])
        made = do("addmm.default", bias, rows, do("t.default", weight))
        return do("view.default", made, [*input.shape[:2], weight.shape[0]])
    made = matmul(do, input, do("t.default", weight))
    return made if bias is None else do("add.Tensor", made, bias)


@rule(KERNELS, "convolution")
def _(do, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    spatial = weight.dim() - 2
    lists = [list(v) * spatial if len(v) == 1 else list(v) for v in (stride, padding, dilation, output_padding)]
    return call("convolution.default", input, weight, bias, *lists[:3], transposed, lists[3], groups)


@rule(KERNELS, "constant_pad_nd")
def _(do, self, pad, value=0):
    return call("constant_pad_nd.default", self, list(pad), value)


@rule(KERNELS, "resample")
def _(do, self, size, mode, align_corners, scales, antialias):
    spatial = len(size)
    linear = ("linear", "bilinear", "trilinear")[spatial - 1]
    name = {"nearest": "nearest", "nearest_exact": "_nearest_exact", "linear": linear, "cubic": "bicubic"}.get(mode)
    if name is None or antialias:
        return NotImplemented
    aligned = () if mode.startswith("nearest") else (align_corners,)
    given = [None if not scale else scale for scale in scales]
    name = f"upsample_{name}{spatial}d.default" if not name.startswith("_") else f"_upsample{name}{spatial}d.default"
    return call(name, self, list(size), *aligned, *trimmed(given, [None] * spatial))


@rule(KERNELS, "_pad_edges")
def _(do, self, pad, mode):
    if mode == "circular":
        return NotImplemented
    name = {"reflect": "reflection", "replicate": "replication"}[mode]
    return call(f"{name}_pad{len(pad) // 2}d.default", self, list(pad))


@rule(KERNELS, "grid_sampler")
def _(do, input, grid, interpolation_mode, padding_mode, align_corners):
    name = f"grid_sampler_{input.dim() - 2}d.default"
    return call(name, input, grid, interpolation_mode, padding_mode, align_corners)


_ADAPTIVE = {2: "_adaptive_avg_pool2d.default", 3: "_adaptive_avg_pool3d.default"}


@rule(KERNELS, "adaptive_avg_pool")
def _(do, self, output_size):
    spatial = len(output_size)
    if all(size == 1 for size in output_size) and spatial > 1:
        return do("mean.dim", self, [-1 - i for i in range(spatial)], True)
    if spatial == 1:
        made = do("_adaptive_avg_pool2d.default", do("unsqueeze.default", self, -2), [1, *output_size])
        return do("squeeze.dim", made, -2)
    return call(_ADAPTIVE[spatial], self, list(output_size))


def _windows(kernel_size, stride, padding, *flags):
    """Return the arguments of a pool, without defaults at the end; no stride stands for that of the window."""
    defaults = ([], [0] * len(padding), *_OFF[: len(flags)])
    return [list(kernel_size), *trimmed((list(stride), list(padding), *flags), defaults)]


_OFF = (False, True, None)


@rule(KERNELS, "avg_pool")
def _(do, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    if len(kernel_size) == 1:
        more = [[1, *stride]] if stride else [[1, *kernel_size]]
        made = do("avg_pool2d.default", do("unsqueeze.default", self, -2), [1, *kernel_size], *more)
        return do("squeeze.dim", made, -2) if not any(padding) and not ceil_mode else NotImplemented
    windows = _windows(kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return call(f"avg_pool{len(kernel_size)}d.default", self, *windows)


@rule(KERNELS, "max_pool", "max_pool_values")
def _max_pool(do, self, kernel_size, stride, padding, dilation, ceil_mode, _values=False):
    if len(kernel_size) == 1:
        return NotImplemented
    given = (list(stride), list(padding), list(dilation), ceil_mode)
    windows = [list(kernel_size), *trimmed(given, ([], [0] * len(padding), [1] * len(dilation), False))]
    results = do(f"max_pool{len(kernel_size)}d_with_indices.default", self, *windows)
    return results[0] if _values else results


KERNELS["max_pool_values"] = functools.partial(_max_pool, _values=True)


@rule(KERNELS, "_channel_norm")
def _(do, input, weight, bias, running_mean, running_var, training, momentum, eps):
    results = do("native_batch_norm.default", input, weight, bias, running_mean, running_var, training, momentum, eps)
    return results


_NORMS = {0: lambda n: 1.0, 1: lambda n: 1 / math.sqrt(n), 2: lambda n: 1 / n}


def _normalization(scale, count):
    """Return how PyTorch names a factor: 0 for none, 1 for the root of the count, 2 for the count; None for others."""
    return next((number for number, factor in _NORMS.items() if math.isclose(factor(count), scale, rel_tol=1e-12)), None)


def _count(self, dim):
    return math.prod(self.shape[d] for d in dim)


@rule(KERNELS, "_fft_c2c")
def _(do, self, dim, scale, forward):
    number = _normalization(scale, _count(self, dim))
    return NotImplemented if number is None else call("_fft_c2c.default", self, list(dim), number, forward)


@rule(KERNELS, "_fft_r2c")
def _(do, self, dim, scale):
    number = _normalization(scale, _count(self, dim))
    return NotImplemented if number is None else call("_fft_r2c.default", self, list(dim), number, True)


@rule(KERNELS, "_fft_real")
def _(do, self, dim, scale, forward):
    number = _normalization(scale, _count(self, dim))
    if number is None:
        return NotImplemented
    if len(dim) == 1 and forward:
        return call("_fft_r2c.default", self, list(dim), number, False)
    complex_dtype = facula.complex128 if self.dtype == facula.float64 else facula.complex64
    return call("_fft_c2c.default", do("_to_copy.default", self, dtype=complex_dtype), list(dim), number, forward)


@rule(KERNELS, "_fft_c2r")
def _(do, self, dim, scale, last_size):
    number = _normalization(scale, math.prod([*(self.shape[d] for d in dim[:-1]), last_size]))
    return NotImplemented if number is None else call("_fft_c2r.default", self, list(dim), number, last_size)


def _turned(name):
    """Return an operator with a number in front: Python asks the tensor's class for the one that is turned round."""

    def rule(do, self, other, alpha=1):
        return call(f"{name}.Tensor", other, self) if not isinstance(self, Tensor) and alpha == 1 else NotImplemented

    return rule


KERNELS["add.default"], KERNELS["mul.default"] = _turned("add"), _turned("mul")


@rule(KERNELS, "count_nonzero")
def _(do, self, dim=None):
    return call("count_nonzero.default", self) if dim is None else NotImplemented


@rule(KERNELS, "div.default")
def _(do, self, other):
    if isinstance(self, Tensor):
        return NotImplemented
    return do("mul.Tensor", do("reciprocal.default", other), self)


@rule(KERNELS, "sub.default")
def _(do, self, other, alpha=1):
    if isinstance(self, Tensor):
        return NotImplemented
    return call("rsub.Scalar", other, self, **({} if alpha == 1 else {"alpha": alpha}))


@rule(KERNELS, "fill_diagonal_")
def _(do, self, fill_value, wrap=False):
    if wrap or self.dim() != 2 or self.shape[0] != self.shape[1]:
        return NotImplemented
    diagonal = do("as_strided.default", self, [self.shape[0]], [sum(self.stride())], self.storage_offset())
    do("fill_.Scalar", diagonal, fill_value)
    return self


def matmul(do, a, b):
    """Return a product as PyTorch folds it."""
    if a.dim() <= 2 and b.dim() <= 2 and a.dim() and b.dim():
        if a.dim() == 1 and b.dim() == 2:
            return do("squeeze_.dim", do("mm.default", do("unsqueeze.default", a, 0), b), 0)
        return do({(1, 1): "dot.default", (2, 1): "mv.default", (2, 2): "mm.default"}[a.dim(), b.dim()], a, b)
    if a.dim() >= 3 and b.dim() in (1, 2):
        sizes = list(a.shape)
        flat = [math.prod(sizes[:-1]), sizes[-1]]
        rows = do("view.default", a, flat) if a.is_contiguous() else _flat(do, a, flat)
        if b.dim() == 1:
            return do("_unsafe_view.default", do("mv.default", rows, b), sizes[:-1])
        return do("_unsafe_view.default", do("mm.default", rows, b), [*sizes[:-1], b.shape[1]])
    if a.dim() < 3 or b.dim() < 3:
        return NotImplemented
    batch = list(facula.broadcast_shapes(a.shape[:-2], b.shape[:-2]))
    count, made = math.prod(batch), []
    for t in (a, b):
        t = do("expand.default", t, [*batch, *t.shape[-2:]])
        sizes = [count, *t.shape[-2:]]
        made.append(do("view.default", t, sizes) if _viewable(t, sizes) else _flat(do, t, sizes))
    return do("_unsafe_view.default", do("bmm.default", *made), [*batch, a.shape[-2], b.shape[-1]])


def _viewable(t, sizes):
    return t.dim() == 3 or t.is_contiguous()


def _flat(do, t, sizes):
    return do("_unsafe_view.default", do("clone.default", t, memory_format=facula.contiguous_format), sizes)
