// Products of 8-bit integers in int32, exact on every processor.
//
// Both factors are put in order first: columns of the result in panels, and of k so many neighbors beside each other
// as one instruction adds up. With AVX-512 VNNI that are four bytes, of which those of the left factor have no sign:
// int8 is shifted by 128 there, and 128 times the column's sum taken off the result. AVX2's instruction for bytes adds
// two products in 16 bits and saturates: it serves left factors of at most seven bits. Everywhere else they are two
// numbers of 16 bits. The order of the weight is kept between calls (cpu/packed_weights.h). Tiles of AMX take the order
// of VNNI (cpu/isa/tiles.h).
//
// Long because each way to multiply is a type that all three products are made of.
#include "ops/quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

#include "core/parallel.h"
#include "cpu/isa.h"
#include "cpu/isa/lanes.h"
#include "cpu/isa/tiles.h"
#include "cpu/packed_weights.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// Rows of the left factor in order: `row` bytes each.
struct Left {
  const char* data;
  int64_t row;
};

template <class Item>
Item item_at(const char* p) {
  Item item;
  std::memcpy(&item, p, sizeof(Item));
  return item;
}

#if defined(__AVX2__)
/// A tile of 16 columns: load(b) reads what is next of eight of them, `bytes` in memory; add(sum, word, columns) adds
/// to eight sums what 32 bits of the left factor give with it.
template <int R, int bytes, class Load, class Add>
void tile_of_16(const Left& a, const char* b, int64_t steps, int32_t* out, Load load, Add add) {
  __m256i sums[R][2];  // in registers: set one by one, and every loop over them is unrolled
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) sums[r][0] = sums[r][1] = _mm256_setzero_si256();
  for (int64_t s = 0; s < steps; ++s, b += 2 * bytes) {
    const __m256i b0 = load(b), b1 = load(b + bytes);
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
      const __m256i word = _mm256_set1_epi32(item_at<int32_t>(a.data + r * a.row + 4 * s));
      sums[r][0] = add(sums[r][0], word, b0);
      sums[r][1] = add(sums[r][1], word, b1);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < R; ++r) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 16 * r), sums[r][0]);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 16 * r + 8), sums[r][1]);
  }
}
#endif

/// Two numbers of 16 bits at a time; those of the weight are read as bytes.
struct Pairs {
  using Item = int16_t;
  static constexpr int kColumns = 16, kRows = 6, kStep = 2, kOffset = 0;

  template <int R>
  static void tile(const Left& a, const char* b, int64_t steps, int32_t* out) {
#if defined(__AVX2__)
    tile_of_16<R, 16>(
        a, b, steps, out,
        [](const char* from) { return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from))); },
        [](__m256i sum, __m256i word, __m256i columns) {
          return _mm256_add_epi32(sum, _mm256_madd_epi16(word, columns));
        });
#else
    std::array<std::array<uint32_t, kColumns>, R> sums = {};  // without sign: they may wrap around
    for (int64_t s = 0; s < steps; ++s, b += 2 * kColumns) {
      std::array<int8_t, 2 * kColumns> pairs;
      std::memcpy(pairs.data(), b, sizeof(pairs));
      for (int r = 0; r < R; ++r) {
        const int32_t a0 = item_at<int16_t>(a.data + r * a.row + 4 * s),
                      a1 = item_at<int16_t>(a.data + r * a.row + 4 * s + 2);
        FACULA_SIMD
        for (int c = 0; c < kColumns; ++c)
          sums[r][c] += static_cast<uint32_t>(a0 * pairs[2 * c] + a1 * pairs[2 * c + 1]);
      }
    }
    std::memcpy(out, sums.data(), sizeof(sums));
#endif
  }
};

#if defined(__AVX2__)
/// Four bytes at a time, those of the left factor from 0 to 127: two products are at most 2 * 127 * 128, which 16 bits
/// hold.
struct SevenBits {
  using Item = int8_t;
  static constexpr int kColumns = 16, kRows = 4, kStep = 4, kOffset = 0;

  template <int R>
  static void tile(const Left& a, const char* b, int64_t steps, int32_t* out) {
    const __m256i ones = _mm256_set1_epi16(1);
    tile_of_16<R, 32>(
        a, b, steps, out, [](const char* from) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)); },
        [ones](__m256i sum, __m256i word, __m256i columns) {
          return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(word, columns), ones));
        });
  }
};
#else
using SevenBits = Pairs;
#endif

