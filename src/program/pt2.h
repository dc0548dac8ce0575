// Reads PyTorch's archive of an exported program (".pt2", schema 8): the training IR and the core IR. Names that no op
// of the schema has are in program/builtins.cpp. A file is data: nothing of it is run or unpickled, sizes, depth and
// counts are limited, unknown fields are ignored.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "program/archive.h"
#include "program/program.h"

namespace facula {

struct LoadOptions {
  /// Parameters are the pages of the file, where they lie as tensors need it; they are read when first used, and writes
  /// to them stay in this process. The file must not change or become shorter as long as tensors of it live.
  bool map = true;
  /// What is read is compared with the checksums of the archive; that reads all of it.
  bool checksums = true;
};

/// What an archive says of its program, besides.
struct ProgramFile {
  std::shared_ptr<Program> program;        // verified; parameters, buffers and constants are in its inputs
  std::string in_spec, out_spec;           // how arguments and results are nested: JSON, as PyTorch's pytrees write it
  std::vector<std::string> forward_names;  // of the arguments of the module
  std::vector<std::pair<std::string, std::string>> modules;  // paths in the order of their calls, and classes
  std::optional<std::string> examples;  // the file of sample inputs, as torch.save wrote it, if it was requested
};

/// Throws a RuntimeError that says what is wrong. `facula::load()` comes first.
ProgramFile read_program(std::unique_ptr<const ByteSource> source, const LoadOptions& options, bool examples = false);
/// Whether an archive is one of TorchScript, which read_program refuses.
bool is_torchscript(std::unique_ptr<const ByteSource> source);
std::shared_ptr<Program> load_program(const std::string& path, const LoadOptions& options = {});

}  // namespace facula
