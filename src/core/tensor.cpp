#include "core/tensor.h"

#include <cstring>

#include "core/budget_hooks.h"
#include "core/checked.h"
#include "core/class_hooks.h"
#include "core/kernel.h"
#include "core/making.h"
#include "core/mode.h"
#include "core/number.h"
#include "core/recipe.h"
#include "core/several.h"
#include "core/sparse.h"
#include "core/storage_bytes.h"
#include "core/storage_room.h"

namespace facula {

void destroy_tensor(TensorImpl* impl) {
  delete impl->autograd;
  static_assert(offsetof(TensorImpl, listed) == offsetof(TensorImpl, owns_pyobj) + 1);
  uint16_t notified;  // who must be notified of its end: both flags in one test
  std::memcpy(&notified, &impl->owns_pyobj, sizeof notified);
  if (__builtin_expect(notified != 0, 0)) {
    if (impl->listed) unlist_deferred(impl);
    if (impl->owns_pyobj && host.release_object) host.release_object(impl->pyobj);
  }
  if (impl->base) release(impl->base);
  if (impl->dims != impl->inline_) delete[] impl->dims;
  release(impl->storage);
  small_release(impl, sizeof(TensorImpl));
}

namespace {

// Room for `n` sizes and strides in `t`; the old ones are lost when the block changes.
int64_t* make_room(TensorImpl* t, int64_t n) {
  FACULA_CHECK(n <= 64, ErrorKind::Runtime, "tensor: expected at most 64 dimensions, got ", n);
  if (__builtin_expect(t->dims != t->inline_, 0)) delete[] t->dims;
  t->dims = n <= TensorImpl::kInlineDims ? t->inline_ : new int64_t[2 * static_cast<size_t>(n)];
  t->ndim = static_cast<uint8_t>(n);
  return t->dims;
}

// One pass over sizes and strides. Dense memory spans exactly as many places as there are elements, which rules out
// most views before anything needs to be sorted.
void derive_layout(TensorImpl* t) {
  const int64_t* sizes = t->dims;
  const int64_t* strides = t->mutable_strides();
  int64_t n = t->ndim;
  Checked count = 1;
  uint64_t span = 1;  // of a tensor without elements it may wrap around
  bool contiguous = true, positive = true;
  for (int64_t i = n - 1; i >= 0; --i) {
    if (sizes[i] == 1) continue;
    contiguous &= strides[i] == count.value_or(-1);
    positive &= strides[i] > 0;
    count *= sizes[i];
    span += static_cast<uint64_t>(sizes[i] - 1) * static_cast<uint64_t>(strides[i]);
  }
  const int64_t numel = __builtin_expect(count.fits(), 1) ? count.value_or(0) : count_elements(t->sizes(), "view");
  t->numel = numel;
  uint32_t layout = 0;
  if (t->flags & kSparse) layout = 0;
  else if (contiguous || numel == 0) layout = kContiguous | kDense;
  else if (positive && span == static_cast<uint64_t>(numel) && is_dense(t->sizes(), t->strides())) layout = kDense;
  bool may_be_other = n >= 4 && n <= 5 && (layout & kDense) && (sizes[1] == 1 || strides[1] == 1 || numel == 0);
  if (may_be_other && n == 4 && is_contiguous(t->sizes(), t->strides(), MemoryFormat::ChannelsLast))
    layout |= kChannelsLast;
  if (may_be_other && n == 5 && is_contiguous(t->sizes(), t->strides(), MemoryFormat::ChannelsLast3d))
    layout |= kChannelsLast3d;
  t->flags = (t->flags & ~kLayoutFlags) | layout;
}

}  // namespace

void set_sizes(TensorImpl* t, IntList sizes, IntList strides) {
  // sizes or strides may be the dims of this very tensor
  bool own =
      t->dims <= sizes.begin() && sizes.begin() < t->dims + 2 * std::max<int64_t>(t->ndim, TensorImpl::kInlineDims);
  own |=
      t->dims <= strides.begin() && strides.begin() < t->dims + 2 * std::max<int64_t>(t->ndim, TensorImpl::kInlineDims);
  if (own) {
    Dims old_sizes(sizes), old_strides(strides);
    set_sizes(t, old_sizes, old_strides);
    return;
  }
  int64_t* dims = make_room(t, static_cast<int64_t>(sizes.size()));
  copy_few(sizes.data(), sizes.size(), dims);
  copy_few(strides.data(), strides.size(), t->mutable_strides());
  derive_layout(t);
}

namespace {

Tensor with_storage(Storage* storage, DType dtype) {
  TensorImpl* t = new_impl();
  t->storage = storage;
  t->data = storage->data;
  t->dtype = dtype;
  t->ndim = 0;  // read where room for more is made
  t->flags = inference_flag();
  return Tensor::adopt(t);
}

/// Of a tensor on a storage that others have: once its address is the final one.
void follow_storage(TensorImpl* t) {
  if (__builtin_expect(is_nowhere(t->data), 0)) list_deferred(t);
}

}  // namespace

void check_strides_fit(IntList sizes, const char* op) {
  Checked step = 1;
  for (size_t i = sizes.size(); i-- > 1;) step = step * std::max<int64_t>(sizes[i], 1);
  step.get(op, "a stride", "size ", sizes);
}

namespace {

/// The common case of empty(): few dimensions with elements, on the CPU, so that nothing can be wrong, and no other
/// memory format that describes it as well. Null where it is not like that.
TensorImpl* few_dimensions(IntList sizes, DType dtype, Device device) {
  if (sizes.size() > TensorImpl::kInlineDims || !device.is_cpu()) return nullptr;
  int64_t strides[TensorImpl::kInlineDims];
  Checked elements = 1;
  bool any = true;
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = elements.value_or(0);
    any &= sizes[i] > 0;
    elements *= sizes[i];
  }
  const int64_t count = elements.value_or(kMostElements + 1);
  if (!any || count > kMostElements || (sizes.size() >= 4 && (sizes[1] == 1 || strides[1] == 1))) return nullptr;
  Storage* storage = make_storage(static_cast<size_t>(count * item_size(dtype)), device);
  TensorImpl* t = new_impl();
  t->storage = storage;
  t->data = storage->data;
  t->numel = count;
  t->flags = inference_flag() | kContiguous | kDense;
  t->dtype = dtype;
  t->ndim = static_cast<uint8_t>(sizes.size());
  copy_few(sizes.data(), sizes.size(), t->inline_);
  copy_few(strides, sizes.size(), t->inline_ + TensorImpl::kInlineDims);
  return t;
}

}  // namespace

