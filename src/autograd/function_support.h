// Declares what the generated functions share.
#pragma once

#include "autograd/batching_rules.h"
#include "autograd/inplace.h"
#include "autograd/saved.h"
#include "core/op_id.h"
#include "functions_create.h"
#include "observe/observer.h"
#include "ops/out.h"

namespace facula {

inline uint32_t flags_of(const Tensor& t) { return t.defined() ? t.flags() : 0; }
inline uint32_t flags_of(const Operand& o) { return o.flags(); }
inline uint32_t flags_of(TensorList list) {
  uint32_t flags = 0;
  for (const Tensor& t : list) flags |= flags_of(t);
  return flags;
}
/// Walks the tensors of a call; `differ()` once one lies elsewhere than the ones before it.
class OneDevice {
 public:
  void see(const Tensor& t) {
    if (!t.defined() || (t.flags() & kPythonDispatch)) return;  // its class decides
    if (!first_) first_ = t.storage();
    else if (__builtin_expect(first_->device != t.storage()->device, 0)) differ_ = true;
  }
  void see(TensorList list) {
    for (const Tensor& t : list) see(t);
  }
  void see(const Operand&) {}  // element-wise rules mix numbers and devices themselves
  bool differ() const { return differ_; }

 private:
  const Storage* first_ = nullptr;
  bool differ_ = false;
};
inline TensorList tensors_of(const Tensor& t) { return TensorList(&t, 1); }
inline TensorList tensors_of(TensorList list) { return list; }
inline TensorList tensors_of(const Operand&) { return {}; }
/// Throws an error that names every argument and where it lies.
[[noreturn]] void report_devices(const char* op, const std::vector<TensorList>& arguments);
/// Kernels read every tensor through raw pointers: what takes several is given tensors of one device.
template <class... Args>
void check_one_device(const char* op, const Args&... args) {
  OneDevice check;
  (check.see(args), ...);
  if (__builtin_expect(check.differ(), 0)) report_devices(op, {tensors_of(args)...});
}

/// What of an argument is recorded now (see recorded()).
inline uint32_t recorded_flags_of(const Tensor& t) { return t.defined() ? recorded(live_flags(t.impl())) : 0; }
inline uint32_t recorded_flags_of(const Operand& o) { return o.is_tensor() ? recorded(live_flags(o.impl())) : 0; }
inline uint32_t recorded_flags_of(TensorList list) {
  uint32_t recorded_flags = 0;
  for (const Tensor& t : list) recorded_flags |= recorded_flags_of(t);
  return recorded_flags;
}
/// Of a tensor that is written to: its own and its base's history count.
inline uint32_t written_flags_of(const Tensor& t) {
  uint32_t recorded_flags = recorded_flags_of(t) | (t.impl()->base ? recorded(t.impl()->base->flags) : 0);
  return is_inexact(t.dtype()) ? recorded_flags : 0;
}
/// Whether an argument reads memory that the op is about to write.
inline bool shares_memory(const Tensor& written, const Tensor& t) {
  return t.defined() && share_bytes(t.storage(), written.storage());
}
inline bool shares_memory(const Tensor& written, const Operand& o) {
  return o.is_tensor() && share_bytes(o.impl()->storage, written.storage());
}

template <class... Args>
void check_all_apart(const char* op, const Tensor& written, const Args&... read) {
  auto see = [&](TensorList list) {
    for (const Tensor& t : list) check_apart(written, t, op);
  };
  (see(tensors_of(read)), ...);
}
/// A view that is made while nothing is recorded: it does not take on the history that its base has already.
Tensor unrecorded_view(Tensor view);
/// An argument of an op in place, or the value that `written` had where it is that tensor itself.
inline const Tensor& old_if_same(const Tensor& t, const Tensor& written, const Tensor& old) {
  return t.is_same(written) ? old : t;
}
inline Operand old_if_same(const Operand& o, const Tensor& written, const Tensor& old) {
  return o.is_tensor() && o.impl() == written.impl() ? Operand(old) : o;
}

inline void add_edges(Node& node, const Tensor& t) { node.add_edge(t.defined() ? gradient_edge(t.impl()) : Edge{}); }
inline void add_edges(Node& node, const Operand& o) { node.add_edge(o.is_tensor() ? gradient_edge(o.impl()) : Edge{}); }
inline void add_edges(Node& node, TensorList list) {
  for (const Tensor& t : list) add_edges(node, t);
}

inline void store_list(const std::vector<Tensor>& grads, Tensor* results, size_t count) {
  for (size_t i = 0; i < count && i < grads.size(); ++i) results[i] = grads[i];
}

/// An argument whose conjugate bit has been turned into values.
template <class T>
class Resolved;
template <>
class Resolved<Tensor> {
 public:
  explicit Resolved(const Tensor& t) : value_(t.defined() && t.is_conj() ? resolve_conj(t) : t) {}
  const Tensor& get() const { return value_; }

 private:
  Tensor value_;
};
template <>
class Resolved<Operand> {
 public:
  explicit Resolved(const Operand& o)
      : value_(o.is_tensor() && (o.flags() & kConjugate) ? resolve_conj(o.tensor()) : o.tensor()), operand_(o) {}
  Operand get() const { return value_.defined() ? Operand(value_) : operand_; }

