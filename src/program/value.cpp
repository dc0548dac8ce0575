#include "program/value.h"

#include <array>
#include <variant>

#include "core/generators.h"

namespace facula {

struct Value::Heap {
  RefCount refs;
  std::variant<std::complex<double>, std::string, std::vector<Tensor>, std::vector<int64_t>, std::vector<double>,
               std::vector<bool>, std::shared_ptr<Generator>, std::shared_ptr<const Runner>, Expr, std::vector<Expr>>
      content;
};

const Tensor Value::kUndefined;

namespace {

constexpr std::array<const char*, 19> kNames = {
    "None",    "int", "float", "bool",    "dtype",  "device",    "layout", "memory_format", "Tensor",  "Tensor[]",
    "complex", "str", "int[]", "float[]", "bool[]", "Generator", "Graph",  "SymInt",        "SymInt[]"};

// Devices as one integer.
int64_t packed(Device d) { return static_cast<int64_t>(d.type) | static_cast<int64_t>(d.index) << 8; }

}  // namespace

const char* name(Value::Kind kind) { return kNames[static_cast<size_t>(kind)]; }

void Value::share() {
  if (kind_ == Kind::Tensor) retain(bits_.tensor);
  else if (kind_ > Kind::Tensor) bits_.heap->refs.increment();
}
void Value::drop() {
  if (kind_ == Kind::Tensor) release(bits_.tensor);
  else if (bits_.heap->refs.decrement()) delete bits_.heap;
}

template <class T>
void Value::put(Kind kind, T&& v) {
  bits_.heap = new Heap{RefCount(1), std::forward<T>(v)};
  kind_ = kind;
}
template <class T>
const T& Value::heap(Kind kind) const {
  if (kind_ != kind) mismatch(name(kind));
  return std::get<T>(bits_.heap->content);
}

Value::Value(Device v) : kind_(Kind::Device) { bits_.integer = packed(v); }
Value::Value(std::vector<Tensor> v) { put(Kind::Tensors, std::move(v)); }
Value::Value(std::complex<double> v) { put(Kind::Complex, v); }
Value::Value(std::string v) { put(Kind::String, std::move(v)); }
Value::Value(std::vector<int64_t> v) { put(Kind::Ints, std::move(v)); }
Value::Value(std::vector<double> v) { put(Kind::Floats, std::move(v)); }
Value::Value(std::vector<bool> v) { put(Kind::Bools, std::move(v)); }
Value::Value(facula::Generator* v) {
  if (v) put(Kind::Generator, facula::share(v));
}
Value::Value(std::shared_ptr<const Runner> v) { put(Kind::Graph, std::move(v)); }
Value::Value(std::vector<Expr> v) {
  std::vector<int64_t> plain;
  for (const Expr& e : v) {
    if (e.is_integer()) plain.push_back(e.integer());
  }
  if (plain.size() == v.size()) put(Kind::Ints, std::move(plain));
  else put(Kind::Symbolics, std::move(v));
}
Value::Value(Expr v) {
  if (v.is_integer()) *this = Value(v.integer());
  else put(Kind::Symbolic, std::move(v));
}
Value::Value(const Scalar& s) {
  if (s.is_bool()) *this = Value(s.to_bool());
  else if (s.is_complex()) *this = Value(s.to_complex());
  else if (s.is_floating()) *this = Value(s.to_double());
  else *this = Value(s.to_int());
}

void Value::mismatch(const char* wanted) const {
  throw_error(ErrorKind::Type, "program: expected a value of kind ", wanted, ", got ", name(kind_));
}
TensorImpl* Value::not_a_tensor() const { mismatch("Tensor"); }

const std::vector<Tensor>& Value::tensors() const {
  static const std::vector<Tensor> none;
  if (kind_ == Kind::Ints && std::get<std::vector<int64_t>>(bits_.heap->content).empty()) return none;
  return heap<std::vector<Tensor>>(Kind::Tensors);
}
int64_t Value::to_int() const {
  if (kind_ != Kind::Int && kind_ != Kind::Bool) mismatch("int");
  return bits_.integer;
}
double Value::to_float() const {
  if (kind_ == Kind::Float) return bits_.number;
  if (kind_ != Kind::Int) mismatch("float");
  return static_cast<double>(bits_.integer);
}
bool Value::to_bool() const {
  if (kind_ != Kind::Bool) mismatch("bool");
  return bits_.integer != 0;
}
Scalar Value::to_scalar() const {
  switch (kind_) {
    case Kind::Int: return Scalar(bits_.integer);
    case Kind::Float: return Scalar(bits_.number);
    case Kind::Bool: return Scalar(bits_.integer != 0);
    case Kind::Complex: return Scalar(heap<std::complex<double>>(Kind::Complex));
    default: mismatch("number");
  }
}
std::string_view Value::to_string() const { return heap<std::string>(Kind::String); }
const std::vector<int64_t>& Value::ints() const {
  static const std::vector<int64_t> none;
  if (kind_ == Kind::Tensors && tensors().empty()) return none;
  return heap<std::vector<int64_t>>(Kind::Ints);
}
const std::vector<double>& Value::floats(std::vector<double>& room) const {
  if (kind_ != Kind::Ints) return heap<std::vector<double>>(Kind::Floats);
  room.assign(ints().begin(), ints().end());
  return room;
}
const std::vector<bool>& Value::bools() const { return heap<std::vector<bool>>(Kind::Bools); }
DType Value::to_dtype() const {
  if (kind_ != Kind::DType) mismatch("dtype");
  return static_cast<facula::DType>(bits_.integer);
}
Device Value::to_device() const {
  if (kind_ != Kind::Device) mismatch("device");
  facula::Device device;
  device.type = static_cast<DeviceType>(bits_.integer & 0xff);
  device.index = static_cast<decltype(device.index)>(bits_.integer >> 8);
  return device;
}
Layout Value::to_layout() const {
  if (kind_ != Kind::Layout) mismatch("layout");
  return static_cast<facula::Layout>(bits_.integer);
}
MemoryFormat Value::to_memory_format() const {
  if (kind_ != Kind::MemoryFormat) mismatch("memory_format");
  return static_cast<facula::MemoryFormat>(bits_.integer);
}
Generator* Value::to_generator() const {
  if (kind_ == Kind::None) return nullptr;
  return heap<std::shared_ptr<facula::Generator>>(Kind::Generator).get();
}
const std::shared_ptr<const Runner>& Value::graph() const { return heap<std::shared_ptr<const Runner>>(Kind::Graph); }
const Expr& Value::expr() const { return heap<Expr>(Kind::Symbolic); }
const std::vector<Expr>& Value::exprs() const { return heap<std::vector<Expr>>(Kind::Symbolics); }

bool Value::operator==(const Value& other) const {
  if (kind_ != other.kind_) return false;
  switch (kind_) {
    case Kind::None: return true;
    case Kind::Float: return bits_.integer == other.bits_.integer;  // bit by bit: a NaN is equal to itself
    case Kind::Tensor: return bits_.tensor == other.bits_.tensor;
    case Kind::Generator: return to_generator() == other.to_generator();
    case Kind::Tensors:
      return std::equal(tensors().begin(), tensors().end(), other.tensors().begin(), other.tensors().end(),
                        [](const facula::Tensor& a, const facula::Tensor& b) { return a.is_same(b); });
    case Kind::Complex: return to_scalar().to_complex() == other.to_scalar().to_complex();
    case Kind::String: return to_string() == other.to_string();
    case Kind::Ints: return ints() == other.ints();
    case Kind::Floats: {
      std::vector<double> a, b;
      return floats(a) == other.floats(b);
    }
    case Kind::Bools: return bools() == other.bools();
    case Kind::Graph: return graph() == other.graph();
    case Kind::Symbolic: return expr() == other.expr();
    case Kind::Symbolics: return exprs() == other.exprs();
    default: return bits_.integer == other.bits_.integer;
  }
}

}  // namespace facula
