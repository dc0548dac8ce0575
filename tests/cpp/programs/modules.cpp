// Prints what modules of torch:: compute from given numbers, a line for each; tests/test_cxx.py compares with Python's.
#include <torch/script.h>
#include <torch/torch.h>

#include <cstdio>
#include <fstream>

using torch::Tensor;
namespace nn = torch::nn;
namespace F = torch::nn::functional;

static void show(const char* name, const Tensor& values) {
  std::printf("%s:", name);
  const Tensor flat = values.detach().to(torch::kDouble).contiguous().view({-1});
  for (int64_t i = 0; i < flat.numel(); ++i) std::printf(" %.9g", flat[i].item<double>());
  std::printf("\n");
}
/// The same numbers in every parameter, whatever was drawn.
template <class M>
static M filled(M module) {
  torch::NoGradGuard off;
  for (const Tensor& p : module->parameters()) p.copy_(torch::linspace(-0.5, 0.7, p.numel()).view(p.sizes()));
  module->eval();
  return module;
}
static Tensor numbers(torch::IntArrayRef sizes) {
  int64_t count = 1;
  for (const int64_t size : sizes) count *= size;
  return torch::linspace(-1, 1.5, count).view(sizes).sin();
}

static void attention() {
  const Tensor x = numbers({3, 2, 8}), y = numbers({4, 2, 8});
  torch::manual_seed(3);
  nn::MultiheadAttention drawn(8, 2);
  const auto [output, weights] = drawn(x, x, x);
  show("attention_drawn", output), show("attention_weights", weights);
  auto several = filled(nn::MultiheadAttention(nn::MultiheadAttentionOptions(8, 2).kdim(6).vdim(5).add_bias_kv(true)));
  const Tensor hidden = torch::tensor({{false, false, true, false}, {true, false, false, false}});
  show("attention_sizes", std::get<0>(several(x, numbers({4, 2, 6}), numbers({4, 2, 5}), hidden)));
  auto encoder = filled(nn::TransformerEncoder(
      nn::TransformerEncoderOptions(nn::TransformerEncoderLayerOptions(8, 2).dim_feedforward(16), 2)
          .norm(torch::nn::AnyModule(nn::LayerNorm(nn::LayerNormOptions({8}))))));
  show("encoder", encoder(x, nn::Transformer::Impl::generate_square_subsequent_mask(3)));
  auto decoder = filled(nn::TransformerDecoder(nn::TransformerDecoderOptions(
      nn::TransformerDecoderLayerOptions(8, 2).dim_feedforward(16).activation(torch::kGELU), 2)));
  show("decoder", decoder(x, y));
  auto whole = filled(nn::Transformer(nn::TransformerOptions(8, 2, 1, 1).dim_feedforward(16)));
  show("transformer", whole(y, x));
}

static void tables() {
  torch::manual_seed(4);
  nn::EmbeddingBag drawn(nn::EmbeddingBagOptions(10, 3).mode(torch::kSum).padding_idx(2));
  const Tensor places = torch::tensor({1, 2, 4, 5, 4, 3}), starts = torch::tensor({0, 3});
  show("bag", drawn(places, starts));
  show("bag_factors", drawn(places, starts, numbers({6})));
  const Tensor table = numbers({6, 3});
  auto most = nn::EmbeddingBag::from_pretrained(table, nn::EmbeddingBagFromPretrainedOptions().mode(torch::kMax));
  show("bag_max", most(torch::tensor({{1, 2}, {5, 0}})));
  auto rows = nn::Embedding::from_pretrained(table.clone(), nn::EmbeddingFromPretrainedOptions().max_norm(0.5));
  show("rows", rows(torch::tensor({1, 5, 1})));
  auto adaptive = filled(nn::AdaptiveLogSoftmaxWithLoss(
      nn::AdaptiveLogSoftmaxWithLossOptions(8, 12, {4, 8}).div_value(2).head_bias(true)));
  const auto result = adaptive(numbers({5, 8}), torch::tensor({0, 3, 5, 9, 11}));
  show("adaptive", result.output), show("adaptive_loss", torch::tensor(result.loss));
  show("adaptive_all", adaptive->log_prob(numbers({5, 8}))), show("adaptive_best", adaptive->predict(numbers({5, 8})));
}

