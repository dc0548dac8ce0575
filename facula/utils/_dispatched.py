"""By which of PyTorch's operators `__torch_dispatch__` knows a call, and with which arguments.

The key `aten` of the schema names most (`written`). Facula divides its work into kernels in another way than PyTorch, so there are
three more tables, by the names of the schema: `KERNELS`, where a kernel of ours is another operator, or several, to PyTorch;
`WHOLE`, composites of ours that are one operator there, and `PARTS`, those that PyTorch makes of other operators than we do. The
last two hold where nothing is recorded for derivatives; else the ops that a composite is made of are seen.

A rule takes the arguments of our op by name and gives a Call, or calls operators one by one (`do`) and gives what they give.
"""

from __future__ import annotations

import functools
import math
import re
from typing import TYPE_CHECKING, NamedTuple

import facula
from facula import _C

if TYPE_CHECKING:
    from typing import Any

Tensor = _C.Tensor


class Call(NamedTuple):
    """A call of an operator of `torch.ops`."""

    name: str  # "add.Tensor", or "facula::resample.default" where PyTorch has no such operator
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    @property
    def function(self):
        """The overload."""
        space, _, name = self.name.rpartition("::")
        packet, _, overload = name.partition(".")
        return getattr(getattr(getattr(facula.ops, space or "aten"), packet), overload)


def call(name, *args, **kwargs):
    """A Call of an operator of PyTorch's."""
    return Call(name, args, kwargs)


@functools.cache
def row(name, overload, form):
    """What the table knows of an op, or None."""
    written = f"{name}_" if form == "inplace" and not re.search(r"[a-z0-9]_$", name) else name
    try:
        return _C._boxed_op(f"{written}.{overload or 'default'}{'.out' if form == 'out' else ''}")
    except AttributeError:
        return None


#: Overloads whose names do not follow from that of the function, or that PyTorch's Python functions do not call.
_OTHER_NAMES = {
    "sum.dim_IntList_out": "sum.IntList_out", "mean.dim_out": "mean.out", "pow_.Tensor_Scalar": "pow_.Scalar",
    "pow_.Tensor_Tensor": "pow_.Tensor", "floor_divide_.Scalar": "floor_divide_.Tensor", "floor_divide_.default": "floor_divide_.Tensor",
    "floor_divide.Scalar": "floor_divide.default",
}  # fmt: skip
_FACTORIES = frozenset(
    "empty zeros ones full rand randn randint arange linspace logspace eye empty_strided randperm tril_indices triu_indices scalar_tensor".split()
)


def _is_default(value, default, kind):
    if isinstance(value, (list, tuple)) and isinstance(default, int) and not isinstance(default, bool):
        return bool(value) and all(v == default for v in value)
    if isinstance(value, (list, tuple)) and isinstance(default, (list, tuple)):
        return list(value) == list(default)
    if isinstance(default, (int, float)) and isinstance(value, (int, float)) and not isinstance(default, bool):
        return value == default and type(value) is not bool
    return value is default or (type(value) is type(default) and isinstance(value, (str, bool)) and value == default)


def _arguments(parameters, values, more=()):
    """(args, kwargs) as PyTorch writes them: defaults at the end and among keywords are left out."""
    args, kwargs, kept = [], dict(more), 0
    for (name, kind, keyword, required, _, default), value in zip(parameters, values):
        given = required or not _is_default(value, default, kind)
        if not keyword:
            args.append(value)
            kept = len(args) if given else kept
        elif given:
            kwargs[name] = value
    return tuple(args[:kept]), kwargs


def written(name, overload, form, values, outs=()):
    """The Call for one of ours, by the schema: its operator, or one of the namespace `facula` where PyTorch has none."""
    found = row(name, overload, form) or row(name, overload, "function")
    if found is None:
        return Call(f"facula::{name}.{overload or 'default'}", tuple(values), {})
    plain = row(name, overload, "function") or found
    parameters = plain["arguments"] if form == "out" else found["arguments"]
    pattern = "".join(
        "T" if isinstance(value, Tensor) else "S" for value, (_, kind, *_) in zip(values, parameters) if kind == "Operand"
    )
    aten = next((one.rpartition(":")[2] for one in found["aten"].split() if one.partition(":")[0] in (pattern, one)), "")
    aten = _OTHER_NAMES.get(aten, aten)
    more = {}
    if form == "out":
        more = {"out": outs[0] if len(outs) == 1 else tuple(outs)}
    args, kwargs = _arguments(parameters, values, more)
    base = aten.partition(".")[0]
    if base in _FACTORIES and form != "out":
        kwargs.setdefault("device", facula.get_default_device())
    if (base in _FACTORIES or base.startswith("new_") or base.endswith("_like")) and form != "out":
        kwargs.setdefault("pin_memory", False)
    return Call(aten or f"facula::{found['key']}", args, kwargs)


