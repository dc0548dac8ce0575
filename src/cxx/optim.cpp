// torch::optim: options become the numbers of a rule (ops/optim.h), which runs one pass over a parameter and its state.
#include "torch/optim.h"

#include <cmath>
#include <iostream>
#include <limits>

#include "ops/optim.h"
#include "torch/serialize.h"

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
    FACULA_CHECK(p.is_leaf(), ErrorKind::Runtime, "Optimizer: parameters must be leaves, got a result of an op");
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

std::vector<Tensor>& Optimizer::parameters() {
  FACULA_CHECK(!param_groups_.empty(), ErrorKind::Runtime, "parameters: the optimizer has no group");
  return param_groups_[0].params();
}

// ---- archives

namespace {

/// `f(name, option)` for the options of each class, in the order in which archives have them.
template <class F>
void each_option(SGDOptions& o, F&& f) {
  f("lr", o.lr()), f("momentum", o.momentum()), f("dampening", o.dampening());
  f("weight_decay", o.weight_decay()), f("nesterov", o.nesterov());
}
template <class Options, class F>
void each_option_of_adam(Options& o, F&& f) {
  f("lr", o.lr()), f("betas", o.betas()), f("eps", o.eps());
  f("weight_decay", o.weight_decay()), f("amsgrad", o.amsgrad());
}
template <class F>
void each_option(AdamOptions& o, F&& f) {
  each_option_of_adam(o, f);
}
template <class F>
void each_option(AdamWOptions& o, F&& f) {
  each_option_of_adam(o, f);
}
template <class F>
void each_option(RMSpropOptions& o, F&& f) {
  f("lr", o.lr()), f("alpha", o.alpha()), f("eps", o.eps()), f("weight_decay", o.weight_decay());
  f("momentum", o.momentum()), f("centered", o.centered());
}
template <class F>
void each_option(AdagradOptions& o, F&& f) {
  f("lr", o.lr()), f("lr_decay", o.lr_decay()), f("weight_decay", o.weight_decay());
  f("initial_accumulator_value", o.initial_accumulator_value()), f("eps", o.eps());
}
template <class F>
void each_option(LBFGSOptions& o, F&& f) {
  f("lr", o.lr()), f("max_iter", o.max_iter()), f("max_eval", o.max_eval());
  f("tolerance_grad", o.tolerance_grad()), f("tolerance_change", o.tolerance_change());
  f("history_size", o.history_size()), f("line_search_fn", o.line_search_fn());
}

template <class T>
void assign(const IValue& value, T& option) {
  option = value.to<T>();
}
template <class T>
void assign(const IValue& value, optional<T>& option) {
  option = value.isNone() ? nullopt : optional<T>(value.to<T>());
}
void assign(const IValue& value, AdamBetas& option) {
  const auto& both = value.toTupleRef().elements();
  FACULA_CHECK(both.size() == 2, ErrorKind::Runtime, "load: betas: 2 numbers are expected, got ", both.size());
  option = {both[0].toDouble(), both[1].toDouble()};
}

}  // namespace

void OptimizerOptions::serialize(serialize::OutputArchive&) const {
  facula::throw_error(ErrorKind::NotImplemented, "save: these options of an optimizer do not say how");
}
void OptimizerOptions::serialize(serialize::InputArchive&) {
  facula::throw_error(ErrorKind::NotImplemented, "load: these options of an optimizer do not say how");
}
#define TORCH_SERIALIZE_OPTIONS(Name)                                                              \
  void Name::serialize(serialize::OutputArchive& archive) const {                                  \
    each_option(const_cast<Name&>(*this),                                                          \
                [&](const char* key, const auto& option) { archive.write(key, IValue(option)); }); \
  }                                                                                                \
  void Name::serialize(serialize::InputArchive& archive) {                                         \
    each_option(*this, [&](const char* key, auto& option) {                                        \
      IValue value;                                                                                \
      archive.read(key, value);                                                                    \
      assign(value, option);                                                                       \
    });                                                                                            \
  }
TORCH_SERIALIZE_OPTIONS(SGDOptions)
TORCH_SERIALIZE_OPTIONS(AdamOptions)
TORCH_SERIALIZE_OPTIONS(AdamWOptions)
TORCH_SERIALIZE_OPTIONS(RMSpropOptions)
TORCH_SERIALIZE_OPTIONS(AdagradOptions)
TORCH_SERIALIZE_OPTIONS(LBFGSOptions)
#undef TORCH_SERIALIZE_OPTIONS

