// Rows of a table by number: one by one, and as bags; and a soft-max over many classes, most of them rare.
#pragma once

#include <torch/nn/modules.h>

namespace torch::nn {

// Gradients of a table are dense here; `sparse` is taken and changes no value.
#define TORCH_TABLE_ARGUMENTS                          \
  TORCH_ARG(optional<double>, max_norm) = nullopt;     \
  TORCH_ARG(double, norm_type) = 2.0;                  \
  TORCH_ARG(bool, scale_grad_by_freq) = false;         \
  TORCH_ARG(bool, sparse) = false;                     \
  TORCH_ARG(optional<int64_t>, padding_idx) = nullopt
#define TORCH_BAG_ARGUMENTS        \
  TORCH_TABLE_ARGUMENTS;           \
  TORCH_ARG(Word, mode) = kMean;   \
  TORCH_ARG(bool, include_last_offset) = false
struct EmbeddingOptions {
  EmbeddingOptions(int64_t count, int64_t size) : num_embeddings_(count), embedding_dim_(size) {}
  TORCH_ARG(int64_t, num_embeddings);
  TORCH_ARG(int64_t, embedding_dim);
  TORCH_ARG(Tensor, _weight) = Tensor();
  TORCH_TABLE_ARGUMENTS;
};
struct EmbeddingFromPretrainedOptions {
  TORCH_ARG(bool, freeze) = true;
  TORCH_TABLE_ARGUMENTS;
};
struct EmbeddingBagOptions {
  EmbeddingBagOptions(int64_t count, int64_t size) : num_embeddings_(count), embedding_dim_(size) {}
  TORCH_ARG(int64_t, num_embeddings);
  TORCH_ARG(int64_t, embedding_dim);
  TORCH_ARG(Tensor, _weight) = Tensor();
  TORCH_BAG_ARGUMENTS;
};
struct EmbeddingBagFromPretrainedOptions {
  TORCH_ARG(bool, freeze) = true;
  TORCH_BAG_ARGUMENTS;
};
struct AdaptiveLogSoftmaxWithLossOptions {
  AdaptiveLogSoftmaxWithLossOptions(int64_t in, int64_t classes, std::vector<int64_t> cutoffs)
      : in_features_(in), n_classes_(classes), cutoffs_(std::move(cutoffs)) {}
  TORCH_ARG(int64_t, in_features);
  TORCH_ARG(int64_t, n_classes);
  TORCH_ARG(std::vector<int64_t>, cutoffs);
  TORCH_ARG(double, div_value) = 4.0;
  TORCH_ARG(bool, head_bias) = false;
};

namespace functional {

struct EmbeddingFuncOptions {
  TORCH_TABLE_ARGUMENTS;
};
struct EmbeddingBagFuncOptions {
  TORCH_ARG(Tensor, offsets);
  TORCH_ARG(Tensor, per_sample_weights);
  TORCH_BAG_ARGUMENTS;
};
Tensor embedding(const Tensor& input, const Tensor& weight, const EmbeddingFuncOptions& options = {});
/// Of indices (bags, length), or one list of them and where each bag begins: sums, means or maxima, (bags, features).
Tensor embedding_bag(const Tensor& input, const Tensor& weight, const EmbeddingBagFuncOptions& options = {});

}  // namespace functional
#undef TORCH_BAG_ARGUMENTS
#undef TORCH_TABLE_ARGUMENTS

class EmbeddingImpl : public Cloneable<EmbeddingImpl> {
 public:
  EmbeddingImpl(int64_t count, int64_t size) : EmbeddingImpl(EmbeddingOptions(count, size)) {}
  explicit EmbeddingImpl(EmbeddingOptions o);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& indices);
  EmbeddingOptions options;
  Tensor weight;
};
class Embedding : public ModuleHolder<EmbeddingImpl> {
 public:
  using ModuleHolder<EmbeddingImpl>::ModuleHolder;
  static Embedding from_pretrained(const Tensor& embeddings, const EmbeddingFromPretrainedOptions& options = {});
};

class EmbeddingBagImpl : public Cloneable<EmbeddingBagImpl> {
 public:
  EmbeddingBagImpl(int64_t count, int64_t size) : EmbeddingBagImpl(EmbeddingBagOptions(count, size)) {}
  explicit EmbeddingBagImpl(EmbeddingBagOptions o);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  Tensor forward(const Tensor& input, const Tensor& offsets = {}, const Tensor& per_sample_weights = {});
  EmbeddingBagOptions options;
  Tensor weight;
};
class EmbeddingBag : public ModuleHolder<EmbeddingBagImpl> {
 public:
  using ModuleHolder<EmbeddingBagImpl>::ModuleHolder;
  static EmbeddingBag from_pretrained(const Tensor& embeddings, const EmbeddingBagFromPretrainedOptions& options = {});
};

/// Log-probabilities of the targets, and their negative mean.
struct ASMoutput {
  ASMoutput(Tensor o, double l) : output(std::move(o)), loss(l) {}
  Tensor output;
  double loss;
};
class AdaptiveLogSoftmaxWithLossImpl : public Cloneable<AdaptiveLogSoftmaxWithLossImpl> {
 public:
  AdaptiveLogSoftmaxWithLossImpl(int64_t in, int64_t classes, std::vector<int64_t> ends)
      : AdaptiveLogSoftmaxWithLossImpl(AdaptiveLogSoftmaxWithLossOptions(in, classes, std::move(ends))) {}
  explicit AdaptiveLogSoftmaxWithLossImpl(AdaptiveLogSoftmaxWithLossOptions o);
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  ASMoutput forward(const Tensor& input, const Tensor& target);
  Tensor _get_full_log_prob(const Tensor& input, const Tensor& head_output);
  /// Of all classes, (N, n_classes).
  Tensor log_prob(const Tensor& input);
  /// The most probable class of each input.
  Tensor predict(const Tensor& input);
  AdaptiveLogSoftmaxWithLossOptions options;
  std::vector<int64_t> cutoffs;
  int64_t shortlist_size = 0, n_clusters = 0, head_size = 0;
  Linear head = nullptr;
  ModuleList tail;
};
TORCH_MODULE(AdaptiveLogSoftmaxWithLoss);

}  // namespace torch::nn
