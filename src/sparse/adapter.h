// Converts an op call, which is references to arguments, to the call of a typed C++ function and back, for the rows of
// the generated table.
#pragma once

#include "core/sparse.h"
#include "observe/op_call.h"

namespace facula::sparse {

using Adapter = void (*)(const OpCall& call, List<ResultSlot> results);

/// What one op does with sparse tensors; without functions its own raw function takes them.
struct Row {
  uint16_t op;
  uint8_t arity;     // arguments without those of out=
  Adapter function;  // results are new
  Adapter in_place;  // the first argument is written to
};
extern const Row rows[];
extern const size_t row_count;

template <class T>
void put(List<ResultSlot> results, T made) {
  results[0].template as<T>() = std::move(made);
}
template <class... T>
void put(List<ResultSlot> results, std::tuple<T...> made) {
  size_t i = 0;
  std::apply(
      [&](auto&... each) { ((results[i].template as<std::decay_t<decltype(each)>>() = std::move(each), ++i), ...); },
      made);
}

template <class R, class... A, size_t... I>
void call_with(R (*f)(A...), const OpCall& call, List<ResultSlot> results, std::index_sequence<I...>) {
  if constexpr (std::is_void_v<R>) f(call.arguments[I].as<std::remove_cvref_t<A>>()...);
  else put(results, f(call.arguments[I].as<std::remove_cvref_t<A>>()...));
}
template <class R, class... A>
void call_typed(R (*f)(A...), const OpCall& call, List<ResultSlot> results) {
  call_with(f, call, results, std::index_sequence_for<A...>());
}

/// A function that takes what the op takes.
template <class Signature, Signature* f>
void adapt(const OpCall& call, List<ResultSlot> results) {
  call_typed(f, call, results);
}

/// The sparse tensor of a function on values, coalesced if it has to be.
Tensor operand_for_values(const OpCall& call, bool coalesced);
/// The same positions with other values.
Tensor with_values(const Tensor& self, const Tensor& values);

template <class R, class First, class... A, size_t... I>
Tensor call_on_values(R (*f)(First, A...), const OpCall& call, const Tensor& values, std::index_sequence<I...>) {
  return f(values, call.arguments[I + 1].as<std::remove_cvref_t<A>>()...);
}
template <class R, class First, class... A>
Tensor call_on_values(R (*f)(First, A...), const OpCall& call, const Tensor& values) {
  return call_on_values(f, call, values, std::index_sequence_for<A...>());
}

/// A function of one tensor, run on the values of the sparse one.
template <class Signature, Signature* f, bool coalesced>
void on_values(const OpCall& call, List<ResultSlot> results) {
  const Tensor self = operand_for_values(call, coalesced);
  put(results, with_values(self, call_on_values(f, call, sparse_parts(self).values)));
}

}  // namespace facula::sparse
