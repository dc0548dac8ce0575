// What help() says of the properties of Tensor.
#pragma once

namespace facula::python::docs::properties {

inline constexpr char kShape[] = R"(The sizes of all dimensions, a `torch.Size`.

>>> torch.zeros(2, 3).shape
torch.Size([2, 3]))";

inline constexpr char kDtype[] = R"(The `torch.dtype` of the elements; `to` gives the values in another one.

>>> torch.zeros(2).dtype
torch.float32)";

inline constexpr char kDevice[] = R"(The `torch.device` that the elements are on; `to` gives them on another one.

>>> torch.zeros(2).device
device(type='cpu'))";

inline constexpr char kLayout[] = R"(How elements are arranged: `torch.strided`, or that of a sparse tensor.

>>> torch.zeros(2).layout, torch.eye(2).to_sparse().layout
(torch.strided, torch.sparse_coo))";

inline constexpr char kNdim[] = R"(The number of dimensions, 0 of a scalar; what `dim()` gives.

>>> torch.zeros(2, 3).ndim
2)";

inline constexpr char kItemsize[] = R"(Bytes per element; what `element_size()` gives.

>>> torch.zeros(2).itemsize
4)";

inline constexpr char kNbytes[] = R"(Bytes of all elements, `numel() * itemsize`; the storage may be larger.

>>> torch.zeros(2, 3)[:, 0].nbytes
8)";

inline constexpr char kRequiresGrad[] =
    R"(Whether what is computed from the tensor is recorded, for gradients; True of results of recorded ops.

It can be set for leaves of floating-point or complex numbers; RuntimeError for others.

>>> x = torch.ones(2, requires_grad=True)
>>> x.requires_grad, (x * 2).requires_grad, x.detach().requires_grad
(True, True, False))";

inline constexpr char kIsLeaf[] = R"(Whether no recorded op made the tensor. Backward fills `.grad` of leaves
that require gradients.

>>> x = torch.ones(2, requires_grad=True)
>>> x.is_leaf, (x * 2).is_leaf
(True, False))";

inline constexpr char kGrad[] = R"(The gradient that backward has added up, of the tensor's shape; None before.

Only leaves get one, and results of ops after `retain_grad()`. Setting it to None forgets it. Errors: RuntimeError where
a tensor of another shape, dtype or device is set, TypeError for anything else.

>>> x = torch.ones(2, requires_grad=True)
>>> (x * 3).sum().backward()
>>> x.grad
tensor([3., 3.]))";

inline constexpr char kData[] = R"(The same elements without history.

Writes to them are not seen by autograd, so `detach()` is the safer way to read.

Setting it exchanges the elements, the shape and the dtype for those of another tensor, which stays the owner of its
memory, too.

>>> x = torch.ones(2, requires_grad=True)
>>> x.data = torch.zeros(3)
>>> x
tensor([0., 0., 0.], requires_grad=True))";

inline constexpr char kReal[] =
    R"(The real part, a view; of a real tensor the tensor itself. Setting it writes to the elements.

>>> torch.tensor([1 + 2j]).real
tensor([1.]))";

inline constexpr char kImag[] = R"(The imaginary part of a complex tensor, a view. Setting it writes to the elements.

RuntimeError for real tensors.

>>> torch.tensor([1 + 2j]).imag
tensor([2.]))";

inline constexpr char kT[] = R"(A view with the dimensions in reverse order; of a matrix its transpose.

>>> torch.zeros(2, 3, 4).T.shape
torch.Size([4, 3, 2]))";

inline constexpr char kMT[] = R"(A view with the last two dimensions exchanged: the transpose of each matrix.

RuntimeError for fewer than two dimensions.

>>> torch.zeros(2, 3, 4).mT.shape
torch.Size([2, 4, 3]))";

inline constexpr char kH[] = R"(The transpose of a matrix with its elements conjugated, a view.

RuntimeError for 1 dimension and for more than 2.

>>> torch.tensor([[1j, 2], [3, 4]]).H
tensor([[0.-1.j, 3.-0.j],
        [2.-0.j, 4.-0.j]]))";

inline constexpr char kMH[] = R"(A view with the last two dimensions exchanged and elements conjugated.

RuntimeError for fewer than two dimensions.

>>> torch.zeros(2, 3, 4).mH.shape
torch.Size([2, 4, 3]))";

inline constexpr char kIsCuda[] = R"(Whether the elements are on a CUDA device.)";

inline constexpr char kIsCpu[] = R"(Whether the elements are on the CPU.)";

inline constexpr char kIsMeta[] =
    R"(Whether the tensor is on the device "meta": it has a shape and a dtype, and no elements.)";

inline constexpr char kIsSparse[] =
    R"(Whether the layout is `torch.sparse_coo`; False of the other sparse layouts, too.)";

inline constexpr char kIsSparseCsr[] = R"(Whether the layout is `torch.sparse_csr`.)";

inline constexpr char kIsQuantized[] = R"(Whether it is a quantized tensor, as `quantize_per_tensor` makes it.)";

inline constexpr char kIsNested[] = R"(Whether it is a nested tensor, as `torch.nested.nested_tensor` makes it.)";

inline constexpr char kGradFn[] =
    R"(The node of the graph that made the tensor, a `torch.autograd.graph.Node`; None of leaves.

>>> x = torch.ones(2, requires_grad=True)
>>> (x * 2).grad_fn.name(), x.grad_fn
('MulBackward0', None))";

inline constexpr char kOutputNr[] = R"(Which result of the op of `grad_fn` the tensor is, counted from 0.

>>> values, places = torch.ones(2, 3, requires_grad=True).max(1)
>>> values.output_nr
0)";

inline constexpr char kRetainsGrad[] =
    R"(Whether backward fills `.grad` of this result of an op, because `retain_grad()` was called.

False of leaves.

>>> y = torch.ones(2, requires_grad=True) * 2
>>> y.retain_grad()
>>> y.retains_grad
True)";

}  // namespace facula::python::docs::properties
