// What programs need besides the ops of the schema: sizes and integers as values, and forms of PyTorch's operators with
// other arguments than Facula's.
#include "functions.h"
#include "program/boxing.h"
#include "program/recurrent.h"

namespace facula {
namespace {

int64_t sym_size(const Tensor& self, int64_t dim) { return self.size(wrap_dim(dim, self.dim(), "sym_size")); }
int64_t sym_numel(const Tensor& self) { return self.numel(); }
int64_t sym_stride(const Tensor& self, int64_t dim) { return self.stride(wrap_dim(dim, self.dim(), "sym_stride")); }
int64_t sym_storage_offset(const Tensor& self) { return self.storage_offset(); }

// Integers. Expressions know about numbers that leave 64 bits.
template <Expr (*op)(const Expr&, const Expr&)>
int64_t of_integers(int64_t a, int64_t b) {
  const Expr made = op(Expr(a), Expr(b));
  FACULA_CHECK(made.is_integer(), ErrorKind::Value, "integers: the result must be a number of 64 bits, got operands ",
               a, " and ", b);
  return made.integer();
}
Expr difference(const Expr& a, const Expr& b) { return a - b; }
int64_t negative(int64_t a) { return of_integers<difference>(0, a); }
template <class Compare>
bool compare(int64_t a, int64_t b) {
  return Compare()(a, b);
}
double sym_float(int64_t a) { return static_cast<double>(a); }
double divide_integers(int64_t a, int64_t b) {
  FACULA_CHECK(b != 0, ErrorKind::Value, "integers: division by zero");
  return static_cast<double>(a) / static_cast<double>(b);
}
bool not_bool(bool a) { return !a; }
bool and_bool(bool a, bool b) { return a && b; }
bool or_bool(bool a, bool b) { return a || b; }

// `x[start:end:step]` of one dimension, with bounds as Python's slices have them.
Tensor slice_of(const Tensor& self, int64_t dim, std::optional<int64_t> start, std::optional<int64_t> end,
                int64_t step) {
  FACULA_CHECK(self.dim() > 0, ErrorKind::Index, "slice: a 0-d tensor cannot be sliced");
  FACULA_CHECK(step > 0, ErrorKind::Runtime, "slice: the step must be positive, got ", step);
  const int64_t d = wrap_dim(dim, self.dim(), "slice"), size = self.size(d);
  const auto inside = [&](int64_t bound) { return std::clamp<int64_t>(bound < 0 ? bound + size : bound, 0, size); };
  const int64_t first = inside(start.value_or(0)), last = std::max(inside(end.value_or(size)), first);
  return slice(self, d, first, last, step);
}

// A view where there is one, else a copy: files come without copies that were idle where they were recorded.
Tensor view_or_copy(const Tensor& self, IntList size) { return reshape(self, size); }

Tensor to_dtype_of(const Tensor& self, DType dtype, bool, bool copy, std::optional<MemoryFormat> format) {
  Tensor made = dtype == self.dtype() ? (copy ? clone(self) : self) : to_dtype(self, dtype);
  if (format && *format != MemoryFormat::Preserve) made = contiguous(made, *format);
  return made;
}
Tensor moved(const Tensor& self, std::optional<DType> dtype, std::optional<Device> device, bool copy,
             std::optional<MemoryFormat> format) {
  if (!device || *device == self.device() || (device->index < 0 && device->type == self.device().type))
    return to_dtype_of(self, dtype.value_or(self.dtype()), false, copy, format);
  Tensor made = _to_device(self, *device, dtype.value_or(self.dtype()));
  if (format && *format != MemoryFormat::Preserve) made = contiguous(made, *format);
  return made;
}
Tensor to_device_of(const Tensor& self, std::optional<Device> device, DType dtype, bool, bool copy,
                    std::optional<MemoryFormat> format) {
  return moved(self, dtype, device, copy, format);
}
Tensor to_layout_of(const Tensor& self, std::optional<DType> dtype, std::optional<Layout>, std::optional<Device> device,
                    std::optional<bool>, bool, bool copy, std::optional<MemoryFormat> format) {
  return moved(self, dtype, device, copy, format);
}
Tensor to_other(const Tensor& self, const Tensor& other, bool, bool copy, std::optional<MemoryFormat> format) {
  return moved(self, other.dtype(), other.device(), copy, format);
}
Tensor to_copy(const Tensor& self, std::optional<DType> dtype, std::optional<Layout>, std::optional<Device> device,
               std::optional<bool>, bool, std::optional<MemoryFormat> format) {
  return moved(self, dtype, device, true, format);
}
Tensor detached(const Tensor& self) { return alias(self); }
Tensor copy_of(const Tensor& self) { return clone(self); }

Tensor arange_by(const Scalar& start, const Scalar& end, const Scalar& step, std::optional<DType> dtype,
                 std::optional<Layout>, std::optional<Device> device, std::optional<bool>) {
  return arange(start, end, step, dtype, device);
}

// Private forms of PyTorch's core IR, which are what public ops become there.

template <Tensor (*op)(const Tensor&, int64_t, std::optional<DType>)>
Tensor along(const Tensor& self, int64_t dim, bool half_to_float) {
  return op(self, dim, half_to_float ? std::optional(DType::Float32) : std::nullopt);
}
Tensor reflection_pad(const Tensor& self, IntList padding) { return pad(self, padding, "reflect"); }
Tensor replication_pad(const Tensor& self, IntList padding) { return pad(self, padding, "replicate"); }
Tensor cdist_forward(const Tensor& x1, const Tensor& x2, double p, std::optional<int64_t>) { return cdist(x1, x2, p); }

using Three = std::tuple<Tensor, Tensor, Tensor>;
Three batch_norm_of_statistics(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                               const Tensor& var, double momentum, double eps) {
  return native_batch_norm(input, weight, bias, mean, var, false, momentum, eps);
}
Three batch_norm_of_batch(const Tensor& input, const Tensor& weight, const Tensor& bias, bool, double momentum,
                          double eps) {
  return native_batch_norm(input, weight, bias, {}, {}, true, momentum, eps);
}
// The running statistics are results, and the caller writes them back.
using Five = std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor>;
Five batch_norm_functional(const Tensor& input, const Tensor& weight, const Tensor& bias, const Tensor& mean,
                           const Tensor& var, bool training, double momentum, double eps) {
  const Tensor new_mean = clone(mean), new_var = clone(var);
  auto [result, own_mean, own_scale] =
      native_batch_norm(input, weight, bias, new_mean, new_var, training, momentum, eps);
  return {result, own_mean, own_scale, new_mean, new_var};
}
// The second result is for the backward pass that is recorded beside it, which there is not.
std::tuple<Tensor, Tensor> attention(const Tensor& query, const Tensor& key, const Tensor& value, double dropout,
                                     bool causal, const Tensor& mask, std::optional<double> scale) {
  return {scaled_dot_product_attention(query, key, value, mask, dropout, causal, scale), zeros({0})};
}

using boxing::box;
constexpr const char* kTwo = "int a, int b";
constexpr const char* kAlong = "Tensor self, int dim, bool half_to_float";
constexpr const char* kPadding = "Tensor self, int[] padding";
constexpr const char* kThree = "Tensor result, Tensor save_mean, Tensor save_invstd";
using ThreeOfStatistics = Three(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, double,
                                double);
using FiveOfAll = Five(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&, bool, double, double);
// has_biases, num_layers, dropout, train, bidirectional, batch_first
#define FACULA_RECURRENT \
  "bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first"
constexpr const char* kLstm = "Tensor input, Tensor[] hx, Tensor[] params, " FACULA_RECURRENT;
constexpr const char* kRecurrent = "Tensor input, Tensor hx, Tensor[] params, " FACULA_RECURRENT;
#undef FACULA_RECURRENT
using Lstm = recurrent::Three(const Tensor&, TensorList, TensorList, bool, int64_t, double, bool, bool, bool);
using Recurrent = recurrent::Two(const Tensor&, const Tensor&, TensorList, bool, int64_t, double, bool, bool, bool);
using Attention = std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&, double, bool, const Tensor&,
                                             std::optional<double>);

const BuiltinRow kBuiltinRows[] = {
    {"sym_size", "int", "Tensor self, int dim", "int", "sym_size.int", box<int64_t(const Tensor&, int64_t)>(sym_size)},
    {"sym_numel", "", "Tensor self", "int", "sym_numel.default", box<int64_t(const Tensor&)>(sym_numel)},
    {"sym_stride", "int", "Tensor self, int dim", "int", "sym_stride.int",
     box<int64_t(const Tensor&, int64_t)>(sym_stride)},
    {"sym_storage_offset", "", "Tensor self", "int", "sym_storage_offset.default",
     box<int64_t(const Tensor&)>(sym_storage_offset)},
    {"int_add", "", kTwo, "int", "", box<int64_t(int64_t, int64_t)>(of_integers<operator+ >)},
    {"int_sub", "", kTwo, "int", "", box<int64_t(int64_t, int64_t)>(of_integers<difference>)},
    {"int_mul", "", kTwo, "int", "", box<int64_t(int64_t, int64_t)>(of_integers<operator*>)},
    {"int_floordiv", "", kTwo, "int", "", box<int64_t(int64_t, int64_t)>(of_integers<floor_div>)},
    {"int_mod", "", kTwo, "int", "", box<int64_t(int64_t, int64_t)>(of_integers<modulo>)},
    {"int_max", "", kTwo, "int", "", box<int64_t(int64_t, int64_t)>(of_integers<maximum>)},
    {"int_min", "", kTwo, "int", "", box<int64_t(int64_t, int64_t)>(of_integers<minimum>)},
    {"int_neg", "", "int a", "int", "", box<int64_t(int64_t)>(negative)},
    {"int_truediv", "", kTwo, "float", "", box<double(int64_t, int64_t)>(divide_integers)},
    {"int_eq", "", kTwo, "bool", "", box<bool(int64_t, int64_t)>(compare<std::equal_to<>>)},
    {"int_ne", "", kTwo, "bool", "", box<bool(int64_t, int64_t)>(compare<std::not_equal_to<>>)},
    {"int_lt", "", kTwo, "bool", "", box<bool(int64_t, int64_t)>(compare<std::less<>>)},
    {"int_le", "", kTwo, "bool", "", box<bool(int64_t, int64_t)>(compare<std::less_equal<>>)},
    {"int_gt", "", kTwo, "bool", "", box<bool(int64_t, int64_t)>(compare<std::greater<>>)},
    {"int_ge", "", kTwo, "bool", "", box<bool(int64_t, int64_t)>(compare<std::greater_equal<>>)},
    {"int_float", "", "int a", "float", "", box<double(int64_t)>(sym_float)},
    {"bool_not", "", "bool a", "bool", "", box<bool(bool)>(not_bool)},
    {"bool_and", "", "bool a, bool b", "bool", "", box<bool(bool, bool)>(and_bool)},
    {"bool_or", "", "bool a, bool b", "bool", "", box<bool(bool, bool)>(or_bool)},
    {"slice", "Tensor", "Tensor self, int dim=0, int? start=None, int? end=None, int step=1", "Tensor", "slice.Tensor",
     box<Tensor(const Tensor&, int64_t, std::optional<int64_t>, std::optional<int64_t>, int64_t)>(slice_of)},
    {"_view_or_copy", "", "Tensor self, int[] size", "Tensor", "view.default _unsafe_view.default",
     box<Tensor(const Tensor&, IntList)>(view_or_copy)},
    {"to", "dtype",
     "Tensor self, dtype dtype, bool non_blocking=False, bool copy=False, memory_format? memory_format=None", "Tensor",
     "to.dtype", box<Tensor(const Tensor&, DType, bool, bool, std::optional<MemoryFormat>)>(to_dtype_of)},
    {"to", "device",
     "Tensor self, device? device, dtype dtype, bool non_blocking=False, bool copy=False, memory_format? "
     "memory_format=None",
     "Tensor", "to.device",
     box<Tensor(const Tensor&, std::optional<Device>, DType, bool, bool, std::optional<MemoryFormat>)>(to_device_of)},
    {"to", "dtype_layout",
     "Tensor self, *, dtype? dtype=None, layout? layout=None, device? device=None, bool? pin_memory=None, "
     "bool non_blocking=False, bool copy=False, memory_format? memory_format=None",
     "Tensor", "to.dtype_layout",
     box<Tensor(const Tensor&, std::optional<DType>, std::optional<Layout>, std::optional<Device>, std::optional<bool>,
                bool, bool, std::optional<MemoryFormat>)>(to_layout_of)},
    {"to", "other",
     "Tensor self, Tensor other, bool non_blocking=False, bool copy=False, memory_format? memory_format=None", "Tensor",
     "to.other", box<Tensor(const Tensor&, const Tensor&, bool, bool, std::optional<MemoryFormat>)>(to_other)},
    {"_to_copy", "",
     "Tensor self, *, dtype? dtype=None, layout? layout=None, device? device=None, bool? pin_memory=None, "
     "bool non_blocking=False, memory_format? memory_format=None",
     "Tensor", "_to_copy.default",
     box<Tensor(const Tensor&, std::optional<DType>, std::optional<Layout>, std::optional<Device>, std::optional<bool>,
                bool, std::optional<MemoryFormat>)>(to_copy)},
    {"detach", "", "Tensor self", "Tensor", "detach.default detach_.default", box<Tensor(const Tensor&)>(detached)},
    {"_arange", "",
     "Scalar start, Scalar end, Scalar step=1, *, dtype? dtype=None, layout? layout=None, device? device=None, "
     "bool? pin_memory=None",
     "Tensor", "arange.start_step",
     box<Tensor(const Scalar&, const Scalar&, const Scalar&, std::optional<DType>, std::optional<Layout>,
                std::optional<Device>, std::optional<bool>)>(arange_by)},
    {"_core_softmax", "", kAlong, "Tensor", "_softmax.default",
     box<Tensor(const Tensor&, int64_t, bool)>(along<softmax>)},
    {"_core_log_softmax", "", kAlong, "Tensor", "_log_softmax.default",
     box<Tensor(const Tensor&, int64_t, bool)>(along<log_softmax>)},
    {"_reflection_pad", "", kPadding, "Tensor",
     "reflection_pad1d.default reflection_pad2d.default reflection_pad3d.default",
     box<Tensor(const Tensor&, IntList)>(reflection_pad)},
    {"_replication_pad", "", kPadding, "Tensor",
     "replication_pad1d.default replication_pad2d.default replication_pad3d.default",
     box<Tensor(const Tensor&, IntList)>(replication_pad)},
    {"_cdist", "", "Tensor x1, Tensor x2, float p=2.0, int? compute_mode=None", "Tensor",
     "cdist.default _cdist_forward.default",
     box<Tensor(const Tensor&, const Tensor&, double, std::optional<int64_t>)>(cdist_forward)},
    {"_native_batch_norm_legit_no_training", "",
     "Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, float momentum, float eps",
     kThree, "_native_batch_norm_legit_no_training.default", box<ThreeOfStatistics>(batch_norm_of_statistics)},
    {"_native_batch_norm_legit", "no_stats",
     "Tensor input, Tensor? weight, Tensor? bias, bool training, float momentum, float eps", kThree,
     "_native_batch_norm_legit.no_stats",
     box<Three(const Tensor&, const Tensor&, const Tensor&, bool, double, double)>(batch_norm_of_batch)},
    {"_native_batch_norm_legit_functional", "",
     "Tensor input, Tensor? weight, Tensor? bias, Tensor running_mean, Tensor running_var, bool training, "
     "float momentum, float eps",
     "Tensor result, Tensor save_mean, Tensor save_invstd, Tensor running_mean_out, Tensor running_var_out",
     "_native_batch_norm_legit_functional.default", box<FiveOfAll>(batch_norm_functional)},
    {"_scaled_dot_product_flash_attention_for_cpu", "",
     "Tensor query, Tensor key, Tensor value, float dropout_p=0.0, bool is_causal=False, *, Tensor? attn_mask=None, "
     "float? scale=None",
     "Tensor output, Tensor logsumexp", "_scaled_dot_product_flash_attention_for_cpu.default",
     box<Attention>(attention)},
    {"lstm", "input", kLstm, "Tensor output, Tensor h_n, Tensor c_n", "lstm.input", box<Lstm>(recurrent::lstm)},
    {"gru", "input", kRecurrent, "Tensor output, Tensor h_n", "gru.input", box<Recurrent>(recurrent::gru)},
    {"rnn_tanh", "input", kRecurrent, "Tensor output, Tensor h_n", "rnn_tanh.input",
     box<Recurrent>(recurrent::rnn_tanh)},
    {"rnn_relu", "input", kRecurrent, "Tensor output, Tensor h_n", "rnn_relu.input",
     box<Recurrent>(recurrent::rnn_relu)},
    {"lift_fresh_copy", "", "Tensor self", "Tensor", "lift_fresh_copy.default", box<Tensor(const Tensor&)>(copy_of)},
};

}  // namespace

std::span<const BuiltinRow> builtin_rows() { return kBuiltinRows; }

std::span<const AtenAlias> aten_aliases() {
  static constexpr AtenAlias aliases[] = {
      {"add.Scalar", "add.Tensor"},
      {"sub.Scalar", "sub.Tensor"},
      {"mul.Scalar", "mul.Tensor"},
      {"div.Scalar", "div.Tensor"},
      {"div.Scalar_mode", "div.Tensor_mode"},
      {"any.default", "any.dims"},
      {"embedding_bag.default", "embedding_bag.padding_idx"},
      {"swapaxes.default", "transpose.int"},
      {"swapdims.default", "transpose.int"},
      {"_adaptive_avg_pool2d.default", "adaptive_avg_pool2d.default"},
      {"_adaptive_avg_pool3d.default", "adaptive_avg_pool3d.default"},
      {"_pdist_forward.default", "pdist.default"},
  };
  return aliases;
}

}  // namespace facula
