// Losses over classes on the CPU.
#include "ops/loss.h"

#include <cmath>
#include <limits>
#include <vector>

#include "core/parallel.h"
#include "cpu/isa.h"
#include "cpu/isa/floating.h"
#include "cpu/isa/softmax.h"
#include "kernels/math.h"

namespace facula::cpu::FACULA_ISA {
namespace {

constexpr int64_t kLongWork = 1 << 15;

void check_classes(const Tensor& target, const ClassLoss& p) {
  const int64_t* t = target.data<int64_t>();
  const int64_t n = target.numel();
  bool bad = false;
  for (int64_t i = 0; i < n; ++i)
    bad |= static_cast<uint64_t>(t[i]) >= static_cast<uint64_t>(p.classes) && t[i] != p.ignore_index;
  for (int64_t i = 0; bad && i < n; ++i) {
    if (static_cast<uint64_t>(t[i]) < static_cast<uint64_t>(p.classes) || t[i] == p.ignore_index) continue;
    std::ostringstream position;
    position << i / p.inner;
    if (p.inner > 1) position << ", " << i % p.inner;
    throw_error(ErrorKind::Index, p.op, ": class index ", t[i], " at target[", position.str(), "] is out of range for ",
                p.classes, " classes; ignore_index is ", p.ignore_index);
  }
}

/// Calls f(position in (N, S), offset of its class 0 in (N, C, S), class or -1 when ignored), which takes `work`.
template <class F>
void each_position(const Tensor& target, const ClassLoss& p, int64_t work, F&& f) {
  const int64_t* t = target.data<int64_t>();
  parallel_for(0, p.samples, std::max<int64_t>(1, kGrain / std::max<int64_t>(work * p.inner, 1)),
               [&](int64_t from, int64_t to) {
                 for (int64_t n = from; n < to; ++n) {
                   for (int64_t s = 0; s < p.inner; ++s) {
                     const int64_t at = n * p.inner + s;
                     f(at, n * p.classes * p.inner + s, t[at] == p.ignore_index ? -1 : t[at]);
                   }
                 }
               });
}

constexpr int64_t kReads = 4;  // work of reading what a class says

template <class A>
A class_weight(const Tensor& weight, int64_t c) {
  return weight.defined() ? weight.data<A>()[c] : A(1);
}

template <class T, class A>
void nll_of_positions(A* losses, A* weights, const Tensor& self, const Tensor& target, const Tensor& weight,
                      const ClassLoss& p) {
  each_position(target, p, kReads, [&](int64_t at, int64_t offset, int64_t c) {
    const A w = c < 0 ? A(0) : class_weight<A>(weight, c);
    weights[at] = w;
    losses[at] = c < 0 ? A(0) : -load(self.data<T>()[offset + c * p.inner]) * w;
  });
}

void nll_cpu(const Tensor& losses, const Tensor& weights, const Tensor& self, const Tensor& target,
             const Tensor& weight, const ClassLoss& p) {
  const LockRelease unlocked(self.numel() > kLongWork);
  check_classes(target, p);
  visit_floating("nll_loss", self.dtype(), [&]<class T, class A>(T, A) {
    nll_of_positions<T>(losses.data<A>(), weights.data<A>(), self, target, weight, p);
  });
}

void nll_backward_cpu(const Tensor& grad_input, const Tensor& scale, const Tensor& target, const Tensor& weight,
                      const ClassLoss& p) {
  check_classes(target, p);
  const LockRelease unlocked(grad_input.numel() > kLongWork);
  const int64_t step = scale.numel() == 1 ? 0 : 1;
  visit_floating("nll_loss", grad_input.dtype(), [&]<class T, class A>(T, A) {
    T* out = grad_input.data<T>();
    parallel_for(0, grad_input.numel(), kGrain,
                 [&](int64_t from, int64_t to) { std::fill(out + from, out + to, T(0)); });
    each_position(target, p, kReads, [&](int64_t at, int64_t offset, int64_t c) {
      if (c >= 0) out[offset + c * p.inner] = T(-scale.data<A>()[at * step] * class_weight<A>(weight, c));
    });
  });
}

// ---- cross entropy

/// Returns what scores are made relative to: zero where none is above minus infinity. Infinity stays, and makes all
/// NaN.
template <class A>
A shift_for(A top) {
  return top == -std::numeric_limits<A>::infinity() ? A(0) : top;
}

/// The largest score of a row and the sum of exponentials relative to it, whose logarithm is taken of many rows at
/// once. They stay two numbers: beside a large score the logarithm, a small number, would be lost.
template <class T, class A>
void sum_row(A& shift, A& sum, const T* x, int64_t n) {
  if constexpr (std::is_same_v<T, A>) {
    constexpr int64_t lanes = VectorOf<A>::lanes;
    if (n > 0 && n <= lanes) {  // rows of one vector do not wait for each other
      const auto all = n == lanes ? load_vector(x) : load_first(x, n, -std::numeric_limits<A>::infinity());
      // a NaN need not be the largest: its exponential makes the sum NaN
      shift = shift_for(merge_all(all, [](auto a, auto b) { return b > a ? b : a; }));
      sum = merge_all(ExpOfLanes<A>()(all, shift), [](auto a, auto b) { return a + b; });
      return;
    }
    const A top = n > 0 ? extremum<A, true>(n, x) : A(0);
    shift = shift_for(top);
    sum = sum_of_exp<A>(n, x, shift, nullptr);
    return;
  }
  A top = -std::numeric_limits<A>::infinity();
#pragma omp simd reduction(max : top)
  for (int64_t i = 0; i < n; ++i) top = load(x[i]) > top ? load(x[i]) : top;
  shift = shift_for(top);
  A total = 0;
#pragma omp simd reduction(+ : total)
  for (int64_t i = 0; i < n; ++i) total += kernels::exp(load(x[i]) - shift);
  sum = total;
}

/// The same for `inner` columns next to one another.
template <class T, class A>
void log_sum_columns(A* top, A* out, const T* x, const ClassLoss& p) {
  std::fill(top, top + p.inner, -std::numeric_limits<A>::infinity());
  for (int64_t c = 0; c < p.classes; ++c) {
    FACULA_SIMD
    for (int64_t s = 0; s < p.inner; ++s) {
      const A v = load(x[c * p.inner + s]);
      top[s] = v > top[s] ? v : top[s];
    }
  }
  for (int64_t s = 0; s < p.inner; ++s) top[s] = shift_for(top[s]);
  std::fill(out, out + p.inner, A(0));
  for (int64_t c = 0; c < p.classes; ++c) {
    FACULA_SIMD
    for (int64_t s = 0; s < p.inner; ++s) out[s] += kernels::exp(load(x[c * p.inner + s]) - top[s]);
  }
  for (int64_t s = 0; s < p.inner; ++s) out[s] = std::log(out[s]);
}

/// Fills log_sum.
void class_logsumexp_cpu(const Tensor& log_sum, const Tensor& self, const ClassLoss& p) {
  LockRelease unlocked(self.numel() > kLongWork);
  const int64_t length = p.classes * p.inner;
  visit_floating("cross_entropy", self.dtype(), [&]<class T, class A>(T, A) {
    parallel_for(0, p.samples, std::max<int64_t>(1, kGrain / 8 / std::max<int64_t>(length, 1)),
                 [&](int64_t from, int64_t to) {
                   for (int64_t n = from; n < to; ++n) {
                     const T* x = self.data<T>() + n * length;
                     A *top = log_sum.data<A>() + n * p.inner, *out = top + p.samples * p.inner;
                     if (p.inner == 1) sum_row(*top, *out, x, p.classes);
                     else log_sum_columns(top, out, x, p);
                   }
                   A* sums = log_sum.data<A>() + p.samples;
                   FACULA_SIMD
                   for (int64_t n = from; n < (p.inner == 1 ? to : from); ++n) sums[n] = kernels::log(sums[n]);
                 });
  });
}

/// What smoothing adds for a position: the losses that all classes would have.
template <class A, class T>
double sum_of_losses(const T* x, A top, A log_sum, const Tensor& weight, const ClassLoss& p) {
  double sum = 0;
  if (weight.defined() || p.inner != 1) {
    for (int64_t k = 0; k < p.classes; ++k) sum += (top - load(x[k * p.inner]) + log_sum) * class_weight<A>(weight, k);
    return sum;
  }
#pragma omp simd reduction(+ : sum)
  for (int64_t k = 0; k < p.classes; ++k) sum += static_cast<double>(top - load(x[k]) + log_sum);
  return sum;
}

template <class T, class A>
void entropies_of_positions(A* losses, A* weights, const Tensor& self, const Tensor& target, const Tensor& weight,
                            const Tensor& log_sum, const ClassLoss& p) {
  const double keep = 1.0 - p.label_smoothing, share = p.label_smoothing / static_cast<double>(p.classes);
  const int64_t work = p.label_smoothing > 0 ? p.classes : kReads;
  each_position(target, p, work, [&](int64_t at, int64_t offset, int64_t c) {
    const T* x = self.data<T>() + offset;
    const A w = c < 0 ? A(0) : class_weight<A>(weight, c);
    const A *top = log_sum.data<A>() + at, *sum = top + p.samples * p.inner;
    weights[at] = w;
    A loss = c < 0 ? A(0) : (*top - load(x[c * p.inner]) + *sum) * w;
    if (c >= 0 && p.label_smoothing > 0) {
      loss = A(keep * loss + share * sum_of_losses<A>(x, *top, *sum, weight, p));
    }
    losses[at] = loss;
  });
}

void cross_entropy_cpu(const Tensor& losses, const Tensor& weights, const Tensor& self, const Tensor& target,
                       const Tensor& weight, const Tensor& log_sum, const ClassLoss& p) {
  check_classes(target, p);
  class_logsumexp_cpu(log_sum, self, p);
  visit_floating("cross_entropy", self.dtype(), [&]<class T, class A>(T, A) {
    entropies_of_positions<T>(losses.data<A>(), weights.data<A>(), self, target, weight, log_sum, p);
  });
}

template <class T, class A>
void total_of_positions(const Tensor& loss, const Tensor& total_weight, const A* losses, const A* weights, int64_t n,
                        bool mean) {
  double sum = 0, total = 0;
#pragma omp simd reduction(+ : sum, total)
  for (int64_t i = 0; i < n; ++i) sum += losses[i], total += weights[i];
  *total_weight.data<A>() = A(total);
  *loss.data<T>() = rounded<T>(A(mean ? sum / total : sum));
}

void class_total_cpu(const Tensor& loss, const Tensor& total_weight, const Tensor& losses, const Tensor& weights,
                     bool mean) {
  visit_floating("cross_entropy", loss.dtype(), [&]<class T, class A>(T, A) {
    total_of_positions<T>(loss, total_weight, losses.data<A>(), weights.data<A>(), losses.numel(), mean);
  });
}

/// Losses and weights of few positions stay on the stack.
void few_losses_cpu(const Tensor& loss, const Tensor& total_weight, const Tensor& self, const Tensor& target,
                    const Tensor& weight, const Tensor& log_sum, const ClassLoss& p, bool mean) {
  check_classes(target, p);
  if (log_sum.defined()) class_logsumexp_cpu(log_sum, self, p);
  visit_floating(p.op, self.dtype(), [&]<class T, class A>(T, A) {
    A losses[kFewPositions], weights[kFewPositions];
    if (log_sum.defined()) entropies_of_positions<T>(losses, weights, self, target, weight, log_sum, p);
    else nll_of_positions<T>(losses, weights, self, target, weight, p);
    total_of_positions<T>(loss, total_weight, losses, weights, target.numel(), mean);
  });
}

/// Sum of the class weights, each 1 when there are none.
template <class A>
double weight_total(const Tensor& weight, int64_t classes) {
  double total = 0;
  for (int64_t c = 0; c < classes; ++c) total += class_weight<A>(weight, c);
  return total;
}

/// What the gradient of one position is made of: all * softmax - g * (keep or share of the classes' weights).
template <class A>
struct ClassSlope {
  A g, factor, all, top, log_sum;
};

constexpr int64_t kPositions = 64;  // neighboring positions handled together, class by class

/// scale * (softmax * (all factors) - factors), where the factors are those of class_weights.
void cross_entropy_backward_cpu(const Tensor& grad_input, const Tensor& scale, const Tensor& self, const Tensor& target,
                                const Tensor& weight, const Tensor& log_sum, const ClassLoss& p) {
  LockRelease unlocked(self.numel() > kLongWork);
  check_classes(target, p);
  const double keep = 1.0 - p.label_smoothing, share = p.label_smoothing / static_cast<double>(p.classes);
  const int64_t step = scale.numel() == 1 ? 0 : 1;
  visit_floating("cross_entropy", self.dtype(), [&]<class T, class A>(T, A) {
    const double spread = p.label_smoothing > 0 ? share * weight_total<A>(weight, p.classes) : 0.0;
    const T* scores = self.data<T>();
    T* out = grad_input.data<T>();
    auto slope = [&](int64_t at, int64_t c) -> ClassSlope<A> {
      if (c < 0) return {0, 0, 0, 0, std::numeric_limits<A>::infinity()};  // exp(x - infinity) is 0
      const A factor = A(keep * class_weight<A>(weight, c)), g = scale.data<A>()[at * step];
      const A* top = log_sum.data<A>() + at;
      return {g, factor, g * A(factor + spread), *top, top[p.samples * p.inner]};
    };
    if (p.inner == 1) {
      each_position(target, p, 4 * p.classes, [&](int64_t at, int64_t offset, int64_t c) {
        const ClassSlope<A> s = slope(at, c);
        const T* x = scores + offset;
        T* to = out + offset;
        const A even = c < 0 || weight.defined() ? A(0) : s.g * A(share);  // what smoothing takes from every class
        FACULA_SIMD
        for (int64_t k = 0; k < p.classes; ++k)
          to[k] = rounded<T>(s.all * kernels::exp(load(x[k]) - s.top - s.log_sum) - even);
        if (c < 0) return;
        to[c] = rounded<T>(load(to[c]) - s.g * s.factor);
        for (int64_t k = 0; p.label_smoothing > 0 && weight.defined() && k < p.classes; ++k)
          to[k] = rounded<T>(load(to[k]) - s.g * A(share * class_weight<A>(weight, k)));
      });
      return;
    }
    const int64_t tiles = (p.inner + kPositions - 1) / kPositions;
    parallel_for(0, p.samples * tiles, std::max<int64_t>(1, kGrain / std::max<int64_t>(p.classes * kPositions, 1)),
                 [&](int64_t from, int64_t to) {
                   for (int64_t tile = from; tile < to; ++tile) {
                     const int64_t n = tile / tiles, first = tile % tiles * kPositions,
                                   count = std::min(kPositions, p.inner - first);
                     A g[kPositions], factor[kPositions], all[kPositions], top[kPositions], sum[kPositions];
                     int64_t chosen[kPositions];
                     for (int64_t i = 0; i < count; ++i) {
                       const int64_t at = n * p.inner + first + i, c = target.data<int64_t>()[at];
                       chosen[i] = c == p.ignore_index ? -1 : c;
                       const ClassSlope<A> s = slope(at, chosen[i]);
                       g[i] = s.g, factor[i] = s.factor, all[i] = s.all, top[i] = s.top, sum[i] = s.log_sum;
                     }
                     const int64_t base = n * p.classes * p.inner + first;
                     for (int64_t k = 0; k < p.classes; ++k) {
                       const A extra = p.label_smoothing > 0 ? A(share * class_weight<A>(weight, k)) : A(0);
                       const T* x = scores + base + k * p.inner;
                       T* y = out + base + k * p.inner;
                       FACULA_SIMD
                       for (int64_t i = 0; i < count; ++i)
                         y[i] = rounded<T>(all[i] * kernels::exp(load(x[i]) - top[i] - sum[i]) - g[i] * extra);
                     }
                     for (int64_t i = 0; i < count; ++i) {
                       if (chosen[i] < 0) continue;
                       T& y = out[base + chosen[i] * p.inner + i];
                       y = T(load(y) - g[i] * factor[i]);
                     }
                   }
                 });
  });
}

void class_weights_cpu(const Tensor& out, const Tensor& target, const Tensor& weight, const ClassLoss& p) {
  check_classes(target, p);
  const LockRelease unlocked(out.numel() * p.classes > kLongWork);
  const double keep = 1.0 - p.label_smoothing, share = p.label_smoothing / static_cast<double>(p.classes);
  visit_floating("cross_entropy", out.dtype(), [&]<class T, class A>(T, A) {
    if constexpr (std::is_same_v<T, A>) {
      each_position(target, p, p.classes, [&](int64_t, int64_t offset, int64_t c) {
        A* to = out.data<A>() + offset;
        for (int64_t k = 0; k < p.classes; ++k) {
          const double w = class_weight<A>(weight, k);
          to[k * p.inner] = c < 0 ? A(0) : A(share * w + (k == c ? keep * w : 0.0));
        }
      });
    }
  });
}

// ---- connectionist temporal classification

/// log(exp(a) + exp(b) [+ exp(c)]), also when some are minus infinity.
template <class A>
A log_add(A a, A b, A c) {
  const A top = std::max(std::max(a, b), c);
  if (std::isinf(top) && top < 0) return top;
  return std::log(std::exp(a - top) + std::exp(b - top) + std::exp(c - top)) + top;
}

/// One sequence: the labels with blanks between them, around which both recursions run.
template <class A>
struct CtcSequence {
  static constexpr A kNever = -std::numeric_limits<A>::infinity();
  const A* log_probs;  // of this sequence at step 0; a step later is batch * classes further
  int64_t step;
  const int64_t* labels;
  int64_t count, blank;

