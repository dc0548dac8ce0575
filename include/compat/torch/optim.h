// Optimizers: groups of parameters with options, and a step that follows their gradients.
#pragma once

#include <torch/nn/functional.h>

#include <unordered_map>

namespace torch::serialize {
class OutputArchive;
class InputArchive;
}  // namespace torch::serialize

namespace torch::optim {

/// What an optimizer is told of a group of parameters.
class OptimizerOptions {
 public:
  virtual ~OptimizerOptions() = default;
  virtual std::unique_ptr<OptimizerOptions> clone() const = 0;
  virtual double get_lr() const = 0;
  virtual void set_lr(double lr) = 0;
  virtual void serialize(serialize::OutputArchive& archive) const;
  virtual void serialize(serialize::InputArchive& archive);
};
template <class Derived>
class OptimizerCloneableOptions : public OptimizerOptions {
 public:
  std::unique_ptr<OptimizerOptions> clone() const override {
    return std::make_unique<Derived>(static_cast<const Derived&>(*this));
  }
  double get_lr() const override { return static_cast<const Derived&>(*this).lr(); }
  void set_lr(double lr) override { static_cast<Derived&>(*this).lr(lr); }
};

class OptimizerParamGroup {
 public:
  OptimizerParamGroup(std::vector<Tensor> params) : params_(std::move(params)) {}
  OptimizerParamGroup(std::vector<Tensor> params, std::unique_ptr<OptimizerOptions> options)
      : params_(std::move(params)), options_(std::move(options)) {}
  OptimizerParamGroup(const OptimizerParamGroup& other)
      : params_(other.params_), options_(other.options_ ? other.options_->clone() : nullptr) {}
  OptimizerParamGroup(OptimizerParamGroup&&) = default;
  OptimizerParamGroup& operator=(OptimizerParamGroup&&) = default;
  bool has_options() const { return options_ != nullptr; }
  OptimizerOptions& options() { return *options_; }
  const OptimizerOptions& options() const { return *options_; }
  void set_options(std::unique_ptr<OptimizerOptions> options) { options_ = std::move(options); }
  std::vector<Tensor>& params() { return params_; }
  const std::vector<Tensor>& params() const { return params_; }

 private:
  std::vector<Tensor> params_;
  std::unique_ptr<OptimizerOptions> options_;
};

class Optimizer {
 public:
  using LossClosure = std::function<Tensor()>;
  Optimizer(std::vector<OptimizerParamGroup> groups, std::unique_ptr<OptimizerOptions> defaults);
  Optimizer(const Optimizer&) = delete;
  Optimizer(Optimizer&&) = default;
  virtual ~Optimizer();

  virtual Tensor step(LossClosure closure = nullptr) = 0;
  void zero_grad(bool set_to_none = true);
  void add_param_group(const OptimizerParamGroup& group);
  void add_parameters(const std::vector<Tensor>& parameters);
  size_t size() const noexcept;
  OptimizerOptions& defaults() { return *defaults_; }
  const OptimizerOptions& defaults() const { return *defaults_; }
  std::vector<OptimizerParamGroup>& param_groups() { return param_groups_; }
  const std::vector<OptimizerParamGroup>& param_groups() const { return param_groups_; }
  std::vector<Tensor>& parameters();
  /// Options of the groups, and what is kept of each parameter.
  virtual void save(serialize::OutputArchive& archive) const;
  virtual void load(serialize::InputArchive& archive);

 protected:
  /// What a rule keeps of a parameter.
  struct State {
    int64_t step = 0;
    std::vector<Tensor> tensors;
  };
  /// The names of a state in an archive: "step" if it counts steps, and those of its tensors.
  struct StateNames {
    bool step;
    std::vector<const char*> tensors;
  };
  virtual StateNames state_names() const { return {false, {}}; }
  virtual void save_state(const State& state, serialize::OutputArchive& archive) const;
  virtual void load_state(State& state, serialize::InputArchive& archive) const;
  static Tensor evaluate(const LossClosure& closure);
  State& state_of(const Tensor& param) { return state_[param.core().impl()]; }

