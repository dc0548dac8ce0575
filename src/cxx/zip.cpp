#include "cxx/zip.h"

#include <algorithm>

#include "core/error.h"
#include "program/inflate.h"

namespace torch::detail {
namespace {

using facula::ErrorKind;

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr uint64_t kNot32 = 0xffffffff, kNot16 = 0xffff, kAlignment = 64;
constexpr uint16_t kExtra64 = 1, kFiller = 0x4246, kVersion64 = 45, kNamesAreUtf8 = 1 << 11;

/// Numbers one behind the other, the lowest byte first.
class Fields {
 public:
  Fields& u16(uint64_t v) { return number(v, 2); }
  Fields& u32(uint64_t v) { return number(v, 4); }
  Fields& u64(uint64_t v) { return number(v, 8); }
  std::string text;

 private:
  Fields& number(uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(v >> 8 * i));
    return *this;
  }
};
uint64_t clipped(uint64_t v) { return std::min(v, kNot32); }

}  // namespace

void ZipWriter::write(std::string_view bytes) {
  sink_(bytes.data(), bytes.size());
  at_ += bytes.size();
}

void ZipWriter::add(const std::string& name, const void* data, size_t size) {
  const std::string_view bytes(static_cast<const char*>(data), size);
  Entry entry{folder_.empty() ? name : folder_ + "/" + name, facula::crc32(bytes), size, at_};
  Fields extra;
  if (size >= kNot32) extra.u16(kExtra64).u16(16).u64(size).u64(size);
  const uint64_t head = 30 + entry.name.size() + extra.text.size() + 4;
  const uint64_t filler = (kAlignment - (at_ + head) % kAlignment) % kAlignment;
  extra.u16(kFiller).u16(filler);
  extra.text.append(filler, 'Z');
  Fields local;
  local.u32(kLocal).u16(size >= kNot32 ? kVersion64 : 0).u16(kNamesAreUtf8).u16(0).u16(0).u16(0).u32(entry.crc);
  local.u32(clipped(size)).u32(clipped(size)).u16(entry.name.size()).u16(extra.text.size());
  write(local.text + entry.name + extra.text);
  if (size) write(bytes);
  entries_.push_back(std::move(entry));
}

void ZipWriter::finish() {
  const uint64_t begin = at_;
  for (const Entry& e : entries_) {
    Fields extra;
    if (e.size >= kNot32) extra.u64(e.size).u64(e.size);
    if (e.offset >= kNot32) extra.u64(e.offset);
    const std::string wide = extra.text.empty() ? "" : Fields().u16(kExtra64).u16(extra.text.size()).text + extra.text;
    Fields central;
    central.u32(kCentral).u16(0).u16(wide.empty() ? 0 : kVersion64).u16(kNamesAreUtf8).u16(0).u16(0).u16(0).u32(e.crc);
    central.u32(clipped(e.size)).u32(clipped(e.size)).u16(e.name.size()).u16(wide.size());
    central.u16(0).u16(0).u16(0).u32(0).u32(clipped(e.offset));
    write(central.text + e.name + wide);
  }
  const uint64_t size = at_ - begin, count = entries_.size(), end64 = at_;
  if (begin >= kNot32 || count >= kNot16) {
    Fields wide;
    wide.u32(kEnd64).u64(44).u16(kVersion64).u16(kVersion64).u32(0).u32(0).u64(count).u64(count).u64(size).u64(begin);
    wide.u32(kLocator64).u32(0).u64(end64).u32(1);
    write(wide.text);
  }
  const uint64_t short_count = std::min(count, kNot16);
  Fields end;
  end.u32(kEnd).u16(0).u16(0).u16(short_count).u16(short_count).u32(clipped(size)).u32(clipped(begin)).u16(0);
  write(end.text);
}

ZipReader::ZipReader(std::string_view bytes) : bytes_(bytes) {
  const facula::Archive archive(facula::ByteSource::memory(bytes), true);
  for (const auto& [name, record] : archive.records())
    files_.emplace(name.substr(std::min(name.find('/') + 1, name.size())), record);
}

std::string_view ZipReader::file(const std::string& name) const {
  const auto found = files_.find(name);
  FACULA_CHECK(found != files_.end(), ErrorKind::Runtime, "archive: it has no ", name);
  const facula::ArchiveRecord& record = found->second;
  FACULA_CHECK(!record.deflated, ErrorKind::NotImplemented, "archive: ", name, " is compressed");
  const std::string_view contents = bytes_.substr(record.start, record.size);
  FACULA_CHECK(facula::crc32(contents) == record.crc, ErrorKind::Runtime, "archive: ", name, " is damaged");
  return contents;
}

}  // namespace torch::detail
