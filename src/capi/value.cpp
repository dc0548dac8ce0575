// Values of C as values of the boxed table, and back.
#include <cstring>

#include "capi/capi.h"

namespace facula::capi {
namespace {

Value tensors_from(const fc_value& value, const char* what) {
  std::vector<Tensor> tensors;
  for (const fc_tensor t : listed(value.as.tensors, value.count, what))
    tensors.push_back(t ? Tensor::share(impl(t)) : Tensor());
  return tensors;
}

template <class T, class From>
const T* copied(const From& from, int32_t& count) {
  T* const items = new T[from.size() ? from.size() : 1];
  for (size_t i = 0; i < from.size(); ++i) items[i] = from[i];
  count = static_cast<int32_t>(from.size());
  return items;
}

}  // namespace

Value from_c(const fc_value& value, const char* what) {
  switch (value.kind) {
    case FC_NONE: return {};
    case FC_INT_VALUE: return value.as.integer;
    case FC_FLOAT_VALUE: return value.as.number;
    case FC_BOOL_VALUE: return value.as.integer != 0;
    case FC_COMPLEX_VALUE: return std::complex<double>(value.as.complex.real, value.as.complex.imaginary);
    case FC_STRING_VALUE: return value.as.text ? Value(value.as.text) : Value();
    case FC_DTYPE_VALUE: return dtype_of(value.as.integer, what);
    case FC_DEVICE_VALUE: return device_of(value.as.text);
    case FC_FORMAT_VALUE:
      FACULA_CHECK(value.as.integer >= 0 && value.as.integer <= FC_CHANNELS_LAST_3D, ErrorKind::Value, what,
                   ": no memory format has the number ", value.as.integer);
      return static_cast<MemoryFormat>(value.as.integer);
    case FC_LAYOUT_VALUE:
      FACULA_CHECK(value.as.integer >= 0 && value.as.integer <= FC_SPARSE_BSC, ErrorKind::Value, what,
                   ": no layout has the number ", value.as.integer);
      return static_cast<Layout>(value.as.integer);
    case FC_GENERATOR_VALUE:
      FACULA_CHECK(value.as.generator, ErrorKind::Value, what, ": the generator is NULL");
      return value.as.generator->generator.get();
    case FC_TENSOR_VALUE: return borrow(value.as.tensor, what);
    case FC_TENSORS_VALUE: return tensors_from(value, what);
    case FC_INTS_VALUE: {
      const List<int64_t> items = listed(value.as.integers, value.count, what);
      return std::vector<int64_t>(items.begin(), items.end());
    }
    case FC_FLOATS_VALUE: {
      const List<double> items = listed(value.as.numbers, value.count, what);
      return std::vector<double>(items.begin(), items.end());
    }
    case FC_BOOLS_VALUE: {
      const List<unsigned char> items =
          listed(reinterpret_cast<const unsigned char*>(value.as.bools), value.count, what);
      std::vector<bool> made;  // bytes: C may have other numbers than 0 and 1 there
      for (const unsigned char byte : items) made.push_back(byte != 0);
      return made;
    }
    default: throw_error(ErrorKind::Value, what, ": no value has the kind ", value.kind);
  }
}

void to_c(const Value& value, fc_value& out) {
  fc_value made{};
  const auto kind = [&](fc_kind k) { made.kind = k; };
  switch (value.kind()) {
    case Value::Kind::Int: kind(FC_INT_VALUE), made.as.integer = value.to_int(); break;
    case Value::Kind::Float: kind(FC_FLOAT_VALUE), made.as.number = value.to_float(); break;
    case Value::Kind::Bool: kind(FC_BOOL_VALUE), made.as.integer = value.to_bool(); break;
    case Value::Kind::DType: kind(FC_DTYPE_VALUE), made.as.integer = static_cast<int64_t>(value.to_dtype()); break;
    case Value::Kind::Complex: {
      const auto number = value.to_scalar().to<std::complex<double>>();
      kind(FC_COMPLEX_VALUE), made.as.complex = {number.real(), number.imag()};
      break;
    }
    case Value::Kind::String: {
      const std::string_view text = value.to_string();
      char* copy = new char[text.size() + 1]{};
      std::memcpy(copy, text.data(), text.size());
      kind(FC_STRING_VALUE), made.as.text = copy;
      break;
    }
    case Value::Kind::Tensor: kind(FC_TENSOR_VALUE), made.as.tensor = give(Tensor(value.tensor())); break;
    case Value::Kind::Tensors: {
      std::vector<fc_tensor> handles;
      for (const Tensor& t : value.tensors()) handles.push_back(reinterpret_cast<fc_tensor>(t.impl()));
      kind(FC_TENSORS_VALUE), made.as.tensors = copied<fc_tensor>(handles, made.count);
      for (const fc_tensor t : handles) fc_tensor_retain(t);
      break;
    }
    case Value::Kind::Ints: kind(FC_INTS_VALUE), made.as.integers = copied<int64_t>(value.ints(), made.count); break;
    case Value::Kind::Bools: kind(FC_BOOLS_VALUE), made.as.bools = copied<bool>(value.bools(), made.count); break;
    case Value::Kind::Floats: {
      std::vector<double> room;
      kind(FC_FLOATS_VALUE), made.as.numbers = copied<double>(value.floats(room), made.count);
      break;
    }
    case Value::Kind::MemoryFormat:
      kind(FC_FORMAT_VALUE), made.as.integer = static_cast<int64_t>(value.to_memory_format());
      break;
    case Value::Kind::Layout: kind(FC_LAYOUT_VALUE), made.as.integer = static_cast<int64_t>(value.to_layout()); break;
    default: break;  // None; results and defaults are of no other kind
  }
  out = made;
}

void check_room(size_t wanted, const fc_value* results, size_t room, const char* what) {
  FACULA_CHECK(room == wanted && (results || !room), ErrorKind::Value, what, ": gives ", wanted,
               " results, got room for ", results ? room : 0);
}

void hand_over(std::span<const Value> made, fc_value* results) {
  struct Held {
    std::vector<fc_value> values;
    ~Held() {
      for (fc_value& v : values) fc_value_release(&v);
    }
  } held;
  held.values.resize(made.size());
  for (size_t i = 0; i < made.size(); ++i) to_c(made[i], held.values[i]);
  std::copy(held.values.begin(), held.values.end(), results);
  held.values.clear();
}

}  // namespace facula::capi

extern "C" void fc_value_release(fc_value* value) {
  if (!value) return;
  switch (value->kind) {
    case FC_TENSOR_VALUE: fc_tensor_release(value->as.tensor); break;
    case FC_TENSORS_VALUE:
      for (int32_t i = 0; i < value->count; ++i) fc_tensor_release(value->as.tensors[i]);
      delete[] value->as.tensors;
      break;
    case FC_INTS_VALUE: delete[] value->as.integers; break;
    case FC_FLOATS_VALUE: delete[] value->as.numbers; break;
    case FC_BOOLS_VALUE: delete[] value->as.bools; break;
    case FC_STRING_VALUE: delete[] value->as.text; break;
    default: break;
  }
  *value = {};
}
