// Shape and dtype rules of the losses over classes.
#include "ops/loss.h"

#include "core/checked.h"
#include "raw_ops.h"

namespace facula::ops {
namespace {

enum Reduction : int64_t { kNone, kMean, kSum };

Tensor dense(const Tensor& t) { return !t.defined() || t.is_contiguous() ? t : clone(t, MemoryFormat::Contiguous); }
Tensor dense_as(const Tensor& t, DType dtype) { return t.defined() ? dense(to_dtype(t, dtype)) : t; }

ClassLoss class_loss(IntList sizes, int64_t ignore_index, double label_smoothing = 0) {
  return {sizes[0], sizes[1], sizes[2], ignore_index, label_smoothing};
}

void check_classes(const char* op, const Tensor& target, const ClassLoss& p) {
  int64_t at = find_bad_class_kernel(target.device(), target, p.classes, p.ignore_index);
  if (at < 0) return;
  std::ostringstream position;
  position << at / p.inner;
  if (p.inner > 1) position << ", " << at % p.inner;
  throw_error(ErrorKind::Index, op, ": class index ", target.data<int64_t>()[at], " at target[", position.str(),
              "] is out of range for ", p.classes, " classes; ignore_index is ", p.ignore_index);
}

/// The reduced loss and the sum of weights from those of every position.
std::pair<Tensor, Tensor> reduce_losses(const Tensor& losses, const Tensor& weights, int64_t reduction, DType dtype) {
  Tensor total_weight = sum(weights, std::optional<DType>());
  if (reduction == kNone) return {to_dtype(losses, dtype), total_weight};
  Tensor total = sum(losses, std::optional<DType>());
  if (reduction == kMean) total = div(total, total_weight);
  return {to_dtype(total, dtype), total_weight};
}

/// What multiplies the derivative of every position: (N, S), or one element when reduced.
Tensor gradient_scale(const Tensor& grad, const Tensor& total_weight, int64_t reduction) {
  Tensor scale = to_dtype(grad, total_weight.dtype());
  return dense(reduction == kMean ? div(scale, total_weight) : scale);
}

}  // namespace

std::tuple<Tensor, Tensor> _nll(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction,
                                int64_t ignore_index) {
  DType compute = compute_dtype(self.dtype());
  ClassLoss p = class_loss(self.sizes(), ignore_index);
  Tensor losses = facula::empty({p.samples, p.inner}, compute, self.device());
  Tensor weights = facula::empty({p.samples, p.inner}, compute, self.device());
  if (!self.is_meta()) {
    Tensor classes = dense(target);
    check_classes("nll_loss", classes, p);
    nll_kernel(self.device(), losses, weights, dense(self), classes, dense_as(weight, compute), p);
  }
  return reduce_losses(losses, weights, reduction, self.dtype());
}

Tensor _nll_backward(const Tensor& grad_output, IntList sizes, const Tensor& target, const Tensor& weight,
                     const Tensor& total_weight, int64_t reduction, int64_t ignore_index) {
  Tensor out = facula::empty(sizes, grad_output.dtype(), grad_output.device());
  if (out.is_meta()) return out;
  Tensor scale = gradient_scale(grad_output, total_weight, reduction);
  nll_backward_kernel(out.device(), out, scale, dense(target), dense_as(weight, scale.dtype()),
                      class_loss(sizes, ignore_index));
  return out;
}

Tensor _class_logsumexp(const Tensor& self) {
  ClassLoss p = class_loss(self.sizes(), 0);
  Tensor out = facula::empty({p.samples, p.inner}, self.dtype(), self.device());
  if (self.is_meta()) return out;
  Tensor log_sum = facula::empty({p.samples, p.inner}, compute_dtype(self.dtype()), self.device());
  class_logsumexp_kernel(self.device(), log_sum, dense(self), p);
  return to_dtype(log_sum, self.dtype());
}

std::tuple<Tensor, Tensor, Tensor> _cross_entropy(const Tensor& self, const Tensor& target, const Tensor& weight,
                                                  int64_t reduction, int64_t ignore_index, double label_smoothing) {
  DType compute = compute_dtype(self.dtype());
  ClassLoss p = class_loss(self.sizes(), ignore_index, label_smoothing);
  Tensor losses = facula::empty({p.samples, p.inner}, compute, self.device());
  Tensor weights = facula::empty({p.samples, p.inner}, compute, self.device());
  Tensor log_sum = facula::empty({p.samples, p.inner}, compute, self.device());
  if (!self.is_meta()) {
    Tensor classes = dense(target), scores = dense(self);
    check_classes("cross_entropy", classes, p);
    class_logsumexp_kernel(self.device(), log_sum, scores, p);
    cross_entropy_kernel(self.device(), losses, weights, scores, classes, dense_as(weight, compute), log_sum, p);
  }
  auto [loss, total_weight] = reduce_losses(losses, weights, reduction, self.dtype());
  return {loss, total_weight, log_sum};
}

Tensor _cross_entropy_backward(const Tensor& grad_output, const Tensor& self, const Tensor& target,
                               const Tensor& weight, const Tensor& total_weight, const Tensor& log_sum,
                               int64_t reduction, int64_t ignore_index, double label_smoothing) {
  Tensor out = facula::empty(self.sizes(), self.dtype(), self.device());
  if (out.is_meta()) return out;
  Tensor scale = gradient_scale(grad_output, total_weight, reduction);
  cross_entropy_backward_kernel(out.device(), out, scale, dense(self), dense(target), dense_as(weight, scale.dtype()),
                                log_sum, class_loss(self.sizes(), ignore_index, label_smoothing));
  return out;
}

Tensor _class_weights(const Tensor& target, const Tensor& weight, int64_t classes, int64_t ignore_index,
                      double label_smoothing, DType dtype) {
  Dims sizes = {target.size(0), classes, target.size(1)};
  DType compute = compute_dtype(dtype);
  Tensor out = facula::empty(sizes, compute, target.device());
  if (out.is_meta()) return to_dtype(out, dtype);
  class_weights_kernel(target.device(), out, dense(target), dense_as(weight, compute),
                       class_loss(sizes, ignore_index, label_smoothing));
  return to_dtype(out, dtype);
}

// ---- connectionist temporal classification

namespace {

/// The checked lengths, and where the labels of each sequence start.
struct CtcShape {
  Dims offsets;
  CtcProblem problem;
  CtcShape(const Tensor& log_probs, const Tensor& targets, IntList input_lengths, IntList target_lengths,
           int64_t blank) {
    int64_t steps = log_probs.size(0), batch = log_probs.size(1), classes = log_probs.size(2);
    FACULA_CHECK(blank >= 0 && blank < classes, ErrorKind::Runtime, "ctc_loss: expected a blank in [0, ", classes,
                 "), got ", blank);
    check_count("input_lengths", input_lengths, batch);
    check_count("target_lengths", target_lengths, batch);
    int64_t longest = 0, total = 0;
    for (int64_t n = 0; n < batch; ++n) {
      int64_t length = target_lengths[static_cast<size_t>(n)];
      FACULA_CHECK(length >= 0, ErrorKind::Runtime, "ctc_loss: expected target_lengths of at least 0, got ", length);
      FACULA_CHECK(input_lengths[static_cast<size_t>(n)] >= 0 && input_lengths[static_cast<size_t>(n)] <= steps,
                   ErrorKind::Runtime, "ctc_loss: expected input_lengths between 0 and ", steps, ", got ",
                   input_lengths[static_cast<size_t>(n)]);
      offsets.push_back(targets.dim() == 1 ? total : n * targets.size(1));
      longest = std::max(longest, length);
      // longer than what is there: refused below
      total = (Checked(total) + length).get("ctc_loss", "the sum of target_lengths", target_lengths);
    }
    if (targets.dim() == 1) {
      FACULA_CHECK(targets.size(0) == total, ErrorKind::Runtime, "ctc_loss: expected ", total,
                   " concatenated targets, got ", targets.size(0));
    } else {
      FACULA_CHECK(targets.dim() == 2 && targets.size(0) == batch && targets.size(1) >= longest, ErrorKind::Runtime,
                   "ctc_loss: expected targets of shape (", batch, ", at least ", longest, "), got ", targets.sizes());
    }
    problem = {steps, batch, classes, longest, input_lengths.data(), target_lengths.data(), offsets.data(), blank};
  }
  CtcShape(const CtcShape&) = delete;

