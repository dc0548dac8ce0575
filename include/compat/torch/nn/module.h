// Modules: parameters, buffers and modules under names; holders, which share them.
#pragma once

#include <torch/autograd.h>

#include <string>
#include <unordered_map>
#include <utility>

namespace torch {
namespace serialize {
class OutputArchive;
class InputArchive;
}  // namespace serialize

/// A dictionary that keeps the order in which its items came.
template <class Key, class Value>
class OrderedDict {
 public:
  class Item {
   public:
    Item(Key key, Value value) : pair_(std::move(key), std::move(value)) {}
    Value& operator*() { return pair_.second; }
    const Value& operator*() const { return pair_.second; }
    Value* operator->() { return &pair_.second; }
    const Value* operator->() const { return &pair_.second; }
    const Key& key() const { return pair_.first; }
    Value& value() { return pair_.second; }
    const Value& value() const { return pair_.second; }
    const std::pair<Key, Value>& pair() const { return pair_; }

   private:
    std::pair<Key, Value> pair_;
  };
  using Iterator = typename std::vector<Item>::iterator;
  using ConstIterator = typename std::vector<Item>::const_iterator;

  explicit OrderedDict(std::string what = "Key") : what_(std::move(what)) {}
  OrderedDict(std::initializer_list<Item> items) : what_("Key") {
    for (const Item& item : items) insert(item.key(), item.value());
  }
  Value& insert(Key key, Value value) {
    FACULA_CHECK(!contains(key), facula::ErrorKind::Runtime, what_,
                 ": a name can be given once, got '", key, "' again");
    places_.emplace(key, items_.size());
    items_.emplace_back(std::move(key), std::move(value));
    return items_.back().value();
  }
  void update(const OrderedDict& other) {
    for (const Item& item : other) insert(item.key(), item.value());
  }
  void erase(const Key& key) {
    const size_t at = place(key);
    items_.erase(items_.begin() + static_cast<std::ptrdiff_t>(at));
    places_.erase(key);
    for (auto& [each, where] : places_) where -= where > at;
  }
  void clear() {
    items_.clear();
    places_.clear();
  }
  Value* find(const Key& key) {
    const auto found = places_.find(key);
    return found == places_.end() ? nullptr : &items_[found->second].value();
  }
  const Value* find(const Key& key) const { return const_cast<OrderedDict*>(this)->find(key); }
  bool contains(const Key& key) const { return places_.count(key) != 0; }
  Value& operator[](const Key& key) { return items_[place(key)].value(); }
  const Value& operator[](const Key& key) const { return items_[place(key)].value(); }
  Item& operator[](size_t i) { return items_[i]; }
  const Item& operator[](size_t i) const { return items_[i]; }
  Item& front() { return items_.front(); }
  const Item& front() const { return items_.front(); }
  Item& back() { return items_.back(); }
  const Item& back() const { return items_.back(); }
  size_t size() const { return items_.size(); }
  bool is_empty() const { return items_.empty(); }
  void reserve(size_t n) { items_.reserve(n); }
  const std::vector<Item>& items() const { return items_; }
  Iterator begin() { return items_.begin(); }
  Iterator end() { return items_.end(); }
  ConstIterator begin() const { return items_.begin(); }
  ConstIterator end() const { return items_.end(); }
  std::vector<Key> keys() const {
    std::vector<Key> all;
    for (const Item& item : items_) all.push_back(item.key());
    return all;
  }
  std::vector<Value> values() const {
    std::vector<Value> all;
    for (const Item& item : items_) all.push_back(item.value());
    return all;
  }
  std::vector<std::pair<Key, Value>> pairs() const {
    std::vector<std::pair<Key, Value>> all;
    for (const Item& item : items_) all.push_back(item.pair());
    return all;
  }

 private:
  size_t place(const Key& key) const {
    const auto found = places_.find(key);
    FACULA_CHECK(found != places_.end(), facula::ErrorKind::Runtime, what_,
                 ": expected the name of an entry, got '", key, "'");
    return found->second;
  }
  std::string what_;
  std::vector<Item> items_;
  std::unordered_map<Key, size_t> places_;
};

namespace nn {

template <class Contained>
class ModuleHolder;
namespace detail {
class CloneableBase;
}

class Module : public std::enable_shared_from_this<Module> {
 public:
  using ModuleApplyFunction = std::function<void(Module&)>;
  using ConstModuleApplyFunction = std::function<void(const Module&)>;
  using NamedModuleApplyFunction = std::function<void(const std::string&, Module&)>;
  using ModulePointerApplyFunction = std::function<void(const std::shared_ptr<Module>&)>;

  Module() = default;
  explicit Module(std::string name) : name_(std::move(name)) {}
  virtual ~Module();

  /// The name that it was given, or that of its class.
  const std::string& name() const;
  virtual std::shared_ptr<Module> clone(const optional<Device>& device = nullopt) const;