void Optimizer::save_state(const State& state, serialize::OutputArchive& archive) const {
  const StateNames names = state_names();
  if (names.step) archive.write("step", IValue(state.step));
  for (size_t i = 0; i < state.tensors.size(); ++i)
    if (state.tensors[i].defined()) archive.write(names.tensors[i], IValue(state.tensors[i]));
}
void Optimizer::load_state(State& state, serialize::InputArchive& archive) const {
  const StateNames names = state_names();
  if (IValue step; names.step) {
    archive.read("step", step);
    state.step = step.toInt();
  }
  for (size_t i = 0; i < names.tensors.size(); ++i) {
    Tensor found;
    if (!archive.try_read(names.tensors[i], found)) continue;
    state.tensors.resize(i + 1);
    state.tensors[i] = found;
  }
}

namespace {

/// The name by which parameters of groups and states find each other in an archive.
std::string key_of(const void* impl) { return std::to_string(reinterpret_cast<uintptr_t>(impl)); }
constexpr const char* kArchiveVersion = "1.5.0";

}  // namespace

void Optimizer::save(serialize::OutputArchive& archive) const {
  archive.write("pytorch_version", IValue(kArchiveVersion));
  serialize::OutputArchive states, groups;
  for (const auto& group : param_groups_)
    for (const Tensor& p : group.params()) {
      const auto found = state_.find(p.core().impl());
      if (found == state_.end()) continue;
      serialize::OutputArchive state;
      save_state(found->second, state);
      states.write(key_of(found->first), state);
    }
  groups.write("param_groups/size", torch::tensor(static_cast<int64_t>(param_groups_.size())));
  for (size_t g = 0; g < param_groups_.size(); ++g) {
    serialize::OutputArchive group, options;
    const auto& params = param_groups_[g].params();
    group.write("params/size", torch::tensor(static_cast<int64_t>(params.size())));
    for (size_t i = 0; i < params.size(); ++i)
      group.write("params/" + std::to_string(i), IValue(key_of(params[i].core().impl())));
    param_groups_[g].options().serialize(options);
    group.write("options", options);
    groups.write("param_groups/" + std::to_string(g), group);
  }
  archive.write("state", states);
  archive.write("param_groups", groups);
}

void Optimizer::load(serialize::InputArchive& archive) {
  serialize::InputArchive states, groups;
  archive.read("state", states);
  archive.read("param_groups", groups);
  const auto count_in = [](serialize::InputArchive& from, const char* key) {
    Tensor count;
    from.read(key, count);
    return count.item<int64_t>();
  };
  FACULA_CHECK(count_in(groups, "param_groups/size") == static_cast<int64_t>(param_groups_.size()), ErrorKind::Runtime,
               "load: ", param_groups_.size(), " parameter groups are expected, got ",
               count_in(groups, "param_groups/size"));
  for (size_t g = 0; g < param_groups_.size(); ++g) {
    serialize::InputArchive group, options;
    groups.read("param_groups/" + std::to_string(g), group);
    const auto& params = param_groups_[g].params();
    FACULA_CHECK(count_in(group, "params/size") == static_cast<int64_t>(params.size()), ErrorKind::Runtime,
                 "load: parameter group ", g, " must have ", params.size(), " parameters, got ",
                 count_in(group, "params/size"));
    for (size_t i = 0; i < params.size(); ++i) {
      IValue key;
      group.read("params/" + std::to_string(i), key);
      if (serialize::InputArchive state; states.try_read(key.toStringRef(), state)) {
        State& mine = state_of(params[i]) = State();
        load_state(mine, state);
      }
    }
    group.read("options", options);
    param_groups_[g].options().serialize(options);
  }
}

serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const Optimizer& optimizer) {
  optimizer.save(archive);
  return archive;
}
serialize::InputArchive& operator>>(serialize::InputArchive& archive, Optimizer& optimizer) {
  optimizer.load(archive);
  return archive;
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
void check_not_negative(const char* optimizer, const char* option, double value) {
  FACULA_CHECK(value >= 0, ErrorKind::Runtime, optimizer, ": ", option, " must be at least 0, got ", value);
}
template <class Options>
void check_adam(const char* name, const Options& o) {
  check_not_negative(name, "lr", o.lr());
  check_not_negative(name, "eps", o.eps());
  const auto [first, second] = o.betas();
  FACULA_CHECK(first >= 0 && first < 1, ErrorKind::Runtime, name, ": betas[0] must be in [0, 1), got ", first);
  FACULA_CHECK(second >= 0 && second < 1, ErrorKind::Runtime, name, ": betas[1] must be in [0, 1), got ", second);
  check_not_negative(name, "weight_decay", o.weight_decay());
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
  check_not_negative("SGD", "lr", o.lr());
  check_not_negative("SGD", "momentum", o.momentum());
  check_not_negative("SGD", "weight_decay", o.weight_decay());
  FACULA_CHECK(!o.nesterov() || (o.momentum() > 0 && o.dampening() == 0), ErrorKind::Runtime,
               "SGD: nesterov needs momentum above 0 and no dampening, got ", o.momentum(), " and ", o.dampening());
}
Optimizer::StateNames SGD::state_names() const { return {false, {"momentum_buffer"}}; }
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
  check_adam("Adam", o);
}
Optimizer::StateNames Adam::state_names() const { return {true, {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}}; }
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
  check_adam("AdamW", o);
}
Optimizer::StateNames AdamW::state_names() const { return {true, {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}}; }
Tensor AdamW::step(LossClosure closure) {
  NoGradGuard off;
  const Tensor loss = evaluate(closure);
  for (auto& group : param_groups_)
    adam_step(group, adam_numbers(static_cast<const AdamWOptions&>(group.options()), true),
              [&](const Tensor& param) -> State& { return state_of(param); });
  return loss;
}

RMSprop::RMSprop(std::vector<OptimizerParamGroup> groups, RMSpropOptions o)
    : Optimizer(std::move(groups), std::make_unique<RMSpropOptions>(o)) {
  check_not_negative("RMSprop", "lr", o.lr());
  check_not_negative("RMSprop", "eps", o.eps());
  check_not_negative("RMSprop", "momentum", o.momentum());
  check_not_negative("RMSprop", "weight_decay", o.weight_decay());
  check_not_negative("RMSprop", "alpha", o.alpha());
}
Optimizer::StateNames RMSprop::state_names() const { return {true, {"square_avg", "momentum_buffer", "grad_avg"}}; }
Tensor RMSprop::step(LossClosure closure) {
  NoGradGuard off;
  const Tensor loss = evaluate(closure);
  for (auto& group : param_groups_) {
    const auto& o = static_cast<const RMSpropOptions&>(group.options());
    OptimSteps steps;
    each_parameter(group, steps, [&](const Tensor& param, const Tensor& grad) {
      State& state = state_of(param);
      state.tensors.resize(3);
      const bool wanted[] = {true, o.momentum() > 0, o.centered()};
      for (size_t i = 0; i < 3; ++i)
        if (wanted[i] && !state.tensors[i].defined()) state.tensors[i] = zeros_for(param);
      ++state.step;
      const auto wanted_state = [&](size_t i) { return wanted[i] ? state.tensors[i].core() : facula::Tensor(); };
      steps.add(OptimRule::RmsProp, param.core(), grad.core(), {wanted_state(0), wanted_state(1), wanted_state(2)},
                {1.0, o.weight_decay(), o.lr(), o.alpha(), o.eps(), o.momentum()});
    });
  }
  return loss;
}

