// Attention forwards, without a matrix of scores in memory: blocks of queries meet blocks of keys, and a block of
// scores lives in the cache only. Sums are corrected whenever a larger score turns up.
#include "cpu/isa/attention.h"
#include "cpu/isa/attention_few.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// As sum_of_exp(), for rows in which a mask has hidden elements.
template <class T>
T sum_of_weights(int64_t n, T* x, T shift) {
  T sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < n; ++c) sum += x[c] = weight_of(x[c] - shift);
  return sum;
}

/// `half`: of bfloat16, which is multiplied as it is.
template <class T, bool half = false>
class Forward {
 public:
  Forward(const AttentionCall<T>& p, const Tensor& out, const Tensor& sums)
      : p_(p), out_(out), sums_(sums.data<T>()), scratch_(count(p)), score_row_(score_row(p)) {
    panels_ = scratch_.take(panel_rows(p) * p.size);
    values_ = scratch_.take(panel_rows(p) * p.widest_row());  // at first the keys
    query_ = scratch_.take(most_rows(p) * query_row(p));
    scores_ = scratch_.take(most_rows(p) * score_row_);
    result_ = scratch_.take(most_rows(p) * p.value_row());
  }

  void run(int64_t head, int64_t block) {
    if (head != head_) pack_head(head);
    const int64_t first = block * kQueries, count = std::min(kQueries, p_.queries - first);
    const Plane query = plane(p_.in.query, head), out = plane(out_, head);
    const Plane mask = p_.in.mask.defined() ? plane(p_.in.mask, head) : Plane{};
    const int64_t end = p_.keys_before(first + count), rows = round_up(count, kTileRows);
    if constexpr (!half) pack_rows(query, first, count, rows, T(p_.options.scale), query_, p_.row());
    std::fill_n(largest_, count, kNever<T>);
    std::fill_n(sum_, count, T(0));
    if (half || end == 0) std::fill_n(result_, rows * p_.value_row(), T(0));  // to which all is added
    for (int64_t k = 0; k < end; k += kKeys) {
      const int64_t n = std::min(kKeys, end - k);
      // of a panel's columns those of whole vectors are needed: the product goes through n of them
      const int64_t weighed = half ? round_up(n, kTileColumns<T>) : round_up(n, VectorOf<T>::lanes);
      make_scores(query, first, k, rows, count, weighed);
      if (end <= VectorOf<T>::lanes && !p_.in.mask.defined() && p_.options.dropout == 0) weigh_few(first, count, n);
      else
        for (int64_t r = 0; r < count; ++r) weigh(mask, head, first + r, r, k, n, weighed);
      add_values(k, rows, count, n);
    }
    for (int64_t r = 0; r < count; ++r) {
      T* x = result_ + r * p_.value_row();
      scale_row(x, p_.value_size, sum_[r] == T(0) ? T(0) : T(1) / sum_[r]);
      unpack_row(x, out, first + r);
    }
    T* sums = sums_ + head * p_.queries + first;
    FACULA_SIMD
    for (int64_t r = 0; r < count; ++r) sums[r] = sum_[r] == T(0) ? -kNever<T> : largest_[r] + kernels::log(sum_[r]);
  }

 private:
  static int64_t panel_rows(const AttentionCall<T>& p) { return round_up(p.keys, kTileColumns<T>); }
  /// Rows of a block, and scores of a row: no more than there are, where there are few.
  static int64_t most_rows(const AttentionCall<T>& p) {
    return half ? kQueries : std::min(kQueries, round_up(p.queries, kTileRows));
  }
  static int64_t score_row(const AttentionCall<T>& p) { return half ? kKeys : std::min(kKeys, panel_rows(p)); }
  static int64_t query_row(const AttentionCall<T>& p) {
    return half ? std::max(p.row(), kKeys) : p.row();
  }  // or weights
  static int64_t count(const AttentionCall<T>& p) {
    return panel_rows(p) * (p.size + p.widest_row()) + most_rows(p) * (query_row(p) + score_row(p) + p.value_row());
  }

