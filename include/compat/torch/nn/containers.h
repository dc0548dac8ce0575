// Modules of any class behind one interface, and modules made of others.
#pragma once

#include <torch/nn/module.h>

#include <any>
#include <typeinfo>

namespace torch::nn {

/// A value of any type, on its way into or out of a module of any class.
class AnyValue {
 public:
  AnyValue() = default;
  template <class T>
    requires(!std::is_same_v<std::decay_t<T>, AnyValue>)
  explicit AnyValue(T&& value) : value_(std::forward<T>(value)) {}
  template <class T>
  T* try_get() {
    return std::any_cast<T>(&value_);
  }
  template <class T>
  T get() {
    T* found = try_get<T>();
    FACULA_CHECK(found, facula::ErrorKind::Runtime, "AnyValue.get: the type of the value is expected, ",
                 value_.type().name(), ", got ", typeid(T).name());
    return *found;
  }
  const std::type_info& type_info() const { return value_.type(); }

 private:
  std::any value_;
};

namespace detail {

template <class F>
struct Signature;
template <class M, class R, class... P>
struct Signature<R (M::*)(P...)> {
  using Result = R;
  using Parameters = std::tuple<std::decay_t<P>...>;
};
template <class M, class R, class... P>
struct Signature<R (M::*)(P...) const> : Signature<R (M::*)(P...)> {};

struct AnyHolder {
  virtual ~AnyHolder() = default;
  virtual AnyValue forward(std::vector<AnyValue>& arguments) = 0;
  virtual std::shared_ptr<Module> ptr() const = 0;
  virtual std::shared_ptr<AnyHolder> clone(const optional<Device>& device) const = 0;
};

template <class M>
struct TypedHolder final : AnyHolder {
  explicit TypedHolder(std::shared_ptr<M> m) : module(std::move(m)) {}
  std::shared_ptr<Module> ptr() const override { return module; }
  std::shared_ptr<AnyHolder> clone(const optional<Device>& device) const override {
    return std::make_shared<TypedHolder>(std::dynamic_pointer_cast<M>(module->clone(device)));
  }
  AnyValue forward(std::vector<AnyValue>& arguments) override {
    using Parameters = typename Signature<decltype(&M::forward)>::Parameters;
    AnyValue result;
    if (!call<Parameters, std::tuple_size_v<Parameters>>(arguments, result))
      facula::throw_error(facula::ErrorKind::Runtime, module->name(), ".forward: expected ",
                          std::tuple_size_v<Parameters>, " arguments, got ", arguments.size());
    return result;
  }

 private:
  // With as many arguments as there are: the rest may have defaults.
  template <class Parameters, size_t N>
  bool call(std::vector<AnyValue>& arguments, AnyValue& result) {
    if (arguments.size() == N) return invoke<Parameters>(arguments, result, std::make_index_sequence<N>());
    if constexpr (N > 0) return call<Parameters, N - 1>(arguments, result);
    else return false;
  }
  template <class Parameters, size_t... I>
  bool invoke([[maybe_unused]] std::vector<AnyValue>& arguments, AnyValue& result, std::index_sequence<I...>) {
    if constexpr (requires { module->forward(std::declval<std::tuple_element_t<I, Parameters>>()...); }) {
      using Result = decltype(module->forward(std::declval<std::tuple_element_t<I, Parameters>>()...));
      if constexpr (std::is_void_v<Result>)
        module->forward(arguments[I].template get<std::tuple_element_t<I, Parameters>>()...);
      else
        result = AnyValue(
            std::decay_t<Result>(module->forward(arguments[I].template get<std::tuple_element_t<I, Parameters>>()...)));
      return true;
    } else {
      return false;
    }
  }
  std::shared_ptr<M> module;
};

}  // namespace detail

class AnyModule {
 public:
  AnyModule() = default;
  template <class M>
    requires std::is_base_of_v<Module, M>
  explicit AnyModule(std::shared_ptr<M> module)
      : holder_(std::make_shared<detail::TypedHolder<M>>(std::move(module))) {}
  template <class M>
    requires std::is_base_of_v<Module, std::decay_t<M>>
  explicit AnyModule(M&& module) : AnyModule(std::make_shared<std::decay_t<M>>(std::forward<M>(module))) {}
  template <class M>
  explicit AnyModule(const ModuleHolder<M>& holder) : AnyModule(holder.ptr()) {}

