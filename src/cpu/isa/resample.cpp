// Interpolation along one dimension.
#include "ops/resample.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>

#include "cpu/isa.h"
#include "cpu/isa/grain.h"
#include "cpu/isa/lanes.h"
#include "cpu/isa/transpose.h"
#include "kernels/math.h"
#include "ops/pool.h"

namespace facula::cpu::FACULA_ISA {
namespace {

#ifdef __AVX512F__

/// Outputs that are inputs, of four bytes: short lines by permutations of two registers, or rows of at most a register.
/// False where they are neither.
bool copy_short_lines(int32_t* out, const int32_t* in, int64_t outer, int64_t inner, const FilterTaps& taps) {
  constexpr int64_t kLanes = 16, kGroups = 4;
  const int64_t inputs = taps.in, outputs = taps.out, *index = taps.index.data<int64_t>();
  if (outer * outputs * inner > kGrain || inner > kLanes) return false;
  if (inner > 1) {
    const auto row = static_cast<__mmask16>((1u << inner) - 1);
    for (int64_t a = 0; a < outer; ++a, in += inputs * inner)
      for (int64_t o = 0; o < outputs; ++o, out += inner)
        _mm512_mask_storeu_epi32(out, row, _mm512_maskz_loadu_epi32(row, in + index[o] * inner));
    return true;
  }
  if (inputs > 2 * kLanes || outputs > kGroups * kLanes || outer == 1) return false;
  __m512i at[kGroups];
  __mmask16 lanes[kGroups];
  const int64_t groups = (outputs + kLanes - 1) / kLanes;
  for (int64_t g = 0; g < groups; ++g) {
    const int64_t n = std::min(kLanes, outputs - g * kLanes);
    const auto low = static_cast<__mmask8>(n >= 8 ? 0xff : (1u << n) - 1),
               high = static_cast<__mmask8>(n > 8 ? (1u << (n - 8)) - 1 : 0);
    const int64_t* from = index + g * kLanes;
    lanes[g] = static_cast<__mmask16>(low | high << 8);
    at[g] = _mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32(_mm512_maskz_loadu_epi64(low, from))),
                               _mm512_cvtepi64_epi32(_mm512_maskz_loadu_epi64(high, from + 8)), 1);
  }
  const auto few = static_cast<__mmask16>(inputs < kLanes ? (1u << inputs) - 1 : 0xffff),
             more = static_cast<__mmask16>(inputs > kLanes ? (1u << (inputs - kLanes)) - 1 : 0);
  for (int64_t a = 0; a < outer; ++a, in += inputs, out += outputs) {
    const __m512i low = _mm512_maskz_loadu_epi32(few, in), high = _mm512_maskz_loadu_epi32(more, in + kLanes);
    for (int64_t g = 0; g < groups; ++g)
      _mm512_mask_storeu_epi32(out + g * kLanes, lanes[g], _mm512_permutex2var_epi32(low, at[g], high));
  }
  return true;
}

#endif

template <class T>
void copy_taps(T* out, const T* in, int64_t outer, int64_t inner, const FilterTaps& taps) {
  const int64_t outputs = taps.out, *index = taps.index.data<int64_t>();
#ifdef __AVX512F__
  if constexpr (sizeof(T) == 4) {
    if (copy_short_lines(reinterpret_cast<int32_t*>(out), reinterpret_cast<const int32_t*>(in), outer, inner, taps))
      return;
  }
#endif
  parallel_for(0, outer, grain_of(outputs * inner), [&](int64_t from, int64_t to) {
    for (int64_t a = from; a < to; ++a) {
      const T* source = in + a * taps.in * inner;
      T* target = out + a * outputs * inner;
      if (inner == 1) {
        for (int64_t o = 0; o < outputs; ++o) target[o] = source[index[o]];
      } else {
        for (int64_t o = 0; o < outputs; ++o) {
          std::memcpy(static_cast<void*>(target + o * inner), source + index[o] * inner,
                      static_cast<size_t>(inner) * sizeof(T));
        }
      }
    }
  });
}

template <class T>
void weigh_row(T* row, const T* source, int64_t inner, const FilterTaps& taps, const T* weight, int64_t o) {
  const int64_t *index = taps.index.data<int64_t>(), from = taps.first.data<int64_t>()[o],
                to = taps.first.data<int64_t>()[o + 1];
  if (from == to) {
    std::fill_n(row, inner, T(0));
    return;
  }
  constexpr int64_t lanes = VectorOf<T>::lanes;
  for (int64_t i = 0; i < inner; i += lanes) {
    const int64_t n = std::min(lanes, inner - i);
    const auto read = [&](int64_t k) {
      const T* at = source + index[k] * inner + i;
      return n == lanes ? load_vector(at) : load_first(at, n, T(0));
    };
    auto sum = read(from) * weight[from];
    for (int64_t k = from + 1; k < to; ++k) sum += read(k) * weight[k];
    if (n == lanes) std::memcpy(row + i, &sum, sizeof sum);
    else store_first(row + i, n, sum);
  }
}

