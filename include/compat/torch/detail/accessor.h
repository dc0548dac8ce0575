// Elements of a tensor by their indices, without an op for each; and what a tensor says of its type as a whole.
#pragma once

#include <torch/detail/types.h>

namespace torch {

template <class T>
struct DefaultPtrTraits {
  using PtrType = T*;
};
template <class T>
struct RestrictPtrTraits {
  using PtrType = T* __restrict__;
};

/// How many elements of a tensor an accessor has walked past: `accessor[i][j]` ends in a reference to an element.
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits, class index_t = int64_t>
class TensorAccessor {
 public:
  using PtrType = typename PtrTraits<T>::PtrType;
  TensorAccessor(PtrType data, const index_t* sizes, const index_t* strides)
      : data_(data), sizes_(sizes), strides_(strides) {}
  decltype(auto) operator[](index_t i) const {
    if constexpr (N == 1) return static_cast<T&>(data_[i * strides_[0]]);
    else return TensorAccessor<T, N - 1, PtrTraits, index_t>(data_ + i * strides_[0], sizes_ + 1, strides_ + 1);
  }
  ArrayRef<index_t> sizes() const { return {sizes_, N}; }
  ArrayRef<index_t> strides() const { return {strides_, N}; }
  index_t size(index_t d) const { return sizes_[d]; }
  index_t stride(index_t d) const { return strides_[d]; }
  PtrType data() const { return data_; }

 private:
  PtrType data_;
  const index_t *sizes_, *strides_;
};

/// The same with sizes and strides of its own, so that it can be handed on by value.
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits, class index_t = int64_t>
class PackedTensorAccessor {
 public:
  using PtrType = typename PtrTraits<T>::PtrType;
  PackedTensorAccessor(PtrType data, const int64_t* sizes, const int64_t* strides) : data_(data) {
    for (size_t d = 0; d < N; ++d) {
      sizes_[d] = static_cast<index_t>(sizes[d]);
      strides_[d] = static_cast<index_t>(strides[d]);
    }
  }
  decltype(auto) operator[](index_t i) const {
    if constexpr (N == 1) return static_cast<T&>(data_[i * strides_[0]]);
    else return TensorAccessor<T, N - 1, PtrTraits, index_t>(data_ + i * strides_[0], sizes_ + 1, strides_ + 1);
  }
  index_t size(index_t d) const { return sizes_[d]; }
  index_t stride(index_t d) const { return strides_[d]; }
  PtrType data() const { return data_; }

 private:
  PtrType data_;
  index_t sizes_[N], strides_[N];
};
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor32 = PackedTensorAccessor<T, N, PtrTraits, int32_t>;
template <class T, size_t N, template <class> class PtrTraits = DefaultPtrTraits>
using PackedTensorAccessor64 = PackedTensorAccessor<T, N, PtrTraits, int64_t>;

/// What `tensor.type()` gives: dtype and device.
class DeprecatedTypeProperties {
 public:
  DeprecatedTypeProperties(ScalarType type, Device device) : type_(type), device_(device) {}
  ScalarType scalarType() const { return type_; }
  TypeMeta typeMeta() const { return type_; }
  DeviceType device_type() const { return device_.type(); }
  bool is_cuda() const { return device_.is_cuda(); }
  bool is_sparse() const { return false; }
  TensorOptions options() const { return TensorOptions(device_).dtype(type_); }
  std::string toString() const;
  bool operator==(const DeprecatedTypeProperties& other) const {
    return type_ == other.type_ && device_.type() == other.device_.type();
  }

 private:
  ScalarType type_;
  Device device_;
};
inline std::ostream& operator<<(std::ostream& out, const DeprecatedTypeProperties& type) {
  return out << type.toString();
}

}  // namespace torch