Tensor empty(IntList sizes, DType dtype, Device device) {
  if (TensorImpl* made = few_dimensions(sizes, dtype, device)) return Tensor::adopt(made);
  const int64_t count = count_elements(sizes, "empty");
  Making making(sizes, dtype, device);
  Tensor tensor = with_storage(make_storage(byte_count(count, item_size(dtype), "empty", sizes), device), dtype);
  TensorImpl* t = tensor.impl();
  int64_t n = static_cast<int64_t>(sizes.size()), step = 1;
  if (__builtin_expect(count == 0, 0)) check_strides_fit(sizes, "empty");
  make_room(t, n);
  int64_t* strides = t->mutable_strides();
  for (int64_t i = n - 1; i >= 0; --i) {
    t->dims[i] = sizes[i];
    strides[i] = step;
    step = wrapping_mul(step, std::max<int64_t>(sizes[i], 1));  // wraps around beside a size of zero only
  }
  if (n < 4) {  // contiguous, and no other memory format has a name
    t->numel = count;
    t->flags |= kContiguous | kDense;
  } else {
    derive_layout(t);
  }
  return tensor;
}

Tensor empty_strided(IntList sizes, IntList strides, DType dtype, Device device) {
  int64_t count = count_elements(sizes, "empty_strided");
  for (int64_t s : strides)
    FACULA_CHECK(s >= 0, ErrorKind::Runtime, "empty_strided: strides must not be negative, got ", strides);
  Checked places = count == 0 ? Checked(0) : places_of(sizes, strides, 0).high + 1;
  int64_t extent =
      places.get("empty_strided", "the number of places in memory", "size ", sizes, " and stride ", strides);
  Making making(sizes, dtype, device);
  Tensor t = with_storage(make_storage(byte_count(extent, item_size(dtype), "empty_strided", sizes), device), dtype);
  set_sizes(t.impl(), sizes, strides);
  return t;
}

