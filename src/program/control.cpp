// Branches and loops over graphs, with PyTorch's higher-order operators' names and arguments. A graph is given all that
// it needs: what its function takes, then what it read besides.
#include "core/parallel.h"
#include "functions.h"
#include "program/boxing.h"
#include "program/run.h"

namespace facula {
namespace {

using Graph = std::shared_ptr<const Runner>;
using Tensors = std::vector<Tensor>;

Tensors call(const Graph& graph, std::span<const Tensor> first, std::span<const Tensor> second = {}) {
  std::vector<Value> inputs(first.begin(), first.end());
  inputs.insert(inputs.end(), second.begin(), second.end());
  Tensors results;
  for (const Value& v : (*graph)(inputs)) {
    FACULA_CHECK(v.is_tensor(), ErrorKind::Type, "graph: it must give tensors, got ", name(v.kind()));
    results.push_back(v.tensor());
  }
  return results;
}

bool truth(const char* op, const Operand& condition) {
  if (!condition.is_tensor()) return condition.scalar().to_bool();
  const Tensor& t = condition.tensor();
  FACULA_CHECK(t.numel() == 1 && t.dtype() == DType::Bool, ErrorKind::Runtime, op,
               ": the condition must be a bool tensor with one element, got ", TensorMeta::of(t).text());
  return t.item().to_bool();
}

Tensors cond(const Operand& pred, Graph true_graph, Graph false_graph, TensorList operands) {
  return call(truth("cond", pred) ? true_graph : false_graph, operands);
}

Tensors while_loop(Graph cond_fn, Graph body_fn, TensorList carried, TensorList additional) {
  Tensors state(carried.begin(), carried.end());
  for (int64_t round = 0;; ++round) {
    ask_in_round(round);
    const Tensors goes_on = call(cond_fn, state, additional);
    FACULA_CHECK(goes_on.size() == 1, ErrorKind::Runtime, "while_loop: the condition must be one tensor, got ",
                 goes_on.size());
    if (!truth("while_loop", goes_on[0])) return state;
    Tensors next = call(body_fn, state, additional);
    FACULA_CHECK(next.size() == state.size(), ErrorKind::Runtime, "while_loop: the body must give ", state.size(),
                 " tensors, got ", next.size());
    state = std::move(next);
  }
}

int64_t length_of(const char* op, TensorList xs) {
  FACULA_CHECK(!xs.empty() && xs[0].defined() && xs[0].dim() > 0 && xs[0].size(0) > 0, ErrorKind::Runtime, op,
               ": the tensors to go through must have a first dimension that is not empty, got an empty one");
  for (const Tensor& x : xs) {
    FACULA_CHECK(x.defined() && x.dim() > 0 && x.size(0) == xs[0].size(0), ErrorKind::Runtime, op,
                 ": the tensors to go through must have the same length, got ", xs[0].size(0), " and ",
                 x.defined() ? TensorMeta::of(x).text() : "None");
  }
  return xs[0].size(0);
}
Tensors rows_at(TensorList xs, int64_t i) {
  Tensors rows;
  for (const Tensor& x : xs) rows.push_back(select(x, 0, i));
  return rows;
}
/// What was made step by step, one tensor for each result.
Tensors stacked(const std::vector<Tensors>& steps, size_t first) {
  Tensors made;
  for (size_t k = first; k < steps[0].size(); ++k) {
    Tensors parts;
    for (const Tensors& step : steps) parts.push_back(step.at(k));
    made.push_back(stack(parts, 0));
  }
  return made;
}

Tensors map_impl(Graph f, TensorList xs, TensorList pos_args) {
  const int64_t length = length_of("map", xs);
  std::vector<Tensors> steps;
  for (int64_t i = 0; i < length; ++i) {
    ask_in_round(i);
    steps.push_back(call(f, rows_at(xs, i), pos_args));
  }
  return stacked(steps, 0);
}

Tensors scan(Graph combine_fn, TensorList init, TensorList xs, TensorList additional) {
  const int64_t length = length_of("scan", xs);
  Tensors state(init.begin(), init.end());
  std::vector<Tensors> steps;
  for (int64_t i = 0; i < length; ++i) {
    Tensors inputs = state;
    for (Tensor& row : rows_at(xs, i)) inputs.push_back(std::move(row));
    steps.push_back(call(combine_fn, inputs, additional));
    FACULA_CHECK(steps.back().size() >= state.size(), ErrorKind::Runtime, "scan: the function must give ", state.size(),
                 " tensors to carry, got ", steps.back().size());
    std::copy_n(steps.back().begin(), state.size(), state.begin());
  }
  Tensors outputs = stacked(steps, state.size());
  state.insert(state.end(), outputs.begin(), outputs.end());
  return state;
}

Tensors with_gradients(bool enabled, Graph wrapped_func, TensorList args) {
  const GradMode mode(enabled);
  return call(wrapped_func, args);
}

/// A condition that every run has to meet.
bool assert_holds(const Tensor& self, std::string_view assert_msg) {
  FACULA_CHECK(self.numel() == 1, ErrorKind::Runtime, "_assert_async: expected a tensor with one element, got ",
               self.numel());
  FACULA_CHECK(self.item().to_bool(), ErrorKind::Runtime, assert_msg);
  return true;
}

using boxing::box;

const BuiltinRow kControlRows[] = {
    {"cond", "", "Operand pred, Graph true_graph, Graph false_graph, Tensor[] operands", "Tensor[]", "",
     box<Tensors(const Operand&, Graph, Graph, TensorList)>(cond)},
    {"_assert_async", "msg", "Tensor self, str assert_msg", "bool", "_assert_async.msg",
     box<bool(const Tensor&, std::string_view)>(assert_holds)},
    {"while_loop", "", "Graph cond_fn, Graph body_fn, Tensor[] carried_inputs, Tensor[] additional_inputs", "Tensor[]",
     "", box<Tensors(Graph, Graph, TensorList, TensorList)>(while_loop)},
    {"map_impl", "", "Graph f, Tensor[] xs, Tensor[] pos_args", "Tensor[]", "",
     box<Tensors(Graph, TensorList, TensorList)>(map_impl)},
    {"scan", "", "Graph combine_fn, Tensor[] init, Tensor[] xs, Tensor[] additional_inputs", "Tensor[]", "",
     box<Tensors(Graph, TensorList, TensorList, TensorList)>(scan)},
    {"wrap_with_set_grad_enabled", "", "bool enabled, Graph wrapped_func, Tensor[] args", "Tensor[]", "",
     box<Tensors(bool, Graph, TensorList)>(with_gradients)},
};

}  // namespace

std::span<const BuiltinRow> control_rows() { return kControlRows; }

}  // namespace facula