  std::vector<OptimizerParamGroup> param_groups_;
  std::unordered_map<void*, State> state_;
  std::unique_ptr<OptimizerOptions> defaults_;
};

#define TORCH_OPTIMIZER_OPTIONS(Name, rate)                 \
  Name(double lr rate) : lr_(lr) {}                         \
  void serialize(serialize::OutputArchive&) const override; \
  void serialize(serialize::InputArchive&) override;        \
  TORCH_ARG(double, lr)
struct SGDOptions : OptimizerCloneableOptions<SGDOptions> {
  TORCH_OPTIMIZER_OPTIONS(SGDOptions, );
  TORCH_ARG(double, momentum) = 0;
  TORCH_ARG(double, dampening) = 0;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(bool, nesterov) = false;
};
using AdamBetas = std::tuple<double, double>;
struct AdamOptions : OptimizerCloneableOptions<AdamOptions> {
  TORCH_OPTIMIZER_OPTIONS(AdamOptions, = 1e-3);
  TORCH_ARG(AdamBetas, betas) = std::make_tuple(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(bool, amsgrad) = false;
};
struct AdamWOptions : OptimizerCloneableOptions<AdamWOptions> {
  TORCH_OPTIMIZER_OPTIONS(AdamWOptions, = 1e-3);
  TORCH_ARG(AdamBetas, betas) = std::make_tuple(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 1e-2;
  TORCH_ARG(bool, amsgrad) = false;
};
struct RMSpropOptions : OptimizerCloneableOptions<RMSpropOptions> {
  TORCH_OPTIMIZER_OPTIONS(RMSpropOptions, = 1e-2);
  TORCH_ARG(double, alpha) = 0.99;
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(double, momentum) = 0;
  TORCH_ARG(bool, centered) = false;
};
struct AdagradOptions : OptimizerCloneableOptions<AdagradOptions> {
  TORCH_OPTIMIZER_OPTIONS(AdagradOptions, = 1e-2);
  TORCH_ARG(double, lr_decay) = 0;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(double, initial_accumulator_value) = 0;
  TORCH_ARG(double, eps) = 1e-10;
};
struct LBFGSOptions : OptimizerCloneableOptions<LBFGSOptions> {
  TORCH_OPTIMIZER_OPTIONS(LBFGSOptions, = 1);
  TORCH_ARG(int64_t, max_iter) = 20;
  TORCH_ARG(optional<int64_t>, max_eval);
  TORCH_ARG(double, tolerance_grad) = 1e-7;
  TORCH_ARG(double, tolerance_change) = 1e-9;
  TORCH_ARG(int64_t, history_size) = 100;
  TORCH_ARG(optional<std::string>, line_search_fn);
};
#undef TORCH_OPTIMIZER_OPTIONS

#define TORCH_OPTIMIZER(Name, default_options)                                                                 \
 public:                                                                                                       \
  explicit Name(std::vector<OptimizerParamGroup> groups, Name##Options defaults default_options);              \
  explicit Name(std::vector<Tensor> params, Name##Options defaults default_options)                            \
      : Name(std::vector<OptimizerParamGroup>{OptimizerParamGroup(std::move(params))}, std::move(defaults)) {} \
  Tensor step(LossClosure closure TORCH_NO_CLOSURE) override;                                                  \
                                                                                                               \
 private:                                                                                                      \
  StateNames state_names() const override
#define TORCH_NO_CLOSURE = nullptr
class SGD : public Optimizer {
  TORCH_OPTIMIZER(SGD, );
};
class Adam : public Optimizer {
  TORCH_OPTIMIZER(Adam, = {});
};
class AdamW : public Optimizer {
  TORCH_OPTIMIZER(AdamW, = {});
};
class RMSprop : public Optimizer {
  TORCH_OPTIMIZER(RMSprop, = {});
};
class Adagrad : public Optimizer {
  TORCH_OPTIMIZER(Adagrad, = {});
};
#undef TORCH_NO_CLOSURE
#define TORCH_NO_CLOSURE
/// Quasi-Newton steps: `step` calls the closure several times.
class LBFGS : public Optimizer {
  TORCH_OPTIMIZER(LBFGS, = {});
  struct History;
  void save_state(const State& state, serialize::OutputArchive& archive) const override;
  void load_state(State& state, serialize::InputArchive& archive) const override;
  std::shared_ptr<History> history_;
};
#undef TORCH_NO_CLOSURE
#undef TORCH_OPTIMIZER

/// Changes the rates of an optimizer at each of its steps.
class LRScheduler {
 public:
  explicit LRScheduler(Optimizer& optimizer) : optimizer_(optimizer) {}
  virtual ~LRScheduler() = default;
  void step();

 protected:
  virtual std::vector<double> get_lrs() = 0;
  std::vector<double> get_current_lrs() const;
  unsigned step_count_ = 0;

 private:
  Optimizer& optimizer_;
};

/// Multiplies the rates by gamma every step_size steps.
class StepLR : public LRScheduler {
 public:
  StepLR(Optimizer& optimizer, unsigned step_size, double gamma = 0.1)
      : LRScheduler(optimizer), step_size_(step_size), gamma_(gamma) {}

 private:
  std::vector<double> get_lrs() override;
  unsigned step_size_;
  double gamma_;
};

/// Lowers the rates when a figure has not become better for `patience` steps.
class ReduceLROnPlateauScheduler {
 public:
  enum SchedulerMode { min, max };
  enum ThresholdMode { rel, abs };
  ReduceLROnPlateauScheduler(Optimizer& optimizer, SchedulerMode mode = min, float factor = 0.1f, int patience = 10,
                             double threshold = 1e-4, ThresholdMode threshold_mode = rel, int cooldown = 0,
                             const std::vector<float>& min_lr = {}, double eps = 1e-8, bool verbose = false);
  virtual ~ReduceLROnPlateauScheduler() = default;
  void step(float metric);

 private:
  bool is_better(float metric) const;
  void reduce_lr();
  Optimizer& optimizer_;
  SchedulerMode mode_;
  ThresholdMode threshold_mode_;
  double factor_, threshold_, eps_;
  int patience_, cooldown_, cooldown_left_ = 0, bad_steps_ = 0, steps_ = 0;
  std::vector<float> min_lrs_;
  float best_;
  bool verbose_;
};

}  // namespace torch::optim
