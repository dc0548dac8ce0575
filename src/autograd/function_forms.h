// Defines the forms of a public function (itself, in place, with out=) as templates over a row of its op, which the
// generator writes (codegen/emit_autograd.py). These are the steps of a call:
//
//     function() -- no flag, nobody watches ----------------------------------------------> Row::raw()
//         |
//       slow() --- autocast, vmap, sparse, layouts, conjugates: prepared arguments -------> Row::call(), from the start
//         |
//       run() ---- recorded: Row::record() attaches a node to what it gives
//         |
//         +-- watched(): the raw call in a scope of observers, which may run something else (src/observe)
//         +-- on_held_memory(): arguments and results have private layouts
#pragma once

#include <array>
#include <tuple>

#include "autograd/autocast.h"
#include "autograd/function_support.h"

namespace facula {

/// What an op does with the private layouts of its arguments (core/tensor.h).
enum class Layouts : uint8_t {
  Materialized,  // it sees none
  Passed,        // it takes and gives tensors that have one
  Unchanged,     // a view: it may give such a tensor back itself
};

enum class Derivative : uint8_t { None, Missing, Formulas };

/// How an op writes in place.
enum class Writes : uint8_t {
  Into,     // an element-wise op, which counts the write itself
  Raw,      // by a raw function of its own, in a CheckedWrite
  Results,  // by a copy of what its function gives
};

/// What a row says where it says nothing else. A row has a Signature and a name besides, and functions: `raw`, `call`
/// (the public function), `batched` (inside vmap), and those that its other fields ask for.
struct OpRow {
  static constexpr Layouts layouts = Layouts::Materialized;
  static constexpr Derivative derivative = Derivative::None;
  static constexpr bool is_view = false;
  static constexpr bool is_elementwise = false;
  static constexpr bool is_composite = false;
  static constexpr bool one_device = false;  // kernels read several tensors, which must lie on one device
  static constexpr uint32_t autocast = 0;    // regions for which there is a policy
  static constexpr AutocastPolicy on_cpu = AutocastPolicy::None, on_cuda = AutocastPolicy::None;
  static constexpr Writes writes = Writes::Results;
  static constexpr WriteScope::Overlap overlap = WriteScope::Overlap::Refused;
  static constexpr bool apart = false;  // in place, no other argument may share memory with the first
  static constexpr OutHistory out_history = OutHistory::Recorded;
  static constexpr Out::Cast out_cast = Out::Cast::None;
};

// ---- arguments of any type: those that are no tensors have no flags, and are handed on as they are

template <class T>
constexpr bool is_tensor_argument =
    std::is_same_v<T, Tensor> || std::is_same_v<T, Operand> || std::is_same_v<T, TensorList>;

template <class... A>
[[gnu::always_inline]] inline uint32_t flags_of_all(const A&... args) {
  [[maybe_unused]] const auto flags = [](const auto& a) {
    if constexpr (is_tensor_argument<std::remove_cvref_t<decltype(a)>>) return flags_of(a);
    else return uint32_t{0};
  };
  return (uint32_t{0} | ... | flags(args));
}
template <class... A>
[[gnu::always_inline]] inline uint32_t recorded_flags_of_all(const A&... args) {
  [[maybe_unused]] const auto flags = [](const auto& a) {
    if constexpr (is_tensor_argument<std::remove_cvref_t<decltype(a)>>) return recorded_flags_of(a);
    else return uint32_t{0};
  };
  return (uint32_t{0} | ... | flags(args));
}
/// Calls f(argument) for those that are tensors, or have some.
template <class F, class... A>
[[gnu::always_inline]] inline void each_tensor_argument(F&& f, const A&... args) {
  [[maybe_unused]] const auto visit = [&](const auto& a) {
    if constexpr (is_tensor_argument<std::remove_cvref_t<decltype(a)>>) f(a);
  };
  (visit(args), ...);
}

template <class... A>
[[gnu::cold, gnu::noinline]] void report_devices_of(const char* op, const A&... args) {
  std::vector<TensorList> lists;
  each_tensor_argument([&](const auto& a) { lists.push_back(tensors_of(a)); }, args...);
  report_devices(op, lists);
}
template <class... A>
[[gnu::always_inline]] inline void check_devices(const char* op, const A&... args) {
  OneDevice check;
  each_tensor_argument([&](const auto& a) { check.see(a); }, args...);
  if (__builtin_expect(check.differ(), 0)) report_devices_of(op, args...);
}

/// Whether the program requests a memory format, and so sees it.
inline bool requests_format(const std::optional<MemoryFormat>& format) {
  return format.value_or(MemoryFormat::Preserve) != MemoryFormat::Preserve;
}
template <class T>
bool requests_format(const T&) {
  return false;
}

inline bool is_same_tensor(const Tensor& result, const Tensor& argument) { return result.is_same(argument); }
template <class T>
bool is_same_tensor(const Tensor&, const T&) {
  return false;
}

/// The type that holds a value in place of a tensor argument: Holder<Held, TensorList> is Held<std::vector<Tensor>>.
/// What is no tensor is passed through.
template <class T>
struct PassedOn {
  T value;
  template <class... Rest>
  explicit PassedOn(T given, const Rest&...) : value(given) {}
  T get() const { return value; }
};
template <template <class> class Of, class A, class T = std::remove_cvref_t<A>>
using Holder =
    std::conditional_t<is_tensor_argument<T>,
                       Of<std::conditional_t<std::is_same_v<T, TensorList>, std::vector<Tensor>, T>>, PassedOn<A>>;

/// In-place and out= forms take their arguments as they are.
template <uint32_t regions>
struct FormPause {
  AutocastPause pause{regions};
};
template <>
struct FormPause<0> {};

// ---- a call for observers

template <size_t n>
List<Argument> list_of(const std::array<Argument, n>& all) {
  return List<Argument>(all.data(), n);
}
template <size_t n>
List<ResultSlot> list_of(const std::array<ResultSlot, n>& all) {
  return List<ResultSlot>(all.data(), n);
}
template <class T>
std::array<ResultSlot, 1> slots_of(T& result) {
  return {ResultSlot(&result)};
}
template <class... T>
std::array<ResultSlot, sizeof...(T)> slots_of(std::tuple<T...>& results) {
  return std::apply([](T&... each) { return std::array<ResultSlot, sizeof...(T)>{ResultSlot(&each)...}; }, results);
}

// ---- functions

template <class Row, class Signature = typename Row::Signature>
struct FunctionForm;

template <class Row, class R, class... A>
struct FunctionForm<Row, R(A...)> {
  /// Of an op with tensors among its arguments.
  [[gnu::always_inline]] static R function(A... args) {
    if constexpr (Row::one_device) check_devices(Row::name, args...);
    uint32_t unusual = (flags_of_all(args...) & kSlowFlags) | watching();
    if constexpr (Row::autocast != 0) unusual |= autocasting(Row::autocast);
    if (__builtin_expect(unusual == 0, 1)) return Row::raw(args...);
    return slow(args...);
  }
  /// Of an op without.
  [[gnu::always_inline]] static R factory(A... args) { return is_watched(0) ? watched(args...) : Row::raw(args...); }
  /// Of a composite with a policy for autocast. Its ops do the rest; `call` is what people have written.
  [[gnu::always_inline]] static R composite(A... args) {
    if (__builtin_expect(autocasting(Row::autocast) == 0, 1)) return Row::call(args...);
    return cast(args...);
  }

