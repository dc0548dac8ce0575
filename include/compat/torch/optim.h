// Optimizers: groups of parameters with options, and a step that follows their gradients.
#pragma once

#include <torch/nn/functional.h>

#include <unordered_map>

namespace torch::optim {

/// What an optimizer is told of a group of parameters.
class OptimizerOptions {
 public:
  virtual ~OptimizerOptions() = default;
  virtual std::unique_ptr<OptimizerOptions> clone() const = 0;
  virtual double get_lr() const = 0;
  virtual void set_lr(double lr) = 0;
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
  std::vector<OptimizerParamGroup>& param_groups() { return param_groups_; }
  const std::vector<OptimizerParamGroup>& param_groups() const { return param_groups_; }

 protected:
  /// What a rule keeps of a parameter.
  struct State {
    int64_t step = 0;
    std::vector<Tensor> tensors;
  };
  static Tensor evaluate(const LossClosure& closure);
  State& state_of(const Tensor& param) { return state_[param.core().impl()]; }

  std::vector<OptimizerParamGroup> param_groups_;
  std::unordered_map<void*, State> state_;
  std::unique_ptr<OptimizerOptions> defaults_;
};

struct SGDOptions : OptimizerCloneableOptions<SGDOptions> {
  SGDOptions(double lr) : lr_(lr) {}
  TORCH_ARG(double, lr);
  TORCH_ARG(double, momentum) = 0;
  TORCH_ARG(double, dampening) = 0;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(bool, nesterov) = false;
};
struct AdamOptions : OptimizerCloneableOptions<AdamOptions> {
  AdamOptions(double lr = 1e-3) : lr_(lr) {}
  using Betas = std::tuple<double, double>;
  TORCH_ARG(double, lr);
  TORCH_ARG(Betas, betas) = std::make_tuple(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 0;
  TORCH_ARG(bool, amsgrad) = false;
};
struct AdamWOptions : OptimizerCloneableOptions<AdamWOptions> {
  AdamWOptions(double lr = 1e-3) : lr_(lr) {}
  using Betas = std::tuple<double, double>;
  TORCH_ARG(double, lr);
  TORCH_ARG(Betas, betas) = std::make_tuple(0.9, 0.999);
  TORCH_ARG(double, eps) = 1e-8;
  TORCH_ARG(double, weight_decay) = 1e-2;
  TORCH_ARG(bool, amsgrad) = false;
};

#define TORCH_OPTIMIZER(Name)                                                                         \
  class Name : public Optimizer {                                                                     \
   public:                                                                                            \
    explicit Name(std::vector<OptimizerParamGroup> groups, Name##Options defaults);                   \
    explicit Name(std::vector<Tensor> params, Name##Options defaults)                                 \
        : Name(std::vector<OptimizerParamGroup>{OptimizerParamGroup(std::move(params))}, defaults) {} \
    Tensor step(LossClosure closure = nullptr) override;                                              \
  }
TORCH_OPTIMIZER(SGD);
TORCH_OPTIMIZER(Adam);
TORCH_OPTIMIZER(AdamW);
#undef TORCH_OPTIMIZER

/// Multiplies the rates by gamma every step_size steps.
class StepLR {
 public:
  StepLR(Optimizer& optimizer, unsigned step_size, double gamma = 0.1)
      : optimizer_(optimizer), step_size_(step_size), gamma_(gamma) {}
  void step();

 private:
  Optimizer& optimizer_;
  unsigned step_size_, steps_ = 0;
  double gamma_;
};

}  // namespace torch::optim