static void losses() {
  const Tensor x = numbers({3, 4}), target = torch::tensor({1, 0, 3});
  show("multi_margin", nn::MultiMarginLoss(nn::MultiMarginLossOptions().p(2).weight(numbers({4})))(x, target));
  const Tensor labels = torch::tensor({{1, 3, -1, 0}, {0, -1, 1, 2}, {3, 2, 1, 0}});
  show("multilabel_margin", nn::MultiLabelMarginLoss()(x, labels));
  auto options = nn::TripletMarginWithDistanceLossOptions().swap(true).reduction(torch::kSum);
  show("triplet", nn::TripletMarginWithDistanceLoss(options)(x, x * 2, x.cos()));
  options.distance_function([](const Tensor& a, const Tensor& b) { return (a - b).abs().sum(-1); });
  show("triplet_own", nn::TripletMarginWithDistanceLoss(options)(x, x * 2, x.cos()));
}

static void windows() {
  const Tensor x = numbers({2, 3, 8, 8});
  torch::manual_seed(5);
  show("fractional2", nn::FractionalMaxPool2d(nn::FractionalMaxPool2dOptions(2).output_size(5))(x));
  show("fractional3", nn::FractionalMaxPool3d(nn::FractionalMaxPool3dOptions(2).output_ratio(0.5))(x));
  show("crossmap", nn::CrossMapLRN2d(nn::CrossMapLRN2dOptions(3).alpha(0.1))(x));
  show("affine", F::affine_grid(numbers({2, 2, 3}), {2, 1, 3, 4}, true));
  show("average", F::avg_pool2d(x, F::AvgPool2dFuncOptions(3).divisor_override(5)));
  show("pdist", F::pdist(x[0][0]));
  const auto [rows, inverse, counts] = torch::unique_dim(torch::tensor({{1, 2}, {0, 3}, {1, 2}}), 0, true, true, true);
  show("unique_rows", rows), show("unique_inverse", inverse), show("unique_counts", counts);
  show("aliases", torch::absolute(torch::concat({x[0][0][0], torch::linspace(-1, 1, 3)})).clip(0.1, 0.8));
  show("reflected", torch::reflection_pad2d(x[0], {1, 2, 0, 1}));
  show("softmax", F::softmax(x[0][0], F::SoftmaxFuncOptions(1).dtype(torch::kDouble)));
}

static void recurrent() {
  auto lstm = filled(nn::LSTM(nn::LSTMOptions(3, 5).num_layers(2).bidirectional(true).proj_size(2)));
  const auto [output, state] = lstm(numbers({4, 2, 3}));
  show("lstm", output), show("lstm_h", std::get<0>(state)), show("lstm_c", std::get<1>(state));
  namespace rnn = nn::utils::rnn;
  const auto packed = rnn::pack_padded_sequence(numbers({4, 2, 3}), torch::tensor({4, 2}));
  const auto [some, last] = lstm->forward_with_packed_input(packed);
  show("lstm_packed", some.data()), show("lstm_packed_c", std::get<1>(last));
}

static void drawn() {
  torch::manual_seed(6);
  show("orthogonal", nn::init::orthogonal_(torch::empty({3, 5}), 2.0));
  show("sparse", nn::init::sparse_(torch::empty({4, 3}), 0.5));
  show("dirac", nn::init::dirac_(torch::empty({3, 2, 3})));
  show("feature_alpha",
       F::feature_alpha_dropout(numbers({2, 3, 4}), F::FeatureAlphaDropoutFuncOptions().training(true)));
}

/// Four chunks of five numbers.
struct Numbers : torch::data::datasets::ChunkDataReader<int64_t> {
  std::vector<int64_t> read_chunk(size_t chunk) override {
    TORCH_CHECK(chunk != fails_at, "chunk ", chunk);
    std::vector<int64_t> five;
    for (int64_t i = 0; i < 5; ++i) five.push_back(static_cast<int64_t>(chunk) * 5 + i);
    return five;
  }
  size_t chunk_count() override { return 4; }
  void reset() override {}
  size_t fails_at = 9;
};

