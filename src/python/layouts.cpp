// What factories make of layout=.
#include "autograd/function_support.h"
#include "core/sparse.h"
#include "functions_create.h"
#include "functions_shape.h"
#include "functions_sparse.h"
#include "python/bindings.h"

namespace facula::python {
namespace {

Layout wanted_layout(PyObject* layout, const Tensor* like) {
  if (given(layout)) return to_layout(layout);
  return like ? layout_of(*like) : Layout::Strided;
}

/// The two block sizes of a blocked layout, ones of the others.
Dims block_sizes(const Tensor& t) {
  const SparseParts& p = sparse_parts(t);
  if (!is_blocked(p.layout)) return {1, 1};
  return {p.values.size(p.plain.dim()), p.values.size(p.plain.dim() + 1)};
}

/// Refuse what PyTorch does not make: blocks where `like` has none and the reverse, and for empty_like another layout,
/// except that of rows or columns from coordinates.
void check_made_from(std::string_view op, Layout like, Layout wanted) {
  const bool blocks = wanted == Layout::SparseCoo || is_blocked(like) == is_blocked(wanted);
  const bool converted = op == "zeros_like" && wanted != Layout::Strided;
  const bool made =
      like == Layout::SparseCoo ? blocks || wanted == Layout::Strided : blocks && (converted || like == wanted);
  FACULA_CHECK(made, ErrorKind::Runtime, op, ": a tensor of another sparse layout cannot be made (convert it), got ",
               like, " and ", wanted);
}

}  // namespace

bool wants_other_layout(PyObject* layout, const Tensor* like, bool sized) {
  const Layout wanted = wanted_layout(layout, like);
  if (!like) return wanted != Layout::Strided;
  return sized ? wanted != Layout::Strided || is_sparse(*like) : wanted != layout_of(*like);
}

Tensor sparse_zeros(const char* op, const Tensor* like, bool sized, IntList size, std::optional<DType> dtype,
                    std::optional<Device> device, PyObject* layout) {
  if (like && !dtype) dtype = like->dtype();
  if (like && !device) device = like->device();
  const Layout wanted = wanted_layout(layout, like);
  if (like && !sized && is_sparse(*like)) check_made_from(op, layout_of(*like), wanted);
  if (like && !sized && is_sparse(*like) && wanted != Layout::Strided) {
    std::optional<IntList> block;
    const Dims sizes = block_sizes(*like);
    if (is_blocked(wanted)) block = sizes;
    return to_sparse(zeros_like(*like, std::nullopt, dtype, device), wanted, block, std::nullopt);
  }
  return _sparse_zeros(sized ? size : like->sizes(), dtype, device, wanted);
}

PyObject* zeros_into_sparse(const char* op, PyObject* out, IntList size, std::optional<DType> dtype,
                            std::optional<Device> device, PyObject* layout) {
  if (!given(out) || !is_tensor(out)) return nullptr;
  const Tensor& target = tensor_of(out);
  FACULA_CHECK(!given(layout) || to_layout(layout) == layout_of(target), ErrorKind::Runtime, op,
               ": expected layout to be that of out=, ", layout_of(target), ", got ", to_layout(layout));
  if (layout_of(target) != Layout::SparseCoo) return nullptr;
  check_stated(op, target, dtype, device);
  sparse_resize_and_clear_(target, size, static_cast<int64_t>(size.size()), 0);
  return Py_NewRef(out);
}

void refuse_layout(const char* op, PyObject* layout) {
  if (!given(layout)) return;
  const Layout wanted = to_layout(layout);
  FACULA_CHECK(wanted == Layout::Strided, ErrorKind::Runtime, op, ": not implemented for sparse layout, got ", wanted);
}

const Tensor& like_in_layout(const char* op, PyObject* layout, const Tensor& like, Tensor& strided) {
  if (!given(layout) || to_layout(layout) == layout_of(like)) return like;
  const Layout wanted = to_layout(layout);
  FACULA_CHECK(wanted == Layout::Strided, ErrorKind::Runtime, op, ": not implemented for sparse layout, got ", wanted);
  check_made_from(op, layout_of(like), wanted);
  return strided = expand(empty(Dims{}, like.dtype(), like.device()), like.sizes(), false);
}

}  // namespace facula::python
