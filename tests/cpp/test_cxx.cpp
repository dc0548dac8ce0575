// The torch:: interface. The numbers that are drawn are those that PyTorch 2.13 draws.
#include <torch/torch.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>
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

// A network of steps gives what its cell gives, step by step; packed sequences what each gives alone.
template <class Network, class Cell>
void test_recurrent() {
  torch::manual_seed(5);
  Network network(3, 4);
  Cell cell(3, 4);
  const auto w = network->all_weights();
  cell->weight_ih.set_data(w[0].detach()), cell->weight_hh.set_data(w[1].detach());
  cell->bias_ih.set_data(w[2].detach()), cell->bias_hh.set_data(w[3].detach());
  const Tensor input = torch::randn({5, 2, 3});
  const Tensor output = std::get<0>(network->forward(input));
  if constexpr (std::is_same_v<Cell, torch::nn::LSTMCell>) {
    std::tuple<Tensor, Tensor> state{torch::zeros({2, 4}), torch::zeros({2, 4})};
    for (int t = 0; t < 5; ++t) {
      state = cell->forward(input[t], state);
      EXPECT(torch::allclose(std::get<0>(state), output[t], 1e-4, 1e-5));
    }
  } else {
    Tensor h;
    for (int t = 0; t < 5; ++t) {
      h = cell->forward(input[t], h);
      EXPECT(torch::allclose(h, output[t], 1e-4, 1e-5));
    }
  }
  namespace rnn = torch::nn::utils::rnn;
  const auto packed = rnn::pack_padded_sequence(input, torch::tensor({2, 5}), false, false);
  const auto [padded, lengths] = rnn::pad_packed_sequence(std::get<0>(network->forward_with_packed_input(packed)));
  EXPECT(lengths.equal(torch::tensor({2, 5})) && padded.sizes() == torch::IntArrayRef({5, 2, 4}));
  EXPECT(torch::allclose(padded.select(1, 1), output.select(1, 1), 1e-4, 1e-5));
  EXPECT(torch::allclose(padded.slice(0, 0, 2).select(1, 0), output.slice(0, 0, 2).select(1, 0), 1e-4, 1e-5));
  EXPECT(padded.slice(0, 2).select(1, 0).abs().sum().template item<float>() == 0);
  EXPECT(throws([&] { rnn::pack_padded_sequence(input, torch::tensor({2, 6})); }));
  EXPECT(throws([&] { network->forward(torch::randn({5, 2, 2})); }));
}

void test_images() {
  namespace nn = torch::nn;
  namespace F = torch::nn::functional;
  const Tensor x = torch::arange(16, torch::kFloat).view({1, 1, 4, 4});
  EXPECT(nn::ReflectionPad2d(1)(x)[0][0][0].equal(torch::tensor({5., 4., 5., 6., 7., 6.})));
  EXPECT(nn::ZeroPad2d(nn::ZeroPad2dOptions({1, 0, 0, 0}))(x).sizes() == torch::IntArrayRef({1, 1, 4, 5}));
  EXPECT(nn::ConstantPad1d(2, 3.5)(x[0])[0][0][0].item<float>() == 3.5f);
  const Tensor twice = nn::Upsample(nn::UpsampleOptions().scale_factor(std::vector<double>{2, 2}))(x);
  EXPECT(twice.sizes() == torch::IntArrayRef({1, 1, 8, 8}) && twice[0][0][7][7].item<float>() == 15);
  const auto bilinear = F::InterpolateFuncOptions().mode(torch::kBilinear).align_corners(true);
  const Tensor seven = F::interpolate(x, F::InterpolateFuncOptions(bilinear).size(std::vector<int64_t>{7, 7}));
  EXPECT(close(seven[0][0][3][3].item<double>(), 7.5));
  EXPECT(throws([&] { F::interpolate(x, bilinear); }));
  const auto [values, places] = F::max_pool2d_with_indices(x, F::MaxPool2dFuncOptions(2));
  EXPECT(nn::MaxUnpool2d(2)(values, places).sum().item<float>() == values.sum().item<float>());
  EXPECT(F::fold(F::unfold(x, F::UnfoldFuncOptions(2).stride(2)), F::FoldFuncOptions(4, 2).stride(2)).equal(x));
  EXPECT(F::pixel_unshuffle(F::pixel_shuffle(torch::ones({1, 4, 2, 2}), 2), 2).sizes() ==
         torch::IntArrayRef({1, 4, 2, 2}));
  const Tensor normal = nn::InstanceNorm2d(nn::InstanceNorm2dOptions(1).affine(true))(x);
  EXPECT(std::fabs(normal.mean().item<double>()) < 1e-6 && close(normal.var(false).item<double>(), 1));
  EXPECT(text(nn::InstanceNorm2d(3)) ==
         "torch::nn::InstanceNorm2d(3, eps=1e-05, momentum=0.1, affine=false, track_running_stats=false)");
  EXPECT(text(nn::ReflectionPad2d(1)) == "torch::nn::ReflectionPad2d(padding=[1, 1, 1, 1])");
}