// Lines that lie along memory: as many as a vector has lanes are turned side by side, and what an output reads are
// vectors.
template <class T>
class LineGroup {
 public:
  static constexpr int64_t lanes = VectorOf<T>::lanes;

  LineGroup(const FilterTaps& taps, const T* weights)
      : inputs_(taps.in),
        outputs_(taps.out),
        first_(taps.first.data<int64_t>()),
        index_(taps.index.data<int64_t>()),
        weights_(weights),
        turned_(static_cast<size_t>(taps.in)) {}

  /// `lines` lines of `in`, at most `lanes`.
  void run(T* out, const T* in, int64_t lines) {
    const int64_t inputs = inputs_, outputs = outputs_;
    int64_t c = 0, o = 0;
    for (; c + lanes <= inputs; c += lanes) {
      Vector square[lanes];
      for (int64_t i = 0; i < lanes; ++i) square[i] = load_vector(in + std::min(i, lines - 1) * inputs + c);
      transpose(square);
      std::copy_n(square, lanes, turned_.data() + c);
    }
    for (; c < inputs; ++c)
      for (int64_t i = 0; i < lines; ++i) turned_[c][i] = in[i * inputs + c];
    for (; o + lanes <= outputs; o += lanes) {
      Vector square[lanes];
      for (int64_t i = 0; i < lanes; ++i) square[i] = sum(o + i);
      transpose(square);
      for (int64_t i = 0; i < lines; ++i) std::memcpy(out + i * outputs + o, &square[i], sizeof(Vector));
    }
    for (; o < outputs; ++o) {
      const Vector v = sum(o);
      for (int64_t i = 0; i < lines; ++i) out[i * outputs + o] = v[i];
    }
  }

 private:
  using Vector = typename VectorOf<T>::type;
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  static_assert(kSide<Bits> == lanes);

  static void transpose(Vector* square) {
    typename Square<Bits>::Row rows[lanes];
    for (int64_t i = 0; i < lanes; ++i) rows[i] = std::bit_cast<typename Square<Bits>::Row>(square[i]);
    Square<Bits>::transpose(rows);
    for (int64_t i = 0; i < lanes; ++i) square[i] = std::bit_cast<Vector>(rows[i]);
  }
  Vector sum(int64_t o) const {
    const int64_t from = first_[o], to = first_[o + 1];
    if (from == to) return Vector{};
    Vector total = turned_[index_[from]] * weights_[from];
    for (int64_t k = from + 1; k < to; ++k) total += turned_[index_[k]] * weights_[k];
    return total;
  }

  int64_t inputs_, outputs_;
  const int64_t *first_, *index_;
  const T* weights_;
  std::vector<Vector> turned_;
};

template <class T>
void weigh_lines(T* out, const T* in, int64_t outer, const FilterTaps& taps, const T* weights) {
  constexpr int64_t side = LineGroup<T>::lanes;
  parallel_for(0, (outer + side - 1) / side, grain_of(side * (taps.out + taps.in)), [&](int64_t from, int64_t to) {
    LineGroup<T> group(taps, weights);
    for (int64_t line = from * side; line < std::min(to * side, outer); line += side)
      group.run(out + line * taps.out, in + line * taps.in, std::min(side, outer - line));
  });
}

#ifdef __AVX512F__

