// Defines a value of a program: what an op takes and gives, with a tag. It has sixteen bytes; lists, texts and
// expressions lie behind a counted pointer and do not change once they are made.
#pragma once

#include <complex>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/generator.h"
#include "core/ref.h"
#include "core/scalar.h"
#include "core/tensor.h"
#include "program/expr.h"

namespace facula {

class Runner;

class Value {
 public:
  enum class Kind : uint8_t {
    None,
    Int,
    Float,
    Bool,
    DType,
    Device,
    Layout,
    MemoryFormat,
    Tensor,   // from here on: counted
    Tensors,  // a list; undefined ones stand for None
    Complex,
    String,
    Ints,
    Floats,
    Bools,
    Generator,  // a share in it
    Graph,      // a program inside a program: what a branch or the body of a loop does
    Symbolic,   // an integer that depends on symbols
    Symbolics,  // a list of such
  };

  Value() = default;
  Value(const Value& other) : kind_(other.kind_), bits_(other.bits_) { share(); }
  Value(Value&& other) noexcept : kind_(std::exchange(other.kind_, Kind::None)), bits_(other.bits_) {}
  Value& operator=(const Value& other) { return *this = Value(other); }
  Value& operator=(Value&& other) noexcept {
    std::swap(kind_, other.kind_);
    std::swap(bits_, other.bits_);
    return *this;
  }
  ~Value() { reset(); }
  void reset() {
    if (kind_ >= Kind::Tensor) drop();
    kind_ = Kind::None;
  }

  Value(Tensor tensor) : kind_(tensor.defined() ? Kind::Tensor : Kind::None) { bits_.tensor = tensor.detach_impl(); }
  Value(int64_t v) : kind_(Kind::Int) { bits_.integer = v; }
  Value(int v) : Value(static_cast<int64_t>(v)) {}
  Value(double v) : kind_(Kind::Float) { bits_.number = v; }
  Value(bool v) : kind_(Kind::Bool) { bits_.integer = v; }
  Value(const Scalar& scalar);
  Value(facula::DType v) : kind_(Kind::DType) { bits_.integer = static_cast<int64_t>(v); }
  Value(Device v);
  Value(facula::Layout v) : kind_(Kind::Layout) { bits_.integer = static_cast<int64_t>(v); }
  Value(facula::MemoryFormat v) : kind_(Kind::MemoryFormat) { bits_.integer = static_cast<int64_t>(v); }
  Value(facula::Generator* v);
  Value(std::vector<facula::Tensor> v);
  Value(std::complex<double> v);
  Value(std::string v);
  Value(const char* v) : Value(std::string(v)) {}
  Value(std::string_view v) : Value(std::string(v)) {}
  Value(std::vector<int64_t> v);
  Value(IntList v) : Value(v.vec()) {}
  Value(std::vector<double> v);
  Value(std::vector<bool> v);
  Value(std::shared_ptr<const Runner> v);
  Value(Expr v);
  Value(std::vector<Expr> v);

  Kind kind() const { return kind_; }
  bool is_none() const { return kind_ == Kind::None; }
  bool is_tensor() const { return kind_ == Kind::Tensor; }
  bool is_number() const {
    return kind_ == Kind::Int || kind_ == Kind::Float || kind_ == Kind::Bool || kind_ == Kind::Complex;
  }
  bool is_symbolic() const { return kind_ >= Kind::Symbolic; }

  // What is inside. Where the kind is another one that can stand for it (an Int for a Float, an empty list of any
  // kind), it is converted; else a TypeError says what was expected and what came.
  facula::TensorImpl* tensor_impl() const { return kind_ == Kind::Tensor ? bits_.tensor : not_a_tensor(); }
  /// Undefined for None.
  const Tensor& tensor() const {
    if (__builtin_expect(kind_ > Kind::Tensor || (kind_ != Kind::Tensor && kind_ != Kind::None), 0)) not_a_tensor();
    static_assert(sizeof(facula::Tensor) == sizeof(TensorImpl*));
    return kind_ == Kind::Tensor ? *reinterpret_cast<const facula::Tensor*>(&bits_.tensor) : kUndefined;
  }
  const std::vector<facula::Tensor>& tensors() const;
  int64_t to_int() const;
  double to_float() const;
  bool to_bool() const;
  Scalar to_scalar() const;
  std::string_view to_string() const;
  const std::vector<int64_t>& ints() const;
  /// May convert integers, into `room`.
  const std::vector<double>& floats(std::vector<double>& room) const;
  const std::vector<bool>& bools() const;
  facula::DType to_dtype() const;
  Device to_device() const;
  facula::Layout to_layout() const;
  facula::MemoryFormat to_memory_format() const;
  facula::Generator* to_generator() const;  // null for None
  const std::shared_ptr<const Runner>& graph() const;
  const Expr& expr() const;
  const std::vector<Expr>& exprs() const;

  /// Whether both are the same: tensors by identity.
  bool operator==(const Value& other) const;

  struct Heap;

 private:
  static const facula::Tensor kUndefined;
  void share();
  void drop();
  template <class T>
  const T& heap(Kind kind) const;
  template <class T>
  void put(Kind kind, T&& v);
  facula::TensorImpl* not_a_tensor() const;
  [[noreturn]] void mismatch(const char* wanted) const;

  Kind kind_ = Kind::None;
  union {
    int64_t integer;
    double number;
    TensorImpl* tensor;
    Heap* heap;
  } bits_{};
};
static_assert(sizeof(Value) == 16);

/// The word for a kind in messages and in the text form: "int", "Tensor[]".
const char* name(Value::Kind kind);

}  // namespace facula