#if defined(__AVX512F__)
/// Four bytes at a time.
struct Fours {
  using Item = int8_t;
  static constexpr int kColumns = 64, kRows = 6, kStep = 4, kOffset = 128;

  template <int R>
  [[gnu::target("avx512vnni")]] static void tile(const Left& a, const char* b, int64_t steps, int32_t* out) {
    __m512i sums[R][4];  // in registers: set one by one, and every loop over them is unrolled
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int c = 0; c < 4; ++c) sums[r][c] = _mm512_setzero_si512();
    }
    for (int64_t s = 0; s < steps; ++s, b += 256) {
      __m512i columns[4];
#pragma GCC unroll 8
      for (int c = 0; c < 4; ++c) columns[c] = _mm512_loadu_si512(b + 64 * c);
#pragma GCC unroll 8
      for (int r = 0; r < R; ++r) {
        const __m512i four = _mm512_set1_epi32(item_at<int32_t>(a.data + r * a.row + 4 * s));
#pragma GCC unroll 8
        for (int c = 0; c < 4; ++c) sums[r][c] = _mm512_dpbusd_epi32(sums[r][c], four, columns[c]);
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 8
      for (int c = 0; c < 4; ++c) _mm512_storeu_si512(out + r * kColumns + 16 * c, sums[r][c]);
    }
  }
};
#endif

#if defined(FACULA_HAS_TILES)
/// The same in registers of whole tiles, for many rows.
template <class Tiles>
struct TiledFours : Fours {
  static constexpr int kRows = 2 * kTileRows;
  using Use = typename Tiles::Use;
  static void rows(int64_t count, const Left& a, const char* b, int64_t steps, int32_t* out) {
    product_of_tiles<Tiles, 256>(a.data, a.row, 4 * steps, count, b, out);
  }
};
#endif

template <class Way>
using Tile = void (*)(const Left&, const char*, int64_t, int32_t*);

/// By the number of rows, less one.
template <class Way>
constexpr std::array<Tile<Way>, 6> kTiles = {Way::template tile<1>, Way::template tile<2>, Way::template tile<3>,
                                             Way::template tile<4>, Way::template tile<5>, Way::template tile<6>};

/// Up to kRows rows times a panel; and what a thread holds meanwhile.
template <class Way>
struct RowsOf {
  struct Use {};
  static void rows(int64_t count, const Left& a, const char* b, int64_t steps, int32_t* out) {
    kTiles<Way>[static_cast<size_t>(count - 1)](a, b, steps, out);
  }
};
#if defined(FACULA_HAS_TILES)
template <class Tiles>
struct RowsOf<TiledFours<Tiles>> : TiledFours<Tiles> {};
#endif

/// The right factor (n, k) in order, panel after panel, then the sums of its rows.
template <class Way>
struct Right {
  int64_t n, k;
  int64_t steps() const { return (k + Way::kStep - 1) / Way::kStep; }
  int64_t panels() const { return (n + Way::kColumns - 1) / Way::kColumns; }
  int64_t panel_bytes() const { return steps() * Way::kStep * Way::kColumns; }
  int64_t bytes() const { return panels() * panel_bytes() + n * int64_t{sizeof(int32_t)}; }

  void pack(const int8_t* b, char* to) const {
    auto* sums = reinterpret_cast<int32_t*>(to + panels() * panel_bytes());
    parallel_for(0, panels(), std::max<int64_t>(1, kGrain / (k * Way::kColumns + 1)), [&](int64_t from, int64_t end) {
      for (int64_t p = from; p < end; ++p) {
        auto* panel = reinterpret_cast<int8_t*>(to + p * panel_bytes());
        std::memset(panel, 0, static_cast<size_t>(panel_bytes()));
        for (int64_t c = 0; c < std::min<int64_t>(Way::kColumns, n - p * Way::kColumns); ++c) {
          const int64_t column = p * Way::kColumns + c;
          const int8_t* row = b + column * k;
          constexpr int kStep = Way::kStep;
          for (int64_t s = 0; s < k / kStep; ++s)
            for (int i = 0; i < kStep; ++i) panel[(s * Way::kColumns + c) * kStep + i] = row[s * kStep + i];
          for (int64_t i = k / kStep * kStep; i < k; ++i)
            panel[(k / kStep * Way::kColumns + c) * kStep + i % kStep] = row[i];
          int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
          for (int64_t i = 0; i < k; ++i) sum += row[i];
          sums[column] = sum;
        }
      }
    });
  }
};

