// The files in a zip archive, none of them compressed, as PyTorch's archives have them.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "program/archive.h"

namespace torch::detail {

class ZipWriter {
 public:
  using Sink = std::function<void(const void* data, size_t size)>;
  /// Every name begins with `folder`, if there is one.
  ZipWriter(Sink sink, std::string folder) : sink_(std::move(sink)), folder_(std::move(folder)) {}
  /// The contents begin at a multiple of 64 bytes.
  void add(const std::string& name, const void* data, size_t size);
  void add(const std::string& name, std::string_view text) { add(name, text.data(), text.size()); }
  /// The directory of what was added; nothing comes after it.
  void finish();

 private:
  struct Entry {
    std::string name;
    uint32_t crc;
    uint64_t size, offset;
  };
  void write(std::string_view bytes);
  Sink sink_;
  std::string folder_;
  uint64_t at_ = 0;
  std::vector<Entry> entries_;
};

/// Reads an archive that is in memory; contents point into it. What it believes is program/archive.h's decision.
class ZipReader {
 public:
  explicit ZipReader(std::string_view bytes);
  bool contains(const std::string& name) const { return files_.count(name) != 0; }
  /// What a file holds, after its checksum was compared.
  std::string_view file(const std::string& name) const;

 private:
  std::string_view bytes_;
  std::unordered_map<std::string, facula::ArchiveRecord> files_;  // without the folder that all are in
};

}  // namespace torch::detail
