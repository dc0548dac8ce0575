// QR factors and singular values of small matrices.
#include <limits>

#include "cpu/isa/small_lanes.h"

namespace facula::cpu::FACULA_ISA {
namespace {

constexpr int kElements = kSmallMatrix * kSmallMatrix;

/// The reflector that takes column x to a multiple of its first element, which that becomes; its vector, whose first
/// element is one, stays in place of the others.
template <class T>
LaneValues<T> reflector_in_lanes(int n, LaneValues<T>* x) {
  using V = LaneValues<T>;
  const V one = V{} + T(1);
  V largest{};
  for (int i = 1; i < n; ++i) {
    const V size = lanes_abs(x[i]);
    largest = size > largest || size != size ? size : largest;
  }
  const auto none = largest == 0;
  const V first = x[0], all = largest < lanes_abs(first) ? lanes_abs(first) : largest;
  const V scale = none ? one : all, start = first / scale;  // squares are then numbers of T
  V square = start * start;
  for (int i = 1; i < n; ++i) {
    const V part = x[i] / scale;
    square += part * part;
  }
  const V length = lanes_sqrt(square), beta = start < 0 ? length : -length, divisor = none ? one : start - beta;
  for (int i = 1; i < n; ++i) x[i] = none ? V{} : x[i] / scale / divisor;
  x[0] = none ? first : beta * scale;
  return none ? V{} : (beta - start) / beta;
}

/// Applies a reflector whose vector begins with a one that is not in memory.
template <class T>
void reflect_in_lanes(int n, const LaneValues<T>* v, LaneValues<T> tau, LaneValues<T>* x) {
  LaneValues<T> product = x[0];
  for (int i = 1; i < n; ++i) product += v[i] * x[i];
  product *= tau;
  x[0] -= product;
  for (int i = 1; i < n; ++i) x[i] -= v[i] * product;
}

template <class T>
void small_qr(int rows, int columns, T* a, T* tau, int matrices) {
  using V = LaneValues<T>;
  V x[kElements], factors[kSmallMatrix];
  load_lanes(x, a, rows * columns, matrices);
  const int count = std::min(rows, columns);
  for (int j = 0; j < count; ++j) {
    V* column = x + j * rows + j;
    factors[j] = reflector_in_lanes<T>(rows - j, column);
    for (int c = j + 1; c < columns; ++c) reflect_in_lanes<T>(rows - j, column, factors[j], x + c * rows + j);
  }
  store_lanes(a, x, rows * columns, matrices);
  store_lanes(tau, factors, count, matrices);
}

template <class T>
void small_reflectors(int rows, int columns, int count, T* a, const T* tau, int matrices) {
  using V = LaneValues<T>;
  V x[kElements], factors[kSmallMatrix];
  load_lanes(x, a, rows * columns, matrices);
  load_lanes(factors, tau, count, matrices);
  for (int c = count; c < columns; ++c)
    for (int i = 0; i < rows; ++i) x[c * rows + i] = V{} + T(i == c);
  for (int j = count; j-- > 0;) {
    V* column = x + j * rows + j;
    for (int c = j + 1; c < columns; ++c) reflect_in_lanes<T>(rows - j, column, factors[j], x + c * rows + j);
    for (int i = 1; i < rows - j; ++i) column[i] *= -factors[j];
    column[0] = T(1) - factors[j];
    for (int i = 0; i < j; ++i) x[j * rows + i] = V{};
  }
  store_lanes(a, x, rows * columns, matrices);
}

/// Rotates pairs of columns of m x n matrices, m >= n, until all are orthogonal (one-sided Jacobi); the rotations are
/// made in `v`, too, where that is given. The lanes in which that has not ended are returned. Fourth powers of elements
/// are numbers of T.
template <class T>
LaneIntegers<T> make_orthogonal(int m, int n, LaneValues<T>* a, LaneValues<T>* v) {
  using V = LaneValues<T>;
  using I = LaneIntegers<T>;
  constexpr int kMostSweeps = 30;
  const T tolerance = static_cast<T>(m) * std::numeric_limits<T>::epsilon() / 2;
  auto product = [&](const V* x, const V* y) {
    V sum = x[0] * y[0];
    for (int i = 1; i < m; ++i) sum += x[i] * y[i];
    return sum;
  };
  I changed = ~I{};
  for (int sweep = 0; sweep < kMostSweeps && lane_bits(changed); ++sweep) {
    changed = I{};
    for (int p = 0; p < n; ++p) {
      for (int q = p + 1; q < n; ++q) {
        V *x = a + p * m, *y = a + q * m;
        const V xx = product(x, x), yy = product(y, y), xy = product(x, y);
        const I turns = lanes_abs(xy) > tolerance * lanes_sqrt(V(xx * yy));
        if (!lane_bits(turns)) continue;
        changed |= turns;
        const V zeta = (yy - xx) / (turns ? xy + xy : V{} + T(1));
        const V tangent = T(1) / (lanes_abs(zeta) + lanes_sqrt(V(T(1) + zeta * zeta)));
        const V t = turns ? (zeta < 0 ? -tangent : tangent) : V{};
        const V c = T(1) / lanes_sqrt(V(T(1) + t * t)), s = c * t;
        auto rotate = [&](V* first, V* second, int count) {
          for (int i = 0; i < count; ++i) {
            const V before = first[i];
            first[i] = c * before - s * second[i];
            second[i] = s * before + c * second[i];
          }
        };
        rotate(x, y, m);
        if (v) rotate(v + p * n, v + q * n, n);
      }
    }
  }
  return changed;
}

template <class T>
uint32_t small_singular(int rows, int columns, const T* a, T* s, T* u, T* vh, int matrices) {
  using V = LaneValues<T>;
  using I = LaneIntegers<T>;
  const bool tall = rows >= columns;
  const int m = std::max(rows, columns), n = std::min(rows, columns), size = m * n;
  V given[kElements], turned[kElements], basis[kElements] = {}, values[kSmallMatrix], *x = given;
  load_lanes(given, a, size, matrices);
  if (!tall) {
    for (int r = 0; r < rows; ++r)
      for (int c = 0; c < columns; ++c) turned[r * m + c] = given[c * rows + r];
    x = turned;
  }
  V largest{};
  for (int e = 0; e < size; ++e) {
    const V element = lanes_abs(x[e]);
    largest = element > largest || element != element ? element : largest;
  }
  const T most = std::sqrt(std::sqrt(std::numeric_limits<T>::max())) / kSmallMatrix;  // fourth powers stay finite
  const I moderate = (largest < most) & ((largest == 0) | (largest > 1 / most));      // NaN is not
  for (int e = 0; e < size; ++e) x[e] = moderate ? x[e] : V{};
  for (int j = 0; j < n; ++j) basis[j * n + j] = V{} + T(1);
  I failed = make_orthogonal<T>(m, n, x, u ? basis : nullptr) | (moderate == 0);
  for (int j = 0; j < n; ++j) {
    V square{};
    for (int i = 0; i < m; ++i) square += x[j * m + i] * x[j * m + i];
    values[j] = lanes_sqrt(square);
  }
  for (int end = n; end > 1; --end) {
    for (int j = 0; j + 1 < end; ++j) {
      const I wrong = values[j] < values[j + 1];
      exchange_where(wrong, values[j], values[j + 1]);
      for (int i = 0; i < m && u; ++i) exchange_where(wrong, x[j * m + i], x[(j + 1) * m + i]);
      for (int i = 0; i < n && u; ++i) exchange_where(wrong, basis[j * n + i], basis[(j + 1) * n + i]);
    }
  }
  if (u) {  // a column of length nothing says nothing of the vector
    failed |= values[n - 1] * most <= largest;
    for (int j = 0; j < n; ++j)
      for (int i = 0; i < m; ++i) x[j * m + i] /= values[j];
  }
  const uint32_t bits = lane_bits(failed) & ((1u << matrices) - 1);
  V right[kElements];
  const V *left = tall ? x : basis, *of_right = tall ? basis : x;
  const int length = tall ? n : m;
  for (int j = 0; j < n && u; ++j)
    for (int i = 0; i < length; ++i) right[i * n + j] = of_right[j * length + i];
  if (bits == 0) {
    store_lanes(s, values, n, matrices);
    if (!u) return 0;
    store_lanes(u, left, rows * n, matrices);
    store_lanes(vh, right, columns * n, matrices);
    return 0;
  }
  for (int l = 0; l < matrices; ++l) {
    if (bits >> l & 1) continue;
    for (int e = 0; e < n; ++e) s[l * n + e] = values[e][l];
    for (int e = 0; e < rows * n && u; ++e) u[l * rows * n + e] = left[e][l];
    for (int e = 0; e < columns * n && u; ++e) vh[l * columns * n + e] = right[e][l];
  }
  return bits;
}

template <class T>
void set_spectral() {
  SmallMatrices<T>& table = small_matrices<T>;
  table.qr = small_qr<T>;
  table.reflectors = small_reflectors<T>;
  table.singular = small_singular<T>;
}

}  // namespace

void register_small_spectral() {
  set_spectral<float>();
  set_spectral<double>();
}

}  // namespace facula::cpu::FACULA_ISA
