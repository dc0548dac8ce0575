// Matrix products on the CPU: which library, how many threads, and products of narrow floats.
#include "cpu/matmul.h"

#include <climits>
#include <cstring>
#include <memory>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "core/copy_bytes.h"
#include "core/parallel.h"
#include "cpu/blas.h"
#include "cpu/gemm.h"
#include "cpu/gemm_half.h"
#include "cpu/onednn.h"
#include "cpu/packed_weights.h"
#include "cpu/product_parts.h"

namespace facula::cpu {
namespace {

void matrix_product_cpu(const MatrixProduct& p);

// Multiply-adds from which a second thread pays, for products and for products with a vector (bound by memory).
constexpr int64_t kThreadedProduct = 1 << 19;
constexpr int64_t kThreadedVector = 1 << 18;
constexpr int64_t kThreadedInBatch = 1 << 24;
constexpr int64_t kLongWork = 1 << 17;  // worth letting other Python threads run

int64_t work_of(const MatrixProduct& p) { return p.rows * p.columns * p.inner; }

/// How a library sees an operand: row after row with a leading dimension, or transposed.
struct Layout2d {
  bool transposed;
  int leading;
};

Layout2d layout_of(const MatrixOperand& m, int64_t rows, int64_t columns) {
  bool by_rows = rows_contiguous(rows, columns, m.row, m.column);
  int64_t lines = by_rows ? rows : columns, length = by_rows ? columns : rows, step = by_rows ? m.row : m.column;
  int64_t leading = lines == 1 ? std::max<int64_t>(length, 1) : step;
  FACULA_CHECK(std::max({lines, length, leading}) <= INT_MAX, ErrorKind::NotImplemented,
               "matmul: sizes and strides of the library have 32 bits, got a matrix of ", rows, " by ", columns,
               " with stride ", step);
  return {!by_rows, static_cast<int>(leading)};
}

template <class T>
void scale_out(const MatrixProduct& p, T beta) {
  for (int64_t i = 0; i < p.batch; ++i) {
    for (int64_t r = 0; r < p.rows; ++r) {
      T* row = reinterpret_cast<T*>(p.out) + i * p.out_batch + r * p.out_row;
      for (int64_t c = 0; c < p.columns; ++c) row[c] = beta == T(0) ? T(0) : row[c] * beta;
    }
  }
}

/// One product of the batch through OpenBLAS.
template <class T>
void blas_product(const MatrixProduct& p, const Layout2d& a, const Layout2d& b, int64_t i, T alpha, T beta) {
  const T* x = reinterpret_cast<const T*>(p.a.data) + i * p.a.batch;
  const T* y = reinterpret_cast<const T*>(p.b.data) + i * p.b.batch;
  T* out = reinterpret_cast<T*>(p.out) + i * p.out_batch;
  int m = static_cast<int>(p.rows), n = static_cast<int>(p.columns), k = static_cast<int>(p.inner);
  if (n == 1 && m > 1) {
    int step = k == 1 ? 1 : static_cast<int>(p.b.row);
    if (beta == T(0))
      for (int r = 0; r < m; ++r) out[r * p.out_row] = T(0);  // the library may read what it scales by zero
    blas::gemv<T>(a.transposed, a.transposed ? k : m, a.transposed ? m : k, alpha, x, a.leading, y, step, beta, out,
                  static_cast<int>(p.out_row));
  } else if (m == 1 && n == 1 && !blas::is_complex_v<T>) {
    if constexpr (!blas::is_complex_v<T>) {
      const T sum = alpha * blas::dot<T>(k, x, static_cast<int>(p.a.column), y, static_cast<int>(p.b.row));
      *out = beta == T(0) ? sum : sum + beta * *out;
    }
  } else if (m == 1) {
    int step = k == 1 ? 1 : static_cast<int>(p.a.column);
    if (beta == T(0))
      for (int c = 0; c < n; ++c) out[c] = T(0);
    const Layout2d by = n == 1 && p.b.row == 1 ? Layout2d{true, k} : b;  // one column is read as one row
    blas::gemv<T>(!by.transposed, by.transposed ? n : k, by.transposed ? k : n, alpha, y, by.leading, x, step, beta,
                  out, 1);
  } else {
    int leading = m == 1 ? n : static_cast<int>(p.out_row);
    blas::gemm<T>(a.transposed, b.transposed, m, n, k, alpha, x, a.leading, y, b.leading, beta, out, leading);
  }
}

// Measured, float32: OpenBLAS has kernels for small products; above about a million multiply-adds oneDNN is 5 to 80 %
// faster on Intel and level on AMD, where only few rows times a transposed matrix are slow (0.4 of OpenBLAS).
constexpr int64_t kOneDnnProduct = 1 << 20;

bool use_onednn(const MatrixProduct& p, const Layout2d& b) {
#if defined(__x86_64__)
  static const bool amd = __builtin_cpu_is("amd");
#else
  static const bool amd = true;
#endif
  return work_of(p) >= kOneDnnProduct && !(amd && p.rows <= 64 && b.transposed) && onednn::available();
}

void onednn_product(const MatrixProduct& p, const Layout2d& a, const Layout2d& b, int64_t i) {
  onednn::sgemm(a.transposed, b.transposed, p.rows, p.columns, p.inner, static_cast<float>(p.alpha.to_double()),
                reinterpret_cast<const float*>(p.a.data) + i * p.a.batch, a.leading,
                reinterpret_cast<const float*>(p.b.data) + i * p.b.batch, b.leading,
                static_cast<float>(p.beta.to_double()), reinterpret_cast<float*>(p.out) + i * p.out_batch, p.out_row);
}

/// Rows [from, to) of the product, or columns where there are more of them.
MatrixProduct piece_of(const MatrixProduct& p, int64_t from, int64_t to) {
  return p.rows >= p.columns ? rectangle(p, from, to, 0, p.columns) : rectangle(p, 0, p.rows, from, to);
}

/// OpenBLAS computes on the calling thread only: its own threads would compete with the pool of everything else, each
/// of the two spinning while the other works.
template <class T>
void blas_on_threads(const MatrixProduct& p, int64_t i, T alpha, T beta) {
  int64_t extent = std::max(p.rows, p.columns);
  parallel_for(0, extent, (extent + num_threads() - 1) / num_threads(), [&](int64_t from, int64_t to) {
    MatrixProduct piece = piece_of(p, from, to);
    blas_product<T>(piece, layout_of(piece.a, piece.rows, piece.inner), layout_of(piece.b, piece.inner, piece.columns),
                    i, alpha, beta);
  });
}

template <class T>
void library_product(const MatrixProduct& p) {
  T alpha = p.alpha.to<T>(), beta = p.beta.to<T>();
  if (p.inner == 0) return scale_out<T>(p, beta);
  Layout2d a = layout_of(p.a, p.rows, p.inner), b = layout_of(p.b, p.inner, p.columns);
  int64_t work = work_of(p);
  bool vector = p.rows == 1 || p.columns == 1;
  if (std::is_same_v<T, float> && !vector && has_own_gemm()) {
    LockRelease release(work * p.batch >= kLongWork);
    return own_product(p);
  }
  bool onednn = std::is_same_v<T, float> && !vector && use_onednn(p, b);
  // threads go to the batch where there is one, to the product where a single one is large
  bool shared = work >= (p.batch > 1 ? kThreadedInBatch
                         : vector    ? kThreadedVector
                                     : kThreadedProduct) &&
                !in_parallel_region();
  LockRelease release(work * p.batch >= kLongWork);
  auto run = [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) {
      if (onednn) onednn_product(p, a, b, i);
      else if (shared) blas_on_threads<T>(p, i, alpha, beta);
      else blas_product<T>(p, a, b, i, alpha, beta);
    }
  };
  if (!onednn) blas::set_threads(1);
  if (shared || p.batch == 1) run(0, p.batch);
  else parallel_for(0, p.batch, std::max<int64_t>(1, kThreadedProduct / std::max<int64_t>(work, 1)), run);
}

std::unique_ptr<float[]> floats(int64_t count) {
  return std::make_unique_for_overwrite<float[]>(static_cast<size_t>(std::max<int64_t>(count, 1)));
}

/// Element strides of a contiguous stand-in for `m`, which keeps the order of its rows and columns.
MatrixOperand widened(const MatrixOperand& m, int64_t batch, int64_t rows, int64_t columns, DType dtype,
                      std::unique_ptr<float[]>& buffer) {
  bool by_rows = rows_contiguous(rows, columns, m.row, m.column);
  int64_t matrices = m.batch == 0 ? 1 : batch;
  if (!buffer) buffer = floats(matrices * rows * columns);
  MatrixOperand wide{reinterpret_cast<const char*>(buffer.get()), m.batch == 0 ? 0 : rows * columns,
                     by_rows ? columns : 1, by_rows ? 1 : rows};
  const int64_t lines = by_rows ? rows : columns, length = by_rows ? columns : rows, step = by_rows ? m.row : m.column;
  const int64_t item = item_size(dtype);
  parallel_for(0, matrices * lines, std::max<int64_t>(1, kGrain / std::max<int64_t>(length, 1)),
               [&](int64_t from, int64_t to) {
                 for (int64_t l = from; l < to; ++l) {
                   const char* source = m.data + ((l / lines) * m.batch + (l % lines) * step) * item;
                   cast_line(DType::Float32, dtype, length, buffer.get() + l * length, source);
                 }
               });
  return wide;
}

// With few rows the second matrix is read once: pieces of so many elements are multiplied while they are in the cache.
constexpr int64_t kFewRows = 32, kConverted = 1 << 16;

// Measured: up to so many rows the second matrix, read once, is best converted in registers.
constexpr int64_t kFewestRows = 8;

/// p, of narrow floats, where `wide` has its first factor and its result in float32.
void product_by_pieces(const MatrixProduct& p, const MatrixProduct& wide) {
  if (narrow_dots && p.rows <= kFewestRows && p.b.row == 1 && wide.a.column == 1 && p.alpha.equals(1) &&
      (p.beta.equals(0) || p.beta.equals(1))) {
    MatrixProduct narrow = wide;
    narrow.b = p.b;
    parallel_for(0, p.columns, std::max<int64_t>(1, kNarrowPiece / p.inner),
                 [&](int64_t from, int64_t to) { narrow_dots(p.dtype, narrow, from, to, p.beta.equals(1)); });
    return;
  }
  const bool by_rows = rows_contiguous(p.inner, p.columns, p.b.row, p.b.column);
  const int64_t lines = by_rows ? p.inner : p.columns, length = by_rows ? p.columns : p.inner;
  const int64_t step = by_rows ? p.b.row : p.b.column, most = std::max<int64_t>(16, kConverted / length);
  std::unique_ptr<float[]> buffer;
  for (int64_t first = 0; first < lines; first += most) {
    MatrixProduct piece = wide;
    (by_rows ? piece.inner : piece.columns) = std::min(most, lines - first);
    MatrixOperand part = p.b;
    part.data += first * step * item_size(p.dtype);
    piece.b = widened(part, 1, piece.inner, piece.columns, p.dtype, buffer);
    const int64_t passed = first * (by_rows ? wide.a.column : 1) * static_cast<int64_t>(sizeof(float));
    if (by_rows) piece.a.data += passed;
    else piece.out += passed;
    if (by_rows && first) piece.beta = 1;
    matrix_product_cpu(piece);
  }
}

#if defined(__x86_64__)
/// AVX512-FP16: bit 23 of EDX in leaf 7.
bool has_float16_products() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 23 & 1);
}
#endif