/// The left factor in order; T is what its elements are.
template <class Way, class T>
void pack_left(const T* a, int64_t rows, int64_t k, int64_t length, char* to) {
  constexpr int kShift = std::is_signed_v<T> ? Way::kOffset : 0;
  parallel_for(0, rows, std::max<int64_t>(1, kGrain / (k + 1)), [&](int64_t from, int64_t end) {
    for (int64_t r = from; r < end; ++r) {
      auto* row = reinterpret_cast<typename Way::Item*>(to) + r * length;
      FACULA_SIMD
      for (int64_t i = 0; i < k; ++i) row[i] = static_cast<typename Way::Item>(a[r * k + i] + kShift);
      for (int64_t i = k; i < length; ++i) row[i] = 0;
    }
  });
}

/// Bytes that live as long as they are needed, on a cache line's boundary.
char* aligned(const Tensor& bytes) {
  return reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(bytes.data()) + 63) & ~uintptr_t{63});
}
Tensor buffer(int64_t bytes) { return facula::empty({bytes + 63}, DType::UInt8); }

/// The same for one call: few bytes lie on its stack.
class Workspace {
 public:
  explicit Workspace(int64_t bytes) {
    if (bytes > int64_t{sizeof(few_)}) many_ = buffer(bytes);
  }
  char* data() { return many_.defined() ? aligned(many_) : few_; }

 private:
  Tensor many_;
  alignas(64) char few_[4096];
};

/// Computes a product tile by tile: use(row, column, columns, values) gets a row of every tile, less what the
/// shift of the left factor adds. `sums` are those of the right factor's rows.
template <class Way, class Use>
void for_tiles(const Right<Way>& right, const Left& a, int64_t rows, int shift, const char* packed, Use use) {
  const auto* sums = reinterpret_cast<const int32_t*>(packed + right.panels() * right.panel_bytes());
  constexpr int64_t kBlock = 16 * Way::kRows;  // rows of the left factor, which stay in a cache near by
  const int64_t blocks = (rows + kBlock - 1) / kBlock, work = std::min(rows, kBlock) * right.k * Way::kColumns / 16;
  const int64_t grain = std::max<int64_t>(1, kGrain / (work + 1));
  parallel_for(0, blocks * right.panels(), grain, [&](int64_t from, int64_t end) {
    alignas(64) int32_t tile[Way::kRows * Way::kColumns];
    [[maybe_unused]] const typename RowsOf<Way>::Use held{};
    for (int64_t i = from; i < end; ++i) {
      const int64_t first = i / right.panels() * kBlock, last = std::min(first + kBlock, rows);
      const int64_t panel = i % right.panels(), column = panel * Way::kColumns;
      const int columns = static_cast<int>(std::min<int64_t>(Way::kColumns, right.n - column));
      for (int64_t row = first; row < last; row += Way::kRows) {
        const int64_t count = std::min<int64_t>(Way::kRows, last - row);
        RowsOf<Way>::rows(count, {a.data + row * a.row, a.row}, packed + panel * right.panel_bytes(), right.steps(),
                          tile);
        for (int64_t r = 0; r < count; ++r) {
          int32_t* values = tile + r * Way::kColumns;
          if (shift) {
            for (int c = 0; c < columns; ++c)
              values[c] = static_cast<int32_t>(static_cast<uint32_t>(values[c]) -
                                               static_cast<uint32_t>(shift) * static_cast<uint32_t>(sums[column + c]));
          }
          // the width of most tiles is a number that the compiler knows: ends of loops cost as much as they
          if (columns == Way::kColumns) use(row + r, column, Way::kColumns, values, sums + column);
          else use(row + r, column, columns, values, sums + column);
        }
      }
    }
  });
}

/// The right factor in order: kept, or made for this call and left in `own`.
template <class Way>
const char* packed_right(const Right<Way>& right, const Tensor& b, Tensor& own) {
  const int64_t words[] = {static_cast<int64_t>(PackedAs::Int8), Way::kStep, Way::kColumns, right.n, right.k};
  own = packed_weight({b.storage(), b.data<char>(), IntList(words, std::size(words))}, right.bytes(),
                      [&](char* to) { right.pack(b.data<int8_t>(), to); });
  if (own.defined()) return own.data<char>();
  own = buffer(right.bytes());
  right.pack(b.data<int8_t>(), aligned(own));
  return aligned(own);
}