Tensor make_batched(const Tensor& value, uint32_t level) {
  materialize(value);
  TensorImpl* from = value.impl();
  TensorImpl* t = new_impl();
  t->storage = from->storage;
  retain(t->storage);
  t->data = from->data;
  t->dtype = from->dtype;
  t->ndim = 0;
  t->flags = kBatched | (from->flags & kInference);
  t->base = from;
  retain(from);
  t->batch_level = level;
  set_sizes(t, value.sizes().slice(1, value.sizes().size() - 1), value.strides().slice(1, value.sizes().size() - 1));
  return Tensor::adopt(t);
}

Tensor empty_like(const Tensor& self, DType dtype) {
  if (__builtin_expect(self.flags() & kBatched, 0)) {
    return make_batched(empty_like(Tensor::share(self.impl()->base), dtype), self.impl()->batch_level);
  }
  Making making(self.sizes(), dtype, self.device());
  if (self.is_contiguous() && self.numel() <= kMostElements) return empty_like_contiguous(self.impl(), dtype);
  return empty_strided(self.sizes(), preserved_strides(self.sizes(), self.strides()), dtype, self.device());
}

namespace {

TensorImpl* share_storage(TensorImpl* from) {
  if (__builtin_expect(from->flags & kSparse, 0)) report_no_elements(Tensor::share(from));
  TensorImpl* t = new_impl();
  t->storage = from->storage;
  retain(t->storage);
  t->data = from->data;
  t->dtype = from->dtype;
  t->flags = from->flags & (kConjugate | kInference | kInCell);
  t->ndim = 0;
  return t;
}

void set_base(TensorImpl* view, TensorImpl* from) {
  view->base = from->base ? from->base : from;
  retain(view->base);
  if (!(from->flags & kInference)) view->flags |= kWatchBase;  // until a history is recorded; those never get one
  view->flags |= from->flags & kOneOfSeveral;
}

}  // namespace

ViewBuilder::ViewBuilder(const Tensor& self, int64_t ndim) : view_(Tensor::adopt(share_storage(self.impl()))) {
  set_base(view_.impl(), self.impl());
  sizes = make_room(view_.impl(), ndim);
  strides = view_.impl()->mutable_strides();
}

Tensor ViewBuilder::finish(int64_t offset) {
  TensorImpl* t = view_.impl();
  t->data += wrapping_mul(offset, item_size(t->dtype));
  derive_layout(t);
  follow_storage(t);
  return std::move(view_);
}

Tensor make_view(const Tensor& self, IntList sizes, IntList strides, int64_t offset, bool tracked) {
  Tensor view = Tensor::adopt(share_storage(self.impl()));
  if (tracked) set_base(view.impl(), self.impl());
  view.impl()->data += wrapping_mul(offset, self.item_size());
  set_sizes(view.impl(), sizes, strides);
  follow_storage(view.impl());
  return view;
}

Tensor alias(const Tensor& self) {
  if (__builtin_expect(self.flags() & kBatched, 0)) {
    return make_batched(alias(Tensor::share(self.impl()->base)), self.impl()->batch_level);
  }
  if (__builtin_expect((self.flags() & kPythonDispatch) && host.detach_by_class, 0)) return host.detach_by_class(self);
  if (__builtin_expect(self.flags() & kSparse, 0)) return share_sparse(self);
  if (__builtin_expect(self.flags() & kPrivateLayout, 0)) return hold_now(self);
  return make_view(self, self.sizes(), self.strides(), 0, false);
}

