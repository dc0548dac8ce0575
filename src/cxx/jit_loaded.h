// Holds what the copies of a torch::jit::Module share: a program, and how its arguments and results are nested.
#pragma once

#include "program/archive.h"
#include "program/pt2.h"
#include "program/run.h"
#include "torch/jit.h"

namespace torch::jit::detail {

/// How values are nested: a leaf is a tensor, a number, a text or None.
struct Spec {
  enum class Kind : uint8_t { Leaf, Tuple, List, Dict };
  Kind kind = Kind::Leaf;
  std::vector<IValue> keys;  // of a Dict
  std::vector<Spec> children;

  /// Of the JSON in which PyTorch writes a pytree. Classes of which keys are known are dictionaries, others tuples.
  static Spec parse(const std::string& text);
  size_t leaves() const;
};

/// The leaves of a value that is nested so; `path` is what it is called in errors.
void flatten(const Spec& spec, const IValue& value, const std::string& path, std::vector<facula::Value>& leaves);
/// The value of the next leaves.
IValue unflatten(const Spec& spec, const facula::Value*& leaf);

struct Loaded {
  Loaded(facula::ProgramFile file, std::shared_ptr<const facula::Archive> opened);
  IValue run(const std::vector<IValue>& inputs, const Kwargs& kwargs) const;
  /// Another program in the place of this one.
  void exchange(std::shared_ptr<facula::Program> changed);
  /// The input that holds the tensor of a path; null where there is none.
  facula::ProgramInput* held(const std::string& path);

  std::shared_ptr<facula::Program> program;
  std::shared_ptr<const facula::Runner> runner;
  std::vector<std::string> names;  // of arguments: those by position, then those by keyword
  Spec arguments, results;
  std::vector<std::pair<std::string, std::string>> modules;  // paths and classes
  std::shared_ptr<const facula::Archive> archive;            // open: another file may have its name by now
  bool training, recorded_training;
};

/// Writes the archive with the tensors of the program in the places of those that it had.
void write_archive(const Loaded& loaded, const std::function<void(const void*, size_t)>& sink);

}  // namespace torch::jit::detail
