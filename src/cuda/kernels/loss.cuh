// Losses over classes.
#pragma once

#include "loss_args.h"
#include "report.cuh"
#include "rows.cuh"

namespace facula::cuda {

template <class A>
FACULA_FN A class_weight(const ClassArgs& p, Int64 c) {
  return p.weight ? static_cast<const A*>(p.weight)[c] : A(1);
}
/// The class at a position; -1 where it is ignored, or is none.
FACULA_FN Int64 class_at(const ClassArgs& p, Int64 at) {
  const Int64 c = p.target[at];
  return c == p.ignore_index || c < 0 || c >= p.classes ? -1 : c;
}
FACULA_FN Int64 checked_class(const ClassArgs& p, Int64 at) {
  const Int64 c = p.target[at];
  if (c != p.ignore_index && (c < 0 || c >= p.classes)) report_index(p.reporter, c, p.classes);
  return class_at(p, at);
}
/// Where class 0 of a position lies among the scores.
FACULA_FN Int64 scores_at(const ClassArgs& p, Int64 at) { return at / p.inner * p.classes * p.inner + at % p.inner; }

template <class T, class A>
__global__ __launch_bounds__(256) void nll(ClassArgs p) {
  for (Int64 at = thread_number(); at < p.samples * p.inner; at += thread_count()) {
    const Int64 c = checked_class(p, at);
    const A w = c < 0 ? A(0) : class_weight<A>(p, c);
    static_cast<A*>(p.weights)[at] = w;
    static_cast<A*>(p.losses)[at] =
        c < 0 ? A(0) : -convert<A>(static_cast<const T*>(p.self)[scores_at(p, at) + c * p.inner]) * w;
  }
}

/// Element `i` of the scores: its position and its class.
struct ScorePlace {
  Int64 at, k;
};
FACULA_FN ScorePlace score_place(const ClassArgs& p, Int64 i) {
  const Int64 run = i / p.inner;
  return {run / p.classes * p.inner + i % p.inner, run % p.classes};
}

template <class T, class A>
__global__ __launch_bounds__(256) void nll_backward(ClassArgs p) {
  for (Int64 i = thread_number(); i < p.samples * p.classes * p.inner; i += thread_count()) {
    const ScorePlace s = score_place(p, i);
    A slope = 0;
    if (class_at(p, s.at) == s.k)
      slope = -static_cast<const A*>(p.scale)[p.one_scale ? 0 : s.at] * class_weight<A>(p, s.k);
    static_cast<T*>(p.out)[i] = convert<T>(slope);
  }
}

/// The same where the scores of a position lie side by side.
template <class T, int kWide>
__global__ __launch_bounds__(256) void nll_rows_backward(ClassArgs p) {
  using A = Compute<T>;
  const Int64 n = p.classes;
  for_groups<1>(p.samples, [&](Int64 row, int member) {
    if (row >= p.samples) return;
    const Int64 c = class_at(p, row);
    const T slope =
        convert<T>(c < 0 ? A(0) : -static_cast<const A*>(p.scale)[p.one_scale ? 0 : row] * class_weight<A>(p, c));
    T* out = static_cast<T*>(p.out) + row * n;
    share_row<32, kWide, 1>(member, before_vectors<kWide>(out, n), n, [&]<int kWidth, int>(Int64 place) {
      Vector<T, kWidth> made;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) made.at[j] = c == place + j ? slope : convert<T>(A(0));
      store_vector(out + place, made);
    });
  });
}

/// The largest element of a line and the logarithm of the sum of exponentials relative to it, for all threads of the
/// group.
template <int kWarps, class Line, class A>
FACULA_FN A fold_log_sum(Line& x, A& top, A* room) {
  A total = 0;
  top = lowest<A>();
  x.each([&](A& v, auto) { top = LargerNumber::merge(top, v); });
  top = fold_group<LargerNumber, kWarps>(top, room);
  if (top < 0 && kernels::isinf(top)) top = 0;  // infinity stays, and makes all NaN
  x.each([&](A& v, auto) { total += share_of(v - top); });
  total = fold_group<Add, kWarps>(total, room);
  return kernels::log(total);
}

