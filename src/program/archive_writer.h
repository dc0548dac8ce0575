// Writes zip archives, without compression: PyTorch's archives, and NumPy's .npz files.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace facula {

class ArchiveWriter {
 public:
  using Sink = std::function<void(const void* data, size_t size)>;
  /// Every name begins with `folder`, if there is one.
  explicit ArchiveWriter(Sink sink, std::string folder = "") : sink_(std::move(sink)), folder_(std::move(folder)) {}
  /// Adds a record, whose bytes begin at a multiple of 64.
  void add(const std::string& name, const void* data, size_t size);
  void add(const std::string& name, std::string_view text) { add(name, text.data(), text.size()); }
  /// Writes the directory of all records. Nothing can be added afterwards.
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

}  // namespace facula
