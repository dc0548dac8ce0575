// Pools of small planes of float32 by rows, with AVX-512: the rows that a window shows are joined first, all columns at
// once, and then the columns of sixteen windows, which permutations bring side by side, whatever the windows are.
#pragma once

#include <algorithm>
#include <limits>

#include "cpu/isa/lanes.h"
#include "cpu/isa/pool_small.h"
#include "cpu/isa/pool_windows.h"

namespace facula::cpu::FACULA_ISA {

#ifdef __AVX512F__

constexpr int64_t kRowLanes = 16;
constexpr int64_t kMostIn = 32, kMostOut = 64;     // of a row: the input is two registers, the results are four
constexpr int64_t kMostPicked = 8;                 // columns of a window
constexpr int64_t kMostPooled = int64_t{1} << 14;  // of all planes, in or out

/// The windows along one dimension, written out.
struct FewWindows {
  int64_t in, out, step;
  int32_t begin[kMostOut], end[kMostOut];
  float divisor[kMostOut];

  explicit FewWindows(const PoolAxis& given) : in(given.in), out(given.out) {
    const PoolAxis axis = as_window(given);
    step = axis.step;
    if (axis.adaptive) {
      for (int64_t o = 0; o < out; ++o) {
        begin[o] = static_cast<int32_t>(axis.begin(o));
        end[o] = static_cast<int32_t>(axis.end(o));
        divisor[o] = static_cast<float>(end[o] - begin[o]);
      }
      return;
    }
    const auto size = static_cast<int32_t>(in), reach = static_cast<int32_t>(step * (axis.kernel - 1) + 1),
               padding = static_cast<int32_t>(axis.padding), kernel = static_cast<int32_t>(axis.kernel),
               by = static_cast<int32_t>(step);
    auto at = -padding;
    for (int64_t o = 0; o < out; ++o, at += static_cast<int32_t>(axis.stride)) {
      const int32_t first = at >= 0 ? at : at + (-at + by - 1) / by * by, last = std::min(at + reach, size);
      begin[o] = first;
      end[o] = std::max(first, last);
      divisor[o] =
          static_cast<float>(axis.counts_padding ? std::min(at + kernel, size + padding) - at : end[o] - first);
    }
  }
};

/// The columns that sixteen windows show first, second, and so on, and which of the windows have as many.
struct Picks {
  int64_t count = 0, results;
  __mmask16 lanes;
  __m512i at[kMostPicked];
  __mmask16 there[kMostPicked];
  __m512 divisor;

  /// Of the windows from `first` on. False where one has too many columns.
  bool set(const PoolAxis& given, int64_t first) {
    const PoolAxis axis = as_window(given);
    results = std::min(kRowLanes, axis.out - first);
    lanes = static_cast<__mmask16>((1u << results) - 1);
    if (axis.adaptive || (axis.step > 1 && axis.padding > 0)) {
      const FewWindows w(axis);
      return set(_mm512_maskz_loadu_epi32(lanes, w.begin + first), _mm512_maskz_loadu_epi32(lanes, w.end + first),
                 _mm512_maskz_loadu_ps(lanes, w.divisor + first), axis.step);
    }
    // in registers: what was just written in parts takes long to read
    const auto all = [](int64_t value) { return _mm512_set1_epi32(static_cast<int>(value)); };
    const __m512i place =
        _mm512_add_epi32(_mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0), all(first));
    const __m512i at = _mm512_sub_epi32(_mm512_mullo_epi32(place, all(axis.stride)), all(axis.padding));
    const __m512i reach = _mm512_add_epi32(at, all(axis.step * (axis.kernel - 1) + 1));
    const __m512i begin = _mm512_max_epi32(at, _mm512_setzero_si512());
    const __m512i end = _mm512_max_epi32(begin, _mm512_min_epi32(reach, all(axis.in)));
    const __m512i counted =
        axis.counts_padding
            ? _mm512_sub_epi32(_mm512_min_epi32(_mm512_add_epi32(at, all(axis.kernel)), all(axis.in + axis.padding)),
                               at)
            : _mm512_sub_epi32(end, begin);
    return set(begin, end, _mm512_cvtepi32_ps(counted), axis.step);
  }

