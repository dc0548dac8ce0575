// torch::Tensor: one facula::Tensor, with libtorch's methods. Those of the op schema are generated (detail/methods.h).
#pragma once

#include <torch/detail/accessor.h>

#include <functional>
#include <memory>

#include "core/tensor.h"

namespace facula {
class Node;
}

namespace torch {

class Tensor;
using TensorList = ArrayRef<Tensor>;
namespace autograd {
class Node;
}
namespace indexing {
class TensorIndex;
}

class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(facula::Tensor core) : core_(std::move(core)) {}
  /// The tensor underneath.
  const facula::Tensor& core() const { return core_; }

  // ---- what it is
  bool defined() const { return core_.defined(); }
  bool has_storage() const { return defined(); }
  bool is_same(const Tensor& other) const { return core_.is_same(other.core_); }
  void reset() { core_ = facula::Tensor(); }
  int64_t dim() const { return known().dim(); }
  int64_t ndimension() const { return dim(); }
  int64_t numel() const { return known().numel(); }
  IntArrayRef sizes() const { return known().sizes(); }
  IntArrayRef strides() const;
  int64_t size(int64_t dim) const;
  int64_t stride(int64_t dim) const;
  ScalarType scalar_type() const { return detail::scalar_type_of(known().dtype()); }
  TypeMeta dtype() const { return scalar_type(); }
  DeprecatedTypeProperties type() const { return {scalar_type(), device()}; }
  size_t itemsize() const { return static_cast<size_t>(known().item_size()); }
  int64_t element_size() const { return known().item_size(); }
  size_t nbytes() const { return static_cast<size_t>(numel() * element_size()); }
  int64_t storage_offset() const;
  Device device() const { return detail::device_from(known().device()); }
  int64_t get_device() const { return is_cpu() ? -1 : device().index(); }
  Layout layout() const { return kStrided; }
  TensorOptions options() const { return TensorOptions().dtype(scalar_type()).device(device()); }
  bool is_cpu() const { return known().is_cpu(); }
  bool is_cuda() const { return device().is_cuda(); }
  bool is_meta() const { return known().is_meta(); }
  bool is_sparse() const { return false; }
  bool is_quantized() const { return false; }
  bool is_floating_point() const { return known().is_floating(); }
  bool is_complex() const { return known().is_complex(); }
  bool is_signed() const { return facula::is_signed(known().dtype()); }
  bool is_conj() const { return known().is_conj(); }
  bool is_inference() const { return known().flags() & facula::kInference; }
  bool is_contiguous(MemoryFormat format = MemoryFormat::Contiguous) const;
  bool is_non_overlapping_and_dense() const { return known().is_dense(); }
  MemoryFormat suggest_memory_format() const;
  std::string toString() const;
  void print() const;

  // ---- its elements
  void* data_ptr() const;
  const void* const_data_ptr() const { return data_ptr(); }
  void* mutable_data_ptr() const { return data_ptr(); }
  template <class T>
  T* data_ptr() const {
    check_type(CppTypeToScalarType<T>::of());
    return static_cast<T*>(data_ptr());
  }
  template <class T>
  const T* const_data_ptr() const {
    return data_ptr<std::remove_const_t<T>>();
  }
  template <class T>
  T* mutable_data_ptr() const {
    return data_ptr<T>();
  }
  template <class T, size_t N>
  TensorAccessor<T, N> accessor() const {
    T* data = data_ptr<T>();
    check_dims(static_cast<int64_t>(N));
    return {data, sizes().data(), strides().data()};
  }
  template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, PtrTraits> packed_accessor64() const {
    T* data = data_ptr<T>();
    check_dims(static_cast<int64_t>(N));
    return {data, sizes().data(), strides().data()};
  }
  /// For tensors of fewer elements than 32 bits count.
  template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
  PackedTensorAccessor32<T, N, PtrTraits> packed_accessor32() const {
    check_short();
    T* data = data_ptr<T>();
    check_dims(static_cast<int64_t>(N));
    return {data, sizes().data(), strides().data()};
  }
  template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
  PackedTensorAccessor64<T, N, PtrTraits> packed_accessor() const {
    return packed_accessor64<T, N, PtrTraits>();
  }
  template <class T>
  T* data() const {
    return data_ptr<T>();
  }
  Scalar item() const { return Scalar(known().item()); }
  template <class T>
  T item() const {
    return item().to<T>();
  }

  // ---- gradients
  bool requires_grad() const;
  const Tensor& set_requires_grad(bool yes) const;
  Tensor& requires_grad_(bool yes = true) const {
    set_requires_grad(yes);
    return const_cast<Tensor&>(*this);
  }
  bool is_leaf() const;
  void retain_grad() const;
  bool retains_grad() const;
  Tensor grad() const;
  /// The gradient's place itself, which can be assigned to.
  Tensor& mutable_grad() const;
  std::shared_ptr<autograd::Node> grad_fn() const;
  void backward(const Tensor& gradient = {}, optional<bool> retain_graph = nullopt, bool create_graph = false,
                optional<TensorList> inputs = nullopt) const;
  template <class F>
  unsigned register_hook(F&& hook) const {
    if constexpr (std::is_void_v<decltype(hook(std::declval<Tensor>()))>) {
      return add_hook([hook = std::forward<F>(hook)](const Tensor& grad) {
        hook(grad);
        return Tensor();
      });
    } else {
      return add_hook(std::forward<F>(hook));
    }
  }
  void remove_hook(unsigned number) const;
  Tensor detach() const;
  Tensor& detach_() const;
  Tensor data() const;
  Tensor tensor_data() const { return data(); }
  Tensor variable_data() const { return data(); }
  void set_data(const Tensor& source) const;
  int64_t output_nr() const;
  int64_t _version() const;
  bool is_view() const;
  std::string name() const { return ""; }

