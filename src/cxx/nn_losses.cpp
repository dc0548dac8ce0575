// Further losses.
#include "cxx/reduction.h"
#include "torch/nn/losses.h"

namespace torch::nn {

namespace functional {
Tensor huber_loss(const Tensor& input, const Tensor& target, const HuberLossOptions& o) {
  const auto both = torch::broadcast_tensors({input, target});
  return torch::huber_loss(both[0], both[1], reduction_of(o.reduction()), o.delta());
}
Tensor hinge_embedding_loss(const Tensor& input, const Tensor& target, const HingeEmbeddingLossOptions& o) {
  return torch::hinge_embedding_loss(input, target, o.margin(), reduction_of(o.reduction()));
}
Tensor soft_margin_loss(const Tensor& input, const Tensor& target, const SoftMarginLossOptions& o) {
  return torch::soft_margin_loss(input, target, reduction_of(o.reduction()));
}
Tensor multilabel_soft_margin_loss(const Tensor& input, const Tensor& target,
                                   const MultiLabelSoftMarginLossOptions& o) {
  Tensor loss = -(target * torch::logsigmoid(input) + (1 - target) * torch::logsigmoid(-input));
  if (o.weight().defined()) loss = loss * o.weight();
  loss = loss.mean(-1);
  const int64_t reduction = reduction_of(o.reduction());
  return reduction == Reduction::Mean ? loss.mean() : reduction == Reduction::Sum ? loss.sum() : loss;
}
Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, const PoissonNLLLossOptions& o) {
  return torch::poisson_nll_loss(input, target, o.log_input(), o.full(), o.eps(), reduction_of(o.reduction()));
}
Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                             const CosineEmbeddingLossOptions& o) {
  return torch::cosine_embedding_loss(input1, input2, target, o.margin(), reduction_of(o.reduction()));
}
Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target,
                           const MarginRankingLossOptions& o) {
  return torch::margin_ranking_loss(input1, input2, target, o.margin(), reduction_of(o.reduction()));
}
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                           const TripletMarginLossOptions& o) {
  return torch::triplet_margin_loss(anchor, positive, negative, o.margin(), o.p(), o.eps(), o.swap(),
                                    reduction_of(o.reduction()));
}
Tensor ctc_loss(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                const Tensor& target_lengths, const CTCLossOptions& o) {
  return torch::ctc_loss(log_probs, targets, input_lengths, target_lengths, o.blank(), reduction_of(o.reduction()),
                         o.zero_infinity());
}

}  // namespace functional

#define TORCH_TEXT(Name, ...) \
  void Name##Impl::pretty_print(std::ostream& stream) const { stream << "torch::nn::" #Name "(" __VA_ARGS__ << ")"; }
TORCH_TEXT(HuberLoss)
TORCH_TEXT(HingeEmbeddingLoss, "margin=" << options.margin())
TORCH_TEXT(SoftMarginLoss)
TORCH_TEXT(MultiLabelSoftMarginLoss)
TORCH_TEXT(PoissonNLLLoss)
TORCH_TEXT(CosineEmbeddingLoss, "margin=" << options.margin())
TORCH_TEXT(MarginRankingLoss, "margin=" << options.margin())
TORCH_TEXT(TripletMarginLoss, "margin=" << options.margin() << ", p=" << options.p() << ", eps=" << options.eps()
                                        << ", swap=" << std::boolalpha << options.swap())
#undef TORCH_TEXT

}  // namespace torch::nn
