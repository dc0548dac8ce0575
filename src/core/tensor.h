// Tensor: one intrusive pointer to a TensorImpl.
//
//  offset size  TensorImpl
//       0    4  reference count
//       4    4  flags: facts about the layout, and whether an op must look further than its kernel
//       8    8  storage
//      16    8  data pointer (storage data plus offset; negative strides start inside)
//      24    8  number of elements
//      32    8  autograd state, or null
//      40    8  Python object, or null
//      48    8  base: the tensor this one is a differentiable view of, or null
//      56    4  dtype, number of dimensions, who owns the Python object
//      60    4  number of the vmap that made a wrapper
//      64    8  sizes and strides: `inline_` below, or a heap block for more than five dimensions
//      72   80  five sizes, five strides
#pragma once

#include <cstddef>

#include "core/autograd_meta.h"
#include "core/dtype.h"
#include "core/host.h"
#include "core/mode.h"
#include "core/scalar.h"
#include "core/shape.h"
#include "core/storage.h"

namespace facula {

enum TensorFlag : uint32_t {
  kContiguous = 1u << 0,
  kChannelsLast = 1u << 1,     // contiguous when its four dimensions are read N H W C
  kChannelsLast3d = 1u << 2,   // the same for five
  kDense = 1u << 3,            // elements fill their memory without hole or overlap
  kRequiresGrad = 1u << 8,     // leaf that wants a gradient, or result of an op on one
  kConjugate = 1u << 9,        // values are the conjugates of what memory holds
  kBatched = 1u << 10,         // wrapper made by vmap
  kDual = 1u << 11,            // carries a forward-mode tangent
  kInference = 1u << 12,       // made in inference mode
  kParameter = 1u << 13,       // set by nn.Parameter; survives copies of the Python object
  kPythonDispatch = 1u << 15,  // its Python class has a __torch_dispatch__
  kWatchBase = 1u << 14,       // a view of a base without history, which may get one by an in-place write
  kPrivateLayout = 1u << 16,   // strides that the program must not see: see materialize_layout()
  kSparse = 1u << 17,          // no elements in memory: see core/sparse.h
  kDeferred = 1u << 18,        // its bytes do not exist yet: see core/recipe.h
  kHeld = 1u << 19,            // made by hold(): nobody else knows this tensor
};
/// Why elements may not lie in memory as the program was promised: what materialize() puts right or refuses. A further
/// reason is a flag here and a case there.
constexpr uint32_t kNotAsPromised = kPrivateLayout | kSparse | kDeferred;
constexpr uint32_t kLayoutFlags = kContiguous | kChannelsLast | kChannelsLast3d | kDense;
/// Any of these sends an op through its slow path.
constexpr uint32_t kSlowFlags =
    kRequiresGrad | kConjugate | kBatched | kDual | kWatchBase | kPythonDispatch | kNotAsPromised;

/// kInference while the thread is in inference mode.
inline uint32_t inference_flag() { return (thread_state.modes & kModeInference) ? kInference : 0u; }

struct TensorImpl {
  static constexpr int kInlineDims = 5;

  RefCount refs;
  uint32_t flags;
  Storage* storage;
  char* data;
  int64_t numel;
  AutogradMetaBase* autograd;
  void* pyobj;
  TensorImpl* base;
  DType dtype;
  uint8_t ndim;
  bool owns_pyobj;
  bool listed;  // by its deferred storage, which is notified of its end
  uint32_t batch_level;
  int64_t* dims;
  int64_t inline_[2 * kInlineDims];

  IntList sizes() const { return {dims, ndim}; }
  IntList strides() const { return {dims + (ndim > kInlineDims ? ndim : kInlineDims), ndim}; }
  int64_t* mutable_strides() { return dims + (ndim > kInlineDims ? ndim : kInlineDims); }
};
static_assert(offsetof(TensorImpl, storage) == 8 && offsetof(TensorImpl, base) == 48 &&
              offsetof(TensorImpl, dims) == 64);
static_assert(sizeof(TensorImpl) == 152);

void destroy_tensor(TensorImpl* impl);
inline void retain(TensorImpl* impl) { impl->refs.increment(); }
inline void release(TensorImpl* impl) {
  if (impl->refs.decrement()) destroy_tensor(impl);
}

class Tensor {
 public:
  Tensor() = default;
  static Tensor adopt(TensorImpl* impl) { return Tensor(Ref<TensorImpl>::adopt(impl)); }
  static Tensor share(TensorImpl* impl) { return Tensor(Ref<TensorImpl>::share(impl)); }