 private:
  Tensor value_;
  Operand operand_;
};
template <>
class Resolved<std::vector<Tensor>> {
 public:
  explicit Resolved(TensorList list) {
    for (const Tensor& t : list) values_.push_back(t.defined() && t.is_conj() ? resolve_conj(t) : t);
  }
  TensorList get() const { return values_; }

 private:
  std::vector<Tensor> values_;
};

inline void materialize_layout(const Operand& o) {
  if (o.is_tensor()) materialize_layout(o.tensor());
}
/// An argument on the memory that it has now (see hold()).
template <class T>
class Held;
template <>
class Held<Tensor> {
 public:
  explicit Held(const Tensor& t) : value_(hold(t)) {}
  const Tensor& get() const { return value_; }

 private:
  Tensor value_;
};
template <>
class Held<Operand> {
 public:
  explicit Held(const Operand& o) : operand_(o), value_(o.is_tensor() ? o.tensor() : Tensor()) {}
  Operand get() const { return value_.get().defined() ? Operand(value_.get()) : operand_; }

 private:
  Operand operand_;
  Held<Tensor> value_;
};
template <>
class Held<std::vector<Tensor>> {
 public:
  explicit Held(TensorList list) {
    for (const Tensor& t : list) values_.push_back(Held<Tensor>(t).get());
  }
  TensorList get() const { return values_; }

 private:
  std::vector<Tensor> values_;
};
/// Whether the program sees the arguments of the call.
inline bool shows_arguments(uint32_t flags) { return (watching() & kWatchDispatch) || (flags & kPythonDispatch); }
inline void keep_private(const std::vector<Tensor>& results) {
  for (const Tensor& t : results) keep_private(t);
}
template <class... T>
void keep_private(const std::tuple<T...>& results) {
  std::apply([](const auto&... each) { (keep_private(each), ...); }, results);
}

/// out= and autograd exclude each other, but for results that depend on no argument differentiably.
enum class OutHistory : uint8_t {
  Recorded,  // the op has a derivative: neither arguments nor out= may be tracked
  Missing,   // it has none, or no arguments: what a leaf holds is not overwritten; of others a backward pass says so
  None,      // it gives truth values: out= keeps its flag, and no gradient flows through it any more
};
void check_out(const char* op, uint32_t inputs, OutHistory history, List<const Tensor*> outs);
/// Ends the history of tracked tensors when they have been written.
class EndOfHistory {
 public:
  EndOfHistory(const char* op, OutHistory history, const Tensor& out) {
    const bool ends = history != OutHistory::Recorded && (out.flags() & kRequiresGrad) && GradMode::enabled();
    if (__builtin_expect(ends, 0)) begin(op, history, out);
  }
  ~EndOfHistory() {
    if (__builtin_expect(out_ != nullptr, 0)) end();
  }
  EndOfHistory(const EndOfHistory&) = delete;

 private:
  void begin(const char* op, OutHistory history, const Tensor& out);
  void end() noexcept;

  const char* op_ = nullptr;
  const Tensor* out_ = nullptr;
  OutHistory history_ = OutHistory::Recorded;
  int failures_ = 0;
};
/// Checks a factory that gets a dtype or a device as well as out=.
void check_stated(const char* op, const Tensor& out, std::optional<DType> dtype, std::optional<Device> device);
/// The node of an op without a derivative: going through it backwards is an error that names the op.
class MissingDerivative final : public Node {
 public:
  explicit MissingDerivative(const char* op) : op_(op) {}
  void apply(const Tensor*, Tensor*) override;
  std::string name() const override { return "NotImplemented"; }

 private:
  const char* op_;
};
inline void set_history_of(const Tensor& result, Node* node) { set_history(result, node); }
inline void set_history_of(const std::vector<Tensor>& results, Node* node) { set_history(results, node); }
template <class T>
void set_history_of(const T&, Node* node) {
  node->add_output();
}
template <class... T>
void set_history_of(const std::tuple<T...>& results, Node* node) {
  std::apply([node](const auto&... each) { (set_history_of(each, node), ...); }, results);
}
inline Ref<Node> missing_derivative(const char* op, uint32_t recorded_flags) {
  auto node = Ref<Node>::adopt(new MissingDerivative(op));
  node->flags = recorded_flags;
  return node;
}
template <class Result, class... Inputs>
[[gnu::noinline]] void record_missing(const char* op, uint32_t recorded_flags, const Result& result,
                                      const Inputs&... inputs) {
  const Ref<Node> node = missing_derivative(op, recorded_flags);
  (add_edges(*node, inputs), ...);
  set_history_of(result, node.get());
}
/// Copies a fresh result into `self`, which an in-place form writes to; shapes must agree.
void write_result(const Tensor& self, const Tensor& value, uint16_t op);
/// As assign(), or write_result() when no history is wanted.
void assign_values(const Tensor& self, const Tensor& value, uint16_t op);

}  // namespace facula
