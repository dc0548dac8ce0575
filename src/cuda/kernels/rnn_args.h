// What steps of recurrent layers are given; read by both compilers.
#pragma once

namespace facula::cuda {

enum RnnCell : int { kTanhCell, kReluCell, kLstmCell, kGruCell };

struct RnnStepArgs {
  long long rows, hidden;
  const void *x, *gates, *bias;
  void *h, *c, *saved, *h_before, *c_before, *output;
};

struct RnnStepBackwardArgs {
  long long rows, hidden;
  const void *saved, *h_before, *c_before, *grad_output;
  void *grad_h, *grad_c, *grad_gates, *grad_gates_h;
};

}  // namespace facula::cuda