/// What is stored of a position: `own` is the score of its class `c`, `spread` the sum over all classes of what label
/// smoothing takes from each.
template <class A>
FACULA_FN void give_loss(const ClassArgs& p, Int64 at, Int64 c, A own, A top, A log_sum, double spread) {
  const A w = c < 0 ? A(0) : class_weight<A>(p, c);
  A loss = c < 0 ? A(0) : (top - own + log_sum) * w;
  if (p.smooths && c >= 0) loss = A(p.keep * double(loss) + p.share * spread);
  static_cast<A*>(p.log_sum)[at] = top;
  static_cast<A*>(p.log_sum)[p.samples * p.inner + at] = log_sum;
  static_cast<A*>(p.weights)[at] = w;
  static_cast<A*>(p.losses)[at] = loss;
}

/// A group of threads for each position, whose scores lie apart.
template <class T, class A, int kWarps, int kHeld>
__global__ __launch_bounds__(256) void cross_entropy(ClassArgs p) {
  FACULA_SHARED(A, room, kMostWarps);
  FACULA_SHARED(double, wide_room, kMostWarps);
  const Int64 positions = p.samples * p.inner;
  for_groups<kWarps>(positions, [&](Int64 at, int member) {
    const bool has = at < positions;
    const Int64 c = !has ? -1 : member == 0 ? checked_class(p, at) : class_at(p, at);
    const T* scores = static_cast<const T*>(p.self) + (has ? scores_at(p, at) : 0);
    LinePart<T, A, kWarps, kHeld> x{scores, has ? p.classes : 0, p.inner, member};
    x.load();
    A top;
    const A log_sum = fold_log_sum<kWarps>(x, top, room);
    double spread = 0;
    if (p.smooths && c >= 0)
      x.each([&](A& v, Int64 place) { spread += double((top - v + log_sum) * class_weight<A>(p, place / p.inner)); });
    if (p.smooths) spread = fold_group<Add, kWarps>(spread, wide_room);
    if (!has || member) return;
    give_loss(p, at, c, c < 0 ? A(0) : convert<A>(scores[c * p.inner]), top, log_sum, spread);
  });
}

// Rows: one position's scores lie side by side.

/// The class of a row and its score, for the thread that writes the loss; checked by it.
template <class T>
struct OwnScore {
  Int64 c = -1;
  Compute<T> score = 0;
  FACULA_FN OwnScore(const ClassArgs& p, const T* scores, Int64 row, bool writes) {
    if (!writes) return;
    c = checked_class(p, row);
    if (c >= 0) score = convert<Compute<T>>(scores[c]);
  }
};

/// The weights of some classes, of which `count` are there, or ones.
template <int kSpread, int kWidth, class A>
FACULA_FN Vector<A, kWidth> spread_weights(const void* weight, Int64 first, bool whole, int count = kWidth) {
  Vector<A, kWidth> made;
  if constexpr (kSpread == kWeightedSpread) {
    const A* from = static_cast<const A*>(weight) + first;
    if (whole) return load_vector<kWidth>(from);
#pragma unroll
    for (int j = 0; j < kWidth; ++j)
      if (j < count) made.at[j] = from[j];
  } else {
#pragma unroll
    for (int j = 0; j < kWidth; ++j) made.at[j] = A(1);
  }
  return made;
}