static void chunks() {
  namespace datasets = torch::data::datasets;
  namespace samplers = torch::data::samplers;
  using Chunks = datasets::ChunkDataset<Numbers, samplers::SequentialSampler, samplers::SequentialSampler>;
  auto dataset = datasets::make_shared_dataset<Chunks>(
      Numbers(), samplers::SequentialSampler(4), samplers::SequentialSampler(5), datasets::ChunkDatasetOptions(2, 3));
  auto loader = torch::data::make_data_loader(dataset, torch::data::DataLoaderOptions(3));
  for (int pass = 0; pass < 2; ++pass) {
    std::vector<int64_t> all, sizes;
    for (auto& batch : *loader) {
      all.insert(all.end(), batch.begin(), batch.end());
      sizes.push_back(static_cast<int64_t>(batch.size()));
    }
    show("chunks", torch::tensor(all)), show("chunk_sizes", torch::tensor(sizes));
  }
  Numbers failing;
  failing.fails_at = 2;
  Chunks other(failing, samplers::SequentialSampler(4), samplers::SequentialSampler(5), {1, 5});
  other.reset();
  int good = 0, bad = 0;
  for (int i = 0; i < 4; ++i) {
    try {
      good += other.get_batch().has_value();
    } catch (const std::exception&) {
      ++bad;
    }
  }
  show("chunk_failures", torch::tensor({good, bad}));
}

/// A program that Python exported: its results before and after a step of an optimizer, and after saving.
static void program(const std::string& path, const std::string& saved) {
  auto module = torch::jit::load(path);
  const std::vector<torch::IValue> inputs{numbers({2, 3})};
  for (const auto& [name, child] : module.named_children()) std::printf("child: %s\n", name.c_str());
  show("program", module.forward(inputs).toTuple()->elements()[0].toTensor());
  torch::optim::SGD optimizer(module.parameters(), 0.1);
  module.forward(inputs).toTuple()->elements()[1].toTensorVector()[0].backward();
  optimizer.step();
  module.save(saved);
  std::ifstream file(saved, std::ios::binary);
  auto again = torch::jit::load(file);
  show("program_stepped", again(inputs).toTuple()->elements()[0].toTensor());
  for (int time = 0; time < 2; ++time) module.save(path);  // over the file in which its tensors are
  show("program_saved_over", module.forward(inputs).toTuple()->elements()[0].toTensor());
  show("program_read_again", torch::jit::load(path).forward(inputs).toTuple()->elements()[0].toTensor());
  again.to(torch::kDouble);
  show("program_double", again({numbers({2, 3}).to(torch::kDouble)}).toTuple()->elements()[0].toTensor());
  auto copy = module.clone();
  copy.train();
  show("program_training", torch::tensor(copy.is_training() && !module.is_training()));
  const auto refused = [](auto&& call) {
    try {
      call();
      std::printf("refused: nothing\n");
    } catch (const c10::Error& error) {
      std::printf("refused: %s\n", error.what());
    }
  };
  refused([&] { module.forward({numbers({2, 4})}); });
  refused([&] { module.forward({numbers({2, 3}).to(torch::kDouble)}); });
  refused([&] { module.forward({}); });
  refused([&] { module.forward({inputs[0], inputs[0]}); });
  refused([&] { module.forward({std::vector<Tensor>{numbers({2, 3})}}); });
  refused([&] { module.attr("nothing"); });
  refused([&] { copy.save(saved); });
  refused([&] { torch::jit::load(path + ".torchscript"); });
  refused([&] { torch::jit::load(path + ".damaged"); });
  refused([&] {
    std::ifstream overlapping(path + ".overlapping", std::ios::binary);
    torch::pickle_load({std::istreambuf_iterator<char>(overlapping), {}});
  });
}

int main(int, char** arguments) {
  attention();
  tables();
  losses();
  windows();
  recurrent();
  drawn();
  chunks();
  program(arguments[1], arguments[2]);
}
