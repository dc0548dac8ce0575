// Declares update rules of optimizers: one pass over a parameter, its gradient and its state.
#pragma once

#include <array>
#include <vector>

#include "ops/kernel_table.h"

namespace facula {

enum class OptimRule : uint8_t { Sgd, Adam, Adamax, NAdam, RAdam, Adagrad, Adadelta, RmsProp, Rprop, Asgd };
constexpr int kOptimRules = 10;
constexpr int kMaxOptimStates = 3;
constexpr int kMaxOptimNumbers = 12;

struct OptimRuleInfo {
  const char* name;
  const char* states;  // in the order of OptimPass::states; those in brackets may be absent
  int numbers;         // how many OptimPass::numbers it reads
};
constexpr std::array<OptimRuleInfo, kOptimRules> kOptimRuleInfo = {{
    {"sgd", "[momentum_buffer]", 6},
    {"adam", "exp_avg exp_avg_sq [max_exp_avg_sq]", 9},
    {"adamax", "exp_avg exp_inf", 6},
    {"nadam", "exp_avg exp_avg_sq", 9},
    {"radam", "exp_avg exp_avg_sq", 9},
    {"adagrad", "sum", 4},
    {"adadelta", "square_avg acc_delta", 5},
    {"rmsprop", "square_avg [momentum_buffer] [grad_avg]", 6},
    {"rprop", "prev step_size", 6},
    {"asgd", "ax", 5},
}};

/// Elements of equal layout; `numbers[0]` is -1 to ascend and 1 to descend, `numbers[1]` the weight decay added to the
/// gradient; the rest belongs to the rule (src/kernels/optim_rules.h).
struct OptimPass {
  OptimRule rule;
  DType dtype;
  int64_t count;
  void* param;
  const void* grad;
  std::array<void*, kMaxOptimStates> states = {};
  std::array<double, kMaxOptimNumbers> numbers = {};

  template <class See>
  void memory(See see) const {
    see(static_cast<const void*>(param));
    see(grad);
    for (void* s : states) see(static_cast<const void*>(s));
  }
};

/// Passes of one rule and dtype, with the same numbers and the same states: a device may run them together.
struct OptimPasses {
  List<OptimPass> passes;

  template <class See>
  void memory(See see) const {
    for (const OptimPass& pass : passes) pass.memory(see);
  }
};
inline Kernel<void(const OptimPasses&)> optim_kernel{"optimizer step"};

/// Steps of a rule on tensors of any layout and of one dtype; `states` may hold undefined tensors. On the CPU a step is
/// run when it is added. Other devices, where starting a kernel costs more than a small parameter, run many at once:
/// nothing is sure to be done before run().
class OptimSteps {
 public:
  using States = std::array<Tensor, kMaxOptimStates>;
  using Numbers = std::array<double, kMaxOptimNumbers>;

  OptimSteps() = default;
  OptimSteps(const OptimSteps&) = delete;
  void add(OptimRule rule, const Tensor& param, const Tensor& grad, const States& states, const Numbers& numbers);
  void run();

 private:
  /// Tensors as the program has them, and in one layout.
  struct Step {
    Tensor param, param_made, grad_made;
    States states, states_made;
  };
  bool goes_with(const OptimPass& pass, const Step& step) const;
  static void run(List<OptimPass> passes, List<Step> steps);

  std::vector<Step> steps_;
  std::vector<OptimPass> passes_;
};

}  // namespace facula
