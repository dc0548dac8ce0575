// Computes products of bfloat16 matrices by our own kernels, where the processor multiplies pairs of them and adds in
// float32 (AVX512-BF16).
#pragma once

#include "ops/matmul.h"

namespace facula::cpu {

constexpr int64_t kHalfRows = 12, kHalfColumns = 32;  // of a tile
// Rows up to which b may be read where it lies: its columns contiguous, or its lines.
constexpr int64_t kHalfFewRows = 48, kHalfFewLines = 16;

/// A product without batch on the calling thread, where `packed` is all of b: panels of kHalfColumns columns, in each
/// pairs of the inner dimension. Pieces that begin at multiples of kHalfRows and kHalfColumns agree with the whole to
/// the last bit. Null where the processor has no such instructions.
inline void (*half_gemm)(const MatrixProduct& product, const char* packed) = nullptr;
/// Packs panels [from, to) of b.
inline void (*half_pack)(const MatrixProduct& product, int64_t from, int64_t to, char* packed) = nullptr;
/// Columns [from, to) of a product of few rows, those of a contiguous, up to the numbers above: every element of b is
/// read from memory once.
inline void (*half_few_rows)(const MatrixProduct& product, int64_t from, int64_t to) = nullptr;

/// Bytes of one panel of b.
constexpr int64_t half_panel_bytes(int64_t inner) { return (inner + 1) / 2 * kHalfColumns * 4; }

/// The product of bfloat16 matrices, with its bias, on as many threads as it is worth; false where others shall compute
/// it.
bool own_half_product(const MatrixProduct& product);

}  // namespace facula::cpu
