// Extrema with their positions, and order statistics, of whole lines.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "cpu/isa/line_walk.h"
#include "cpu/isa/softmax.h"
#include "cpu/isa/transpose.h"
#include "cpu/select.h"
#include "kernels/elementwise.h"
#include "ops/reduce.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class T>
bool same_value(T a, T b) {
  return (a == b) | ((a != a) & (b != b));
}

// Blocks that stay in the fastest cache: first the block with the best value, then its place.
template <bool largest>
struct ArgExtremum {
  template <class T>
  void operator()(int64_t n, const T* x, T* value, int64_t* position) const {
    constexpr int64_t kBlock = 2048, kStep = 64;
    T best = x[0];
    int64_t block = 0;
    for (int64_t i = 0; i < n; i += kBlock) {
      T here = extremum<T, largest>(std::min(kBlock, n - i), x + i);
      if (best == best && (here != here || (largest ? here > best : here < best))) {
        best = here;
        block = i;
      }
    }
    for (; block + kStep <= n; block += kStep) {  // whether it is among the next ones, then where
      unsigned found = 0;
      for (int64_t i = 0; i < kStep; ++i) found |= static_cast<unsigned>(same_value(x[block + i], best));
      if (found) break;
    }
    const int32_t left = static_cast<int32_t>(std::min(kStep, n - block));
    int32_t place = left;  // the first of them that is it
#pragma omp simd reduction(min : place)
    for (int32_t i = 0; i < left; ++i) place = std::min(place, same_value(x[block + i], best) ? i : left);
    *value = best;
    *position = block + place;
  }
};

/// The extrema of `width` columns of n rows, `stride` elements apart.
template <bool largest, class T>
void extrema_of_columns(const T* x, int64_t n, int64_t stride, int64_t width, T* values, int64_t* positions) {
  using Place = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;  // vectors of both have one width
  T best[kSideBySide];
  Place place[kSideBySide] = {};
  std::copy_n(x, width, best);
  for (int64_t r = 1; r < n; ++r) {
    x += stride;
    FACULA_SIMD
    for (int64_t c = 0; c < width; ++c) {  // the first of equals, and of NaNs
      const bool stays = (best[c] != best[c]) | (largest ? x[c] <= best[c] : x[c] >= best[c]);
      best[c] = stays ? best[c] : x[c];
      place[c] = stays ? place[c] : static_cast<Place>(r);
    }
  }
  std::copy_n(best, width, values);
  std::copy_n(place, width, positions);
}

constexpr int64_t kShortRow = 64;  // elements

/// The same of rows of up to kShortRow elements, which are turned to columns.
template <bool largest, class T>
void extrema_of_rows(const T* x, int64_t rows, int64_t n, T* values, int64_t* positions) {
  constexpr int64_t kTogether = 16, item = sizeof(T);
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  T turned[kShortRow * kTogether];
  for (int64_t r = 0; r < rows; r += kTogether) {
    const int64_t count = std::min(kTogether, rows - r);
    transpose_tiles<Bits>(reinterpret_cast<const char*>(x + r * n), n * item, reinterpret_cast<char*>(turned),
                          kTogether * item, n, count);
    extrema_of_columns<largest>(turned, n, kTogether, count, values + r, positions + r);
  }
}

template <bool largest>
void arg_extremum_cpu(DType compute, int64_t dim, const Tensor& in, const Tensor& values, const Tensor& positions) {
  const int64_t n = in.dim() ? in.size(dim) : 1, rows = n ? in.numel() / n : 0;
  const bool dense = in.dtype() == compute && in.is_contiguous() && values.is_contiguous() && positions.is_contiguous();
  if (dense && dim == in.dim() - 1 && rows >= 4 && n <= kShortRow) {
    LockRelease unlocked(in.numel() > 4 * kGrain);
    visit_types(Reals(), compute, [&]<class T>(TypeTag<T>) {
      parallel_for(0, rows, kGrain / n, [&](int64_t from, int64_t to) {
        extrema_of_rows<largest>(in.data<T>() + from * n, to - from, n, values.data<T>() + from,
                                 positions.data<int64_t>() + from);
      });
    });
  } else if (lie_side_by_side(compute, dim, in, {&values, &positions})) {
    visit_types(Reals(), compute, [&]<class T>(TypeTag<T>) {
      for_side_by_side(in, dim, [&](const SideBySide& s) {
        extrema_of_columns<largest>(in.data<T>() + s.at, s.n, s.stride, s.width, values.data<T>() + s.to,
                                    positions.data<int64_t>() + s.to);
      });
    });
  } else {
    position_lines<ArgExtremum<largest>, Reals>(compute, dim, in, values, positions);
  }
}

