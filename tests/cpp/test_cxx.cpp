// The torch:: interface. The numbers that are drawn are those that PyTorch 2.13 draws.
#include <torch/torch.h>

#include <cmath>
#include <sstream>

#include "check.h"
#include "cxx/load.h"

namespace {

using torch::Tensor;
using torch::indexing::None;
using torch::indexing::Slice;

template <class T>
std::string text(const T& value) {
  std::ostringstream out;
  out << value;
  return out.str();
}
bool close(double a, double b) { return std::fabs(a - b) <= 1e-4 * std::fabs(b); }
template <class F>
bool throws(F&& f) {
  try {
    f();
  } catch (const c10::Error&) {
    return true;
  }
  return false;
}

void test_making() {
  EXPECT(torch::tensor({1, 2, 3}).dtype() == torch::kLong && torch::tensor({1.0, 2.0}).dtype() == torch::kFloat);
  EXPECT(torch::tensor(true).dtype() == torch::kBool &&
         torch::tensor({{1, 2}, {3, 4}}).sizes() == torch::IntArrayRef({2, 2}));
  EXPECT(torch::tensor(std::vector<double>{1, 2}, torch::kDouble)[1].item<double>() == 2);
  EXPECT(throws([] { torch::tensor({{1, 2}, {3}}); }));
  EXPECT(torch::zeros({2, 0, 3}).numel() == 0 && torch::ones(3, torch::kInt).sum().item<int>() == 3);
  float memory[] = {1, 2, 3, 4};
  bool released = false;
  {
    const Tensor t = torch::from_blob(memory, {2, 2}, [&](void*) { released = true; });
    t[0][1] = 7;
    EXPECT(memory[1] == 7 && t.data_ptr<float>() == memory);
    EXPECT(throws([&] { t.data_ptr<double>(); }));
  }
  EXPECT(released);
  EXPECT(throws([] { torch::add(Tensor(), torch::ones(1)); }) && throws([] { Tensor().sizes(); }));
}

void test_random_numbers() {
  torch::manual_seed(1);
  const Tensor drawn = torch::randn({3, 4});
  EXPECT(text(drawn) ==
         " 0.6614  0.2669  0.0617  0.6213\n-0.4519 -0.1661 -1.5228  0.3817\n-1.0276 -0.5631 -0.8923 -0.0583\n"
         "[ CPUFloatType{3,4} ]");
  auto generator = torch::make_cpu_generator(3);
  const Tensor first = torch::rand({4}, generator);
  generator.set_current_seed(3);
  EXPECT(first.equal(torch::rand({4}, generator)));
}

void test_printing() {
  EXPECT(text(torch::tensor({1, 2})) == " 1\n 2\n[ CPULongType{2} ]");
  EXPECT(text(torch::tensor(2.5)) == "2.5\n[ CPUFloatType{} ]");
  EXPECT(text(torch::tensor({0.1, 1.0, 0.0001})) == " 1.0000e-01\n 1.0000e+00\n 1.0000e-04\n[ CPUFloatType{3} ]");
  EXPECT(text(torch::arange(4).view({1, 2, 2})) == "(1,.,.) = \n  0  1\n  2  3\n[ CPULongType{1,2,2} ]");
  EXPECT(text(torch::zeros({0, 3})) == "[ CPUFloatType{0,3} ]" && text(Tensor()) == "[ Tensor (undefined) ]");
  std::ostringstream out;
  out << torch::tensor({0.5}) << 0.123456789;
  EXPECT(out.str() == " 0.5000\n[ CPUFloatType{1} ]0.123457");
}

void test_indexing() {
  const Tensor s = torch::arange(9).view({3, 3});
  EXPECT(s.index({Slice(), 1}).equal(torch::tensor({1, 4, 7})));
  EXPECT(s.index({"...", Slice(1, None)}).sizes() == torch::IntArrayRef({3, 2}));
  EXPECT(s.index({Slice(None, None, 2), None}).sizes() == torch::IntArrayRef({2, 1, 3}));
  EXPECT(s.index({s > 4}).equal(torch::tensor({5, 6, 7, 8})));
  EXPECT(s.index({torch::tensor({2, 0}), Slice(0, -1)}).equal(torch::tensor({{6, 7}, {0, 1}})));
  s.index_put_({0, Slice()}, 7);
  s[2] = 5;
  EXPECT(s.equal(torch::tensor({{7, 7, 7}, {3, 4, 5}, {5, 5, 5}})));
  EXPECT(throws([&] { s.index({3}); }) && throws([&] { s.index({0, 0, 0}); }) && throws([&] { s[0][0][0]; }));
  EXPECT(throws([&] { s.index({Slice(None, None, 0)}); }) && throws([&] { s.index({torch::tensor({3})}); }));
}

struct Scaled : torch::autograd::Function<Scaled> {
  static Tensor forward(torch::autograd::AutogradContext* context, Tensor x, double factor) {
    context->saved_data["factor"] = factor;
    context->save_for_backward({x});
    return x * x * factor;
  }
  static torch::autograd::tensor_list backward(torch::autograd::AutogradContext* context,
                                               torch::autograd::tensor_list grads) {
    const Tensor x = context->get_saved_variables()[0];
    return {2 * x * grads[0] * context->saved_data["factor"].toDouble(), Tensor()};
  }
};

void test_gradients() {
  const Tensor x = torch::ones({2, 2}, torch::requires_grad());
  const Tensor y = x + 2, out = (y * y * 3).mean();
  EXPECT(out.grad_fn()->name() == "MeanBackward0" && !x.grad_fn() && x.is_leaf() && !y.is_leaf());
  out.backward();
  EXPECT(x.grad().equal(torch::full({2, 2}, 4.5)));
  EXPECT(throws([&] { out.backward(); }) && throws([&] { y.backward(); }));

  const Tensor leaf = torch::tensor({3.0}).requires_grad_();
  const Tensor first = torch::autograd::grad({leaf.pow(3)}, {leaf}, {}, true, true)[0];
  EXPECT(torch::autograd::grad({first}, {leaf})[0].item<float>() == 18);
  EXPECT(throws([&] { torch::autograd::grad({leaf * 2}, {torch::ones(1, torch::requires_grad())}); }));

  Scaled::apply(leaf, 5.0).backward();
  EXPECT(leaf.grad().item<float>() == 30);
  const unsigned hook = leaf.register_hook([](Tensor grad) { return grad * 2; });
  leaf.mutable_grad().reset();
  (leaf * 2).backward();
  EXPECT(leaf.grad().item<float>() == 4);
  leaf.remove_hook(hook);
  (leaf * 2).backward();
  EXPECT(leaf.grad().item<float>() == 6);
  torch::NoGradGuard off;
  EXPECT(!(leaf * 2).requires_grad());
}

struct Net : torch::nn::Module {
  Net() : conv1(torch::nn::Conv2dOptions(1, 4, 5)), fc1(4 * 12 * 12, 10) {
    register_module("conv1", conv1);
    register_module("drop", drop);
    register_module("fc1", fc1);
  }
  Tensor forward(Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1->forward(x), 2));
    return torch::log_softmax(fc1->forward(drop->forward(x).view({-1, 4 * 12 * 12})), 1);
  }
  torch::nn::Conv2d conv1;
  torch::nn::Dropout2d drop;
  torch::nn::Linear fc1;
};