/// Without such instructions oneDNN emulates them, at a quarter of the speed of float32. A lower level than the
/// processor's has none.
bool library_multiplies([[maybe_unused]] DType dtype) {
#if defined(__x86_64__)
  static const bool float16 = half_gemm && has_float16_products();
  return dtype == DType::Float16 && float16;
#else
  return true;
#endif
}

/// The result starts as rows of the bias, to which the product is added.
MatrixProduct with_bias_in_place(const MatrixProduct& given) {
  MatrixProduct p = given;
  const int64_t bytes = p.columns * item_size(p.dtype);
  parallel_for(0, p.rows, std::max<int64_t>(1, kGrain / p.columns), [&](int64_t from, int64_t to) {
    for (int64_t r = from; r < to; ++r) copy_bytes(p.out + r * p.out_row * item_size(p.dtype), p.bias, bytes);
  });
  p.bias = nullptr;
  p.beta = 1;
  return p;
}

/// What is cached of weights in narrow floats, where `gemm` computes the product: float32, in order.
Tensor cached_wide(const MatrixProduct& p) {
  constexpr int64_t kSmallWeights = 1 << 12;
  if (!p.weights || !has_own_gemm() || p.batch != 1 || p.rows <= kFewRows || p.columns == 1 ||
      p.inner * p.columns <= kSmallWeights)
    return Tensor();
  const int64_t words[] = {static_cast<int64_t>(PackedAs::WideColumns),
                           static_cast<int64_t>(p.dtype),
                           p.inner,
                           p.columns,
                           p.b.row,
                           p.b.column};
  return packed_weight({p.weights, p.b.data, IntList(words, std::size(words))}, packed_bytes(p), [&](char* to) {
    std::unique_ptr<float[]> buffer;
    MatrixProduct wide = p;
    wide.dtype = DType::Float32;
    wide.b = widened(p.b, 1, p.inner, p.columns, p.dtype, buffer);
    pack_columns(wide, reinterpret_cast<float*>(to));
  });
}

