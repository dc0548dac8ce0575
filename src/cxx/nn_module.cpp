// torch::nn::Module: the tree of modules, and the containers.
#include <cxxabi.h>

#include "torch/nn/containers.h"

namespace torch::nn {

using facula::ErrorKind;

Module::~Module() = default;

const std::string& Module::name() const {
  if (!name_) {
    int status = 0;
    char* text = abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status);
    name_ = text ? text : typeid(*this).name();
    std::free(text);
  }
  return *name_;
}

std::shared_ptr<Module> Module::clone(const optional<Device>&) const {
  facula::throw_error(ErrorKind::NotImplemented,
                      "clone: a module that derives from torch::nn::Cloneable is expected, got ", name());
}
void Module::clone_(Module&, const optional<Device>&) {
  facula::throw_error(ErrorKind::NotImplemented, "clone: ", name(), " is no torch::nn::Cloneable");
}

namespace detail {
namespace {

void copy_tensors(OrderedDict<std::string, Tensor>& to, const OrderedDict<std::string, Tensor>& from,
                  const optional<Device>& device) {
  FACULA_CHECK(to.size() == from.size(), ErrorKind::Runtime, "clone: reset() of the copy made ", to.size(),
               " parameters or buffers, expected ", from.size());
  for (const auto& item : from) {
    const Tensor& t = *item;
    if (t.defined()) to[item.key()].set_data(device && t.device() != *device ? t.to(*device) : t.clone());
  }
}

}  // namespace

std::shared_ptr<Module> CloneableBase::cloned(const CopyOps& ops, const optional<Device>& device) const {
  NoGradGuard off;
  std::shared_ptr<Module> copy(ops.copied(*this));
  copy->parameters_.clear();
  copy->buffers_.clear();
  copy->children_.clear();
  static_cast<CloneableBase&>(*copy).reset();
  copy_tensors(copy->parameters_, parameters_, device);
  copy_tensors(copy->buffers_, buffers_, device);
  FACULA_CHECK(copy->children_.size() == children_.size(), ErrorKind::Runtime, "clone: reset() of the copy registered ",
               copy->children_.size(), " modules, expected ", children_.size(),
               " (register_module() belongs into reset(), not into the constructor)");
  for (const auto& child : children_) copy->children_[child.key()]->clone_(*child.value(), device);
  return copy;
}
void CloneableBase::assign_clone(const CopyOps& ops, Module& other, const optional<Device>& device) {
  FACULA_CHECK(ops.assign(*this, *other.clone(device)), ErrorKind::Runtime,
               "clone: the copy's submodule is of another type");
}

}  // namespace detail

// ---- what is in it

namespace {

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

using Visit = std::function<void(const std::string&, const std::shared_ptr<Module>&)>;

}  // namespace

OrderedDict<std::string, std::shared_ptr<Module>> Module::named_children() const { return children_; }
std::vector<std::shared_ptr<Module>> Module::children() const { return children_.values(); }

OrderedDict<std::string, std::shared_ptr<Module>> Module::named_modules(const std::string& prefix,
                                                                        bool include_self) const {
  OrderedDict<std::string, std::shared_ptr<Module>> found;
  if (include_self) {
    auto self = std::const_pointer_cast<Module>(weak_from_this().lock());
    FACULA_CHECK(self, ErrorKind::Runtime, "modules: ", name(), " must be held by a shared_ptr or a holder");
    found.insert(prefix, std::move(self));
  }
  for (const auto& child : children_) {
    const std::string path = joined(prefix, child.key());
    found.insert(path, child.value());
    found.update(child.value()->named_modules(path, false));
  }
  return found;
}
std::vector<std::shared_ptr<Module>> Module::modules(bool include_self) const {
  return named_modules({}, include_self).values();
}

OrderedDict<std::string, Tensor> Module::named_parameters(bool recurse) const {
  OrderedDict<std::string, Tensor> found;
  for (const auto& item : parameters_)
    if (item->defined()) found.insert(item.key(), *item);
  if (recurse)
    for (const auto& child : children_)
      for (const auto& item : child.value()->named_parameters()) found.insert(joined(child.key(), item.key()), *item);
  return found;
}
OrderedDict<std::string, Tensor> Module::named_buffers(bool recurse) const {
  OrderedDict<std::string, Tensor> found;
  for (const auto& item : buffers_)
    if (item->defined()) found.insert(item.key(), *item);
  if (recurse)
    for (const auto& child : children_)
      for (const auto& item : child.value()->named_buffers()) found.insert(joined(child.key(), item.key()), *item);
  return found;
}
std::vector<Tensor> Module::parameters(bool recurse) const { return named_parameters(recurse).values(); }
std::vector<Tensor> Module::buffers(bool recurse) const { return named_buffers(recurse).values(); }

void Module::apply(const ModuleApplyFunction& function) {
  function(*this);
  for (auto& child : children_) child.value()->apply(function);
}
void Module::apply(const ConstModuleApplyFunction& function) const {
  function(*this);
  for (const auto& child : children_) std::as_const(*child.value()).apply(function);
}
void Module::apply(const NamedModuleApplyFunction& function, const std::string& prefix) {
  function(prefix, *this);
  for (auto& child : children_) child.value()->apply(function, joined(prefix, child.key()));
}
void Module::apply(const ModulePointerApplyFunction& function) const {
  for (const auto& module : modules()) function(module);
}

