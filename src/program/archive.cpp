#include "program/archive.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/checked.h"
#include "core/error.h"
#include "program/inflate.h"
#include "program/json.h"

namespace facula {
namespace {

template <class... Parts>
[[noreturn, gnu::cold]] void damaged(const Parts&... why) {
  throw_error(ErrorKind::Runtime, "load: no archive, or a damaged one: ", why...);
}

// ---- where bytes come from

/// The pages of a file, which storages share.
struct Mapping {
  Mapping(int file, size_t size) : size(size) {
    data = static_cast<char*>(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0));
  }
  ~Mapping() {
    if (data != MAP_FAILED) munmap(data, size);
  }
  Mapping(const Mapping&) = delete;
  char* data;
  size_t size;
};

void release_mapping(Storage* storage) { delete static_cast<std::shared_ptr<const Mapping>*>(storage->context); }

class FileBytes final : public ByteSource {
 public:
  explicit FileBytes(const std::string& path)
      : path_(path), file_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
    if (file_ < 0) throw_error(ErrorKind::Runtime, "load: ", path_, " cannot be opened: ", std::strerror(errno));
    struct stat about{};
    const bool plain = fstat(file_, &about) == 0 && S_ISREG(about.st_mode);
    if (!plain) close(file_), throw_error(ErrorKind::Runtime, "load: ", path_, " is no file of a disk");
    size_ = static_cast<uint64_t>(about.st_size);
  }
  ~FileBytes() override { close(file_); }

  uint64_t size() const override { return size_; }
  void read(uint64_t at, size_t count, char* to) const override {
    while (count > 0) {
      const ssize_t done = pread(file_, to, count, static_cast<off_t>(at));
      if (done < 0 && errno == EINTR) continue;
      if (done < 0) throw_error(ErrorKind::Runtime, "load: ", path_, " cannot be read: ", std::strerror(errno));
      if (done == 0) throw_error(ErrorKind::Runtime, "load: ", path_, " became shorter while it was read");
      at += static_cast<uint64_t>(done);
      to += done;
      count -= static_cast<size_t>(done);
    }
  }
  Storage* map(uint64_t at, size_t count) const override {
    if (!mapping_) mapping_ = std::make_shared<const Mapping>(file_, size_);
    if (mapping_->data == MAP_FAILED) return nullptr;
    Storage* storage =
        borrow_storage(mapping_->data + at, count, kCPU, release_mapping, new std::shared_ptr<const Mapping>(mapping_));
    storage->resizable = true;  // nobody else holds the address
    return storage;
  }

 private:
  std::string path_;
  int file_;
  uint64_t size_ = 0;
  mutable std::shared_ptr<const Mapping> mapping_;
};

class MemoryBytes final : public ByteSource {
 public:
  explicit MemoryBytes(std::string_view bytes) : bytes_(bytes) {}
  uint64_t size() const override { return bytes_.size(); }
  void read(uint64_t at, size_t count, char* to) const override {
    if (count) std::memcpy(to, bytes_.data() + at, count);
  }
  Storage* map(uint64_t, size_t) const override { return nullptr; }

 private:
  std::string_view bytes_;
};

// ---- the directory

constexpr size_t kLocal = 30, kCentral = 46, kEnd = 22, kEnd64 = 56, kLocator64 = 20, kMostComment = 0xffff;
constexpr uint64_t kWide = 0xffffffff;  // stands for a number that is in the extra field
constexpr unsigned kEncrypted = 1, kStored = 0, kDeflated = 8;

/// A piece of the file; numbers by their places in it.
class Piece {
 public:
  Piece(const ByteSource& source, uint64_t at, uint64_t count) : bytes_(static_cast<size_t>(count), '\0') {
    source.read(at, bytes_.size(), bytes_.data());
  }
  uint64_t number(size_t at, int bytes) const {
    uint64_t value = 0;
    for (int i = 0; i < bytes; ++i)
      value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes_[at + static_cast<size_t>(i)])) << 8 * i;
    return value;
  }
  uint64_t u16(size_t at) const { return number(at, 2); }
  uint64_t u32(size_t at) const { return number(at, 4); }
  uint64_t u64(size_t at) const { return number(at, 8); }
  bool begins(std::string_view magic, size_t at = 0) const { return bytes().substr(at).starts_with(magic); }
  std::string_view bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

struct Directory {
  uint64_t count, start, size;
};

/// Whether [start, start + count) ends at or before `end`.
bool inside(uint64_t start, uint64_t count, uint64_t end) { return start <= end && count <= end - start; }

