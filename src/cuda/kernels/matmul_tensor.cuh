// Products of matrices by the tensor cores, for devices of compute capability 8.0 and later. Pieces of both sides come
// into shared memory by copies that are under way while earlier ones are multiplied.
#pragma once

#include "matmul.cuh"
#include "mma.cuh"
#include "vector.cuh"

namespace facula::cuda {

/// How one side of a tile, of kLines rows of a or columns of b, lies in shared memory, by pieces of 64 bytes of each
/// line. Where the elements of a line lie next to each other (kAlong) a line is a row there, else one position of all
/// lines is.
template <class T, int kLines, int kThreads, bool kAlong>
class SideLayout {
 public:
  static constexpr int kPack = 16 / sizeof(T), kDepth = TensorProducts::kPieceBytes / sizeof(T);
  static constexpr bool kPadded = !kAlong && sizeof(T) == 4;
  static constexpr int kElements = kPadded ? (kLines + TensorProducts::kPad) * kDepth : kLines * kDepth;

  /// Fragments of 16 lines and 32 bytes of each: of the left side of a product, whose words are of the lines' first and
  /// last 8, then of the second 16 bytes of these.
  FACULA_FN static void load_left(UInt32 (&words)[4], const T* room, int line, int depth) {
    const int lane = threadIdx.x % 32;
    if constexpr (kAlong) load_matrices(words, room + place(line + lane % 16, depth / kPack + lane / 16));
    else if constexpr (sizeof(T) == 2)
      load_transposed(words, room + place(depth + lane / 16 * 8 + lane % 8, line / kPack + lane / 8 % 2));
    else
#pragma unroll
      for (int q = 0; q < 4; ++q) words[q] = element(room, line + q % 2 * 8, depth + q / 2 * 4);
  }
  /// The same of the right side: words of the first 8 lines, then of the others.
  FACULA_FN static void load_right(UInt32 (&words)[4], const T* room, int line, int depth) {
    const int lane = threadIdx.x % 32;
    if constexpr (kAlong)
      load_matrices(words, room + place(line + lane % 8 + lane / 16 * 8, depth / kPack + lane / 8 % 2));
    else if constexpr (sizeof(T) == 2)
      load_transposed(words, room + place(depth + lane % 16, line / kPack + lane / 16));
    else
#pragma unroll
      for (int q = 0; q < 4; ++q) words[q] = element(room, line + q / 2 * 8, depth + q % 2 * 4);
  }

 protected:
  static constexpr int kRows = kAlong ? kLines : kDepth, kChunks = (kAlong ? kDepth : kLines) / kPack;
  static constexpr int kTogether = kThreads / kChunks;
  static_assert(kRows % kTogether == 0);

  /// Which row and which 16 bytes of it this thread copies first; the other rows are kTogether apart.
  FACULA_FN static int first_row() { return threadIdx.x / kChunks; }
  FACULA_FN static int first_chunk() { return threadIdx.x % kChunks; }
  /// Where 16 bytes of a row are, so that what is read together lies in different banks: matrices of rows, or four
  /// rows' elements of 8 lines.
  FACULA_FN static int place(int row, int chunk) {
    return kPadded ? row * (kLines + TensorProducts::kPad) + chunk * kPack : swizzled<kChunks>(row, chunk) * kPack;
  }
  /// Of 32 bits: lane l has line l / 4, place l % 4.
  FACULA_FN static UInt32 element(const T* room, int line, int depth) {
    const int lane = threadIdx.x % 32;
    return __builtin_bit_cast(UInt32, room[(depth + lane % 4) * (kLines + TensorProducts::kPad) + line + lane / 4]);
  }
};

/// A side that is a matrix in memory, whose rows begin at multiples of 16 bytes.
template <class T, int kLines, int kThreads, bool kAlong>
class TensorSide : public SideLayout<T, kLines, kThreads, kAlong> {
  using Layout = SideLayout<T, kLines, kThreads, kAlong>;
  using Layout::kRows, Layout::kTogether;

 public:
  using Layout::kPack, Layout::kDepth;

  FACULA_FN TensorSide(const void* data, Int64 row_step, int first_line, int lines, int begin, int end)
      : step(row_step), row(Layout::first_row()), chunk(Layout::first_chunk()) {
    const int line = first_line + (kAlong ? row : chunk * kPack), place = begin + (kAlong ? chunk * kPack : row);
    lines_left = lines - line;
    places_left = end - place;
    from = static_cast<const T*>(data) + (kAlong ? line * step + place : place * step + line);
  }

