// Further losses.
#pragma once

#include <torch/nn/containers.h>
#include <torch/nn/functional.h>

namespace torch::nn {

struct HuberLossOptions {
  HuberLossOptions(Word reduction = kMean) : reduction_(reduction) {}
  TORCH_ARG(Word, reduction);
  TORCH_ARG(double, delta) = 1.0;
};
struct MarginOptions {
  TORCH_ARG(double, margin) = 0.0;
  TORCH_ARG(Word, reduction) = kMean;
};
using CosineEmbeddingLossOptions = MarginOptions;
using MarginRankingLossOptions = MarginOptions;
struct HingeEmbeddingLossOptions {
  TORCH_ARG(double, margin) = 1.0;
  TORCH_ARG(Word, reduction) = kMean;
};
struct TripletMarginLossOptions {
  TORCH_ARG(double, margin) = 1.0;
  TORCH_ARG(double, p) = 2.0;
  TORCH_ARG(double, eps) = 1e-6;
  TORCH_ARG(bool, swap) = false;
  TORCH_ARG(Word, reduction) = kMean;
};
using SoftMarginLossOptions = ReductionOptions;
using MultiLabelSoftMarginLossOptions = WeightedOptions;
struct PoissonNLLLossOptions {
  TORCH_ARG(bool, log_input) = true;
  TORCH_ARG(bool, full) = false;
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(Word, reduction) = kMean;
};
struct MultiMarginLossOptions {
  TORCH_ARG(int64_t, p) = 1;
  TORCH_ARG(double, margin) = 1.0;
  TORCH_ARG(Tensor, weight) = Tensor();
  TORCH_ARG(Word, reduction) = kMean;
};
using MultiLabelMarginLossOptions = ReductionOptions;
struct TripletMarginWithDistanceLossOptions {
  using distance_function_t = std::function<Tensor(const Tensor&, const Tensor&)>;
  TORCH_ARG(optional<distance_function_t>, distance_function) = nullopt;  // none: the Euclidean one
  TORCH_ARG(double, margin) = 1.0;
  TORCH_ARG(bool, swap) = false;
  TORCH_ARG(Word, reduction) = kMean;
};
struct CTCLossOptions {
  TORCH_ARG(int64_t, blank) = 0;
  TORCH_ARG(Word, reduction) = kMean;
  TORCH_ARG(bool, zero_infinity) = false;
};

namespace functional {

using HuberLossFuncOptions = HuberLossOptions;
using CosineEmbeddingLossFuncOptions = CosineEmbeddingLossOptions;
using MarginRankingLossFuncOptions = MarginRankingLossOptions;
using HingeEmbeddingLossFuncOptions = HingeEmbeddingLossOptions;
using TripletMarginLossFuncOptions = TripletMarginLossOptions;
using SoftMarginLossFuncOptions = SoftMarginLossOptions;
using MultilabelSoftMarginLossFuncOptions = MultiLabelSoftMarginLossOptions;
using PoissonNLLLossFuncOptions = PoissonNLLLossOptions;
using CTCLossFuncOptions = CTCLossOptions;
using MultiMarginLossFuncOptions = MultiMarginLossOptions;
using MultilabelMarginLossFuncOptions = MultiLabelMarginLossOptions;
using TripletMarginWithDistanceLossFuncOptions = TripletMarginWithDistanceLossOptions;

Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberLossOptions& options = {});
Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, const HingeEmbeddingLossOptions& options = {});
Tensor soft_margin_loss(const Tensor& input, const Tensor& target, const SoftMarginLossOptions& options = {});
Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                                   const MultiLabelSoftMarginLossOptions& options = {});
Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, const PoissonNLLLossOptions& options = {});
Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                             const CosineEmbeddingLossOptions& options = {});
Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                           const MarginRankingLossOptions& options = {});
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossOptions& options = {});
Tensor multi_margin_loss(const Tensor& input, const Tensor& target, const MultiMarginLossOptions& options = {});
Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target,
                              const MultiLabelMarginLossOptions& options = {});
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                         const TripletMarginWithDistanceLossOptions& options = {});
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CTCLossOptions& options = {});

}  // namespace functional

#define TORCH_LOSS(Name, Parameters, Call)                           \
  class Name##Impl : public Cloneable<Name##Impl> {                  \
   public:                                                           \
    explicit Name##Impl(const Name##Options& o = {}) : options(o) {} \
    void reset() override {}                                         \
    void pretty_print(std::ostream& stream) const override;          \
    Tensor forward Parameters { return functional::Call; }           \
    Name##Options options;                                           \
  };                                                                 \
  TORCH_MODULE(Name)
#define TORCH_LOSS_OF_TWO(Name, function) \
  TORCH_LOSS(Name, (const Tensor& input, const Tensor& target), function(input, target, options))
#define TORCH_LOSS_OF_THREE(Name, function)                                          \
  TORCH_LOSS(Name, (const Tensor& first, const Tensor& second, const Tensor& third), \
             function(first, second, third, options))
TORCH_LOSS_OF_TWO(HuberLoss, huber_loss);
TORCH_LOSS_OF_TWO(HingeEmbeddingLoss, hinge_embedding_loss);
TORCH_LOSS_OF_TWO(SoftMarginLoss, soft_margin_loss);
TORCH_LOSS_OF_TWO(MultiLabelSoftMarginLoss, multilabel_soft_margin_loss);
TORCH_LOSS_OF_TWO(PoissonNLLLoss, poisson_nll_loss);
TORCH_LOSS_OF_TWO(MultiMarginLoss, multi_margin_loss);
TORCH_LOSS_OF_TWO(MultiLabelMarginLoss, multilabel_margin_loss);
TORCH_LOSS_OF_THREE(CosineEmbeddingLoss, cosine_embedding_loss);
TORCH_LOSS_OF_THREE(MarginRankingLoss, margin_ranking_loss);
TORCH_LOSS_OF_THREE(TripletMarginLoss, triplet_margin_loss);
TORCH_LOSS_OF_THREE(TripletMarginWithDistanceLoss, triplet_margin_with_distance_loss);
#undef TORCH_LOSS_OF_THREE
#undef TORCH_LOSS_OF_TWO
#undef TORCH_LOSS
class CTCLossImpl : public Cloneable<CTCLossImpl> {
 public:
  explicit CTCLossImpl(const CTCLossOptions& o = {}) : options(o) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::CTCLoss()"; }
  Tensor forward(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                 const Tensor& target_lengths) {
    return functional::ctc_loss(log_probs, targets, input_lengths, target_lengths, options);
  }
  CTCLossOptions options;
};
TORCH_MODULE(CTCLoss);

}  // namespace torch::nn
