"""Define operators of `torch.ops.aten` that are parts of PyTorch's functions and have no public function of their own."""

from __future__ import annotations

import facula


def _to_copy(self, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    """Return a copy with another dtype, on another device or in another order."""
    if layout not in (None, facula.strided):
        raise RuntimeError(f"_to_copy: the layout is strided, got {layout}")
    more = {} if memory_format is None else {"memory_format": memory_format}
    made = self.to(device=device, dtype=dtype, non_blocking=non_blocking, copy=True, **more)
    return made.pin_memory() if pin_memory else made


def _local_scalar_dense(self):
    """Return the number that a tensor of one element holds."""
    return self.item()


def _unsafe_view(self, size):
    """Return the elements in another shape."""
    return self.reshape(size)


def _is_all_true(self):
    """Return whether all elements are, as a tensor."""
    return self.all()


def _is_any_true(self):
    """Return whether an element is, as a tensor."""
    return self.any()


def _sparse_addmm(self, mat1, mat2, *, beta=1, alpha=1):
    """Return `sparse.addmm`."""
    return facula.sparse.addmm(self, mat1, mat2, beta=beta, alpha=alpha)


def _pin_memory(self, device=None):
    """Return a copy in pinned memory."""
    return self.pin_memory() if device is None else self.pin_memory(device)


def _assert_scalar(self, assert_msg):
    """Raise RuntimeError where a number is zero."""
    if not self:
        raise RuntimeError(assert_msg)


def _assert_tensor_metadata(a, size=None, stride=None, dtype=None, *, device=None, layout=None):
    """Raise RuntimeError where a tensor is not what is said."""
    facts = {"size": a.shape, "stride": a.stride(), "dtype": a.dtype, "device": a.device, "layout": a.layout}
    given = {"size": size, "stride": stride, "dtype": dtype, "device": device, "layout": layout}
    for what, wanted in given.items():
        found = facts[what]
        same = tuple(found) == tuple(wanted) if what in ("size", "stride") and wanted is not None else found == wanted
        if wanted is not None and not same:
            raise RuntimeError(f"_assert_tensor_metadata: expected {what} {wanted}, got {found}")


def index(self, indices):
    """Return `self[indices]`, where an index is a tensor, or None for a whole dimension."""
    return self[tuple(slice(None) if each is None else each for each in indices)]


def alias(self):
    """Return the tensor as a view of itself."""
    return self.view(self.shape)


def sym_size(self, dim):
    """Return the length of a dimension."""
    return self.size(dim)


def sym_stride(self, dim):
    """Return the stride of a dimension."""
    return self.stride(dim)


def sym_numel(self):
    """Return the number of elements."""
    return self.numel()


def sym_storage_offset(self):
    """Return where the first element stands."""
    return self.storage_offset()


def _grouped_mm(self, mat2, offs=None, bias=None, out_dtype=None):
    """Return `nn.functional.grouped_mm`."""
    return facula.nn.functional.grouped_mm(self, mat2, offs=offs, bias=bias, out_dtype=out_dtype)


def convolution_backward(
    grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask,
):  # fmt: skip
    """Return the gradients of a convolution's input, weight and bias; None for those that `output_mask` leaves out."""
    with facula.enable_grad():
        given = [x.detach().requires_grad_() for x in (input, weight)]
        bias = None if bias_sizes is None or not output_mask[2] else input.new_zeros(bias_sizes).requires_grad_()
        result = facula.convolution(*given, bias, stride, padding, dilation, transposed, output_padding, groups)
    wanted = [x if mask else None for x, mask in zip((*given, bias), output_mask, strict=True)]
    gradients = iter(facula.autograd.grad(result, [x for x in wanted if x is not None], grad_output))
    return tuple(None if x is None else next(gradients) for x in wanted)


def _conj(self):
    """Return the conjugate, as a view."""
    return self.conj()


def _unique2(self, sorted=True, return_inverse=False, return_counts=False):
    """Return (the values that are there, where each element's stands, how often each is there); empty where not asked for."""
    values, inverse, counts = facula.ops.facula._unique.default(self, return_inverse, return_counts)
    return values, inverse, counts


def unique_consecutive(self, return_inverse=False, return_counts=False, dim=None):
    """Return (values without repetitions in a row, where each element's stands, how often each repeats)."""
    if dim is None:
        return facula.ops.facula._unique_consecutive.default(self, return_inverse, return_counts)
    made = facula.unique_consecutive(self, return_inverse=True, return_counts=True, dim=dim)
    return tuple(made)


def _linalg_det(A):
    """Return (determinant, LU, pivots)."""
    lu, pivots = facula.linalg.lu_factor_ex(A)[:2]
    return facula.linalg.det(A), lu, pivots


def _linalg_slogdet(A):
    """Return (sign, logarithm of the determinant's absolute value, LU, pivots)."""
    lu, pivots = facula.linalg.lu_factor_ex(A)[:2]
    return (*facula.linalg.slogdet(A), lu, pivots)


def _linalg_check_errors(info, api_name, *, is_matrix):
    """Raise LinAlgError where a factorization failed."""
    if info.any():
        where = "" if is_matrix else f"(Batch element {int(info.ravel().nonzero()[0])}): "
        raise facula.linalg.LinAlgError(f"{api_name}: {where}the factorization has failed, got info {info.tolist()}")


def log_sigmoid_forward(self):
    """Return (the logarithm of the sigmoid, nothing: what PyTorch keeps for the derivative)."""
    return facula.nn.functional.logsigmoid(self), self.new_empty(0)


def nll_loss_forward(self, target, weight, reduction, ignore_index):
    """Return (loss, sum of weights)."""
    words = ("none", "mean", "sum")
    loss = facula.nn.functional.nll_loss(self, target, weight, ignore_index=ignore_index, reduction=words[reduction])
    if reduction == 0:
        return loss, self.new_empty(())
    kept = target != ignore_index
    total = kept.sum().to(self.dtype) if weight is None else (weight[target.where(kept, 0)] * kept).sum()
    return loss, total


def scalar_tensor(s, *, dtype=None, layout=None, device=None, pin_memory=None):
    """Return a number as a tensor."""
    return facula.scalar_tensor(s, dtype=dtype, layout=layout, device=device, pin_memory=pin_memory)


def _resampled(mode, spatial):
    """Return `upsample_*` of so many dimensions: (self, output_size[, align_corners], *scales)."""
    aligns = mode not in ("nearest", "nearest_exact")

    def upsample(self, output_size, *more, **named):
        more = list(more) + list(named.values())
        align = more.pop(0) if aligns else False
        scales = [0.0 if scale is None else scale for scale in more] + [0.0] * (spatial - len(more))
        return facula.ops.facula.resample.default(self, output_size, mode, align, scales, False)

    return upsample


for _mode, _names in {
    "nearest": ("nearest1d", "nearest2d", "nearest3d"), "linear": ("linear1d", "bilinear2d", "trilinear3d"),
    "cubic": (None, "bicubic2d"), "nearest_exact": ("_nearest_exact1d", "_nearest_exact2d", "_nearest_exact3d"),
}.items():  # fmt: skip
    for _spatial, _name in enumerate(_names, 1):
        if _name:
            _full = f"upsample_{_name}" if not _name.startswith("_") else f"_upsample{_name}"
            globals()[_full] = _resampled(_mode, _spatial)
