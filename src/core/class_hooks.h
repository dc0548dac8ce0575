// Declares the calls to classes of tensors that have no memory of their own (`__torch_dispatch__`), beside kernels. The
// Python layer installs the functions; each returns false where nothing stands in for kernels.
#pragma once

namespace facula {

class Scalar;
class Tensor;

/// The number of a tensor of one element.
extern bool (*item_by_class)(const Tensor& self, Scalar& number);
/// Puts what an in-place form has made in the place of the elements of `self`.
extern bool (*copy_by_class)(const Tensor& self, const Tensor& made);

}  // namespace facula