// ---- registration

Tensor& Module::register_parameter(std::string name, Tensor tensor, bool requires_grad) {
  FACULA_CHECK(!name.empty() && name.find('.') == std::string::npos, ErrorKind::Runtime,
               "register_parameter: a name must not be empty or contain a dot, got '", name, "'");
  if (tensor.defined()) tensor.set_requires_grad(requires_grad);
  return parameters_.insert(std::move(name), std::move(tensor));
}
Tensor& Module::register_buffer(std::string name, Tensor tensor) {
  FACULA_CHECK(!name.empty() && name.find('.') == std::string::npos, ErrorKind::Runtime,
               "register_buffer: a name must not be empty or contain a dot, got '", name, "'");
  return buffers_.insert(std::move(name), std::move(tensor));
}
void Module::add_module(std::string name, std::shared_ptr<Module> module) {
  FACULA_CHECK(!name.empty() && name.find('.') == std::string::npos, ErrorKind::Runtime,
               "register_module: a name must not be empty or contain a dot, got '", name, "'");
  FACULA_CHECK(module, ErrorKind::Runtime, "register_module: a module is expected for '", name, "', got none");
  children_.insert(std::move(name), std::move(module));
}
void Module::unregister_module(const std::string& name) {
  FACULA_CHECK(children_.contains(name), ErrorKind::Runtime, "unregister_module: no module of the name '", name,
               "' is registered");
  children_.erase(name);
}

// ---- changes

void Module::train(bool on) {
  for (auto& child : children_) child.value()->train(on);
  is_training_ = on;
}
void Module::eval() { train(false); }

void Module::convert(const std::function<Tensor(const Tensor&)>& change) {
  for (auto& child : children_) child.value()->convert(change);
  for (auto* tensors : {&parameters_, &buffers_})
    for (auto& item : *tensors) {
      if (!item->defined()) continue;
      item->set_data(change(item->detach()));
      if (const Tensor grad = item->grad(); grad.defined()) grad.set_data(change(grad.detach()));
    }
}
void Module::to(Device device, Dtype dtype, bool non_blocking) {
  convert([&](const Tensor& t) {
    return t.is_floating_point() ? t.to(device, dtype, non_blocking) : t.to(device, t.scalar_type(), non_blocking);
  });
}
void Module::to(Dtype dtype, bool non_blocking) {
  convert([&](const Tensor& t) { return t.is_floating_point() ? t.to(dtype, non_blocking) : t; });
}
void Module::to(Device device, bool non_blocking) {
  convert([&](const Tensor& t) { return t.to(device, t.scalar_type(), non_blocking); });
}
void Module::zero_grad(bool set_to_none) {
  for (const Tensor& t : parameters()) {
    if (!t.grad().defined()) continue;
    if (set_to_none) {
      t.mutable_grad().reset();
    } else {
      t.grad().detach_();
      t.grad().zero_();
    }
  }
}

// ---- text

void Module::pretty_print(std::ostream& stream) const { stream << name(); }
void Module::print_below(std::ostream& stream, const std::string& indent) const {
  pretty_print(stream);
  if (children_.is_empty()) return;
  const std::string deeper = indent + "  ";
  stream << "(\n";
  for (const auto& child : children_) {
    stream << deeper << "(" << child.key() << "): ";
    child.value()->print_below(stream, deeper);
    stream << '\n';
  }
  stream << indent << ")";
}
std::ostream& operator<<(std::ostream& stream, const Module& module) {
  module.print_below(stream, "");
  return stream;
}

// ---- containers

AnyValue SequentialImpl::run(std::vector<AnyValue> arguments) {
  AnyValue value = modules_[0].any_forward_values(std::move(arguments));
  for (size_t i = 1; i < modules_.size(); ++i) {
    std::vector<AnyValue> next;
    next.push_back(std::move(value));
    value = modules_[i].any_forward_values(std::move(next));
  }
  return value;
}
std::shared_ptr<Module> SequentialImpl::clone(const optional<Device>& device) const {
  auto copy = std::make_shared<SequentialImpl>();
  size_t i = 0;
  for (const auto& child : children_) copy->push_back(child.key(), modules_[i++].clone(device));
  return copy;
}
std::shared_ptr<Module> ModuleListImpl::clone(const optional<Device>& device) const {
  auto copy = std::make_shared<ModuleListImpl>();
  for (const auto& module : modules_) copy->push_back(module->clone(device));
  return copy;
}
std::shared_ptr<Module> ModuleDictImpl::clone(const optional<Device>& device) const {
  auto copy = std::make_shared<ModuleDictImpl>();
  for (const auto& child : children_) copy->insert(child.key(), child.value()->clone(device));
  return copy;
}

namespace {

void print_parameters(std::ostream& stream, const char* name, const OrderedDict<std::string, Tensor>& parameters) {
  stream << "torch::nn::" << name << "(\n";
  for (const auto& item : parameters)
    stream << "(" << item.key() << "): Parameter containing: [" << item->scalar_type() << " of size " << item->sizes()
           << "]\n";
  stream << ")";
}

}  // namespace
void ParameterListImpl::pretty_print(std::ostream& stream) const {
  print_parameters(stream, "ParameterList", parameters_);
}
void ParameterDictImpl::pretty_print(std::ostream& stream) const {
  print_parameters(stream, "ParameterDict", parameters_);
}

}  // namespace torch::nn
