// Update rules of optimizers on the CPU. A rule reads its numbers in the constructor and updates one element at a time;
// its template arguments say which of the three states exist.
#include "ops/optim.h"

#include <cmath>

#include "core/parallel.h"
#include "cpu/isa.h"
#include "cpu/isa/floating.h"

namespace facula::cpu::FACULA_ISA {
namespace {

constexpr int64_t kLongWork = 1 << 16;

/// What all rules share: the gradient's sign and the weight decay added to it.
template <class A>
struct Rule {
  A sign, decay;
  explicit Rule(const double* v) : sign(A(v[0])), decay(A(v[1])) {}
  A gradient(A g, A p) const { return decay != 0 ? g * sign + decay * p : g * sign; }
};

/// from + weight * (to - from), from the nearer end.
template <class A>
struct Lerp {
  A weight;
  A operator()(A from, A to) const {
    return weight < A(0.5) ? from + weight * (to - from) : to - (to - from) * (A(1) - weight);
  }
};

// numbers: sign, decay, lr, momentum, 1 - dampening, nesterov
template <class A>
struct Sgd : Rule<A> {
  A lr, momentum, undamped;
  bool nesterov;
  Sgd(const double* v) : Rule<A>(v), lr(A(v[2])), momentum(A(v[3])), undamped(A(v[4])), nesterov(v[5] != 0) {}
  template <bool with_momentum, bool, bool>
  void update(A& p, A g, A& buffer, A&, A&) const {
    g = this->gradient(g, p);
    if constexpr (with_momentum) {
      buffer = buffer * momentum + undamped * g;
      g = nesterov ? g + momentum * buffer : buffer;
    }
    p -= lr * g;
  }
};

// numbers: sign, decay, 1 - lr * decoupled decay, 1 - beta1, beta2, step size, sqrt(bias correction 2), eps, 1 - beta2
template <class A>
struct Adam : Rule<A> {
  A shrink;
  Lerp<A> average;
  A beta2, rest2, step_size, root_correction, eps;
  Adam(const double* v)
      : Rule<A>(v),
        shrink(A(v[2])),
        average{A(v[3])},
        beta2(A(v[4])),
        rest2(A(v[8])),
        step_size(A(v[5])),
        root_correction(A(v[6])),
        eps(A(v[7])) {}
  template <bool, bool, bool amsgrad>
  void update(A& p, A g, A& m, A& v, A& top) const {
    g = this->gradient(g, p);
    p *= shrink;
    m = average(m, g);
    v = v * beta2 + rest2 * g * g;
    A squares = v;
    if constexpr (amsgrad) squares = top = top > v ? top : v;
    p -= step_size * m / (std::sqrt(squares) / root_correction + eps);
  }
};

// numbers: sign, decay, 1 - beta1, beta2, lr / bias correction 1, eps
template <class A>
struct Adamax : Rule<A> {
  Lerp<A> average;
  A beta2, rate, eps;
  Adamax(const double* v) : Rule<A>(v), average{A(v[2])}, beta2(A(v[3])), rate(A(v[4])), eps(A(v[5])) {}
  template <bool, bool, bool>
  void update(A& p, A g, A& m, A& largest, A&) const {
    g = this->gradient(g, p);
    m = average(m, g);
    const A decayed = largest * beta2, size = std::abs(g) + eps;
    largest = decayed > size ? decayed : size;
    p -= rate * m / largest;
  }
};

// numbers: sign, decay, shrink, 1 - beta1, beta2, a bias correction, eps, and two of the rule's own
template <class A>
struct Moments : Rule<A> {
  A shrink;
  Lerp<A> average;
  A beta2, rest2, correction, eps;
  explicit Moments(const double* v)
      : Rule<A>(v),
        shrink(A(v[2])),
        average{A(v[3])},
        beta2(A(v[4])),
        rest2(A(1.0 - v[4])),
        correction(A(v[5])),
        eps(A(v[6])) {}
  /// Decays p and continues the averages of the gradient, which it gives, and of its square.
  A advance(A& p, A g, A& m, A& v) const {
    g = this->gradient(g, p);
    p *= shrink;
    m = average(m, g);
    v = v * beta2 + rest2 * g * g;
    return g;
  }
};

// bias correction 2; rate of the gradient, rate of the average
template <class A>
struct NAdam : Moments<A> {
  A rate_gradient, rate_average;
  NAdam(const double* v) : Moments<A>(v), rate_gradient(A(v[7])), rate_average(A(v[8])) {}
  template <bool, bool, bool>
  void update(A& p, A g, A& m, A& v, A&) const {
    g = this->advance(p, g, m, v);
    const A divisor = std::sqrt(v / this->correction) + this->eps;
    p -= rate_gradient * g / divisor;
    p -= rate_average * m / divisor;
  }
};

// bias correction 1; lr, rectification * sqrt(bias correction 2) or 0
template <class A>
struct RAdam : Moments<A> {
  A lr, rectified;
  RAdam(const double* v) : Moments<A>(v), lr(A(v[7])), rectified(A(v[8])) {}
  template <bool, bool, bool>
  void update(A& p, A g, A& m, A& v, A&) const {
    this->advance(p, g, m, v);
    const A step = m / this->correction * lr;
    p -= rectified != 0 ? step * (rectified / (std::sqrt(v) + this->eps)) : step;
  }
};

// numbers: sign, decay, lr at this step, eps
template <class A>
struct Adagrad : Rule<A> {
  A lr, eps;
  Adagrad(const double* v) : Rule<A>(v), lr(A(v[2])), eps(A(v[3])) {}
  template <bool, bool, bool>
  void update(A& p, A g, A& sum, A&, A&) const {
    g = this->gradient(g, p);
    sum += g * g;
    p -= lr * g / (std::sqrt(sum) + eps);
  }
};

// numbers: sign, decay, lr, rho, eps
template <class A>
struct Adadelta : Rule<A> {
  A lr, rho, rest, eps;
  Adadelta(const double* v) : Rule<A>(v), lr(A(v[2])), rho(A(v[3])), rest(A(1.0 - v[3])), eps(A(v[4])) {}
  template <bool, bool, bool>
  void update(A& p, A g, A& squares, A& deltas, A&) const {
    g = this->gradient(g, p);
    squares = squares * rho + rest * g * g;
    const A delta = std::sqrt(deltas + eps) / std::sqrt(squares + eps) * g;
    deltas = deltas * rho + rest * delta * delta;
    p -= lr * delta;
  }
};

// numbers: sign, decay, lr, alpha, eps, momentum
template <class A>
struct RmsProp : Rule<A> {
  A lr, alpha, rest, eps, momentum;
  Lerp<A> average;
  RmsProp(const double* v)
      : Rule<A>(v),
        lr(A(v[2])),
        alpha(A(v[3])),
        rest(A(1.0 - v[3])),
        eps(A(v[4])),
        momentum(A(v[5])),
        average{A(1.0 - v[3])} {}
  template <bool, bool with_momentum, bool centered>
  void update(A& p, A g, A& squares, A& buffer, A& mean) const {
    g = this->gradient(g, p);
    squares = squares * alpha + rest * g * g;
    A variance = squares;
    if constexpr (centered) {
      mean = average(mean, g);
      variance = squares - mean * mean;
    }
    const A divisor = std::sqrt(variance) + eps;
    if constexpr (with_momentum) {
      buffer = buffer * momentum + g / divisor;
      p -= lr * buffer;
    } else {
      p -= lr * g / divisor;
    }
  }
};

// numbers: sign, (unused), factor when the sign changed, factor when it stayed, smallest step, largest step
template <class A>
struct Rprop {
  A sign, minus, plus, least, most;
  Rprop(const double* v) : sign(A(v[0])), minus(A(v[2])), plus(A(v[3])), least(A(v[4])), most(A(v[5])) {}
  template <bool, bool, bool>
  void update(A& p, A g, A& before, A& size, A&) const {
    g *= sign;
    const A product = g * before;
    const A factor = product > 0 ? plus : product < 0 ? minus : A(1);
    const A scaled = size * factor;
    size = scaled < least ? least : scaled > most ? most : scaled;
    g = product < 0 ? A(0) : g;
    p -= (g > 0 ? A(1) : g < 0 ? A(-1) : A(0)) * size;
    before = g;
  }
};

// numbers: sign, decay, 1 - lambd * eta, eta, mu
template <class A>
struct Asgd : Rule<A> {
  A shrink, eta, mu;
  Asgd(const double* v) : Rule<A>(v), shrink(A(v[2])), eta(A(v[3])), mu(A(v[4])) {}
  template <bool, bool, bool>
  void update(A& p, A g, A& average, A&, A&) const {
    g = this->gradient(g, p);
    p = p * shrink - eta * g;
    average = mu == 1 ? p : average + (p - average) * mu;
  }
};

/// One pass over [from, to); states that a rule lacks stand for a local that nobody reads. The rule comes by value, so
/// that its numbers stay in registers.
template <bool S0, bool S1, bool S2, class T, class A, class R>
void run_piece(const R rule, T* p, const T* g, T* s0, T* s1, T* s2, int64_t from, int64_t to) {
  FACULA_SIMD
  for (int64_t i = from; i < to; ++i) {
    A value = load(p[i]), a = 0, b = 0, c = 0;
    if constexpr (S0) a = load(s0[i]);
    if constexpr (S1) b = load(s1[i]);
    if constexpr (S2) c = load(s2[i]);
    rule.template update<S0, S1, S2>(value, A(load(g[i])), a, b, c);
    p[i] = T(value);
    if constexpr (S0) s0[i] = T(a);
    if constexpr (S1) s1[i] = T(b);
    if constexpr (S2) s2[i] = T(c);
  }
}

template <class T, class A, class R, int States>
void run_rule(const OptimPass& pass) {
  const R rule(pass.numbers.data());
  T* p = static_cast<T*>(pass.param);
  const T* g = static_cast<const T*>(pass.grad);
  T *s0 = static_cast<T*>(pass.states[0]), *s1 = static_cast<T*>(pass.states[1]), *s2 = static_cast<T*>(pass.states[2]);
  // The optional states of a rule come last, but for RmsProp's two, either of which may be missing.
  auto piece = run_piece<false, false, false, T, A, R>;
  if (s0) piece = run_piece<true, false, false, T, A, R>;
  if constexpr (States >= 2)
    if (s1) piece = run_piece<true, true, false, T, A, R>;
  if constexpr (States >= 3)
    if (s2) piece = s1 ? run_piece<true, true, true, T, A, R> : run_piece<true, false, true, T, A, R>;
  LockRelease unlocked(pass.count > kLongWork);
  parallel_for(0, pass.count, kGrain / 2, [&](int64_t from, int64_t to) { piece(rule, p, g, s0, s1, s2, from, to); });
}

template <template <class> class R, int States>
void run_typed(const OptimPass& pass) {
  visit_floating(kOptimRuleInfo[static_cast<size_t>(pass.rule)].name, pass.dtype,
                 [&]<class T, class A>(T, A) { run_rule<T, A, R<A>, States>(pass); });
}

constexpr void (*kRules[kOptimRules])(const OptimPass&) = {
    run_typed<Sgd, 1>,     run_typed<Adam, 3>,     run_typed<Adamax, 2>,  run_typed<NAdam, 2>, run_typed<RAdam, 2>,
    run_typed<Adagrad, 1>, run_typed<Adadelta, 2>, run_typed<RmsProp, 3>, run_typed<Rprop, 2>, run_typed<Asgd, 1>,
};

void optim_cpu(const OptimPass& pass) { kRules[static_cast<size_t>(pass.rule)](pass); }

}  // namespace

void register_optim() { optim_kernel.set(DeviceType::CPU, optim_cpu); }

}  // namespace facula::cpu::FACULA_ISA