void test_other_modules() {
  namespace nn = torch::nn;
  namespace F = torch::nn::functional;
  const Tensor x = torch::tensor({-2.0, -0.5, 0.5, 2.0});
  EXPECT(nn::Hardtanh()(x).equal(torch::tensor({-1.0, -0.5, 0.5, 1.0})));
  EXPECT(nn::PReLU()(x).equal(torch::tensor({-0.5, -0.125, 0.5, 2.0})));
  EXPECT(nn::Threshold(0, 7)(x).equal(torch::tensor({7.0, 7.0, 0.5, 2.0})));
  EXPECT(close(nn::HuberLoss()(x, torch::zeros({4})).item<double>(), (1.5 + 0.125) / 2));
  EXPECT(close(nn::MarginRankingLoss()(x, -x, torch::ones({4})).item<double>(), 1.25));
  EXPECT(close(F::normalize(torch::tensor({{3.0, 4.0}}))[0][1].item<double>(), 0.8));
  EXPECT(close(nn::PairwiseDistance()(torch::tensor({{3.0, 4.0}}), torch::zeros({1, 2})).item<double>(), 5));
  nn::Sequential list(nn::Linear(2, 2), nn::Functional(torch::relu), nn::Functional(F::softmax, 1));
  EXPECT(close(list->forward(torch::ones({3, 2})).sum().item<double>(), 3));
  nn::ParameterList parameters(torch::ones({2}, torch::requires_grad()), torch::zeros({1}, torch::requires_grad()));
  EXPECT(parameters->size() == 2 && parameters->parameters().size() == 2 && throws([&] { parameters->at(2); }));
}

struct Squares : torch::data::datasets::Dataset<Squares> {
  torch::data::Example<> get(size_t i) override {
    TORCH_CHECK(i != fails_at, "example ", i);
    const auto number = static_cast<int64_t>(i);
    return {torch::tensor({number}), torch::tensor(number * number)};
  }
  torch::optional<size_t> size() const override { return 10; }
  size_t fails_at = 100;
};