template <class T, int kWarps, int kHeld, bool kWhole, int kSpread>
__global__ __launch_bounds__(256, row_blocks<T, kWhole>(kHeld)) void cross_entropy_rows(ClassArgs p) {
  using A = Compute<T>;
  using Row = HeldRow<T, kWarps, kHeld, kWhole>;
  FACULA_SHARED(A, room, kMostWarps);
  FACULA_SHARED(double, wide_room, kMostWarps);
  const int n = int(p.classes);
  for_groups<kWarps>(p.samples, [&](Int64 row, int member) {
    if (row >= p.samples) return;
    const T* scores = static_cast<const T*>(p.self) + row * n;
    Row x{n, member};
    x.load(scores);
    const OwnScore<T> own(p, scores, row, member == 0);
    A top;
    const A log_sum = fold_log_sum<kWarps>(x, top, room);
    double spread = 0;
    if constexpr (kSpread != kNoSpread) {
      x.each_vector([&](int k, int place) {
        const auto weight = spread_weights<kSpread, Row::kWide, A>(p.weight, place, kWhole, n - place);
        A some = 0;
#pragma unroll
        for (int j = 0; j < Row::kWide; ++j)
          if (kWhole || place + j < n) some = kernels::mul_add(top - x.held[k].at[j] + log_sum, weight.at[j], some);
        spread += double(some);
      });
      spread = fold_group<Add, kWarps>(spread, wide_room);
    }
    if (member == 0) give_loss(p, row, own.c, own.score, top, log_sum, spread);
  });
}

constexpr int kScoresMany = 4;  // vectors of a thread at once

/// Reads rows once, and once more for label smoothing.
template <class T, int kWide, int kSpread>
__global__ __launch_bounds__(256, 2) void cross_entropy_long(ClassArgs p) {
  using A = Compute<T>;
  FACULA_SHARED(Exponentials<A>, room, kMostWarps);
  FACULA_SHARED(double, wide_room, kMostWarps);
  const Int64 n = p.classes;
  for (Int64 row = blockIdx.x; row < p.samples; row += gridDim.x) {
    const T* scores = static_cast<const T*>(p.self) + row * n;
    const OwnScore<T> own(p, scores, row, threadIdx.x == 0);
    const Int64 before = before_vectors<kWide>(scores, n);
    const Exponentials<A> sum = row_exponentials<kWide, kScoresMany, A>(scores, before, n, room);
    const A log_sum = kernels::log(sum.total);
    double spread = 0;
    if constexpr (kSpread != kNoSpread) {
      share_row<kRowThreads, kWide, kScoresMany>(threadIdx.x, before, n, [&]<int kWidth, int kMany>(Int64 place) {
        Vector<A, kWidth> part[kMany], weight[kMany];
        read_share<kRowThreads>(part, scores, place);
#pragma unroll
        for (int m = 0; m < kMany; ++m)
          weight[m] = spread_weights<kSpread, kWidth, A>(p.weight, place + m * kRowThreads * kWidth, before == 0);
        A some = 0;
        each_of(part,
                [&](A& v, int m, int j) { some = kernels::mul_add(sum.top - v + log_sum, weight[m].at[j], some); });
        spread += double(some);
      });
      spread = fold_block<Add>(spread, wide_room);
    }
    if (threadIdx.x == 0) give_loss(p, row, own.c, own.score, sum.top, log_sum, spread);
  }
}

/// One block: the sums of few losses and weights.
template <class T, class A>
__global__ __launch_bounds__(256) void class_total(const void* losses, const void* weights, Int64 count, bool mean,
                                                   void* loss, void* total_weight) {
  FACULA_SHARED(A, room, kMostWarps);
  A sum = 0, weight = 0;
  for (Int64 i = threadIdx.x; i < count; i += 256) {
    sum += static_cast<const A*>(losses)[i];
    weight += static_cast<const A*>(weights)[i];
  }
  sum = fold_block<Add>(sum, room);
  weight = fold_block<Add>(weight, room);
  if (threadIdx.x) return;
  *static_cast<T*>(loss) = convert<T>(mean ? sum / weight : sum);
  *static_cast<A*>(total_weight) = weight;
}

template <class A>
__global__ __launch_bounds__(256) void weight_total(Int64 classes, const void* weight, double* out) {
  FACULA_SHARED(double, room, kMostWarps);
  double total = 0;
  for (Int64 k = threadIdx.x; k < classes; k += 256) total += double(static_cast<const A*>(weight)[k]);
  total = fold_block<Add>(total, room);
  if (threadIdx.x == 0) *out = total;
}

