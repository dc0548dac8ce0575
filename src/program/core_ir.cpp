// Operators of PyTorch's core IR, and second names in its training IR, that are ops of the schema with other arguments.
#include "functions.h"
#include "program/boxing.h"

namespace facula {
namespace {

Tensor type_as(const Tensor& self, const Tensor& other) {
  if (self.device() == other.device()) return to_dtype(self, other.dtype());
  return _to_device(self, other.device(), other.dtype());
}

Tensor pdist_forward(const Tensor& self, double p) { return pdist(self, p); }
Tensor any_of(const Tensor& self) { return any(self); }
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

Tensor add_number(const Tensor& self, const Scalar& other, const Scalar& alpha) { return add(self, other, alpha); }
Tensor sub_number(const Tensor& self, const Scalar& other, const Scalar& alpha) { return sub(self, other, alpha); }
Tensor div_rounded(const Tensor& self, const Scalar& other, std::optional<std::string_view> mode) {
  return div(self, other, mode);
}
using Binary = Tensor(const Tensor&, const Operand&);
template <Tensor (*op)(const Operand&, const Operand&)>
Tensor binary(const Tensor& self, const Operand& other) {
  return op(self, other);
}

using boxing::box;
constexpr const char* kTensors = "Tensor self, Tensor other";
constexpr const char* kNumber = "Tensor self, Scalar other";

const BuiltinRow rows[] = {
    {"type_as", "", kTensors, "Tensor", "type_as.default", box<Tensor(const Tensor&, const Tensor&)>(type_as)},
    {"__and__", "Tensor", kTensors, "Tensor", "__and__.Tensor", box<Binary>(binary<bitwise_and>)},
    {"__and__", "Scalar", kNumber, "Tensor", "__and__.Scalar", box<Binary>(binary<bitwise_and>)},
    {"__or__", "Tensor", kTensors, "Tensor", "__or__.Tensor", box<Binary>(binary<bitwise_or>)},
    {"__or__", "Scalar", kNumber, "Tensor", "__or__.Scalar", box<Binary>(binary<bitwise_or>)},
    {"__xor__", "Tensor", kTensors, "Tensor", "__xor__.Tensor", box<Binary>(binary<bitwise_xor>)},
    {"__xor__", "Scalar", kNumber, "Tensor", "__xor__.Scalar", box<Binary>(binary<bitwise_xor>)},
    {"_core_add", "Scalar", "Tensor self, Scalar other, Scalar alpha=1", "Tensor", "add.Scalar",
     box<Tensor(const Tensor&, const Scalar&, const Scalar&)>(add_number)},
    {"_core_sub", "Scalar", "Tensor self, Scalar other, Scalar alpha=1", "Tensor", "sub.Scalar",
     box<Tensor(const Tensor&, const Scalar&, const Scalar&)>(sub_number)},
    {"_core_mul", "Scalar", kNumber, "Tensor", "mul.Scalar", box<Binary>(binary<mul>)},
    {"_core_div", "Scalar", kNumber, "Tensor", "div.Scalar", box<Binary>(binary<div>)},
    {"_core_div", "Scalar_mode", "Tensor self, Scalar other, *, str? rounding_mode", "Tensor", "div.Scalar_mode",
     box<Tensor(const Tensor&, const Scalar&, std::optional<std::string_view>)>(div_rounded)},
    {"_core_any", "", "Tensor self", "Tensor", "any.default", box<Tensor(const Tensor&)>(any_of)},
    {"_core_all", "", "Tensor self", "Tensor", "all.default", box<Tensor(const Tensor&)>(all_of)},
    {"_adaptive_avg_pool2d", "", "Tensor self, int[2] output_size", "Tensor", "_adaptive_avg_pool2d.default",
     box<Tensor(const Tensor&, IntList)>(adaptive_avg_pool2d)},
    {"_adaptive_avg_pool3d", "", "Tensor self, int[3] output_size", "Tensor", "_adaptive_avg_pool3d.default",
     box<Tensor(const Tensor&, IntList)>(adaptive_avg_pool3d)},
    {"_pdist_forward", "", "Tensor self, float p=2.0", "Tensor", "_pdist_forward.default",
     box<Tensor(const Tensor&, double)>(pdist_forward)},
    {"_fft_r2c", "", "Tensor self, int[] dim, int normalization, bool onesided", "Tensor", "_fft_r2c.default",
     box<Tensor(const Tensor&, IntList, int64_t, bool)>(fft_r2c)},
    {"_fft_c2r", "", "Tensor self, int[] dim, int normalization, int last_dim_size", "Tensor", "_fft_c2r.default",
     box<Tensor(const Tensor&, IntList, int64_t, int64_t)>(fft_c2r)},
};

}  // namespace

std::span<const BuiltinRow> core_ir_rows() { return rows; }

}  // namespace facula
