// What programs need besides the ops of the schema: sizes and integers as values, and forms of PyTorch's operators with
// other arguments than Facula's.
#include "functions.h"
#include "program/boxing.h"

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

using boxing::box;
constexpr const char* kTwo = "int a, int b";

const BuiltinRow rows[] = {
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
    {"lift_fresh_copy", "", "Tensor self", "Tensor", "lift_fresh_copy.default", box<Tensor(const Tensor&)>(copy_of)},
};

}  // namespace

std::span<const BuiltinRow> builtin_rows() { return rows; }

}  // namespace facula