void check_inside(const Storage* storage, DType dtype, int64_t offset, IntList sizes, IntList strides, const char* op) {
  FACULA_CHECK(offset >= 0, ErrorKind::Runtime, op, ": storage_offset must not be negative, got ", offset);
  (Checked(offset) * item_size(dtype)).get(op, "the offset in bytes", offset);
  if (count_elements(sizes, op) == 0) return;
  const Places reach = places_of(sizes, strides, offset);
  const int64_t available = static_cast<int64_t>(storage->nbytes) / item_size(dtype);
  FACULA_CHECK(reach.low.value_or(-1) >= 0 && reach.high.value_or(INT64_MAX) < available, ErrorKind::Runtime, op,
               ": sizes ", sizes, ", strides ", strides, " and offset ", offset, " reach outside of the storage of ",
               available, " elements");
}

Tensor tensor_on_storage(Storage* storage, DType dtype, int64_t offset, IntList sizes, IntList strides,
                         const char* op) {
  check_inside(storage, dtype, offset, sizes, strides, op);
  retain(storage);
  Tensor t = with_storage(storage, dtype);
  t.impl()->data = storage->data + offset * item_size(dtype);
  set_sizes(t.impl(), sizes, strides);
  follow_storage(t.impl());
  return t;
}

Tensor scalar_tensor(const Scalar& value, DType dtype, Device device) {
  Tensor t = empty({}, dtype, device);
  if (device.is_cpu()) visit_dtype(dtype, [&]<class T>(TypeTag<T>) { *t.data<T>() = element_of<T>(value); });
  else if (!device.is_meta()) fill_kernel(device, t, value);
  return t;
}

namespace {

/// Where several orders describe a tensor (a dimension of size 1): whether its strides are written as channels last.
bool strides_say_channels_last(const Tensor& t) {
  int64_t extent = 1, inner = 1;
  for (int64_t k = 0; k < t.dim(); ++k) {
    const int64_t d = k == 0             ? 1
                      : k == t.dim() - 1 ? 0
                                         : t.dim() - k;  // channels, then from the last dimension to the first
    if (t.stride(d) < extent) return false;
    extent = wrapping_mul(t.stride(d), std::max<int64_t>(t.size(d), 1));
    if (d != 0) inner = wrapping_mul(inner, t.size(d));
  }
  return inner > 1;
}

}  // namespace

MemoryFormat Tensor::suggest_memory_format() const {
  const uint32_t last = impl_->flags & (kChannelsLast | kChannelsLast3d);
  if (impl_->flags & kContiguous && !(last && strides_say_channels_last(*this))) return MemoryFormat::Contiguous;
  if (impl_->flags & kChannelsLast) return MemoryFormat::ChannelsLast;
  if (impl_->flags & kChannelsLast3d) return MemoryFormat::ChannelsLast3d;
  return MemoryFormat::Contiguous;
}

bool (*item_by_class)(const Tensor& self, Scalar& number) = nullptr;
bool (*copy_by_class)(const Tensor& self, const Tensor& made) = nullptr;