  void apply(const ModuleApplyFunction& function);
  void apply(const ConstModuleApplyFunction& function) const;
  void apply(const NamedModuleApplyFunction& function, const std::string& prefix = {});
  void apply(const ModulePointerApplyFunction& function) const;

  std::vector<Tensor> parameters(bool recurse = true) const;
  OrderedDict<std::string, Tensor> named_parameters(bool recurse = true) const;
  std::vector<Tensor> buffers(bool recurse = true) const;
  OrderedDict<std::string, Tensor> named_buffers(bool recurse = true) const;
  std::vector<std::shared_ptr<Module>> modules(bool include_self = true) const;
  OrderedDict<std::string, std::shared_ptr<Module>> named_modules(const std::string& prefix = {},
                                                                  bool include_self = true) const;
  std::vector<std::shared_ptr<Module>> children() const;
  OrderedDict<std::string, std::shared_ptr<Module>> named_children() const;

  virtual void train(bool on = true);
  void eval();
  virtual bool is_training() const noexcept { return is_training_; }
  virtual void to(Device device, Dtype dtype, bool non_blocking = false);
  virtual void to(Dtype dtype, bool non_blocking = false);
  virtual void to(Device device, bool non_blocking = false);
  virtual void zero_grad(bool set_to_none = true);
  virtual void save(serialize::OutputArchive& archive) const;
  virtual void load(serialize::InputArchive& archive);
  virtual bool is_serializable() const { return true; }

  template <class M>
  typename M::ContainedType* as() noexcept {
    return as<typename M::ContainedType>();
  }
  template <class M>
  const typename M::ContainedType* as() const noexcept {
    return as<typename M::ContainedType>();
  }
  template <class M>
    requires std::is_base_of_v<Module, M>
  M* as() noexcept {
    return dynamic_cast<M*>(this);
  }
  template <class M>
    requires std::is_base_of_v<Module, M>
  const M* as() const noexcept {
    return dynamic_cast<const M*>(this);
  }

  virtual void pretty_print(std::ostream& stream) const;

  Tensor& register_parameter(std::string name, Tensor tensor, bool requires_grad = true);
  Tensor& register_buffer(std::string name, Tensor tensor);
  template <class M>
  std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> module) {
    add_module(std::move(name), module);
    return module;
  }
  template <class M>
  std::shared_ptr<M> register_module(std::string name, ModuleHolder<M> holder) {
    return register_module(std::move(name), holder.ptr());
  }
  template <class M>
  std::shared_ptr<M> replace_module(const std::string& name, std::shared_ptr<M> module) {
    children_[name] = module;
    return module;
  }
  template <class M>
  std::shared_ptr<M> replace_module(const std::string& name, ModuleHolder<M> holder) {
    return replace_module(name, holder.ptr());
  }
  void unregister_module(const std::string& name);

 protected:
  OrderedDict<std::string, Tensor> parameters_{"Parameter"}, buffers_{"Buffer"};
  OrderedDict<std::string, std::shared_ptr<Module>> children_{"Submodule"};

 private:
  template <class Derived>
  friend class Cloneable;
  friend class detail::CloneableBase;
  virtual void clone_(Module& other, const optional<Device>& device);
  void add_module(std::string name, std::shared_ptr<Module> module);
  void convert(const std::function<Tensor(const Tensor&)>& change);
  void print_below(std::ostream& stream, const std::string& indent) const;
  friend std::ostream& operator<<(std::ostream& stream, const Module& module);

  mutable optional<std::string> name_;
  bool is_training_ = true;
};
std::ostream& operator<<(std::ostream& stream, const Module& module);

namespace detail {
/// What copying takes of a class: compiled for each, so there is little of it.
struct CopyOps {
  Module* (*copied)(const Module& module);
  bool (*assign)(Module& to, const Module& from);  // false: not of the class
};
class CloneableBase : public Module {
 public:
  using Module::Module;
  virtual void reset() = 0;

 protected:
  std::shared_ptr<Module> cloned(const CopyOps& ops, const optional<Device>& device) const;
  void assign_clone(const CopyOps& ops, Module& other, const optional<Device>& device);
};
}  // namespace detail

/// A module that can be copied: `reset()` makes its parts anew.
template <class Derived>
class Cloneable : public detail::CloneableBase {
 public:
  using detail::CloneableBase::CloneableBase;
  std::shared_ptr<Module> clone(const optional<Device>& device = nullopt) const override {
    return cloned(kOps, device);
  }

 private:
  static Module* copied(const Module& m) { return new Derived(static_cast<const Derived&>(m)); }
  static bool assign(Module& to, const Module& from) {
    const auto* same = dynamic_cast<const Derived*>(&from);
    if (same) static_cast<Derived&>(to) = *same;
    return same != nullptr;
  }
  static constexpr detail::CopyOps kOps = {copied, assign};
  void clone_(Module& other, const optional<Device>& device) final { assign_clone(kOps, other, device); }
};

/// Shares a module, like a pointer; an empty one is made with nullptr.
template <class Contained>
class ModuleHolder {
 protected:
  std::shared_ptr<Contained> impl_;

