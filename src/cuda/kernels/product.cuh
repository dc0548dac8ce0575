// Products of matrices whose elements a `Product` finds: in memory, or in the windows of images.
//
// A Product is made of its arguments, of which `tiles` divides it, and the number of a product in the batch. It has
// rows(), columns(), inner(); left() and right() with along() (whether elements of a line lie next to each other,
// rather than the lines) and line(n), a row or column with at(k); and store(row, column, sum). T is the type in
// memory, A that of sums, I that of positions.
#pragma once

#include "block.cuh"
#include "product_args.h"

namespace facula::cuda {

constexpr int kDepth = 16;  // of a tile: what is read of each line at once

/// One side of a tile: elements [k, k + kDepth) of 16 * kEach lines, by depth; zeros outside.
template <class A, class I, int kEach, class Side>
struct TileSide {
  static constexpr int kLines = 16 * kEach, kRow = kLines + 1, kStep = 256 / kLines;
  using Line = decltype(Side().line(0));

  FACULA_FN TileSide(const Side& s, Int64 first_line, Int64 lines)
      : side(s), first(first_line), end(lines), along(s.along()) {
    const Int64 mine = first + threadIdx.x % kLines;
    if (!along && mine < end) line = side.line(mine);
  }
  FACULA_FN void load(A* room, Int64 k, Int64 to) {
    if (along) {
      const int depth = threadIdx.x % kDepth;
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int n = threadIdx.x / kDepth + 16 * j;
        room[depth * kRow + n] = first + n < end && k + depth < to ? side.line(first + n).at(I(k + depth)) : A{};
      }
    } else {
      const int n = threadIdx.x % kLines;
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const int depth = threadIdx.x / kLines + kStep * j;
        room[depth * kRow + n] = first + n < end && k + depth < to ? line.at(I(k + depth)) : A{};
      }
    }
  }

  Side side;
  Int64 first, end;
  bool along;
  Line line;
};

/// A block of 16 x 16 threads makes a tile of 16 kEach x 16 kEach results.
template <template <class, class, class> class Product, class T, class A, class I, int kEach>
__global__ __launch_bounds__(256) void product_by_tiles(typename Product<T, A, I>::Args p) {
  using P = Product<T, A, I>;
  constexpr int kLines = 16 * kEach, kRow = kLines + 1;
  FACULA_SHARED(A, left_room, kDepth * kRow);
  FACULA_SHARED(A, right_room, kDepth * kRow);
  const ProductTiles& t = p.tiles;
  const Int64 tall = (t.rows + kLines - 1) / kLines, wide = (t.columns + kLines - 1) / kLines,
              tiles = tall * wide * t.batch * t.parts;
  const int x = threadIdx.x % 16, y = threadIdx.x / 16;
  for (Int64 at = blockIdx.x; at < tiles; at += gridDim.x) {
    const Int64 row = at % tall * kLines, column = at / tall % wide * kLines, batch = at / (tall * wide) % t.batch,
                part = at / (tall * wide) / t.batch;
    const P product(p, batch);
    const Int64 rows = product.rows(), columns = product.columns(), inner = product.inner(), from = part * t.part,
                to = from + t.part < inner ? from + t.part : inner;
    if (row >= rows || column >= columns) continue;
    TileSide<A, I, kEach, decltype(product.left())> left(product.left(), row, rows);
    TileSide<A, I, kEach, decltype(product.right())> right(product.right(), column, columns);
    A sum[kEach][kEach] = {};
    for (Int64 k = from; k < to; k += kDepth) {
      left.load(left_room, k, to);
      right.load(right_room, k, to);
      __syncthreads();
#pragma unroll 4
      for (int depth = 0; depth < kDepth; ++depth) {
        A a[kEach], b[kEach];
#pragma unroll
        for (int i = 0; i < kEach; ++i) a[i] = left_room[depth * kRow + y + 16 * i];
#pragma unroll
        for (int i = 0; i < kEach; ++i) b[i] = right_room[depth * kRow + x + 16 * i];
#pragma unroll
        for (int i = 0; i < kEach; ++i)
#pragma unroll
          for (int j = 0; j < kEach; ++j) sum[i][j] = sum[i][j] + a[i] * b[j];
      }
      __syncthreads();
    }
    A* partial = static_cast<A*>(t.partial) + (part * t.batch + batch) * t.rows * t.columns;
#pragma unroll
    for (int i = 0; i < kEach; ++i)
#pragma unroll
      for (int j = 0; j < kEach; ++j) {
        const Int64 r = row + y + 16 * i, c = column + x + 16 * j;
        if (r >= rows || c >= columns) continue;
        if (t.parts > 1) partial[r * t.columns + c] = sum[i][j];
        else product.store(r, c, sum[i][j]);
      }
  }
}

/// Adds up the parts.
template <template <class, class, class> class Product, class T, class A, class I>
__global__ __launch_bounds__(256) void product_of_parts(typename Product<T, A, I>::Args p) {
  const ProductTiles& t = p.tiles;
  const Int64 all = t.batch * t.rows * t.columns;
  for (Int64 i = thread_number(); i < all; i += thread_count()) {
    const Int64 column = i % t.columns, row = i / t.columns % t.rows;
    const Product<T, A, I> product(p, i / t.columns / t.rows);
    if (row >= product.rows() || column >= product.columns()) continue;
    const Int64 used = (product.inner() + t.part - 1) / t.part;
    A sum{};
    for (Int64 part = 0; part < used; ++part) sum = sum + static_cast<const A*>(t.partial)[part * all + i];
    product.store(row, column, sum);
  }
}

/// Few rows or columns: every result is made by a group of threads.
template <template <class, class, class> class Product, class T, class A, class I, int kWarps>
__global__ __launch_bounds__(256) void product_by_results(typename Product<T, A, I>::Args p) {
  FACULA_SHARED(A, room, kMostWarps);
  const ProductTiles& t = p.tiles;
  const Int64 all = t.batch * t.rows * t.columns;
  for_groups<kWarps>(all, [&](Int64 i, int member) {
    const Int64 column = i % t.columns, row = i / t.columns % t.rows;
    const Product<T, A, I> product(p, i < all ? i / t.columns / t.rows : 0);
    const bool mine = i < all && row < product.rows() && column < product.columns();
    A sum{};
    if (mine) {
      const auto left = product.left().line(row);
      const auto right = product.right().line(column);
      const Int64 inner = product.inner();
      for (Int64 k = member; k < inner; k += group_threads(kWarps)) sum = sum + left.at(I(k)) * right.at(I(k));
    }
    sum = fold_group<Add, kWarps>(sum, room);
    if (mine && member == 0) product.store(row, column, sum);
  });
}

}  // namespace facula::cuda