  int64_t states() const { return 2 * count + 1; }
  int64_t label(int64_t state) const { return state % 2 ? labels[state / 2] : blank; }
  A log_prob(int64_t t, int64_t state) const { return log_probs[t * step + label(state)]; }
  /// Whether a path may jump over the blank before `state`.
  bool skips(int64_t state) const { return state > 1 && label(state - 2) != label(state); }
};

template <class A>
CtcSequence<A> ctc_sequence(const Tensor& log_probs, const Tensor& targets, const CtcInputs& p, int64_t n) {
  const int64_t* labels = targets.data<int64_t>() + p.offsets.data<int64_t>()[n];
  const int64_t count = p.target_lengths.data<int64_t>()[n];
  for (int64_t i = 0; i < count; ++i)
    FACULA_CHECK(labels[i] >= 0 && labels[i] < p.classes, ErrorKind::Runtime, "ctc_loss: expected labels in [0, ",
                 p.classes, "), got ", labels[i], " in sequence ", n);
  return {log_probs.data<A>() + n * p.classes, p.batch * p.classes, labels, count, p.blank};
}

template <class A>
A ctc_forward(const CtcSequence<A>& q, A* alpha, int64_t width, int64_t steps) {
  constexpr A never = CtcSequence<A>::kNever;
  if (steps == 0) return q.count == 0 ? A(0) : -never;
  const int64_t states = q.states();
  alpha[0] = q.log_prob(0, 0);
  if (states > 1) alpha[1] = q.log_prob(0, 1);
  for (int64_t t = 1; t < steps; ++t) {
    const A* before = alpha + (t - 1) * width;
    for (int64_t s = 0; s < states; ++s) {
      const A one = s > 0 ? before[s - 1] : never, two = q.skips(s) ? before[s - 2] : never;
      alpha[t * width + s] = log_add(before[s], one, two) + q.log_prob(t, s);
    }
  }
  const A* last = alpha + (steps - 1) * width;
  return -log_add(last[states - 1], states > 1 ? last[states - 2] : never, never);
}

void ctc_cpu(const Tensor& loss, const Tensor& log_alpha, const Tensor& log_probs, const Tensor& targets,
             const CtcInputs& p) {
  const LockRelease unlocked(log_alpha.numel() > kLongWork);
  visit_floating("ctc_loss", log_probs.dtype(), [&]<class T, class A>(T, A) {
    if constexpr (std::is_same_v<T, A>) {
      const int64_t width = 2 * p.longest + 1;
      std::fill(log_alpha.data<A>(), log_alpha.data<A>() + log_alpha.numel(), CtcSequence<A>::kNever);
      parallel_for(0, p.batch, 1, [&](int64_t from, int64_t to) {
        for (int64_t n = from; n < to; ++n) {
          loss.data<A>()[n] =
              ctc_forward(ctc_sequence<A>(log_probs, targets, p, n), log_alpha.data<A>() + n * p.steps * width, width,
                          p.input_lengths.data<int64_t>()[n]);
        }
      });
    } else {
      throw_error(ErrorKind::NotImplemented, "ctc_loss: not implemented for dtype ", log_probs.dtype());
    }
  });
}

/// Writes scale * (exp(log_prob) - share of the paths through each label) for one sequence.
template <class A>
void ctc_sequence_backward(const CtcSequence<A>& q, A* grad, const A* alpha, int64_t width, int64_t steps,
                           int64_t classes, A loss, A scale) {
  constexpr A never = CtcSequence<A>::kNever;
  const int64_t states = q.states();
  std::vector<A> beta(static_cast<size_t>(states), never), next(beta), paths(static_cast<size_t>(classes));
  for (int64_t t = steps; t-- > 0;) {
    for (int64_t s = states; s-- > 0;) {
      if (t == steps - 1) {
        beta[s] = s >= states - 2 ? q.log_prob(t, s) : never;
        continue;
      }
      const A one = s + 1 < states ? next[s + 1] : never;
      const A two = s + 2 < states && q.skips(s + 2) ? next[s + 2] : never;
      beta[s] = log_add(next[s], one, two) + q.log_prob(t, s);
    }
    std::fill(paths.begin(), paths.end(), never);
    for (int64_t s = 0; s < states; ++s) {
      A& path = paths[static_cast<size_t>(q.label(s))];
      path = log_add(path, alpha[t * width + s] + beta[s], never);
    }
    for (int64_t c = 0; c < classes; ++c) {
      const A log_prob = q.log_probs[t * q.step + c];
      grad[t * q.step + c] = scale * (std::exp(log_prob) - std::exp(paths[c] + loss - log_prob));
    }
    std::swap(beta, next);
  }
}

void ctc_backward_cpu(const Tensor& grad_input, const Tensor& scale, const Tensor& log_probs, const Tensor& targets,
                      const Tensor& loss, const Tensor& log_alpha, const CtcInputs& p) {
  const LockRelease unlocked(log_alpha.numel() > kLongWork);
  visit_floating("ctc_loss", log_probs.dtype(), [&]<class T, class A>(T, A) {
    if constexpr (std::is_same_v<T, A>) {
      const int64_t width = 2 * p.longest + 1;
      std::fill(grad_input.data<A>(), grad_input.data<A>() + grad_input.numel(), A(0));
      parallel_for(0, p.batch, 1, [&](int64_t from, int64_t to) {
        for (int64_t n = from; n < to; ++n) {
          const A factor = scale.data<A>()[n];
          if (factor == 0) continue;
          ctc_sequence_backward(ctc_sequence<A>(log_probs, targets, p, n), grad_input.data<A>() + n * p.classes,
                                log_alpha.data<A>() + n * p.steps * width, width, p.input_lengths.data<int64_t>()[n],
                                p.classes, loss.data<A>()[n], factor);
        }
      });
    }
  });
}

}  // namespace

void register_loss() {
  nll_kernel.set(DeviceType::CPU, nll_cpu);
  nll_backward_kernel.set(DeviceType::CPU, nll_backward_cpu);
  cross_entropy_kernel.set(DeviceType::CPU, cross_entropy_cpu);
  class_total_kernel.set(DeviceType::CPU, class_total_cpu);
  few_losses_kernel.set(DeviceType::CPU, few_losses_cpu);
  cross_entropy_backward_kernel.set(DeviceType::CPU, cross_entropy_backward_cpu);
  class_weights_kernel.set(DeviceType::CPU, class_weights_cpu);
  ctc_kernel.set(DeviceType::CPU, ctc_cpu);
  ctc_backward_kernel.set(DeviceType::CPU, ctc_backward_cpu);
}

}  // namespace facula::cpu::FACULA_ISA