# ---- kernels that are something else to PyTorch

KERNELS: dict[str, Any] = {}


def _rule(table, *names):
    def note(function):
        for name in names:
            table[name] = function
        return function

    return note


def _pattern(*operands):
    return "".join("T" if isinstance(value, Tensor) else "S" for value in operands)


def _binary(base, **overloads):
    return lambda do, self, other: call(f"{base}.{overloads[_pattern(self, other)]}", self, other)


KERNELS["_remainder"] = _binary("remainder", TT="Tensor", TS="Scalar", ST="Scalar_Tensor")
KERNELS["_fmod"] = _binary("fmod", TT="Tensor", TS="Scalar", ST="Tensor")
KERNELS["_div_floor"] = _binary("floor_divide", TT="default", TS="default", ST="default")
KERNELS["_pow"] = lambda do, self, exponent: call(
    f"pow.{dict(TT='Tensor_Tensor', TS='Tensor_Scalar', ST='Scalar')[_pattern(self, exponent)]}", self, exponent
)
KERNELS["_div_trunc"] = lambda do, self, other: call("div.Tensor_mode", self, other, rounding_mode="trunc")
KERNELS["_square"] = lambda do, self: call("pow.Tensor_Scalar", self, 2)
KERNELS["_cube"] = lambda do, self: call("pow.Tensor_Scalar", self, 3)
KERNELS["_nextafter"] = lambda do, self, other, *_: call("nextafter.default", self, other)
KERNELS["_complex"] = lambda do, real, imag: call("complex.default", real, imag)
KERNELS["_logit"] = lambda do, self, eps=None: call("logit.default", *((self,) if eps is None or eps < 0 else (self, eps)))
KERNELS["_threshold"] = lambda do, self, threshold, value: call("threshold.default", self, threshold, value)
KERNELS["_trigamma"] = lambda do, self: call("polygamma.default", 1, self)
KERNELS["_gelu_erf"] = lambda do, self: call("gelu.default", self)
KERNELS["_gelu_tanh"] = lambda do, self: call("gelu.default", self, approximate="tanh")
KERNELS["to_dtype"] = lambda do, self, dtype: call("_to_copy.default", self, dtype=dtype)
KERNELS["conj"] = lambda do, self: call("_conj.default", self)
KERNELS["_softmax"] = lambda do, self, dim: call("_softmax.default", self, dim, False)
KERNELS["_log_softmax"] = lambda do, self, dim: call("_log_softmax.default", self, dim, False)
KERNELS["_cross"] = lambda do, self, other, dim: call("linalg_cross.default", self, other, **({} if dim == -1 else {"dim": dim}))
KERNELS["_linalg_qr"] = lambda do, A, mode: call("linalg_qr.default", *((A,) if mode == "reduced" else (A, mode)))
KERNELS["_unique_consecutive"] = lambda do, self, return_inverse, return_counts: call(
    "unique_consecutive.default", self, *_trimmed((return_inverse, return_counts), (False, False))
)
KERNELS["linalg_det"] = lambda do, A: do("_linalg_det.default", A)[0]
KERNELS["linalg_slogdet"] = lambda do, A: do("_linalg_slogdet.default", A)[:2]
KERNELS["log_sigmoid"] = KERNELS["logsigmoid"] = lambda do, self: do("log_sigmoid_forward.default", self)[0]


def _trimmed(values, defaults):
    """The values up to the last that is no default."""
    values = list(values)
    while values and values[-1] == defaults[len(values) - 1] and type(values[-1]) is type(defaults[len(values) - 1]):
        values.pop()
    return values


