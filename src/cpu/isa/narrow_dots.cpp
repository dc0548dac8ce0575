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
constexpr int kMostRows = kVectorBytes == 64 ? 4 : 2, kColumns = 4;  // of sums that stay in registers

// What lies in memory: kLanes of them as floats. Compilers convert short vectors of bytes one by one, if not told how.
typedef int32_t Words __attribute__((vector_size(kVectorBytes)));

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
#if defined(__F16C__)
struct BFloats {
  static constexpr int kSize = 2;
  static V load(const char* from) {
#if defined(__AVX512F__)
    const auto words = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#else
    const auto words = _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#endif
    return reinterpret_cast<V>(reinterpret_cast<Words>(words) << 16);
  }
};
struct Halves {
  static constexpr int kSize = 2;
  static V load(const char* from) {
#if defined(__AVX512F__)
    return reinterpret_cast<V>(_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from))));
#else
    return reinterpret_cast<V>(_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))));
#endif
  }
};
#endif

/// The last `count` elements of a line that ends at `end`, in the last lanes.
template <class Narrow>
V last_elements(const char* end, int64_t count) {
  alignas(64) char bytes[kLanes * Narrow::kSize] = {};
  const auto length = static_cast<size_t>(count * Narrow::kSize);
  std::memcpy(bytes + sizeof bytes - length, end - length, length);
  return Narrow::load(bytes);
}

/// R rows of x, x_row apart, times C columns of b, b_column bytes apart, of k elements each: sums[r * sums_row + c].
template <class Narrow, int R, int C>
[[gnu::noinline]] void dot_tile(const float* x, int64_t x_row, const char* b, int64_t b_column, int64_t k, float* sums,
                                int64_t sums_row, bool add_to_sums) {
  V sum[R][C] = {};
  auto add = [&](auto left_of, auto right_of) __attribute__((always_inline)) {
    V left[R];
    UNROLLED for (int r = 0; r < R; ++r) left[r] = left_of(x + r * x_row);
    UNROLLED for (int c = 0; c < C; ++c) {
      const V right = right_of(b + c * b_column);
      UNROLLED for (int r = 0; r < R; ++r) sum[r][c] += left[r] * right;
    }
  };
  constexpr int kStep = kLine / Narrow::kSize;
  int64_t i = 0;
  auto add_vector = [&](int64_t at) __attribute__((always_inline)) {
    add([at](const float* line) { return load_vector(line + at); },
        [at](const char* column) { return Narrow::load(column + at * Narrow::kSize); });
  };
  for (; i + kStep <= k; i += kStep) {
    // of the next tile: a column is too short for the processor to foresee it
    UNROLLED for (int c = 0; c < C; ++c) __builtin_prefetch(b + (c + C) * b_column + i * Narrow::kSize, 0, 2);
    UNROLLED for (int j = 0; j < kStep; j += kLanes) add_vector(i + j);
  }
  for (; i + kLanes <= k; i += kLanes) add_vector(i);
  if (i < k) {
    add(
        [=](const float* line) {
          V last = {};
          std::memcpy(reinterpret_cast<float*>(&last) + kLanes - (k - i), line + i,
                      static_cast<size_t>(k - i) * sizeof(float));
          return last;
        },
        [=](const char* column) { return last_elements<Narrow>(column + k * Narrow::kSize, k - i); });
  }
  UNROLLED for (int r = 0; r < R; ++r) {
    UNROLLED for (int c = 0; c < C; ++c) {
      float& to = sums[r * sums_row + c];
      to = sum_of_lanes<float>(sum[r][c]) + (add_to_sums ? to : 0.0f);
    }
  }
}

/// Columns [from, to) of the product, R rows at a time, the largest R first.
template <class Narrow, int R = kMostRows>
void rows_times(const MatrixProduct& p, int64_t row, int64_t from, int64_t to, bool add) {
  const int64_t step = p.b.column * Narrow::kSize;
  for (; row + R <= p.rows; row += R) {
    const float* x = reinterpret_cast<const float*>(p.a.data) + row * p.a.row;
    float* out = reinterpret_cast<float*>(p.out) + row * p.out_row;
    int64_t c = from;
    for (; c + kColumns <= to; c += kColumns)
      dot_tile<Narrow, R, kColumns>(x, p.a.row, p.b.data + c * step, step, p.inner, out + c, p.out_row, add);
    for (; c < to; ++c) dot_tile<Narrow, R, 1>(x, p.a.row, p.b.data + c * step, step, p.inner, out + c, p.out_row, add);
  }
  if constexpr (R > 1) rows_times<Narrow, R / 2>(p, row, from, to, add);
}

#if defined(__F16C__)
void half_dots(DType dtype, const MatrixProduct& p, int64_t from, int64_t to, bool add) {
  (dtype == DType::Float16 ? rows_times<Halves> : rows_times<BFloats>)(p, 0, from, to, add);
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