  bool defined() const { return static_cast<bool>(impl_); }
  TensorImpl* impl() const { return impl_.get(); }
  TensorImpl* detach_impl() { return impl_.detach(); }
  bool is_same(const Tensor& other) const { return impl_.get() == other.impl_.get(); }

  int64_t dim() const { return impl_->ndim; }
  int64_t numel() const { return impl_->numel; }
  IntList sizes() const { return impl_->sizes(); }
  IntList strides() const { return impl_->strides(); }
  /// Size of dimension `d`, which may be negative and must be in range.
  int64_t size(int64_t d) const { return impl_->dims[d < 0 ? d + impl_->ndim : d]; }
  int64_t stride(int64_t d) const { return strides()[d < 0 ? d + impl_->ndim : d]; }
  DType dtype() const { return impl_->dtype; }
  Device device() const { return impl_->storage->device; }
  int64_t item_size() const { return facula::item_size(impl_->dtype); }
  uint32_t flags() const { return impl_->flags; }
  Storage* storage() const { return impl_->storage; }
  /// Bytes from the start of the storage to the first element. Looks again where another thread has just given a
  /// deferred storage its bytes.
  int64_t byte_offset() const {
    for (;;) {
      const int64_t bytes = impl_->data - impl_->storage->data;
      if (__builtin_expect(static_cast<uint64_t>(bytes + (int64_t{1} << 54)) < (uint64_t{1} << 55), 1)) return bytes;
      std::atomic_thread_fence(std::memory_order_seq_cst);
    }
  }
  /// Elements from the start of the storage to the first element.
  int64_t storage_offset() const { return byte_offset() / item_size(); }

  template <class T = void>
  T* data() const {
    return reinterpret_cast<T*>(impl_->data);
  }
  bool is_contiguous() const { return impl_->flags & kContiguous; }
  bool is_contiguous(MemoryFormat format) const {
    uint32_t flag = format == MemoryFormat::ChannelsLast     ? kChannelsLast
                    : format == MemoryFormat::ChannelsLast3d ? kChannelsLast3d
                                                             : kContiguous;
    return impl_->flags & flag;
  }
  bool is_dense() const { return impl_->flags & kDense; }
  bool is_complex() const { return facula::is_complex(dtype()); }
  bool is_floating() const { return facula::is_floating(dtype()); }
  bool is_conj() const { return impl_->flags & kConjugate; }
  bool is_meta() const { return device().is_meta(); }
  bool is_cpu() const { return device().is_cpu(); }
  bool requires_grad() const { return impl_->flags & kRequiresGrad; }
  /// channels_last when only that describes it, else contiguous.
  MemoryFormat suggest_memory_format() const;
  /// The value of a one-element tensor; on a device with queues, waits for it.
  Scalar item() const;

 private:
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}
  Ref<TensorImpl> impl_;
};

using TensorList = List<Tensor>;

inline TensorImpl* new_impl() {
  auto* t = static_cast<TensorImpl*>(small_allocate(sizeof(TensorImpl)));
  new (&t->refs) RefCount(1);
  t->autograd = nullptr;
  t->pyobj = nullptr;
  t->base = nullptr;
  t->owns_pyobj = false;
  t->listed = false;
  t->flags = 0;
  t->dims = t->inline_;
  return t;
}

/// Sets sizes and strides, and derives numel and the layout flags; other flags stay.
void set_sizes(TensorImpl* impl, IntList sizes, IntList strides);

/// A view of `self` in the making: the caller writes `sizes` and `strides` in place, then calls finish().
class ViewBuilder {
 public:
  /// `ndim` dimensions, their values not yet set.
  ViewBuilder(const Tensor& self, int64_t ndim);
  int64_t* sizes;
  int64_t* strides;
  /// `offset` counts elements from the first element of the viewed tensor.
  Tensor finish(int64_t offset = 0);

 private:
  Tensor view_;
};

/// A tensor with uninitialized elements. Strides given must be dense.
Tensor empty(IntList sizes, DType dtype, Device device = kCPU);
Tensor empty_strided(IntList sizes, IntList strides, DType dtype, Device device = kCPU);
/// Same shape and, of a dense tensor, the same strides.
Tensor empty_like(const Tensor& self, DType dtype);