/// Narrow floats: multiplied by our own kernels or oneDNN's where the processor has instructions for them, else in
/// float32; rounded once.
void half_product(const MatrixProduct& p) {
  LockRelease release(work_of(p) * p.batch >= kLongWork);
  if (own_half_product(p)) return;
  if (library_multiplies(p.dtype) && work_of(p) >= 4096 && !in_parallel_region() && p.alpha.equals(1) &&
      p.beta.equals(0) && onednn::half_product(p))
    return;
  if (p.bias) return half_product(with_bias_in_place(p));
  std::unique_ptr<float[]> a, b, out = floats(p.batch * p.rows * p.columns);
  MatrixProduct wide = p;
  wide.dtype = DType::Float32;
  wide.weights = nullptr;
  wide.a = widened(p.a, p.batch, p.rows, p.inner, p.dtype, a);
  const bool by_pieces = p.batch == 1 && p.rows <= kFewRows && p.inner * p.columns > 2 * kConverted;
  const Tensor cached = cached_wide(p);
  if (!by_pieces && !cached.defined()) wide.b = widened(p.b, p.batch, p.inner, p.columns, p.dtype, b);
  wide.out = reinterpret_cast<char*>(out.get());
  wide.out_batch = p.rows * p.columns;
  wide.out_row = p.columns;
  auto each_row = [&](auto move) {
    parallel_for(0, p.batch * p.rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(p.columns, 1)),
                 [&](int64_t from, int64_t to) {
                   for (int64_t r = from; r < to; ++r) {
                     const int64_t at = (r / p.rows) * p.out_batch + (r % p.rows) * p.out_row;
                     move(p.out + at * item_size(p.dtype), out.get() + r * p.columns);
                   }
                 });
  };
  if (!p.beta.equals(0))
    each_row([&](const char* row, float* line) { cast_line(DType::Float32, p.dtype, p.columns, line, row); });
  if (cached.defined()) own_product(wide, as_packed(wide, cached.data<float>()));
  else if (by_pieces) product_by_pieces(p, wide);
  else matrix_product_cpu(wide);
  each_row([&](char* row, const float* line) { cast_line(p.dtype, DType::Float32, p.columns, row, line); });
}