/// scale * (softmax * (all factors) - factors), where the factors are those of class_weights.
template <class T, class A>
__global__ __launch_bounds__(256) void cross_entropy_backward(ClassArgs p) {
  const double all = !p.smooths ? 0.0 : p.share * (p.weight_total ? *p.weight_total : double(p.classes));
  for (Int64 i = thread_number(); i < p.samples * p.classes * p.inner; i += thread_count()) {
    const ScorePlace s = score_place(p, i);
    const Int64 c = class_at(p, s.at);
    A slope = 0;
    if (c >= 0) {
      const A factor = A(p.keep * double(class_weight<A>(p, c))),
              g = static_cast<const A*>(p.scale)[p.one_scale ? 0 : s.at],
              x = convert<A>(static_cast<const T*>(p.self)[i]);
      const A* top = static_cast<const A*>(p.log_sum) + s.at;
      slope = g * A(double(factor) + all) * kernels::exp(x - top[0] - top[p.samples * p.inner]);
      if (c == s.k) slope -= g * factor;
      if (p.smooths) slope -= g * A(p.share * double(class_weight<A>(p, s.k)));
    }
    static_cast<T*>(p.out)[i] = convert<T>(slope);
  }
}

/// The same of the scores of one position: `of_share` times what the soft-max gives, less `own` at the class `c` and
/// the smoothed share of the others.
template <class A>
struct ScoreGradient {
  Int64 c;
  A top, of_share = 0, own = 0, smoothed = 0;

  FACULA_FN ScoreGradient(const ClassArgs& p, Int64 at)
      : c(class_at(p, at)), top(static_cast<const A*>(p.log_sum)[at]) {
    if (c < 0) return;
    const double all = !p.smooths ? 0.0 : p.share * (p.weight_total ? *p.weight_total : double(p.classes));
    const A factor = A(p.keep * double(class_weight<A>(p, c))),
            g = static_cast<const A*>(p.scale)[p.one_scale ? 0 : at];
    of_share = g * A(double(factor) + all) * kernels::exp(-static_cast<const A*>(p.log_sum)[p.samples * p.inner + at]);
    own = g * factor;
    smoothed = g * A(p.share);
  }
  /// Of neighbors from a class on, of which `count` are there.
  template <int kSpread, int kWidth>
  FACULA_FN void change(const ClassArgs& p, Vector<A, kWidth>& x, Int64 first, bool whole, int count = kWidth) const {
    if (c < 0) {  // whatever the scores are
#pragma unroll
      for (int j = 0; j < kWidth; ++j) x.at[j] = A(0);
      return;
    }
    const auto weight = spread_weights<kSpread, kWidth, A>(p.weight, first, whole, count);
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
      const A share = share_of(x.at[j] - top);
      if constexpr (kSpread == kNoSpread) x.at[j] = of_share * share;
      else x.at[j] = kernels::mul_add(of_share, share, -(smoothed * weight.at[j]));
    }
    if (const Int64 mine = c - first; UInt64(mine) < UInt64(kWidth)) {
#pragma unroll
      for (int j = 0; j < kWidth; ++j)
        if (mine == j) x.at[j] -= own;
    }
  }
};

template <class T, int kWarps, int kHeld, bool kWhole, int kSpread>
__global__ __launch_bounds__(256, row_blocks<T, kWhole>(kHeld)) void cross_entropy_rows_backward(ClassArgs p) {
  using A = Compute<T>;
  const int n = int(p.classes);
  for_groups<kWarps>(p.samples, [&](Int64 row, int member) {
    if (row >= p.samples) return;
    HeldRow<T, kWarps, kHeld, kWhole> x{n, member};
    x.load(static_cast<const T*>(p.self) + row * n);
    const ScoreGradient<A> gradient(p, row);
    x.each_vector([&](int k, int place) { gradient.template change<kSpread>(p, x.held[k], place, kWhole, n - place); });
    x.store(static_cast<T*>(p.out) + row * n);
  });
}

