// LU factors with partial pivoting.
#include "cpu/own_lu.h"

#include <bit>
#include <limits>

#include "cpu/isa/panels.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class T>
class LuFactors {
 public:
  LuFactors(int64_t rows, int64_t columns, const T* a) : work_(rows, columns, a), rows_(rows), columns_(columns) {}

  int32_t factor(int32_t* pivots) {
    const int64_t count = std::min(rows_, columns_);
    for (int64_t first = 0; first < count; first += P) {
      const int width = static_cast<int>(std::min<int64_t>(P, count - first));
      factor_panel(first, width, pivots);
      for (int64_t j = 0; j < columns_; ++j) {
        if (j >= first && j < first + width) continue;
        T* column = work_.column(j);
        for (int64_t k = first; k < first + width; ++k) std::swap(column[k], column[pivots[k] - 1]);
      }
      const Panel<T> panel{work_, first, width};
      panel.template solve<true>(work_, first + width);
      panel.subtract(work_, first + width, first + P, work_.step);
    }
    return info_;
  }
  void copy_to(T* a) { work_.copy_to(a); }

 private:
  static constexpr int P = kLanes<T>;
  using V = typename Panel<T>::V;
  using Integer = typename Panel<T>::Integer;
  using I = typename Panel<T>::I;

  /// The row, from row first + c on, of the element that is largest in size. NaN is none, but stays where it stands
  /// first.
  int64_t row_of_largest(const T* column, int64_t first, int c) const {
    if (column[first + c] != column[first + c]) return first + c;
    V largest = V{} - T(1);
    I best{}, place = places_ + static_cast<Integer>(first);
    for (int64_t r = first; r < work_.step; r += P, place += P) {
      V size = load_vector(column + r);
      size = size < 0 ? -size : size;
      if (r == first) size = places_ < c ? V{} - T(1) : size;
      const I larger = size > largest;
      largest = larger ? size : largest;
      best = larger ? place : best;
    }
    const I alike = largest == merge_all(largest, [](auto a, auto b) { return a > b ? a : b; });
    const uint32_t bits = lane_bits(alike);
    if ((bits & (bits - 1)) == 0) return best[std::countr_zero(bits)];
    best = alike ? best : I{} + std::numeric_limits<Integer>::max();
    return merge_all(best, [](auto a, auto b) { return a < b ? a : b; });
  }

  /// By whole vectors: what is loaded as vectors next need not wait for stores of elements.
  void exchange(T* column, int64_t first, int c, int64_t other) const {
    const T here = column[first + c], there = column[other];
    const int64_t block = first + (other - first) / P * P;
    store(column + first, places_ == c ? V{} + there : load_vector(column + first));
    store(column + block, places_ == static_cast<Integer>(other - block) ? V{} + here : load_vector(column + block));
  }

  void factor_panel(int64_t first, int width, int32_t* pivots) {
    for (int c = 0; c < width; ++c) {
      const int64_t k = first + c;
      T* column = work_.column(k);
      const int64_t best = row_of_largest(column, first, c);
      pivots[k] = static_cast<int32_t>(best) + 1;
      for (int64_t j = first; j < first + width && best != k; ++j) exchange(work_.column(j), first, c, best);
      const bool none = column[k] == 0;
      if (none && info_ == 0) info_ = static_cast<int32_t>(k) + 1;
      const V pivot = V{} + (none ? T(1) : column[k]);  // below a zero all are zero
      const V top = load_vector(column + first), quotient = top / pivot;
      store(column + first, places_ > c ? quotient : top);
      // equal rows have a factor of 1, which a reciprocal may not give
      for (int64_t r = first + P; r < work_.step; r += P) store(column + r, load_vector(column + r) / pivot);
      for (int64_t j = k + 1; j < first + width; ++j) {
        T* to = work_.column(j);
        const T by = to[k];
        const V rows = load_vector(to + first);
        store(to + first, places_ > c ? rows - quotient * by : rows);
        for (int64_t r = first + P; r < work_.step; r += P)
          store(to + r, load_vector(to + r) - load_vector(column + r) * by);
      }
    }
  }

  static void store(T* to, V v) { Panel<T>::store(to, v); }

  Columns<T> work_;
  int64_t rows_, columns_;
  I places_ = Panel<T>::places();
  int32_t info_ = 0;
};

template <class T>
int32_t factor_lu(int64_t rows, int64_t columns, T* a, int32_t* pivots) {
  LuFactors<T> factors(rows, columns, a);
  const int32_t info = factors.factor(pivots);
  factors.copy_to(a);
  return info;
}

}  // namespace

void register_own_lu() {
#ifdef __FP_FAST_FMAF  // products are subtracted with one rounding, as the lanes of small matrices do it
  own_lu<float> = factor_lu<float>;
  own_lu<double> = factor_lu<double>;
#endif
}

}  // namespace facula::cpu::FACULA_ISA