template <class Way>
void product(const Tensor& out, const Tensor& a, const Tensor& b) {
  const Right<Way> right{b.size(0), b.size(1)};
  const int64_t rows = out.numel() / right.n, length = right.steps() * Way::kStep;
  LockRelease release(rows * right.n * right.k > kGrain);
  Tensor own;
  const char* packed = packed_right(right, b, own);
  Workspace left(rows * length * int64_t{sizeof(typename Way::Item)});
  const bool is_signed = a.dtype() == DType::Int8;
  if (is_signed) pack_left<Way>(a.data<int8_t>(), rows, right.k, length, left.data());
  else pack_left<Way>(a.data<uint8_t>(), rows, right.k, length, left.data());
  const Left ordered{left.data(), length * int64_t{sizeof(typename Way::Item)}};
  auto* result = out.data<int32_t>();
  for_tiles<Way>(right, ordered, rows, is_signed ? Way::kOffset : 0, packed,
                 [&](int64_t row, int64_t column, int columns, const int32_t* values, const int32_t*) {
                   std::memcpy(result + row * right.n + column, values, static_cast<size_t>(columns) * sizeof(int32_t));
                 });
}

/// Whether all elements, of int8 or uint8, are from 0 to 127, as those of observers with reduce_range are.
bool has_seven_bits(const Tensor& a) {
  const auto* bytes = a.data<uint8_t>();
  const int64_t n = a.numel();
  uint8_t seen = 0;
#pragma omp simd reduction(| : seen)
  for (int64_t i = 0; i < n; ++i) seen |= bytes[i];
  return seen < 128;
}

struct Range {
  float low = 0, high = 0;  // zero always has a level of its own
};

/// NaN where an element is no finite number.
Range range_of_block(const float* x, int64_t n) {
  constexpr int kLanes = VectorOf<float>::lanes;
  typename VectorOf<float>::type low[2] = {}, high[2] = {}, known[2] = {};  // known: NaN where one is no finite number
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    for (int j = 0; j < 2; ++j) {
      const auto v = load_vector(x + i + j * kLanes);
      low[j] = v < low[j] ? v : low[j];
      high[j] = v > high[j] ? v : high[j];
      known[j] += v * 0.0f;
    }
  }
  Range range;
  float sum = 0;
  auto add = [&](float l, float h, float k) {
    range = {std::min(range.low, l), std::max(range.high, h)};
    sum += k;
  };
  for (int j = 0; j < 2 * kLanes; ++j)
    add(low[j / kLanes][j % kLanes], high[j / kLanes][j % kLanes], known[j / kLanes][j % kLanes]);
  for (; i < n; ++i) add(x[i], x[i], x[i] * 0.0f);
  return sum == 0 ? range : Range{std::numeric_limits<float>::quiet_NaN(), 0};
}

Range range_of(const float* x, int64_t n) {
  constexpr int64_t kBlock = kGrain;
  Range range;
  auto add = [&](const Range& part) {
    FACULA_CHECK(part.low == part.low, ErrorKind::Runtime,
                 "quantized.linear_dynamic: expected finite values, got an input with others");
    range = {std::min(range.low, part.low), std::max(range.high, part.high)};
  };
  if (n <= kBlock) {
    add(range_of_block(x, n));
    return range;
  }
  std::vector<Range> parts(static_cast<size_t>((n + kBlock - 1) / kBlock));
  parallel_for(0, static_cast<int64_t>(parts.size()), 1, [&](int64_t from, int64_t to) {
    for (int64_t p = from; p < to; ++p)
      parts[static_cast<size_t>(p)] = range_of_block(x + p * kBlock, std::min(n - p * kBlock, kBlock));
  });
  std::for_each(parts.begin(), parts.end(), add);
  return range;
}

struct Levels {
  float scale;
  int32_t zero;
};

/// As PyTorch chooses them: the level of zero is rounded from the end of the range that errs less.
Levels levels_of(Range range, int32_t top) {
  constexpr float kSmallest = 6.1e-5f;
  double scale = (static_cast<double>(range.high) - range.low) / top;
  if (static_cast<float>(scale) == 0.0f || std::isinf(1.0f / static_cast<float>(scale))) scale = 0.1;
  if (scale < kSmallest) {
    const double original = scale;
    scale = kSmallest;
    if (range.low == 0.0f) {
      range.high = kSmallest * static_cast<float>(top);
    } else if (range.high == 0.0f) {
      range.low = -kSmallest * static_cast<float>(top);
    } else {
      range.low = static_cast<float>(range.low * (kSmallest / original));
      range.high = static_cast<float>(range.high * (kSmallest / original));
    }
  }
  const double from_low = -range.low / scale, from_high = top - range.high / scale;
  const double low_error = std::abs(range.low / scale), high_error = top + std::abs(range.high / scale);
  const double zero = low_error < high_error ? from_low : from_high;
  return {static_cast<float>(scale), static_cast<int32_t>(std::nearbyint(std::clamp<double>(zero, 0, top)))};
}