Adagrad::Adagrad(std::vector<OptimizerParamGroup> groups, AdagradOptions o)
    : Optimizer(std::move(groups), std::make_unique<AdagradOptions>(o)) {
  check_not_negative("Adagrad", "lr", o.lr());
  check_not_negative("Adagrad", "lr_decay", o.lr_decay());
  check_not_negative("Adagrad", "weight_decay", o.weight_decay());
  check_not_negative("Adagrad", "initial_accumulator_value", o.initial_accumulator_value());
  check_not_negative("Adagrad", "eps", o.eps());
}
Optimizer::StateNames Adagrad::state_names() const { return {true, {"sum"}}; }
Tensor Adagrad::step(LossClosure closure) {
  NoGradGuard off;
  const Tensor loss = evaluate(closure);
  for (auto& group : param_groups_) {
    const auto& o = static_cast<const AdagradOptions&>(group.options());
    OptimSteps steps;
    each_parameter(group, steps, [&](const Tensor& param, const Tensor& grad) {
      State& state = state_of(param);
      if (state.tensors.empty())
        state.tensors.push_back(torch::full_like(param.detach(), o.initial_accumulator_value()));
      const double lr = o.lr() / (1.0 + static_cast<double>(state.step++) * o.lr_decay());
      steps.add(OptimRule::Adagrad, param.core(), grad.core(), {state.tensors[0].core()},
                {1.0, o.weight_decay(), lr, o.eps()});
    });
  }
  return loss;
}

// ---- schedules

void LRScheduler::step() {
  ++step_count_;
  const std::vector<double> rates = get_lrs();
  auto& groups = optimizer_.param_groups();
  FACULA_CHECK(rates.size() == groups.size(), ErrorKind::Runtime, "LRScheduler: one rate for each of ", groups.size(),
               " groups is expected, got ", rates.size());
  for (size_t i = 0; i < rates.size(); ++i) groups[i].options().set_lr(rates[i]);
}
std::vector<double> LRScheduler::get_current_lrs() const {
  std::vector<double> rates;
  for (const auto& group : optimizer_.param_groups()) rates.push_back(group.options().get_lr());
  return rates;
}
std::vector<double> StepLR::get_lrs() {
  std::vector<double> rates = get_current_lrs();
  if (step_count_ % step_size_ == 0)
    for (double& rate : rates) rate *= gamma_;
  return rates;
}

ReduceLROnPlateauScheduler::ReduceLROnPlateauScheduler(Optimizer& optimizer, SchedulerMode mode, float factor,
                                                       int patience, double threshold, ThresholdMode threshold_mode,
                                                       int cooldown, const std::vector<float>& min_lr, double eps,
                                                       bool verbose)
    : optimizer_(optimizer),
      mode_(mode),
      threshold_mode_(threshold_mode),
      factor_(factor),
      threshold_(threshold),
      eps_(eps),
      patience_(patience),
      cooldown_(cooldown),
      min_lrs_(min_lr),
      best_(mode == min ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity()),
      verbose_(verbose) {
  FACULA_CHECK(factor < 1, ErrorKind::Runtime, "ReduceLROnPlateauScheduler: factor must be below 1, got ", factor);
  if (min_lrs_.empty()) min_lrs_.assign(optimizer.param_groups().size(), 0.0f);
  FACULA_CHECK(min_lrs_.size() == optimizer.param_groups().size(), ErrorKind::Runtime,
               "ReduceLROnPlateauScheduler: one least rate for each of ", optimizer.param_groups().size(),
               " groups is expected, got ", min_lrs_.size());
}
bool ReduceLROnPlateauScheduler::is_better(float metric) const {
  const double best = best_;
  const double margin = threshold_mode_ == rel ? std::fabs(best) * threshold_ : threshold_;
  if (std::isinf(best)) return mode_ == min ? metric < best : metric > best;
  return mode_ == min ? metric < best - margin : metric > best + margin;
}
void ReduceLROnPlateauScheduler::step(float metric) {
  ++steps_;
  const bool better = is_better(metric);
  if (better) best_ = metric;
  bad_steps_ = better || cooldown_left_ > 0 ? 0 : bad_steps_ + 1;
  if (cooldown_left_ > 0) --cooldown_left_;
  if (bad_steps_ <= patience_) return;
  reduce_lr();
  cooldown_left_ = cooldown_;
  bad_steps_ = 0;
}
void ReduceLROnPlateauScheduler::reduce_lr() {
  auto& groups = optimizer_.param_groups();
  for (size_t i = 0; i < groups.size(); ++i) {
    const double old = groups[i].options().get_lr(), rate = std::max(old * factor_, double{min_lrs_[i]});
    if (old - rate <= eps_) continue;
    groups[i].options().set_lr(rate);
    if (verbose_) std::cout << "Step " << steps_ << ": reducing learning rate of group " << i << " to " << rate << "\n";
  }
}

}  // namespace torch::optim
