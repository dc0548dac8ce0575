// torch::jit::Module: a loaded program with the names of libtorch.
#include "torch/jit.h"

#include <algorithm>
#include <iostream>
#include <set>

#include "cxx/jit_loaded.h"
#include "program/convert.h"

namespace torch {

IValue::IValue(const jit::Module& module) : value_(std::make_shared<jit::Module>(module)) {}
jit::Module IValue::toModule() const { return *get<std::shared_ptr<jit::Module>>("a module"); }

namespace jit {

using facula::ErrorKind;
using facula::Program;
using facula::ProgramInput;

// ---- calls

namespace detail {

Loaded::Loaded(facula::ProgramFile file, std::shared_ptr<const facula::Archive> opened)
    : program(std::move(file.program)),
      runner(std::make_shared<const facula::Runner>(program)),
      names(std::move(file.forward_names)),
      arguments(Spec::parse(file.in_spec)),
      results(Spec::parse(file.out_spec)),
      modules(std::move(file.modules)),
      archive(std::move(opened)),
      training(facula::is_training(*program)),
      recorded_training(training) {
  const auto kind = [&](size_t i) { return arguments.children[i].kind; };
  FACULA_CHECK(arguments.children.size() == 2 && kind(0) == Spec::Kind::Tuple && kind(1) == Spec::Kind::Dict,
               ErrorKind::Runtime, "jit.load: arguments are a tuple and a dictionary, got something else");
  const Spec &listed = arguments.children[0], &keyed = arguments.children[1];
  while (names.size() < listed.children.size()) names.push_back("input " + std::to_string(names.size()));
  names.resize(listed.children.size());
  for (const IValue& key : keyed.keys) names.push_back(key.toStringRef());
  FACULA_CHECK(results.leaves() == program->outputs.size(), ErrorKind::Runtime, "jit.load: the program has ",
               program->outputs.size(), " results, and says how ", results.leaves(), " are nested");
}

IValue Loaded::run(const std::vector<IValue>& inputs, const Kwargs& kwargs) const {
  FACULA_CHECK(inputs.size() <= names.size(), ErrorKind::Type, "forward: it takes ", names.size(), " arguments, got ",
               inputs.size());
  for (const auto& [name, value] : kwargs) {
    const auto found = static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    FACULA_CHECK(found < names.size(), ErrorKind::Type, "forward: there is no argument '", name, "'");
    FACULA_CHECK(found >= inputs.size(), ErrorKind::Type, "forward: argument '", name, "' is given twice");
  }
  std::vector<facula::Value> leaves;
  size_t at = 0;
  for (const Spec& part : arguments.children) {
    for (const Spec& child : part.children) {
      const std::string& name = names[at];
      const auto keyword = kwargs.find(name);
      FACULA_CHECK(at < inputs.size() || keyword != kwargs.end(), ErrorKind::Type, "forward: argument '", name,
                   "' is missing: it takes ", names.size(), ", got ", inputs.size() + kwargs.size());
      flatten(child, at < inputs.size() ? inputs[at] : keyword->second, name, leaves);
      ++at;
    }
  }
  const std::vector<facula::Value> made = (*runner)(leaves);
  const facula::Value* next = made.data();
  return unflatten(results, next);
}

void Loaded::exchange(std::shared_ptr<Program> changed) {
  runner = std::make_shared<const facula::Runner>(changed);
  program = std::move(changed);
}

ProgramInput* Loaded::held(const std::string& wanted) {
  for (ProgramInput& input : program->inputs)
    if (input.kind != ProgramInput::Kind::User && input.path == wanted) return &input;
  return nullptr;
}

}  // namespace detail

size_t Method::num_inputs() const { return loaded_->names.size() + 1; }
IValue Method::operator()(std::vector<IValue> inputs, const Kwargs& kwargs) const {
  return loaded_->run(inputs, kwargs);
}

Module::Module(std::shared_ptr<detail::Loaded> loaded, std::string path)
    : loaded_(std::move(loaded)), path_(std::move(path)) {}

detail::Loaded& Module::loaded() const {
  FACULA_CHECK(loaded_, ErrorKind::Runtime, "jit.Module: one that torch::jit::load gave is expected, got an empty one");
  return *loaded_;
}
optional<Method> Module::find_method(const std::string& name) const {
  loaded();
  return name == "forward" && path_.empty() ? optional<Method>(Method(loaded_, name)) : nullopt;
}
Method Module::get_method(const std::string& name) const {
  loaded();
  FACULA_CHECK(path_.empty(), ErrorKind::NotImplemented, "get_method: '", path_,
               "' is a part of a program, which is called as a whole; got ", name);
  FACULA_CHECK(name == "forward", ErrorKind::Runtime, "get_method: a program has the method forward, got ", name);
  return Method(loaded_, name);
}
std::vector<Method> Module::get_methods() const {
  loaded();
  return path_.empty() ? std::vector<Method>{Method(loaded_, "forward")} : std::vector<Method>();
}
IValue Module::forward(std::vector<IValue> inputs, const Kwargs& kwargs) {
  return get_method("forward")(std::move(inputs), kwargs);
}

// ---- what is in it

namespace {

std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

/// The part of a path below a module; nothing if it is not below it.
optional<std::string> below(const std::string& path, const std::string& module) {
  if (module.empty()) return path;
  const bool within = path.size() > module.size() && path.starts_with(module) && path[module.size()] == '.';
  return within ? optional<std::string>(path.substr(module.size() + 1)) : nullopt;
}

using Names = std::vector<Named<Tensor>>;

Names tensors_below(const detail::Loaded& loaded, const std::string& module, bool recurse,
                    std::initializer_list<ProgramInput::Kind> kinds) {
  Names found;
  for (const ProgramInput& input : loaded.program->inputs) {
    if (std::find(kinds.begin(), kinds.end(), input.kind) == kinds.end()) continue;
    const auto rest = below(input.path, module);
    if (rest && (recurse || rest->find('.') == std::string::npos)) found.push_back({*rest, Tensor(input.tensor)});
  }
  return found;
}

template <class T>
std::vector<T> values_of(std::vector<Named<T>> named) {
  std::vector<T> values;
  for (Named<T>& each : named) values.push_back(std::move(each.value));
  return values;
}

}  // namespace

Names Module::named_parameters(bool recurse) const {
  return tensors_below(loaded(), path_, recurse, {ProgramInput::Kind::Parameter});
}
Names Module::named_buffers(bool recurse) const {
  return tensors_below(loaded(), path_, recurse, {ProgramInput::Kind::Buffer});
}
std::vector<Tensor> Module::parameters(bool recurse) const { return values_of(named_parameters(recurse)); }
std::vector<Tensor> Module::buffers(bool recurse) const { return values_of(named_buffers(recurse)); }

std::vector<Named<Module>> Module::named_children() const {
  std::vector<std::string> paths;
  for (const auto& [path, name] : loaded().modules)
    paths.push_back(path + ".");  // with an end, as if it held something
  for (const ProgramInput& input : loaded().program->inputs)
    if (input.kind != ProgramInput::Kind::User) paths.push_back(input.path);
  std::set<std::string> known;
  std::vector<Named<Module>> found;
  for (const std::string& path : paths) {
    const auto rest = below(path, path_);
    const size_t end = rest ? rest->find('.') : std::string::npos;
    if (end == std::string::npos || end == 0 || !known.insert(rest->substr(0, end)).second) continue;
    found.push_back({rest->substr(0, end), Module(loaded_, joined(path_, rest->substr(0, end)))});
  }
  return found;
}
std::vector<Module> Module::children() const { return values_of(named_children()); }
std::vector<Named<Module>> Module::named_modules() const {
  std::vector<Named<Module>> found{{"", *this}};
  for (const auto& [name, child] : named_children())
    for (Named<Module>& each : child.named_modules())
      found.push_back({each.name.empty() ? name : name + "." + each.name, std::move(each.value)});
  return found;
}
std::vector<Module> Module::modules() const { return values_of(named_modules()); }

std::vector<Named<IValue>> Module::named_attributes(bool recurse) const {
  std::vector<Named<IValue>> found;
  const auto kinds = {ProgramInput::Kind::Parameter, ProgramInput::Kind::Buffer, ProgramInput::Kind::Constant};
  for (auto& [name, tensor] : tensors_below(loaded(), path_, recurse, kinds)) found.push_back({name, tensor});
  for (auto& [name, module] : recurse ? named_modules() : named_children())
    if (!name.empty()) found.push_back({name, module});
  found.push_back({"training", is_training()});
  return found;
}
std::vector<IValue> Module::attributes(bool recurse) const { return values_of(named_attributes(recurse)); }

IValue Module::attr(const std::string& name, IValue or_else) const {
  if (const ProgramInput* input = loaded().held(joined(path_, name))) return Tensor(input->tensor);
  if (name == "training") return is_training();
  for (const auto& [child, module] : named_children())
    if (child == name) return module;
  return or_else;
}
bool Module::hasattr(const std::string& name) const { return !attr(name, {}).isNone(); }
IValue Module::attr(const std::string& name) const {
  IValue found = attr(name, {});
  FACULA_CHECK(!found.isNone(), ErrorKind::Attribute, "attr: '", type()->str(), "' has no attribute '", name, "'");
  return found;
}
void Module::setattr(const std::string& name, const IValue& value) {
  if (name == "training") return train(value.toBool());
  ProgramInput* input = loaded().held(joined(path_, name));
  FACULA_CHECK(input, ErrorKind::Attribute, "setattr: '", type()->str(), "' has no parameter or buffer '", name, "'");
  loaded().program->hold(*input, value.toTensor().core());
}

std::shared_ptr<ClassType> Module::type() const {
  for (const auto& [path, name] : loaded().modules)
    if (path == path_) return std::make_shared<ClassType>(name);
  return std::make_shared<ClassType>("Module");
}
std::string Module::dump_to_str(bool print_method_bodies, bool print_attr_values, bool print_param_values) const {
  std::ostringstream text;
  text << "module " << type()->str() << " {\n";
  for (const auto& [name, value] : named_attributes(true)) {
    text << "  " << name << " = ";
    if (value.isModule()) text << value.toModule().type()->str();
    else if (value.isBool()) text << (value.toBool() ? "True" : "False");
    else if (print_param_values && print_attr_values) text << value.toTensor();
    else text << value.toTensor().toString() << value.toTensor().sizes();
    text << '\n';
  }
  if (print_method_bodies && path_.empty()) text << loaded().program->text();
  text << "}\n";
  return text.str();
}
void Module::dump(bool print_method_bodies, bool print_attr_values, bool print_param_values) const {
  std::cout << dump_to_str(print_method_bodies, print_attr_values, print_param_values);
}

// ---- changes

namespace {

/// Tied tensors are changed once, and stay the tensors that they are.
void change_tensors(const Program& program, const std::function<Tensor(const Tensor&)>& change) {
  std::set<const void*> done;
  for (const ProgramInput& input : program.inputs) {
    if (!input.tensor.defined() || !done.insert(input.tensor.impl()).second) continue;
    const Tensor held(input.tensor);
    held.set_data(change(held.detach()));
  }
}

}  // namespace

bool Module::is_training() const { return loaded().training; }
void Module::train(bool on) {
  if (loaded().training == on) return;
  auto changed = std::make_shared<Program>(*loaded().program);
  facula::set_training(*changed, on);
  loaded().exchange(std::move(changed));
  loaded().training = on;
}
void Module::to(ScalarType dtype, bool non_blocking) {
  auto changed = std::make_shared<Program>(*loaded().program);
  facula::set_floating(*changed, torch::detail::in(dtype));
  change_tensors(*changed, [&](const Tensor& t) { return t.is_floating_point() ? t.to(dtype, non_blocking) : t; });
  loaded().exchange(std::move(changed));
}
void Module::to(Device device, bool non_blocking) {
  auto changed = std::make_shared<Program>(*loaded().program);
  facula::set_device(*changed, torch::detail::device_of(device));
  change_tensors(*changed, [&](const Tensor& t) { return t.to(device, t.scalar_type(), non_blocking); });
  loaded().exchange(std::move(changed));
}
void Module::to(Device device, ScalarType dtype, bool non_blocking) {
  to(dtype, non_blocking);
  to(device, non_blocking);
}

Module Module::copy() const { return Module(std::make_shared<detail::Loaded>(loaded()), path_); }
Module Module::clone(bool inplace) const {
  Module made = copy();
  if (inplace) return made;
  auto copied = std::make_shared<Program>(*loaded().program);
  std::unordered_map<const void*, facula::Tensor> copies;
  for (ProgramInput& input : copied->inputs) {
    if (!input.tensor.defined()) continue;
    facula::Tensor& copy = copies[input.tensor.impl()];
    const Tensor held(input.tensor);
    if (!copy.defined()) copy = held.detach().clone().set_requires_grad(held.requires_grad()).core();
    input.tensor = copy;
  }
  made.loaded().exchange(std::move(copied));
  return made;
}

}  // namespace jit
}  // namespace torch
