// Copies that exchange the innermost dimension with another one. Tiles go through shared memory, so that memory is read
// and written by 16 bytes of neighbors.
#pragma once

#include "transpose_args.h"
#include "vector.cuh"

namespace facula::cuda {

/// kWide elements from `line` on, of which `left` are there; kWhole: all of them or none, at multiples of 16 bytes.
template <bool kWhole, class T, int kWide>
FACULA_FN void load_piece(Vector<T, kWide>& piece, const T* line, Int32 left) {
  if constexpr (kWhole) {
    if (left > 0) piece = load_vector<kWide>(line);
  } else {
#pragma unroll
    for (int j = 0; j < kWide; ++j)
      if (j < left) piece.at[j] = line[j];
  }
}
template <bool kWhole, class T, int kWide>
FACULA_FN void store_piece(const Vector<T, kWide>& piece, T* line, Int32 left) {
  if constexpr (kWhole) {
    if (left <= 0) return;
#if defined(FACULA_EMULATED_KERNEL)
    store_vector(line, piece);
#else  // the compiler would make four stores of some
    const auto words = __builtin_bit_cast(Vector<UInt32, 4>, piece);
    asm("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(line), "r"(words.at[0]), "r"(words.at[1]), "r"(words.at[2]),
        "r"(words.at[3]));
#endif
  } else {
#pragma unroll
    for (int j = 0; j < kWide; ++j)
      if (j < left) line[j] = piece.at[j];
  }
}

/// A block of 256 threads has one tile; 8 threads beside each other have 128 bytes of a line, and 32 lines are read or
/// written at a time.
///
/// Shared memory has the tile's rows as groups of 16 bytes, whose places in a row are exchanged (^) so that neither the
/// rows that a warp writes nor the columns that it reads meet in a bank. Of elements of 1 and 2 bytes several columns
/// are read at once.
template <class T, bool kWholeIn, bool kWholeOut>
__global__ __launch_bounds__(256) void transpose(TransposeArgs p) {
  constexpr int kWide = 16 / sizeof(T), kSide = transpose_side(sizeof(T)), kGroups = kSide / kWide,
                kAcross = kGroups / 8, kDown = kSide / 32, kColumns = sizeof(T) < 4 ? 4 / sizeof(T) : 1;
  using Group = Vector<T, kWide>;
  using Columns = Vector<T, kColumns>;
  FACULA_SHARED(Group, tile, kSide * kGroups);
  UInt32 column = blockIdx.x, row = p.tiles_across.divide(column), batch = p.tiles_down.divide(row);
  const T* in = static_cast<const T*>(p.in);
  T* out = static_cast<T*>(p.out);
#pragma unroll 1
  for (int d = 0; d < p.batch_dims; ++d) {
    UInt32 at = batch;
    batch = p.batch[d].divide(at);
    in += at * p.in_batch[d];
    out += at * p.out_batch[d];
  }
  const int lane = threadIdx.x % 8, line = threadIdx.x / 8;
  row *= kSide;
  column *= kSide;
  in += UInt64(row + line) * p.in_row + (column + lane * kWide);
  out += UInt64(column + line * kColumns) * p.out_row + (row + lane * kWide);
  const Int32 rows = p.rows - row, columns = p.columns - column;

  Group piece[kDown][kAcross];
#pragma unroll
  for (int y = 0; y < kDown; ++y) {
    const T* from = in + UInt64(32 * y) * p.in_row;
    const Int32 left = line + 32 * y < rows ? columns - lane * kWide : 0;
#pragma unroll
    for (int x = 0; x < kAcross; ++x) load_piece<kWholeIn>(piece[y][x], from + 8 * x * kWide, left - 8 * x * kWide);
  }
#pragma unroll
  for (int y = 0; y < kDown; ++y) {
    const int place = lane ^ (line / kWide ^ 32 * y / kWide) % 8;
#pragma unroll
    for (int x = 0; x < kAcross; ++x) tile[(line + 32 * y) * kGroups + place + 8 * x] = piece[y][x];
  }
  __syncthreads();

  const int place = line * kColumns / kWide ^ lane;
  const T* from = tile[lane * kWide * kGroups + place].at + line * kColumns % kWide;
#pragma unroll
  for (int y = 0; y < kDown; y += kColumns)
#pragma unroll
    for (int x = 0; x < kAcross; ++x)
#pragma unroll
      for (int j = 0; j < kWide; ++j) {
        const auto read = *reinterpret_cast<const Columns*>(from + (8 * x * kWide + j) * kSide + 32 * y);
#pragma unroll
        for (int q = 0; q < kColumns; ++q) piece[y + q][x].at[j] = read.at[q];
      }
#pragma unroll
  for (int y = 0; y < kDown; ++y) {
    const int c = 32 * (y / kColumns * kColumns) + y % kColumns;
    T* to = out + UInt64(c) * p.out_row;
    const Int32 left = line * kColumns + c < columns ? rows - lane * kWide : 0;
#pragma unroll
    for (int x = 0; x < kAcross; ++x) store_piece<kWholeOut>(piece[y][x], to + 8 * x * kWide, left - 8 * x * kWide);
  }
}

}  // namespace facula::cuda