/// Blocks (blockIdx.y) share a row.
template <class T, int kWide, int kSpread>
__global__ __launch_bounds__(256, 2) void cross_entropy_long_backward(ClassArgs p) {
  using A = Compute<T>;
  const Int64 n = p.classes, part = (n + gridDim.y - 1) / gridDim.y, begin = blockIdx.y * part;
  const Int64 left = n - begin, size = left < part ? left : part;
  for (Int64 row = blockIdx.x; row < p.samples; row += gridDim.x) {
    const T* scores = static_cast<const T*>(p.self) + row * n + begin;
    T* out = static_cast<T*>(p.out) + row * n + begin;
    const Int64 before = before_vectors<kWide>(scores, size);
    const ScoreGradient<A> gradient(p, row);
    share_row<kRowThreads, kWide, kScoresMany>(threadIdx.x, before, size, [&]<int kWidth, int kMany>(Int64 place) {
      Vector<A, kWidth> x[kMany];
      read_share<kRowThreads>(x, scores, place);
#pragma unroll
      for (int m = 0; m < kMany; ++m)
        gradient.template change<kSpread>(p, x[m], begin + place + m * kRowThreads * kWidth, false);
      write_share<kRowThreads>(out, place, x);
    });
  }
}

template <class A>
__global__ __launch_bounds__(256) void class_weights(ClassArgs p) {
  for (Int64 i = thread_number(); i < p.samples * p.classes * p.inner; i += thread_count()) {
    const ScorePlace s = score_place(p, i);
    const Int64 c = checked_class(p, s.at);
    const double w = double(class_weight<A>(p, s.k));
    static_cast<A*>(p.out)[i] = c < 0 ? A(0) : A(p.share * w + (s.k == c ? p.keep * w : 0.0));
  }
}

// ---- connectionist temporal classification: a block for each sequence, its threads for the states of a step

template <class A>
FACULA_FN A log_add(A a, A b, A c) {
  const A top = kernels::fmax(kernels::fmax(a, b), c);
  if (kernels::isinf(top) && top < 0) return top;
  return kernels::log(kernels::exp(a - top) + kernels::exp(b - top) + kernels::exp(c - top)) + top;
}

/// The labels of one sequence with blanks between them.
template <class A>
struct CtcSequence {
  const A* log_probs;
  Int64 step;
  const Int64* labels;
  Int64 count, blank, classes, steps;

  FACULA_FN Int64 states() const { return 2 * count + 1; }
  FACULA_FN Int64 label(Int64 state) const {
    const Int64 label = state % 2 ? labels[state / 2] : blank;
    return label >= 0 && label < classes ? label : 0;  // reported
  }
  FACULA_FN A log_prob(Int64 t, Int64 state) const { return log_probs[t * step + label(state)]; }
  /// Whether a path may jump over the blank before `state`.
  FACULA_FN bool skips(Int64 state) const { return state > 1 && label(state - 2) != label(state); }
};
template <class A>
FACULA_FN CtcSequence<A> ctc_sequence(const CtcArgs& p, Int64 n) {
  return {static_cast<const A*>(p.log_probs) + n * p.classes,
          p.batch * p.classes,
          p.targets + p.offsets[n],
          p.target_lengths[n],
          p.blank,
          p.classes,
          p.input_lengths[n]};
}