  template <class... Args>
  AnyValue any_forward(Args&&... args) {
    std::vector<AnyValue> arguments;
    (arguments.emplace_back(std::decay_t<Args>(std::forward<Args>(args))), ...);
    return held().forward(arguments);
  }
  AnyValue any_forward_values(std::vector<AnyValue> arguments) { return held().forward(arguments); }
  template <class Result = Tensor, class... Args>
  Result forward(Args&&... args) {
    return any_forward(std::forward<Args>(args)...).template get<Result>();
  }
  std::shared_ptr<Module> ptr() const { return held().ptr(); }
  template <class M>
  std::shared_ptr<M> ptr() const {
    return std::dynamic_pointer_cast<M>(ptr());
  }
  template <class M>
    requires std::is_base_of_v<Module, M>
  M& get() {
    return *checked<M>();
  }
  template <class M>
  typename M::ContainedType& get() {
    return *checked<typename M::ContainedType>();
  }
  AnyModule clone(optional<Device> device = nullopt) const {
    AnyModule copy;
    if (holder_) copy.holder_ = holder_->clone(device);
    return copy;
  }
  bool is_empty() const noexcept { return !holder_; }
  const std::type_info& type_info() const {
    const Module& module = *ptr();
    return typeid(module);
  }

 private:
  detail::AnyHolder& held() const {
    FACULA_CHECK(holder_, facula::ErrorKind::Runtime, "AnyModule.forward: it holds no module");
    return *holder_;
  }
  template <class M>
  std::shared_ptr<M> checked() const {
    auto found = std::dynamic_pointer_cast<M>(ptr());
    FACULA_CHECK(found, facula::ErrorKind::Runtime,
                 "AnyModule.get: the type of the module is expected, ", ptr()->name(), ", got ",
                 typeid(M).name());
    return found;
  }
  std::shared_ptr<detail::AnyHolder> holder_;
};

class NamedAnyModule {
 public:
  template <class M>
  NamedAnyModule(std::string name, M&& module) : name_(std::move(name)), module_(std::forward<M>(module)) {}
  NamedAnyModule(std::string name, AnyModule module) : name_(std::move(name)), module_(std::move(module)) {}
  const std::string& name() const { return name_; }
  AnyModule& module() { return module_; }
  const AnyModule& module() const { return module_; }

 private:
  std::string name_;
  AnyModule module_;
};

class SequentialImpl : public Cloneable<SequentialImpl> {
 public:
  using Iterator = std::vector<AnyModule>::iterator;
  using ConstIterator = std::vector<AnyModule>::const_iterator;

  SequentialImpl() = default;
  template <class... Modules>
    requires(sizeof...(Modules) > 0 &&
             !(sizeof...(Modules) == 1 && (std::is_same_v<std::decay_t<Modules>, SequentialImpl> || ...)))
  explicit SequentialImpl(Modules&&... modules) {
    (push_back(std::forward<Modules>(modules)), ...);
  }
  explicit SequentialImpl(OrderedDict<std::string, AnyModule>&& modules) {
    for (auto& item : modules) push_back(item.key(), std::move(item.value()));
  }
  explicit SequentialImpl(std::initializer_list<NamedAnyModule> modules) {
    for (const NamedAnyModule& each : modules) push_back(each.name(), each.module());
  }
  SequentialImpl(const SequentialImpl&) = default;
  SequentialImpl(SequentialImpl&&) = default;
  SequentialImpl& operator=(const SequentialImpl&) = default;

  std::shared_ptr<Module> clone(const optional<Device>& device = nullopt) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::Sequential"; }

