#include "core/sparse.h"

#include "core/kernel.h"

namespace facula {
namespace {

void release_parts(Storage* storage) { delete static_cast<SparseParts*>(storage->context); }

Storage* storage_of_parts(SparseParts parts) {
  const Device device = parts.values.device();
  auto owned = std::make_unique<SparseParts>(std::move(parts));
  Storage* storage = borrow_storage(nullptr, 0, device, release_parts, owned.get());
  owned.release();
  return storage;
}

void set_sparse_sizes(TensorImpl* impl, IntList sizes) { set_sizes(impl, sizes, Dims(sizes.size(), 0)); }

/// Takes over the reference to `storage`.
Tensor tensor_of_parts(Storage* storage, DType dtype, IntList sizes, uint32_t flags) {
  TensorImpl* impl = new_impl();
  impl->storage = storage;
  impl->data = nullptr;
  impl->dtype = dtype;
  impl->flags = kSparse | flags;
  impl->ndim = 0;
  Tensor made = Tensor::adopt(impl);
  set_sparse_sizes(impl, sizes);
  return made;
}

}  // namespace

const SparseParts& sparse_parts(const Tensor& t) { return mutable_sparse_parts(t); }
SparseParts& mutable_sparse_parts(const Tensor& t) {
  FACULA_CHECK(is_sparse(t), ErrorKind::NotImplemented, "sparse: a sparse tensor is expected, got ",
               t.defined() ? "a strided one" : "None");
  return *static_cast<SparseParts*>(t.storage()->context);
}

Tensor make_sparse(SparseParts parts, IntList sizes) {
  count_elements(sizes, "sparse tensor");
  const DType dtype = parts.values.dtype();
  return tensor_of_parts(storage_of_parts(std::move(parts)), dtype, sizes, inference_flag());
}

Tensor share_sparse(const Tensor& self) {
  retain(self.storage());
  return tensor_of_parts(self.storage(), self.dtype(), self.sizes(), self.flags() & kInference);
}

Tensor copy_of_parts(const Tensor& self) {
  return tensor_of_parts(storage_of_parts(sparse_parts(self)), self.dtype(), self.sizes(), inference_flag());
}

void take_parts(const Tensor& self, const Tensor& from) {
  TensorImpl* impl = self.impl();
  if (self.sizes() == from.sizes() || impl->storage->refs.load() == 1) {
    mutable_sparse_parts(self) = SparseParts(sparse_parts(from));
  } else {  // the write is counted in the storage that it began with, which others hold; and here
    Storage* fresh = storage_of_parts(sparse_parts(from));
    fresh->version.store(self.storage()->current_version() + 1, std::memory_order_relaxed);
    release(std::exchange(impl->storage, fresh));
  }
  if (self.sizes() != from.sizes()) set_sparse_sizes(impl, from.sizes());
}

void copy_parts(const Tensor& out, const Tensor& in) {
  FACULA_CHECK(layout_of(out) == layout_of(in), ErrorKind::Runtime,
               "copy_: between tensors of different layouts is not implemented, got ", layout_of(in), " for ",
               layout_of(out), " (to_dense() or to_sparse() first)");
  if (!is_coo(out)) {
    const SparseParts &to = sparse_parts(out), &from = sparse_parts(in);
    FACULA_CHECK(out.sizes() == in.sizes() && to.values.sizes() == from.values.sizes(), ErrorKind::Runtime,
                 "copy_: compressed tensors of one shape with as many specified elements in blocks of one size are "
                 "expected, got shapes ",
                 out.sizes(), " and ", in.sizes(), " with values of shapes ", to.values.sizes(), " and ",
                 from.values.sizes());
  }
  if (out.dtype() == in.dtype()) return take_parts(out, in);
  SparseParts parts = sparse_parts(in);
  Tensor cast = empty(parts.values.sizes(), out.dtype(), out.device());
  copy_elements(cast, parts.values);
  parts.values = std::move(cast);
  take_parts(out, make_sparse(std::move(parts), in.sizes()));
}

void report_no_elements(const Tensor& t) {
  throw_error(ErrorKind::Runtime,
              "sparse: a sparse tensor has no elements in memory, nor a storage, strides or an address ",
              "(to_dense() gives a tensor that has), got layout ", layout_of(t), " and shape ", t.sizes());
}

}  // namespace facula
