// The public losses: argument checks, the shape (N, C, S) that the class kernels take, and the reductions.
#include "autograd/batching.h"
#include "autograd/node.h"
#include "core/checked.h"
#include "core/error.h"
#include "core/mode.h"
#include "functions.h"
#include "ops/checks.h"
#include "ops/contiguous.h"

namespace facula {
namespace {

enum Reduction : int64_t { kNone, kMean, kSum };

/// Of an argument without a derivative: a gradient that is wanted would be lost.
void refuse_gradient(const char* op, const char* name, const Tensor& argument) {
  if (!argument.defined() || !recorded(live_flags(argument.impl()))) return;
  throw_error(ErrorKind::Runtime, op, ": is not differentiable with respect to ", name,
              " (detach it), got one that requires a gradient, of shape ", argument.sizes());
}

Tensor total(const Tensor& t) { return sum(t, std::optional<DType>()); }

Tensor reduced(const char* op, const Tensor& loss, int64_t reduction) {
  switch (reduction) {
    case kNone: return loss;
    case kMean:
      FACULA_CHECK(is_inexact(loss.dtype()), ErrorKind::Runtime, op,
                   ": the mean of floating-point or complex values, got ", loss.dtype());
      return mean(loss);  // divided before it is rounded: a sum has no float16 where its mean has one
    case kSum: return total(loss);
    default:
      throw_error(ErrorKind::Value, op, ": expected a reduction of 0 (none), 1 (mean) or 2 (sum), got ", reduction);
  }
}

}  // namespace

// ---- element-wise

Tensor mse_loss_uncast(const Tensor& self, const Tensor& target, int64_t reduction) {
  return reduced("mse_loss", _mse_each(self, target), reduction);
}

Tensor l1_loss_uncast(const Tensor& self, const Tensor& target, int64_t reduction) {
  return reduced("l1_loss", abs(self - target), reduction);
}

Tensor smooth_l1_loss_uncast(const Tensor& self, const Tensor& target, int64_t reduction, double beta) {
  FACULA_CHECK(beta >= 0, ErrorKind::Runtime, "smooth_l1_loss: expected a beta of at least 0, got ", beta);
  if (beta == 0) return l1_loss(self, target, reduction);
  return reduced("smooth_l1_loss", _smooth_l1_each(self, target, beta), reduction);
}

Tensor huber_loss_uncast(const Tensor& self, const Tensor& target, int64_t reduction, double delta) {
  FACULA_CHECK(delta > 0, ErrorKind::Runtime, "huber_loss: expected a positive delta, got ", delta);
  Tensor loss = _huber_each(self, target, delta);
  // of an input that does not lose by it, the dtype of the input
  if (loss.dtype() != self.dtype() && is_floating(self.dtype())) loss = to_dtype(loss, self.dtype());
  return reduced("huber_loss", loss, reduction);
}

Tensor binary_cross_entropy_uncast(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction) {
  FACULA_CHECK(self.sizes() == target.sizes(), ErrorKind::Value,
               "binary_cross_entropy: expected a target of the input's shape ", self.sizes(), ", got ", target.sizes());
  FACULA_CHECK(self.dtype() == target.dtype(), ErrorKind::Runtime,
               "binary_cross_entropy: expected a target of the input's dtype ", self.dtype(), ", got ", target.dtype());
  check_values(all_examples(self), {Holds::InUnitInterval, ErrorKind::Runtime, "binary_cross_entropy",
                                    "expected an input between 0 and 1"});
  check_values(all_examples(target), {Holds::InUnitInterval, ErrorKind::Runtime, "binary_cross_entropy",
                                      "expected a target between 0 and 1"});
  Tensor loss = _bce_each(self, target);
  return reduced("binary_cross_entropy", weight.defined() ? loss * weight : loss, reduction);
}

Tensor binary_cross_entropy_with_logits_uncast(const Tensor& self, const Tensor& target, const Tensor& weight,
                                               const Tensor& pos_weight, int64_t reduction) {
  const char* op = "binary_cross_entropy_with_logits";
  FACULA_CHECK(self.sizes() == target.sizes(), ErrorKind::Value, op, ": expected a target of the input's shape ",
               self.sizes(), ", got ", target.sizes());
  Tensor loss;
  if (pos_weight.defined()) {
    // (1 - t) x + (1 + (p - 1) t) softplus(-x)
    Tensor factor = 1.0 + (pos_weight - 1.0) * target;
    loss = (1.0 - target) * self - factor * logsigmoid(self);
  } else {
    loss = _bce_logits_each(self, target);
  }
  if (weight.defined()) loss = loss * weight;
  // the loss is computed in the target's dtype, as PyTorch does
  if (loss.dtype() != target.dtype() && is_floating(target.dtype())) loss = to_dtype(loss, target.dtype());
  return reduced(op, loss, reduction);
}

Tensor kl_div_uncast(const Tensor& self, const Tensor& target, int64_t reduction, bool log_target) {
  FACULA_CHECK(!self.is_complex() && !target.is_complex(), ErrorKind::Runtime,
               "kl_div: expected real input and target, got ", self.dtype(), " and ", target.dtype());
  FACULA_CHECK(!is_bits(self.dtype()) && !is_bits(target.dtype()), ErrorKind::Runtime,
               "kl_div: expected floating-point input and target, got ", self.dtype(), " and ", target.dtype());
  Tensor loss = log_target ? exp(target) * (target - self) : xlogy(target, target) - target * self;
  return reduced("kl_div", loss, reduction);
}

Tensor soft_margin_loss_uncast(const Tensor& self, const Tensor& target, int64_t reduction) {
  FACULA_CHECK(!is_bits(self.dtype()), ErrorKind::Runtime, "soft_margin_loss: expected a floating-point input, got ",
               self.dtype());
  return reduced("soft_margin_loss", log1p(exp(-target * self)), reduction);
}

// ---- classes

namespace {

/// Scores as (N, C), or (N, C, S) where a sample has several positions or no batch, and the shape of a result per
/// position.
struct ClassView {
  Dims positions;
  ClassView(const char* op, const Tensor& self) : given(&self) {
    FACULA_CHECK(self.dim() > 0, ErrorKind::Value, op, ": expected an input with one or more dimensions, got ",
                 self.dim());
    if (self.dim() == 2) {
      positions.push_back(self.size(0));
      return;
    }
    int64_t at = self.dim() > 1 ? 1 : 0;  // of the classes
    int64_t inner = 1;
    for (int64_t d = 0; d < self.dim(); ++d) {
      if (d != at) positions.push_back(self.size(d));
      if (d > at) inner = (Checked(inner) * self.size(d)).get(op, "the number of positions", "shape ", self.sizes());
    }
    own = reshape(self, {at ? self.size(0) : 1, self.size(at), inner});
  }
  const Tensor& scores() const { return own.defined() ? own : *given; }
  int64_t classes() const { return scores().size(1); }