 private:
  bool set(__m512i begin, __m512i end, __m512 divisors, int64_t step) {
    divisor = divisors;
    __m512i column = begin;
    const __m512i by = _mm512_set1_epi32(static_cast<int>(step));
    for (count = 0; count < kMostPicked; ++count, column = _mm512_add_epi32(column, by)) {
      at[count] = column;
      there[count] = _mm512_mask_cmplt_epi32_mask(lanes, column, end);
      if (count && !there[count]) return true;
    }
    return !_mm512_mask_cmplt_epi32_mask(lanes, column, end);
  }
};

/// The columns of a row, or which row they are of.
struct PooledRow {
  __m512 low, high;
};
struct PooledPlaces {
  __m512i low, high;
};

/// Where a new element takes the place of the best one of a column: of equals the first stays, of NaNs the last.
inline __mmask16 outdoes(__m512 value, __m512 best) {
  return _mm512_cmp_ps_mask(value, best, _CMP_GT_OQ) | _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q);
}

enum class RowPool { Mean, Max, Places };

/// The windows of one place along the outer dimensions. `wide`: rows are two registers.
template <RowPool kind, bool wide>
struct RowWindow {
  static constexpr float kLowest = -std::numeric_limits<float>::infinity();
  const __m512 none = _mm512_set1_ps(kind == RowPool::Mean ? 0.0f : kLowest);
  PooledRow values{none, none};
  PooledPlaces rows{};
  bool empty = true;

  void see(const float* row, int64_t place, __mmask16 low, __mmask16 high) {
    const __m512 a = _mm512_mask_loadu_ps(none, low, row);
    see(values.low, rows.low, a, place);
    if constexpr (wide) see(values.high, rows.high, _mm512_mask_loadu_ps(none, high, row + kRowLanes), place);
    empty = false;
  }
  void see(__m512& best, __m512i& best_rows, __m512 a, int64_t place) const {
    if (empty) {
      best = a;
      if constexpr (kind == RowPool::Places) best_rows = _mm512_set1_epi32(static_cast<int>(place));
    } else if constexpr (kind == RowPool::Mean) {
      best = _mm512_add_ps(best, a);
    } else {
      const __mmask16 better = outdoes(a, best);
      best = _mm512_mask_mov_ps(best, better, a);
      if constexpr (kind == RowPool::Places)
        best_rows = _mm512_mask_mov_epi32(best_rows, better, _mm512_set1_epi32(static_cast<int>(place)));
    }
  }

  __m512 pick(__m512i at) const {
    if constexpr (wide) return _mm512_permutex2var_ps(values.low, at, values.high);
    else return _mm512_permutexvar_ps(at, values.low);
  }
  __m512i place(__m512i at) const {
    if constexpr (wide) return _mm512_add_epi32(_mm512_permutex2var_epi32(rows.low, at, rows.high), at);
    else return _mm512_add_epi32(_mm512_permutexvar_epi32(at, rows.low), at);
  }

  __m512 mean(const Picks& picks, __m512 divisor) const {
    __m512 sum = _mm512_setzero_ps();
    for (int64_t k = 0; k < picks.count; ++k) sum = _mm512_mask_add_ps(sum, picks.there[k], sum, pick(picks.at[k]));
    return _mm512_maskz_div_ps(picks.there[0], sum, divisor);
  }
  __m512 max(const Picks& picks) const {
    __m512 best = _mm512_mask_mov_ps(none, picks.there[0], pick(picks.at[0]));
    for (int64_t k = 1; k < picks.count; ++k) {
      const __m512 value = pick(picks.at[k]);
      best = _mm512_mask_mov_ps(best, outdoes(value, best) & picks.there[k], value);
    }
    return best;
  }
  /// The same with the places of the largest in the plane, -1 where a window shows nothing.
  __m512 max(const Picks& picks, __m512i& places) const {
    __m512 best = _mm512_mask_mov_ps(none, picks.there[0], pick(picks.at[0]));
    places = _mm512_mask_mov_epi32(_mm512_set1_epi32(-1), picks.there[0], place(picks.at[0]));
    for (int64_t k = 1; k < picks.count; ++k) {
      const __m512 value = pick(picks.at[k]);
      const __m512i here = place(picks.at[k]);
      const __mmask16 before = _mm512_cmplt_epi32_mask(here, places),
                      both = _mm512_cmp_ps_mask(value, best, _CMP_EQ_OQ),
                      nan = _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q),
                      was_nan = _mm512_cmp_ps_mask(best, best, _CMP_UNORD_Q);
      const __mmask16 better = static_cast<__mmask16>(
          (_mm512_cmp_ps_mask(value, best, _CMP_GT_OQ) | (both & before) | (nan & ~(was_nan & before))) &
          picks.there[k]);
      best = _mm512_mask_mov_ps(best, better, value);
      places = _mm512_mask_mov_epi32(places, better, here);
    }
    return best;
  }
};

