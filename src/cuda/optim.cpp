// Optimizers on the device: many parameters in one launch.
#include "ops/optim.h"

#include <algorithm>
#include <iterator>

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

static_assert(kMaxOptimNumbers == std::size(OptimArgs{}.numbers));

/// Adds a tensor to a launch.
void add(OptimArgs& g, const OptimPass& pass) {
  constexpr int64_t kMostBlocks = 1 << 20;  // of a tensor: more elements are left to strides
  const int t = g.tensors++;
  g.counts[t] = pass.count;
  g.params[t] = pass.param;
  g.grads[t] = pass.grad;
  for (size_t i = 0; i < pass.states.size(); ++i) g.states[i][t] = pass.states[i];
  g.begins[t + 1] = g.begins[t] + static_cast<int>(std::min((pass.count + kOptimBlock - 1) / kOptimBlock, kMostBlocks));
}

void optim_cuda(const OptimPasses& p) {
  const int device = active_index();
  const OptimPass& first = p.passes[0];
  for (size_t from = 0; from < p.passes.size(); from += kMostOptimTensors) {
    OptimArgs g{};
    std::copy(first.numbers.begin(), first.numbers.end(), g.numbers);
    for (const OptimPass& pass : p.passes.slice(from, std::min<size_t>(p.passes.size() - from, kMostOptimTensors)))
      if (pass.count) add(g, pass);
    const auto count = static_cast<size_t>(g.tensors);
    int wide = std::min(aligned_width(first.dtype, {g.params, count}), aligned_width(first.dtype, {g.grads, count}));
    for (const auto& states : g.states) wide = std::min(wide, aligned_width(first.dtype, {states, count}));
    kKernels[static_cast<size_t>(first.rule)](
        device, {first.dtype, first.states[0] != nullptr, first.states[1] != nullptr, first.states[2] != nullptr, wide},
        {256, g.begins[g.tensors]}, g);
  }
}

}  // namespace

void register_optim() { optim_kernel.set(DeviceType::CUDA, optim_cuda); }

}  // namespace facula::cuda