  [[gnu::noinline]] static R slow(A... args) {
    if constexpr (Row::autocast != 0)
      if (autocasting(Row::autocast)) return cast(args...);
    const uint32_t flags = flags_of_all(args...);
    if (flags & kBatched) return Row::batched(args...);
    if constexpr (requires { Row::sparse; })
      if (flags & kSparse) return Row::sparse(args...);
    if constexpr (Row::layouts == Layouts::Materialized)
      if (flags & kPrivateLayout) return materialized(args...);
    if constexpr (Row::layouts == Layouts::Passed)
      if ((flags & kPrivateLayout) && (requests_format(args) || ...)) return materialized(args...);
    if constexpr (!Row::is_view)
      if (flags & kConjugate)
        return [](const auto&... resolved) { return Row::call(resolved.get()...); }(Holder<Resolved, A>(args)...);
    if constexpr (Row::derivative == Derivative::Formulas) {
      const uint32_t recorded = Row::recorded(args...);
      if (!recorded) {
        if constexpr (Row::is_view && std::is_same_v<R, Tensor>) return unrecorded_view(run(flags, args...));
        else return run(flags, args...);
      }
      R result = run(flags, args...);
      if constexpr (std::is_same_v<R, Tensor> && !Row::is_elementwise)  // it had nothing to do
        if ((is_same_tensor(result, args) || ...)) return result;
      Row::record(result, recorded, args...);
      return result;
    } else if constexpr (Row::derivative == Derivative::Missing) {
      const uint32_t recorded = recorded_flags_of_all(args...);
      R result = run(flags, args...);
      if (recorded) record_missing_derivative(result, recorded, args...);
      return result;
    } else {
      return run(flags, args...);
    }
  }

