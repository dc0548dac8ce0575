// Losses over classes.
#include "ops/loss.h"

#include "cuda/index_errors.h"
#include "cuda/kernels/loss_args.h"
#include "cuda/lines.h"

namespace facula::cuda {
namespace {

constexpr DeviceKernel kNll{"loss.cuh", "nll"};
constexpr DeviceKernel kNllBackward{"loss.cuh", "nll_backward"};
constexpr DeviceKernel kNllRowsBackward{"loss.cuh", "nll_rows_backward"};
constexpr DeviceKernel kCrossEntropy{"loss.cuh", "cross_entropy"};
constexpr DeviceKernel kCrossEntropyRows{"loss.cuh", "cross_entropy_rows"};
constexpr DeviceKernel kCrossEntropyLong{"loss.cuh", "cross_entropy_long"};
constexpr DeviceKernel kClassTotal{"loss.cuh", "class_total"};
constexpr DeviceKernel kWeightTotal{"loss.cuh", "weight_total"};
constexpr DeviceKernel kCrossEntropyBackward{"loss.cuh", "cross_entropy_backward"};
constexpr DeviceKernel kCrossEntropyRowsBackward{"loss.cuh", "cross_entropy_rows_backward"};
constexpr DeviceKernel kCrossEntropyLongBackward{"loss.cuh", "cross_entropy_long_backward"};
constexpr DeviceKernel kClassWeights{"loss.cuh", "class_weights"};
constexpr DeviceKernel kCtc{"loss.cuh", "ctc"};
constexpr DeviceKernel kCtcBackward{"loss.cuh", "ctc_backward"};

const long long* numbers(const Tensor& t) { return reinterpret_cast<const long long*>(t.data<int64_t>()); }

ClassArgs class_args(const Tensor& target, const Tensor& weight, const ClassLoss& p) {
  ClassArgs a{};
  a.samples = p.samples;
  a.classes = p.classes;
  a.inner = p.inner;
  a.ignore_index = p.ignore_index;
  a.keep = 1.0 - p.label_smoothing;
  a.share = p.label_smoothing / static_cast<double>(p.classes);
  a.smooths = p.label_smoothing > 0;
  a.target = numbers(target);
  a.weight = weight.defined() ? weight.data() : nullptr;
  a.reporter = reporter(target.device().index, p.op, ErrorKind::Index);
  return a;
}

void nll_cuda(const Tensor& losses, const Tensor& weights, const Tensor& self, const Tensor& target,
              const Tensor& weight, const ClassLoss& p) {
  if (losses.numel() == 0) return;
  ClassArgs a = class_args(target, weight, p);
  a.self = self.data();
  a.losses = losses.data();
  a.weights = weights.data();
  const int device = self.device().index;
  kNll(device, {self.dtype(), losses.dtype()}, grid_for(device, losses.numel()), a);
}

void nll_backward_cuda(const Tensor& grad_input, const Tensor& scale, const Tensor& target, const Tensor& weight,
                       const ClassLoss& p) {
  if (grad_input.numel() == 0) return;
  ClassArgs a = class_args(target, weight, p);
  a.scale = scale.data();
  a.one_scale = scale.numel() == 1;
  a.out = grad_input.data();
  const int device = grad_input.device().index;
  if (p.inner == 1) {
    const RowShare share = row_share(p.classes, grad_input.dtype(), {a.out});
    return kNllRowsBackward(device, {grad_input.dtype(), share.wide}, line_grid(device, p.samples, 1), a);
  }
  kNllBackward(device, {grad_input.dtype(), scale.dtype()}, grid_for(device, grad_input.numel()), a);
}

/// How the scores of positions are read that lie side by side, and what label smoothing needs of them.
struct ScoreRows {
  RowShare share;
  Spread spread;
};
ScoreRows score_rows(const ClassArgs& a, DType dtype, DType compute) {
  const Spread spread = !a.smooths ? kNoSpread : a.weight ? kWeightedSpread : kPlainSpread;
  ScoreRows r{row_share(a.classes, dtype, {a.self, a.out ? a.out : a.self}), spread};
  if (r.spread == kWeightedSpread) r.share.whole = r.share.whole && begins_vector(a.weight, compute);
  return r;
}

void cross_entropy_cuda(const Tensor& losses, const Tensor& weights, const Tensor& self, const Tensor& target,
                        const Tensor& weight, const Tensor& log_sum, const ClassLoss& p) {
  if (losses.numel() == 0) return;
  ClassArgs a = class_args(target, weight, p);
  a.self = self.data();
  a.log_sum = log_sum.data();
  a.losses = losses.data();
  a.weights = weights.data();
  const int device = self.device().index;
  if (p.inner == 1) {
    const auto [share, spread] = score_rows(a, self.dtype(), losses.dtype());
    if (share.held)
      kCrossEntropyRows(device, {self.dtype(), share.warps, share.held, share.whole, int{spread}},
                        line_grid(device, p.samples, share.warps), a);
    else kCrossEntropyLong(device, {self.dtype(), share.wide, int{spread}}, line_grid(device, p.samples, 8), a);
    return;
  }
  const int warps = line_warps({p.samples, p.classes, p.inner});
  kCrossEntropy(device, {self.dtype(), losses.dtype(), warps, held_elements(p.classes, warps)},
                line_grid(device, losses.numel(), warps), a);
}

void class_total_cuda(const Tensor& loss, const Tensor& total_weight, const Tensor& losses, const Tensor& weights,
                      bool mean) {
  kClassTotal(loss.device().index, {loss.dtype(), losses.dtype()}, Grid{256, 1}, losses.data(), weights.data(),
              static_cast<long long>(losses.numel()), mean, loss.data(), total_weight.data());
}

void cross_entropy_backward_cuda(const Tensor& grad_input, const Tensor& scale, const Tensor& self,
                                 const Tensor& target, const Tensor& weight, const Tensor& log_sum,
                                 const ClassLoss& p) {
  if (grad_input.numel() == 0) return;
  ClassArgs a = class_args(target, weight, p);
  a.self = self.data();
  a.log_sum = log_sum.data();
  a.scale = scale.data();
  a.one_scale = scale.numel() == 1;
  a.out = grad_input.data();
  const int device = self.device().index;
  Tensor total;
  if (a.smooths && weight.defined()) {
    total = facula::empty({1}, DType::Float64, self.device());
    a.weight_total = total.data<double>();
    kWeightTotal(device, {weight.dtype()}, Grid{256, 1}, static_cast<long long>(p.classes), weight.data(),
                 total.data<double>());
  }
  if (p.inner != 1)
    return kCrossEntropyBackward(device, {self.dtype(), scale.dtype()}, grid_for(device, grad_input.numel()), a);
  const auto [share, spread] = score_rows(a, self.dtype(), scale.dtype());
  if (share.held)
    return kCrossEntropyRowsBackward(device, {self.dtype(), share.warps, share.held, share.whole, int{spread}},
                                     line_grid(device, p.samples, share.warps), a);
  constexpr int64_t kShortestPart = 16384;
  Grid grid = line_grid(device, p.samples, 8);
  grid.y = std::clamp<int64_t>(p.classes / kShortestPart, 1, 64);
  kCrossEntropyLongBackward(device, {self.dtype(), share.wide, int{spread}}, grid, a);
}

void class_weights_cuda(const Tensor& out, const Tensor& target, const Tensor& weight, const ClassLoss& p) {
  if (out.numel() == 0) return;
  ClassArgs a = class_args(target, weight, p);
  a.out = out.data();
  const int device = out.device().index;
  kClassWeights(device, {out.dtype()}, grid_for(device, out.numel()), a);
}

CtcArgs ctc_args(const Tensor& log_probs, const Tensor& targets, const Tensor& loss, const Tensor& log_alpha,
                 const CtcInputs& p) {
  FACULA_CHECK(log_probs.dtype() == DType::Float32 || log_probs.dtype() == DType::Float64, ErrorKind::NotImplemented,
               "ctc_loss: not implemented for dtype ", log_probs.dtype());
  CtcArgs a{};
  a.steps = p.steps;
  a.batch = p.batch;
  a.classes = p.classes;
  a.longest = p.longest;
  a.blank = p.blank;
  a.input_lengths = numbers(p.input_lengths);
  a.target_lengths = numbers(p.target_lengths);
  a.offsets = numbers(p.offsets);
  a.targets = numbers(targets);
  a.log_probs = log_probs.data();
  a.loss = loss.data();
  a.log_alpha = log_alpha.data();
  a.reporter = reporter(log_probs.device().index, "ctc_loss", ErrorKind::Runtime, "expected labels among the classes");
  return a;
}

void ctc_cuda(const Tensor& loss, const Tensor& log_alpha, const Tensor& log_probs, const Tensor& targets,
              const CtcInputs& p) {
  if (p.batch == 0) return;
  const CtcArgs a = ctc_args(log_probs, targets, loss, log_alpha, p);
  kCtc(log_probs.device().index, {log_probs.dtype()}, Grid{256, p.batch}, a);
}

void ctc_backward_cuda(const Tensor& grad_input, const Tensor& scale, const Tensor& log_probs, const Tensor& targets,
                       const Tensor& loss, const Tensor& log_alpha, const CtcInputs& p) {
  if (grad_input.numel() == 0) return;
  CtcArgs a = ctc_args(log_probs, targets, loss, log_alpha, p);
  const int64_t room = p.batch * 2 * (2 * p.longest + 1);
  const Tensor beta = facula::empty({room}, log_probs.dtype(), log_probs.device());
  const Tensor links = facula::empty({room}, DType::Int64, log_probs.device());
  a.scale = scale.data();
  a.grad_input = grad_input.data();
  a.room = beta.data();
  a.links = reinterpret_cast<long long*>(links.data<int64_t>());
  kCtcBackward(log_probs.device().index, {log_probs.dtype()}, Grid{256, p.batch}, a);
}

}  // namespace

void register_loss() {
  constexpr auto cuda = DeviceType::CUDA;
  nll_kernel.set(cuda, nll_cuda);
  nll_backward_kernel.set(cuda, nll_backward_cuda);
  cross_entropy_kernel.set(cuda, cross_entropy_cuda);
  class_total_kernel.set(cuda, class_total_cuda);
  cross_entropy_backward_kernel.set(cuda, cross_entropy_backward_cuda);
  class_weights_kernel.set(cuda, class_weights_cuda);
  ctc_kernel.set(cuda, ctc_cuda);
  ctc_backward_kernel.set(cuda, ctc_backward_cuda);
}

}  // namespace facula::cuda