  void pack_head(int64_t head) {
    const Plane key = plane(p_.in.key, head), value = plane(p_.in.value, head);
    head_ = head;
    if constexpr (half) return pack_half_head(key, value);
    pack_rows(key, 0, p_.keys, p_.keys, T(1), values_, p_.row());
    pack_panels(values_, p_.row(), p_.keys, p_.size, panels_);
    pack_rows(value, 0, p_.keys, p_.keys, T(1), values_, p_.value_row());
  }

  void pack_half_head(const Plane& key, const Plane& value) {
#if defined(__AVX512F__)
    pack_transposed(key, reinterpret_cast<char*>(panels_));
    pack_straight(value, reinterpret_cast<char*>(values_));
#endif
  }

  /// Scores of `count` queries, in whole tiles `rows` of them, and `width` keys from k on.
  void make_scores(const Plane& query, int64_t first, int64_t k, int64_t rows, int64_t count, int64_t width) {
    if constexpr (half) {
#if defined(__AVX512F__)
      const int64_t panel = half_panel_bytes(p_.size);
      half_block(rows_in_place(query, first), reinterpret_cast<const char*>(panels_) + k / kHalfColumns * panel, panel,
                 count, width, p_.size, scores_, score_row_, false);
      for (int64_t r = 0; r < count; ++r) scale_row(scores_ + r * score_row_, width, T(p_.options.scale));
#endif
    } else {
      product<T>({query_, p_.row(), 1}, {panels_ + k * p_.size, kTileColumns<T>, p_.size * kTileColumns<T>}, rows,
                 width, p_.size, scores_, score_row_, false);
    }
  }

  /// Adds n values from k on, by weights.
  void add_values(int64_t k, int64_t rows, int64_t count, int64_t n) {
    if constexpr (half) {
#if defined(__AVX512F__)
      char* rounded = reinterpret_cast<char*>(query_);
      for (int64_t r = 0; r < count; ++r)
        round_row(scores_ + r * score_row_, round_up(n, kPairLanes), rounded + r * 2 * kHalfKeys);
      half_block({rounded, 2 * kHalfKeys, 4, true}, from_row(reinterpret_cast<const char*>(values_), k),
                 half_panel_bytes(p_.keys), count, p_.value_size, n, result_, p_.value_row(), true);
#endif
    } else {
      product<T>({scores_, score_row_, 1}, {values_ + k * p_.value_row(), p_.value_row(), kTileColumns<T>}, rows,
                 round_up(p_.value_size, VectorOf<T>::lanes), n, result_, p_.value_row(), k > 0);
    }
  }

  /// Scores of all n keys become weights, a vector for each query: rows do not wait for one another.
  void weigh_few(int64_t first, int64_t count, int64_t n) {
    constexpr int lanes = VectorOf<T>::lanes;
    const auto larger = [](auto a, auto b) { return (b > a) | (b != b) ? b : a; };
    for (int64_t r = 0; r < count; ++r) {
      const int64_t seen = p_.options.is_causal ? std::min(n, first + r + 1) : n;
      T* row = scores_ + r * score_row_;
      T x[lanes], weights[lanes];
      const auto read = seen < lanes ? load_first(row, seen, kNever<T>) : load_vector(row);
      const T top = merge_all(read, larger), shift = top == kNever<T> ? T(0) : top;
      std::memcpy(x, &read, sizeof x);
      FACULA_SIMD
      for (int i = 0; i < lanes; ++i) weights[i] = weight_of(x[i] - shift);
      std::memcpy(row, weights, sizeof weights);
      largest_[r] = top;
      sum_[r] = merge_all(load_vector(weights), [](auto a, auto b) { return a + b; });
    }
  }

