// What stands between the brackets of x.index({...}): integers, slices, None, Ellipsis, bools and tensors.
#pragma once

#include <torch/detail/operators.h>

namespace torch::indexing {

constexpr int64_t INDEX_MIN = INT64_MIN, INDEX_MAX = INT64_MAX;
enum class EllipsisIndexType { Ellipsis };
constexpr EllipsisIndexType Ellipsis = EllipsisIndexType::Ellipsis;
constexpr nullopt_t None = nullopt;

class Slice {
 public:
  Slice(optional<int64_t> start = nullopt, optional<int64_t> stop = nullopt, optional<int64_t> step = nullopt)
      : start_(start), stop_(stop), step_(step.value_or(1)) {}
  optional<int64_t> start() const { return start_; }
  optional<int64_t> stop() const { return stop_; }
  int64_t step() const { return step_; }

 private:
  optional<int64_t> start_, stop_;
  int64_t step_;
};

enum class TensorIndexType { None, Ellipsis, Integer, Boolean, Slice, Tensor };

class TensorIndex {
 public:
  TensorIndex(nullopt_t) : type_(TensorIndexType::None) {}
  TensorIndex(EllipsisIndexType) : type_(TensorIndexType::Ellipsis) {}
  TensorIndex(const char* text);  // "..."
  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  TensorIndex(T number) : type_(TensorIndexType::Integer), number_(static_cast<int64_t>(number)) {}
  template <class T>
    requires std::is_same_v<T, bool>
  TensorIndex(T yes) : type_(TensorIndexType::Boolean), number_(yes) {}
  TensorIndex(Slice slice) : type_(TensorIndexType::Slice), slice_(slice) {}
  TensorIndex(Tensor tensor) : type_(TensorIndexType::Tensor), tensor_(std::move(tensor)) {}
  TensorIndexType type() const { return type_; }
  bool is_tensor() const { return type_ == TensorIndexType::Tensor; }
  int64_t integer() const { return number_; }
  bool boolean() const { return number_ != 0; }
  const Slice& slice() const { return slice_; }
  const Tensor& tensor() const { return tensor_; }

 private:
  TensorIndexType type_;
  int64_t number_ = 0;
  Slice slice_;
  Tensor tensor_;
};

}  // namespace torch::indexing

namespace torch {
inline Tensor Tensor::index(std::initializer_list<indexing::TensorIndex> indices) const {
  return index(ArrayRef<indexing::TensorIndex>(indices));
}
inline Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices, const Tensor& values) const {
  return index_put_(ArrayRef<indexing::TensorIndex>(indices), values);
}
inline Tensor& Tensor::index_put_(std::initializer_list<indexing::TensorIndex> indices, const Scalar& value) const {
  return index_put_(ArrayRef<indexing::TensorIndex>(indices), value);
}
}  // namespace torch
