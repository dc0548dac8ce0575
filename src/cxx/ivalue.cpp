// torch::IValue: values of several types.
#include "torch/detail/ivalue.h"

namespace torch {

using facula::ErrorKind;

IValue::IValue(const Scalar& s) {
  if (s.isFloatingPoint()) value_ = s.toDouble();
  else if (s.isBoolean()) value_ = s.toBool();
  else value_ = s.toLong();
}
IValue::IValue(std::vector<IValue> list) : value_(std::make_shared<std::vector<IValue>>(std::move(list))) {}
IValue::IValue(const impl::GenericList& list) : value_(list.items()) {}
IValue::IValue(const impl::GenericDict& dict) : value_(dict.items()) {}
std::shared_ptr<ivalue::Tuple> IValue::tuple_of(std::vector<IValue> elements) {
  return ivalue::Tuple::create(std::move(elements));
}

Scalar IValue::toScalar() const {
  if (isInt()) return toInt();
  if (isBool()) return toBool();
  return toDouble();
}
impl::GenericDict IValue::toGenericDict() const { return impl::GenericDict(get<DictItems>("a dictionary")); }
std::vector<IValue> IValue::toListRef() const {
  return std::visit(
      [&]<class T>(const T& value) -> std::vector<IValue> {
        if constexpr (std::is_same_v<T, ListItems>) {
          return *value;
        } else if constexpr (std::is_same_v<T, std::vector<bool>>) {
          std::vector<IValue> items;
          for (const bool yes : value) items.emplace_back(yes);
          return items;
        } else if constexpr (requires { typename T::value_type; } && !std::is_same_v<T, std::string>) {
          return {value.begin(), value.end()};
        } else {
          refuse("a list");
        }
      },
      value_);
}
impl::GenericList IValue::toList() const {
  if (const auto* items = std::get_if<ListItems>(&value_)) return impl::GenericList(*items);
  return impl::GenericList(ArrayRef<IValue>(toListRef()));
}
List<Tensor> IValue::toTensorList() const { return List<Tensor>(ArrayRef<Tensor>(toTensorVector())); }
List<int64_t> IValue::toIntList() const { return List<int64_t>(ArrayRef<int64_t>(toIntVector())); }
List<double> IValue::toDoubleList() const { return List<double>(ArrayRef<double>(toDoubleVector())); }

const char* IValue::tagKind() const {
  constexpr const char* kNames[] = {"None",   "Tensor",      "Double",      "Int",      "Bool",
                                    "String", "IntList",     "DoubleList",  "BoolList", "TensorList",
                                    "Tuple",  "GenericList", "GenericDict", "Object"};
  return kNames[value_.index()];
}
void IValue::refuse(const char* what) const {
  facula::throw_error(ErrorKind::Type, "IValue: ", what, " is expected, got ", tagKind());
}

bool operator==(const IValue& a, const IValue& b) {
  if (a.isString() && b.isString()) return a.toStringRef() == b.toStringRef();
  if (a.isTensor() || b.isTensor()) return a.isTensor() && b.isTensor() && a.toTensor().is_same(b.toTensor());
  if (a.isScalar() && b.isScalar()) return a.toScalar().number().to_complex() == b.toScalar().number().to_complex();
  return a.isNone() && b.isNone();
}

}  // namespace torch
