// The engine without Python: chains, shared graphs in several threads, hooks, leaves that come and go. Meant for the
// thread and address sanitizers.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "autograd/engine.h"
#include "cpu/backend.h"
#include "functions.h"

namespace {

int failures = 0;

#define EXPECT(condition)                                             \
  do {                                                                \
    if (!(condition)) {                                               \
      std::printf("%s:%d: %s\n", __FILE__, __LINE__, #condition);     \
      ++failures;                                                     \
    }                                                                 \
  } while (0)

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
  std::vector<Tensor> found = run_backward(roots, {scalar_tensor(Scalar(1.0), DType::Float64)}, inputs, {false, false, false});
  EXPECT(value(found[0]) == 5);
  EXPECT(!grad_of(x).defined() && !grad_of(z).defined());
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
  grad_fn(y.impl())->extra().tensor_hooks.emplace_back(0, std::make_shared<Doubling>());
  retain_grad(y);
  backward(y + 1.0);
  EXPECT(value(grad_of(x)) == 6 && value(grad_of(y)) == 2);
}

void test_in_place_through_views() {
  Tensor x = zeros({2, 3}, DType::Float64, kCPU);
  set_requires_grad(x, true);
  Tensor y = x * 1.0;
  mul_(select(y, 0, 1), Scalar(5.0));
  backward(sum(y));
  EXPECT(value(sum(grad_of(x))) == 18);
}

void test_threads_share_a_graph() {
  Tensor x = leaf(3);
  Tensor y = x * x + x;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 200; ++i) backward(y, true);
    });
  }
  for (auto& t : threads) t.join();
  EXPECT(value(grad_of(x)) == 4 * 200 * 7);
}

void test_threads_record_on_one_leaf() {
  Tensor x = leaf(3);
  make_autograd_meta(x.impl());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) backward(x * 2.0);
    });
  }
  for (auto& t : threads) t.join();
  EXPECT(value(grad_of(x)) == 4 * 500 * 2);
}

void test_errors() {
  Tensor x = leaf(1);
  Tensor y = x * x;
  backward(y);
  bool refused = false;
  try {
    backward(y);
  } catch (const Error& error) {
    refused = std::string(error.what()).find("second time") != std::string::npos;
  }
  EXPECT(refused);
  Tensor z = exp(x);
  add_(z, Scalar(1.0));
  refused = false;
  try {
    backward(z);
  } catch (const Error& error) {
    refused = std::string(error.what()).starts_with("backward of exp");
  }
  EXPECT(refused);
}

}  // namespace

int main() {
  facula::cpu::register_backend();
  test_accumulation();
  test_long_chain_is_built_run_and_destroyed_without_recursion();
  test_restricted_pass();
  test_leaves_outlive_their_graphs_and_graphs_their_leaves();
  test_hooks();
  test_in_place_through_views();
  test_threads_share_a_graph();
  test_threads_record_on_one_leaf();
  test_errors();
  std::printf(failures ? "%d failures\n" : "ok\n", failures);
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