Directory find_directory64(const ByteSource& source, const Piece& tail, size_t locator, uint64_t locator_at) {
  const uint64_t where = tail.u64(locator + 8);
  if (tail.u32(locator + 4) != 0 || tail.u32(locator + 16) != 1 || !inside(where, kEnd64, locator_at))
    damaged("its zip64 locator is wrong");
  const Piece record(source, where, kEnd64);
  const bool one_disk = record.u32(16) == 0 && record.u32(20) == 0 && record.u64(24) == record.u64(32);
  if (!record.begins("PK\6\6") || !one_disk || record.u64(4) != locator_at - where - 12)
    damaged("its zip64 record of the directory is wrong");
  const Directory found{record.u64(32), record.u64(48), record.u64(40)};
  if (!inside(found.start, found.size, where) || found.start + found.size != where)
    damaged("its directory does not end where it should");
  return found;
}

Directory find_directory(const ByteSource& source) {
  const uint64_t whole = source.size();
  const uint64_t start = whole - std::min<uint64_t>(whole, kMostComment + kEnd + kLocator64);
  const Piece tail(source, start, whole - start);
  const size_t at = tail.bytes().rfind("PK\5\6");
  if (at == std::string_view::npos || tail.size() - at < kEnd)
    damaged("there is no record of the directory at its end");
  if (tail.u16(at + 20) != tail.size() - at - kEnd) damaged("bytes follow the record of its directory");
  if (tail.u16(at + 4) != 0 || tail.u16(at + 6) != 0 || tail.u16(at + 8) != tail.u16(at + 10))
    damaged("it is one of several volumes");
  if (at >= kLocator64 && tail.begins("PK\6\7", at - kLocator64))
    return find_directory64(source, tail, at - kLocator64, start + at - kLocator64);
  const Directory found{tail.u16(at + 10), tail.u32(at + 16), tail.u32(at + 12)};
  if (!inside(found.start, found.size, start + at) || found.start + found.size != start + at)
    damaged("its directory does not end where it should");
  return found;
}

/// Reads the entries of the directory one by one.
class DirectoryReader {
 public:
  DirectoryReader(const ByteSource& source, const Directory& where)
      : source_(source), where_(where), directory_(source, where.start, where.size) {}

  std::map<std::string, ArchiveRecord, std::less<>> run() {
    std::map<std::string, ArchiveRecord, std::less<>> records;
    for (uint64_t i = 0; i < where_.count; ++i) {
      std::string name;
      const ArchiveRecord record = next(name);
      if (name.ends_with('/')) continue;
      if (!records.emplace(name, record).second) damaged("record '", text_of(name), "' is there twice");
    }
    if (at_ != directory_.size()) damaged("its directory holds more than its records");
    check_overlaps();
    return records;
  }

 private:
  ArchiveRecord next(std::string& name) {
    if (directory_.size() - at_ < kCentral || !directory_.begins("PK\1\2", at_)) damaged("its directory is wrong");
    const size_t name_size = directory_.u16(at_ + 28), extra = directory_.u16(at_ + 30);
    const size_t own = kCentral + name_size + extra + directory_.u16(at_ + 32);
    if (directory_.size() - at_ < own) damaged("its directory is wrong");
    name = directory_.bytes().substr(at_ + kCentral, name_size);
    if (!is_utf8(name)) damaged("the name of a record is not UTF-8, got '", text_of(name), "'");
    uint64_t sizes[] = {directory_.u32(at_ + 24), directory_.u32(at_ + 20), directory_.u32(at_ + 42)};
    widen(name, at_ + kCentral + name_size, extra, sizes);
    const uint64_t flags = directory_.u16(at_ + 8), method = directory_.u16(at_ + 10);
    if ((flags & kEncrypted) || (method != kStored && method != kDeflated))
      damaged("record '", text_of(name), "' is encrypted, or packed by method ", method);
    ArchiveRecord record;
    record.size = sizes[0];
    record.packed = sizes[1];
    record.crc = static_cast<uint32_t>(directory_.u32(at_ + 16));
    record.deflated = method == kDeflated;
    if (record.deflated ? record.size > most_inflated(record.packed) : record.size != record.packed)
      damaged("record '", text_of(name), "' cannot have ", record.size, " bytes in ", record.packed);
    record.start = check_header(name, sizes[2], method);
    if (!inside(record.start, record.packed, where_.start))
      damaged("record '", text_of(name), "' reaches outside of the file");
    spans_.emplace_back(sizes[2], record.start + record.packed);
    at_ += own;
    return record;
  }

