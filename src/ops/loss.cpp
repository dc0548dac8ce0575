// Shape and dtype rules of the losses over classes.
#include "ops/loss.h"

#include "core/checked.h"
#include "ops/contiguous.h"
#include "ops/needs.h"
#include "raw_ops.h"

namespace facula::ops {
namespace {

enum Reduction : int64_t { kNone, kMean, kSum };

// The kernels read (N, C, S) scores and (N, S) classes, both without S where it is one: what a program gives is held
// against that first.
void check_classes(const char* op, IntList sizes, const Tensor& target, const Tensor& weight, int64_t reduction) {
  const bool several = sizes.size() == 3;
  FACULA_CHECK((several || sizes.size() == 2) && target.dtype() == DType::Int64 && target.dim() == (several ? 2 : 1) &&
                   target.size(0) == sizes[0] && (!several || target.size(1) == sizes[2]),
               ErrorKind::Runtime, op, ": scores (N, C, S) and int64 classes (N, S), got shapes ", sizes, " and ",
               target.sizes(), " of ", target.dtype());
  FACULA_CHECK(!weight.defined() || weight.numel() == sizes[1], ErrorKind::Runtime, op, ": one weight for each of ",
               sizes[1], " classes, got shape ", weight.sizes());
  FACULA_CHECK(reduction >= kNone && reduction <= kSum, ErrorKind::Runtime, op,
               ": a reduction of 0 (none), 1 (mean) or 2 (sum), got ", reduction);
}

void check_loss_gradient(const char* op, IntList sizes, const Tensor& grad, const Tensor& total_weight,
                         int64_t reduction) {
  const int64_t count = reduction == kNone ? sizes[0] * (sizes.size() == 3 ? sizes[2] : 1) : 1;
  FACULA_CHECK(is_floating(grad.dtype()) && total_weight.dtype() == compute_dtype(grad.dtype()) &&
                   grad.numel() == count && total_weight.numel() == 1,
               ErrorKind::Runtime, op, ": a floating-point gradient of ", count, " elements, got ", grad.dtype(),
               " of shape ", grad.sizes());
}

void check_scores(const char* op, const Tensor& self) {
  FACULA_CHECK(is_floating(self.dtype()) && !is_float8(self.dtype()), ErrorKind::NotImplemented, op,
               ": not implemented for dtype ", self.dtype());
}

ClassLoss class_loss(IntList sizes, int64_t ignore_index, double label_smoothing = 0, const char* op = "nll_loss") {
  return {sizes[0], sizes[1], sizes.size() == 3 ? sizes[2] : 1, ignore_index, label_smoothing, op};
}

/// The reduced loss and the sum of weights from those of every position.
std::pair<Tensor, Tensor> reduce_losses(const Tensor& losses, const Tensor& weights, int64_t reduction, DType dtype) {
  const Device device = losses.device();
  const bool at_once = class_total_kernel.table[static_cast<size_t>(device.type)];
  if (at_once && reduction != kNone && losses.numel() <= kMostTotaled) {
    Tensor loss = facula::empty({}, dtype, device), total = facula::empty({}, losses.dtype(), device);
    class_total_kernel(device, loss, total, losses, weights, reduction == kMean);
    return {std::move(loss), std::move(total)};
  }
  Tensor total_weight = sum(weights, std::optional<DType>());
  if (reduction == kNone) return {to_dtype(losses, dtype), total_weight};
  Tensor total = sum(losses, std::optional<DType>());
  if (reduction == kMean) total = div(total, total_weight);
  return {to_dtype(total, dtype), total_weight};
}

/// Whether few_losses_kernel computes the loss and its sum.
bool are_few_losses(const Tensor& self, const Tensor& target, int64_t reduction) {
  const int64_t positions = target.numel();
  return reduction != kNone && positions > 0 && positions <= kFewPositions &&
         few_losses_kernel.table[static_cast<size_t>(self.device().type)];
}

std::pair<Tensor, Tensor> few_losses(const Tensor& self, const Tensor& target, const Tensor& weight,
                                     const Tensor& log_sum, const ClassLoss& p, int64_t reduction) {
  const DType compute = compute_dtype(self.dtype());
  Tensor loss = facula::empty({}, self.dtype(), self.device());
  Tensor total = facula::empty({}, compute, self.device());
  const Contiguous scores(self), classes(target), weights(weight, compute);
  few_losses_kernel(self.device(), loss, total, scores.get(), classes.get(), weights.get(), log_sum, p,
                    reduction == kMean);
  return {std::move(loss), std::move(total)};
}

/// What multiplies the derivative of every position: (N, S), or one element when reduced.
Tensor gradient_scale(const Tensor& grad, const Tensor& total_weight, int64_t reduction) {
  Tensor scale = to_dtype(grad, total_weight.dtype());
  return as_contiguous(reduction == kMean ? div(scale, total_weight) : scale);
}

}  // namespace

std::tuple<Tensor, Tensor> _nll(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t reduction,
                                int64_t ignore_index) {
  check_scores("nll_loss", self);
  check_classes("nll_loss", self.sizes(), target, weight, reduction);
  DType compute = compute_dtype(self.dtype());
  ClassLoss p = class_loss(self.sizes(), ignore_index);
  if (are_few_losses(self, target, reduction)) return few_losses(self, target, weight, Tensor(), p, reduction);
  Tensor losses = facula::empty(target.sizes(), compute, self.device());
  Tensor weights = facula::empty(target.sizes(), compute, self.device());
  if (!self.is_meta() && losses.numel()) {
    Tensor classes = as_contiguous(target);
    nll_kernel(self.device(), losses, weights, as_contiguous(self), classes, as_contiguous(weight, compute), p);
  }
  return reduce_losses(losses, weights, reduction, self.dtype());
}

Tensor _nll_backward(const Tensor& grad_output, IntList sizes, const Tensor& target, const Tensor& weight,
                     const Tensor& total_weight, int64_t reduction, int64_t ignore_index) {
  check_classes("nll_loss", sizes, target, weight, reduction);
  check_loss_gradient("nll_loss", sizes, grad_output, total_weight, reduction);
  Tensor out = facula::empty(sizes, grad_output.dtype(), grad_output.device());
  if (out.is_meta() || !out.numel()) return out;
  Tensor scale = gradient_scale(grad_output, total_weight, reduction);
  nll_backward_kernel(out.device(), out, scale, as_contiguous(target), as_contiguous(weight, scale.dtype()),
                      class_loss(sizes, ignore_index));
  return out;
}

std::tuple<Tensor, Tensor, Tensor> _cross_entropy(const Tensor& self, const Tensor& target, const Tensor& weight,
                                                  int64_t reduction, int64_t ignore_index, double label_smoothing) {
  check_scores("cross_entropy", self);
  check_classes("cross_entropy", self.sizes(), target, weight, reduction);
  DType compute = compute_dtype(self.dtype());
  ClassLoss p = class_loss(self.sizes(), ignore_index, label_smoothing, "cross_entropy");
  Dims twice(target.sizes());
  twice.insert(0, 2);
  Tensor log_sum = facula::empty(twice, compute, self.device());
  if (are_few_losses(self, target, reduction)) {
    auto [loss, total_weight] = few_losses(self, target, weight, log_sum, p, reduction);
    return {std::move(loss), std::move(total_weight), std::move(log_sum)};
  }
  Tensor losses = facula::empty(target.sizes(), compute, self.device());
  Tensor weights = facula::empty(target.sizes(), compute, self.device());
  if (!self.is_meta() && losses.numel()) {
    Tensor classes = as_contiguous(target), scores = as_contiguous(self);
    cross_entropy_kernel(self.device(), losses, weights, scores, classes, as_contiguous(weight, compute), log_sum, p);
  }
  auto [loss, total_weight] = reduce_losses(losses, weights, reduction, self.dtype());
  return {std::move(loss), std::move(total_weight), std::move(log_sum)};
}

Tensor _cross_entropy_backward(const Tensor& grad_output, const Tensor& self, const Tensor& target,
                               const Tensor& weight, const Tensor& total_weight, const Tensor& log_sum,
                               int64_t reduction, int64_t ignore_index, double label_smoothing) {
  check_scores("cross_entropy", self);
  check_classes("cross_entropy", self.sizes(), target, weight, reduction);
  check_loss_gradient("cross_entropy", self.sizes(), grad_output, total_weight, reduction);
  const DType compute = compute_dtype(self.dtype());
  FACULA_CHECK(total_weight.dtype() == compute && log_sum.dtype() == compute && log_sum.numel() == 2 * target.numel(),
               ErrorKind::Runtime, "cross_entropy: sums of ", compute, " for each class, got ", log_sum.dtype(),
               " of shape ", log_sum.sizes());
  Tensor out = facula::empty(self.sizes(), self.dtype(), self.device());
  if (out.is_meta() || !out.numel()) return out;
  Tensor scale = gradient_scale(grad_output, total_weight, reduction);
  cross_entropy_backward_kernel(out.device(), out, scale, as_contiguous(self), as_contiguous(target),
                                as_contiguous(weight, scale.dtype()), as_contiguous(log_sum),
                                class_loss(self.sizes(), ignore_index, label_smoothing));
  return out;
}

Tensor _class_weights(const Tensor& target, const Tensor& weight, int64_t classes, int64_t ignore_index,
                      double label_smoothing, DType dtype) {
  need_rank("cross_entropy", "target", target, 1, 2);
  need_at_least("cross_entropy", "classes", classes, 0);
  FACULA_CHECK(is_floating(dtype) && !is_float8(dtype), ErrorKind::NotImplemented,
               "cross_entropy: not implemented for dtype ", dtype);
  Dims sizes(target.sizes());
  sizes.insert(1, classes);
  check_classes("cross_entropy", sizes, target, weight, kNone);
  DType compute = compute_dtype(dtype);
  Tensor out = facula::empty(sizes, compute, target.device());
  if (out.is_meta() || !out.numel()) return to_dtype(out, dtype);
  class_weights_kernel(target.device(), out, as_contiguous(target), as_contiguous(weight, compute),
                       class_loss(sizes, ignore_index, label_smoothing));
  return to_dtype(out, dtype);
}

// ---- connectionist temporal classification

namespace {

/// The checked lengths, and where the labels of each sequence start.
struct CtcShape {
  CtcInputs problem;
  CtcShape(const Tensor& log_probs, const Tensor& targets, IntList input_lengths, IntList target_lengths,
           int64_t blank) {
    need_rank("ctc_loss", "log_probs", log_probs, 3);
    need_floating("ctc_loss", "log_probs", log_probs);
    need_rank("ctc_loss", "targets", targets, 1, 2);
    int64_t steps = log_probs.size(0), batch = log_probs.size(1), classes = log_probs.size(2);
    FACULA_CHECK(blank >= 0 && blank < classes, ErrorKind::Runtime, "ctc_loss: expected a blank in [0, ", classes,
                 "), got ", blank);
    check_count("input_lengths", input_lengths, batch);
    check_count("target_lengths", target_lengths, batch);
    Dims offsets;
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
    (Checked(longest) * 2 + 1).get("ctc_loss", "the number of states", target_lengths);
    const Device device = log_probs.device();
    problem = {steps,
               batch,
               classes,
               longest,
               blank,
               vector_on(input_lengths, device),
               vector_on(target_lengths, device),
               vector_on(offsets, device)};
  }

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
  const CtcInputs& p = shape.problem;
  Tensor loss = facula::empty({p.batch}, log_probs.dtype(), log_probs.device());
  Tensor log_alpha = facula::empty({p.batch, p.steps, 2 * p.longest + 1}, log_probs.dtype(), log_probs.device());
  if (!log_probs.is_meta())
    ctc_kernel(log_probs.device(), loss, log_alpha, as_contiguous(log_probs), as_contiguous(targets, DType::Int64), p);
  return {std::move(loss), std::move(log_alpha)};
}

Tensor _ctc_backward(const Tensor& grad_output, const Tensor& log_probs, const Tensor& targets, IntList input_lengths,
                     IntList target_lengths, const Tensor& loss, const Tensor& log_alpha, int64_t blank,
                     bool zero_infinity) {
  CtcShape shape(log_probs, targets, input_lengths, target_lengths, blank);
  const CtcInputs& p = shape.problem;
  need_shape("ctc_loss", "the gradient", grad_output, {p.batch});
  need_shape("ctc_loss", "loss", loss, {p.batch});
  need_shape("ctc_loss", "log_alpha", log_alpha, {p.batch, p.steps, 2 * p.longest + 1});
  need_dtype("ctc_loss", "loss", loss, log_probs.dtype());
  need_dtype("ctc_loss", "log_alpha", log_alpha, log_probs.dtype());
  Tensor out = facula::empty(log_probs.sizes(), log_probs.dtype(), log_probs.device());
  if (out.is_meta()) return out;
  Tensor scale = zero_infinity ? _where(isinf(loss), Scalar(0.0), grad_output) : grad_output;
  ctc_backward_kernel(out.device(), out, as_contiguous(scale, log_probs.dtype()), as_contiguous(log_probs),
                      as_contiguous(targets, DType::Int64), as_contiguous(loss), as_contiguous(log_alpha), p);
  return out;
}

}  // namespace facula::ops