/// k numbers to levels, and zeros up to `length`.
template <class Item>
void to_levels(const float* x, int64_t k, Levels levels, int32_t top, Item* to, int64_t length) {
  const float inverse = 1.0f / levels.scale;
  FACULA_SIMD
  for (int64_t i = 0; i < k; ++i) {
    const int32_t level = static_cast<int32_t>(std::nearbyint(x[i] * inverse)) + levels.zero;
    to[i] = static_cast<Item>(std::min(std::max(level, 0), top));
  }
  for (int64_t i = k; i < length; ++i) to[i] = 0;
}

/// Sums of levels to numbers: takes off what the level of zero adds, scales, adds the bias.
struct Finish {
  Levels levels;
  float* out;
  int64_t n;
  const float* scales;
  bool by_column;
  const float* bias;

  [[gnu::always_inline]] void operator()(int64_t row, int64_t column, int columns, const int32_t* values,
                                         const int32_t* sums) const {
    float* to = out + row * n + column;
    const float* scale = scales + (by_column ? column : 0);
    const auto [input_scale, zero] = levels;
    FACULA_SIMD
    for (int c = 0; c < columns; ++c) to[c] = static_cast<float>(values[c] - zero * sums[c]);
    if (by_column) {
      FACULA_SIMD
      for (int c = 0; c < columns; ++c) to[c] *= input_scale * scale[c];
    } else {
      const float both = input_scale * scale[0];
      FACULA_SIMD
      for (int c = 0; c < columns; ++c) to[c] *= both;
    }
    if (!bias) return;
    FACULA_SIMD
    for (int c = 0; c < columns; ++c) to[c] += bias[column + c];
  }
};

template <class Way>
void dynamic_linear(const DynamicInt8Linear& p) {
  const Right<Way> right{p.weight.size(0), p.weight.size(1)};
  const int64_t rows = p.out.numel() / right.n, length = right.steps() * Way::kStep;
  LockRelease release(rows * right.n * right.k > kGrain);
  const auto* input = p.input.data<float>();
  const int32_t top = p.reduce_range ? 127 : 255;
  const Levels levels = levels_of(range_of(input, rows * right.k), top);
  Tensor own;
  const char* packed = packed_right(right, p.weight, own);
  Workspace left(rows * length * int64_t{sizeof(typename Way::Item)});
  auto* ordered = reinterpret_cast<typename Way::Item*>(left.data());
  parallel_for(0, rows, std::max<int64_t>(1, kGrain / (right.k + 1)), [&](int64_t from, int64_t end) {
    for (int64_t r = from; r < end; ++r)
      to_levels(input + r * right.k, right.k, levels, top, ordered + r * length, length);
  });
  const Finish finish{levels,
                      p.out.data<float>(),
                      right.n,
                      p.scales.data<float>(),
                      p.scales.numel() > 1,
                      p.bias.defined() ? p.bias.data<float>() : nullptr};
  for_tiles<Way>(right, {left.data(), length * int64_t{sizeof(typename Way::Item)}}, rows, 0, packed, finish);
}

/// Sums of levels to levels: takes off what the input's level of zero adds, adds the bias, scales, rounds.
template <class T>
struct FinishLevels {
  int32_t zero, output_zero, lowest;
  T* out;
  int64_t n;
  const float *factors, *bias;  // of every column; bias in units of the sums

  [[gnu::always_inline]] void operator()(int64_t row, int64_t column, int columns, const int32_t* values,
                                         const int32_t* sums) const {
    T* to = out + row * n + column;
    const float *factor = factors + column, *added = bias + column;
    const auto low = static_cast<float>(lowest), high = static_cast<float>(std::numeric_limits<T>::max());
    const auto middle = static_cast<float>(output_zero);
    const int32_t less = zero;
    FACULA_SIMD
    for (int c = 0; c < columns; ++c) {
      float level = std::nearbyint((static_cast<float>(values[c] - less * sums[c]) + added[c]) * factor[c]) + middle;
      level = level > low ? level : low;
      to[c] = static_cast<T>(static_cast<int32_t>(level < high ? level : high));
    }
  }
};

