// Few rows of float32 times a matrix of narrower elements whose columns lie in memory one after the other, as the
// transposed weight of a linear layer: each element is read from memory once and becomes a float in a register. A step
// of generating text is such products, and takes the time in which its weights are read.
#include <algorithm>

#include "core/parallel.h"
#include "cpu/isa/sums.h"
#include "cpu/matmul.h"
#include "ops/quantize.h"

#if defined(__SSE4_1__)
#include <immintrin.h>
#endif

namespace facula::cpu::FACULA_ISA {
namespace {

#define UNROLLED _Pragma("GCC unroll 16")

using V = VectorOf<float>::type;
constexpr int kLanes = VectorOf<float>::lanes, kLine = 64;
constexpr int kMostRows = kVectorBytes == 64 ? 4 : 2;  // whose sums stay in registers

// Types of elements in memory; load() returns kLanes of them as floats. Compilers convert short vectors of bytes one by
// one, unless the code says how.
typedef int32_t Words __attribute__((vector_size(kVectorBytes)));

template <class T>
struct Elements {
  static constexpr int kSize = sizeof(T);
  static V load(const char* from) { return load_wide(reinterpret_cast<const T*>(from)); }
};
struct Bytes {
  static constexpr int kSize = 1;
  static V load(const char* from) {
#if defined(__AVX512F__)
    const auto words = _mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#elif defined(__AVX2__)
    const auto words = _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)));
#elif defined(__SSE4_1__)
    const auto words = _mm_cvtepi8_epi32(_mm_loadu_si32(from));
#else
    Words words;
    for (int i = 0; i < kLanes; ++i) words[i] = static_cast<int8_t>(from[i]);
#endif
    return __builtin_convertvector(reinterpret_cast<Words>(words), V);
  }
};
/// The last `count` elements of a line that ends at `end`, in the last lanes.
template <class Narrow>
V last_elements(const char* end, int64_t count) {
  alignas(64) char bytes[kLanes * Narrow::kSize] = {};
  const auto length = static_cast<size_t>(count * Narrow::kSize);
  std::memcpy(bytes + sizeof bytes - length, end - length, length);
  return Narrow::load(bytes);
}

/// Operands of a product: R rows of x, `row` elements apart, and columns of narrow ones, `column` bytes apart.
struct Lines {
  const float* x;
  int64_t row;
  const char* b;
  int64_t column, length;
};

/// R rows times C columns, each in A sums: to out[r * out_row + c].
template <class Narrow, int R, int C, int A>
[[gnu::noinline]] void dot_tile(const Lines& lines, float* out, int64_t out_row, bool add_to_out) {
  const auto [x, row, b, column, k] = lines;
  V sum[R][C][A] = {};
  auto add = [&](int a, auto left_of, auto right_of) __attribute__((always_inline)) {
    V left[R];
    UNROLLED for (int r = 0; r < R; ++r) left[r] = left_of(x + r * row);
    UNROLLED for (int c = 0; c < C; ++c) {
      const V right = right_of(b + c * column);
      UNROLLED for (int r = 0; r < R; ++r) sum[r][c][a] += left[r] * right;
    }
  };
  auto add_vector = [&](int a, int64_t at) __attribute__((always_inline)) {
    add(
        a, [at](const float* line) { return load_vector(line + at); },
        [at](const char* from) { return Narrow::load(from + at * Narrow::kSize); });
  };
  // memory is prefetched in time where the processor does not foresee it: of several columns, and of conversions that
  // take longer
  constexpr int64_t kAhead = 8192, kStep = A * kLanes;
  constexpr bool kAsk = C > 1 || Narrow::kSize == 1;
  int64_t i = 0;
  for (; i + kStep <= k; i += kStep) {
    if constexpr (kAsk) {
      UNROLLED for (int c = 0; c < C; ++c) {
        UNROLLED for (int64_t line = 0; line < kStep * Narrow::kSize; line += kLine)
            __builtin_prefetch(b + c * column + i * Narrow::kSize + line + kAhead, 0, 2);
      }
    }
    UNROLLED for (int a = 0; a < A; ++a) add_vector(a, i + a * kLanes);
  }
  for (; i + kLanes <= k; i += kLanes) add_vector(0, i);
  if (i < k) {
    const int64_t left = k - i;
    add(
        0,
        [=](const float* line) {
          return last_elements<Elements<float>>(reinterpret_cast<const char*>(line + k), left);
        },
        [=](const char* from) { return last_elements<Narrow>(from + k * Narrow::kSize, left); });
  }
  UNROLLED for (int r = 0; r < R; ++r) {
    UNROLLED for (int c = 0; c < C; ++c) {
      UNROLLED for (int a = 1; a < A; ++a) sum[r][c][0] += sum[r][c][a];
      float& to = out[r * out_row + c];
      to = sum_of_lanes<float>(sum[r][c][0]) + (add_to_out ? to : 0.0f);
    }
  }
}