template <class T>
bool less_nan_last(T a, T b) {
  return a < b || (b != b && a == a);
}

template <class T>
constexpr T largest() {
  if constexpr (std::is_floating_point_v<T>) return std::numeric_limits<T>::infinity();
  else return std::numeric_limits<T>::max();
}

template <bool ignore_nan>
struct Median {
  template <class T>
  void operator()(int64_t n, const T* x, T* value, int64_t* position) const {
    int64_t nans = 0, first_nan = -1;
    for (int64_t i = n; i-- > 0;) {
      if (x[i] == x[i]) continue;
      ++nans;
      first_nan = i;
    }
    if (nans == n || (nans && !ignore_nan)) {
      *position = first_nan;
    } else {
      // the element in the middle of the sorted line, equal ones in their order
      const int64_t middle = (n - nans - 1) / 2;
      const T last = largest<T>();  // NaN comes last
      const T wanted = kth_smallest<T>(n, middle, [=](int64_t i) { return x[i] == x[i] ? x[i] : last; });
      int64_t skip = middle;
      for (int64_t i = 0; i < n; ++i) skip -= x[i] < wanted;
      int64_t at = std::find(x, x + n, wanted) - x;
      for (; skip > 0; --skip) at = std::find(x + at + 1, x + n, wanted) - x;
      *position = at;
    }
    *value = x[*position];
  }
};

struct Mode {
  template <class T>
  void operator()(int64_t n, const T* x, T* value, int64_t* position) const {
    constexpr int64_t kFew = 64;
    T few[kFew];
    std::vector<T> many(static_cast<size_t>(n > kFew ? n : 0));
    T* const sorted = n > kFew ? many.data() : few;
    std::copy_n(x, n, sorted);
    std::sort(sorted, sorted + n, [](T a, T b) { return less_nan_last(a, b); });
    int64_t best = 0, at = 0;
    for (int64_t from = 0, to; from < n; from = to) {
      for (to = from + 1; to < n && sorted[to] == sorted[from]; ++to) {
      }
      if (to - from <= best) continue;
      best = to - from;
      at = from;
    }
    *position = 0;
    for (int64_t i = n; i-- > 0 && sorted[at] == sorted[at];) {
      if (x[i] != sorted[at]) continue;
      *position = i;
      break;
    }
    *value = x[*position];
  }
};

struct ProdOthers {
  template <class T>
  void operator()(int64_t n, const T* x, T* out) const {
    T before = T(1), after = T(1);
    for (int64_t i = 0; i < n; ++i) {
      out[i] = before;
      before = kernels::mul(before, x[i]);
    }
    for (int64_t i = n; i-- > 0;) {
      out[i] = kernels::mul(out[i], after);
      after = kernels::mul(after, x[i]);
    }
  }
};

}  // namespace

void register_reduce_dim() {
  argmax_kernel.set(DeviceType::CPU, arg_extremum_cpu<true>);
  argmin_kernel.set(DeviceType::CPU, arg_extremum_cpu<false>);
  median_kernel.set(DeviceType::CPU, position_lines<Median<false>, Reals>);
  nanmedian_kernel.set(DeviceType::CPU, position_lines<Median<true>, Reals>);
  mode_kernel.set(DeviceType::CPU, position_lines<Mode, Reals>);
  prod_others_kernel.set(DeviceType::CPU, map_lines<ProdOthers, Numbers>);
}

}  // namespace facula::cpu::FACULA_ISA