  template <class Result = Tensor, class... Args>
  Result forward(Args&&... args) {
    FACULA_CHECK(!is_empty(), facula::ErrorKind::Runtime, "Sequential.forward: it holds no module");
    std::vector<AnyValue> given;
    (given.emplace_back(std::decay_t<Args>(std::forward<Args>(args))), ...);
    AnyValue value = run(std::move(given));
    Result* found = value.try_get<Result>();
    FACULA_CHECK(found, facula::ErrorKind::Runtime, "Sequential.forward: the type of the result is expected, ",
                 value.type_info().name(), ", got ", typeid(Result).name());
    return *found;
  }

  template <class M>
  void push_back(std::shared_ptr<M> module) {
    push_back(std::to_string(modules_.size()), std::move(module));
  }
  template <class M>
  void push_back(std::string name, std::shared_ptr<M> module) {
    push_back(std::move(name), AnyModule(std::move(module)));
  }
  template <class M>
    requires std::is_base_of_v<Module, std::decay_t<M>>
  void push_back(M&& module) {
    push_back(std::to_string(modules_.size()), std::make_shared<std::decay_t<M>>(std::forward<M>(module)));
  }
  template <class M>
    requires std::is_base_of_v<Module, std::decay_t<M>>
  void push_back(std::string name, M&& module) {
    push_back(std::move(name), std::make_shared<std::decay_t<M>>(std::forward<M>(module)));
  }
  template <class M>
  void push_back(const ModuleHolder<M>& holder) {
    push_back(std::to_string(modules_.size()), holder.ptr());
  }
  template <class M>
  void push_back(std::string name, const ModuleHolder<M>& holder) {
    push_back(std::move(name), holder.ptr());
  }
  void push_back(AnyModule module) { push_back(std::to_string(modules_.size()), std::move(module)); }
  void push_back(const NamedAnyModule& module) { push_back(module.name(), module.module()); }
  void push_back(std::string name, AnyModule module) {
    modules_.push_back(std::move(module));
    register_module(std::move(name), modules_.back().ptr());
  }
  template <class Container>
  void extend(const Container& container) {
    for (const auto& module : container) push_back(module);
  }
  Iterator begin() { return modules_.begin(); }
  ConstIterator begin() const { return modules_.begin(); }
  Iterator end() { return modules_.end(); }
  ConstIterator end() const { return modules_.end(); }
  template <class T>
    requires std::is_base_of_v<Module, T>
  T& at(size_t i) {
    return checked(i).template get<T>();
  }
  template <class T>
  typename T::ContainedType& at(size_t i) {
    return checked(i).template get<typename T::ContainedType>();
  }
  std::shared_ptr<Module> ptr(size_t i) const { return checked(i).ptr(); }
  template <class T>
  std::shared_ptr<T> ptr(size_t i) const {
    return checked(i).template ptr<T>();
  }
  std::shared_ptr<Module> operator[](size_t i) const { return ptr(i); }
  size_t size() const noexcept { return modules_.size(); }
  bool is_empty() const noexcept { return modules_.empty(); }

