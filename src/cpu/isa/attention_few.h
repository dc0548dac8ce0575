// Attention to a few keys, with AVX-512: the scores of a query are one vector, so that no block needs memory, and
// nothing is corrected later.
#pragma once

#include "cpu/isa/attention.h"

namespace facula::cpu::FACULA_ISA {

#ifdef __AVX512F__

class FewKeys {
 public:
  static constexpr int64_t kLanes = 16, kMostSize = 128, kTogether = 4;  // columns of a head; queries at a time

  static bool suits(const AttentionInputs& in, const AttentionOptions& options) {
    for (const Tensor* t : {&in.query, &in.key, &in.value})
      if (t->dtype() != DType::Float32 || t->stride(-1) != 1 || t->size(-1) > kMostSize) return false;
    if (in.mask.defined() && in.mask.dtype() != DType::Bool && in.mask.dtype() != DType::Float32) return false;
    return options.dropout == 0 && in.key.size(-2) <= kLanes && in.key.size(-2) > 0 && in.query.numel() > 0;
  }

  FewKeys(const AttentionCall<float>& p, const Tensor& out, const Tensor& sums)
      : p_(p), out_(out), sums_(sums.data<float>()), keys_(static_cast<__mmask16>((1u << p.keys) - 1)) {}

  void run(int64_t head) {
    turn_keys(plane(p_.in.key, head));
    const Plane query = plane(p_.in.query, head), out = plane(out_, head), value = plane(p_.in.value, head);
    const Plane mask = p_.in.mask.defined() ? plane(p_.in.mask, head) : Plane{};
    float* sums = sums_ + head * p_.queries;
    int64_t i = 0;
    for (; i + kTogether <= p_.queries; i += kTogether) some<kTogether>(query, mask, value, out, i, sums);
    for (; i < p_.queries; ++i) some<1>(query, mask, value, out, i, sums);
  }

 private:
  using Row = Square<uint32_t>::Row;
  static const float* floats(const char* p) { return reinterpret_cast<const float*>(p); }

  /// Column after column of the keys, one key in each lane.
  void turn_keys(const Plane& key) {
    for (int64_t e = 0; e < p_.size; e += kLanes) {
      const int64_t n = std::min(kLanes, p_.size - e);
      const auto there = static_cast<__mmask16>((1u << n) - 1);
      Row row[kLanes];
#pragma GCC unroll 16
      for (int64_t j = 0; j < kLanes; ++j)  // the last key stands for those that are not there
        row[j] = std::bit_cast<Row>(_mm512_maskz_loadu_ps(there, floats(key.at(std::min(j, p_.keys - 1))) + e));
      Square<uint32_t>::transpose(row);
#pragma GCC unroll 16
      for (int64_t k = 0; k < kLanes; ++k) turned_[e + k] = std::bit_cast<__m512>(row[k]);
    }
  }

  /// The scores that a query sees; others are minus infinity.
  __m512 seen(__m512 score, const Plane& mask, int64_t query) const {
    __mmask16 lanes = keys_;
    if (p_.options.is_causal && query + 1 < p_.keys) lanes = static_cast<__mmask16>((1u << (query + 1)) - 1);
    score = _mm512_mul_ps(score, _mm512_set1_ps(static_cast<float>(p_.options.scale)));
    if (mask.data) {
      const int64_t step = mask.column_stride;
      alignas(64) float added[kLanes] = {};
      if (mask.dtype == DType::Bool) {
        for (int64_t j = 0; j < p_.keys; ++j)
          if (!mask.at(query)[j * step]) lanes &= static_cast<__mmask16>(~(1u << j));
      } else if (step == 1) {
        score = _mm512_add_ps(score, _mm512_maskz_loadu_ps(keys_, floats(mask.at(query))));
      } else {
        for (int64_t j = 0; j < p_.keys; ++j) added[j] = floats(mask.at(query))[j * step];
        score = _mm512_add_ps(score, _mm512_load_ps(added));
      }
    }
    return _mm512_mask_mov_ps(_mm512_set1_ps(kNever<float>), lanes, score);
  }

  /// R queries from `first` on.
  template <int R>
  void some(const Plane& query, const Plane& mask, const Plane& value, const Plane& out, int64_t first, float* sums) {
    const float* q[R];
    __m512 score[R] = {};
    for (int r = 0; r < R; ++r) q[r] = floats(query.at(first + r));
    for (int64_t e = 0; e < p_.size; ++e) {
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) score[r] = _mm512_fmadd_ps(turned_[e], _mm512_set1_ps(q[r][e]), score[r]);
    }
    alignas(64) float weights[R][kLanes];
    float factor[R];
    for (int r = 0; r < R; ++r) {
      const __m512 x = seen(score[r], mask, first + r);
      const float top = merge_all(x, [](auto a, auto b) { return (b > a) | (b != b) ? b : a; });
      const float shift = top == kNever<float> ? 0.0f : top;
      const __m512 e = exponential_(_mm512_sub_ps(x, _mm512_set1_ps(shift)));
      _mm512_store_ps(weights[r], e);
      const float sum = merge_all(e, [](auto a, auto b) { return a + b; });
      factor[r] = sum == 0 ? 0.0f : 1 / sum;
      sums[first + r] = sum == 0 ? -kNever<float> : top + kernels::log(sum);
    }
    for (int64_t c = 0; c < p_.value_size; c += kLanes) {
      const auto there = static_cast<__mmask16>((1u << std::min(kLanes, p_.value_size - c)) - 1);
      __m512 total[R] = {};
      for (int64_t j = 0; j < p_.keys; ++j) {
        const __m512 v = _mm512_maskz_loadu_ps(there, floats(value.at(j)) + c);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) total[r] = _mm512_fmadd_ps(v, _mm512_set1_ps(weights[r][j]), total[r]);
      }
      for (int r = 0; r < R; ++r)
        _mm512_mask_storeu_ps(reinterpret_cast<float*>(out.at(first + r)) + c, there,
                              _mm512_mul_ps(total[r], _mm512_set1_ps(factor[r])));
    }
  }

  const AttentionCall<float>& p_;
  const Tensor& out_;
  float* sums_;
  __mmask16 keys_;
  Exp exponential_{powers()};
  __m512 turned_[kMostSize];
};

inline void attend_to_few(const Tensor& out, const Tensor& sums, const AttentionCall<float>& p) {
  parallel_for(0, p.heads, std::max<int64_t>(1, kGrain / 4 / std::max<int64_t>(1, p.queries * p.work())),
               [&](int64_t from, int64_t to) {
                 FewKeys heads(p, out, sums);
                 for (int64_t head = from; head < to; ++head) heads.run(head);
               });
}

#endif

}  // namespace facula::cpu::FACULA_ISA
