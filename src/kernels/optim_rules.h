// Defines update rules of optimizers. A rule reads its numbers in the constructor and updates one element at a time;
// its template arguments say which of the three states exist. numbers[0] is -1 to ascend and 1 to descend, numbers[1]
// the weight decay added to the gradient.
#pragma once

#include "math.h"

namespace facula::kernels {

/// What all rules share: the gradient's sign and the weight decay added to it.
template <class A>
struct Rule {
  A sign, decay;
  FACULA_FN explicit Rule(const double* v) : sign(A(v[0])), decay(A(v[1])) {}
  FACULA_FN A gradient(A g, A p) const { return decay != 0 ? g * sign + decay * p : g * sign; }
};

/// from + weight * (to - from), from the nearer end.
template <class A>
struct Lerp {
  A weight;
  FACULA_FN A operator()(A from, A to) const {
    return weight < A(0.5) ? from + weight * (to - from) : to - (to - from) * (A(1) - weight);
  }
};

// numbers: sign, decay, lr, momentum, 1 - dampening, nesterov
template <class A>
struct Sgd : Rule<A> {
  A lr, momentum, undamped, nesterov;  // a number, so that the choice has lanes as wide as what it is between
  FACULA_FN Sgd(const double* v) : Rule<A>(v), lr(A(v[2])), momentum(A(v[3])), undamped(A(v[4])), nesterov(A(v[5])) {}
  template <bool with_momentum, bool, bool>
  FACULA_FN void update(A& p, A g, A& buffer, A&, A&) const {
    g = this->gradient(g, p);
    if constexpr (with_momentum) {
      buffer = buffer * momentum + undamped * g;
      g = nesterov != A(0) ? g + momentum * buffer : buffer;
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
  FACULA_FN Adam(const double* v)
      : Rule<A>(v),
        shrink(A(v[2])),
        average{A(v[3])},
        beta2(A(v[4])),
        rest2(A(v[8])),
        step_size(A(v[5])),
        root_correction(A(v[6])),
        eps(A(v[7])) {}
  template <bool, bool, bool amsgrad>
  FACULA_FN void update(A& p, A g, A& m, A& v, A& top) const {
    g = this->gradient(g, p);
    p *= shrink;
    m = average(m, g);
    v = v * beta2 + rest2 * g * g;
    A squares = v;
    if constexpr (amsgrad) squares = top = top > v ? top : v;
    p -= step_size * m / (sqrt(squares) / root_correction + eps);
  }
};

// numbers: sign, decay, 1 - beta1, beta2, lr / bias correction 1, eps
template <class A>
struct Adamax : Rule<A> {
  Lerp<A> average;
  A beta2, rate, eps;
  FACULA_FN Adamax(const double* v) : Rule<A>(v), average{A(v[2])}, beta2(A(v[3])), rate(A(v[4])), eps(A(v[5])) {}
  template <bool, bool, bool>
  FACULA_FN void update(A& p, A g, A& m, A& largest, A&) const {
    g = this->gradient(g, p);
    m = average(m, g);
    const A decayed = largest * beta2, size = abs(g) + eps;
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
  FACULA_FN explicit Moments(const double* v)
      : Rule<A>(v),
        shrink(A(v[2])),
        average{A(v[3])},
        beta2(A(v[4])),
        rest2(A(1.0 - v[4])),
        correction(A(v[5])),
        eps(A(v[6])) {}
  /// Decays p and continues the averages of the gradient, which it gives, and of its square.
  FACULA_FN A advance(A& p, A g, A& m, A& v) const {
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
  FACULA_FN NAdam(const double* v) : Moments<A>(v), rate_gradient(A(v[7])), rate_average(A(v[8])) {}
  template <bool, bool, bool>
  FACULA_FN void update(A& p, A g, A& m, A& v, A&) const {
    g = this->advance(p, g, m, v);
    const A divisor = sqrt(v / this->correction) + this->eps;
    p -= rate_gradient * g / divisor;
    p -= rate_average * m / divisor;
  }
};

// bias correction 1; lr, rectification * sqrt(bias correction 2) or 0
template <class A>
struct RAdam : Moments<A> {
  A lr, rectified;
  FACULA_FN RAdam(const double* v) : Moments<A>(v), lr(A(v[7])), rectified(A(v[8])) {}
  template <bool, bool, bool>
  FACULA_FN void update(A& p, A g, A& m, A& v, A&) const {
    this->advance(p, g, m, v);
    const A step = m / this->correction * lr;
    p -= rectified != 0 ? step * (rectified / (sqrt(v) + this->eps)) : step;
  }
};

// numbers: sign, decay, lr at this step, eps
template <class A>
struct Adagrad : Rule<A> {
  A lr, eps;
  FACULA_FN Adagrad(const double* v) : Rule<A>(v), lr(A(v[2])), eps(A(v[3])) {}
  template <bool, bool, bool>
  FACULA_FN void update(A& p, A g, A& sum, A&, A&) const {
    g = this->gradient(g, p);
    sum += g * g;
    p -= lr * g / (sqrt(sum) + eps);
  }
};

// numbers: sign, decay, lr, rho, eps
template <class A>
struct Adadelta : Rule<A> {
  A lr, rho, rest, eps;
  FACULA_FN Adadelta(const double* v) : Rule<A>(v), lr(A(v[2])), rho(A(v[3])), rest(A(1.0 - v[3])), eps(A(v[4])) {}
  template <bool, bool, bool>
  FACULA_FN void update(A& p, A g, A& squares, A& deltas, A&) const {
    g = this->gradient(g, p);
    squares = squares * rho + rest * g * g;
    const A delta = sqrt(deltas + eps) / sqrt(squares + eps) * g;
    deltas = deltas * rho + rest * delta * delta;
    p -= lr * delta;
  }
};

// numbers: sign, decay, lr, alpha, eps, momentum
template <class A>
struct RmsProp : Rule<A> {
  A lr, alpha, rest, eps, momentum;
  Lerp<A> average;
  FACULA_FN RmsProp(const double* v)
      : Rule<A>(v),
        lr(A(v[2])),
        alpha(A(v[3])),
        rest(A(1.0 - v[3])),
        eps(A(v[4])),
        momentum(A(v[5])),
        average{A(1.0 - v[3])} {}
  template <bool, bool with_momentum, bool centered>
  FACULA_FN void update(A& p, A g, A& squares, A& buffer, A& mean) const {
    g = this->gradient(g, p);
    squares = squares * alpha + rest * g * g;
    A variance = squares;
    if constexpr (centered) {
      mean = average(mean, g);
      variance = squares - mean * mean;
    }
    const A divisor = sqrt(variance) + eps;
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
  FACULA_FN Rprop(const double* v) : sign(A(v[0])), minus(A(v[2])), plus(A(v[3])), least(A(v[4])), most(A(v[5])) {}
  template <bool, bool, bool>
  FACULA_FN void update(A& p, A g, A& before, A& size, A&) const {
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
  FACULA_FN Asgd(const double* v) : Rule<A>(v), shrink(A(v[2])), eta(A(v[3])), mu(A(v[4])) {}
  template <bool, bool, bool>
  FACULA_FN void update(A& p, A g, A& average, A&, A&) const {
    g = this->gradient(g, p);
    p = p * shrink - eta * g;
    average = mu == 1 ? p : average + (p - average) * mu;
  }
};

}  // namespace facula::kernels
