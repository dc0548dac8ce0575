// Optimizers on the device: one pass for each parameter.
#include "ops/optim.h"

#include <algorithm>

#include "cuda/device.h"
#include "cuda/kernel.h"
#include "cuda/kernels/optim_args.h"

namespace facula::cuda {
namespace {

// By OptimRule: the rules of src/kernels/optim_rules.h.
constexpr const char* kPasses[kOptimRules] = {
    "optim_pass<facula::kernels::Sgd",      "optim_pass<facula::kernels::Adam",
    "optim_pass<facula::kernels::Adamax",   "optim_pass<facula::kernels::NAdam",
    "optim_pass<facula::kernels::RAdam",    "optim_pass<facula::kernels::Adagrad",
    "optim_pass<facula::kernels::Adadelta", "optim_pass<facula::kernels::RmsProp",
    "optim_pass<facula::kernels::Rprop",    "optim_pass<facula::kernels::Asgd",
};
#define PASS(i) {"optim.cuh", kPasses[i]}
constexpr DeviceKernel kKernels[kOptimRules] = {PASS(0), PASS(1), PASS(2), PASS(3), PASS(4),
                                                PASS(5), PASS(6), PASS(7), PASS(8), PASS(9)};
#undef PASS

void optim_cuda(const OptimPass& pass) {
  const int device = active_index();
  OptimArgs g{pass.count, pass.param, pass.grad, {}, {}};
  std::copy(pass.states.begin(), pass.states.end(), g.states);
  std::copy(pass.numbers.begin(), pass.numbers.end(), g.numbers);
  kKernels[static_cast<size_t>(pass.rule)](
      device, {pass.dtype, g.states[0] != nullptr, g.states[1] != nullptr, g.states[2] != nullptr},
      grid_for(device, g.count), g);
}

}  // namespace

void register_optim() { optim_kernel.set(DeviceType::CUDA, optim_cuda); }

}  // namespace facula::cuda