void test_data() {
  namespace data = torch::data;
  for (const size_t workers : {0, 1, 3}) {
    auto loader = data::make_data_loader<data::samplers::SequentialSampler>(
        Squares().map(data::transforms::Stack<>()), data::DataLoaderOptions(4).workers(workers));
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<int64_t> sizes;
      int64_t next = 0;
      for (auto& batch : *loader) {
        sizes.push_back(batch.data.size(0));
        for (int64_t i = 0; i < batch.data.size(0); ++i, ++next)
          EXPECT(batch.data[i][0].item<int64_t>() == next && batch.target[i].item<int64_t>() == next * next);
      }
      EXPECT(sizes == (std::vector<int64_t>{4, 4, 2}));
    }
    loader->join();
  }
  std::set<int64_t> seen;
  auto loader = data::make_data_loader(Squares().map(data::transforms::Stack<>()),
                                       data::DataLoaderOptions(3).workers(2).enforce_ordering(false).drop_last(true));
  for (auto& batch : *loader)
    for (int64_t i = 0; i < 3; ++i) seen.insert(batch.target[i].item<int64_t>());
  EXPECT(seen.size() == 9);
  Squares failing;
  failing.fails_at = 5;
  auto bad = data::make_data_loader<data::samplers::SequentialSampler>(failing, data::DataLoaderOptions(4).workers(2));
  bool told = false;
  try {
    for (auto& batch : *bad) EXPECT(batch.size() == 4);
  } catch (const data::WorkerException& e) {
    told = std::string(e.what()).find("example 5") != std::string::npos;
  }
  EXPECT(told);
  auto rows =
      data::datasets::TensorDataset(torch::arange(6).view({3, 2})).map(data::transforms::Stack<data::TensorExample>());
  EXPECT((*data::make_data_loader<data::samplers::SequentialSampler>(rows, 2)->begin())
             .data.equal(torch::arange(4).view({2, 2})));
  const Tensor changed = data::transforms::Normalize<>(0.5, 0.25)(torch::ones({1, 2, 2}));
  EXPECT(changed.equal(torch::full({1, 2, 2}, 2.0)));
}

void test_mnist() {
  const std::string root = (std::filesystem::temp_directory_path() / "facula_test_mnist").string();
  std::filesystem::create_directories(root);
  std::ofstream images(root + "/train-images-idx3-ubyte", std::ios::binary),
      labels(root + "/train-labels-idx1-ubyte", std::ios::binary);
  images.write("\0\0\x08\x03\0\0\0\2\0\0\0\1\0\0\0\2\0\xff\x33\0", 20);
  labels.write("\0\0\x08\x01\0\0\0\2\7\3", 10);
  images.close(), labels.close();
  torch::data::datasets::MNIST set(root);
  EXPECT(set.size() == 2u && set.targets().equal(torch::tensor({7, 3})));
  EXPECT(torch::allclose(set.get(1).data, torch::tensor({{{0.2, 0.0}}})));
  EXPECT(throws([&] { torch::data::datasets::MNIST(root, torch::data::datasets::MNIST::Mode::kTest); }));
  std::filesystem::resize_file(root + "/train-images-idx3-ubyte", 19);
  EXPECT(throws([&] { torch::data::datasets::MNIST again(root); }));
  std::filesystem::remove_all(root);
}

void test_archives() {
  torch::manual_seed(9);
  auto net = std::make_shared<Net>(), other = std::make_shared<Net>();
  std::stringstream file;
  torch::save(net, file);
  torch::load(other, file);
  for (const auto& item : net->named_parameters()) EXPECT(other->named_parameters()[item.key()].equal(*item));
  file.seekg(0);
  torch::nn::Linear stranger(2, 2);
  EXPECT(throws([&] { torch::load(stranger, file); }));

  const Tensor half = torch::arange(6, torch::kDouble).view({2, 3}).t();
  std::stringstream tensors;
  torch::save(std::vector<Tensor>{half, torch::tensor(true), torch::zeros({0, 3}, torch::kInt)}, tensors);
  std::vector<Tensor> read;
  torch::load(read, tensors);
  EXPECT(read.size() == 3 && read[0].equal(half) && read[1].item<bool>() && read[2].sizes()[1] == 3);

  torch::IValue dict = c10::impl::GenericDict();
  dict.toGenericDict().insert("w", half);
  dict.toGenericDict().insert("list", std::vector<int64_t>{1, 2});
  const auto back = torch::pickle_load(torch::pickle_save(dict)).toGenericDict();
  EXPECT(back.at("w").toTensor().equal(half) && back.at("list").toIntVector()[1] == 2 && !back.contains("x"));

  // damaged bytes give an error or other values, never a crash
  const std::string whole = tensors.str();
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << i % 8));
    try {
      std::istringstream stream(damaged);
      read.clear();
      torch::load(read, stream);
    } catch (const c10::Error&) {
      continue;
    }
  }
  for (size_t end = 0; end < whole.size(); end += 7)
    EXPECT(throws([&] {
      std::istringstream stream(whole.substr(0, end));
      torch::load(read, stream);
    }));
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