const ProductTable& table_of(DType dtype) {
  static constexpr ProductTable others;
  return dtype == DType::Float32 ? float_products : others;
}

constexpr bool is_narrow(int64_t columns) { return columns > 4 && columns <= 16; }

bool is_small(const MatrixProduct& p) {
  if (p.dtype != DType::Float32 && p.dtype != DType::Float64) return false;
  constexpr int64_t kLong = 16;
  const ProductTable& table = table_of(p.dtype);
  const bool transposed = p.b.column != 1 && p.columns != 1;
  return work_of(p) <= (transposed                          ? table.small_transposed
                        : p.inner == 1                      ? table.small_outer
                        : p.rows <= 2 && p.columns >= kLong ? table.small_lines
                        : is_narrow(p.columns)              ? std::max(table.small, table.small_narrow)
                                                            : table.small) &&
         p.batch <= 64 && p.alpha.equals(1) && (p.beta.equals(0) || p.beta.equals(1));
}

// Measured against OpenBLAS and oneDNN, which pack a transposed matrix though it is read once or a few times: up to ten
// times their speed where it is large.
constexpr int64_t kSkinnyPiece = 1 << 15;  // multiply-adds that a second thread pays for

constexpr int64_t kSkinnyWeights = 16;  // rows above which weights that are cached in order are faster

bool is_skinny(const MatrixProduct& p) {
  if (p.inner < kSkinnyInner || p.columns < kSkinnyInner) return false;
  const int kind = p.inner < kMiddleLine ? 0 : p.inner < kLongLine ? 1 : p.inner < kFarLine ? 2 : 3;
  const int64_t rows = table_of(p.dtype).dot_rows[kind];
  const bool may_be_cached = p.weights && p.rows > kSkinnyWeights;
  return p.rows <= rows && !may_be_cached && p.a.column == 1 && p.b.row == 1 &&
         (p.dtype == DType::Float32 || p.dtype == DType::Float64) && p.alpha.equals(1) &&
         (p.beta.equals(0) || p.beta.equals(1));
}

