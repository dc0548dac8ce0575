#include "core/tensor.h"

#include "core/mode.h"

namespace facula {

void destroy_tensor(TensorImpl* impl) {
  delete impl->autograd;
  if (impl->owns_pyobj && release_pyobject) release_pyobject(impl->pyobj);
  if (impl->base) release(impl->base);
  if (impl->dims != impl->inline_) delete[] impl->dims;
  release(impl->storage);
  small_release(impl, sizeof(TensorImpl));
}

void set_sizes(TensorImpl* t, IntList sizes, IntList strides) {
  size_t n = sizes.size();
  FACULA_CHECK(n <= 64, ErrorKind::Runtime, "tensor: at most 64 dimensions, got ", n);
  bool fits = n <= TensorImpl::kInlineDims;
  int64_t* dims = fits ? t->inline_ : new int64_t[2 * n];
  int64_t* step = dims + (fits ? TensorImpl::kInlineDims : n);
  int64_t numel = 1;
  // sizes or strides may be the old dims of this very tensor
  int64_t sizes_copy[64], strides_copy[64];
  std::copy(sizes.begin(), sizes.end(), sizes_copy);
  std::copy(strides.begin(), strides.end(), strides_copy);
  for (size_t i = 0; i < n; ++i) {
    dims[i] = sizes_copy[i];
    step[i] = strides_copy[i];
    numel *= sizes_copy[i];
  }
  if (t->dims != t->inline_) delete[] t->dims;
  t->dims = dims;
  t->ndim = static_cast<uint8_t>(n);
  t->numel = numel;
  uint32_t layout = 0;
  IntList s = t->sizes(), st = t->strides();
  if (is_contiguous(s, st)) layout |= kContiguous | kDense;
  else if (is_dense(s, st)) layout |= kDense;
  if (n == 4 && is_contiguous(s, st, MemoryFormat::ChannelsLast)) layout |= kChannelsLast;
  if (n == 5 && is_contiguous(s, st, MemoryFormat::ChannelsLast3d)) layout |= kChannelsLast3d;
  t->flags = (t->flags & ~kLayoutFlags) | layout;
}

namespace {

size_t checked_bytes(IntList sizes, DType dtype) {
  int64_t count = count_elements(sizes, "empty"), bytes = 0;
  FACULA_CHECK(!__builtin_mul_overflow(count, item_size(dtype), &bytes), ErrorKind::Runtime,
               "empty: too many bytes for 64 bits, got size ", sizes, " of ", dtype);
  return static_cast<size_t>(bytes);
}

Tensor with_storage(Storage* storage, DType dtype) {
  TensorImpl* t = new_impl();
  t->storage = storage;
  t->data = storage->data;
  t->dtype = dtype;
  t->flags = inference_flag();
  return Tensor::adopt(t);
}

}  // namespace

Tensor empty(IntList sizes, DType dtype, Device device) {
  Tensor t = with_storage(make_storage(checked_bytes(sizes, dtype), device), dtype);
  set_sizes(t.impl(), sizes, contiguous_strides(sizes));
  return t;
}

Tensor empty_strided(IntList sizes, IntList strides, DType dtype, Device device) {
  count_elements(sizes, "empty_strided");
  int64_t last = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    FACULA_CHECK(strides[i] >= 0, ErrorKind::Runtime, "empty_strided: strides must not be negative, got ", strides);
    if (sizes[i] == 0) {
      last = -1;
      break;
    }
    last += (sizes[i] - 1) * strides[i];
  }
  Tensor t = with_storage(make_storage(static_cast<size_t>((last + 1) * item_size(dtype)), device), dtype);
  set_sizes(t.impl(), sizes, strides);
  return t;
}

Tensor empty_like(const Tensor& self, DType dtype) {
  if (self.is_contiguous()) return empty_like_contiguous(self.impl(), dtype);
  return empty_strided(self.sizes(), preserved_strides(self.sizes(), self.strides()), dtype, self.device());
}

Tensor make_view(const Tensor& self, IntList sizes, IntList strides, int64_t offset, bool tracked) {
  TensorImpl* from = self.impl();
  TensorImpl* t = new_impl();
  t->storage = from->storage;
  retain(t->storage);
  t->data = from->data + offset * self.item_size();
  t->dtype = from->dtype;
  t->flags = from->flags & (kConjugate | kInference);
  if (tracked) {
    t->base = from->base ? from->base : from;
    retain(t->base);
    if (!(from->flags & (kRequiresGrad | kDual))) t->flags |= kWatchBase;
  }
  set_sizes(t, sizes, strides);
  return Tensor::adopt(t);
}

