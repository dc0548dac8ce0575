// Attention backwards: the weights of a block are made again from its scores and the logarithms of the rows' sums, and
// everything that follows from them is added up block by block.
#include "cpu/isa/attention.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// Which blocks meet, and which gradients are made of them.
struct Part {
  int64_t first_query, end_query, first_key, end_key;
  bool of_query, of_key;
};

/// `half`: of bfloat16, which is multiplied as it is.
template <class T, bool half = false>
class Backward {
 public:
  Backward(const AttentionCall<T>& p, const AttentionResults& results, const AttentionGradients& gradients)
      : p_(p), results_(results), to_(gradients), scratch_(count(p)) {
    const int64_t queries = query_rows(p), keys = key_rows(p);
    query_ = scratch_.take(queries * p.row());
    key_ = scratch_.take(keys * p.widest_row());  // at first the values
    key_panels_ = scratch_.take(keys * p.size);
    value_panels_ = scratch_.take(keys * p.value_size);
    grad_ = scratch_.take(queries * p.value_row());
    grad_query_ = scratch_.take(queries * p.widest_row());  // the results stand here at first
    delta_ = scratch_.take(queries);
    grad_key_ = scratch_.take(kKeys * p.row());
    grad_value_ = scratch_.take(kKeys * p.value_row());
    weights_ = scratch_.take(kQueries * kKeys);
    grad_scores_ = scratch_.take(kQueries * kKeys);
    rounded_ = reinterpret_cast<char*>(scratch_.take(kQueries * kRounded));
  }

  void run(int64_t head, const Part& part) {
    if (head != head_) pack_head(head);
    if (part.of_query) std::fill_n(grad_query_, query_rows(p_) * p_.row(), T(0));
    for (int64_t k = part.first_key; k < part.end_key; k += kKeys) {
      std::fill_n(grad_key_, kKeys * p_.row(), T(0));
      std::fill_n(grad_value_, kKeys * p_.value_row(), T(0));
      const int64_t first =
          p_.options.is_causal ? std::max(part.first_query, k / kQueries * kQueries) : part.first_query;
      for (int64_t q = first; q < part.end_query; q += kQueries) meet(q, k, part);
      if (part.of_key) store_key(k);
    }
    if (part.of_query) store_query(part);
  }

 private:
  /// Floats for what is rounded of a query: a row of gradients of scores, and half of the pairs of both kinds.
  static constexpr int64_t kRounded = half ? (kKeys + 32) / 2 + kKeys : 0;

  static int64_t query_rows(const AttentionCall<T>& p) { return round_up(p.queries, kQueries); }
  static int64_t key_rows(const AttentionCall<T>& p) { return round_up(p.keys, kTileColumns<T>); }
  static int64_t count(const AttentionCall<T>& p) {
    return query_rows(p) * (p.row() + p.widest_row() + p.value_row() + 1) + kKeys * (p.row() + p.value_row()) +
           key_rows(p) * (p.widest_row() + p.size + p.value_size) + 2 * kQueries * kKeys + kQueries * kRounded;
  }

  void pack_head(int64_t head) {
    head_ = head;
    mask_ = p_.in.mask.defined() ? plane(p_.in.mask, head) : Plane{};
    if constexpr (half) return pack_half_head();
    pack_rows(plane(p_.in.value, head), 0, p_.keys, p_.keys, T(1), key_, p_.value_row());
    pack_panels(key_, p_.value_row(), p_.keys, p_.value_size, value_panels_);
    pack_rows(plane(p_.in.key, head), 0, p_.keys, p_.keys, T(1), key_, p_.row());
    pack_panels(key_, p_.row(), p_.keys, p_.size, key_panels_);
    pack_rows(plane(p_.in.query, head), 0, p_.queries, query_rows(p_), T(p_.options.scale), query_, p_.row());
    pack_rows(plane(results_.out, head), 0, p_.queries, query_rows(p_), T(1), grad_query_, p_.value_row());
    pack_rows(plane(results_.grad, head), 0, p_.queries, query_rows(p_), T(1), grad_, p_.value_row());
    for (int64_t q = 0; q < p_.queries; ++q) {
      const T *x = grad_ + q * p_.value_row(), *y = grad_query_ + q * p_.value_row();
      T sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t c = 0; c < p_.value_size; ++c) sum += x[c] * y[c];
      delta_[q] = sum;
    }
  }

  void pack_half_head() {
#if defined(__AVX512F__)
    const Plane query = plane(p_.in.query, head_), key = plane(p_.in.key, head_);
    const Plane grad = plane(results_.grad, head_), out = plane(results_.out, head_);
    pack_transposed(key, reinterpret_cast<char*>(key_panels_));
    pack_transposed(plane(p_.in.value, head_), reinterpret_cast<char*>(value_panels_));
    pack_straight(key, reinterpret_cast<char*>(key_));
    pack_straight(query, reinterpret_cast<char*>(query_));
    pack_straight(grad, reinterpret_cast<char*>(grad_));
    for (int64_t q = 0; q < p_.queries; ++q) {
      const auto *x = reinterpret_cast<const BFloat16*>(grad.at(q)), *y = reinterpret_cast<const BFloat16*>(out.at(q));
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t c = 0; c < p_.value_size; ++c) sum += static_cast<float>(x[c]) * static_cast<float>(y[c]);
      delta_[q] = sum;
    }
