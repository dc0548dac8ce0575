// In place of onednn.cpp and onednn_conv.cpp where the build has no oneDNN: nothing is offered, so that products go to
// OpenBLAS and convolutions to our own kernels.
#include "core/error.h"
#include "cpu/onednn.h"
#include "cpu/onednn_conv.h"

namespace facula::cpu::onednn {

const bool built_in = false;

bool available() { return false; }

void sgemm(bool, bool, int64_t, int64_t, int64_t, float, const float*, int64_t, const float*, int64_t, float, float*,
           int64_t) {
  throw_error(ErrorKind::NotImplemented, "matmul: this build has no oneDNN");
}

bool half_product(const MatrixProduct&) { return false; }

bool convolve(ConvMap, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const ConvGeometry&) {
  return false;
}

}  // namespace facula::cpu::onednn
