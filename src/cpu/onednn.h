// Declares what oneDNN computes: matrix products here, convolutions in onednn_conv.h. Where the build has no oneDNN (it
// is built for x86-64 only) `available` is false, and so is every offer below: onednn_absent.cpp takes the place of the
// rest.
#pragma once

#include <cstdint>

namespace facula {
struct MatrixProduct;
}

namespace facula::cpu::onednn {

/// Whether the library belongs to this build.
extern const bool built_in;
/// Whether the library is there and may be used in this process (not in a forked child, whose OpenMP pool is gone).
bool available();

/// out = alpha op(a) op(b) + beta out, row-major, float32; only where the library is available.
void sgemm(bool trans_a, bool trans_b, int64_t m, int64_t n, int64_t k, float alpha, const float* a, int64_t lda,
           const float* b, int64_t ldb, float beta, float* out, int64_t ldc);
/// A product of float16 or bfloat16 matrices with alpha one and beta zero, and its bias; false where the processor has
/// no fast way.
bool half_product(const MatrixProduct& product);

}  // namespace facula::cpu::onednn