  /// Class numbers as (N) or (N, S), int64.
  Tensor classes_of(const char* op, const Tensor& target) const {
    FACULA_CHECK(target.dtype() == DType::Int64 || target.dtype() == DType::UInt8, ErrorKind::Runtime, op,
                 ": target must hold class numbers of dtype int64 or uint8 (long() converts it), got ", target.dtype());
    const bool single = positions.empty() && target.dim() == 1 && target.size(0) == 1;  // one class for one sample
    const bool fits =
        positions.empty() ? single || target.dim() != 1 : target.dim() > 0 && target.size(0) == positions[0];
    FACULA_CHECK(fits, ErrorKind::Value, op, ": expected a target with the input's batch size ",
                 positions.empty() ? 1 : positions[0], ", got shape ", target.sizes());
    FACULA_CHECK(single || target.sizes() == IntList(positions), ErrorKind::Runtime, op,
                 ": expected a target of shape ", positions, ", got ", target.sizes());
    if (scores().dim() == 2) return to_dtype(target, DType::Int64);
    return to_dtype(reshape(target, {scores().size(0), scores().size(2)}), DType::Int64);
  }

  void check_weight(const char* op, const Tensor& weight) const {
    FACULA_CHECK(!weight.defined() || (weight.dim() == 1 && weight.numel() == classes()), ErrorKind::Runtime, op,
                 ": expected a weight with one element for each of ", classes(), " classes, got shape ",
                 weight.sizes());
  }

  Tensor result(const Tensor& loss, int64_t reduction) const {
    return reduction == kNone && scores().dim() != 2 ? reshape(loss, positions) : loss;
  }

