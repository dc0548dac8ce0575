// torch::jit: programs that torch.export.save, facula.export.save or the `save` of facula.jit.trace wrote (".pt2"), as
// modules.
#pragma once

#include <torch/autograd.h>

#include <iosfwd>
#include <string>
#include <unordered_map>

namespace torch {

/// A dotted name: "torch.nn.modules.linear.Linear".
class QualifiedName {
 public:
  explicit QualifiedName(std::string name) : name_(std::move(name)) {}
  const std::string& qualifiedName() const { return name_; }
  /// What stands after the last dot, and before it.
  std::string name() const { return name_.substr(name_.rfind('.') + 1); }
  std::string prefix() const { return name().size() == name_.size() ? "" : name_.substr(0, name_.rfind('.')); }

 private:
  std::string name_;
};

namespace jit {

using torch::IValue;
using Stack = std::vector<IValue>;
using Kwargs = std::unordered_map<std::string, IValue>;
using ExtraFilesMap = std::unordered_map<std::string, std::string>;

/// The class of a module.
class ClassType {
 public:
  explicit ClassType(std::string name) : name_(std::move(name)) {}
  optional<QualifiedName> name() const { return name_; }
  std::string str() const { return name_.qualifiedName(); }

 private:
  QualifiedName name_;
};

template <class T>
struct Named {
  std::string name;
  T value;
};

class Module;
namespace detail {
struct Loaded;
}

/// A function of a module; there is `forward`.
class Method {
 public:
  Method(std::shared_ptr<detail::Loaded> loaded, std::string name)
      : loaded_(std::move(loaded)), name_(std::move(name)) {}
  const std::string& name() const { return name_; }
  /// How many arguments it takes, the module itself among them.
  size_t num_inputs() const;
  IValue operator()(std::vector<IValue> inputs, const Kwargs& kwargs = {}) const;

 private:
  std::shared_ptr<detail::Loaded> loaded_;
  std::string name_;
};

/// A program, or the parameters and buffers that one of its modules has. Copies are the same module; `clone` makes
/// another.
class Module {
 public:
  /// Holds nothing, until one that `load` gave is assigned.
  Module() = default;
  Module(std::shared_ptr<detail::Loaded> loaded, std::string path);

  /// Tensors, numbers and texts; lists, tuples and dictionaries of them where the program takes some. What does not fit
  /// is an Error that names the argument, what is expected and what came. A module within the program cannot be called.
  IValue forward(std::vector<IValue> inputs, const Kwargs& kwargs = {});
  IValue operator()(std::vector<IValue> inputs, const Kwargs& kwargs = {}) { return forward(std::move(inputs), kwargs); }
  Method get_method(const std::string& name) const;
  optional<Method> find_method(const std::string& name) const;
  std::vector<Method> get_methods() const;
  template <class... T>
  IValue run_method(const std::string& name, T&&... arguments) {
    return get_method(name)(std::vector<IValue>{IValue(std::forward<T>(arguments))...});
  }

  std::vector<Tensor> parameters(bool recurse = true) const;
  std::vector<Named<Tensor>> named_parameters(bool recurse = true) const;
  std::vector<Tensor> buffers(bool recurse = true) const;
  std::vector<Named<Tensor>> named_buffers(bool recurse = true) const;
  std::vector<Module> children() const;
  std::vector<Named<Module>> named_children() const;
  /// This one, and all below it.
  std::vector<Module> modules() const;
  std::vector<Named<Module>> named_modules() const;
  std::vector<IValue> attributes(bool recurse = true) const;
  std::vector<Named<IValue>> named_attributes(bool recurse = true) const;

  /// A parameter, a buffer, a module, or `training`.
  IValue attr(const std::string& name) const;
  IValue attr(const std::string& name, IValue or_else) const;
  bool hasattr(const std::string& name) const;
  /// Another tensor, of the same dtype and sizes, in the place of a parameter or a buffer.
  void setattr(const std::string& name, const IValue& value);

  /// Ops that do something else in training (dropout, batch norm) are switched.
  void train(bool on = true);
  void eval() { train(false); }
  bool is_training() const;
  void to(Device device, ScalarType dtype, bool non_blocking = false);
  /// Floating-point tensors, and the dtypes that the program expects and names. All of them must be of one dtype.
  void to(ScalarType dtype, bool non_blocking = false);
  void to(Device device, bool non_blocking = false);

  /// The archive that it was loaded from, with the parameters and buffers as they are now.
  void save(const std::string& filename, const ExtraFilesMap& extra_files = {}) const;
  void save(std::ostream& out, const ExtraFilesMap& extra_files = {}) const;
  /// One with tensors of its own; a copy shares them.
  Module clone(bool inplace = false) const;
  Module deepcopy() const { return clone(); }
  Module copy() const;

  std::shared_ptr<ClassType> type() const;
  /// What the program does, op by op.
  std::string dump_to_str(bool print_method_bodies, bool print_attr_values, bool print_param_values) const;
  void dump(bool print_method_bodies = true, bool print_attr_values = true, bool print_param_values = true) const;
  friend bool operator==(const Module& a, const Module& b) { return a.loaded_ == b.loaded_ && a.path_ == b.path_; }

 private:
  detail::Loaded& loaded() const;
  std::shared_ptr<detail::Loaded> loaded_;
  std::string path_;  // of the module in the program
};
namespace script {
using Module = jit::Module;
using Method = jit::Method;
}  // namespace script

/// Reads an archive. One of TorchScript is an Error that says how a program is made of it.
Module load(const std::string& filename, optional<Device> device = nullopt, bool load_debug_files = true);
Module load(std::istream& in, optional<Device> device = nullopt, bool load_debug_files = true);

}  // namespace jit
}  // namespace torch
