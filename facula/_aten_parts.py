"""Operators of `torch.ops.aten` that PyTorch's functions are made of, and that no public function is."""

from __future__ import annotations

import facula


def _to_copy(self, *, dtype=None, layout=None, device=None, pin_memory=None, non_blocking=False, memory_format=None):
    """A copy with another dtype, on another device or in another order."""
    if layout not in (None, facula.strided):
        raise RuntimeError(f"_to_copy: the layout is strided, got {layout}")
    more = {} if memory_format is None else {"memory_format": memory_format}
    made = self.to(device=device, dtype=dtype, non_blocking=non_blocking, copy=True, **more)
    return made.pin_memory() if pin_memory else made


def _local_scalar_dense(self):
    """The number that a tensor of one element holds."""
    return self.item()


def _unsafe_view(self, size):
    """The elements in another shape."""
    return self.reshape(size)


def _is_all_true(self):
    """Whether all elements are, as a tensor."""
    return self.all()


def _is_any_true(self):
    """Whether an element is, as a tensor."""
    return self.any()


def _sparse_addmm(self, mat1, mat2, *, beta=1, alpha=1):
    """`sparse.addmm`."""
    return facula.sparse.addmm(self, mat1, mat2, beta=beta, alpha=alpha)


def _pin_memory(self, device=None):
    """A copy in pinned memory."""
    return self.pin_memory() if device is None else self.pin_memory(device)


def _assert_scalar(self, assert_msg):
    """RuntimeError where a number is zero."""
    if not self:
        raise RuntimeError(assert_msg)


def _assert_tensor_metadata(a, size=None, stride=None, dtype=None, *, device=None, layout=None):
    """RuntimeError where a tensor is not what is said."""
    facts = {"size": a.shape, "stride": a.stride(), "dtype": a.dtype, "device": a.device, "layout": a.layout}
    given = {"size": size, "stride": stride, "dtype": dtype, "device": device, "layout": layout}
    for what, wanted in given.items():
        found = facts[what]
        same = tuple(found) == tuple(wanted) if what in ("size", "stride") and wanted is not None else found == wanted
        if wanted is not None and not same:
            raise RuntimeError(f"_assert_tensor_metadata: expected {what} {wanted}, got {found}")


def index(self, indices):
    """`self[indices]`, where an index is a tensor, or None for a whole dimension."""
    return self[tuple(slice(None) if each is None else each for each in indices)]


def alias(self):
    """The tensor as a view of itself."""
    return self.view(self.shape)


def sym_size(self, dim):
    """The length of a dimension."""
    return self.size(dim)


def sym_stride(self, dim):
    """The stride of a dimension."""
    return self.stride(dim)


def sym_numel(self):
    """The number of elements."""
    return self.numel()


def sym_storage_offset(self):
    """Where the first element stands."""
    return self.storage_offset()


def _grouped_mm(self, mat2, offs=None, bias=None, out_dtype=None):
    """`nn.functional.grouped_mm`."""
    return facula.nn.functional.grouped_mm(self, mat2, offs=offs, bias=bias, out_dtype=out_dtype)


def convolution_backward(
    grad_output, input, weight, bias_sizes, stride, padding, dilation, transposed, output_padding, groups, output_mask,
):  # fmt: skip
    """The gradients of a convolution's input, weight and bias; None for those that `output_mask` leaves out."""
    with facula.enable_grad():
        given = [x.detach().requires_grad_() for x in (input, weight)]
        bias = None if bias_sizes is None or not output_mask[2] else input.new_zeros(bias_sizes).requires_grad_()
        result = facula.convolution(*given, bias, stride, padding, dilation, transposed, output_padding, groups)
    wanted = [x if mask else None for x, mask in zip((*given, bias), output_mask, strict=True)]
    gradients = iter(facula.autograd.grad(result, [x for x in wanted if x is not None], grad_output))
    return tuple(None if x is None else next(gradients) for x in wanted)