  static R run(uint32_t flags, A... args) {
    if constexpr (Row::layouts == Layouts::Passed)
      if (flags & kPrivateLayout) return on_held_memory(args...);
    return is_watched(flags) ? watched(args...) : Row::raw(args...);
  }

  [[gnu::cold, gnu::noinline]] static R watched(A... args) {
    R result{};
    const std::array<Argument, sizeof...(A)> arguments{Argument(args)...};
    const auto slots = slots_of(result);
    OpScope scope(Row::id, OpForm::Function, list_of(arguments), list_of(slots));
    if (scope.runs()) result = Row::raw(args...);
    scope.done();
    return result;
  }

  [[gnu::noinline]] static R on_held_memory(A... args) {
    const uint32_t flags = flags_of_all(args...);
    if (shows_arguments(flags)) return materialized(args...);
    const bool seen = is_watched(flags);
    R result = [seen](const auto&... held) {
      return seen ? watched(held.get()...) : Row::raw(held.get()...);
    }(Holder<Held, A>(args)...);
    keep_private(result);
    return result;
  }

  static R materialized(A... args) {
    each_tensor_argument([](const auto& a) { materialize_layout(a); }, args...);
    return Row::call(args...);
  }

  /// The arguments in the dtype of the op's policies, and the op on them outside of those regions.
  [[gnu::noinline]] static R cast(A... args) {
    constexpr auto is_any = [](AutocastPolicy policy) { return Row::on_cpu == policy || Row::on_cuda == policy; };
    constexpr bool casts = is_any(AutocastPolicy::Lower) || is_any(AutocastPolicy::Float32) ||
                           is_any(AutocastPolicy::Promote) || is_any(AutocastPolicy::Refused);
    if constexpr (!casts) {
      AutocastPause pause(Row::autocast);
      return Row::call(args...);
    } else {
      AutocastCall call(Row::name, Row::on_cpu, Row::on_cuda);
      if constexpr (is_any(AutocastPolicy::Promote) || is_any(AutocastPolicy::Refused))
        each_tensor_argument([&](const auto& a) { call.see(a); }, args...);
      return [](const auto&... converted) {
        AutocastPause pause(Row::autocast);
        return Row::call(converted.get()...);
      }(Holder<Autocast, A>(args, call)...);
    }
  }

 private:
  static void record_missing_derivative(const R& result, uint32_t recorded, const A&... args) {
    auto node = missing_derivative(Row::name, recorded);
    each_tensor_argument([&](const auto& a) { add_edges(*node, a); }, args...);
    set_history_of(result, node.get());
  }
};

// ---- what writes to its first argument

inline const Tensor& old_if_read(const Tensor& t, const Tensor& written, const Tensor& old) {
  return old_if_same(t, written, old);
}
inline Operand old_if_read(const Operand& o, const Tensor& written, const Tensor& old) {
  return old_if_same(o, written, old);
}
template <class T>
const T& old_if_read(const T& other, const Tensor&, const Tensor&) {
  return other;
}

template <class Row, class Signature = typename Row::Signature>
struct InPlaceForm;

template <class Row, class R, class First, class... Rest>
struct InPlaceForm<Row, R(First, Rest...)> {
  [[gnu::always_inline]] static const Tensor& inplace(const Tensor& self, Rest... rest) {
    [[maybe_unused]] const FormPause<Row::autocast> pause;
    if constexpr (Row::one_device) check_devices(Row::name, self, rest...);
    if constexpr (requires { Row::check_dims; }) Row::check_dims(self, rest...);  // out of range is refused first
    if constexpr (Row::apart) check_apart_from(self, rest...);
    const uint32_t flags = plain_flags(self, rest...);
    if (flags & kBatched) {
      write_batched(self, Row::call(self, rest...), Row::inplace_name, false);
      return self;
    }
    if (flags & kConjugate) {
      const Tensor old = before_write(self);
      assign_values(self, Row::call(old, old_if_read(rest, self, old)...), Row::id);
      return self;
    }
    const uint32_t recorded =
        (flags & kSlowFlags) || self.impl()->base ? written_flags_of(self) | recorded_flags_of_all(rest...) : 0;
    if constexpr (requires { Row::record_in_place; })
      if (Row::record_in_place(recorded, self, rest...)) return self;
    return run_inplace(
        self, Row::inplace_name, Row::id, recorded,
        [&](const Tensor& old) { return Row::call(old, old_if_read(rest, self, old)...); },
        [&] { write(self, rest...); });
  }