void test_modules() {
  Net net;
  EXPECT(net.named_parameters().keys() ==
         (std::vector<std::string>{"conv1.weight", "conv1.bias", "fc1.weight", "fc1.bias"}));
  net.eval();
  EXPECT(!net.drop->is_training() && net.forward(torch::zeros({2, 1, 28, 28})).sizes() == torch::IntArrayRef({2, 10}));
  net.to(torch::kDouble);
  EXPECT(net.fc1->weight.dtype() == torch::kDouble);
  EXPECT(throws([&] { net.register_module("fc1", torch::nn::Linear(1, 1)); }));

  torch::nn::Sequential list(torch::nn::Linear(2, 3), torch::nn::ReLU(), torch::nn::BatchNorm1d(3));
  EXPECT(text(list) ==
         "torch::nn::Sequential(\n  (0): torch::nn::Linear(in_features=2, out_features=3, bias=true)\n"
         "  (1): torch::nn::ReLU()\n"
         "  (2): torch::nn::BatchNorm1d(3, eps=1e-05, momentum=0.1, affine=true, track_running_stats=true)\n)");
  auto copy = std::dynamic_pointer_cast<torch::nn::SequentialImpl>(list->clone());
  EXPECT(copy->size() == 3 && copy->parameters()[0].equal(list->parameters()[0]));
  copy->parameters()[0].data().zero_();
  EXPECT(!copy->parameters()[0].equal(list->parameters()[0]));
  EXPECT(throws([] { torch::nn::Sequential()->forward(torch::ones(1)); }));
  EXPECT(throws([] { torch::nn::Linear(nullptr)->parameters(); }));

  torch::nn::LSTM lstm(torch::nn::LSTMOptions(5, 6).num_layers(2).batch_first(true).bidirectional(true));
  const auto [output, state] = lstm->forward(torch::randn({2, 3, 5}));
  EXPECT(output.sizes() == torch::IntArrayRef({2, 3, 12}) &&
         std::get<0>(state).sizes() == torch::IntArrayRef({4, 2, 6}));
  EXPECT(throws([&] { lstm->forward(torch::randn({2, 3, 4})); }));
}

template <class Optimizer, class Options>
double trained(Options options) {
  torch::manual_seed(2);
  torch::nn::Linear model(3, 1);
  Optimizer optimizer(model->parameters(), options);
  const Tensor x = torch::randn({16, 3}), y = x.sum(1, true);
  double last = 0;
  for (int i = 0; i < 50; ++i) {
    optimizer.zero_grad();
    const Tensor loss = torch::nn::functional::mse_loss(model(x), y);
    loss.backward();
    optimizer.step();
    last = loss.template item<double>();
  }
  return last;
}

void test_optimizers() {
  using namespace torch::optim;
  EXPECT(trained<SGD>(SGDOptions(0.1).momentum(0.5)) < 1e-3);
  EXPECT(trained<Adam>(AdamOptions(0.1)) < 1e-2 && trained<AdamW>(AdamWOptions(0.1).weight_decay(0)) < 1e-2);
  EXPECT(close(trained<Adam>(AdamOptions(0.1)), trained<AdamW>(AdamWOptions(0.1).weight_decay(0))));
  EXPECT(throws([] { SGD(std::vector<Tensor>{}, SGDOptions(-1)); }));
  SGD optimizer(std::vector<Tensor>{torch::ones(1, torch::requires_grad())}, SGDOptions(1));
  StepLR schedule(optimizer, 2, 0.5);
  for (int i = 0; i < 4; ++i) schedule.step();
  EXPECT(optimizer.param_groups()[0].options().get_lr() == 0.25);
}

}  // namespace

int main() {
  facula::load();
  test_making();
  test_random_numbers();
  test_printing();
  test_indexing();
  test_gradients();
  test_modules();
  test_optimizers();
  std::printf("%d failures\n", failures.load());
  return failures != 0;
}