Tensor alias(const Tensor& self) { return make_view(self, self.sizes(), self.strides(), 0, false); }

Tensor tensor_on_storage(Storage* storage, DType dtype, int64_t offset, IntList sizes, IntList strides, const char* op) {
  int64_t count = count_elements(sizes, op), low = offset, high = offset;
  for (size_t i = 0; i < sizes.size(); ++i) (strides[i] < 0 ? low : high) += (sizes[i] - 1) * strides[i];
  int64_t available = static_cast<int64_t>(storage->nbytes) / item_size(dtype);
  FACULA_CHECK(count == 0 || (low >= 0 && high < available), ErrorKind::Runtime, op, ": sizes ", sizes, ", strides ", strides,
               " and offset ", offset, " reach outside of the storage of ", available, " elements");
  retain(storage);
  Tensor t = with_storage(storage, dtype);
  t.impl()->data = storage->data + offset * item_size(dtype);
  set_sizes(t.impl(), sizes, strides);
  return t;
}

Tensor scalar_tensor(const Scalar& value, DType dtype, Device device) {
  Tensor t = empty({}, dtype, device);
  if (!device.is_meta()) visit_dtype(dtype, [&]<class T>(TypeTag<T>) { *t.data<T>() = value.to<T>(); });
  return t;
}

MemoryFormat Tensor::suggest_memory_format() const {
  if (impl_->flags & kContiguous) return MemoryFormat::Contiguous;
  if (impl_->flags & kChannelsLast) return MemoryFormat::ChannelsLast;
  if (impl_->flags & kChannelsLast3d) return MemoryFormat::ChannelsLast3d;
  return MemoryFormat::Contiguous;
}

Scalar Tensor::item() const {
  FACULA_CHECK(numel() == 1, ErrorKind::Runtime, "item: a Tensor with one element, got ", numel(), " elements");
  FACULA_CHECK(!is_meta(), ErrorKind::Runtime, "item: a meta tensor has no values, got shape ", sizes());
  return visit_dtype(dtype(), [&]<class T>(TypeTag<T>) -> Scalar {
    T value = *data<T>();
    if constexpr (std::is_same_v<T, ComplexHalf>) {
      std::complex<double> c(static_cast<float>(value.re), static_cast<float>(value.im));
      return Scalar(is_conj() ? std::conj(c) : c);
    } else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>) {
      std::complex<double> c(value);
      return Scalar(is_conj() ? std::conj(c) : c);
    } else if constexpr (std::is_integral_v<T>) {
      return Scalar(value);
    } else {
      return Scalar(static_cast<double>(value));
    }
  });
}

Extent byte_extent(const Tensor& self) {
  Extent e{0, 0};
  if (self.numel() == 0) return e;
  for (int64_t i = 0; i < self.dim(); ++i) {
    int64_t reach = (self.size(i) - 1) * self.stride(i) * self.item_size();
    (reach < 0 ? e.low : e.high) += reach;
  }
  e.high += self.item_size();
  return e;
}

void check_no_internal_overlap(const Tensor& self, const char* op) {
  FACULA_CHECK(!self.storage()->read_only, ErrorKind::Runtime, op,
               ": the tensor written is on read-only memory (clone it first), got shape ", self.sizes());
  if (self.is_dense()) return;
  // Only a stride of zero is certain to make two elements share a place; other patterns are left to the caller.
  for (int64_t i = 0; i < self.dim(); ++i) {
    FACULA_CHECK(self.size(i) <= 1 || self.stride(i) != 0, ErrorKind::Runtime, op,
                 ": several elements of the written tensor lie in the same place in memory (clone it first), got sizes ",
                 self.sizes(), " and strides ", self.strides());
  }
}

void check_no_partial_overlap(const Tensor& out, const Tensor& in, const char* op) {
  if (out.is_same(in) || out.storage() != in.storage() || out.numel() == 0 || in.numel() == 0) return;
  bool same_view = out.impl()->data == in.impl()->data && out.sizes() == in.sizes() && out.strides() == in.strides();
  if (same_view) return;
  if (!out.is_dense() || !in.is_dense()) return;  // interleaved views may be disjoint: not decided, as in PyTorch
  Extent a = byte_extent(out), b = byte_extent(in);
  bool apart = out.impl()->data + a.high <= in.impl()->data + b.low || in.impl()->data + b.high <= out.impl()->data + a.low;
  FACULA_CHECK(apart, ErrorKind::Runtime, op,
               ": the written tensor and an input share some, but not all, of their memory (clone one of them), got shapes ",
               out.sizes(), " and ", in.sizes());
}

}  // namespace facula
