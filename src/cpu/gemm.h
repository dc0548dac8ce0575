// Computes products of float32 matrices by our own kernels, at levels where they were measured to be at least as fast
// as the libraries: AVX2 and AVX-512.
#pragma once

#include "ops/matmul.h"

namespace facula::cpu {

/// The results that the level's kernel computes at a time.
struct GemmTile {
  int64_t rows = 1, columns = 1;
  int64_t lines = 0;  // rows up to which b is better read as it lies, where its rows have stride one
  int64_t (*chain)(int64_t inner) = nullptr;  // rows of b that are a block when it is packed
};
inline GemmTile gemm_tile;

/// All of b in the order in which the kernel reads it: blocks of its rows, in each panels as wide as a tile.
struct PackedColumns {
  const float* data = nullptr;  // null: not packed
  int64_t columns = 0;          // of the whole matrix, a multiple of gemm_tile.columns
  int64_t first = 0;            // which of them is the product's first
  int64_t batch = 0;            // elements from one matrix to the next
};

/// A product without batch, on the calling thread. Pieces of one product agree with the whole to the last bit when
/// they begin at multiples of the tile's, and so do products with b packed.
inline void (*gemm)(const MatrixProduct& product, const PackedColumns& b) = nullptr;
/// Packs panels [from, to) of b, a matrix without batch.
inline void (*gemm_pack)(const MatrixProduct& product, int64_t from, int64_t to, float* packed) = nullptr;

/// Whether this level's products of float32 are `gemm`.
bool has_own_gemm();
/// The product on as many threads as it is worth; the inner dimension has elements. Where `b` is not given, what is
/// cached of the product's weights is used.
void own_product(const MatrixProduct& product, const PackedColumns& b = {});
/// Bytes of b packed, and the packing, on all threads.
int64_t packed_bytes(const MatrixProduct& product);
PackedColumns pack_columns(const MatrixProduct& product, float* packed);
PackedColumns as_packed(const MatrixProduct& product, const float* packed);

}  // namespace facula::cpu