#endif
  }

  /// As meet().
  void meet_half(int64_t q, int64_t k, const Part& part) {
#if defined(__AVX512F__)
    const int64_t count = std::min(kQueries, p_.queries - q), n = std::min(kKeys, p_.keys_before(q + count) - k);
    const int64_t width = round_up(n, kHalfColumns), panel = half_panel_bytes(p_.size);
    const int64_t value_panel = half_panel_bytes(p_.value_size), rows_panel = half_panel_bytes(p_.queries);
    const auto bytes = [](const T* packed) { return reinterpret_cast<const char*>(packed); };
    half_block(rows_in_place(plane(p_.in.query, head_), q), bytes(key_panels_) + k / kHalfColumns * panel, panel, count,
               width, p_.size, weights_, kKeys, false);
    half_block(rows_in_place(plane(results_.grad, head_), q), bytes(value_panels_) + k / kHalfColumns * value_panel,
               value_panel, count, width, p_.value_size, grad_scores_, kKeys, false);
    for (int64_t r = 0; r < count; ++r) {
      scale_row(weights_ + r * kKeys, width, T(p_.options.scale));
      weigh(q + r, r, k, n, width, width);
    }
    char *rows = rounded_, *weights = rows + kQueries * 2 * kHalfKeys, *grads = weights + kQueries * 2 * kKeys;
    if (part.of_key) {
      if (count % 2) {
        std::fill_n(weights_ + count * kKeys, width, T(0));
        std::fill_n(grad_scores_ + count * kKeys, width, T(0));
      }
      for (int64_t r = 0; r < count; r += 2) {
        round_pairs(weights_ + r * kKeys, weights_ + (r + 1) * kKeys, width, weights + r * 2 * kKeys);
        round_pairs(grad_scores_ + r * kKeys, grad_scores_ + (r + 1) * kKeys, width, grads + r * 2 * kKeys);
      }
      half_block(pairs_of_keys(weights), from_row(bytes(grad_), q), rows_panel, n, p_.value_size, count, grad_value_,
                 p_.value_row(), true);
      half_block(pairs_of_keys(grads), from_row(bytes(query_), q), rows_panel, n, p_.size, count, grad_key_, p_.row(),
                 true);
    }
    if (part.of_query) {
      for (int64_t r = 0; r < count; ++r) round_row(grad_scores_ + r * kKeys, width, rows + r * 2 * kHalfKeys);
      half_block({rows, 2 * kHalfKeys, 4, true}, from_row(bytes(key_), k), half_panel_bytes(p_.keys), count, p_.size, n,
                 grad_query_ + q * p_.row(), p_.row(), true);
    }
#endif
  }

  /// The queries from q on and the keys from k on.
  void meet(int64_t q, int64_t k, const Part& part) {
    if constexpr (half) return meet_half(q, k, part);
    constexpr int64_t W = kTileColumns<T>;
    const int64_t count = std::min(kQueries, p_.queries - q), rows = round_up(count, kTileRows);
    const int64_t n = std::min(kKeys, p_.keys_before(q + count) - k), width = round_up(n, W);
    const int64_t size = round_up(p_.size, W), value_size = round_up(p_.value_size, W);
    const T *query = query_ + q * p_.row(), *grad = grad_ + q * p_.value_row();
    product<T>({query, p_.row(), 1}, {key_panels_ + k * p_.size, W, p_.size * W}, rows, width, p_.size, weights_, kKeys,
               false);
    product<T>({grad, p_.value_row(), 1}, {value_panels_ + k * p_.value_size, W, p_.value_size * W}, rows, width,
               p_.value_size, grad_scores_, kKeys, false);
    const int64_t keys = round_up(n, kTileRows);
    for (int64_t r = 0; r < count; ++r) weigh(q + r, r, k, n, width, keys);
    if (part.of_key) {
      product<T>({weights_, 1, kKeys}, {grad, p_.value_row(), W}, keys, value_size, count, grad_value_, p_.value_row(),
                 true);
      product<T>({grad_scores_, 1, kKeys}, {query, p_.row(), W}, keys, size, count, grad_key_, p_.row(), true);
    }
    if (part.of_query)
      product<T>({grad_scores_, kKeys, 1}, {key_ + k * p_.row(), p_.row(), W}, rows, size, n,
                 grad_query_ + q * p_.row(), p_.row(), true);
  }

  /// One row of scores and of gradients of weights becomes weights and gradients of scores, zeros up to `keys`.
  void weigh(int64_t query, int64_t r, int64_t k, int64_t n, int64_t width, int64_t keys) {
    T *w = weights_ + r * kKeys, *g = grad_scores_ + r * kKeys;
    apply_mask(p_, mask_, query, k, n, width, w);
    const int64_t row = head_ * p_.queries + query;
    const T log_sum = results_.sums.template data<T>()[row], delta = delta_[query];
    if (p_.options.dropout > 0) {
      const DropoutRow dropout(p_.seed, row, p_.options.dropout);
      const T kept = T(1 / (1 - p_.options.dropout));
      FACULA_SIMD
      for (int64_t c = 0; c < width; ++c) {
        const T weight = weight_of(w[c] - log_sum), factor = dropout.keeps(static_cast<uint32_t>(k + c)) ? kept : T(0);
        w[c] = weight * factor;
        g[c] = weight * (g[c] * factor - delta);
      }
    } else {
      FACULA_SIMD
      for (int64_t c = 0; c < width; ++c) {
        w[c] = weight_of(w[c] - log_sum);
        g[c] = w[c] * (g[c] - delta);
      }
    }
    if (keys > width) {
      std::fill(w + width, w + keys, T(0));
      std::fill(g + width, g + keys, T(0));
    }
  }

  void store_key(int64_t k) {
    const Plane key = plane(to_.key, head_), value = plane(to_.value, head_);
    for (int64_t c = 0; c < std::min(kKeys, p_.keys - k); ++c) {
      if (half) scale_row(grad_key_ + c * p_.row(), p_.size, T(p_.options.scale));
      unpack_row(grad_key_ + c * p_.row(), key, k + c);
      unpack_row(grad_value_ + c * p_.value_row(), value, k + c);
    }
  }

  void store_query(const Part& part) {
    const Plane query = plane(to_.query, head_);
    for (int64_t q = part.first_query; q < std::min(part.end_query, p_.queries); ++q) {
      T* x = grad_query_ + q * p_.row();
      scale_row(x, p_.size, T(p_.options.scale));
      unpack_row(x, query, q);
    }
  }

  const AttentionCall<T>& p_;
  const AttentionResults& results_;
  const AttentionGradients& to_;
  Scratch<T> scratch_;
  int64_t head_ = -1;
  Plane mask_{};
  T *query_, *key_, *key_panels_, *value_panels_, *grad_, *grad_query_, *delta_, *grad_key_, *grad_value_;
  T *weights_, *grad_scores_;
  char* rounded_;
};

