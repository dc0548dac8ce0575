"""Define of which operators of PyTorch a composite of Facula consists in `__torch_dispatch__`: rules by the names of
the schema (see _dispatched.py).
"""

from __future__ import annotations

import math

import facula
from facula import _C
from facula.utils._dispatched import KERNELS, PARTS, pattern, rule, trimmed
from facula.utils._dispatched_kernels import _flat, matmul

Tensor = _C.Tensor


PARTS["matmul"] = lambda do, self, other: matmul(do, self, other)


def _whole_sizes(self, shape):
    """Return the sizes, with what -1 stands for; None where they do not fit."""
    sizes, count = list(shape), self.numel()
    known = math.prod(size for size in sizes if size != -1)
    if sizes.count(-1) == 1 and known:
        sizes[sizes.index(-1)] = count // known
    return sizes if -1 not in sizes and math.prod(sizes) == count else None


def _is_view(self, sizes):
    """Return whether sizes are a view of the tensor."""
    if self.is_contiguous():
        return True
    _C._change_dispatch_disabled(1)
    try:
        facula.empty_strided(self.shape, self.stride(), device="meta").view(sizes)
    except RuntimeError:
        return False
    finally:
        _C._change_dispatch_disabled(-1)
    return True


@rule(PARTS, "reshape")
def _(do, self, shape):
    sizes = _whole_sizes(self, shape)
    if sizes is None:
        return NotImplemented
    return do("view.default", self, sizes) if _is_view(self, sizes) else _flat(do, self, sizes)


def _float_input(do, self, dtype):
    if dtype is None or dtype == self.dtype:
        return self
    return do("_to_copy.default", self, dtype=dtype, layout=facula.strided, device=self.device)


@rule(PARTS, "where.default")
def _(do, condition, self, other):
    return KERNELS["_where"](do, condition, self, other) if pattern(self, other) in ("TS", "ST") else NotImplemented


def _moments(name):
    """Return the call of `var` or a relative: PyTorch's functions say the correction."""

    def of_all(do, self, unbiased=True):
        return do(f"{name}.correction", self, **({} if unbiased else {"correction": 0}))

    def along(do, self, dim, unbiased=True, keepdim=False):
        if dim is None and not keepdim:
            return of_all(do, self, unbiased)
        more = {"keepdim": True} if keepdim else {}
        return do(f"{name}.correction", self, dim, correction=int(unbiased), **more)

    return {f"{name}.default": of_all, f"{name}.dim": along}


for _name in ("var", "std", "var_mean", "std_mean"):
    PARTS.update(_moments(_name))


@rule(PARTS, "l1_loss")
def _(do, self, target, reduction=1):
    each = do("abs.default", do("sub.Tensor", self, target))
    return each if reduction == 0 else do("mean.default" if reduction == 1 else "sum.default", each)


@rule(PARTS, "one_hot")
def _(do, self, num_classes=-1):
    if num_classes == -1:
        num_classes = do("_local_scalar_dense.default", do("max.default", self)) + 1
    classes = facula.arange(num_classes)
    return do("_to_copy.default", do("eq.Tensor", do("unsqueeze.default", self, -1), classes), dtype=facula.int64)


@rule(PARTS, "repeat_interleave.self_Tensor")
def _(do, self, repeats, dim=None, *, output_size=None):
    if dim is None and self.dim() != 1 or output_size is not None:
        return NotImplemented
    return do("index_select.default", self, dim or 0, do("repeat_interleave.Tensor", repeats))


PARTS["softmax"] = lambda do, self, dim, dtype=None: do("_softmax.default", _float_input(do, self, dtype), dim, False)
PARTS["log_softmax"] = lambda do, self, dim, dtype=None: do(
    "_log_softmax.default", _float_input(do, self, dtype), dim, False
)


@rule(PARTS, "layer_norm")
def _(do, input, normalized_shape, weight=None, bias=None, eps=1e-5, cudnn_enable=True):
    return do("native_layer_norm.default", input, list(normalized_shape), weight, bias, eps)[0]


@rule(PARTS, "group_norm")
def _(do, input, num_groups, weight=None, bias=None, eps=1e-5, cudnn_enabled=True):
    n, c = input.shape[:2]
    return do("native_group_norm.default", input, weight, bias, n, c, math.prod(input.shape[2:]), num_groups, eps)[0]


@rule(PARTS, "dropout")
def _(do, input, p=0.5, train=True):
    if not train or p == 0:
        return input
    if not 0 < p < 1:
        return NotImplemented
    kept = do("bernoulli_.float", do("empty_like.default", input), *(() if p == 0.5 else (1 - p,)))
    return do("mul.Tensor", input, do("div_.Scalar", kept, 1 - p))


@rule(PARTS, "outer", "ger")
def _(do, self, vec2):
    return do("mul.Tensor", do("view.default", self, [self.shape[0], 1]), vec2) if self.dim() == 1 else NotImplemented


@rule(PARTS, "nll_loss_nd")
def _(do, self, target, weight=None, reduction=1, ignore_index=-100):
    if self.dim() > 2:
        return NotImplemented
    return do("nll_loss_forward.default", self, target, weight, reduction, ignore_index)[0]


@rule(PARTS, "cross_entropy_loss")
def _(do, self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    if self.dim() > 2 or label_smoothing or self.shape == target.shape:
        return NotImplemented
    logs = do("_log_softmax.default", self, 1 if self.dim() == 2 else 0, False)
    return do("nll_loss_forward.default", logs, target, weight, reduction, ignore_index)[0]


@rule(PARTS, "chunk")
def _(do, self, chunks, dim=0):
    size = self.shape[dim]
    return do("split.Tensor", self, -(-size // chunks), *trimmed((dim,), (0,))) if size and chunks > 0 else NotImplemented


@rule(PARTS, "split.sizes")
def _(do, self, split_size, dim=0):
    return do("split_with_sizes.default", self, list(split_size), *trimmed((dim,), (0,)))


@rule(PARTS, "where.nonzero")
def _(do, condition):
    return do("unbind.int", do("nonzero.default", condition), 1)


PARTS["nonzero_numpy"] = lambda do, self: do("unbind.int", do("nonzero.default", self), 1)


@rule(PARTS, "diag")
def _(do, self, diagonal=0):
    name = {1: "diag_embed.default", 2: "diagonal_copy.default"}.get(self.dim())
    return do(name, self, *trimmed((diagonal,), (0,))) if name else NotImplemented


@rule(PARTS, "diagflat")
def _(do, self, offset=0):
    if not self.is_contiguous():
        return NotImplemented
    return do("diag_embed.default", do("view.default", self, [-1]), *trimmed((offset,), (0,)))


def _choose(part):
    def rule(do, self):
        if not self.is_complex():
            return NotImplemented
        return do("select.int", do("view_as_real.default", self), self.dim(), part)

    return rule


PARTS["real"], PARTS["imag"] = _choose(0), _choose(1)