// An optimizer goes on from an archive as it would have without.
template <class Optimizer, class Options>
void test_optimizer_archive(Options options) {
  torch::nn::Linear model(2, 1), copy(2, 1);
  Optimizer optimizer(model->parameters(), options), second(copy->parameters(), Options());
  const auto step = [](torch::nn::Linear& m, Optimizer& o) {
    o.step([&] {
      o.zero_grad();
      const Tensor loss = m(torch::tensor({{1.0, 2.0}, {3.0, -1.0}})).pow(2).sum();
      loss.backward();
      return loss;
    });
  };
  for (int i = 0; i < 3; ++i) step(model, optimizer);
  std::stringstream weights, state;
  torch::save(model, weights);
  torch::save(optimizer, state);
  torch::load(copy, weights);
  torch::load(second, state);
  for (int i = 0; i < 2; ++i) step(model, optimizer), step(copy, second);
  EXPECT(copy->weight.equal(model->weight) && copy->bias.equal(model->bias));
}

double rosenbrock(torch::optim::LBFGSOptions options) {
  const Tensor at = torch::tensor({-1.5, 2.0}, torch::requires_grad().dtype(torch::kDouble));
  torch::optim::LBFGS optimizer(std::vector<Tensor>{at}, options);
  const auto loss = [&] { return (1 - at[0]).pow(2) + 100 * (at[1] - at[0] * at[0]).pow(2); };
  for (int i = 0; i < 8; ++i)
    optimizer.step([&] {
      optimizer.zero_grad();
      const Tensor value = loss();
      value.backward();
      return value;
    });
  return loss().item<double>();
}

void test_further_optimizers() {
  using namespace torch::optim;
  EXPECT(trained<RMSprop>(RMSpropOptions(0.05).momentum(0.3).centered(true)) < 1e-2);
  EXPECT(trained<Adagrad>(AdagradOptions(0.5)) < 1e-2);
  EXPECT(rosenbrock(LBFGSOptions(1).line_search_fn("strong_wolfe")) < 1e-8);
  EXPECT(throws([] { LBFGS(std::vector<Tensor>{torch::ones(1, torch::requires_grad())}).step(nullptr); }));
  test_optimizer_archive<Adam>(AdamOptions(0.1).amsgrad(true));
  test_optimizer_archive<RMSprop>(RMSpropOptions(0.1).momentum(0.5));
  test_optimizer_archive<LBFGS>(LBFGSOptions(0.5).max_iter(3));
  SGD optimizer(std::vector<Tensor>{torch::ones(1, torch::requires_grad())}, SGDOptions(1));
  ReduceLROnPlateauScheduler plateau(optimizer, ReduceLROnPlateauScheduler::min, 0.5f, 1);
  for (int i = 0; i < 4; ++i) plateau.step(1.0f);
  EXPECT(optimizer.param_groups()[0].options().get_lr() == 0.5);
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
  test_recurrent<torch::nn::LSTM, torch::nn::LSTMCell>();
  test_recurrent<torch::nn::GRU, torch::nn::GRUCell>();
  test_recurrent<torch::nn::RNN, torch::nn::RNNCell>();
  test_images();
  test_other_modules();
  test_data();
  test_mnist();
  test_archives();
  test_optimizers();
  test_further_optimizers();
  std::printf("%d failures\n", failures.load());
  return failures != 0;
}