/// Head by head; where there are fewer heads than threads, gradients of keys and of queries are made apart, in pieces,
/// which costs seven products instead of five. Sums are in the same order either way.
template <class T, bool half = false>
void run_backward(const AttentionCall<T>& p, const AttentionResults& results, const AttentionGradients& gradients) {
  const int64_t queries = round_up(p.queries, kQueries), keys = round_up(p.keys, kKeys);
  const int64_t grain = std::max<int64_t>(1, kGrain / 4 / (std::max<int64_t>(1, p.queries) * p.work()));
  const bool whole = p.heads >= num_threads() || p.heads * p.queries * p.work() < kGrain;
  auto pieces = [&](int64_t length, int64_t block, auto part) {
    const int64_t count = length / block;
    parallel_for(0, p.heads * count, 1, [&](int64_t from, int64_t to) {
      Backward<T, half> backward(p, results, gradients);
      for (int64_t i = from; i < to; ++i) backward.run(i / count, part(i % count * block));
    });
  };
  if (whole) {
    parallel_for(0, p.heads, grain, [&](int64_t from, int64_t to) {
      Backward<T, half> backward(p, results, gradients);
      for (int64_t head = from; head < to; ++head) backward.run(head, {0, queries, 0, keys, true, true});
    });
  } else {
    pieces(keys, kKeys, [&](int64_t k) { return Part{0, queries, k, k + kKeys, false, true}; });
    pieces(queries, kQueries, [&](int64_t q) {
      return Part{q,    q + kQueries, 0, p.options.is_causal ? std::min(keys, round_up(q + kQueries, kKeys)) : keys,
                  true, false};
    });
  }
}

bool multiplies_pairs_of([[maybe_unused]] const AttentionInputs& in, [[maybe_unused]] const AttentionResults& results) {
#if defined(__AVX512F__)
  return multiplies_pairs(in) && rows_of_bfloats(results.grad) && rows_of_bfloats(results.out);
#else
  return false;
#endif
}

void attention_backward_cpu(const AttentionGradients& gradients, const AttentionInputs& in,
                            const AttentionResults& results, const AttentionOptions& options) {
  LockRelease release(true);
  if (multiplies_pairs_of(in, results))
    run_backward<float, true>(AttentionCall<float>(in, options), results, gradients);
  else if (results.sums.dtype() == DType::Float32) run_backward(AttentionCall<float>(in, options), results, gradients);
  else run_backward(AttentionCall<double>(in, options), results, gradients);
}

}  // namespace

void register_attention_backward() { attention_backward_kernel.set(DeviceType::CPU, attention_backward_cpu); }

}  // namespace facula::cpu::FACULA_ISA