/// Same shape, contiguous, same dtype: the hot path of element-wise ops.
inline Tensor empty_like_contiguous(const TensorImpl* a, DType dtype) {
  TensorImpl* t = new_impl();
  t->storage = make_storage(static_cast<size_t>(a->numel * item_size(dtype)), a->storage->device);
  t->data = t->storage->data;
  t->flags = (a->flags & kLayoutFlags) | inference_flag();
  t->numel = a->numel;
  t->dtype = dtype;
  t->ndim = a->ndim;
  if (__builtin_expect(a->ndim <= TensorImpl::kInlineDims, 1)) {
    for (int i = 0; i < 2 * TensorImpl::kInlineDims; ++i) t->inline_[i] = a->inline_[i];
  } else {
    set_sizes(t, a->sizes(), a->strides());
  }
  return Tensor::adopt(t);
}

/// The one way from a tensor to its elements (core/materialize.cpp). Three questions are answered there:
///   - materialize(), of whatever shows strides or memory to the program: afterwards elements lie in memory in the
///     layout that was promised. Throws for what has no elements (sparse tensors).
///   - materialize_layout(), of ops that are not made for private layouts: afterwards the layout is the promised one.
///   - materialize_bytes(), of who reads or writes memory, whatever the layout: afterwards there are bytes (deferred
///     tensors, core/recipe.h). An OpScope does so for the arguments of every op.
///
/// Private layouts. An op that computes faster in another order of memory (convolution, in channels-last) may give its
/// fresh result that order beside the flag kPrivateLayout. The strides are true, so every kernel reads such a tensor
/// rightly; what the flag says is that the program was promised plain strides. Element-wise ops, and ops with
/// `layout: keep` in the schema, take it as it is and pass the flag on; all others, and whatever shows strides or
/// memory to the program, come here: the plain layout is put in place, once. Another thread may do so while a
/// kernel runs, so a kernel is given hold(tensor), whose memory nobody exchanges, and writes through a WriteScope
/// (core/write.h), which takes what was written along. Views, and other tensors on the same storage, are made of
/// materialized tensors only.
void materialize_now(const Tensor& t);
inline void materialize(const Tensor& t) {
  if (__builtin_expect(t.defined() && (t.flags() & kNotAsPromised), 0)) materialize_now(t);
}
void materialize_layout_now(const Tensor& t);
inline void materialize_layout(const Tensor& t) {
  if (__builtin_expect(t.defined() && (t.flags() & kPrivateLayout), 0)) materialize_layout_now(t);
}
inline void materialize_layout(TensorList list) {
  for (const Tensor& t : list) materialize_layout(t);
}
void materialize_bytes_now(const Tensor& t);
inline void materialize_bytes(const Tensor& t) {
  if (__builtin_expect(t.defined() && (t.flags() & kDeferred), 0)) materialize_bytes_now(t);
}
inline void materialize_bytes(TensorList list) {
  for (const Tensor& t : list) materialize_bytes(t);
}
/// `t`, or where its memory may be exchanged a tensor of its own on the memory that `t` has now.
Tensor hold_now(const Tensor& t);
inline Tensor hold(const Tensor& t) {
  return __builtin_expect(t.defined() && (t.flags() & kPrivateLayout), 0) ? hold_now(t) : t;
}
/// Flags the fresh result of an op that passes a private layout on.
inline void keep_private(const Tensor& t) {
  if (t.defined() && (t.flags() & (kContiguous | kDense)) == kDense && t.impl()->refs.load() == 1)
    t.impl()->flags |= kPrivateLayout;
}

/// Another tensor on the storage of `self`; `offset` counts elements from the first element of `self`.
/// A tracked view remembers the root of its chain so that in-place writes reach it in autograd.
Tensor make_view(const Tensor& self, IntList sizes, IntList strides, int64_t offset = 0, bool tracked = true);
/// A tensor on `storage` from `offset` elements on; checks that it fits.
Tensor tensor_on_storage(Storage* storage, DType dtype, int64_t offset, IntList sizes, IntList strides, const char* op);
/// The same tensor without history: shares storage and version, has no base.
Tensor alias(const Tensor& self);
/// The tensor as an example of vmap `level`; `value` has the batch in front. Here, because copies of an example are
/// examples, too; all else about them is in autograd/batching.h.
Tensor make_batched(const Tensor& value, uint32_t level);
/// A contiguous tensor holding one number.
Tensor scalar_tensor(const Scalar& value, DType dtype, Device device = kCPU);

/// Bytes from the data pointer to the lowest and past the highest element, for overlap checks.
struct Extent {
  int64_t low, high;
};
Extent byte_extent(const Tensor& self);
/// Whether storages have bytes in common: one and the same, or two over the same bytes (`.data`, another library's).
bool share_bytes(const Storage* a, const Storage* b);
/// Throws when `out` and `in` share memory without being the same view.
void check_no_partial_overlap(const Tensor& out, const Tensor& in, const char* op);

}  // namespace facula
