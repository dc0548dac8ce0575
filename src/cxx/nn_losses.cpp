// Further losses.
#include "cxx/reduction.h"
#include "torch/nn/losses.h"

namespace torch::nn {

using facula::ErrorKind;

namespace functional {
namespace {

Tensor reduced(const Tensor& loss, Word reduction) {
  const int64_t kind = reduction_of(reduction);
  return kind == Reduction::Mean ? loss.mean() : kind == Reduction::Sum ? loss.sum() : loss;
}
/// Scores (N, C), or (C) as one row of them; targets of as many rows.
Tensor rows_of_scores(const char* name, const Tensor& input, const Tensor& target, bool per_class) {
  const Tensor scores = input.dim() < 2 ? input.reshape({1, -1}) : input;
  const int64_t expected = per_class ? scores.numel() : scores.size(0);
  FACULA_CHECK(scores.dim() == 2 && scores.numel() > 0 && target.numel() == expected, ErrorKind::Runtime, name,
               ": scores of (N, C) or (C) and targets for them are expected, got ", input.sizes(), " and ",
               target.sizes());
  return scores;
}

}  // namespace

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
  return reduced(loss.mean(-1), o.reduction());
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
Tensor multi_margin_loss(const Tensor& input, const Tensor& target, const MultiMarginLossOptions& o) {
  FACULA_CHECK(o.p() == 1 || o.p() == 2, ErrorKind::Value, "multi_margin_loss: p must be 1 or 2, got ", o.p());
  const Tensor scores = rows_of_scores("multi_margin_loss", input, target, false), index = target.reshape({-1, 1});
  FACULA_CHECK(!o.weight().defined() || o.weight().sizes() == IntArrayRef(scores.size(1)), ErrorKind::Value,
               "multi_margin_loss: weight must have ", scores.size(1), " entries, got ", o.weight().sizes());
  Tensor terms = (o.margin() - scores.gather(1, index) + scores).clamp_min(0);
  if (o.p() == 2) terms = terms * terms;
  if (o.weight().defined()) terms = terms * o.weight().index_select(0, target.reshape({-1})).unsqueeze(1);
  const Tensor loss = terms.scatter(1, index, 0.0).sum(1) / scores.size(1);  // the target itself does not count
  return reduced(input.dim() < 2 && target.dim() == 0 ? loss.reshape({}) : loss, o.reduction());
}
Tensor multilabel_margin_loss(const Tensor& input, const Tensor& target, const MultiLabelMarginLossOptions& o) {
  const Tensor scores = rows_of_scores("multilabel_margin_loss", input, target, true);
  const Tensor labels = target.reshape(scores.sizes());
  const Tensor valid = (labels != -1).to(kLong).cumprod(1);  // up to the first -1
  const Tensor index = torch::where(valid.to(kBool), labels, torch::zeros_like(labels));
  const Tensor is_target = torch::zeros(scores.sizes(), labels.options().dtype(kLong)).scatter_add(1, index, valid) > 0;
  const Tensor apart = 1 - scores.gather(1, index).unsqueeze(2) + scores.unsqueeze(1);
  const Tensor counted = valid.to(kBool).unsqueeze(2) & is_target.logical_not().unsqueeze(1);
  const Tensor loss = apart.clamp_min(0).masked_fill(counted.logical_not(), 0).sum({1, 2}) / scores.size(1);
  return reduced(input.dim() < 2 ? loss.reshape({}) : loss, o.reduction());
}
Tensor triplet_margin_with_distance_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative,
                                         const TripletMarginWithDistanceLossOptions& o) {
  FACULA_CHECK(o.margin() > 0, ErrorKind::Value,
               "triplet_margin_with_distance_loss: margin must be greater than 0, got ", o.margin());
  const auto distance = [&](const Tensor& a, const Tensor& b) {
    return o.distance_function() ? (*o.distance_function())(a, b) : torch::pairwise_distance(a, b, 2, 1e-6, false);
  };
  const Tensor near = distance(anchor, positive);
  Tensor far = distance(anchor, negative);
  if (o.swap()) far = torch::min(far, distance(positive, negative));
  return reduced((o.margin() + near - far).clamp_min(0), o.reduction());
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
TORCH_TEXT(MultiMarginLoss, "p=" << options.p() << ", margin=" << options.margin()
                                 << ", weight=" << (options.weight().defined() ? "defined" : "{}"))
TORCH_TEXT(MultiLabelMarginLoss)
TORCH_TEXT(TripletMarginWithDistanceLoss,
           "margin=" << options.margin() << ", swap=" << std::boolalpha << options.swap())
#undef TORCH_TEXT

}  // namespace torch::nn
