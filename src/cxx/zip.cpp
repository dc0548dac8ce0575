#include "cxx/zip.h"

#include <array>
#include <cstring>

#include "core/error.h"

namespace torch::detail {
namespace {

using facula::ErrorKind;

constexpr uint32_t kLocal = 0x04034b50, kCentral = 0x02014b50, kEnd = 0x06054b50, kEnd64 = 0x06064b50,
                   kLocator64 = 0x07064b50;
constexpr uint64_t kNot32 = 0xffffffff, kNot16 = 0xffff, kAlignment = 64;
constexpr uint16_t kExtra64 = 1, kFiller = 0x4246, kVersion64 = 45, kNamesAreUtf8 = 1 << 11;

constexpr auto kCrcTable = [] {
  std::array<uint32_t, 256> table{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t value = i;
    for (int bit = 0; bit < 8; ++bit) value = value & 1 ? value >> 1 ^ 0xedb88320 : value >> 1;
    table[i] = value;
  }
  return table;
}();
uint32_t crc_of(std::string_view bytes) {
  uint32_t crc = 0xffffffff;
  for (const char c : bytes) crc = crc >> 8 ^ kCrcTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

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

/// Reads such numbers; past the end of the bytes is an error.
class Cursor {
 public:
  Cursor(std::string_view bytes, uint64_t at) : bytes_(bytes), at_(at) {}
  uint16_t u16() { return static_cast<uint16_t>(number(2)); }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  uint64_t u64() { return number(8); }
  std::string_view take(uint64_t size) {
    FACULA_CHECK(at_ <= bytes_.size() && size <= bytes_.size() - at_, ErrorKind::Runtime, "archive: it ends where ",
                 size, " bytes at ", at_, " are expected");
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }

 private:
  uint64_t number(uint64_t bytes) {
    uint64_t v = 0;
    const std::string_view raw = take(bytes);
    for (size_t i = 0; i < bytes; ++i) v |= uint64_t{static_cast<unsigned char>(raw[i])} << 8 * i;
    return v;
  }
  std::string_view bytes_;
  uint64_t at_;
};

struct Directory {
  uint64_t count, offset;
};

Directory find_directory(std::string_view bytes) {
  constexpr uint64_t kEndSize = 22, kLocatorSize = 20, kLongestComment = 0xffff;
  FACULA_CHECK(bytes.size() >= kEndSize, ErrorKind::Runtime, "archive: a zip file is expected, got ", bytes.size(),
               " bytes");
  const uint64_t last = bytes.size() - kEndSize, first = last > kLongestComment ? last - kLongestComment : 0;
  for (uint64_t at = last + 1; at-- > first;) {
    Cursor end(bytes, at);
    if (end.u32() != kEnd) continue;
    end.take(6);
    Directory found{end.u16(), 0};
    end.take(4);
    found.offset = end.u32();
    if ((found.count != kNot16 && found.offset != kNot32) || at < kLocatorSize) return found;
    Cursor locator(bytes, at - kLocatorSize);
    if (locator.u32() != kLocator64) return found;
    locator.take(4);
    Cursor end64(bytes, locator.u64());
    FACULA_CHECK(end64.u32() == kEnd64, ErrorKind::Runtime, "archive: its directory is not where it should be");
    end64.take(28);
    found.count = end64.u64();
    end64.take(8);
    found.offset = end64.u64();
    return found;
  }
  facula::throw_error(ErrorKind::Runtime, "archive: a zip file is expected, and this is none");
}

/// What the 64-bit field of an entry says in the place of numbers that do not fit.
void widen(std::string_view extra, std::initializer_list<uint64_t*> numbers) {
  Cursor fields(extra, 0);
  for (uint64_t left = extra.size(); left >= 4;) {
    const uint16_t kind = fields.u16(), size = fields.u16();
    const std::string_view field = fields.take(size);
    left -= 4 + uint64_t{size};
    if (kind != kExtra64) continue;
    Cursor wide(field, 0);
    for (uint64_t* number : numbers)
      if (*number == kNot32) *number = wide.u64();
    return;
  }
}

}  // namespace

void ZipWriter::write(std::string_view bytes) {
  sink_(bytes.data(), bytes.size());
  at_ += bytes.size();
}

void ZipWriter::add(const std::string& name, const void* data, size_t size) {
  const std::string_view bytes(static_cast<const char*>(data), size);
  Entry entry{folder_.empty() ? name : folder_ + "/" + name, crc_of(bytes), size, at_};
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

ZipReader::ZipReader(std::string_view bytes) {
  const Directory directory = find_directory(bytes);
  Cursor entries(bytes, directory.offset);
  for (uint64_t i = 0; i < directory.count; ++i) {
    FACULA_CHECK(entries.u32() == kCentral, ErrorKind::Runtime, "archive: its directory is damaged at entry ", i);
    entries.take(6);
    const uint16_t method = entries.u16();
    entries.take(4);
    File file{{}, entries.u32(), method != 0};
    uint64_t packed = entries.u32(), size = entries.u32();
    const uint16_t name_size = entries.u16(), extra_size = entries.u16(), comment_size = entries.u16();
    entries.take(8);
    uint64_t offset = entries.u32();
    const std::string name(entries.take(name_size));
    widen(entries.take(extra_size), {&size, &packed, &offset});
    entries.take(comment_size);
    Cursor local(bytes, offset);
    FACULA_CHECK(local.u32() == kLocal, ErrorKind::Runtime, "archive: ", name, " is not where it should be");
    local.take(22);
    const uint64_t own_name = local.u16(), own_extra = local.u16();
    local.take(own_name + own_extra);
    file.bytes = local.take(packed);
    files_.emplace(name.substr(std::min(name.find('/') + 1, name.size())), file);
  }
}

std::string_view ZipReader::file(const std::string& name) const {
  const auto found = files_.find(name);
  FACULA_CHECK(found != files_.end(), ErrorKind::Runtime, "archive: it has no ", name);
  FACULA_CHECK(!found->second.compressed, ErrorKind::NotImplemented, "archive: ", name, " is compressed");
  FACULA_CHECK(crc_of(found->second.bytes) == found->second.crc, ErrorKind::Runtime, "archive: ", name, " is damaged");
  return found->second.bytes;
}

}  // namespace torch::detail
