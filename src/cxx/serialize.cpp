// torch::save and torch::load: what is written under which name, and archives in files, streams and memory.
#include "torch/serialize.h"

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>

#include "core/new_file.h"
#include "cxx/pickle.h"

namespace torch::serialize {

using detail::Node;
using facula::ErrorKind;

namespace detail {

Node::Item* Node::find(const std::string& name) {
  for (Item& item : items)
    if (item.name == name) return &item;
  return nullptr;
}
Node::Item& Node::put(const std::string& name, Kind kind) {
  Item* found = find(name);
  if (!found) {
    items.push_back({name, kind, {}, nullptr});
    return items.back();
  }
  *found = Item{name, kind, {}, nullptr};
  return *found;
}

}  // namespace detail

// ---- writing

OutputArchive::OutputArchive() : node_(std::make_shared<Node>()) {}
void OutputArchive::write(const std::string& key, const IValue& value) {
  node_->put(key, Node::Kind::Value).value = value;
}
void OutputArchive::write(const std::string& key, const Tensor& tensor, bool is_buffer) {
  node_->put(key, is_buffer ? Node::Kind::Buffer : Node::Kind::Parameter).value = tensor;
}
void OutputArchive::write(const std::string& key, OutputArchive& nested) {
  node_->put(key, Node::Kind::Nested).nested = nested.node_;
}
void OutputArchive::save_to(const std::function<size_t(const void*, size_t)>& write) const {
  detail::write_tree(*node_, [&](const void* data, size_t size) {
    const size_t written = write(data, size);
    FACULA_CHECK(written == size, ErrorKind::Runtime, "save: ", written, " of ", size, " bytes could be written");
  });
}
void OutputArchive::save_to(std::ostream& stream) const {
  save_to([&](const void* data, size_t size) {
    stream.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
    return stream ? size : 0;
  });
}
void OutputArchive::save_to(const std::string& filename) const {
  facula::NewFile file("save", filename);
  save_to([&](const void* data, size_t size) {
    file.write(data, size);
    return size;
  });
  file.finish();
}

// ---- reading

InputArchive::InputArchive() : node_(std::make_shared<Node>()) {}

namespace {

std::string below(const std::string& path, const std::string& key) { return path.empty() ? key : path + "." + key; }

}  // namespace

bool InputArchive::try_read(const std::string& key, IValue& value) {
  const auto* item = node_->find(key);
  if (!item || item->nested) return false;
  value = item->value;
  return true;
}
void InputArchive::read(const std::string& key, IValue& value) {
  FACULA_CHECK(try_read(key, value), ErrorKind::Runtime, "load: the archive has no value '", below(path_, key), "'");
}
bool InputArchive::try_read(const std::string& key, Tensor& tensor, bool) {
  const auto* item = node_->find(key);
  if (!item || !item->value.isTensor()) return false;
  const Tensor& found = item->value.toTensor();
  if (tensor.defined()) tensor.set_data(found.detach());
  else tensor = found;
  return true;
}
void InputArchive::read(const std::string& key, Tensor& tensor, bool is_buffer) {
  FACULA_CHECK(try_read(key, tensor, is_buffer), ErrorKind::Runtime, "load: the archive has no tensor '",
               below(path_, key), "'");
}
bool InputArchive::try_read(const std::string& key, InputArchive& nested) {
  const auto* item = node_->find(key);
  if (!item || !item->nested) return false;
  nested.node_ = item->nested;
  nested.path_ = below(path_, key);
  return true;
}
void InputArchive::read(const std::string& key, InputArchive& nested) {
  FACULA_CHECK(try_read(key, nested), ErrorKind::Runtime, "load: the archive has no submodule '", below(path_, key),
               "'");
}
std::vector<std::string> InputArchive::keys() const {
  std::vector<std::string> names;
  for (const auto& item : node_->items) names.push_back(item.name);
  return names;
}

void InputArchive::load_from(const char* data, size_t size, optional<Device> device) {
  node_ = detail::read_tree({data, size}, device);
  path_.clear();
}
void InputArchive::load_from(std::istream& stream, optional<Device> device) {
  const std::string bytes{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  load_from(bytes.data(), bytes.size(), device);
}
void InputArchive::load_from(const std::string& filename, optional<Device> device) {
  std::ifstream file(filename, std::ios::binary | std::ios::ate);
  FACULA_CHECK(file, ErrorKind::Runtime, "load: cannot open ", filename);
  std::string bytes(static_cast<size_t>(std::max<std::streamoff>(file.tellg(), 0)), '\0');
  file.seekg(0);
  file.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  FACULA_CHECK(file, ErrorKind::Runtime, "load: cannot read ", filename);
  load_from(bytes.data(), bytes.size(), device);
}
void InputArchive::load_from(const std::function<size_t(uint64_t, void*, size_t)>& read,
                             const std::function<size_t()>& size, optional<Device> device) {
  std::string bytes(size(), '\0');
  for (size_t at = 0; at < bytes.size();) {
    const size_t got = read(at, bytes.data() + at, bytes.size() - at);
    FACULA_CHECK(got > 0, ErrorKind::Runtime, "load: ", at, " of ", bytes.size(), " bytes could be read");
    at += got;
  }
  load_from(bytes.data(), bytes.size(), device);
}

}  // namespace torch::serialize

namespace torch {

serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const Tensor& tensor) {
  archive.write("0", tensor);
  return archive;
}
serialize::InputArchive& operator>>(serialize::InputArchive& archive, Tensor& tensor) {
  archive.read("0", tensor);
  return archive;
}

std::vector<char> pickle_save(const IValue& value) {
  std::vector<char> bytes;
  serialize::detail::write_value(value, [&](const void* data, size_t size) {
    const auto* first = static_cast<const char*>(data);
    bytes.insert(bytes.end(), first, first + size);
  });
  return bytes;
}
IValue pickle_load(const std::vector<char>& data) { return serialize::detail::read_value({data.data(), data.size()}); }

namespace nn {

serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const std::shared_ptr<Module>& module) {
  FACULA_CHECK(module, facula::ErrorKind::Runtime, "save: the holder has no module");
  module->save(archive);
  return archive;
}
serialize::InputArchive& operator>>(serialize::InputArchive& archive, const std::shared_ptr<Module>& module) {
  FACULA_CHECK(module, facula::ErrorKind::Runtime, "load: the holder has no module");
  module->load(archive);
  return archive;
}
void Module::save(serialize::OutputArchive& archive) const {
  for (const auto& item : parameters_) archive.write(item.key(), *item);
  for (const auto& item : buffers_) archive.write(item.key(), *item, true);
  for (const auto& child : children_) {
    if (!child.value()->is_serializable()) continue;
    serialize::OutputArchive nested;
    child.value()->save(nested);
    archive.write(child.key(), nested);
  }
}
void Module::load(serialize::InputArchive& archive) {
  NoGradGuard off;
  for (auto& item : parameters_)
    if (item->defined()) archive.read(item.key(), *item);
  for (auto& item : buffers_)
    if (item->defined()) archive.read(item.key(), *item, true);
  for (auto& child : children_) {
    if (!child.value()->is_serializable()) continue;
    serialize::InputArchive nested;
    archive.read(child.key(), nested);
    child.value()->load(nested);
  }
}

}  // namespace nn
}  // namespace torch
