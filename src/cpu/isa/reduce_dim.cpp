// Extrema with their positions, and order statistics, of whole lines.
#include <algorithm>
#include <cmath>
#include <complex>
#include <limits>
#include <vector>

#include "cpu/isa/lines.h"
#include "cpu/isa/softmax.h"
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
    std::vector<T> sorted(x, x + n);
    std::sort(sorted.begin(), sorted.end(), [](T a, T b) { return less_nan_last(a, b); });
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
  argmax_kernel.set(DeviceType::CPU, position_lines<ArgExtremum<true>, Reals>);
  argmin_kernel.set(DeviceType::CPU, position_lines<ArgExtremum<false>, Reals>);
  median_kernel.set(DeviceType::CPU, position_lines<Median<false>, Reals>);
  nanmedian_kernel.set(DeviceType::CPU, position_lines<Median<true>, Reals>);
  mode_kernel.set(DeviceType::CPU, position_lines<Mode, Reals>);
  prod_others_kernel.set(DeviceType::CPU, map_lines<ProdOthers, Numbers>);
}

}  // namespace facula::cpu::FACULA_ISA