template <class Way, class T>
void static_linear(const StaticInt8Linear& p) {
  const Right<Way> right{p.weight.size(0), p.weight.size(1)};
  const int64_t rows = p.out.numel() / right.n, length = right.steps() * Way::kStep;
  LockRelease release(rows * right.n * right.k > kGrain);
  Tensor own;
  const char* packed = packed_right(right, p.weight, own);
  Workspace left(rows * length * int64_t{sizeof(typename Way::Item)}), columns(2 * right.n * int64_t{sizeof(float)});
  pack_left<Way>(p.input.data<T>(), rows, right.k, length, left.data());
  auto* factors = reinterpret_cast<float*>(columns.data());
  float* bias = factors + right.n;
  const float *scales = p.scales.data<float>(), *given = p.bias.defined() ? p.bias.data<float>() : nullptr;
  const int64_t step = p.scales.numel() > 1 ? 1 : 0;
  const auto inverse = static_cast<float>(1.0 / p.scale);
  for (int64_t c = 0; c < right.n; ++c) {
    factors[c] = scales[c * step] * inverse;
    bias[c] = given ? given[c] / scales[c * step] : 0.0f;
  }
  const FinishLevels<T> finish{p.zero_point, p.output_zero_point, p.lowest, p.out.data<T>(), right.n, factors, bias};
  for_tiles<Way>(right, {left.data(), length * int64_t{sizeof(typename Way::Item)}}, rows,
                 std::is_signed_v<T> ? Way::kOffset : 0, packed, finish);
}

template <class Way>
void static_linear_of(const StaticInt8Linear& p) {
  if (p.out.dtype() == DType::Int8) static_linear<Way, int8_t>(p);
  else static_linear<Way, uint8_t>(p);
}

#if defined(FACULA_HAS_TILES)
bool repays_tiles(const Tensor& out, const Tensor& weight) { return out.numel() >= kTileRows * weight.size(0); }

template <class Tiles>
void register_tiles() {
  using Way = TiledFours<Tiles>;
  int8_product_kernel.set(DeviceType::CPU, [](const Tensor& out, const Tensor& a, const Tensor& b) {
    repays_tiles(out, b) ? product<Way>(out, a, b) : product<Fours>(out, a, b);
  });
  dynamic_int8_linear_kernel.set(DeviceType::CPU, [](const DynamicInt8Linear& p) {
    repays_tiles(p.out, p.weight) ? dynamic_linear<Way>(p) : dynamic_linear<Fours>(p);
  });
  static_int8_linear_kernel.set(DeviceType::CPU, [](const StaticInt8Linear& p) {
    repays_tiles(p.out, p.weight) ? static_linear_of<Way>(p) : static_linear_of<Fours>(p);
  });
}
#endif

}  // namespace

void register_quantize() {
  int8_product_kernel.set(DeviceType::CPU, [](const Tensor& out, const Tensor& a, const Tensor& b) {
    has_seven_bits(a) ? product<SevenBits>(out, a, b) : product<Pairs>(out, a, b);
  });
  dynamic_int8_linear_kernel.set(DeviceType::CPU, [](const DynamicInt8Linear& p) {
    p.reduce_range ? dynamic_linear<SevenBits>(p) : dynamic_linear<Pairs>(p);
  });
  static_int8_linear_kernel.set(DeviceType::CPU, [](const StaticInt8Linear& p) {
    has_seven_bits(p.input) ? static_linear_of<SevenBits>(p) : static_linear_of<Pairs>(p);
  });
#if defined(__AVX512F__)
  if (!__builtin_cpu_supports("avx512vnni")) return;
  int8_product_kernel.set(DeviceType::CPU, product<Fours>);
  dynamic_int8_linear_kernel.set(DeviceType::CPU, dynamic_linear<Fours>);
  static_int8_linear_kernel.set(DeviceType::CPU, static_linear_of<Fours>);
#endif
#if defined(FACULA_HAS_TILES)
  if (tiles_are_emulated()) register_tiles<EmulatedTiles>();
  else if (has_tiles(kTilesOfBytes)) register_tiles<HardwareTiles>();
#endif
}

}  // namespace facula::cpu::FACULA_ISA