template <class A>
__global__ __launch_bounds__(256) void ctc(CtcArgs p) {
  constexpr A never = -kernels::Float<A>::infinity;
  const Int64 width = 2 * p.longest + 1;
  for (Int64 n = blockIdx.x; n < p.batch; n += gridDim.x) {
    const CtcSequence<A> q = ctc_sequence<A>(p, n);
    A* alpha = static_cast<A*>(p.log_alpha) + n * p.steps * width;
    const Int64 states = q.states();
    for (Int64 i = threadIdx.x; i < q.count; i += blockDim.x)
      if (q.labels[i] < 0 || q.labels[i] >= p.classes) report_value(p.reporter, double(q.labels[i]));
    for (Int64 i = threadIdx.x; i < p.steps * width; i += blockDim.x) {
      const Int64 t = i / width, s = i % width;
      if (t >= q.steps || s >= states || (t == 0 && s > 1)) alpha[i] = never;
      else if (t == 0) alpha[i] = q.log_prob(0, s);
    }
    for (Int64 t = 1; t < q.steps; ++t) {
      __syncthreads();
      const A* before = alpha + (t - 1) * width;
      for (Int64 s = threadIdx.x; s < states; s += blockDim.x) {
        const A one = s > 0 ? before[s - 1] : never, two = q.skips(s) ? before[s - 2] : never;
        alpha[t * width + s] = log_add(before[s], one, two) + q.log_prob(t, s);
      }
    }
    __syncthreads();
    if (threadIdx.x) continue;
    A loss = q.count == 0 ? A(0) : -never;
    if (q.steps > 0) {
      const A* last = alpha + (q.steps - 1) * width;
      loss = -log_add(last[states - 1], states > 1 ? last[states - 2] : never, never);
    }
    static_cast<A*>(p.loss)[n] = loss;
  }
}

/// For every state whether it is the first with its label, and the next one with it, or -1.
template <class A>
FACULA_FN void link_states(const CtcSequence<A>& q, Int64* links) {
  for (Int64 s = threadIdx.x; s < q.states(); s += blockDim.x) {
    bool is_first = true;
    Int64 next = -1;
    for (Int64 k = 0; k < s && is_first; ++k) is_first = q.label(k) != q.label(s);
    for (Int64 k = s + 1; k < q.states() && next < 0; ++k)
      if (q.label(k) == q.label(s)) next = k;
    links[2 * s] = is_first;
    links[2 * s + 1] = next;
  }
}

template <class A>
__global__ __launch_bounds__(256) void ctc_backward(CtcArgs p) {
  constexpr A never = -kernels::Float<A>::infinity;
  const Int64 width = 2 * p.longest + 1;
  for (Int64 n = blockIdx.x; n < p.batch; n += gridDim.x) {
    const CtcSequence<A> q = ctc_sequence<A>(p, n);
    const A *alpha = static_cast<const A*>(p.log_alpha) + n * p.steps * width,
            scale = static_cast<const A*>(p.scale)[n], loss = static_cast<const A*>(p.loss)[n];
    A *grad = static_cast<A*>(p.grad_input) + n * p.classes, *beta = static_cast<A*>(p.room) + 2 * n * width;
    Int64* links = p.links + 2 * n * width;
    const Int64 states = q.states();
    link_states(q, links);
    __syncthreads();
    for (Int64 t = p.steps; t-- > 0;) {
      A* row = grad + t * q.step;
      const bool takes_part = scale != 0 && t < q.steps;
      A *here = beta + t % 2 * width, *next = beta + (t + 1) % 2 * width;
      for (Int64 c = threadIdx.x; c < p.classes; c += blockDim.x) {
        const A log_prob = q.log_probs[t * q.step + c];
        row[c] = takes_part ? scale * (kernels::exp(log_prob) - kernels::exp(never + loss - log_prob)) : A(0);
      }
      for (Int64 s = threadIdx.x; takes_part && s < states; s += blockDim.x) {
        if (t == q.steps - 1) {
          here[s] = s >= states - 2 ? q.log_prob(t, s) : never;
          continue;
        }
        const A one = s + 1 < states ? next[s + 1] : never,
                two = s + 2 < states && q.skips(s + 2) ? next[s + 2] : never;
        here[s] = log_add(next[s], one, two) + q.log_prob(t, s);
      }
      __syncthreads();
      for (Int64 s = threadIdx.x; takes_part && s < states; s += blockDim.x) {
        if (!links[2 * s]) continue;
        A path = never;
        for (Int64 k = s; k >= 0; k = links[2 * k + 1]) path = log_add(path, alpha[t * width + k] + here[k], never);
        const A log_prob = q.log_prob(t, s);
        row[q.label(s)] = scale * (kernels::exp(log_prob) - kernels::exp(path + loss - log_prob));
      }
      __syncthreads();
    }
  }
}

}  // namespace facula::cuda