  /// Scores become weights relative to the largest so far; what was summed before is made relative to it, too.
  void weigh(const Plane& mask, int64_t head, int64_t query, int64_t r, int64_t k, int64_t n, int64_t width) {
    T* x = scores_ + r * score_row_;
    apply_mask(p_, mask, query, k, n, width, x);
    const T found = extremum<T, true>(width, x), before = largest_[r];
    const T now = found > before || found != found ? found : before;
    if (now == kNever<T>) {
      std::fill_n(x, width, T(0));
      return;
    }
    if (now != before) {
      if (before != kNever<T>) {  // else nothing is summed yet
        const T factor = std::exp(before - now);
        scale_row(result_ + r * p_.value_row(), p_.value_size, factor);
        sum_[r] *= factor;
      }
      largest_[r] = now;
    }
    const bool all_seen = !p_.in.mask.defined() && n == width && (!p_.options.is_causal || k + n <= query + 1);
    sum_[r] += all_seen ? sum_of_exp(width, x, now, x) : sum_of_weights(width, x, now);
    if (p_.options.dropout > 0)
      drop(DropoutRow(p_.seed, head * p_.queries + query, p_.options.dropout), k, width,
           T(1 / (1 - p_.options.dropout)), x);
  }

  const AttentionCall<T>& p_;
  const Tensor& out_;
  T* sums_;
  Scratch<T> scratch_;
  int64_t score_row_, head_ = -1;
  T *panels_, *values_, *query_, *scores_, *result_;
  T largest_[kQueries], sum_[kQueries];
};

template <class T, bool half = false>
void run_forward(const AttentionCall<T>& p, const Tensor& out, const Tensor& sums) {
  const int64_t blocks = (p.queries + kQueries - 1) / kQueries;
  parallel_for(0, p.heads * blocks, std::max<int64_t>(1, kGrain / 4 / (kQueries * p.work())),
               [&](int64_t from, int64_t to) {
                 Forward<T, half> forward(p, out, sums);
                 for (int64_t i = from; i < to; ++i) forward.run(i / blocks, i % blocks);
               });
}

/// The factor of every weight of a matrix of scores.
template <class T>
void run_kept(const Tensor& out, uint64_t seed, double p) {
  const int64_t columns = out.size(-1), rows = columns ? out.numel() / columns : 0;
  parallel_for(0, rows, std::max<int64_t>(1, kGrain / columns), [&](int64_t from, int64_t to) {
    for (int64_t r = from; r < to; ++r) {
      T* x = out.data<T>() + r * columns;
      std::fill_n(x, columns, T(1));
      drop(DropoutRow(seed, r, p), 0, columns, T(1 / (1 - p)), x);
    }
  });
}

void attention_cpu(const Tensor& out, const Tensor& sums, const AttentionInputs& in, const AttentionOptions& options) {
  LockRelease release(sums.numel() * in.key.size(-2) * in.key.size(-1) > kGrain);
#ifdef __AVX512F__
  if (FewKeys::suits(in, options) && out.stride(-1) == 1)
    return attend_to_few(out, sums, AttentionCall<float>(in, options));
#endif
  if (multiplies_pairs(in)) run_forward<float, true>(AttentionCall<float>(in, options), out, sums);
  else if (sums.dtype() == DType::Float32) run_forward(AttentionCall<float>(in, options), out, sums);
  else run_forward(AttentionCall<double>(in, options), out, sums);
}

void attention_kept_cpu(const Tensor& out, const Tensor& seed, double p) {
  const uint64_t s = static_cast<uint64_t>(*seed.data<int64_t>());
  if (out.dtype() == DType::Float32) run_kept<float>(out, s, p);
  else run_kept<double>(out, s, p);
}

}  // namespace

void register_attention_forward() {
  attention_kernel.set(DeviceType::CPU, attention_cpu);
  attention_kept_kernel.set(DeviceType::CPU, attention_kept_cpu);
}

}  // namespace facula::cpu::FACULA_ISA