@_rule(KERNELS, "_round_scaled")
def _(do, self, scale, inverse=1.0):
    decimals = round(math.log10(scale / inverse))
    return call("round.decimals", self, decimals=decimals)


@_rule(KERNELS, "_nan_to_num")
def _(do, self, nan, posinf, neginf):
    limit = facula.finfo(self.dtype)
    given = [nan if nan != 0 else None, None if posinf == limit.max else posinf, None if neginf == limit.min else neginf]
    return call("nan_to_num.default", self, *_trimmed(given, (None, None, None)))


@_rule(KERNELS, "_clamp")
def _(do, self, min, max):
    if isinstance(min, Tensor) or isinstance(max, Tensor):
        return call("clamp.Tensor", self, *(_as_tensor(do, value, self.dtype) for value in (min, max)))
    return call("clamp.default", self, min, max)


def _as_tensor(do, value, dtype):
    return value if isinstance(value, Tensor) else do("scalar_tensor.default", value, dtype=dtype, layout=facula.strided, device=facula.device("cpu"))


@_rule(KERNELS, "_where")
def _(do, condition, self, other):
    dtype = next((v.dtype for v in (self, other) if isinstance(v, Tensor)), None) or facula.get_default_dtype()
    return call("where.self", condition, *(_as_tensor(do, value, dtype) for value in (self, other)))


@_rule(KERNELS, "_var", "_std")
def _var(do, self, dim, correction, keepdim, _name="var"):
    kwargs = {} if dim is None and correction == 1 else {"correction": int(correction) if correction == int(correction) else correction}
    if keepdim:
        kwargs["keepdim"] = True
    return call(f"{_name}.correction", *((self,) if dim is None else (self, dim)), **kwargs)


KERNELS["_std"] = functools.partial(_var, _name="std")


@_rule(KERNELS, "slice")
def _(do, self, dim, start, end, step):
    return call("slice.Tensor", self, dim, start, end, *_trimmed((step,), (1,)))


def _without_dim(name):
    def rule(do, self, dim=None, keepdim=False, dtype=None):
        if dim is not None or keepdim:
            return NotImplemented
        return call(f"{name}.default", self, **({} if dtype is None else {"dtype": dtype}))

    return rule


KERNELS.update({f"{name}.dims": _without_dim(name) for name in ("all", "any")})
KERNELS["mean.dim"] = _without_dim("mean")


@_rule(KERNELS, "argsort.default")
def _(do, self, dim=-1, descending=False):
    return do("sort.default", self, *_trimmed((dim, descending), (-1, False)))[1]


@_rule(KERNELS, "argsort.stable")
def _(do, self, *, stable=False, dim=-1, descending=False):
    kwargs = {"stable": stable}
    if dim != -1:
        kwargs["dim"] = dim
    return do("sort.stable", self, **kwargs, **({"descending": True} if descending else {}))[1]


@_rule(KERNELS, "_unique")
def _(do, self, return_inverse, return_counts):
    return call("_unique2.default", self, *_trimmed((True, return_inverse, return_counts), (True, False, False)))


@_rule(KERNELS, "_linalg_pinv")
def _(do, A, atol=None, rtol=None, hermitian=False):
    given = {"atol": atol, "rtol": rtol, "hermitian": hermitian or None}
    return call("linalg_pinv.atol_rtol_tensor", A, **{name: value for name, value in given.items() if value is not None})


def _checked(name, operator):
    """An op with results (..., info) whose errors PyTorch raises apart from it."""

    def rule(do, A, *args, check_errors=False, **kwargs):
        if not check_errors:
            return NotImplemented
        results = do(f"{name}.default", A, *args, **kwargs)
        do("_linalg_check_errors.default", results[-1], operator, is_matrix=A.dim() == 2)
        return results

    return rule


@_rule(KERNELS, "linalg_inv_ex")
def _(do, A, check_errors=False):
    return _checked("linalg_inv_ex", "linalg.inv")(do, A, check_errors=check_errors)


@_rule(KERNELS, "linalg_cholesky_ex")
def _(do, A, *, upper=False, check_errors=False):
    return _checked("linalg_cholesky_ex", "linalg.cholesky")(do, A, check_errors=check_errors, **({"upper": True} if upper else {}))