 public:
  using ContainedType = Contained;

  ModuleHolder() : impl_(made()) {}
  ModuleHolder(std::nullptr_t) {}
  template <class Head, class... Tail>
    requires(!(sizeof...(Tail) == 0 && (std::is_base_of_v<ModuleHolder, std::decay_t<Head>> ||
                                        std::is_convertible_v<Head, std::shared_ptr<Contained>>)))
  explicit ModuleHolder(Head&& head, Tail&&... tail)
      : impl_(new Contained(std::forward<Head>(head), std::forward<Tail>(tail)...)) {}
  ModuleHolder(std::shared_ptr<Contained> module) : impl_(std::move(module)) {}

  explicit operator bool() const noexcept { return !is_empty(); }
  Contained* operator->() { return get(); }
  const Contained* operator->() const { return get(); }
  Contained& operator*() { return *get(); }
  const Contained& operator*() const { return *get(); }
  const std::shared_ptr<Contained>& ptr() const {
    check();
    return impl_;
  }
  Contained* get() {
    check();
    return impl_.get();
  }
  const Contained* get() const {
    check();
    return impl_.get();
  }
  template <class... Args>
  auto operator()(Args&&... args) {
    return get()->forward(std::forward<Args>(args)...);
  }
  template <class Arg>
  decltype(auto) operator[](Arg&& arg) {
    return (*get())[std::forward<Arg>(arg)];
  }
  bool is_empty() const noexcept { return impl_ == nullptr; }

 private:
  static std::shared_ptr<Contained> made() {
    if constexpr (std::is_default_constructible_v<Contained>) return std::make_shared<Contained>();
    else return nullptr;
  }
  void check() const { FACULA_CHECK(impl_, facula::ErrorKind::Runtime, "ModuleHolder: it holds no module"); }
};
template <class M>
std::ostream& operator<<(std::ostream& stream, const ModuleHolder<M>& holder) {
  return stream << *holder;
}

}  // namespace nn
}  // namespace torch

#define TORCH_ARG(T, name)                                        \
 public:                                                          \
  inline auto name(const T& new_value) -> decltype(*this) {       \
    this->name##_ = new_value;                                    \
    return *this;                                                 \
  }                                                               \
  inline auto name(T&& new_value) -> decltype(*this) {            \
    this->name##_ = std::move(new_value);                         \
    return *this;                                                 \
  }                                                               \
  inline const T& name() const noexcept { return this->name##_; } \
  inline T& name() noexcept { return this->name##_; }             \
                                                                  \
 private:                                                         \
  T name##_ /* NOLINT */

#define TORCH_MODULE_IMPL(Name, ImplType)                              \
  class Name : public torch::nn::ModuleHolder<ImplType> { /* NOLINT */ \
   public:                                                             \
    using torch::nn::ModuleHolder<ImplType>::ModuleHolder;             \
    Name() = default;                                                  \
    using Impl [[maybe_unused]] = ImplType;                            \
  }
#define TORCH_MODULE(Name) TORCH_MODULE_IMPL(Name, Name##Impl)
// Within torch::nn: a module that has options and nothing else, and what its constructors are beside that of options.
#define TORCH_PLAIN_MODULE(Name, Parameters, ...)               \
  class Name##Impl : public Cloneable<Name##Impl> {             \
   public:                                                      \
    explicit Name##Impl(const Name##Options& o) : options(o) {} \
    __VA_ARGS__                                                 \
    void reset() override {}                                    \
    void pretty_print(std::ostream& stream) const override;     \
    Tensor forward Parameters;                                  \
    Name##Options options;                                      \
  };                                                            \
  TORCH_MODULE(Name)
// Within torch::nn, for classes and options by the number of dimensions: Conv1d, Conv2d, Conv3d of ConvImpl<D>, ConvOptions<D>.
#define TORCH_MODULE_OF_DIMENSIONS(Name, Impl, D) \
  extern template class Impl<D>;                  \
  using Name##D##dImpl = Impl<D>;                 \
  TORCH_MODULE_IMPL(Name##D##d, Impl<D>)
#define TORCH_MODULES_OF_DIMENSIONS(Name, Impl) \
  TORCH_MODULE_OF_DIMENSIONS(Name, Impl, 1);    \
  TORCH_MODULE_OF_DIMENSIONS(Name, Impl, 2);    \
  TORCH_MODULE_OF_DIMENSIONS(Name, Impl, 3)
#define TORCH_OPTIONS_OF_DIMENSIONS(Name, Options) \
  using Name##1dOptions = Options<1>;              \
  using Name##2dOptions = Options<2>;              \
  using Name##3dOptions = Options<3>
#define FORWARD_HAS_DEFAULT_ARGS(...) /* found out by itself */
