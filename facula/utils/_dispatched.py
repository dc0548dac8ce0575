"""Translate a call of an op to the operator of PyTorch that `__torch_dispatch__` receives, and to its arguments.

The key `aten` of the schema names most (`written`). Facula divides its work into kernels in another way than PyTorch, so there
are three more tables, by the names of the schema: `KERNELS` (_dispatched_kernels.py), where a kernel of ours is another
operator to PyTorch, or several; `WHOLE`, composites of ours that are one operator there; and `PARTS`
(_dispatched_parts.py), those that PyTorch makes of other operators than we do. The last two hold where nothing is recorded
for derivatives; else the ops that a composite is made of are seen.

A rule takes the arguments of our op and gives a Call, or calls operators one by one (`do`) and gives what they give.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, NamedTuple

import facula
from facula import _C

if TYPE_CHECKING:
    from typing import Any

Tensor = _C.Tensor


class Call(NamedTuple):
    """Represent a call of an operator of `torch.ops`."""

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
    """Return a Call of an operator of PyTorch's."""
    return Call(name, args, kwargs)


@functools.cache
def row(name, overload, form):
    """Return what the table knows of an op, or None."""
    written = f"{name}_" if form == "inplace" and not re.search(r"[a-z0-9]_$", name) else name
    try:
        return _C._boxed_op(f"{written}.{overload or 'default'}{'.out' if form == 'out' else ''}")
    except AttributeError:
        return None


#: Overloads whose names do not follow from that of the function, or that PyTorch's Python functions do not call.
_OTHER_NAMES = {
    "sum.dim_IntList_out": "sum.IntList_out", "mean.dim_out": "mean.out", "pow_.Tensor_Scalar": "pow_.Scalar",
    "pow_.Tensor_Tensor": "pow_.Tensor", "floor_divide_.Scalar": "floor_divide_.Tensor",
    "floor_divide_.default": "floor_divide_.Tensor", "floor_divide.Scalar": "floor_divide.default",
    "transpose_.int": "transpose_.default",
}  # fmt: skip
_FACTORIES = frozenset(
    """
    arange empty empty_strided eye full linspace logspace ones rand randint randn randperm scalar_tensor tril_indices
    triu_indices zeros
    """.split()
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
    """Return (args, kwargs) as PyTorch writes them: defaults at the end and among keywords are left out."""
    args, kwargs, kept = [], dict(more), 0
    for (name, kind, keyword, required, _, default), value in zip(parameters, values):
        given = required or not _is_default(value, default, kind)
        if not keyword:
            args.append(value)
            kept = len(args) if given else kept
        elif given:
            kwargs[name] = value
    return tuple(args[:kept]), kwargs


def written(name, overload, form, values, outs=(), own=False):
    """Return the Call for one of ours: its operator by the schema.

    It is of the namespace `facula` where PyTorch has none, or with `own`.
    """
    found = row(name, overload, form) or row(name, overload, "function")
    if found is None:
        return Call(f"facula::{name}.{overload or 'default'}", tuple(values), {})
    plain = row(name, overload, "function") or found
    parameters = plain["arguments"] if form == "out" else found["arguments"]
    pattern = "".join(
        "T" if isinstance(value, Tensor) else "S" for value, (_, kind, *_) in zip(values, parameters) if kind == "Operand"
    )
    aten = next((one.rpartition(":")[2] for one in found["aten"].split() if one.partition(":")[0] in (pattern, one)), "")
    aten = "" if own else _OTHER_NAMES.get(aten, aten)
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


# ---- rules

KERNELS: dict[str, Any] = {}
PARTS: dict[str, Any] = {}


def rule(table, *names):
    """Note a rule in a table under names of the schema."""

    def note(function):
        for name in names:
            table[name] = function
        return function

    return note


def pattern(*operands):
    """Return which operands are tensors and which numbers: "TS"."""
    return "".join("T" if isinstance(value, Tensor) else "S" for value in operands)


def trimmed(values, defaults):
    """Return the values up to the last that is no default."""
    values = list(values)
    while values and values[-1] == defaults[len(values) - 1] and type(values[-1]) is type(defaults[len(values) - 1]):
        values.pop()
    return values


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
    _softmax _to_copy _unique2 _unsafe_view alias index log_sigmoid_forward nll_loss_forward scalar_tensor slice
    unique_consecutive
    """.split()
)