 private:
  AnyValue run(std::vector<AnyValue> arguments);
  AnyModule& checked(size_t i) const {
    FACULA_CHECK(i < size(), facula::ErrorKind::Index, "ModuleList: expected an index below ", size(), ", got ", i);
    return const_cast<AnyModule&>(modules_[i]);
  }
  std::vector<AnyModule> modules_;
};

/// Its modules in order; `forward` of one gives what the next is given.
class Sequential : public ModuleHolder<SequentialImpl> {
 public:
  using ModuleHolder<SequentialImpl>::ModuleHolder;
  Sequential() = default;
  Sequential(std::initializer_list<NamedAnyModule> modules) : ModuleHolder(std::make_shared<SequentialImpl>(modules)) {}
};

class ModuleListImpl : public Cloneable<ModuleListImpl> {
 public:
  ModuleListImpl() = default;
  template <class... Modules>
    requires(sizeof...(Modules) > 0 &&
             !(sizeof...(Modules) == 1 && (std::is_same_v<std::decay_t<Modules>, ModuleListImpl> || ...)))
  explicit ModuleListImpl(Modules&&... modules) {
    (push_back(std::forward<Modules>(modules)), ...);
  }
  ModuleListImpl(const ModuleListImpl&) = default;
  ModuleListImpl(ModuleListImpl&&) = default;
  ModuleListImpl& operator=(const ModuleListImpl&) = default;
  std::shared_ptr<Module> clone(const optional<Device>& device = nullopt) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::ModuleList"; }
  void push_back(std::shared_ptr<Module> module) {
    register_module(std::to_string(modules_.size()), module);
    modules_.push_back(std::move(module));
  }
  template <class M>
    requires std::is_base_of_v<Module, std::decay_t<M>>
  void push_back(M&& module) {
    push_back(std::shared_ptr<Module>(std::make_shared<std::decay_t<M>>(std::forward<M>(module))));
  }
  template <class M>
  void push_back(const ModuleHolder<M>& holder) {
    push_back(std::shared_ptr<Module>(holder.ptr()));
  }
  template <class Container>
  void extend(const Container& container) {
    for (const auto& module : container) push_back(module);
  }
  auto begin() { return modules_.begin(); }
  auto begin() const { return modules_.begin(); }
  auto end() { return modules_.end(); }
  auto end() const { return modules_.end(); }
  std::shared_ptr<Module> ptr(size_t i) const { return modules_.at(i); }
  template <class T>
  std::shared_ptr<T> ptr(size_t i) const {
    return std::dynamic_pointer_cast<T>(ptr(i));
  }
  template <class T>
    requires std::is_base_of_v<Module, T>
  T& at(size_t i) {
    return *ptr<T>(i);
  }
  template <class T>
  typename T::ContainedType& at(size_t i) {
    return *ptr<typename T::ContainedType>(i);
  }
  std::shared_ptr<Module> operator[](size_t i) const { return ptr(i); }
  size_t size() const noexcept { return modules_.size(); }
  bool is_empty() const noexcept { return modules_.empty(); }

 private:
  std::vector<std::shared_ptr<Module>> modules_;
};
TORCH_MODULE(ModuleList);

class ModuleDictImpl : public Cloneable<ModuleDictImpl> {
 public:
  ModuleDictImpl() = default;
  explicit ModuleDictImpl(const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& modules) {
    update(modules);
  }
  explicit ModuleDictImpl(const OrderedDict<std::string, std::shared_ptr<Module>>& modules) { update(modules.pairs()); }
  std::shared_ptr<Module> clone(const optional<Device>& device = nullopt) const override;
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::ModuleDict"; }
  void update(const std::vector<std::pair<std::string, std::shared_ptr<Module>>>& modules) {
    for (const auto& [name, module] : modules) {
      if (contains(name)) replace_module(name, module);
      else register_module(name, module);
    }
  }
  std::vector<std::pair<std::string, std::shared_ptr<Module>>> items() const { return children_.pairs(); }
  std::vector<std::string> keys() const { return children_.keys(); }
  std::vector<std::shared_ptr<Module>> values() const { return children_.values(); }
  auto begin() { return children_.begin(); }
  auto begin() const { return children_.begin(); }
  auto end() { return children_.end(); }
  auto end() const { return children_.end(); }
  bool contains(const std::string& key) const { return children_.contains(key); }
  void insert(const std::string& key, std::shared_ptr<Module> module) { register_module(key, std::move(module)); }
  std::shared_ptr<Module> pop(const std::string& key) {
    auto module = children_[key];
    unregister_module(key);
    return module;
  }
  void clear() { children_.clear(); }
  std::shared_ptr<Module> operator[](const std::string& key) const { return children_[key]; }
  template <class T>
    requires std::is_base_of_v<Module, T>
  T& at(const std::string& key) {
    return *std::dynamic_pointer_cast<T>(children_[key]);
  }
  template <class T>
  typename T::ContainedType& at(const std::string& key) {
    return *std::dynamic_pointer_cast<typename T::ContainedType>(children_[key]);
  }
  size_t size() const noexcept { return children_.size(); }
  bool empty() const noexcept { return children_.is_empty(); }
};
TORCH_MODULE(ModuleDict);

/// A function as a module.
class FunctionalImpl : public Cloneable<FunctionalImpl> {
 public:
  using Function = std::function<Tensor(Tensor)>;
  explicit FunctionalImpl(Function function) : function_(std::move(function)) {}
  template <class F, class... Args>
    requires(sizeof...(Args) > 0)
  explicit FunctionalImpl(F original, Args&&... args)
      : function_([original, ... args = std::decay_t<Args>(std::forward<Args>(args))](Tensor input) {
          return original(std::move(input), args...);
        }) {}
  void reset() override {}
  void pretty_print(std::ostream& stream) const override { stream << "torch::nn::Functional()"; }
  Tensor forward(Tensor input) { return function_(std::move(input)); }
  Tensor operator()(Tensor input) { return forward(std::move(input)); }
  bool is_serializable() const override { return false; }

