// torch::optim: options become the numbers of a rule (ops/optim.h), which runs one pass over a parameter and its state.
#include "torch/optim.h"

#include <cmath>

#include "ops/optim.h"

namespace torch::optim {

using facula::ErrorKind;
using facula::OptimRule;
using facula::OptimSteps;

Optimizer::Optimizer(std::vector<OptimizerParamGroup> groups, std::unique_ptr<OptimizerOptions> defaults)
    : defaults_(std::move(defaults)) {
  for (const OptimizerParamGroup& group : groups) add_param_group(group);
}
Optimizer::~Optimizer() = default;

void Optimizer::add_param_group(const OptimizerParamGroup& group) {
  for (const Tensor& p : group.params())
    FACULA_CHECK(p.is_leaf(), ErrorKind::Runtime, "can't optimize a non-leaf Tensor");
  OptimizerParamGroup added(group);
  if (!added.has_options()) added.set_options(defaults_->clone());
  param_groups_.push_back(std::move(added));
}
void Optimizer::add_parameters(const std::vector<Tensor>& parameters) {
  FACULA_CHECK(!param_groups_.empty(), ErrorKind::Runtime, "add_parameters: the optimizer has no group");
  auto& params = param_groups_[0].params();
  params.insert(params.end(), parameters.begin(), parameters.end());
}
size_t Optimizer::size() const noexcept {
  size_t count = 0;
  for (const auto& group : param_groups_) count += group.params().size();
  return count;
}
void Optimizer::zero_grad(bool set_to_none) {
  for (auto& group : param_groups_)
    for (const Tensor& p : group.params()) {
      if (!p.grad().defined()) continue;
      if (set_to_none) p.mutable_grad().reset();
      else p.grad().detach_().zero_();
    }
}
Tensor Optimizer::evaluate(const LossClosure& closure) {
  if (!closure) return {};
  AutoGradMode on(true);
  return closure();
}

// ---- rules

namespace {

/// `f(param, grad)` for every parameter that has a gradient, then the steps that it added.
template <class F>
void each_parameter(const OptimizerParamGroup& group, OptimSteps& steps, F&& f) {
  for (const Tensor& p : group.params())
    if (const Tensor grad = p.grad(); grad.defined()) f(p, grad);
  steps.run();
}

Tensor zeros_for(const Tensor& param) { return torch::zeros_like(param.detach()); }

struct AdamNumbers {
  double lr, beta1, beta2, eps, decay;
  bool decoupled, amsgrad;
};

OptimSteps::Numbers numbers_of(const AdamNumbers& a, double step) {
  return {1.0,
          a.decoupled ? 0.0 : a.decay,
          a.decoupled ? 1.0 - a.lr * a.decay : 1.0,
          1.0 - a.beta1,
          a.beta2,
          a.lr / (1.0 - std::pow(a.beta1, step)),
          std::sqrt(1.0 - std::pow(a.beta2, step)),
          a.eps,
          1.0 - a.beta2};
}
template <class Options>
AdamNumbers adam_numbers(const Options& o, bool decoupled) {
  return {o.lr(), std::get<0>(o.betas()), std::get<1>(o.betas()), o.eps(), o.weight_decay(), decoupled, o.amsgrad()};
}
template <class Options>
void check_adam(const Options& o) {
  FACULA_CHECK(o.lr() >= 0, ErrorKind::Runtime, "Invalid learning rate: ", o.lr());
  FACULA_CHECK(o.eps() >= 0, ErrorKind::Runtime, "Invalid epsilon value: ", o.eps());
  const auto [first, second] = o.betas();
  FACULA_CHECK(first >= 0 && first < 1, ErrorKind::Runtime, "Invalid beta parameter at index 0: ", first);
  FACULA_CHECK(second >= 0 && second < 1, ErrorKind::Runtime, "Invalid beta parameter at index 1: ", second);
  FACULA_CHECK(o.weight_decay() >= 0, ErrorKind::Runtime, "Invalid weight_decay value: ", o.weight_decay());
}

template <class StateOf>
void adam_step(const OptimizerParamGroup& group, const AdamNumbers& numbers, StateOf&& state_of) {
  OptimSteps steps;
  each_parameter(group, steps, [&](const Tensor& param, const Tensor& grad) {
    auto& state = state_of(param);
    while (state.tensors.size() < (numbers.amsgrad ? 3u : 2u)) state.tensors.push_back(zeros_for(param));
    const double step = static_cast<double>(++state.step);
    steps.add(OptimRule::Adam, param.core(), grad.core(),
              {state.tensors[0].core(), state.tensors[1].core(),
               numbers.amsgrad ? state.tensors[2].core() : facula::Tensor()},
              numbers_of(numbers, step));
  });
}

}  // namespace

SGD::SGD(std::vector<OptimizerParamGroup> groups, SGDOptions o)
    : Optimizer(std::move(groups), std::make_unique<SGDOptions>(o)) {
  FACULA_CHECK(o.lr() >= 0, ErrorKind::Runtime, "Invalid learning rate: ", o.lr());
  FACULA_CHECK(o.momentum() >= 0, ErrorKind::Runtime, "Invalid momentum value: ", o.momentum());
  FACULA_CHECK(o.weight_decay() >= 0, ErrorKind::Runtime, "Invalid weight_decay value: ", o.weight_decay());
  FACULA_CHECK(!o.nesterov() || (o.momentum() > 0 && o.dampening() == 0), ErrorKind::Runtime,
               "Nesterov momentum requires a momentum and zero dampening");
}
Tensor SGD::step(LossClosure closure) {
  NoGradGuard off;
  const Tensor loss = evaluate(closure);
  for (auto& group : param_groups_) {
    const auto& o = static_cast<const SGDOptions&>(group.options());
    OptimSteps steps;
    each_parameter(group, steps, [&](const Tensor& param, const Tensor& grad) {
      OptimSteps::Numbers numbers = {1.0,          o.weight_decay(),    o.lr(),
                                     o.momentum(), 1.0 - o.dampening(), o.nesterov() ? 1.0 : 0.0};
      if (o.momentum() == 0) return steps.add(OptimRule::Sgd, param.core(), grad.core(), {}, numbers);
      State& state = state_of(param);
      if (state.tensors.empty()) {  // the first time, the buffer is the gradient itself: no damping
        state.tensors.push_back(zeros_for(param));
        numbers[4] = 1.0;
      }
      steps.add(OptimRule::Sgd, param.core(), grad.core(), {state.tensors[0].core()}, numbers);
    });
  }
  return loss;
}

Adam::Adam(std::vector<OptimizerParamGroup> groups, AdamOptions o)
    : Optimizer(std::move(groups), std::make_unique<AdamOptions>(o)) {
  check_adam(o);
}
Tensor Adam::step(LossClosure closure) {
  NoGradGuard off;
  const Tensor loss = evaluate(closure);
  for (auto& group : param_groups_)
    adam_step(group, adam_numbers(static_cast<const AdamOptions&>(group.options()), false),
              [&](const Tensor& param) -> State& { return state_of(param); });
  return loss;
}
AdamW::AdamW(std::vector<OptimizerParamGroup> groups, AdamWOptions o)
    : Optimizer(std::move(groups), std::make_unique<AdamWOptions>(o)) {
  check_adam(o);
}
Tensor AdamW::step(LossClosure closure) {
  NoGradGuard off;
  const Tensor loss = evaluate(closure);
  for (auto& group : param_groups_)
    adam_step(group, adam_numbers(static_cast<const AdamWOptions&>(group.options()), true),
              [&](const Tensor& param) -> State& { return state_of(param); });
  return loss;
}

void StepLR::step() {
  if (++steps_ % step_size_ != 0) return;
  for (auto& group : optimizer_.param_groups()) group.options().set_lr(group.options().get_lr() * gamma_);
}

}  // namespace torch::optim