@_rule(KERNELS, "isfinite")
def _(do, self):
    if not (self.is_floating_point() or self.is_complex()):
        return do("ones_like.default", self, dtype=facula.bool, memory_format=facula.preserve_format)
    finite = do("ne.Scalar", do("abs.default", self), math.inf)
    return do("mul.Tensor", do("eq.Tensor", self, self), finite)


@_rule(KERNELS, "isreal")
def _(do, self):
    if self.is_complex():
        return NotImplemented
    return do("ones_like.default", self, dtype=facula.bool, memory_format=facula.preserve_format)


@_rule(KERNELS, "linear")
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


@_rule(KERNELS, "convolution")
def _(do, input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    spatial = weight.dim() - 2
    lists = [list(v) * spatial if len(v) == 1 else list(v) for v in (stride, padding, dilation, output_padding)]
    return call("convolution.default", input, weight, bias, *lists[:3], transposed, lists[3], groups)


@_rule(KERNELS, "constant_pad_nd")
def _(do, self, pad, value=0):
    return call("constant_pad_nd.default", self, list(pad), value)


@_rule(KERNELS, "resample")
def _(do, self, size, mode, align_corners, scales, antialias):
    spatial = len(size)
    name = {"nearest": "nearest", "nearest_exact": "_nearest_exact", "linear": ("linear", "bilinear", "trilinear")[spatial - 1], "cubic": "bicubic"}.get(mode)
    if name is None or antialias:
        return NotImplemented
    aligned = () if mode.startswith("nearest") else (align_corners,)
    given = [None if not scale else scale for scale in scales]
    name = f"upsample_{name}{spatial}d.default" if not name.startswith("_") else f"_upsample{name}{spatial}d.default"
    return call(name, self, list(size), *aligned, *_trimmed(given, [None] * spatial))


@_rule(KERNELS, "_pad_edges")
def _(do, self, pad, mode):
    if mode == "circular":
        return NotImplemented
    return call(f"{dict(reflect='reflection', replicate='replication')[mode]}_pad{len(pad) // 2}d.default", self, list(pad))


@_rule(KERNELS, "grid_sampler")
def _(do, input, grid, interpolation_mode, padding_mode, align_corners):
    name = f"grid_sampler_{input.dim() - 2}d.default"
    return call(name, input, grid, interpolation_mode, padding_mode, align_corners)


_ADAPTIVE = {2: "_adaptive_avg_pool2d.default", 3: "_adaptive_avg_pool3d.default"}


@_rule(KERNELS, "adaptive_avg_pool")
def _(do, self, output_size):
    spatial = len(output_size)
    if all(size == 1 for size in output_size) and spatial > 1:
        return do("mean.dim", self, [-1 - i for i in range(spatial)], True)
    if spatial == 1:
        made = do("_adaptive_avg_pool2d.default", do("unsqueeze.default", self, -2), [1, *output_size])
        return do("squeeze.dim", made, -2)
    return call(_ADAPTIVE[spatial], self, list(output_size))


def _windows(kernel_size, stride, padding, *flags):
    """Arguments of a pool with their defaults left out at the end; (no stride: that of the window)."""
    return [list(kernel_size), *_trimmed((list(stride), list(padding), *flags), ([], [0] * len(padding), *_OFF[: len(flags)]))]


_OFF = (False, True, None)


@_rule(KERNELS, "avg_pool")
def _(do, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    if len(kernel_size) == 1:
        more = [[1, *stride]] if stride else [[1, *kernel_size]]
        made = do("avg_pool2d.default", do("unsqueeze.default", self, -2), [1, *kernel_size], *more)
        return do("squeeze.dim", made, -2) if not any(padding) and not ceil_mode else NotImplemented
    windows = _windows(kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)
    return call(f"avg_pool{len(kernel_size)}d.default", self, *windows)


@_rule(KERNELS, "max_pool", "max_pool_values")
def _max_pool(do, self, kernel_size, stride, padding, dilation, ceil_mode, _values=False):
    if len(kernel_size) == 1:
        return NotImplemented
    given = (list(stride), list(padding), list(dilation), ceil_mode)
    windows = [list(kernel_size), *_trimmed(given, ([], [0] * len(padding), [1] * len(dilation), False))]
    results = do(f"max_pool{len(kernel_size)}d_with_indices.default", self, *windows)
    return results[0] if _values else results


KERNELS["max_pool_values"] = functools.partial(_max_pool, _values=True)


@_rule(KERNELS, "_channel_norm")
def _(do, input, weight, bias, running_mean, running_var, training, momentum, eps):
    results = do("native_batch_norm.default", input, weight, bias, running_mean, running_var, training, momentum, eps)
    return results


_NORMS = {0: lambda n: 1.0, 1: lambda n: 1 / math.sqrt(n), 2: lambda n: 1 / n}


def _normalization(scale, count):
    """How PyTorch names a factor: 0 for none, 1 for the root of the count, 2 for the count; None for others."""
    return next((number for number, factor in _NORMS.items() if math.isclose(factor(count), scale, rel_tol=1e-12)), None)


def _count(self, dim):
    return math.prod(self.shape[d] for d in dim)


@_rule(KERNELS, "_fft_c2c")
def _(do, self, dim, scale, forward):
    number = _normalization(scale, _count(self, dim))
    return NotImplemented if number is None else call("_fft_c2c.default", self, list(dim), number, forward)


@_rule(KERNELS, "_fft_r2c")
def _(do, self, dim, scale):
    number = _normalization(scale, _count(self, dim))
    return NotImplemented if number is None else call("_fft_r2c.default", self, list(dim), number, True)


@_rule(KERNELS, "_fft_real")
def _(do, self, dim, scale, forward):
    number = _normalization(scale, _count(self, dim))
    if number is None:
        return NotImplemented
    if len(dim) == 1 and forward:
        return call("_fft_r2c.default", self, list(dim), number, False)
    complex_dtype = facula.complex128 if self.dtype == facula.float64 else facula.complex64
    return call("_fft_c2c.default", do("_to_copy.default", self, dtype=complex_dtype), list(dim), number, forward)


@_rule(KERNELS, "_fft_c2r")
def _(do, self, dim, scale, last_size):
    number = _normalization(scale, math.prod([*(self.shape[d] for d in dim[:-1]), last_size]))
    return NotImplemented if number is None else call("_fft_c2r.default", self, list(dim), number, last_size)


def _turned(name):
    """An operator with a number in front: Python asks the tensor's class for the one that is turned round."""

    def rule(do, self, other, alpha=1):
        return call(f"{name}.Tensor", other, self) if not isinstance(self, Tensor) and alpha == 1 else NotImplemented

    return rule


KERNELS["add.default"], KERNELS["mul.default"] = _turned("add"), _turned("mul")


@_rule(KERNELS, "count_nonzero")
def _(do, self, dim=None):
    return call("count_nonzero.default", self) if dim is None else NotImplemented


@_rule(KERNELS, "div.default")
def _(do, self, other):
    if isinstance(self, Tensor):
        return NotImplemented
    return do("mul.Tensor", do("reciprocal.default", other), self)


@_rule(KERNELS, "sub.default")
def _(do, self, other, alpha=1):
    if isinstance(self, Tensor):
        return NotImplemented
    return call("rsub.Scalar", other, self, **({} if alpha == 1 else {"alpha": alpha}))


@_rule(KERNELS, "fill_diagonal_")
def _(do, self, fill_value, wrap=False):
    return NotImplemented if wrap or self.dim() != 2 or self.shape[0] != self.shape[1] else _fill_diagonal(do, self, fill_value)


def _fill_diagonal(do, self, value):
    size, steps = self.shape[0], self.stride()
    do("fill_.Scalar", do("as_strided.default", self, [size], [sum(steps)], self.storage_offset()), value)
    return self


# ---- composites that are one operator to PyTorch

WHOLE = frozenset(
    """
    logit celu gelu glu conv_tbc block_diag fill_ copy_ complex polar round pow ldexp frexp div floor_divide remainder fmod
    nextafter clamp nan_to_num where.default histogram cholesky linalg_lu lu_unpack linalg_lu_solve triangular_solve linalg_qr
    linalg_householder_product ormqr linalg_pinv.tensor mse_loss smooth_l1_loss huber_loss binary_cross_entropy
    binary_cross_entropy_with_logits soft_margin_loss addbmm addr vdot linalg_cross native_layer_norm native_group_norm
    native_batch_norm max_pool2d_with_indices max_pool3d_with_indices avg_pool2d avg_pool3d adaptive_max_pool2d
    adaptive_max_pool3d fractional_max_pool2d fractional_max_pool3d native_dropout aminmax var std var_mean std_mean dist renorm
    median nanmedian equal allclose isin trace grid_sampler_2d grid_sampler_3d unbind select_scatter slice_scatter
    diagonal_scatter pixel_shuffle pixel_unshuffle channel_shuffle polygamma mvlgamma split split_with_sizes unsafe_split
    unsafe_split_with_sizes rot90 repeat_interleave.Tensor alias_copy as_strided_copy detach_copy diagonal_copy expand_copy
    narrow_copy permute_copy select_copy slice_copy squeeze_copy t_copy transpose_copy unfold_copy unsqueeze_copy view_copy
    view_as_complex_copy view_as_real_copy split_copy split_with_sizes_copy unbind_copy _foreach
    """.split()
)

#: Operators of PyTorch's that no op of the schema is: seen as what they are where a program calls them by these names.
OPERATORS = frozenset(
    """
    _conj _ctc_loss _fft_c2c _fft_c2r _fft_r2c _linalg_check_errors _linalg_det _linalg_slogdet _local_scalar_dense _log_softmax
    _softmax _to_copy _unique2 _unsafe_view alias index log_sigmoid_forward nll_loss_forward scalar_tensor slice unique_consecutive
    """.split()
)

# ---- composites that PyTorch makes of other operators

PARTS: dict[str, Any] = {}


def matmul(do, a, b):
    """A product as PyTorch folds it."""
    if a.dim() <= 2 and b.dim() <= 2 and a.dim() and b.dim():
        if a.dim() == 1 and b.dim() == 2:
            return do("squeeze_.dim", do("mm.default", do("unsqueeze.default", a, 0), b), 0)
        return do({(1, 1): "dot.default", (2, 1): "mv.default", (2, 2): "mm.default"}[a.dim(), b.dim()], a, b)
    if a.dim() >= 3 and b.dim() in (1, 2):
        sizes = list(a.shape)
        rows = do("view.default", a, [math.prod(sizes[:-1]), sizes[-1]]) if a.is_contiguous() else _flat(do, a, [math.prod(sizes[:-1]), sizes[-1]])
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


PARTS["matmul"] = lambda do, self, other: matmul(do, self, other)


@_rule(PARTS, "reshape")
def _(do, self, shape):
    made = facula.empty(self.shape, device="meta").reshape(shape) if -1 in shape else None
    sizes = list(shape if made is None else made.shape)
    if math.prod(sizes) != self.numel():
        return NotImplemented
    if self.is_contiguous():
        return do("view.default", self, sizes)
    strided = facula.empty_strided(self.shape, self.stride(), device="meta")
    try:
        strided.view(sizes)
    except RuntimeError:
        return _flat(do, self, sizes)
    return do("view.default", self, sizes)


def _float_input(do, self, dtype):
    if dtype is None or dtype == self.dtype:
        return self
    return do("_to_copy.default", self, dtype=dtype, layout=facula.strided, device=self.device)


@_rule(PARTS, "where.default")
def _(do, condition, self, other):
    return KERNELS["_where"](do, condition, self, other) if _pattern(self, other) in ("TS", "ST") else NotImplemented


def _moments(name):
    """`var` and its relatives: PyTorch's functions say the correction."""

    def rule(do, self, *given):
        dim, unbiased, keepdim = (*given, False) if len(given) < 3 and len(given) != 1 else given if len(given) == 3 else (None, given[0], False)
        kwargs = {"correction": int(unbiased)} if dim is not None or not unbiased else {}
        return do(f"{name}.correction", self, *(() if dim is None else (dim,)), **kwargs, **({"keepdim": True} if keepdim else {}))

    return rule


for _name in ("var", "std", "var_mean", "std_mean"):
    PARTS[f"{_name}.default"] = PARTS[f"{_name}.dim"] = _moments(_name)


@_rule(PARTS, "l1_loss")
def _(do, self, target, reduction=1):
    each = do("abs.default", do("sub.Tensor", self, target))
    return each if reduction == 0 else do("mean.default" if reduction == 1 else "sum.default", each)


@_rule(PARTS, "one_hot")
def _(do, self, num_classes=-1):
    if num_classes == -1:
        num_classes = do("_local_scalar_dense.default", do("max.default", self)) + 1
    classes = facula.arange(num_classes)
    return do("_to_copy.default", do("eq.Tensor", do("unsqueeze.default", self, -1), classes), dtype=facula.int64)


@_rule(PARTS, "repeat_interleave.self_Tensor")
def _(do, self, repeats, dim=None, *, output_size=None):
    if dim is None and self.dim() != 1 or output_size is not None:
        return NotImplemented
    return do("index_select.default", self, dim or 0, do("repeat_interleave.Tensor", repeats))


PARTS["softmax"] = lambda do, self, dim, dtype=None: do("_softmax.default", _float_input(do, self, dtype), dim, False)
PARTS["log_softmax"] = lambda do, self, dim, dtype=None: do("_log_softmax.default", _float_input(do, self, dtype), dim, False)


@_rule(PARTS, "layer_norm")
def _(do, input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return do("native_layer_norm.default", input, list(normalized_shape), weight, bias, eps)[0]


@_rule(PARTS, "group_norm")
def _(do, input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    n, c = input.shape[:2]
    return do("native_group_norm.default", input, weight, bias, n, c, math.prod(input.shape[2:]), num_groups, eps)[0]


@_rule(PARTS, "dropout")
def _(do, input, p=0.5, train=True):
    if not train or p == 0:
        return input
    if not 0 < p < 1:
        return NotImplemented
    kept = do("bernoulli_.float", do("empty_like.default", input), 1 - p)
    return do("mul.Tensor", input, do("div_.Scalar", kept, 1 - p))


@_rule(PARTS, "outer", "ger")
def _(do, self, vec2):
    return do("mul.Tensor", do("view.default", self, [self.shape[0], 1]), vec2) if self.dim() == 1 else NotImplemented


@_rule(PARTS, "nll_loss_nd")
def _(do, self, target, weight=None, reduction=1, ignore_index=-100):
    if self.dim() > 2:
        return NotImplemented
    return do("nll_loss_forward.default", self, target, weight, reduction, ignore_index)[0]


@_rule(PARTS, "cross_entropy_loss")
def _(do, self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    if self.dim() > 2 or label_smoothing or self.shape == target.shape:
        return NotImplemented
    logs = do("_log_softmax.default", self, 1 if self.dim() == 2 else 0, False)
    return do("nll_loss_forward.default", logs, target, weight, reduction, ignore_index)[0]


@_rule(PARTS, "chunk")
def _(do, self, chunks, dim=0):
    size = self.shape[dim]
    return do("split.Tensor", self, -(-size // chunks), *_trimmed((dim,), (0,))) if size and chunks > 0 else NotImplemented


@_rule(PARTS, "split.sizes")
def _(do, self, split_size, dim=0):
    return do("split_with_sizes.default", self, list(split_size), *_trimmed((dim,), (0,)))


@_rule(PARTS, "where.nonzero")
def _(do, condition):
    return do("unbind.int", do("nonzero.default", condition), 1)


PARTS["nonzero_numpy"] = lambda do, self: do("unbind.int", do("nonzero.default", self), 1)


@_rule(PARTS, "diag")
def _(do, self, diagonal=0):
    name = {1: "diag_embed.default", 2: "diagonal_copy.default"}.get(self.dim())
    return do(name, self, *_trimmed((diagonal,), (0,))) if name else NotImplemented


@_rule(PARTS, "diagflat")
def _(do, self, offset=0):
    return do("diag_embed.default", do("view.default", self, [-1]), *_trimmed((offset,), (0,))) if self.is_contiguous() else NotImplemented


def _choose(part):
    def rule(do, self):
        if not self.is_complex():
            return NotImplemented
        return do("select.int", do("view_as_real.default", self), self.dim(), part)

    return rule


PARTS["real"], PARTS["imag"] = _choose(0), _choose(1)