  // ---- elsewhere, or in another dtype
  Tensor to(const TensorOptions& options = {}, bool non_blocking = false, bool copy = false,
            optional<MemoryFormat> format = nullopt) const;
  Tensor to(Device device, ScalarType dtype, bool non_blocking = false, bool copy = false,
            optional<MemoryFormat> format = nullopt) const;
  Tensor to(ScalarType dtype, bool non_blocking = false, bool copy = false,
            optional<MemoryFormat> format = nullopt) const;
  Tensor to(const Tensor& other, bool non_blocking = false, bool copy = false,
            optional<MemoryFormat> format = nullopt) const;
  Tensor toType(ScalarType dtype) const { return to(dtype); }
  Tensor type_as(const Tensor& other) const { return to(other.options()); }
  Tensor cpu() const { return to(Device(kCPU)); }
  Tensor cuda() const { return to(Device(kCUDA)); }
  Tensor pin_memory() const;
  bool is_pinned() const;

  // ---- parts
  Tensor operator[](int64_t index) const;
  Tensor operator[](const Scalar& index) const;
  Tensor operator[](const Tensor& index) const;
  Tensor slice(int64_t dim = 0, optional<int64_t> start = nullopt, optional<int64_t> end = nullopt,
               int64_t step = 1) const;
  Tensor index(ArrayRef<indexing::TensorIndex> indices) const;
  Tensor index(std::initializer_list<indexing::TensorIndex> indices) const;
  Tensor index(const std::vector<optional<Tensor>>& indices) const;
  Tensor& index_put_(ArrayRef<indexing::TensorIndex> indices, const Tensor& values) const;
  Tensor& index_put_(ArrayRef<indexing::TensorIndex> indices, const Scalar& value) const;
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices, const Tensor& values) const;
  Tensor& index_put_(std::initializer_list<indexing::TensorIndex> indices, const Scalar& value) const;
  Tensor& index_put_(const std::vector<optional<Tensor>>& indices, const Tensor& values, bool accumulate = false) const;
  Tensor index_put(const std::vector<optional<Tensor>>& indices, const Tensor& values, bool accumulate = false) const;

  // ---- what the schema states otherwise
  Tensor norm(const Scalar& p = 2) const;
  Tensor norm(const optional<Scalar>& p, IntArrayRef dim, bool keepdim = false) const;
  Tensor norm(const optional<Scalar>& p, IntArrayRef dim, bool keepdim, ScalarType dtype) const;
  Tensor norm(const optional<Scalar>& p, ScalarType dtype) const;
  bool equal(const Tensor& other) const;
  bool is_nonzero() const { return item().toBool(); }
  bool is_same_size(const Tensor& other) const { return sizes().equals(other.sizes()); }
  Tensor numpy_T() const;
  Tensor mT() const { return transpose(-2, -1); }
  Tensor mH() const { return adjoint(); }
  Tensor H() const { return adjoint(); }

#include <torch/detail/methods.h>

  Tensor operator-() const { return neg(); }
  Tensor operator~() const { return bitwise_not(); }
  Tensor& operator+=(const Tensor& other) { return add_(other); }
  Tensor& operator+=(const Scalar& other) { return add_(other); }
  Tensor& operator-=(const Tensor& other) { return sub_(other); }
  Tensor& operator-=(const Scalar& other) { return sub_(other); }
  Tensor& operator*=(const Tensor& other) { return mul_(other); }
  Tensor& operator*=(const Scalar& other) { return mul_(other); }
  Tensor& operator/=(const Tensor& other) { return div_(other); }
  Tensor& operator/=(const Scalar& other) { return div_(other); }
  Tensor& operator&=(const Tensor& other) { return bitwise_and_(other); }
  Tensor& operator|=(const Tensor& other) { return bitwise_or_(other); }
  Tensor& operator^=(const Tensor& other) { return bitwise_xor_(other); }

  Tensor(const Tensor&) = default;
  Tensor(Tensor&&) = default;
  /// Assigning to a handle that is kept makes it another tensor; `x[0] = y`, whose left side nobody keeps, writes.
  Tensor& operator=(const Tensor& other) & = default;
  Tensor& operator=(Tensor&& other) & = default;
  Tensor& operator=(const Tensor& other) && {
    copy_(other);
    return *this;
  }
  Tensor& operator=(Tensor&& other) && {
    copy_(other);
    return *this;
  }
  Tensor& operator=(const Scalar& number) && {
    fill_(number);
    return *this;
  }

 private:
  const facula::Tensor& known() const {
    if (__builtin_expect(!core_.defined(), 0)) refuse_undefined();
    return core_;
  }
  [[noreturn]] static void refuse_undefined();
  void check_type(ScalarType type) const;
  void check_dims(int64_t dims) const;
  void check_short() const;
  unsigned add_hook(std::function<Tensor(const Tensor&)> hook) const;
  friend const facula::Tensor& detail_known(const Tensor& t);

  facula::Tensor core_;
};
static_assert(sizeof(Tensor) == sizeof(facula::Tensor));  // lists of the one are lists of the other
inline const facula::Tensor& detail_known(const Tensor& t) { return t.known(); }

std::ostream& print(std::ostream& out, const Tensor& tensor, int64_t line_size);
inline std::ostream& operator<<(std::ostream& out, const Tensor& tensor) { return print(out, tensor, 80); }

}  // namespace torch