/// Columns [from, to) of the product, R rows at a time, the largest R first.
template <class Narrow, int R = kMostRows>
void rows_times(const MatrixProduct& p, int64_t row, int64_t from, int64_t to, bool add) {
  // measured: for one row long columns one after the other, else several side by side
  constexpr int64_t kLongColumn = 512;
  constexpr int kColumns = 4;
  const bool alone = R == 1 && p.inner >= kLongColumn;
  const int64_t step = p.b.column * Narrow::kSize, count = alone ? 1 : kColumns;
  const auto tile = alone ? dot_tile<Narrow, 1, 1, 4> : dot_tile<Narrow, R, kColumns, 1>;
  for (; row + R <= p.rows; row += R) {
    Lines lines{reinterpret_cast<const float*>(p.a.data) + row * p.a.row, p.a.row, nullptr, step, p.inner};
    float* out = reinterpret_cast<float*>(p.out) + row * p.out_row;
    for (int64_t c = from; c < to; c += c + count <= to ? count : 1) {
      lines.b = p.b.data + c * step;
      (c + count <= to ? tile : dot_tile<Narrow, R, 1, 1>)(lines, out + c, p.out_row, add);
    }
  }
  if constexpr (R > 1) rows_times<Narrow, R / 2>(p, row, from, to, add);
}

#if defined(__F16C__)
void half_dots(DType dtype, const MatrixProduct& p, int64_t from, int64_t to, bool add) {
  (dtype == DType::Float16 ? rows_times<Elements<Half>> : rows_times<Elements<BFloat16>>)(p, 0, from, to, add);
}
#endif

void weight_int8_linear(const Tensor& out, const Tensor& input, const Tensor& weight, const Tensor& scales) {
  MatrixProduct p;
  p.columns = p.out_row = weight.size(0);
  p.inner = weight.size(1);
  p.rows = out.numel() / p.columns;
  p.a = {input.data<char>(), 0, p.inner, 1};
  p.b = {weight.data<char>(), 0, 1, p.inner};
  p.out = out.data<char>();
  constexpr int64_t kPanel = 64;
  const int64_t n = p.columns, grain = std::max<int64_t>(1, kNarrowPiece / (kPanel * p.inner + 1));
  const float* scale = scales.data<float>();
  LockRelease release(p.rows * n * p.inner > kGrain);
  parallel_for(0, (n + kPanel - 1) / kPanel, grain, [&](int64_t first, int64_t last) {
    for (int64_t from = first * kPanel; from < std::min(last * kPanel, n); from += kPanel) {
      const int64_t end = std::min(from + kPanel, n);
      rows_times<Bytes>(p, 0, from, end, false);
      for (int64_t r = 0; r < p.rows; ++r) {
        float* line = out.data<float>() + r * n;
        FACULA_SIMD
        for (int64_t c = from; c < end; ++c) line[c] *= scale[c];
      }
    }
  });
}

#undef UNROLLED

}  // namespace

void register_narrow_dots() {
  weight_int8_linear_kernel.set(DeviceType::CPU, weight_int8_linear);
#if defined(__F16C__)
  narrow_dots = half_dots;
#endif
}

}  // namespace facula::cpu::FACULA_ISA