  /// A view op in place: the tensor becomes the view.
  [[gnu::always_inline]] static const Tensor& view(const Tensor& self, Rest... rest) {
    [[maybe_unused]] const FormPause<Row::autocast> pause;
    plain_flags(self, rest...);
    if (self.flags() & kBatched) {
      become_batched_view(self, Row::call(self, rest...));
      return self;
    }
    become_view(self, Row::call(self, rest...));
    count_write(self, Row::id);
    return self;
  }

  /// An op that has only this form, and whose result does not depend on the old values.
  [[gnu::always_inline]] static const Tensor& mutate(const Tensor& self, Rest... rest) {
    if constexpr (Row::one_device) check_devices(Row::name, self, rest...);
    if (plain_flags(self, rest...) & kBatched) {
      Row::batched(self, rest...);
      return self;
    }
    check_not_inference(self, Row::name);
    if (written_flags_of(self)) check_writable(self, Row::name);
    write(self, rest...);
    erase_history(self, Row::name);
    return self;
  }

  /// Writes without history.
  [[gnu::always_inline]] static void write(const Tensor& self, Rest... rest) {
    if constexpr (Row::writes == Writes::Into) {
      write_raw(is_watched(flags_of_all(self, rest...)), self, rest...);
    } else if constexpr (Row::writes == Writes::Raw) {
      CheckedWrite write(self, Row::inplace_name, Row::id, Row::overlap);
      write_raw(is_watched(flags_of_all(self, rest...)), write.target(), rest...);
      write.ran();
    } else if constexpr (Row::is_composite) {
      write_result(self, Row::call(self, rest...), Row::id);
    } else {
      using Function = FunctionForm<Row>;
      const bool seen = is_watched(flags_of_all(self, rest...));
      write_result(self, seen ? Function::watched(self, rest...) : Row::raw(self, rest...), Row::id);
    }
  }

 private:
  /// The flags of all arguments, of which none has a private layout that the op would see.
  [[gnu::always_inline]] static uint32_t plain_flags(const Tensor& self, const Rest&... rest) {
    const uint32_t flags = flags_of_all(self, rest...);
    if constexpr (Row::layouts == Layouts::Materialized) {
      if (__builtin_expect(flags & kPrivateLayout, 0)) {
        each_tensor_argument([](const auto& a) { materialize_layout(a); }, self, rest...);
        return flags_of_all(self, rest...);
      }
    }
    return flags;
  }

  static void check_apart_from(const Tensor& self, const Rest&... rest) {
    each_tensor_argument(
        [&](const auto& a) {
          for (const Tensor& t : tensors_of(a)) check_apart(self, t, Row::inplace_name);
        },
        rest...);
  }

  [[gnu::always_inline]] static void write_raw(bool watched, const Tensor& target, const Rest&... rest) {
    if (watched) write_watched(target, rest...);
    else Row::write(target, rest...);
  }

  [[gnu::cold, gnu::noinline]] static void write_watched(const Tensor& self, const Rest&... rest) {
    const std::array<Argument, 1 + sizeof...(Rest)> arguments{Argument(self), Argument(rest)...};
    OpScope scope(Row::id, OpForm::InPlace, list_of(arguments), List<ResultSlot>());
    if (scope.runs()) Row::write(self, rest...);
    else if constexpr (Row::writes == Writes::Into) count_write(self, Row::id);
    scope.done();
  }
};

// ---- out=

template <class Row, class Signature = typename Row::Signature>
struct OutForm;

template <class Row, class R, class... A>
struct OutForm<Row, R(A...)> {
  template <size_t n>
  using Outs = std::array<const Tensor*, n>;

  /// Of an element-wise op.
  static void into(const Tensor& out, A... args) {
    [[maybe_unused]] const FormPause<Row::autocast> pause;
    const EndOfHistories<1> ends({&out}, prepared<1>({&out}, args...));
    if (flags_of_all(args...) & kConjugate) {
      const Out target(Row::name, Row::id, out, Row::out_cast, args...);
      target.finish(Row::call(args...));
    } else if (is_watched(flags_of_all(args..., out))) {
      into_watched(out, args...);
    } else {
      Row::into(out, args...);
    }
  }

