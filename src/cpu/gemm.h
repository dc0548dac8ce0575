// Products of float32 matrices by kernels of our own, for levels where they were measured to be at least as fast as the
// libraries.
#pragma once

#include "ops/matmul.h"

namespace facula::cpu {

/// A product without batch, on the calling thread. Pieces of one product agree with the whole to the last bit when
/// they begin at multiples of kGemmRows and kGemmColumns.
inline void (*gemm)(const MatrixProduct& product) = nullptr;
constexpr int64_t kGemmRows = 6, kGemmColumns = 16;

/// Whether this level's products of float32 are `gemm`.
bool has_own_gemm();
/// The product on as many threads as it is worth; the inner dimension has elements.
void own_product(const MatrixProduct& product);

}  // namespace facula::cpu
