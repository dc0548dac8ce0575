// Reads and writes PyTorch's archives: a tree of named values here, a pickle and the bytes of tensors in a zip file
// there. Reading makes tensors, numbers, texts, lists and dictionaries; of the names in a pickle a fixed list is known,
// and objects are only the names and values that they hold.
#pragma once

#include "torch/serialize.h"

namespace torch::serialize::detail {

struct Node {
  enum class Kind { Value, Parameter, Buffer, Nested };
  struct Item {
    std::string name;
    Kind kind;
    IValue value;
    std::shared_ptr<Node> nested;
  };
  std::vector<Item> items;

  Item* find(const std::string& name);
  /// A new item, or the one of that name, emptied.
  Item& put(const std::string& name, Kind kind);
};

using Sink = std::function<void(const void* data, size_t size)>;
/// As torch.jit.save writes a module: its attributes, and the source that declares them.
void write_tree(const Node& tree, const Sink& sink);
/// A module of torch.jit.save or of ours, or a dictionary by names with dots.
std::shared_ptr<Node> read_tree(std::string_view archive, const optional<Device>& device);

/// As torch.save writes a value, and torch.load reads it.
void write_value(const IValue& value, const Sink& sink);
IValue read_value(std::string_view archive);

}  // namespace torch::serialize::detail