 private:
  static void check_count(const char* what, IntList lengths, int64_t batch) {
    FACULA_CHECK(static_cast<int64_t>(lengths.size()) == batch, ErrorKind::Runtime, "ctc_loss: expected one of ", what,
                 " for each of ", batch, " sequences, got ", lengths.size());
  }
};

}  // namespace

std::tuple<Tensor, Tensor> _ctc(const Tensor& log_probs, const Tensor& targets, IntList input_lengths,
                                IntList target_lengths, int64_t blank, bool) {
  CtcShape shape(log_probs, targets, input_lengths, target_lengths, blank);
  const CtcProblem& p = shape.problem;
  Tensor loss = facula::empty({p.batch}, log_probs.dtype(), log_probs.device());
  Tensor log_alpha = facula::empty({p.batch, p.steps, 2 * p.longest + 1}, log_probs.dtype(), log_probs.device());
  if (!log_probs.is_meta())
    ctc_kernel(log_probs.device(), loss, log_alpha, dense(log_probs), dense_as(targets, DType::Int64), p);
  return {loss, log_alpha};
}

Tensor _ctc_backward(const Tensor& grad_output, const Tensor& log_probs, const Tensor& targets, IntList input_lengths,
                     IntList target_lengths, const Tensor& loss, const Tensor& log_alpha, int64_t blank,
                     bool zero_infinity) {
  CtcShape shape(log_probs, targets, input_lengths, target_lengths, blank);
  Tensor out = facula::empty(log_probs.sizes(), log_probs.dtype(), log_probs.device());
  if (out.is_meta()) return out;
  Tensor scale = zero_infinity ? _where(isinf(loss), Scalar(0.0), grad_output) : grad_output;
  ctc_backward_kernel(out.device(), out, dense_as(scale, log_probs.dtype()), dense(log_probs),
                      dense_as(targets, DType::Int64), dense(loss), dense(log_alpha), shape.problem);
  return out;
}

}  // namespace facula::ops
