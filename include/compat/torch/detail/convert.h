// Between libtorch's argument types and Facula's.
#pragma once

#include <torch/detail/tensor.h>

namespace torch::detail {

facula::MemoryFormat format_of(MemoryFormat format);
/// Sets what options say beyond dtype and device.
Tensor finish(facula::Tensor fresh, const TensorOptions& options);
const facula::Tensor& no_tensor();

inline const facula::Tensor& in(const Tensor& t) { return detail_known(t); }
inline const facula::Tensor& in(const optional<Tensor>& t) { return t ? t->core() : no_tensor(); }
inline facula::TensorList in(TensorList list) {
  for (const Tensor& t : list) detail_known(t);
  return {reinterpret_cast<const facula::Tensor*>(list.data()), list.size()};
}
inline const facula::Scalar& in(const Scalar& s) { return s.number(); }
inline optional<facula::Scalar> in(const optional<Scalar>& s) {
  return s ? optional<facula::Scalar>(s->number()) : nullopt;
}
inline facula::IntList in(IntArrayRef list) { return {list.data(), list.size()}; }
inline optional<facula::IntList> in(const OptionalIntArrayRef& list) {
  return list ? optional<facula::IntList>(in(*list)) : nullopt;
}
inline facula::FloatList in(ArrayRef<double> list) { return {list.data(), list.size()}; }
inline optional<facula::FloatList> in(const optional<ArrayRef<double>>& list) {
  return list ? optional<facula::FloatList>(in(*list)) : nullopt;
}
inline facula::DType in(ScalarType type) { return dtype_of(type); }
inline optional<facula::DType> in(optional<ScalarType> type) {
  return type ? optional<facula::DType>(dtype_of(*type)) : nullopt;
}
inline optional<facula::Device> in(const optional<Device>& device) {
  return device ? optional<facula::Device>(device_of(*device)) : nullopt;
}
inline facula::MemoryFormat in(MemoryFormat format) { return format_of(format); }
inline optional<facula::MemoryFormat> in(optional<MemoryFormat> format) {
  return format ? optional<facula::MemoryFormat>(format_of(*format)) : nullopt;
}
inline facula::Generator* in(const optional<Generator>& generator) { return generator ? generator->get() : nullptr; }

inline Tensor out(facula::Tensor t) { return Tensor(std::move(t)); }
std::vector<Tensor> out(std::vector<facula::Tensor> list);
inline bool out(bool value) { return value; }
inline int64_t out(int64_t value) { return value; }
inline double out(double value) { return value; }
inline Scalar out(const facula::Scalar& value) { return Scalar(value); }
template <class... T>
auto out(std::tuple<T...> results) {
  return std::apply([](auto&&... each) { return std::make_tuple(out(std::move(each))...); }, std::move(results));
}

inline Tensor made(facula::Tensor fresh, const TensorOptions& options) {
  const bool plain = !options.requires_grad() && !options.pinned_memory();
  return plain ? Tensor(std::move(fresh)) : finish(std::move(fresh), options);
}

}  // namespace torch::detail
