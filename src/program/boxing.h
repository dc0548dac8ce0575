// Turns a C++ function into one over values. There is one thunk for each C++ signature, not for each op: the functions
// of the table share some four hundred.
#pragma once

#include <tuple>

#include "ops/operand.h"
#include "program/boxed.h"

namespace facula::boxing {

// An argument: get() gives what the function takes, and lives until the call is over.
template <class T>
struct Unbox;

template <>
struct Unbox<const Tensor&> {
  const Value& from;
  const Tensor& get() const { return from.tensor(); }
};
template <>
struct Unbox<TensorList> {
  const Value& from;
  TensorList get() const { return from.tensors(); }
};
template <>
struct Unbox<const Operand&> {
  Operand held;
  explicit Unbox(const Value& v) : held(v.is_tensor() ? Operand(v.tensor()) : Operand(v.to_scalar())) {}
  const Operand& get() const { return held; }
};
template <>
struct Unbox<const Scalar&> {
  Scalar held;
  explicit Unbox(const Value& v) : held(v.to_scalar()) {}
  const Scalar& get() const { return held; }
};
template <>
struct Unbox<const std::optional<Scalar>&> {
  std::optional<Scalar> held;
  explicit Unbox(const Value& v) {
    if (!v.is_none()) held = v.to_scalar();
  }
  const std::optional<Scalar>& get() const { return held; }
};
template <>
struct Unbox<IntList> {
  const Value& from;
  IntList get() const { return from.ints(); }
};
template <>
struct Unbox<std::optional<IntList>> {
  const Value& from;
  std::optional<IntList> get() const {
    return from.is_none() ? std::nullopt : std::optional<IntList>(IntList(from.ints()));
  }
};
template <>
struct Unbox<FloatList> {
  const Value& from;
  mutable std::vector<double> room{};
  FloatList get() const { return from.floats(room); }
};
template <>
struct Unbox<std::optional<FloatList>> {
  const Value& from;
  mutable std::vector<double> room{};
  std::optional<FloatList> get() const {
    return from.is_none() ? std::nullopt : std::optional<FloatList>(FloatList(from.floats(room)));
  }
};

template <>
struct Unbox<const std::vector<bool>&> {
  const Value& from;
  const std::vector<bool>& get() const { return from.bools(); }
};

inline void read(const Value& v, int64_t& to) { to = v.to_int(); }
inline void read(const Value& v, double& to) { to = v.to_float(); }
inline void read(const Value& v, bool& to) { to = v.to_bool(); }
inline void read(const Value& v, std::string_view& to) { to = v.to_string(); }
inline void read(const Value& v, DType& to) { to = v.to_dtype(); }
inline void read(const Value& v, Device& to) { to = v.to_device(); }
inline void read(const Value& v, Layout& to) { to = v.to_layout(); }
inline void read(const Value& v, MemoryFormat& to) { to = v.to_memory_format(); }
inline void read(const Value& v, Generator*& to) { to = v.to_generator(); }
inline void read(const Value& v, std::shared_ptr<const Runner>& to) { to = v.graph(); }

template <class T>
struct Unbox {
  const Value& from;
  T get() const {
    T value{};
    read(from, value);
    return value;
  }
};
template <class T>
struct Unbox<std::optional<T>> {
  const Value& from;
  std::optional<T> get() const { return from.is_none() ? std::nullopt : std::optional<T>(Unbox<T>{from}.get()); }
};

// Results.
inline void give(Value* results, Tensor made) { results[0] = std::move(made); }
inline void give(Value* results, std::vector<Tensor> made) { results[0] = std::move(made); }
inline void give(Value* results, bool made) { results[0] = made; }
inline void give(Value* results, int64_t made) { results[0] = made; }
inline void give(Value* results, double made) { results[0] = made; }
inline void give(Value* results, const Scalar& made) { results[0] = made; }
template <class... T>
void give(Value* results, std::tuple<T...> made) {
  std::apply([&](auto&... part) { (give(results++, std::move(part)), ...); }, made);
}

template <class Signature>
struct ThunkOf;
template <class R, class... A>
struct ThunkOf<R(A...)> {
  static void call(void (*function)(), const Value* const* arguments, Value* results) {
    const auto target = reinterpret_cast<R (*)(A...)>(function);
    [&]<size_t... I>(std::index_sequence<I...>) {
      if constexpr (std::is_void_v<R>) {
        target(Unbox<A>{*arguments[I]}.get()...);
      } else {
        give(results, target(Unbox<A>{*arguments[I]}.get()...));
      }
    }(std::index_sequence_for<A...>());
  }
};

/// A row's function and its thunk. `Signature` chooses among C++ overloads.
template <class Signature>
BoxedFunction box(Signature* function) {
  return {reinterpret_cast<void (*)()>(function), ThunkOf<Signature>::call};
}

}  // namespace facula::boxing