  /// Orders the copies of the next piece; zeros stand for what there is not.
  FACULA_FN void fetch(T* room) {
    const int rows_left = kAlong ? lines_left : places_left, columns_left = kAlong ? places_left : lines_left;
    const int elements = columns_left < kPack ? columns_left > 0 ? columns_left : 0 : kPack;
#pragma unroll
    for (int j = 0; j < kRows; j += kTogether)
      copy_async_part(room + Layout::place(row + j, chunk), from + j * step, j < rows_left ? elements * sizeof(T) : 0);
    from += kAlong ? kDepth : kDepth * step;
    places_left -= kDepth;
  }

 private:
  const T* from;
  Int64 step;
  int row, chunk, lines_left, places_left;
};

/// Adds the products of 32 bytes of each line. Of float32 the factors are rounded to 19 bits; or (kWhole) split into
/// two such numbers, and of their four products the three that count are added to sums in float32: tensor cores do not
/// round sums to the nearest.
template <class T, int kPrecision, int kTall, int kWide>
FACULA_FN void multiply_fragments(float (&sum)[kTall][2 * kWide][4], UInt32 (&left)[kTall][4],
                                  UInt32 (&right)[kWide][4]) {
  const auto split = [](UInt32(&words)[4], UInt32(&rest)[4]) {
#pragma unroll
    for (int q = 0; q < 4; ++q) {
      const float value = kernels::from_bits(words[q]);
      if constexpr (kPrecision == TensorProducts::kTf32) words[q] = to_tf32(value);
      if constexpr (kPrecision == TensorProducts::kWhole) {
        words[q] = (words[q] + 0x1000u) & 0xffffe000u;
        rest[q] = kernels::bits(value - kernels::from_bits(words[q]));  // NaN, if the factor is not finite
      }
    }
  };
  UInt32 left_rest[kTall][4], right_rest[4];
#pragma unroll
  for (int i = 0; i < kTall; ++i) split(left[i], left_rest[i]);
#pragma unroll
  for (int j = 0; j < kWide; ++j) {
    split(right[j], right_rest);
#pragma unroll
    for (int h = 0; h < 4; h += 2)
#pragma unroll
      for (int i = 0; i < kTall; ++i) {
        float(&to)[4] = sum[i][2 * j + h / 2];
        const UInt32 b0 = right[j][h], b1 = right[j][h + 1];
        if constexpr (kPrecision == TensorProducts::kAsIs) mma<T>(to, left[i], b0, b1);
        else if constexpr (kPrecision == TensorProducts::kTf32) mma_tf32(to, left[i], b0, b1);
        else {
          float part[4] = {};
          mma_tf32(part, left_rest[i], b0, b1);
          mma_tf32(part, left[i], right_rest[h], right_rest[h + 1]);
          mma_tf32(part, left[i], b0, b1);
#pragma unroll
          for (int q = 0; q < 4; ++q) to[q] += part[q];
        }
      }
  }
}

/// Which tile a block makes. Blocks that run at the same time have tiles of strips, 8 tiles high, so that they share
/// rows of a and columns of b in the cache.
struct TensorTile {
  int row, column, batch, part;
  FACULA_FN TensorTile(const ProductTiles& t, int lines) {
    constexpr UInt32 kStrip = 8;
    const UInt32 tall = UInt32(t.rows + lines - 1) / lines, wide = UInt32(t.columns + lines - 1) / lines,
                 all = tall * wide, product = blockIdx.x / all, at = blockIdx.x - product * all,
                 strip = at / (kStrip * wide), above = strip * kStrip, within = at - above * wide,
                 high = tall - above < kStrip ? tall - above : kStrip;
    column = int(within / high) * lines;
    row = int(above + within % high) * lines;
    part = int(product / UInt32(t.batch));
    batch = int(product - part * UInt32(t.batch));
  }
  /// Its part of the inner dimension.
  FACULA_FN int begin(const ProductTiles& t) const { return part * int(t.part); }
  FACULA_FN int end(const ProductTiles& t) const {
    return int(t.part < t.inner - begin(t) ? begin(t) + t.part : t.inner);
  }
};

/// Whether four neighbors are there, of `left`, and begin at a multiple of their size.
template <class T>
FACULA_FN bool are_vector(const T* first, int left) {
  return left >= 4 && reinterpret_cast<UInt64>(first) % (4 * sizeof(T)) == 0;
}
/// Four neighbors, or as many as are left.
template <class T>
FACULA_FN Vector<float, 4> read_four(const T* first, int left) {
  Vector<T, 4> all = {};
  if (are_vector(first, left)) {
    all = load_vector<4>(first);
  } else {
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (k < left) all.at[k] = first[k];
  }
  return widen_all(all);
}
template <class T>
FACULA_FN void write_four(T* first, int left, const Vector<float, 4>& values) {
  const Vector<T, 4> all = narrow_all<T>(values);
  if (are_vector(first, left)) {
    store_vector(first, all);
  } else {
#pragma unroll
    for (int k = 0; k < 4; ++k)
      if (k < left) first[k] = all.at[k];
  }
}

/// A result in the order of its elements.
template <class T>
FACULA_FN float sum_in_order(const MatricesArgs& p, Int64 batch, int row, int column, int begin, int end) {
  const T *a = static_cast<const T*>(p.a) + batch * p.a_batch + row * p.a_row,
          *b = static_cast<const T*>(p.b) + batch * p.b_batch + column * p.b_column;
  float sum = 0;
#pragma unroll 1  // rare: it is to be small
  for (int k = begin; k < end; ++k) sum += convert<float>(a[k * p.a_column]) * convert<float>(b[k * p.b_row]);
  return sum;
}

/// Where four neighboring sums of a tile are: a row's are turned about each other, as its number says, so that rows
/// that are written together lie in different banks.
template <int kLines>
FACULA_FN int place_of_sums(int row, int column) {
  return row * kLines + (column ^ row % 4 * 8);
}

/// Stores the sums of a tile, which are in shared memory. Those that are not finite are, where the factors were split,
/// made again, by again(row, column): the rest of an infinite factor is no number.
template <class T, bool kSplit, int kLines, int kThreads, class Again>
FACULA_FN void store_sums(const MatricesArgs& p, const TensorTile& tile, const float* sums, Again again) {
  const ProductTiles& t = p.tiles;
  float alpha = 1, beta = 0;
  if (p.has_alpha) alpha = *reinterpret_cast<const float*>(p.alpha);
  if (p.has_beta) beta = *reinterpret_cast<const float*>(p.beta);
#pragma unroll 1
  for (int i = threadIdx.x; i < kLines * kLines / 4; i += kThreads) {
    const int y = i / (kLines / 4), x = i % (kLines / 4) * 4, row = tile.row + y, column = tile.column + x,
              left = int(t.columns) - column;
    if (row >= t.rows || left <= 0) continue;
    Vector<float, 4> four = load_vector<4>(sums + place_of_sums<kLines>(y, x));
    if constexpr (kSplit) {
#pragma unroll
      for (int k = 0; k < 4; ++k)
        if (four.at[k] - four.at[k] != 0 && k < left) four.at[k] = again(row, column + k);
    }
    if (t.parts > 1) {
      float* partial = static_cast<float*>(t.partial) + (tile.part * t.batch + tile.batch) * t.rows * t.columns;
      write_four(partial + row * t.columns + column, left, four);
      continue;
    }
    T* to = static_cast<T*>(p.out) + tile.batch * p.out_batch + row * p.out_row + column;
#pragma unroll
    for (int k = 0; k < 4; ++k) four.at[k] *= alpha;
    if (p.has_beta) {
      const Vector<float, 4> old = read_four(to, left);
#pragma unroll
      for (int k = 0; k < 4; ++k) four.at[k] += beta * old.at[k];
    }
    if (p.bias) {
      const Vector<float, 4> more = read_four(static_cast<const T*>(p.bias) + column, left);
#pragma unroll
      for (int k = 0; k < 4; ++k) four.at[k] += more.at[k];
    }
    write_four(to, left, four);
  }
}

/// A block of kSize x kSize / 8 warps makes a tile of 16 kSize x 16 kSize results, from places begin to end of both
/// sides: each warp its half of the rows, and so many columns.
template <class T, int kPrecision, int kSize, class Left, class Right, class Again>
FACULA_FN void multiply_sides(const MatricesArgs& p, const TensorTile& tile, int begin, int end, Left& left,
                              Right& right, Again again) {
  constexpr int kLines = 16 * kSize, kThreads = TensorProducts::threads(kSize), kStages = TensorProducts::kStages,
                kTall = kSize / 2, kWide = 2, kAside = kSize / 2, kPiece = Left::kElements + Right::kElements;
  FACULA_DYNAMIC_SHARED(T, room);
  const int steps = (end - begin + Left::kDepth - 1) / Left::kDepth;
  const auto fetch = [&](int step) {
    if (step < steps) {
      T* to = room + step % kStages * kPiece;
      left.fetch(to);
      right.fetch(to + Left::kElements);
    }
    copies_commit();
  };
#pragma unroll
  for (int step = 0; step < kStages - 1; ++step) fetch(step);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp / kAside * (kLines / 2),
            column = warp % kAside * 32;
  float sum[kTall][2 * kWide][4] = {};
#pragma unroll 1
  for (int step = 0; step < steps; ++step) {
    copies_wait<kStages - 2>();
    __syncthreads();  // everybody's copies are there, and the piece before is used no longer
    fetch(step + kStages - 1);
    const T *here = room + step % kStages * kPiece, *there = here + Left::kElements;
#pragma unroll
    for (int depth = 0; depth < Left::kDepth; depth += 2 * Left::kPack) {
      UInt32 a[kTall][4], b[kWide][4];
#pragma unroll
      for (int i = 0; i < kTall; ++i) Left::load_left(a[i], here, row + 16 * i, depth);
#pragma unroll
      for (int j = 0; j < kWide; ++j) Right::load_right(b[j], there, column + 16 * j, depth);
      multiply_fragments<T, kPrecision>(sum, a, b);
    }
  }
  copies_wait<0>();
  __syncthreads();
  float* sums = reinterpret_cast<float*>(room);
#pragma unroll
  for (int i = 0; i < kTall; ++i)
#pragma unroll
    for (int j = 0; j < 2 * kWide; ++j)
#pragma unroll
      for (int h = 0; h < 2; ++h)
        store_vector(sums + place_of_sums<kLines>(row + 16 * i + 8 * h + lane / 4, column + 8 * j + lane % 4 * 2),
                     Vector<float, 2>{sum[i][j][2 * h], sum[i][j][2 * h + 1]});
  __syncthreads();
  store_sums<T, kPrecision == TensorProducts::kWhole, kLines, kThreads>(p, tile, sums, again);
}

template <class T, int kPrecision, bool kLeftAlong, bool kRightAlong, int kSize>
__global__ __launch_bounds__(TensorProducts::threads(kSize), kPrecision == TensorProducts::kWhole
                                                                 ? 1
                                                                 : 2) void product_by_tensor_cores(MatricesArgs p) {
  constexpr int kLines = 16 * kSize, kThreads = TensorProducts::threads(kSize);
  const TensorTile tile(p.tiles, kLines);
  const int begin = tile.begin(p.tiles), end = tile.end(p.tiles);
  TensorSide<T, kLines, kThreads, kLeftAlong> left(static_cast<const T*>(p.a) + tile.batch * p.a_batch,
                                                   kLeftAlong ? p.a_row : p.a_column, tile.row, int(p.tiles.rows),
                                                   begin, end);
  TensorSide<T, kLines, kThreads, kRightAlong> right(static_cast<const T*>(p.b) + tile.batch * p.b_batch,
                                                     kRightAlong ? p.b_column : p.b_row, tile.column,
                                                     int(p.tiles.columns), begin, end);
  multiply_sides<T, kPrecision, kSize>(p, tile, begin, end, left, right, [&](int row, int column) {
    return sum_in_order<T>(p, tile.batch, row, column, begin, end);
  });
}

/// Rows of matrices to where each begins at a multiple of 16 bytes. T has the size of the elements.
template <class T>
__global__ __launch_bounds__(256) void copy_rows(void* to, const void* from, Int64 batch, Int64 rows, Int64 columns,
                                                 Int64 from_batch, Int64 from_row, Int64 to_row) {
  for (Int64 row = blockIdx.x; row < batch * rows; row += gridDim.x) {
    const T* source = static_cast<const T*>(from) + row / rows * from_batch + row % rows * from_row;
#pragma unroll 4
    for (Int64 c = threadIdx.x; c < columns; c += blockDim.x) static_cast<T*>(to)[row * to_row + c] = source[c];
  }
}

}  // namespace facula::cuda
