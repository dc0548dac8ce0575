// Soft-max with its options.
#include "functions.h"
#include "ops/out.h"

namespace facula {
namespace {

Tensor in_dtype(const Tensor& self, std::optional<DType> dtype) {
  return dtype && *dtype != self.dtype() ? to_dtype(self, *dtype) : self;
}

// The dimension taken when none is given.
int64_t implicit_dim(const Tensor& self, std::optional<int64_t> dim, const char* op) {
  if (dim) return *dim;
  if (host.warn) {
    std::ostringstream text;
    text << op << ": dim is chosen implicitly, which is deprecated; give dim, got None";
    host.warn(text.str().c_str());
  }
  return self.dim() == 0 || self.dim() == 1 || self.dim() == 3 ? 0 : 1;
}

}  // namespace

Tensor softmax_uncast(const Tensor& self, int64_t dim, std::optional<DType> dtype) {
  wrap_dim(dim, self.dim(), "softmax");
  return _softmax(in_dtype(self, dtype), dim);
}
Tensor log_softmax_uncast(const Tensor& self, int64_t dim, std::optional<DType> dtype) {
  wrap_dim(dim, self.dim(), "log_softmax");
  return _log_softmax(in_dtype(self, dtype), dim);
}

Tensor functional_softmax(const Tensor& self, std::optional<int64_t> dim, int64_t, std::optional<DType> dtype) {
  return softmax(self, implicit_dim(self, dim, "softmax"), dtype);
}
Tensor functional_log_softmax(const Tensor& self, std::optional<int64_t> dim, int64_t, std::optional<DType> dtype) {
  return log_softmax(self, implicit_dim(self, dim, "log_softmax"), dtype);
}
Tensor functional_softmin(const Tensor& self, std::optional<int64_t> dim, int64_t, std::optional<DType> dtype) {
  return softmax(neg(self), implicit_dim(self, dim, "softmin"), dtype);
}

}  // namespace facula
