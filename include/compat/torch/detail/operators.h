// Operators, the functions that the schema states otherwise, and tensors of given values.
#pragma once

#include <torch/detail/ops.h>

namespace torch {

#define TORCH_BINARY(symbol, name)                                                              \
  inline Tensor operator symbol(const Tensor& a, const Tensor& b) { return torch::name(a, b); } \
  inline Tensor operator symbol(const Tensor& a, const Scalar& b) { return torch::name(a, b); }
TORCH_BINARY(+, add)
TORCH_BINARY(-, sub)
TORCH_BINARY(*, mul)
TORCH_BINARY(/, div)
TORCH_BINARY(%, remainder)
TORCH_BINARY(&, bitwise_and)
TORCH_BINARY(|, bitwise_or)
TORCH_BINARY(^, bitwise_xor)
TORCH_BINARY(<<, bitwise_left_shift)
TORCH_BINARY(>>, bitwise_right_shift)
TORCH_BINARY(==, eq)
TORCH_BINARY(!=, ne)
TORCH_BINARY(<, lt)
TORCH_BINARY(<=, le)
TORCH_BINARY(>, gt)
TORCH_BINARY(>=, ge)
#undef TORCH_BINARY
#define TORCH_REFLECTED(symbol, name) \
  inline Tensor operator symbol(const Scalar& a, const Tensor& b) { return torch::name(a, b); }
TORCH_REFLECTED(+, add)
TORCH_REFLECTED(-, sub)
TORCH_REFLECTED(*, mul)
TORCH_REFLECTED(/, div)
TORCH_REFLECTED(%, remainder)
TORCH_REFLECTED(&, bitwise_and)
TORCH_REFLECTED(|, bitwise_or)
TORCH_REFLECTED(^, bitwise_xor)
#undef TORCH_REFLECTED
inline Tensor operator==(const Scalar& a, const Tensor& b) { return torch::eq(b, a); }
inline Tensor operator!=(const Scalar& a, const Tensor& b) { return torch::ne(b, a); }
inline Tensor operator<(const Scalar& a, const Tensor& b) { return torch::gt(b, a); }
inline Tensor operator<=(const Scalar& a, const Tensor& b) { return torch::ge(b, a); }
inline Tensor operator>(const Scalar& a, const Tensor& b) { return torch::lt(b, a); }
inline Tensor operator>=(const Scalar& a, const Tensor& b) { return torch::le(b, a); }
inline Tensor operator!(const Tensor& a) { return torch::logical_not(a); }

inline Tensor norm(const Tensor& self, const Scalar& p = 2) { return self.norm(p); }
inline Tensor norm(const Tensor& self, const optional<Scalar>& p, IntArrayRef dim, bool keepdim = false) {
  return self.norm(p, dim, keepdim);
}
inline Tensor norm(const Tensor& self, const optional<Scalar>& p, IntArrayRef dim, bool keepdim, ScalarType dtype) {
  return self.norm(p, dim, keepdim, dtype);
}
inline bool equal(const Tensor& self, const Tensor& other) { return self.equal(other); }
inline Tensor rsub(const Tensor& self, const Tensor& other, const Scalar& alpha = 1) { return sub(other, self, alpha); }
inline Tensor rsub(const Tensor& self, const Scalar& other, const Scalar& alpha = 1) { return sub(other, self, alpha); }
Tensor index(const Tensor& self, const std::vector<optional<Tensor>>& indices);
inline Tensor detach(const Tensor& self) { return self.detach(); }
Tensor slice(const Tensor& self, int64_t dim = 0, optional<int64_t> start = nullopt, optional<int64_t> end = nullopt,
             int64_t step = 1);
/// So many numbers from the one to the other; of logspace, powers of the base.
Tensor linspace(const Scalar& start, const Scalar& end, int64_t steps, const TensorOptions& options = {});
Tensor logspace(const Scalar& start, const Scalar& end, int64_t steps, double base = 10.0,
                const TensorOptions& options = {});
std::vector<Tensor> where(const Tensor& condition);
#define TORCH_PAD(Kind, word)                                                                                    \
  inline Tensor Kind##1d(const Tensor& self, IntArrayRef padding) { return torch::pad(self, padding, word); }    \
  inline Tensor Kind##2d(const Tensor& self, IntArrayRef padding) { return torch::pad(self, padding, word); }    \
  inline Tensor Kind##3d(const Tensor& self, IntArrayRef padding) { return torch::pad(self, padding, word); }
TORCH_PAD(reflection_pad, "reflect")
TORCH_PAD(replication_pad, "replicate")
#undef TORCH_PAD
// Values without those that are there before, where each stands among them, and how often each is there; what is not
// asked for is empty.
using Unique = std::tuple<Tensor, Tensor, Tensor>;
std::tuple<Tensor, Tensor> _unique(const Tensor& self, bool sorted = true, bool return_inverse = false);
Unique _unique2(const Tensor& self, bool sorted = true, bool return_inverse = false, bool return_counts = false);
Unique unique_dim(const Tensor& self, int64_t dim, bool sorted = true, bool return_inverse = false,
                  bool return_counts = false);
Unique unique_consecutive(const Tensor& self, bool return_inverse = false, bool return_counts = false,
                          optional<int64_t> dim = nullopt);
Unique unique_dim_consecutive(const Tensor& self, int64_t dim, bool return_inverse = false,
                              bool return_counts = false);
inline bool is_floating_point(const Tensor& self) { return self.is_floating_point(); }
inline bool is_complex(const Tensor& self) { return self.is_complex(); }
inline bool is_nonzero(const Tensor& self) { return self.is_nonzero(); }
inline bool is_same_size(const Tensor& self, const Tensor& other) { return self.is_same_size(other); }
Tensor einsum(std::string_view equation, TensorList operands);
Tensor tensordot(const Tensor& self, const Tensor& other, IntArrayRef dims_self, IntArrayRef dims_other);
Tensor nll_loss(const Tensor& self, const Tensor& target, const optional<Tensor>& weight = nullopt,
                int64_t reduction = Reduction::Mean, int64_t ignore_index = -100);
Tensor nll_loss2d(const Tensor& self, const Tensor& target, const optional<Tensor>& weight = nullopt,
                  int64_t reduction = Reduction::Mean, int64_t ignore_index = -100);
Tensor cross_entropy_loss(const Tensor& self, const Tensor& target, const optional<Tensor>& weight = nullopt,
                          int64_t reduction = Reduction::Mean, int64_t ignore_index = -100,
                          double label_smoothing = 0.0);
Tensor hinge_embedding_loss(const Tensor& self, const Tensor& target, double margin = 1.0,
                            int64_t reduction = Reduction::Mean);
Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target, double margin = 0.0,
                           int64_t reduction = Reduction::Mean);
Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target, double margin = 0.0,
                             int64_t reduction = Reduction::Mean);
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative, double margin = 1.0,
                           double p = 2, double eps = 1e-6, bool swap = false, int64_t reduction = Reduction::Mean);
Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, bool log_input, bool full, double eps,
                        int64_t reduction);

