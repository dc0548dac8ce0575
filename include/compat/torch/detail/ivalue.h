// A value of one of several types: what functions of autograd keep, and archives hold.
#pragma once

#include <torch/detail/tensor.h>

#include <unordered_map>
#include <variant>

namespace torch {

class IValue {
 public:
  IValue() = default;
  IValue(nullopt_t) {}
  IValue(Tensor t) : value_(std::move(t)) {}
  template <class T>
    requires std::is_floating_point_v<T>
  IValue(T number) : value_(static_cast<double>(number)) {}
  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool>)
  IValue(T number) : value_(static_cast<int64_t>(number)) {}
  template <class T>
    requires std::is_same_v<T, bool>
  IValue(T yes) : value_(yes) {}
  IValue(std::string text) : value_(std::move(text)) {}
  IValue(const char* text) : value_(std::string(text)) {}
  IValue(const Scalar& s);
  IValue(std::vector<int64_t> list) : value_(std::move(list)) {}
  IValue(IntArrayRef list) : value_(list.vec()) {}
  IValue(std::vector<double> list) : value_(std::move(list)) {}
  IValue(std::vector<bool> list) : value_(std::move(list)) {}
  IValue(std::vector<Tensor> list) : value_(std::move(list)) {}
  template <class T>
  IValue(const optional<T>& value) {
    if (value) *this = IValue(*value);
  }

  bool isNone() const { return std::holds_alternative<std::monostate>(value_); }
  bool isTensor() const { return std::holds_alternative<Tensor>(value_); }
  bool isDouble() const { return std::holds_alternative<double>(value_); }
  bool isInt() const { return std::holds_alternative<int64_t>(value_); }
  bool isBool() const { return std::holds_alternative<bool>(value_); }
  bool isString() const { return std::holds_alternative<std::string>(value_); }
  bool isIntList() const { return std::holds_alternative<std::vector<int64_t>>(value_); }
  bool isDoubleList() const { return std::holds_alternative<std::vector<double>>(value_); }
  bool isTensorList() const { return std::holds_alternative<std::vector<Tensor>>(value_); }
  bool isScalar() const { return isDouble() || isInt() || isBool(); }

  const Tensor& toTensor() const { return get<Tensor>("a tensor"); }
  double toDouble() const { return get<double>("a floating-point number"); }
  int64_t toInt() const { return get<int64_t>("an integer"); }
  bool toBool() const { return get<bool>("a bool"); }
  const std::string& toStringRef() const { return get<std::string>("a string"); }
  const std::vector<int64_t>& toIntVector() const { return get<std::vector<int64_t>>("a list of integers"); }
  const std::vector<double>& toDoubleVector() const { return get<std::vector<double>>("a list of numbers"); }
  const std::vector<bool>& toBoolVector() const { return get<std::vector<bool>>("a list of bools"); }
  const std::vector<Tensor>& toTensorVector() const { return get<std::vector<Tensor>>("a list of tensors"); }
  Scalar toScalar() const;
  const char* tagKind() const;

 private:
  template <class T>
  const T& get(const char* what) const {
    const T* found = std::get_if<T>(&value_);
    FACULA_CHECK(found, facula::ErrorKind::Type, "IValue: ", what, " is expected, got ", tagKind());
    return *found;
  }
  std::variant<std::monostate, Tensor, double, int64_t, bool, std::string, std::vector<int64_t>, std::vector<double>,
               std::vector<bool>, std::vector<Tensor>>
      value_;
};

}  // namespace torch
