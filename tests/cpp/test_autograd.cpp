// The engine without Python: chains, shared graphs in several threads, hooks, leaves that come and go, what a pass
// computes. Meant for the thread and address sanitizers.
#include <cmath>
#include <latch>
#include <thread>
#include <vector>

#include "autograd/engine.h"
#include "check.h"
#include "cpu/backend.h"
#include "functions.h"
#include "ops/matmul.h"

namespace {

using namespace facula;

Tensor leaf(double value) {
  Tensor t = scalar_tensor(Scalar(value), DType::Float64);
  set_requires_grad(t, true);
  return t;
}

double value(const Tensor& t) { return t.item().to_double(); }

void backward(const Tensor& root, bool keep = false) {
  std::vector<Edge> roots;
  roots.push_back(gradient_edge(root.impl()));
  run_backward(roots, {scalar_tensor(Scalar(1.0), DType::Float64)}, {}, {keep, false, true});
}

void test_accumulation() {
  Tensor x = leaf(3);
  backward(x * x);
  EXPECT(value(grad_of(x)) == 6);
  backward(x * x * x);
  EXPECT(value(grad_of(x)) == 33);
}

void test_long_chain_is_built_run_and_destroyed_without_recursion() {
  Tensor x = leaf(1);
  Tensor y = x + 0.0;
  for (int i = 0; i < 100000; ++i) y = y + 1.0;
  backward(y);
  EXPECT(value(grad_of(x)) == 1);
}

void test_restricted_pass() {
  Tensor x = leaf(2), z = leaf(5);
  Tensor y = x * z;
  std::vector<Edge> roots, inputs;
  roots.push_back(gradient_edge(y.impl()));
  inputs.push_back(gradient_edge(x.impl()));
  std::vector<Tensor> found =
      run_backward(roots, {scalar_tensor(Scalar(1.0), DType::Float64)}, inputs, {false, false, false});
  EXPECT(value(found[0]) == 5);
  EXPECT(!grad_of(x).defined() && !grad_of(z).defined());
}

int products = 0;
void (*product)(const MatrixProduct&) = nullptr;
void counted_product(const MatrixProduct& p) {
  ++products;
  product(p);
}

// The matrix products of a pass from `root` to `inputs`; to all leaves when there are none.
int products_of(const Tensor& root, const std::vector<Tensor>& inputs, bool create_graph = false) {
  std::vector<Edge> roots, wanted;
  roots.push_back(gradient_edge(root.impl()));
  for (const Tensor& t : inputs) wanted.push_back(gradient_edge(t.impl()));
  auto cpu = static_cast<size_t>(DeviceType::CPU);
  product = std::exchange(matrix_product_kernel.table[cpu], counted_product);
  products = 0;
  run_backward(roots, {ones(root.sizes(), root.dtype(), kCPU)}, wanted, {true, create_graph, inputs.empty()});
  matrix_product_kernel.table[cpu] = product;
  return products;
}

Tensor matrix(int64_t rows, int64_t columns) {
  Tensor t = ones({rows, columns}, DType::Float64, kCPU);
  set_requires_grad(t, true);
  return t;
}

void test_a_pass_computes_what_is_asked() {
  Tensor x = matrix(20, 20), w = matrix(20, 20), v = matrix(20, 20);
  Tensor y = mm(mm(x, w), v);
  for (bool create_graph : {false, true}) {
    EXPECT(products_of(y, {x}, create_graph) == 2);
    EXPECT(products_of(y, {w}, create_graph) == 2);
    EXPECT(products_of(y, {v}, create_graph) == 1);
    EXPECT(products_of(y, {x, w, v}, create_graph) == 4);
  }
  EXPECT(products_of(y, {}) == 4);
}

void test_a_recurrent_layer_computes_what_is_asked() {
  int64_t steps = 3, rows = 20, hidden = 20;
  Tensor gates = matrix(steps * rows, 4 * hidden), weight = matrix(4 * hidden, hidden), h0 = matrix(rows, hidden);
  Tensor c0 = zeros({rows, hidden}, DType::Float64, kCPU), bias = zeros({4 * hidden}, DType::Float64, kCPU);
  Tensor output = std::get<0>(_rnn_layer(gates, h0, c0, weight, bias, "LSTM", IntList{rows, rows, rows}, false));
  EXPECT(products_of(output, {gates}) == 2);  // from each step to the one before
  EXPECT(products_of(output, {h0}) == 3);
  EXPECT(products_of(output, {weight}) == 2 + 1);
  EXPECT(products_of(output, {}) == 3 + 1);
}

void test_leaves_outlive_their_graphs_and_graphs_their_leaves() {
  Tensor y;
  {
    Tensor x = leaf(2);
    y = x * x;
  }
  backward(y);
  Tensor x = leaf(2);
  for (int i = 0; i < 100; ++i) {
    Tensor z = x * 2.0;
    if (i % 2) backward(z);
  }
  EXPECT(value(grad_of(x)) == 100);
}

struct Doubling final : TensorHook {
  Tensor call(const Tensor& grad) override { return grad * 2.0; }
};

void test_hooks() {
  Tensor x = leaf(1);
  Tensor y = x * 3.0;
  grad_fn(y.impl())->extra().tensor_hooks.add({0, std::make_shared<Doubling>()});
  retain_grad(y);
  backward(y + 1.0);
  EXPECT(value(grad_of(x)) == 6 && value(grad_of(y)) == 2);
}

struct Refusing final : TensorHook {
  Tensor call(const Tensor&) override { throw Error(ErrorKind::Runtime, "no gradient past here"); }
};

bool fails(const Tensor& root, const char* with, bool keep = false) {
  try {
    backward(root, keep);
  } catch (const Error& error) {
    return std::string(error.what()).find(with) != std::string::npos;
  }
  return false;
}

void test_a_failing_hook_leaves_a_graph_that_runs() {
  Tensor x = leaf(3);
  Tensor y = x * 2.0, z = y * y;
  NodeExtra& extra = grad_fn(y.impl())->extra();
  extra.tensor_hooks.add({0, std::make_shared<Refusing>()});
  EXPECT(fails(z, "no gradient past here", true));
  EXPECT(!grad_of(x).defined());
  extra.tensor_hooks.take();
  backward(z);
  EXPECT(value(grad_of(x)) == 24);
}

struct Scaling final : NodeHook {
  Scaling(bool inputs, double factor) : inputs_(inputs), factor_(factor) {}
  void call(std::vector<Tensor>& inputs, std::vector<Tensor>& outputs) override {
    for (Tensor& t : inputs_ ? inputs : outputs) t = t * factor_;
  }
  bool inputs_;
  double factor_;
};

struct Counting final : TensorHook {
  Tensor call(const Tensor&) override {
    ++calls;
    return {};
  }
  int calls = 0;
};

void test_hooks_of_nodes_and_leaves() {
  Tensor x = leaf(1);
  auto counting = std::make_shared<Counting>();
  Ref<Node> accumulator = accumulator_of(x.impl());
  static_cast<AccumulateGrad&>(*accumulator).after_accumulate.add(counting);
  Tensor y = x * 3.0;
  NodeExtra& extra = grad_fn(y.impl())->extra();
  extra.before.add(std::make_shared<Scaling>(false, 10.0));
  extra.after.add(std::make_shared<Scaling>(true, 7.0));
  backward(y);
  EXPECT(value(grad_of(x)) == 210 && counting->calls == 1);
}

// The derivative of x**2 by a pass inside a pass, `depth` deep; each level multiplies the gradient by 2 * value.
struct Reentering final : TensorHook {
  Reentering(int depth) : depth_(depth) {}
  Tensor call(const Tensor& grad) override {
    GradMode on(true);
    Tensor x = leaf(1);
    Tensor y = x * x;
    if (depth_ > 0) grad_fn(y.impl())->extra().tensor_hooks.add({0, std::make_shared<Reentering>(depth_ - 1)});
    backward(y);
    return grad * grad_of(x);
  }
  int depth_;
};

void test_passes_inside_passes() {
  Tensor x = leaf(1);
  Tensor y = x * 1.0;
  grad_fn(y.impl())->extra().tensor_hooks.add({0, std::make_shared<Reentering>(8)});
  backward(y);
  EXPECT(value(grad_of(x)) == 512);
}

// A hook that runs the graph which it hangs on once more.
struct RunningAgain final : TensorHook {
  Tensor call(const Tensor&) override {
    if (++calls == 1) backward(*root, true);
    return {};
  }
  const Tensor* root = nullptr;
  int calls = 0;
};

void test_a_pass_inside_a_pass_of_the_same_graph() {
  Tensor x = leaf(3);
  Tensor y = x * x;
  Tensor z = y * 2.0;
  auto again = std::make_shared<RunningAgain>();
  again->root = &z;
  grad_fn(y.impl())->extra().tensor_hooks.add({0, again});
  backward(z, true);
  EXPECT(again->calls == 2 && value(grad_of(x)) == 24);
}

void test_saved_inputs_are_checked() {
  Tensor x = leaf(2);
  Tensor y = x * 1.0;
  Tensor z = y * y;
  mul_(y, Scalar(3.0));
  EXPECT(fails(z, "backward of mul", true));
  Tensor kept = x * 1.0;
  Tensor sum_of = kept + 1.0;  // addition saves nothing
  mul_(kept, Scalar(3.0));
  backward(sum_of);
  EXPECT(value(grad_of(x)) == 1);
}

void test_in_place_through_views() {
  Tensor x = zeros({2, 3}, DType::Float64, kCPU);
  set_requires_grad(x, true);
  Tensor y = x * 1.0;
  mul_(select(y, 0, 1), Scalar(5.0));
  backward(sum(y));
  EXPECT(value(sum(grad_of(x))) == 18);
}

/// All threads begin at once, so that none is through before another starts.
template <class Body>
void in_threads(int count, Body body) {
  std::vector<std::thread> threads;
  std::latch start(count);
  for (int t = 0; t < count; ++t) {
    threads.emplace_back([&start, body, t] {
      start.arrive_and_wait();
      body(t);
    });
  }
  for (auto& t : threads) t.join();
}

void test_threads_share_a_graph() {
  Tensor x = leaf(3);
  Tensor y = x * x + x;
  in_threads(4, [&](int) {
    for (int i = 0; i < 200; ++i) backward(y, true);
  });
  EXPECT(value(grad_of(x)) == 4 * 200 * 7);
}

void test_threads_record_on_one_leaf() {
  Tensor x = leaf(3);
  in_threads(4, [&](int) {
    for (int i = 0; i < 500; ++i) backward(x * 2.0);
  });
  EXPECT(value(grad_of(x)) == 4 * 500 * 2);
}

// What a leaf gets on its first use, by all threads at once.
void test_threads_meet_at_a_fresh_leaf() {
  for (int round = 0; round < 300; ++round) {
    Tensor x = leaf(3);
    in_threads(4, [&](int) {
      Ref<Node> accumulator = accumulator_of(x.impl());  // at once: what comes before it might put threads in order
      EXPECT(static_cast<AccumulateGrad&>(*accumulator).leaf().is_same(x));
      backward(x * 2.0);
    });
    EXPECT(value(grad_of(x)) == 8);
  }
}

// A view learns of its base's new history when it is read: by all threads at once.
void test_threads_read_a_view_of_what_was_written() {
  for (int round = 0; round < 100; ++round) {
    Tensor w = leaf(3);
    Tensor base = zeros({4}, DType::Float64, kCPU), view = select(base, 0, 1);
    add_(base, w * 1.0);
    std::atomic<int> marked = 0;
    in_threads(4, [&](int) {
      Ref<Node> made = grad_fn(view.impl());
      marked += requires_grad(view) && made;
      backward(view * view, true);
    });
    EXPECT(marked == 4 && value(grad_of(w)) == 4 * 2 * 3);
  }
}

void test_threads_write_parts_of_one_storage() {
  Tensor x = zeros({4, 16}, DType::Float64, kCPU);
  uint32_t before = x.storage()->current_version();
  in_threads(4, [&](int t) {
    Tensor part = select(x, 0, t);
    for (int i = 0; i < 500; ++i) add_(part, Scalar(1.0));
  });
  EXPECT(value(sum(x)) == 4 * 16 * 500);
  EXPECT(x.storage()->current_version() == before + 4 * 500);
}

void test_hooks_come_while_the_node_runs() {
  Tensor x = leaf(3);
  Tensor y = x * 1.0;
  Ref<Node> node = grad_fn(y.impl()), accumulator = accumulator_of(x.impl());
  std::vector<std::shared_ptr<Counting>> counting(2 * 50);
  for (auto& c : counting) c = std::make_shared<Counting>();
  in_threads(3, [&](int t) {
    for (int i = 0; i < 50; ++i) {
      if (t == 0) {
        backward(y, true);
      } else if (t == 1) {
        node->extra().tensor_hooks.add({0, counting[static_cast<size_t>(i)]});
        node->extra().after.add(std::make_shared<Scaling>(true, 1.0));
        static_cast<AccumulateGrad&>(*accumulator).after_accumulate.add(counting[static_cast<size_t>(50 + i)]);
      } else {
        node->extra().before.add(std::make_shared<Scaling>(false, 1.0));
        if (i == 25) retain_grad(y);
        if (Tensor seen = grad_of(x); seen.defined()) EXPECT(seen.sizes() == x.sizes());
      }
    }
  });
  backward(y);
  EXPECT(value(grad_of(x)) == 51);
  for (auto& c : counting) EXPECT(c->calls >= 1);
}

void test_threads_have_graphs_of_their_own() {
  std::vector<double> found(4);
  in_threads(4, [&](int t) {
    Tensor x = leaf(t + 1);
    for (int i = 0; i < 100; ++i) {
      Tensor y = x;
      for (int k = 0; k < 20; ++k) y = exp(y * 0.0) * x;
      backward(y);
    }
    found[static_cast<size_t>(t)] = value(grad_of(x));
  });
  for (double g : found) EXPECT(g == 100);
}

void test_graphs_move_between_threads() {
  Tensor x = leaf(2);
  std::vector<Tensor> roots;
  for (int i = 0; i < 64; ++i) roots.push_back((x * x) * (x + 1.0));
  in_threads(4, [&](int t) {
    for (size_t i = static_cast<size_t>(t); i < roots.size(); i += 4) {
      backward(roots[i]);
      roots[i] = Tensor();
    }
  });
  EXPECT(value(grad_of(x)) == 64 * 16);
}

void test_of_threads_that_free_one_graph_one_succeeds() {
  for (int round = 0; round < 50; ++round) {
    Tensor x = leaf(3);
    Tensor y = exp(x * 0.0) * x;
    std::atomic<int> refused = 0;
    in_threads(3, [&](int) { refused += fails(y, "an earlier pass"); });
    EXPECT(refused == 2);
    EXPECT(value(grad_of(x)) == 1);
  }
}

void test_threads_enter_passes_inside_passes() {
  Tensor x = leaf(1);
  in_threads(4, [&](int) {
    for (int i = 0; i < 20; ++i) {
      Tensor y = x * 1.0;
      grad_fn(y.impl())->extra().tensor_hooks.add({0, std::make_shared<Reentering>(3)});
      backward(y);
    }
  });
  EXPECT(value(grad_of(x)) == 4 * 20 * 16);
}

void test_threads_with_a_long_chain_each() {
  Tensor x = leaf(1);
  in_threads(2, [&](int) {
    Tensor y = x * 1.0;
    for (int i = 0; i < 20000; ++i) y = y + 1.0;
    backward(y);
  });
  EXPECT(value(grad_of(x)) == 2);
}

void test_second_derivatives() {
  Tensor x = leaf(2);
  std::vector<Edge> roots, inputs;
  roots.push_back(gradient_edge((x * x * x).impl()));
  inputs.push_back(gradient_edge(x.impl()));
  std::vector<Tensor> first =
      run_backward(roots, {scalar_tensor(Scalar(1.0), DType::Float64)}, inputs, {true, true, false});
  EXPECT(value(first[0]) == 12);
  backward(first[0]);
  EXPECT(value(grad_of(x)) == 12);
}

void test_errors() {
  Tensor x = leaf(1);
  Tensor y = x * x;
  backward(y);
  EXPECT(fails(y, "an earlier pass"));
  Tensor z = exp(x);
  add_(z, Scalar(1.0));
  EXPECT(fails(z, "backward of exp"));
}

}  // namespace