 private:
  Function function_;
};
TORCH_MODULE(Functional);

/// Parameters by number.
class ParameterListImpl : public Cloneable<ParameterListImpl> {
 public:
  ParameterListImpl() = default;
  template <class... Tensors>
    requires(sizeof...(Tensors) > 0 && (std::is_same_v<std::decay_t<Tensors>, Tensor> && ...))
  explicit ParameterListImpl(Tensors&&... tensors) {
    (append(std::forward<Tensors>(tensors)), ...);
  }
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  void append(const Tensor& parameter) {
    register_parameter(std::to_string(parameters_.size()), parameter, parameter.requires_grad());
  }
  template <class Container>
  void extend(const Container& container) {
    for (const Tensor& each : container) append(each);
  }
  auto begin() { return parameters_.begin(); }
  auto end() { return parameters_.end(); }
  Tensor& at(size_t i) {
    FACULA_CHECK(i < size(), facula::ErrorKind::Index, "ParameterList: expected an index below ", size(), ", got ", i);
    return *parameters_[i];
  }
  Tensor& operator[](size_t i) { return at(i); }
  size_t size() const noexcept { return parameters_.size(); }
  bool is_empty() const noexcept { return parameters_.is_empty(); }
};
TORCH_MODULE(ParameterList);

/// Parameters by name.
class ParameterDictImpl : public Cloneable<ParameterDictImpl> {
 public:
  ParameterDictImpl() = default;
  explicit ParameterDictImpl(const OrderedDict<std::string, Tensor>& parameters) { update(parameters); }
  void reset() override {}
  void pretty_print(std::ostream& stream) const override;
  Tensor& insert(const std::string& key, const Tensor& value) {
    return register_parameter(key, value, value.requires_grad());
  }
  void update(const OrderedDict<std::string, Tensor>& others) {
    for (const auto& item : others) {
      if (contains(item.key())) parameters_[item.key()] = *item;
      else insert(item.key(), *item);
    }
  }
  Tensor pop(const std::string& key) {
    const Tensor parameter = parameters_[key];
    parameters_.erase(key);
    return parameter;
  }
  Tensor& get(const std::string& key) { return parameters_[key]; }
  Tensor& operator[](const std::string& key) { return parameters_[key]; }
  std::vector<std::string> keys() const { return parameters_.keys(); }
  std::vector<Tensor> values() const { return parameters_.values(); }
  bool contains(const std::string& key) const noexcept { return parameters_.contains(key); }
  auto begin() { return parameters_.begin(); }
  auto end() { return parameters_.end(); }
  void clear() { parameters_.clear(); }
  size_t size() const noexcept { return parameters_.size(); }
  bool empty() const noexcept { return parameters_.is_empty(); }
};
TORCH_MODULE(ParameterDict);

}  // namespace torch::nn
