#include "program/archive_writer.h"

#include <algorithm>

#include "program/inflate.h"

namespace facula {
namespace {

constexpr uint32_t kLocalMagic = 0x04034b50, kCentralMagic = 0x02014b50, kEndMagic = 0x06054b50,
                   kEnd64Magic = 0x06064b50, kLocator64Magic = 0x07064b50;
constexpr uint64_t kNot32 = 0xffffffff, kNot16 = 0xffff;           // the number is in a field of 64 bits
constexpr uint64_t kRecordAlignment = 64, kFirstDay = 1 << 5 | 1;  // of 1980
constexpr uint16_t kExtra64 = 1, kExtraFiller = 0x4246, kVersion64 = 45, kNamesAreUtf8 = 1 << 11;

/// Numbers one after the other, the lowest byte first.
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

/// What the header of a record and its line in the directory have in common.
void add_description(Fields& to, std::string_view name, uint32_t crc, uint64_t size, size_t extra_size, bool is_wide) {
  to.u16(is_wide ? kVersion64 : 0).u16(kNamesAreUtf8).u16(0).u16(0).u16(kFirstDay);
  to.u32(crc).u32(clipped(size)).u32(clipped(size)).u16(name.size()).u16(extra_size);
}

}  // namespace

void ArchiveWriter::write(std::string_view bytes) {
  sink_(bytes.data(), bytes.size());
  at_ += bytes.size();
}

void ArchiveWriter::add(const std::string& name, const void* data, size_t size) {
  const std::string_view bytes(static_cast<const char*>(data), size);
  Entry entry{folder_.empty() ? name : folder_ + "/" + name, crc32(bytes), size, at_};
  Fields extra;
  if (size >= kNot32) extra.u16(kExtra64).u16(16).u64(size).u64(size);
  const uint64_t head = 30 + entry.name.size() + extra.text.size() + 4;
  const uint64_t filler = (kRecordAlignment - (at_ + head) % kRecordAlignment) % kRecordAlignment;
  extra.u16(kExtraFiller).u16(filler);
  extra.text.append(filler, 'Z');
  Fields local;
  local.u32(kLocalMagic);
  add_description(local, entry.name, entry.crc, size, extra.text.size(), size >= kNot32);
  write(local.text + entry.name + extra.text);
  if (size) write(bytes);
  entries_.push_back(std::move(entry));
}

void ArchiveWriter::finish() {
  const uint64_t begin = at_;
  for (const Entry& e : entries_) {
    Fields extra;
    if (e.size >= kNot32) extra.u64(e.size).u64(e.size);
    if (e.offset >= kNot32) extra.u64(e.offset);
    const std::string wide = extra.text.empty() ? "" : Fields().u16(kExtra64).u16(extra.text.size()).text + extra.text;
    Fields central;
    central.u32(kCentralMagic).u16(wide.empty() ? 0 : kVersion64);
    add_description(central, e.name, e.crc, e.size, wide.size(), !wide.empty());
    central.u16(0).u16(0).u16(0).u32(0).u32(clipped(e.offset));
    write(central.text + e.name + wide);
  }
  const uint64_t size = at_ - begin, count = entries_.size(), end64 = at_;
  if (begin >= kNot32 || count >= kNot16) {
    Fields wide;
    wide.u32(kEnd64Magic).u64(44).u16(kVersion64).u16(kVersion64).u32(0).u32(0);
    wide.u64(count).u64(count).u64(size).u64(begin);
    wide.u32(kLocator64Magic).u32(0).u64(end64).u32(1);
    write(wide.text);
  }
  const uint64_t short_count = std::min(count, kNot16);
  Fields end;
  end.u32(kEndMagic).u16(0).u16(0).u16(short_count).u16(short_count).u32(clipped(size)).u32(clipped(begin)).u16(0);
  write(end.text);
}

}  // namespace facula