Scalar Tensor::item() const {
  if (__builtin_expect(flags() & (kSparse | kDeferred), 0)) materialize(*this);
  FACULA_CHECK(!(flags() & kBatched), ErrorKind::Runtime,
               "vmap: a batched tensor has no single value for .item(), bool() or int(), got an example of shape ",
               sizes());
  FACULA_CHECK(numel() == 1, ErrorKind::Runtime,
               "item: only a Tensor with one element becomes a number (tolist() gives all), got ", numel(),
               " elements");
  if (__builtin_expect(((flags() & kPythonDispatch) || (watching() & kWatchDispatch)) && item_by_class, 0)) {
    if (Scalar number; item_by_class(*this, number)) return number;
  }
  FACULA_CHECK(!is_meta(), ErrorKind::Runtime, "item: a meta tensor has no values, got shape ", sizes());
  const char* at = impl_->data;
  std::array<char, 16> bytes;
  if (__builtin_expect(!is_cpu(), 0)) {
    read_kernel(device(), *this, bytes);
    at = bytes.data();
  }
  return visit_dtype(dtype(), [&]<class T>(TypeTag<T>) -> Scalar {
    if constexpr (std::is_same_v<T, bool>) return Scalar(*at != 0);  // fresh memory may have any byte
    T value;
    std::memcpy(&value, at, sizeof value);
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

void copy_elements(const Tensor& out, const Tensor& in) {
  if (__builtin_expect((out.flags() | in.flags()) & (kSparse | kDeferred), 0)) {
    if ((out.flags() | in.flags()) & kSparse) return copy_parts(out, in);
    materialize_bytes(out);
    materialize_bytes(in);
  }
  if (out.is_meta() || out.numel() == 0) return;
  copy_kernel(out.is_cpu() ? in.device() : out.device(), out, in);
}

void refuse_elements(const char* kernel, int64_t most) {
  throw_error(ErrorKind::Runtime, kernel, ": tensors of at most ", kMostVisited, " elements, got one of ", most,
              " (expanded, it repeats what is in memory)");
}

void refuse_device(const char* kernel, Device device) {
  throw_error(ErrorKind::NotImplemented, kernel, ": there is no kernel for this device, got ", device);
}

void check_held(const Tensor& tensor, const char* kernel) {
  if (!tensor.defined()) return;
  FACULA_CHECK(!(tensor.flags() & kSparse), ErrorKind::Runtime, kernel,
               ": the kernel expects tensors with elements, got layout ", layout_of(tensor));
  FACULA_CHECK(!(tensor.flags() & kDeferred), ErrorKind::Runtime, kernel,
               ": the kernel expects tensors with bytes, got a deferred one of shape ", tensor.sizes());
  const bool known = tensor.impl()->refs.load() > 1;  // a result in the making is nobody else's yet
  FACULA_CHECK(!known || (tensor.flags() & (kPrivateLayout | kHeld)) != kPrivateLayout, ErrorKind::Runtime, kernel,
               ": the kernel expects memory that is held, got a private layout of shape ", tensor.sizes());
}

void check_resident(const Tensor& tensor, Device device, const char* kernel) {
  FACULA_CHECK(!tensor.defined() || tensor.device() == device, ErrorKind::Runtime, kernel,
               ": the kernel expects its tensors on ", device, ", got one on ", tensor.device());
}

void check_resident(const void* memory, Device device, const char* kernel) {
  const auto owns = backend_of(device.type).owns;
  FACULA_CHECK(!owns || !memory || owns(memory, device), ErrorKind::Runtime, kernel, ": the kernel expects memory of ",
               device, ", got memory of the host");
}

Extent byte_extent(const Tensor& self) {
  Extent e{0, 0};
  if (self.numel() == 0) return e;
  for (int64_t i = 0; i < self.dim(); ++i) {
    if (self.size(i) == 1) continue;
    int64_t reach = (self.size(i) - 1) * self.stride(i) * self.item_size();
    (reach < 0 ? e.low : e.high) += reach;
  }
  e.high += self.item_size();
  return e;
}

bool share_bytes(const Storage* a, const Storage* b) {
  if (a == b || a->device != b->device || !a->data || !b->data || a->is_deferred() || b->is_deferred()) return a == b;
  return a->data < b->data + b->nbytes && b->data < a->data + a->nbytes;
}

void check_no_partial_overlap(const Tensor& out, const Tensor& in, const char* op) {
  if (out.is_same(in) || !share_bytes(out.storage(), in.storage()) || out.numel() == 0 || in.numel() == 0) return;
  bool same_view = out.impl()->data == in.impl()->data && out.sizes() == in.sizes();
  for (int64_t d = 0; same_view && d < out.dim(); ++d) same_view = out.size(d) == 1 || out.stride(d) == in.stride(d);
  if (same_view) return;
  if (!out.is_dense() || !in.is_dense()) return;  // interleaved views may be disjoint: not decided, as in PyTorch
  Extent a = byte_extent(out), b = byte_extent(in);
  bool apart =
      out.impl()->data + a.high <= in.impl()->data + b.low || in.impl()->data + b.high <= out.impl()->data + a.low;
  FACULA_CHECK(
      apart, ErrorKind::Runtime, op,
      ": the written tensor and an input share some, but not all, of their memory (clone one of them), got shapes ",
      out.sizes(), " and ", in.sizes());
}

}  // namespace facula