/// Short lines of float32: the inputs are two registers, from which permutations take what sixteen outputs read first,
/// second, and so on.
class ShortLines {
 public:
  /// False where the lines are longer, or an output reads more.
  bool set(const FilterTaps& taps) {
    if (taps.in > 2 * kLanes || taps.out > kGroups * kLanes) return false;
    inputs_ = taps.in, outputs_ = taps.out;
    const int64_t *first = taps.first.data<int64_t>(), *index = taps.index.data<int64_t>();
    const double* weight = taps.weight.data<double>();
    for (int64_t g = 0; g * kLanes < outputs_; ++g) {
      Group& group = groups_[g];
      const int64_t n = std::min(kLanes, outputs_ - g * kLanes);
      group.lanes = static_cast<__mmask16>((1u << n) - 1);
      alignas(64) int32_t at[kReads][kLanes] = {};
      alignas(64) float weights[kReads][kLanes] = {};
      uint32_t there[kReads] = {};
      for (int64_t i = 0; i < n; ++i) {
        const int64_t from = first[g * kLanes + i], reads = first[g * kLanes + i + 1] - from;
        if (reads > kReads) return false;
        group.reads = std::max(group.reads, reads);
        for (int64_t k = 0; k < reads; ++k) {
          at[k][i] = static_cast<int32_t>(index[from + k]);
          weights[k][i] = static_cast<float>(weight[from + k]);
          there[k] |= 1u << i;
        }
      }
      for (int64_t k = 0; k < group.reads; ++k) {
        group.at[k] = _mm512_load_si512(at[k]);
        group.weights[k] = _mm512_load_ps(weights[k]);
        group.there[k] = static_cast<__mmask16>(there[k]);
      }
    }
    return true;
  }

  void run(float* out, const float* in, int64_t lines) const {
    const auto few = static_cast<__mmask16>(inputs_ < kLanes ? (1u << inputs_) - 1 : 0xffff),
               more = static_cast<__mmask16>(inputs_ > kLanes ? (1u << (inputs_ - kLanes)) - 1 : 0);
    for (int64_t line = 0; line < lines; ++line, in += inputs_, out += outputs_) {
      const __m512 low = _mm512_maskz_loadu_ps(few, in),
                   high = more ? _mm512_maskz_loadu_ps(more, in + kLanes) : _mm512_setzero_ps();
      for (int64_t g = 0; g * kLanes < outputs_; ++g) {
        const Group& group = groups_[g];
        __m512 sum =
            _mm512_maskz_mul_ps(group.there[0], _mm512_permutex2var_ps(low, group.at[0], high), group.weights[0]);
        for (int64_t k = 1; k < group.reads; ++k)
          sum = _mm512_mask3_fmadd_ps(_mm512_permutex2var_ps(low, group.at[k], high), group.weights[k], sum,
                                      group.there[k]);
        _mm512_mask_storeu_ps(out + g * kLanes, group.lanes, sum);
      }
    }
  }

 private:
  static constexpr int64_t kLanes = 16, kGroups = 4, kReads = 8;
  struct Group {
    int64_t reads = 1;  // at least, of which none may be there
    __mmask16 lanes, there[kReads];
    __m512i at[kReads];
    __m512 weights[kReads];
  };
  int64_t inputs_ = 0, outputs_ = 0;
  Group groups_[kGroups];
};

#endif

constexpr int64_t kFewTaps = 256;

template <class T>
void weigh_taps(T* out, const T* in, int64_t outer, int64_t inner, const FilterTaps& taps) {
  int64_t outputs = taps.out;
  const double* given = taps.weight.data<double>();
  const int64_t count = taps.weight.numel();
#ifdef __AVX512F__
  if constexpr (std::is_same_v<T, float>) {
    if (ShortLines lines; inner == 1 && outer > 1 && lines.set(taps)) {
      parallel_for(0, outer, grain_of(outputs + taps.in),
                   [&](int64_t from, int64_t to) { lines.run(out + from * outputs, in + from * taps.in, to - from); });
      return;
    }
  }
#endif
  T few[kFewTaps];
  std::unique_ptr<T[]> many(count > kFewTaps ? new T[static_cast<size_t>(count)] : nullptr);
  T* const weights = many ? many.get() : few;
  for (int64_t k = 0; k < count; ++k) weights[k] = static_cast<T>(given[k]);
  if (inner == 1) return weigh_lines(out, in, outer, taps, weights);
  int64_t reads = count / std::max<int64_t>(outputs, 1) + 1;
  parallel_for(0, outer * outputs, grain_of(reads * inner), [&](int64_t from, int64_t to) {
    for (int64_t row = from; row < to; ++row)
      weigh_row(out + row * inner, in + row / outputs * taps.in * inner, inner, taps, weights, row % outputs);
  });
}

void resample_cpu(const Tensor& out, const Tensor& in, int64_t outer, int64_t inner, const FilterTaps& taps) {
  LockRelease release(out.numel() > kGrain);
  visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      if (!taps.copies) return weigh_taps(out.data<T>(), in.data<T>(), outer, inner, taps);
    }
    copy_taps(out.data<T>(), in.data<T>(), outer, inner, taps);
  });
}

}  // namespace

void register_resample() { resample_kernel.set(DeviceType::CPU, resample_cpu); }

}  // namespace facula::cpu::FACULA_ISA
