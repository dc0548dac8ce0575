// Reads a zip archive without trusting anything that was not checked: records must not repeat, overlap or reach outside
// of the file, and the directory must agree with the headers of records. The reader works on a copy, since a file may
// change meanwhile; a mapped file is only handed out as the bytes of tensors, which mean nothing to a reader.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/ref.h"
#include "core/storage.h"

namespace facula {

/// Where the bytes of an archive come from. Every error is a RuntimeError.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual uint64_t size() const = 0;
  /// Copies `count` bytes, which are there by size().
  virtual void read(uint64_t at, size_t count, char* to) const = 0;
  /// A storage over the bytes themselves, of which writes stay in this process; null where there is no such thing.
  virtual Storage* map(uint64_t at, size_t count) const = 0;

  /// A file of a disk, by its path. Cutting it short while it is mapped ends a process that reads what is gone.
  static std::unique_ptr<ByteSource> file(const std::string& path);
  /// Bytes of the caller, who keeps them as long as the source.
  static std::unique_ptr<ByteSource> memory(std::string_view bytes);
};

struct ArchiveRecord {
  uint64_t start = 0;   // of its bytes in the file
  uint64_t packed = 0;  // so many lie there
  uint64_t size = 0;    // and so many they are
  uint32_t crc = 0;     // 0: not said
  bool deflated = false;
};

class Archive {
 public:
  /// `checksums`: whether what is read is compared with its sum.
  Archive(std::unique_ptr<const ByteSource> source, bool checksums);

  const std::map<std::string, ArchiveRecord, std::less<>>& records() const { return records_; }
  bool has(std::string_view name) const { return records_.contains(name); }
  /// The bytes of a record, of which there may be `most`.
  std::string read(std::string_view name, uint64_t most) const;
  /// The bytes as a storage of the CPU: the file's own where `map` is set and they lie as tensors need it, else a copy.
  Ref<Storage> storage(std::string_view name, bool map) const;

 private:
  const ArchiveRecord& record(std::string_view name) const;
  void fill(std::string_view name, const ArchiveRecord& record, char* to) const;
  void check_sum(std::string_view name, const ArchiveRecord& record, std::string_view bytes) const;

  std::unique_ptr<const ByteSource> source_;
  bool checksums_;
  std::map<std::string, ArchiveRecord, std::less<>> records_;
};

}  // namespace facula