 private:
  const Tensor* given;
  Tensor own;  // where the scores are to be seen in another shape
};

void check_reduction(const char* op, int64_t reduction) {
  FACULA_CHECK(reduction >= kNone && reduction <= kSum, ErrorKind::Value, op,
               ": expected a reduction of 0 (none), 1 (mean) or 2 (sum), got ", reduction);
}

/// Cross entropy with a probability for every class.
Tensor soft_cross_entropy(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction,
                          double label_smoothing) {
  const char* op = "cross_entropy";
  FACULA_CHECK(is_floating(target.dtype()), ErrorKind::Runtime, op,
               ": expected probabilities of a floating-point dtype, got ", target.dtype());
  ClassView view(op, self);
  view.check_weight(op, weight);
  Tensor wanted = view.scores().dim() == 2 ? target : reshape(target, view.scores().sizes());
  if (label_smoothing > 0)
    wanted = wanted * (1.0 - label_smoothing) + label_smoothing / static_cast<double>(view.classes());
  Tensor loss = -log_softmax(view.scores(), 1) * wanted;
  if (weight.defined()) loss = loss * (view.scores().dim() == 2 ? weight : unsqueeze(weight, -1));
  if (reduction == kNone)
    return view.result(sum(loss, std::optional<IntList>(IntList{1}), false, std::optional<DType>()), kNone);
  Tensor all = total(loss);
  if (reduction == kSum) return all;
  return all / (static_cast<double>(self.numel()) / static_cast<double>(view.classes()));
}

}  // namespace

Tensor nll_loss_nd_uncast(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction,
                          int64_t ignore_index) {
  const char* op = "nll_loss";
  check_reduction(op, reduction);
  ClassView view(op, self);
  view.check_weight(op, weight);
  refuse_gradient(op, "weight", weight);
  Tensor loss = std::get<0>(_nll(view.scores(), view.classes_of(op, target), weight, reduction, ignore_index));
  return view.result(loss, reduction);
}

Tensor cross_entropy_loss_uncast(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction,
                                 int64_t ignore_index, double label_smoothing) {
  const char* op = "cross_entropy";
  check_reduction(op, reduction);
  FACULA_CHECK(label_smoothing >= 0 && label_smoothing <= 1, ErrorKind::Runtime, op,
               ": expected a label_smoothing between 0 and 1, got ", label_smoothing);
  if (self.sizes() == target.sizes()) {
    FACULA_CHECK(ignore_index < 0, ErrorKind::Runtime, op,
                 ": ignore_index is for class numbers, not probabilities, got ", ignore_index);
    return soft_cross_entropy(self, target, weight, reduction, label_smoothing);
  }
  ClassView view(op, self);
  view.check_weight(op, weight);
  refuse_gradient(op, "weight", weight);
  Tensor loss = std::get<0>(
      _cross_entropy(view.scores(), view.classes_of(op, target), weight, reduction, ignore_index, label_smoothing));
  return view.result(loss, reduction);
}

// ---- connectionist temporal classification

Tensor ctc_loss_uncast(const Tensor& log_probs, const Tensor& targets, IntList input_lengths, IntList target_lengths,
                       int64_t blank, int64_t reduction, bool zero_infinity) {
  FACULA_CHECK(log_probs.dim() == 2 || log_probs.dim() == 3, ErrorKind::Runtime,
               "ctc_loss: expected log_probs of shape (T, N, C) or (T, C), got ", log_probs.sizes());
  FACULA_CHECK(is_integral(targets.dtype()), ErrorKind::Runtime, "ctc_loss: expected integer targets, got ",
               targets.dtype());
  bool batched = log_probs.dim() == 3;
  Tensor loss = std::get<0>(_ctc(batched ? log_probs : unsqueeze(log_probs, 1), targets, input_lengths, target_lengths,
                                 blank, zero_infinity));
  if (zero_infinity) loss = where(isinf(loss), Scalar(0.0), loss);
  if (reduction == kMean) {
    Dims counts(target_lengths);
    for (int64_t& n : counts) n = std::max<int64_t>(n, 1);
    Tensor lengths = to_dtype(ops::vector_on(counts, loss.device()), loss.dtype());
    return reduced("ctc_loss", loss / lengths, kMean);
  }
  if (!batched && reduction == kNone) return reshape(loss, IntList());
  return reduced("ctc_loss", loss, reduction);
}

Tensor ctc_loss_uncast(const Tensor& log_probs, const Tensor& targets, const Tensor& input_lengths,
                       const Tensor& target_lengths, int64_t blank, int64_t reduction, bool zero_infinity) {
  if (is_batched(input_lengths) || is_batched(target_lengths)) {  // values of each example's own
    Batch batch("ctc_loss", log_probs, targets, input_lengths, target_lengths);
    return batch.loop([&](const Batch::Example& e) {
      return ctc_loss(e(log_probs), e(targets), e(input_lengths), e(target_lengths), blank, reduction, zero_infinity);
    });
  }
  auto values = [](const char* what, const Tensor& lengths) {
    FACULA_CHECK(is_integral(lengths.dtype()), ErrorKind::Runtime, "ctc_loss: expected ", what,
                 " of an integer dtype, got ", lengths.dtype());
    Tensor dense = ops::on_host(to_dtype(reshape(lengths, {lengths.numel()}), DType::Int64));
    return std::vector<int64_t>(dense.data<int64_t>(), dense.data<int64_t>() + dense.numel());
  };
  return ctc_loss(log_probs, targets, IntList(values("input_lengths", input_lengths)),
                  IntList(values("target_lengths", target_lengths)), blank, reduction, zero_infinity);
}

}  // namespace facula