  /// Of any other: results lie where the op puts them, or are copied.
  template <size_t n>
  static void out(const Outs<n>& outs, A... args) {
    [[maybe_unused]] const FormPause<Row::autocast> pause;
    const EndOfHistories<n> ends(outs, prepared<n>(outs, args...));
    if constexpr (requires { Row::check_out_arguments; }) Row::check_out_arguments(*outs[0], args...);
    if constexpr (Row::one_device) check_devices(Row::name, args...);
    if constexpr (!Row::is_composite) {
      uint32_t flags = flags_of_all(args...);
      for (const Tensor* each : outs) flags |= flags_of(*each);
      if (is_watched(flags)) return out_watched(outs, std::make_index_sequence<n>(), args...);
    }
    out_with(outs, std::make_index_sequence<n>(), args...);
  }

 private:
  /// Refuses what out= forms cannot do, before anything is computed. Returns the flags of the arguments.
  template <size_t n>
  static bool prepared(const Outs<n>& outs, const A&... args) {
    for (const Tensor* each : outs) materialize_layout(*each);
    each_tensor_argument([](const auto& a) { materialize_layout(a); }, args...);
    check_out(Row::name, flags_of_all(args...), Row::out_history, List<const Tensor*>(outs.data(), n));
    return true;
  }

  template <size_t n>
  struct EndOfHistories {
    std::array<EndOfHistory, Row::out_history == OutHistory::Recorded ? 0 : n> each;
    EndOfHistories(const Outs<n>& outs, bool)
        : EndOfHistories(outs, std::make_index_sequence<Row::out_history == OutHistory::Recorded ? 0 : n>()) {}
    template <size_t... i>
    EndOfHistories([[maybe_unused]] const Outs<n>& outs, std::index_sequence<i...>)
        : each{EndOfHistory(Row::name, Row::out_history, *outs[i])...} {}
  };

  /// Where result `i` goes: to its tensor, unless an argument or another result lies there.
  template <size_t n, size_t... k>
  static Out target(const Outs<n>& outs, size_t i, std::index_sequence<k...>, const A&... args) {
    return Out(Row::name, Row::id, *outs[i], Row::out_cast, args..., (k == i ? Tensor() : *outs[k])...);
  }
  static void finish(const std::array<Out, 1>& targets, const R& made) { targets[0].finish(made); }
  template <size_t n>
  static void finish(const std::array<Out, n>& targets, const R& made) {
    [&]<size_t... i>(std::index_sequence<i...>) {
      (targets[i].finish(std::get<i>(made)), ...);
    }(std::make_index_sequence<n>());
  }

  template <size_t n, size_t... i>
  static void out_with(const Outs<n>& outs, std::index_sequence<i...> all, A... args) {
    const std::array<Out, n> targets{target(outs, i, all, args...)...};
    GradMode no_grad(false);
    if (flags_of_all(args...) & kConjugate) return finish(targets, Row::call(args...));
    if constexpr (requires { Row::make(args..., targets[i]...); }) finish(targets, Row::make(args..., targets[i]...));
    else finish(targets, Row::call(args...));
  }

  template <size_t n, size_t... i>
  [[gnu::cold, gnu::noinline]] static void out_watched(const Outs<n>& outs, std::index_sequence<i...> all, A... args) {
    const std::array<Argument, sizeof...(A) + n> arguments{Argument(args)..., Argument(*outs[i])...};
    OpScope scope(Row::id, OpForm::Out, list_of(arguments), List<ResultSlot>());
    if (scope.runs()) {
      const std::array<Out, n> targets{target(outs, i, all, args...)...};
      if constexpr (requires { Row::make(args..., targets[i]...); }) finish(targets, Row::make(args..., targets[i]...));
      else finish(targets, Row::call(args...));
    } else {
      for (const Tensor* each : outs) count_write(*each, Row::id);
    }
    scope.done();
  }

  [[gnu::cold, gnu::noinline]] static void into_watched(const Tensor& out, A... args) {
    const std::array<Argument, sizeof...(A) + 1> arguments{Argument(args)..., Argument(out)};
    OpScope scope(Row::id, OpForm::Out, list_of(arguments), List<ResultSlot>());
    if (scope.runs()) Row::into(out, args...);
    else count_write(out, Row::id);
    scope.done();
  }
};

}  // namespace facula
