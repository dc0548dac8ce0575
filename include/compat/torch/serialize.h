// torch::save and torch::load: modules, optimizers, tensors and lists of them, in PyTorch's archives.
#pragma once

#include <torch/nn/module.h>
#include <torch/optim.h>

#include <iosfwd>

namespace torch {
namespace jit {
/// libtorch's archives are told where their classes are; here nothing needs to know.
struct CompilationUnit {};
}  // namespace jit

namespace serialize {
namespace detail {
struct Node;
}

/// Tensors and values under names, and archives of such.
class OutputArchive {
 public:
  OutputArchive();
  explicit OutputArchive(std::shared_ptr<jit::CompilationUnit>) : OutputArchive() {}
  OutputArchive(OutputArchive&&) = default;
  OutputArchive& operator=(OutputArchive&&) = default;
  std::shared_ptr<jit::CompilationUnit> compilation_unit() const { return nullptr; }

  void write(const std::string& key, const IValue& value);
  void write(const std::string& key, const Tensor& tensor, bool is_buffer = false);
  void write(const std::string& key, OutputArchive& nested);
  template <class... T>
  void operator()(T&&... arguments) {
    write(std::forward<T>(arguments)...);
  }
  void save_to(const std::string& filename) const;
  void save_to(std::ostream& stream) const;
  void save_to(const std::function<size_t(const void*, size_t)>& write) const;

 private:
  std::shared_ptr<detail::Node> node_;
};

class InputArchive {
 public:
  InputArchive();
  InputArchive(InputArchive&&) = default;
  InputArchive& operator=(InputArchive&&) = default;

  void read(const std::string& key, IValue& value);
  bool try_read(const std::string& key, IValue& value);
  void read(const std::string& key, Tensor& tensor, bool is_buffer = false);
  bool try_read(const std::string& key, Tensor& tensor, bool is_buffer = false);
  void read(const std::string& key, InputArchive& nested);
  bool try_read(const std::string& key, InputArchive& nested);
  template <class... T>
  void operator()(T&&... arguments) {
    read(std::forward<T>(arguments)...);
  }
  std::vector<std::string> keys() const;
  /// An archive of torch::save or torch.jit.save, or a dictionary of tensors that torch.save wrote.
  void load_from(const std::string& filename, optional<Device> device = nullopt);
  void load_from(std::istream& stream, optional<Device> device = nullopt);
  void load_from(const char* data, size_t size, optional<Device> device = nullopt);
  void load_from(const std::function<size_t(uint64_t position, void* buffer, size_t size)>& read,
                 const std::function<size_t()>& size, optional<Device> device = nullopt);

 private:
  std::shared_ptr<detail::Node> node_;
  std::string path_;  // for errors
};

}  // namespace serialize

serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const Tensor& tensor);
serialize::InputArchive& operator>>(serialize::InputArchive& archive, Tensor& tensor);
namespace nn {
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const std::shared_ptr<Module>& module);
serialize::InputArchive& operator>>(serialize::InputArchive& archive, const std::shared_ptr<Module>& module);
template <class M>
  requires std::is_base_of_v<Module, M>
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const std::shared_ptr<M>& module) {
  return archive << std::shared_ptr<Module>(module);
}
template <class M>
  requires std::is_base_of_v<Module, M>
serialize::InputArchive& operator>>(serialize::InputArchive& archive, const std::shared_ptr<M>& module) {
  return archive >> std::shared_ptr<Module>(module);
}
template <class M>
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const ModuleHolder<M>& holder) {
  return archive << std::shared_ptr<Module>(holder.ptr());
}
template <class M>
serialize::InputArchive& operator>>(serialize::InputArchive& archive, const ModuleHolder<M>& holder) {
  return archive >> std::shared_ptr<Module>(holder.ptr());
}
}  // namespace nn
namespace optim {
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const Optimizer& optimizer);
serialize::InputArchive& operator>>(serialize::InputArchive& archive, Optimizer& optimizer);
}  // namespace optim

template <class Value, class... To>
void save(const Value& value, To&&... to) {
  serialize::OutputArchive archive;
  archive << value;
  archive.save_to(std::forward<To>(to)...);
}
template <class... To>
void save(const std::vector<Tensor>& tensors, To&&... to) {
  serialize::OutputArchive archive;
  for (size_t i = 0; i < tensors.size(); ++i) archive.write(std::to_string(i), tensors[i]);
  archive.save_to(std::forward<To>(to)...);
}
template <class Value, class... From>
void load(Value& value, From&&... from) {
  serialize::InputArchive archive;
  archive.load_from(std::forward<From>(from)...);
  archive >> value;
}
template <class... From>
void load(std::vector<Tensor>& tensors, From&&... from) {
  serialize::InputArchive archive;
  archive.load_from(std::forward<From>(from)...);
  for (Tensor each; archive.try_read(std::to_string(tensors.size()), each); each.reset()) tensors.push_back(each);
}

/// A value as torch.save and torch.load have it.
std::vector<char> pickle_save(const IValue& value);
IValue pickle_load(const std::vector<char>& data);

}  // namespace torch
