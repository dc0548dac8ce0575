// Gradients: passes, modes, and functions with a derivative of one's own.
#pragma once

#include <torch/detail/ivalue.h>
#include <torch/detail/operators.h>

#include <functional>
#include <memory>

#include "autograd/node.h"

namespace torch {

/// While it lives, gradients are computed or not.
class AutoGradMode {
 public:
  explicit AutoGradMode(bool enabled) : mode_(enabled) {}

 private:
  facula::GradMode mode_;
};
class NoGradGuard : public AutoGradMode {
 public:
  NoGradGuard() : AutoGradMode(false) {}
};
struct GradMode {
  static bool is_enabled() { return facula::GradMode::enabled(); }
  static void set_enabled(bool enabled);
};
/// While it lives, tensors are made that autograd never sees.
class InferenceMode {
 public:
  explicit InferenceMode(bool enabled = true);
  ~InferenceMode();
  InferenceMode(const InferenceMode&) = delete;
  static bool is_enabled();

 private:
  uint32_t modes_;
  bool grad_;
};

namespace autograd {

using Variable = Tensor;
using variable_list = std::vector<Variable>;
using tensor_list = std::vector<Tensor>;

/// A node of the graph, as `tensor.grad_fn()` shows it.
class Node {
 public:
  explicit Node(facula::Ref<facula::Node> node) : node_(std::move(node)) {}
  std::string name() const { return node_->name(); }
  uint64_t sequence_nr() const { return node_->sequence(); }
  uint32_t num_inputs() const { return static_cast<uint32_t>(node_->output_count()); }
  uint32_t num_outputs() const { return static_cast<uint32_t>(node_->edge_count()); }

 private:
  facula::Ref<facula::Node> node_;
};

/// Gradients of leaves are added to their `.grad`.
void backward(const variable_list& tensors, const variable_list& grad_tensors = {},
              optional<bool> retain_graph = nullopt, bool create_graph = false, const variable_list& inputs = {});
variable_list grad(const variable_list& outputs, const variable_list& inputs, const variable_list& grad_outputs = {},
                   optional<bool> retain_graph = nullopt, bool create_graph = false, bool allow_unused = false);

namespace detail {
class FunctionNode;
}

/// What forward() leaves for backward().
class AutogradContext {
 public:
  AutogradContext() = default;
  AutogradContext(const AutogradContext&) = delete;
  std::unordered_map<std::string, IValue> saved_data;
  void save_for_backward(variable_list tensors) { to_save_ = std::move(tensors); }
  variable_list get_saved_variables() const;
  void mark_dirty(const variable_list& inputs) { dirty_ = inputs; }
  void mark_non_differentiable(const variable_list& outputs) { non_differentiable_ = outputs; }
  void set_materialize_grads(bool yes) { materialize_ = yes; }
  bool needs_input_grad(size_t edge) const;

 private:
  friend class detail::FunctionNode;
  variable_list to_save_, dirty_, non_differentiable_;
  bool materialize_ = true;
  const detail::FunctionNode* node_ = nullptr;
};

namespace detail {

/// One call of a function: the arguments, then the results.
class FunctionCall {
 public:
  using Backward = variable_list (*)(AutogradContext*, variable_list);
  FunctionCall(const char* name, Backward backward);
  ~FunctionCall();
  AutogradContext* context();
  void argument(const Tensor& t);
  void argument(const optional<Tensor>& t) { argument(t ? *t : Tensor()); }
  template <class T>
  void argument(const T&) {
    other_argument();
  }
  /// The results with their history.
  variable_list finish(variable_list results);

 private:
  void other_argument();
  facula::Ref<facula::Node> node_;
  FunctionNode* function_;
  variable_list inputs_;
};

inline variable_list list_of(Tensor& t) { return {t}; }
inline variable_list list_of(variable_list& list) { return list; }
inline void put_back(Tensor& t, variable_list list) { t = std::move(list[0]); }
inline void put_back(variable_list& t, variable_list list) { t = std::move(list); }
template <class... T>
variable_list list_of(std::tuple<T...>& t) {
  return std::apply([](auto&... each) { return variable_list{each...}; }, t);
}
template <class... T>
void put_back(std::tuple<T...>& t, variable_list list) {
  size_t i = 0;
  std::apply([&](auto&... each) { ((each = std::move(list[i++])), ...); }, t);
}

}  // namespace detail

/// class F : public Function<F>, with two static functions: forward(AutogradContext*, ...) and
/// backward(AutogradContext*, variable_list).
template <class T>
struct Function {
  template <class F = T, class... Args>
  static auto apply(Args&&... args) {
    detail::FunctionCall call(typeid(F).name(), [](AutogradContext* context, variable_list grads) {
      return F::backward(context, std::move(grads));
    });
    (call.argument(args), ...);
    auto results = [&] {
      AutoGradMode off(false);
      return F::forward(call.context(), std::forward<Args>(args)...);
    }();
    detail::put_back(results, call.finish(detail::list_of(results)));
    return results;
  }
};

}  // namespace autograd
}  // namespace torch