template <RowPool kind, bool wide>
void pool_rows(const Tensor& out, const Tensor& indices, const Tensor& in, const FewWindows& w0, const FewWindows& w1,
               const PoolAxis& columns, const Picks* picks, double given_divisor) {
  const int64_t width = columns.in, groups = (columns.out + kRowLanes - 1) / kRowLanes;
  const auto low = static_cast<__mmask16>(wide ? 0xffff : (1u << width) - 1),
             high = static_cast<__mmask16>(wide ? (1u << (width - kRowLanes)) - 1 : 0);
  const int64_t planes = in.size(0) * in.size(1), plane_size = w0.in * w1.in * width;
  const float* plane = in.data<float>();
  float* to = out.data<float>();
  [[maybe_unused]] int64_t* where = kind == RowPool::Places ? indices.data<int64_t>() : nullptr;
  for (int64_t p = 0; p < planes; ++p, plane += plane_size) {
    for (int64_t o0 = 0; o0 < w0.out; ++o0) {
      for (int64_t o1 = 0; o1 < w1.out; ++o1) {
        RowWindow<kind, wide> window;
        for (int64_t i0 = w0.begin[o0]; i0 < w0.end[o0]; i0 += w0.step) {
          for (int64_t i1 = w1.begin[o1]; i1 < w1.end[o1]; i1 += w1.step) {
            const int64_t place = (i0 * w1.in + i1) * width;
            window.see(plane + place, place, low, high);
          }
        }
        for (int64_t k = 0; k < groups; ++k) {
          const Picks& pick = picks[k];
          if constexpr (kind == RowPool::Mean) {
            const float outer = w0.divisor[o0] * w1.divisor[o1];
            const __m512 divisor = given_divisor != 0 ? _mm512_set1_ps(static_cast<float>(given_divisor))
                                                      : _mm512_mul_ps(_mm512_set1_ps(outer), pick.divisor);
            _mm512_mask_storeu_ps(to, pick.lanes, window.empty ? _mm512_setzero_ps() : window.mean(pick, divisor));
          } else if constexpr (kind == RowPool::Max) {
            _mm512_mask_storeu_ps(to, pick.lanes, window.max(pick));
          } else {
            __m512i places = _mm512_set1_epi32(-1);
            _mm512_mask_storeu_ps(to, pick.lanes, window.empty ? window.none : window.max(pick, places));
            _mm512_mask_storeu_epi64(where, static_cast<__mmask8>(pick.lanes),
                                     _mm512_cvtepi32_epi64(_mm512_castsi512_si256(places)));
            if (pick.lanes >> 8)
              _mm512_mask_storeu_epi64(where + 8, static_cast<__mmask8>(pick.lanes >> 8),
                                       _mm512_cvtepi32_epi64(_mm512_extracti64x4_epi64(places, 1)));
            where += pick.results;
          }
          to += pick.results;
        }
      }
    }
  }
}

/// False where the planes, or the windows, are not small: then nothing has happened.
template <RowPool kind>
bool pool_by_rows(const Tensor& out, const Tensor& indices, const Tensor& in, const PoolGeometry& g) {
  if (in.dtype() != DType::Float32 || in.numel() > kMostPooled || out.numel() > kMostPooled || g.axes[2].in > kMostIn ||
      channels_last(in, out))
    return false;
  for (const PoolAxis& axis : g.axes) {
    const int64_t reach = axis.adaptive ? 0 : std::max({axis.step, axis.padding, axis.kernel, axis.stride});
    if (axis.out > kMostOut || axis.in > kMostPooled || reach > kMostPooled) return false;
  }
  const PoolAxis& columns = g.axes[2];
  Picks picks[kMostOut / kRowLanes];
  for (int64_t first = 0; first < columns.out; first += kRowLanes)
    if (!picks[first / kRowLanes].set(columns, first)) return false;
  const FewWindows w0(g.axes[0]), w1(g.axes[1]);
  if (columns.in > kRowLanes) pool_rows<kind, true>(out, indices, in, w0, w1, columns, picks, g.divisor);
  else pool_rows<kind, false>(out, indices, in, w0, w1, columns, picks, g.divisor);
  return true;
}

#endif

}  // namespace facula::cpu::FACULA_ISA