int main() {
  facula::cpu::register_backend();
  test_accumulation();
  test_long_chain_is_built_run_and_destroyed_without_recursion();
  test_restricted_pass();
  test_a_pass_computes_what_is_asked();
  test_a_recurrent_layer_computes_what_is_asked();
  test_leaves_outlive_their_graphs_and_graphs_their_leaves();
  test_hooks();
  test_a_failing_hook_leaves_a_graph_that_runs();
  test_hooks_of_nodes_and_leaves();
  test_passes_inside_passes();
  test_a_pass_inside_a_pass_of_the_same_graph();
  test_saved_inputs_are_checked();
  test_in_place_through_views();
  test_second_derivatives();
  test_threads_share_a_graph();
  test_threads_record_on_one_leaf();
  test_threads_meet_at_a_fresh_leaf();
  test_threads_read_a_view_of_what_was_written();
  test_threads_write_parts_of_one_storage();
  test_hooks_come_while_the_node_runs();
  test_threads_have_graphs_of_their_own();
  test_graphs_move_between_threads();
  test_of_threads_that_free_one_graph_one_succeeds();
  test_threads_enter_passes_inside_passes();
  test_threads_with_a_long_chain_each();
  test_errors();
  std::printf(failures ? "%d failures\n" : "ok\n", failures.load());
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
