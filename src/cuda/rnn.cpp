// Steps of recurrent layers.
#include "ops/rnn.h"

#include "cuda/device.h"
#include "cuda/kernel.h"
#include "cuda/kernels/rnn_args.h"

namespace facula::cuda {
namespace {

static_assert(kTanhCell == static_cast<int>(RnnMode::Tanh) && kReluCell == static_cast<int>(RnnMode::Relu) &&
              kLstmCell == static_cast<int>(RnnMode::Lstm) && kGruCell == static_cast<int>(RnnMode::Gru));

void check_dtype(DType dtype) {
  FACULA_CHECK(dtype == DType::Float32 || dtype == DType::Float64, ErrorKind::NotImplemented,
               "rnn: not implemented for dtype ", dtype);
}

void rnn_step_cuda(const RnnStep& s) {
  static const DeviceKernel kernel{"rnn.cuh", "rnn_step"};
  check_dtype(s.dtype);
  if (s.rows * s.hidden == 0) return;
  const int device = active_index();
  kernel(
      device, {s.dtype, static_cast<int>(s.mode)}, grid_for(device, s.rows * s.hidden),
      RnnStepArgs{s.rows, s.hidden, s.gates_x, s.gates_h, s.bias, s.h, s.c, s.saved, s.h_before, s.c_before, s.output});
}

void rnn_step_backward_cuda(const RnnStepBackward& s) {
  static const DeviceKernel kernel{"rnn.cuh", "rnn_step_backward"};
  check_dtype(s.dtype);
  if (s.rows * s.hidden == 0) return;
  const int device = active_index();
  kernel(device, {s.dtype, static_cast<int>(s.mode)}, grid_for(device, s.rows * s.hidden),
         RnnStepBackwardArgs{s.rows, s.hidden, s.saved, s.h_before, s.c_before, s.grad_output, s.grad_h, s.grad_c,
                             s.grad_gates, s.grad_gates_h});
}

}  // namespace

void register_rnn() {
  rnn_step_kernel.set(DeviceType::CUDA, rnn_step_cuda);
  rnn_step_backward_kernel.set(DeviceType::CUDA, rnn_step_backward_cuda);
}

}  // namespace facula::cuda
