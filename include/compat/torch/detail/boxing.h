// Between the arguments of C++ functions and the values that operators are called with by name.
#pragma once

#include <torch/detail/convert.h>
#include <torch/detail/ivalue.h>

#include "program/custom.h"

namespace torch {

/// Integers that a program may vary; here they are numbers.
using SymInt = int64_t;
using SymIntArrayRef = ArrayRef<SymInt>;
using OptionalSymIntArrayRef = OptionalIntArrayRef;

namespace detail {

/// A function without its class: R(A...) of functions, pointers to them, and objects with one operator().
template <class F>
struct Signature : Signature<decltype(&F::operator())> {};
template <class R, class... A>
struct Signature<R(A...)> {
  using type = R(A...);
};
template <class R, class... A>
struct Signature<R (*)(A...)> : Signature<R(A...)> {};
template <class R, class... A>
struct Signature<R (&)(A...)> : Signature<R(A...)> {};
template <class R, class... A>
struct Signature<R(A...) noexcept> : Signature<R(A...)> {};
template <class R, class... A>
struct Signature<R (*)(A...) noexcept> : Signature<R(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...)> : Signature<R(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const> : Signature<R(A...)> {};

inline const Tensor& tensor_in(const facula::Value& value) {
  static_assert(sizeof(Tensor) == sizeof(facula::Tensor));  // one is the other
  return reinterpret_cast<const Tensor&>(value.tensor());
}
inline TensorList tensors_in(const facula::Value& value) {
  const auto& list = value.tensors();
  return {reinterpret_cast<const Tensor*>(list.data()), list.size()};
}

inline MemoryFormat format_from(facula::MemoryFormat format) {
  for (const auto ours : {MemoryFormat::Preserve, MemoryFormat::ChannelsLast, MemoryFormat::ChannelsLast3d})
    if (format_of(ours) == format) return ours;
  return MemoryFormat::Contiguous;
}

/// What a parameter of this type holds while a function runs: `schema` is its type in a schema, `value` what it is given.
template <class T>
struct Parameter {
  static_assert(sizeof(T) == 0,
                "an operator takes Tensor, int64_t, double, bool, std::string, Scalar, ScalarType, Device, Layout, "
                "MemoryFormat, Generator, lists and optionals of these");
};
#define FACULA_PARAMETER(Type, Word, Expression)                          \
  template <>                                                             \
  struct Parameter<Type> {                                                \
    static std::string schema() { return Word; }                          \
    explicit Parameter(const facula::Value& given) : value(Expression) {} \
    static facula::Value boxed(const Type& v);                            \
    Type value;                                                           \
  };
FACULA_PARAMETER(Tensor, "Tensor", tensor_in(given))
FACULA_PARAMETER(int64_t, "int", given.to_int())
FACULA_PARAMETER(double, "float", given.to_float())
FACULA_PARAMETER(bool, "bool", given.to_bool())
FACULA_PARAMETER(std::string, "str", given.to_string())
FACULA_PARAMETER(std::string_view, "str", given.to_string())
FACULA_PARAMETER(Scalar, "Scalar", given.to_scalar())
FACULA_PARAMETER(ScalarType, "ScalarType", scalar_type_of(given.to_dtype()))
FACULA_PARAMETER(Device, "Device", device_from(given.to_device()))
FACULA_PARAMETER(Layout, "Layout", (given.to_layout(), kStrided))
FACULA_PARAMETER(MemoryFormat, "MemoryFormat", format_from(given.to_memory_format()))
FACULA_PARAMETER(TensorList, "Tensor[]", tensors_in(given))
FACULA_PARAMETER(std::vector<Tensor>, "Tensor[]", tensors_in(given).vec())
FACULA_PARAMETER(List<Tensor>, "Tensor[]", tensors_in(given))
FACULA_PARAMETER(IntArrayRef, "int[]", given.ints())
FACULA_PARAMETER(std::vector<int64_t>, "int[]", given.ints())
FACULA_PARAMETER(List<int64_t>, "int[]", IntArrayRef(given.ints()))
FACULA_PARAMETER(std::vector<bool>, "bool[]", given.bools())
#undef FACULA_PARAMETER
template <>
struct Parameter<std::vector<double>> {
  static std::string schema() { return "float[]"; }
  explicit Parameter(const facula::Value& given) {
    std::vector<double> room;
    value = given.floats(room);
  }
  static facula::Value boxed(const std::vector<double>& v) { return v; }
  std::vector<double> value;
};
template <>
struct Parameter<ArrayRef<double>> {
  static std::string schema() { return "float[]"; }
  explicit Parameter(const facula::Value& given) : value(given.floats(room)) {}
  std::vector<double> room;
  ArrayRef<double> value;
};
template <>
struct Parameter<Generator> {
  static std::string schema() { return "Generator"; }
  explicit Parameter(const facula::Value& given)  // who gave it keeps it
      : value(std::shared_ptr<facula::Generator>(std::shared_ptr<void>(), given.to_generator())) {}
  static facula::Value boxed(const Generator& v) { return v.get(); }
  Generator value;
};
template <size_t N>
struct Parameter<std::array<bool, N>> {
  static std::string schema() { return "bool[" + std::to_string(N) + "]"; }
  explicit Parameter(const facula::Value& given) {
    const std::vector<bool>& list = given.bools();
    TORCH_CHECK(list.size() == N, "operator: a list of ", N, " bools is expected, got ", list.size());
    std::copy(list.begin(), list.end(), value.begin());
  }
  std::array<bool, N> value{};
};
template <class T>
struct Parameter<optional<T>> {
  static std::string schema() { return Parameter<T>::schema() + "?"; }
  explicit Parameter(const facula::Value& given) {
    if (given.is_none()) return;
    inside.emplace(given);
    value = inside->value;
  }
  static facula::Value boxed(const optional<T>& v) { return v ? Parameter<T>::boxed(*v) : facula::Value(); }
  optional<Parameter<T>> inside;
  optional<T> value;
};
template <>
struct Parameter<OptionalIntArrayRef> {
  static std::string schema() { return "int[]?"; }
  explicit Parameter(const facula::Value& given) {
    if (!given.is_none()) value = IntArrayRef(given.ints());
  }
  OptionalIntArrayRef value;
};
template <>
struct Parameter<TypeMeta> : Parameter<ScalarType> {
  using Parameter<ScalarType>::Parameter;
};

inline std::vector<facula::Tensor> cores(TensorList list) {
  std::vector<facula::Tensor> all;
  for (const Tensor& t : list) all.push_back(t.core());
  return all;
}
inline facula::Value Parameter<Tensor>::boxed(const Tensor& v) { return v.core(); }
inline facula::Value Parameter<int64_t>::boxed(const int64_t& v) { return v; }
inline facula::Value Parameter<double>::boxed(const double& v) { return v; }
inline facula::Value Parameter<bool>::boxed(const bool& v) { return v; }
inline facula::Value Parameter<std::string>::boxed(const std::string& v) { return v; }
inline facula::Value Parameter<std::string_view>::boxed(const std::string_view& v) { return v; }
inline facula::Value Parameter<Scalar>::boxed(const Scalar& v) { return v.number(); }
inline facula::Value Parameter<ScalarType>::boxed(const ScalarType& v) { return dtype_of(v); }
inline facula::Value Parameter<Device>::boxed(const Device& v) { return device_of(v); }
inline facula::Value Parameter<Layout>::boxed(const Layout&) { return facula::Layout::Strided; }
inline facula::Value Parameter<MemoryFormat>::boxed(const MemoryFormat& v) { return format_of(v); }
inline facula::Value Parameter<TensorList>::boxed(const TensorList& v) { return cores(v); }
inline facula::Value Parameter<std::vector<Tensor>>::boxed(const std::vector<Tensor>& v) { return cores(v); }
inline facula::Value Parameter<List<Tensor>>::boxed(const List<Tensor>& v) { return cores(v.vec()); }
inline facula::Value Parameter<IntArrayRef>::boxed(const IntArrayRef& v) { return v.vec(); }
inline facula::Value Parameter<std::vector<int64_t>>::boxed(const std::vector<int64_t>& v) { return v; }
inline facula::Value Parameter<List<int64_t>>::boxed(const List<int64_t>& v) { return v.vec(); }
inline facula::Value Parameter<std::vector<bool>>::boxed(const std::vector<bool>& v) { return v; }

template <class T>
struct IsTuple : std::false_type {};
template <class... T>
struct IsTuple<std::tuple<T...>> : std::true_type {};

/// What a function gives, as results of an operator.
template <class R>
struct Results {
  static std::string schema() { return Parameter<std::decay_t<R>>::schema(); }
  static constexpr size_t count = 1;
  static void put(const std::decay_t<R>& made, facula::Value* results) {
    results[0] = Parameter<std::decay_t<R>>::boxed(made);
  }
  static std::decay_t<R> get(const facula::Value* results) { return Parameter<std::decay_t<R>>(results[0]).value; }
};
template <>
struct Results<void> {
  static std::string schema() { return "()"; }
  static constexpr size_t count = 0;
  static void get(const facula::Value*) {}
};
template <class... T>
struct Results<std::tuple<T...>> {
  static std::string schema() {
    std::string text;
    ((text += (text.empty() ? "" : ", ") + Parameter<std::decay_t<T>>::schema()), ...);
    return "(" + text + ")";
  }
  static constexpr size_t count = sizeof...(T);
  static void put(const std::tuple<T...>& made, facula::Value* results) {
    std::apply([&](const auto&... each) { ((*results++ = Parameter<std::decay_t<T>>::boxed(each)), ...); }, made);
  }
  static std::tuple<T...> get(const facula::Value* results) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      return std::tuple<T...>(Parameter<std::decay_t<T>>(results[I]).value...);
    }(std::index_sequence_for<T...>());
  }
};

/// A schema for a function: arguments are called _0, _1, ...
template <class F>
struct Inferred;
template <class R, class... A>
struct Inferred<R(A...)> {
  static std::string schema(const std::string& name) {
    std::string text = name + "(";
    int i = 0;
    ((text += (i ? ", " : "") + Parameter<std::decay_t<A>>::schema() + " _" + std::to_string(i), ++i), ...);
    return text + ") -> " + Results<R>::schema();
  }
  /// "" where the schema's arguments and results are in number and kind what the function takes and gives, else why not.
  static std::string mismatch(const facula::BoxedOp& op) {
    const facula::BoxedOp own = facula::parse_schema(schema("f"));
    if (own.arguments.size() != op.arguments.size())
      return text_of("a function of ", op.arguments.size(), " arguments is expected, got one of ",
                     own.arguments.size());
    if (own.results.size() != op.results.size())
      return text_of("a function with ", op.results.size(), " results is expected, got one with ", own.results.size());
    for (size_t i = 0; i < op.arguments.size(); ++i)
      if (const std::string what = difference(op.arguments[i].type, own.arguments[i].type); !what.empty())
        return "argument " + op.arguments[i].name + ": " + what;
    for (size_t i = 0; i < op.results.size(); ++i)
      if (const std::string what = difference(op.results[i], own.results[i]); !what.empty())
        return "result " + std::to_string(i) + ": " + what;
    return "";
  }

 private:
  static std::string difference(facula::BoxedType wanted, facula::BoxedType own) {
    wanted.list_size = own.list_size = 0;
    return wanted.text() == own.text() ? "" : wanted.text() + " is expected, got " + own.text();
  }
};

template <class F, class Function>
struct Boxed;
/// A kernel: the function called with values.
template <class R, class... A, class Function>
struct Boxed<R(A...), Function> {
  Function function;
  void operator()(const facula::Value* const* arguments, facula::Value* results) {
    call(arguments, results, std::index_sequence_for<A...>());
  }

 private:
  template <size_t... I>
  void call([[maybe_unused]] const facula::Value* const* arguments, facula::Value* results, std::index_sequence<I...>) {
    std::tuple<Parameter<std::decay_t<A>>...> held{Parameter<std::decay_t<A>>(*arguments[I])...};
    if constexpr (std::is_void_v<R>) {
      function(static_cast<A>(std::get<I>(held).value)...);
    } else {
      Results<R>::put(function(static_cast<A>(std::get<I>(held).value)...), results);
    }
  }
};

}  // namespace detail
}  // namespace torch
