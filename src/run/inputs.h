// Reads from files the arrays that a program is run on.
#pragma once

#include <string>
#include <vector>

#include "program/program.h"
#include "run/options.h"

namespace facula {

class RunInputs {
 public:
  explicit RunInputs(const Program& program);
  /// Arrays go to the inputs that are named, by the command or in the file; those without a name to the next ones.
  void read(const RunOptions::Input& from);
  /// As the program takes them; a ValueError names what is missing.
  std::vector<Value> values() const;

 private:
  int find(std::string_view name) const;  // -1: none
  size_t place_of(const std::string& name, const std::string& path) const;
  size_t next(const std::string& path) const;
  void put(size_t place, Tensor t);

  const Program& program_;
  std::vector<const ProgramInput*> wanted_;
  std::vector<Tensor> given_;
};

}  // namespace facula
