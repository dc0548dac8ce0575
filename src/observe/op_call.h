// Describes one call of an op as observers see it: its name, and its arguments and results where they lie. Nothing is
// converted or copied until somebody reads it.
#pragma once

#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "core/op_id.h"
#include "ops/operand.h"

namespace facula {

class Generator;

/// A reference to an argument of an op. Valid during the call.
class Argument {
 public:
  enum class Kind : uint8_t {
    Tensor,
    TensorList,
    Operand,
    Scalar,
    OptScalar,
    Int,
    OptInt,
    Float,
    OptFloat,
    Bool,
    OptBool,
    IntList,
    OptIntList,
    FloatList,
    OptFloatList,
    String,
    OptString,
    DType,
    OptDType,
    OptDevice,
    OptLayout,
    MemoryFormat,
    OptMemoryFormat,
    Generator,
  };

  Argument(const Tensor& v) : Argument(Kind::Tensor, &v) {}
  Argument(const TensorList& v) : Argument(Kind::TensorList, &v) {}
  Argument(const Operand& v) : Argument(Kind::Operand, &v) {}
  Argument(const Scalar& v) : Argument(Kind::Scalar, &v) {}
  Argument(const std::optional<Scalar>& v) : Argument(Kind::OptScalar, &v) {}
  Argument(const int64_t& v) : Argument(Kind::Int, &v) {}
  Argument(const std::optional<int64_t>& v) : Argument(Kind::OptInt, &v) {}
  Argument(const double& v) : Argument(Kind::Float, &v) {}
  Argument(const std::optional<double>& v) : Argument(Kind::OptFloat, &v) {}
  Argument(const bool& v) : Argument(Kind::Bool, &v) {}
  Argument(const std::optional<bool>& v) : Argument(Kind::OptBool, &v) {}
  Argument(const IntList& v) : Argument(Kind::IntList, &v) {}
  Argument(const std::optional<IntList>& v) : Argument(Kind::OptIntList, &v) {}
  Argument(const FloatList& v) : Argument(Kind::FloatList, &v) {}
  Argument(const std::optional<FloatList>& v) : Argument(Kind::OptFloatList, &v) {}
  Argument(const std::string_view& v) : Argument(Kind::String, &v) {}
  Argument(const std::optional<std::string_view>& v) : Argument(Kind::OptString, &v) {}
  Argument(const facula::DType& v) : Argument(Kind::DType, &v) {}
  Argument(const std::optional<facula::DType>& v) : Argument(Kind::OptDType, &v) {}
  Argument(const std::optional<Device>& v) : Argument(Kind::OptDevice, &v) {}
  Argument(const std::optional<Layout>& v) : Argument(Kind::OptLayout, &v) {}
  Argument(const facula::MemoryFormat& v) : Argument(Kind::MemoryFormat, &v) {}
  Argument(const std::optional<facula::MemoryFormat>& v) : Argument(Kind::OptMemoryFormat, &v) {}
  Argument(facula::Generator* const& v) : Argument(Kind::Generator, &v) {}

  Kind kind() const { return kind_; }
  /// The value; T is the C++ type of the argument.
  template <class T>
  const T& as() const {
    return *static_cast<const T*>(value_);
  }
  /// Those of its tensors together.
  uint32_t flags() const {
    if (kind_ == Kind::Operand) return as<Operand>().flags();
    uint32_t flags = 0;
    if (kind_ <= Kind::TensorList) each_tensor([&](const Tensor& t) { flags |= t.flags(); });
    return flags;
  }
  /// Calls f(const Tensor&) for the tensors of the argument that are defined.
  template <class F>
  void each_tensor(F&& f) const {
    if (kind_ == Kind::Tensor) {
      if (as<Tensor>().defined()) f(as<Tensor>());
    } else if (kind_ == Kind::TensorList) {
      for (const Tensor& t : as<TensorList>())
        if (t.defined()) f(t);
    } else if (kind_ == Kind::Operand && as<Operand>().is_tensor()) {
      f(as<Operand>().tensor());
    }
  }

 private:
  Argument(Kind kind, const void* value) : kind_(kind), value_(value) {}
  Kind kind_;
  const void* value_;
};

/// Where a result of an op is put.
class ResultSlot {
 public:
  enum class Kind : uint8_t { Tensor, TensorList, Bool, Int, Float, Scalar };
  ResultSlot(Tensor* at) : ResultSlot(Kind::Tensor, at) {}
  ResultSlot(std::vector<Tensor>* at) : ResultSlot(Kind::TensorList, at) {}
  ResultSlot(bool* at) : ResultSlot(Kind::Bool, at) {}
  ResultSlot(int64_t* at) : ResultSlot(Kind::Int, at) {}
  ResultSlot(double* at) : ResultSlot(Kind::Float, at) {}
  ResultSlot(Scalar* at) : ResultSlot(Kind::Scalar, at) {}

  Kind kind() const { return kind_; }
  template <class T>
  T& as() const {
    return *static_cast<T*>(at_);
  }

 private:
  ResultSlot(Kind kind, void* at) : kind_(kind), at_(at) {}
  Kind kind_;
  void* at_;
};

enum class OpForm : uint8_t {
  Function,   // results are new
  InPlace,    // the first argument is written to
  Out,        // the last arguments are out= tensors, as many as there are results
  Composite,  // made of ops, which are seen as well
};

struct OpCall {
  uint16_t op;
  OpForm form;
  List<Argument> arguments;
  List<ResultSlot> results;  // none: a form that writes into its arguments, or a composite

  const OpInfo& info() const { return op_info(op); }
};

}  // namespace facula