  /// Numbers that do not fit are in the extra field of zip64, in this order.
  void widen(std::string_view name, size_t at, size_t size, uint64_t (&sizes)[3]) const {
    const auto wide = static_cast<size_t>(std::count(std::begin(sizes), std::end(sizes), kWide));
    const size_t end = at + size;
    if (wide == 0) return;
    while (end - at >= 4) {
      const size_t tag = directory_.u16(at), own = directory_.u16(at + 2);
      at += 4;
      if (own > end - at || (tag == 1 && own < 8 * wide)) break;
      if (tag == 1) {
        for (uint64_t& number : sizes) {
          if (number != kWide) continue;
          number = directory_.u64(at);
          at += 8;
        }
        return;
      }
      at += own;
    }
    damaged("record '", text_of(name), "' lacks its zip64 sizes");
  }

  /// Where the bytes of a record begin, by its own header.
  uint64_t check_header(std::string_view name, uint64_t offset, uint64_t method) const {
    if (!inside(offset, kLocal + name.size(), where_.start))
      damaged("record '", text_of(name), "' reaches outside of the file");
    const Piece header(source_, offset, kLocal + name.size());
    const bool same = header.u16(26) == name.size() && header.bytes().substr(kLocal) == name;
    if (!header.begins("PK\3\4") || header.u16(8) != method || !same)
      damaged("record '", text_of(name), "' has a header that contradicts the directory");
    return offset + kLocal + name.size() + header.u16(28);
  }

  void check_overlaps() {
    std::sort(spans_.begin(), spans_.end());
    for (size_t i = 1; i < spans_.size(); ++i) {
      if (spans_[i - 1].second > spans_[i].first) damaged("two of its records overlap");
    }
  }

  const ByteSource& source_;
  const Directory where_;
  const Piece directory_;
  size_t at_ = 0;
  std::vector<std::pair<uint64_t, uint64_t>> spans_;
};

}  // namespace

std::unique_ptr<ByteSource> ByteSource::file(const std::string& path) { return std::make_unique<FileBytes>(path); }
std::unique_ptr<ByteSource> ByteSource::memory(std::string_view bytes) { return std::make_unique<MemoryBytes>(bytes); }

Archive::Archive(std::unique_ptr<const ByteSource> source, bool checksums)
    : source_(std::move(source)), checksums_(checksums) {
  records_ = DirectoryReader(*source_, find_directory(*source_)).run();
}

const ArchiveRecord& Archive::record(std::string_view name) const {
  const auto found = records_.find(name);
  FACULA_CHECK(found != records_.end(), ErrorKind::Runtime, "load: the archive has no ", text_of(name, 200));
  return found->second;
}

void Archive::check_sum(std::string_view name, const ArchiveRecord& record, std::string_view bytes) const {
  const bool wrong = checksums_ && record.crc != 0 && crc32(bytes) != record.crc;
  FACULA_CHECK(!wrong, ErrorKind::Runtime, "load: ", text_of(name, 200), " does not match its checksum");
}

void Archive::fill(std::string_view name, const ArchiveRecord& record, char* to) const {
  const auto size = static_cast<size_t>(record.size);
  if (!record.deflated) {
    source_->read(record.start, size, to);
  } else {
    const Piece packed(*source_, record.start, record.packed);
    try {
      inflate(packed.bytes(), {to, size});
    } catch (const Error& error) {
      throw_error(ErrorKind::Runtime, "load: ", text_of(name, 200), " ", error.what());
    }
  }
  check_sum(name, record, {to, size});
}

std::string Archive::read(std::string_view name, uint64_t most) const {
  const ArchiveRecord& found = record(name);
  FACULA_CHECK(found.size <= most, ErrorKind::Runtime, "load: ", text_of(name, 200), " has at most ", most,
               " bytes, got ", found.size);
  std::string bytes(static_cast<size_t>(found.size), '\0');
  fill(name, found, bytes.data());
  return bytes;
}

Ref<Storage> Archive::storage(std::string_view name, bool map) const {
  constexpr uint64_t kAligned = 16;  // of what any dtype needs
  const ArchiveRecord& found = record(name);
  const auto size = static_cast<size_t>(found.size);
  if (map && !found.deflated && size > 0 && found.start % kAligned == 0) {
    if (auto mapped = Ref<Storage>::adopt(source_->map(found.start, size))) {
      check_sum(name, found, {mapped->data, size});
      return mapped;
    }
  }
  auto made = Ref<Storage>::adopt(make_storage(size, kCPU));
  if (size) fill(name, found, made->data);
  return made;
}

}  // namespace facula