/// A tensor on memory of somebody else's, which has to outlive it, or is given back by `deleter`.
Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options = {});
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options = {});
Tensor from_blob(void* data, IntArrayRef sizes, const std::function<void(void*)>& deleter,
                 const TensorOptions& options = {});
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const std::function<void(void*)>& deleter,
                 const TensorOptions& options = {});

namespace detail {

/// What torch::tensor() is given: a number, or a braced list of such, or a list of numbers.
class TensorData {
 public:
  template <class T>
    requires std::is_arithmetic_v<T>
  TensorData(T number) : type_(CppTypeToScalarType<T>::of()), number_(number) {}
  template <class T>
  TensorData(std::complex<T> number) : type_(CppTypeToScalarType<std::complex<T>>::of()), number_(number) {}
  TensorData(std::initializer_list<TensorData> list);
  template <class T>
    requires std::is_arithmetic_v<T>
  TensorData(ArrayRef<T> values) : TensorData(values.data(), values.size(), CppTypeToScalarType<T>::of()) {}
  template <class T>
    requires(std::is_arithmetic_v<T> && !std::is_same_v<T, bool>)
  TensorData(const std::vector<T>& values) : TensorData(ArrayRef<T>(values)) {}
  template <class T>
  TensorData(const std::vector<std::complex<T>>& values)
      : TensorData(values.data(), values.size(), CppTypeToScalarType<std::complex<T>>::of()) {}
  Tensor made(TensorOptions options) const;

 private:
  TensorData(const void* values, size_t count, ScalarType type);
  void fill(const Tensor& part) const;
  ScalarType type_ = ScalarType::Undefined;
  Scalar number_;
  bool is_list_ = false;
  std::vector<TensorData> list_;
  std::vector<int64_t> sizes_;
  Tensor values_;
};

}  // namespace detail

inline Tensor tensor(detail::TensorData values, const TensorOptions& options = {}) { return values.made(options); }

std::ostream& operator<<(std::ostream& out, const std::vector<Tensor>& list);

}  // namespace torch