bool product_of_few_rows(const MatrixProduct& given) {
  if (given.inner < kSkinnyInner) return false;
  const MatrixProduct p = with_few_rows(given);
  if (!is_skinny(p)) return false;
  const int64_t work = work_of(p);
  LockRelease release(work * p.batch >= kLongWork);
  const bool add = p.beta.equals(1);
  if (p.batch == 1) {
    const int64_t grain = std::max<int64_t>(64, kSkinnyPiece / (p.rows * p.inner));
    parallel_for(0, p.columns, grain, [&](int64_t from, int64_t to) { skinny_product(p, from, to, add); });
    return true;
  }
  parallel_for(0, p.batch, std::max<int64_t>(1, kSkinnyPiece / work), [&](int64_t from, int64_t to) {
    for (int64_t i = from; i < to; ++i) skinny_product(one_of_batch(p, i), 0, p.columns, add);
  });
  return true;
}

/// One row times a matrix whose rows are contiguous, as GPT-2 keeps its weights. Each thread has its columns whole:
/// short parts of rows come from memory at half the rate.
bool product_of_one_row(const MatrixProduct& given) {
  constexpr int64_t kUncut = 1 << 26;  // elements of b for which a program may wait that wants to stop
  const MatrixProduct p = with_few_rows(given);
  if (p.rows != 1 || p.b.column != 1 || p.columns < kSkinnyInner || p.inner < kSkinnyInner || p.batch != 1 ||
      (p.dtype != DType::Float32 && p.dtype != DType::Float64) || !p.alpha.equals(1) ||
      !(p.beta.equals(0) || p.beta.equals(1)))
    return false;
  const int64_t work = work_of(p), threads = std::clamp<int64_t>(2 * work / kThreadedVector, 1, num_threads());
  LockRelease release(work >= kLongWork);
  const int64_t share = std::max<int64_t>(std::min((p.columns + threads - 1) / threads, kUncut / p.inner), 64);
  const bool add = p.beta.equals(1);
  parallel_for(0, p.columns, share, [&](int64_t from, int64_t to) { one_row_product(p, from, to, add); });
  return true;
}

/// Whether the kernel that will compute `p` adds its bias.
bool adds_bias(const MatrixProduct& p) {
  if (p.dtype == DType::BFloat16 || p.dtype == DType::Float16) return p.inner > 0;
  return p.dtype == DType::Float32 && has_own_gemm() && p.rows > 1 && p.columns > 1 && p.inner > 0 && !is_small(p) &&
         !is_skinny(p);
}

void matrix_product_cpu(const MatrixProduct& p) {
  if (p.batch == 0 || p.rows == 0 || p.columns == 0) return;
  if (p.bias && !adds_bias(p)) return matrix_product_cpu(with_bias_in_place(p));
  // a batch that shares b and whose rows of a follow each other is one taller product
  if (p.batch > 1 && p.b.batch == 0 && p.a.batch == p.rows * p.a.row && p.out_batch == p.rows * p.out_row &&
      lies_evenly(p.batch * p.rows, p.inner, p.a.row, p.a.column)) {
    MatrixProduct one = p;
    one.rows *= p.batch;
    one.batch = 1;
    return matrix_product_cpu(one);
  }
  if (product_of_few_rows(p)) return;
  if (is_small(p)) return small_product(p, p.beta.equals(1));
  if (product_of_one_row(p)) return;
  switch (p.dtype) {
    case DType::Float32: return library_product<float>(p);
    case DType::Float64: return library_product<double>(p);
    case DType::Complex64: return library_product<std::complex<float>>(p);
    case DType::Complex128: return library_product<std::complex<double>>(p);
    case DType::Float16:
    case DType::BFloat16: return half_product(p);
    default: break;
  }
  FACULA_CHECK(is_integral(p.dtype), ErrorKind::Runtime, "matmul: not implemented for dtype ", p.dtype);
  LockRelease release(work_of(p) * p.batch >= kLongWork);
  parallel_for(0, p.batch * p.rows, std::max<int64_t>(1, kGrain / std::max<int64_t>(p.columns * p.inner, 1)),
               [&](int64_t from, int64_t to) { integer_product(p, from, to); });
}

}  // namespace

void register_matmul() { matrix_product_kernel.set(DeviceType::CPU, matrix_product_cpu); }

}  // namespace facula::cpu
