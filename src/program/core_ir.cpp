// Operators of PyTorch's that are ops of the schema under other names and with other arguments: operators of Python,
// and transforms of its core IR.
#include "functions.h"
#include "program/boxing.h"

namespace facula {
namespace {

Tensor type_as(const Tensor& self, const Tensor& other) {
  if (self.device() == other.device()) return to_dtype(self, other.dtype());
  return _to_device(self, other.device(), other.dtype());
}

Tensor all_of(const Tensor& self) { return all(self); }

// Which power of the number of elements transforms are divided by: 0, a half or 1.
std::string_view forward_norm(int64_t normalization) {
  return normalization == 0 ? "backward" : normalization == 1 ? "ortho" : "forward";
}
std::string_view backward_norm(int64_t normalization) {
  return normalization == 0 ? "forward" : normalization == 1 ? "ortho" : "backward";
}
Tensor fft_r2c(const Tensor& self, IntList dim, int64_t normalization, bool onesided) {
  if (onesided) return fft_rfftn(self, std::nullopt, dim, forward_norm(normalization));
  return fft_fftn(self, std::nullopt, dim, forward_norm(normalization));
}
Tensor fft_c2r(const Tensor& self, IntList dim, int64_t normalization, int64_t last_dim_size) {
  FACULA_CHECK(!dim.empty(), ErrorKind::Value, "_fft_c2r: dim must name a dimension, got none");
  std::vector<int64_t> sizes;
  for (int64_t d : dim) sizes.push_back(self.size(wrap_dim(d, self.dim(), "_fft_c2r")));
  sizes.back() = last_dim_size;
  return fft_irfftn(self, IntList(sizes), dim, backward_norm(normalization));
}

using Binary = Tensor(const Tensor&, const Operand&);
template <Tensor (*op)(const Operand&, const Operand&)>
Tensor binary(const Tensor& self, const Operand& other) {
  return op(self, other);
}

using boxing::box;
constexpr const char* kTensors = "Tensor self, Tensor other";
constexpr const char* kNumber = "Tensor self, Scalar other";

const BuiltinRow kCoreIrRows[] = {
    {"type_as", "", kTensors, "Tensor", "type_as.default", box<Tensor(const Tensor&, const Tensor&)>(type_as)},
    {"__and__", "Tensor", kTensors, "Tensor", "__and__.Tensor", box<Binary>(binary<bitwise_and>)},
    {"__and__", "Scalar", kNumber, "Tensor", "__and__.Scalar", box<Binary>(binary<bitwise_and>)},
    {"__or__", "Tensor", kTensors, "Tensor", "__or__.Tensor", box<Binary>(binary<bitwise_or>)},
    {"__or__", "Scalar", kNumber, "Tensor", "__or__.Scalar", box<Binary>(binary<bitwise_or>)},
    {"__xor__", "Tensor", kTensors, "Tensor", "__xor__.Tensor", box<Binary>(binary<bitwise_xor>)},
    {"__xor__", "Scalar", kNumber, "Tensor", "__xor__.Scalar", box<Binary>(binary<bitwise_xor>)},
    {"_core_all", "", "Tensor self", "Tensor", "all.default", box<Tensor(const Tensor&)>(all_of)},
    {"_core_fft_r2c", "", "Tensor self, int[] dim, int normalization, bool onesided", "Tensor", "_fft_r2c.default",
     box<Tensor(const Tensor&, IntList, int64_t, bool)>(fft_r2c)},
    {"_core_fft_c2r", "", "Tensor self, int[] dim, int normalization, int last_dim_size", "Tensor", "_fft_c2r.default",
     box<Tensor(const Tensor&, IntList, int64_t, int64_t)>(fft_c2r)},
};

}  // namespace

std::span<const BuiltinRow> core_ir_rows() { return kCoreIrRows; }

}  // namespace facula
