// Matrix products of integers, and of floats too small for a library call.
#include "cpu/matmul.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/parallel.h"
#include "cpu/isa/cast.h"
#include "cpu/isa/sums.h"
#include "cpu/isa/types.h"

namespace facula::cpu::FACULA_ISA {
namespace {

constexpr int64_t kColumnBlock = 512;  // an output row piece stays in the first-level cache

/// One row of the product: out = alpha a b + beta out, over unsigned arithmetic, which wraps.
template <class U>
void row_product(const MatrixProduct& p, const U* a, const U* b, U* out, U alpha, U beta, std::vector<U>& column) {
  if (beta == 0) {
    for (int64_t j = 0; j < p.columns; ++j) out[j] = 0;
  } else if (beta != 1) {
    for (int64_t j = 0; j < p.columns; ++j) out[j] = static_cast<U>(out[j] * beta);
  }
  if (p.b.column != 1 && p.columns != 1) {  // b lies by columns: a dot product each
    column.resize(p.inner);
    for (int64_t k = 0; k < p.inner; ++k) column[k] = a[k * p.a.column];
    for (int64_t j = 0; j < p.columns; ++j) {
      const U* x = b + j * p.b.column;
      U sum = 0;
      for (int64_t k = 0; k < p.inner; ++k) sum = static_cast<U>(sum + column[k] * x[k * p.b.row]);
      out[j] = static_cast<U>(out[j] + alpha * sum);
    }
    return;
  }
  for (int64_t j0 = 0; j0 < p.columns; j0 += kColumnBlock) {
    int64_t width = std::min(kColumnBlock, p.columns - j0);
    U* o = out + j0;
    int64_t k = 0;
    for (; k + 4 <= p.inner; k += 4) {  // four rows of b per pass over the output row
      U x[4];
      for (int64_t r = 0; r < 4; ++r) x[r] = static_cast<U>(alpha * a[(k + r) * p.a.column]);
      const U *y0 = b + k * p.b.row + j0, *y1 = y0 + p.b.row, *y2 = y1 + p.b.row, *y3 = y2 + p.b.row;
      FACULA_SIMD
      for (int64_t j = 0; j < width; ++j)
        o[j] = static_cast<U>(o[j] + x[0] * y0[j] + x[1] * y1[j] + x[2] * y2[j] + x[3] * y3[j]);
    }
    for (; k < p.inner; ++k) {
      U x = static_cast<U>(alpha * a[k * p.a.column]);
      const U* y = b + k * p.b.row + j0;
      FACULA_SIMD
      for (int64_t j = 0; j < width; ++j) o[j] = static_cast<U>(o[j] + x * y[j]);
    }
  }
}

template <class U>
void product_typed(const MatrixProduct& p, int64_t from, int64_t to) {
  U alpha = static_cast<U>(p.alpha.to_int()), beta = static_cast<U>(p.beta.to_int());
  std::vector<U> column;
  for (int64_t r = from; r < to; ++r) {
    int64_t batch = r / p.rows, row = r % p.rows;
    const U* a = reinterpret_cast<const U*>(p.a.data) + batch * p.a.batch + row * p.a.row;
    const U* b = reinterpret_cast<const U*>(p.b.data) + batch * p.b.batch;
    row_product(p, a, b, reinterpret_cast<U*>(p.out) + batch * p.out_batch + row * p.out_row, alpha, beta, column);
  }
}

void integer_product_isa(const MatrixProduct& p, int64_t from, int64_t to) {
  switch (item_size(p.dtype)) {
    case 1: return product_typed<uint8_t>(p, from, to);
    case 2: return product_typed<uint16_t>(p, from, to);
    case 4: return product_typed<uint32_t>(p, from, to);
    default: return product_typed<uint64_t>(p, from, to);
  }
}

// Small products of floats: R rows by W columns of the result stay in registers. The elements of a row of b lie next to
// each other, or (`apart`) a column stride from each other, as in the transposed weight of a linear layer.

template <int R, int W, bool apart, class T>
void tile(const MatrixProduct& p, const T* a, const T* b, T* out, bool add) {
  const int64_t step = apart ? p.b.column : 1;
  T sum[R][W];
  for (int r = 0; r < R; ++r) {
    for (int j = 0; j < W; ++j) sum[r][j] = add ? out[r * p.out_row + j] : T(0);
  }
  for (int64_t k = 0; k < p.inner; ++k) {
    const T* y = b + k * p.b.row;
    for (int r = 0; r < R; ++r) {
      const T x = a[r * p.a.row + k * p.a.column];
      for (int j = 0; j < W; ++j) sum[r][j] += x * y[j * step];
    }
  }
  for (int r = 0; r < R; ++r) {
    for (int j = 0; j < W; ++j) out[r * p.out_row + j] = sum[r][j];
  }
}

/// Columns [from, ...) in tiles of W; returns the first column left over.
template <int W, bool apart, class T>
int64_t tiles(const MatrixProduct& p, const T* a, const T* b, T* out, bool add, int64_t from) {
  const int64_t step = apart ? p.b.column : 1;
  for (; from + W <= p.columns; from += W) {
    int64_t r = 0;
    for (; r + 4 <= p.rows; r += 4)
      tile<4, W, apart>(p, a + r * p.a.row, b + from * step, out + r * p.out_row + from, add);
    for (; r < p.rows; ++r) tile<1, W, apart>(p, a + r * p.a.row, b + from * step, out + r * p.out_row + from, add);
  }
  return from;
}

/// A column times a row: the result is all there is to write, so it is written row by row.
template <class T>
void outer_product(const MatrixProduct& p, const T* a, const T* b, T* out, bool add) {
  for (int64_t r = 0; r < p.rows; ++r, out += p.out_row) {
    const T x = a[r * p.a.row];
    if (add) {
      FACULA_SIMD
      for (int64_t j = 0; j < p.columns; ++j) out[j] += x * b[j];
    } else {
      FACULA_SIMD
      for (int64_t j = 0; j < p.columns; ++j) out[j] = x * b[j];
    }
  }
}

/// One element of the result, from two lines: in blocks, whose sums are added up in double.
template <class T>
T dot_product(const T* a, const T* b, int64_t n) {
  constexpr int64_t kBlock = 512;
  double total = 0;
  for (int64_t at = 0; at < n; at += kBlock) {
    total += sum_by<T>(std::min(kBlock, n - at), [x = a + at, y = b + at](auto each) { return each(x) * each(y); });
  }
  return static_cast<T>(total);
}

#ifdef __AVX512F__

/// R rows of a result whose rows are less than a vector, or one.
template <int R>
void narrow_rows(const MatrixProduct& p, const float* a, const float* b, float* out, bool add) {
  const int64_t n = p.columns, a_row = p.a.row, a_column = p.a.column, b_row = p.b.row;
  VectorOf<float>::type sum[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) sum[r] = add ? load_first(out + r * p.out_row, n, 0.0f) : VectorOf<float>::type{};
  for (int64_t k = 0; k < p.inner; ++k, a += a_column, b += b_row) {
    const auto row = load_first(b, n, 0.0f);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) sum[r] += row * a[r * a_row];
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) store_first(out + r * p.out_row, n, sum[r]);
}

void narrow_product(const MatrixProduct& p, const float* a, const float* b, float* out, bool add) {
  int64_t r = 0;
  for (; r + 8 <= p.rows; r += 8) narrow_rows<8>(p, a + r * p.a.row, b, out + r * p.out_row, add);
  for (; r + 4 <= p.rows; r += 4) narrow_rows<4>(p, a + r * p.a.row, b, out + r * p.out_row, add);
  for (; r < p.rows; ++r) narrow_rows<1>(p, a + r * p.a.row, b, out + r * p.out_row, add);
}

#endif

template <class T>
void small_typed(const MatrixProduct& p, bool add) {
  for (int64_t i = 0; i < p.batch; ++i) {
    const T* a = reinterpret_cast<const T*>(p.a.data) + i * p.a.batch;
    const T* b = reinterpret_cast<const T*>(p.b.data) + i * p.b.batch;
    T* out = reinterpret_cast<T*>(p.out) + i * p.out_batch;
    if (p.rows == 1 && p.columns == 1 && p.a.column == 1 && p.b.row == 1) {
      *out = dot_product(a, b, p.inner) + (add ? *out : T(0));
      continue;
    }
    if (p.b.column != 1 && p.columns != 1) {
      int64_t done = tiles<4, true>(p, a, b, out, add, 0);
      tiles<1, true>(p, a, b, out, add, done);
      continue;
    }
    if (p.inner == 1) {
      outer_product(p, a, b, out, add);
      continue;
    }
#ifdef __AVX512F__
    if constexpr (std::is_same_v<T, float>) {
      if (p.columns > 4 && p.columns <= 16) {
        narrow_product(p, a, b, out, add);
        continue;
      }
    }
#endif
    int64_t done = tiles<64 / sizeof(T), false>(p, a, b, out, add, 0);
    done = tiles<4, false>(p, a, b, out, add, done);
    tiles<1, false>(p, a, b, out, add, done);
  }
}

void small_product_isa(const MatrixProduct& p, bool add) {
  if (p.dtype == DType::Float32) small_typed<float>(p, add);
  else small_typed<double>(p, add);
}

// Few rows (R) times a matrix whose columns have stride one, as the transposed weight of a linear layer: every element
// is a dot product of two lines, R by C of them at a time, a vector of partial sums each. Unrolled, so that sums stay
// in registers.
#define UNROLLED _Pragma("GCC unroll 16")

/// Groups of w lanes of a and of b, each added to w / 2: those of a first.
template <int w, class V, size_t... j>
V fold_groups(V a, V b, std::index_sequence<j...>) {
  constexpr size_t lanes = sizeof...(j), half = w / 2;
  return __builtin_shufflevector(a, b, (j % w < half ? j : lanes + j - half)...) +
         __builtin_shufflevector(a, b, (j % w < half ? j + half : lanes + j)...);
}

/// The sums of as many vectors as each has lanes; what is in `v` is lost.
template <int w, class V>
[[gnu::always_inline]] inline V sum_each(V* v) {
  constexpr int lanes = VectorOf<std::remove_cvref_t<decltype((*v)[0])>>::lanes;
  if constexpr (w == 1) {
    return v[0];
  } else {
    UNROLLED for (int i = 0; i < w / 2; ++i) v[i] =
        fold_groups<w>(v[i], v[i + w / 2], std::make_index_sequence<lanes>());
    return sum_each<w / 2>(v);
  }
}

/// The last `count` elements of a line that ends at `end`, after zeros.
template <class T>
auto last_lanes(const T* end, int64_t count) {
  constexpr int lanes = VectorOf<T>::lanes;
  using Int = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  typedef Int Mask __attribute__((vector_size(kVectorBytes)));
  Mask place;
  UNROLLED for (int i = 0; i < lanes; ++i) place[i] = i;
  const Mask keep = place >= static_cast<Int>(lanes - count);
  return reinterpret_cast<typename VectorOf<T>::type>(reinterpret_cast<Mask>(load_vector(end - lanes)) & keep);
}

/// The dot products of R lines from `a` on with as many lines from `b` on as fill a vector.
template <int R, class T>
void dot_tile(const MatrixProduct& p, const T* a, const T* b, T* sums) {
  constexpr int lanes = VectorOf<T>::lanes, C = lanes / R;
  using V = typename VectorOf<T>::type;
  const int64_t n = p.inner, a_step = p.a.row, b_step = p.b.column;
  V sum[lanes] = {};
  auto add_products = [&](auto load) __attribute__((always_inline)) {
    V x[R];
    UNROLLED for (int r = 0; r < R; ++r) x[r] = load(a + r * a_step);
    UNROLLED for (int c = 0; c < C; ++c) {
      const V y = load(b + c * b_step);
      UNROLLED for (int r = 0; r < R; ++r) sum[r * C + c] += x[r] * y;
    }
  };
  int64_t k = 0;
  for (; k + lanes <= n; k += lanes) add_products([k](const T* line) { return load_vector(line + k); });
  if (k < n) add_products([n, k](const T* line) { return last_lanes(line + n, n - k); });
  const V all = sum_each<lanes>(sum);
  std::memcpy(sums, &all, sizeof all);
}

/// The products of a line with four others, added up in a vector each: so many vectors of a line at a time, so that
/// memory is read in long runs, and lines that share places of the first-level cache fit it.
template <class T, class V = typename VectorOf<T>::type>
[[gnu::noinline]] void four_lines(const T* a, const T* b, int64_t b_step, int64_t n, V* sums) {
  constexpr int lanes = VectorOf<T>::lanes, kLines = 4, kRun = 2;
  V part[kLines * kRun] = {};
  int64_t k = 0;
  for (; k + kRun * lanes <= n; k += kRun * lanes) {
    V x[kRun];
    UNROLLED for (int i = 0; i < kRun; ++i) x[i] = load_vector(a + k + i * lanes);
    UNROLLED for (int c = 0; c < kLines; ++c) {
      UNROLLED for (int i = 0; i < kRun; ++i) part[c * kRun + i] += x[i] * load_vector(b + c * b_step + k + i * lanes);
    }
  }
  if (k + lanes <= n) {
    const V x = load_vector(a + k);
    UNROLLED for (int c = 0; c < kLines; ++c) part[c * kRun] += x * load_vector(b + c * b_step + k);
    k += lanes;
  }
  if (k < n) {
    const V x = last_lanes(a + n, n - k);
    UNROLLED for (int c = 0; c < kLines; ++c) part[c * kRun + 1] += x * last_lanes(b + c * b_step + n, n - k);
  }
  UNROLLED for (int c = 0; c < kLines; ++c) sums[c] = part[c * kRun] + part[c * kRun + 1];
}

/// Whether lines of b share places of the caches, which have room for a few of them only: multiples of 4096 bytes
/// apart. Of a matrix that lies in memory far away many lines are read at once all the same.
template <class T>
bool are_alike(const MatrixProduct& p) {
  constexpr int64_t kApart = 4096 / sizeof(T), kFar = (16 << 20) / sizeof(T);
  return VectorOf<T>::lanes >= 4 && p.b.column % kApart == 0 && p.inner * p.columns <= kFar;
}

/// dot_tile for one line of a.
template <class T>
void line_tile(const MatrixProduct& p, const T* a, const T* b, T* sums) {
  constexpr int lanes = VectorOf<T>::lanes, kLines = 4;
  typename VectorOf<T>::type sum[std::max(lanes, kLines)];
  for (int c = 0; c < lanes; c += kLines) four_lines(a, b + c * p.b.column, p.b.column, p.inner, sum + c);
  const auto all = sum_each<lanes>(sum);
  std::memcpy(sums, &all, sizeof all);
}

/// One dot product, in several vectors of sums.
template <class T>
T long_dot(const T* a, const T* b, int64_t n) {
  constexpr int lanes = VectorOf<T>::lanes, kSums = 8;
  typename VectorOf<T>::type sum[kSums] = {};
  int64_t k = 0;
  for (; k + kSums * lanes <= n; k += kSums * lanes) {
    UNROLLED for (int i = 0; i < kSums; ++i) sum[i] += load_vector(a + k + i * lanes) * load_vector(b + k + i * lanes);
  }
  for (; k + lanes <= n; k += lanes) sum[0] += load_vector(a + k) * load_vector(b + k);
  if (k < n) sum[1] += last_lanes(a + n, n - k) * last_lanes(b + n, n - k);
  UNROLLED for (int half = kSums / 2; half > 0; half /= 2) {
    UNROLLED for (int i = 0; i < half; ++i) sum[i] += sum[i + half];
  }
  return sum_of_lanes<T>(sum[0]);
}

/// Returns true if columns are long and far away: then they are best read one after the other, which the processor
/// foresees.
template <class T>
bool are_far(const MatrixProduct& p) {
  constexpr int64_t kLong = 4096 / sizeof(T) / 2, kFar = (16 << 20) / sizeof(T);
  return p.inner >= kLong && p.inner * p.columns > kFar;
}

template <int R, class T>
void dot_rows(const MatrixProduct& p, const T* a, const T* b, T* out, int64_t from, int64_t to, bool add) {
  if (R == 1 && are_far<T>(p)) {
    for (int64_t c = from; c < to; ++c) out[c] = long_dot(a, b + c * p.b.column, p.inner) + (add ? out[c] : T(0));
    return;
  }
  constexpr int C = VectorOf<T>::lanes / R;
  const bool few_at_once = R == 1 && are_alike<T>(p);
  typedef T Part __attribute__((vector_size(C * sizeof(T))));
  T sums[C * R];
  for (int64_t c = from; c < to; c += C) {
    const int64_t first = std::max(std::min(c, to - C), int64_t{0});  // the last tile overlaps the one before
    if (few_at_once) line_tile(p, a, b + first * p.b.column, sums);
    else dot_tile<R>(p, a, b + first * p.b.column, sums);
    if (c + C <= to) {
      UNROLLED for (int r = 0; r < R; ++r) {
        Part part, old;
        std::memcpy(&part, sums + r * C, sizeof part);
        T* to = out + r * p.out_row + c;
        if (add) {
          std::memcpy(&old, to, sizeof old);
          part += old;
        }
        std::memcpy(to, &part, sizeof part);
      }
    } else {
      for (int r = 0; r < R; ++r)
        for (int64_t j = c; j < to; ++j) {
          T& x = out[r * p.out_row + j];
          x = add ? x + sums[r * C + j - first] : sums[r * C + j - first];
        }
    }
  }
}

/// R rows at a time, the largest R first.
template <int R, class T>
void skinny_rows(const MatrixProduct& p, const T* a, const T* b, T* out, int64_t from, int64_t to, bool add,
                 int64_t row) {
  for (; row + R <= p.rows; row += R) dot_rows<R>(p, a + row * p.a.row, b, out + row * p.out_row, from, to, add);
  if constexpr (R > 1) skinny_rows<R / 2>(p, a, b, out, from, to, add, row);
}

template <class T>
void skinny_typed(const MatrixProduct& p, int64_t from, int64_t to, bool add) {
  constexpr int kRows = std::min(4, VectorOf<T>::lanes);
  skinny_rows<kRows>(p, reinterpret_cast<const T*>(p.a.data), reinterpret_cast<const T*>(p.b.data),
                     reinterpret_cast<T*>(p.out), from, to, add, 0);
}

void skinny_product_isa(const MatrixProduct& p, int64_t from, int64_t to, bool add) {
  if (p.dtype == DType::Float32) skinny_typed<float>(p, from, to, add);
  else skinny_typed<double>(p, from, to, add);
}

/// out += sums of x[i] b[i * step + j] over kLines lines.
constexpr int kLines = 8;
template <int count, class T>
void add_lines(const T* x, const T* b, int64_t step, T* __restrict out, int64_t n) {
  FACULA_SIMD
  for (int64_t j = 0; j < n; ++j) {
    T sum = x[0] * b[j];
    UNROLLED for (int i = 1; i < count; ++i) sum += x[i] * b[i * step + j];
    out[j] += sum;
  }
}

/// One row times b, whose rows are contiguous: results stay in the first-level cache while eight rows of b are added at
/// a time, which lie an eighth of b apart: eight long streams through memory (measured: 30 GB/s, with neighbors 24).
template <class T>
void one_row_typed(const MatrixProduct& p, int64_t from, int64_t to, bool add) {
  constexpr int64_t kResults = 16384 / sizeof(T);
  const T *a = reinterpret_cast<const T*>(p.a.data), *b = reinterpret_cast<const T*>(p.b.data);
  const int64_t apart = p.inner / kLines;
  for (int64_t first = from; first < to; first += kResults) {
    const int64_t n = std::min(kResults, to - first);
    T* out = reinterpret_cast<T*>(p.out) + first;
    if (!add) std::fill_n(out, n, T(0));
    T x[kLines];
    for (int64_t k = 0; k < apart; ++k) {
      UNROLLED for (int i = 0; i < kLines; ++i) x[i] = a[(k + i * apart) * p.a.column];
      add_lines<kLines>(x, b + k * p.b.row + first, apart * p.b.row, out, n);
    }
    for (int64_t k = apart * kLines; k < p.inner; ++k)
      add_lines<1>(a + k * p.a.column, b + k * p.b.row + first, 0, out, n);
  }
}

void one_row_product_isa(const MatrixProduct& p, int64_t from, int64_t to, bool add) {
  if (p.dtype == DType::Float32) one_row_typed<float>(p, from, to, add);
  else one_row_typed<double>(p, from, to, add);
}

#undef UNROLLED

template <class T>
void cross_lines(T* out, const T* a, const T* b, int64_t count, int64_t inner) {
  const T *a1 = a + inner, *a2 = a1 + inner, *b1 = b + inner, *b2 = b1 + inner;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = a1[i] * b2[i] - a2[i] * b1[i];
    out[i + inner] = a2[i] * b[i] - a[i] * b2[i];
    out[i + 2 * inner] = a[i] * b1[i] - a1[i] * b[i];
  }
}

/// Vectors whose elements follow each other.
template <class T>
void cross_triples(T* __restrict out, const T* a, const T* b, int64_t count) {
  FACULA_SIMD
  for (int64_t i = 0; i < count; ++i) {
    const T a0 = a[3 * i], a1 = a[3 * i + 1], a2 = a[3 * i + 2], b0 = b[3 * i], b1 = b[3 * i + 1], b2 = b[3 * i + 2];
    out[3 * i] = a1 * b2 - a2 * b1;
    out[3 * i + 1] = a2 * b0 - a0 * b2;
    out[3 * i + 2] = a0 * b1 - a1 * b0;
  }
}

void cross(const Tensor& out, const Tensor& a, const Tensor& b, int64_t inner) {
  const LockRelease release(out.numel() > kGrain);
  visit_types(Numbers(), out.dtype(), [&]<class T>(TypeTag<T>) {
    T* o = out.data<T>();
    const T *x = a.data<T>(), *y = b.data<T>();
    parallel_for(0, out.numel() / (3 * inner), std::max<int64_t>(1, kGrain / (3 * inner)),
                 [=](int64_t from, int64_t to) {
                   if (inner == 1) return cross_triples(o + 3 * from, x + 3 * from, y + 3 * from, to - from);
                   for (int64_t i = from * 3 * inner; i < to * 3 * inner; i += 3 * inner)
                     cross_lines(o + i, x + i, y + i, inner, inner);
                 });
  });
}

}  // namespace

void register_matmul() {
  cross_kernel.set(DeviceType::CPU, cross);
  integer_product = integer_product_isa;
  small_product = small_product_isa;
  cast_line = cast;
  skinny_product = skinny_product_isa;
  one_row_product = one_row_product_isa;
}

}  // namespace facula::cpu::FACULA_ISA
