// NumPy's .npz: a zip archive of .npy files. Written without compression, and with sizes in 64 bits throughout, as
// NumPy does, so that there is one way for all sizes.
#include "program/archive.h"
#include "program/inflate.h"
#include "run/arrays.h"

namespace facula {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 40;
constexpr std::string_view kEnding = ".npy";
constexpr uint64_t kElsewhere = 0xffffffff;  // the number is in the field for 64 bits
constexpr uint64_t kElsewhere16 = 0xffff;
constexpr uint64_t kVersion64 = 45, kNamesAreUtf8 = 1 << 11, kField64 = 1;
constexpr uint64_t kFirstDay = 1 << 5 | 1;  // of 1980: there is no other date that says nothing

struct Entry {
  std::string name;
  uint32_t sum;
  uint64_t size, at;
};

/// Numbers one behind the other, the lowest byte first.
class Fields {
 public:
  Fields& u16(uint64_t v) { return number(v, 2); }
  Fields& u32(uint64_t v) { return number(v, 4); }
  Fields& u64(uint64_t v) { return number(v, 8); }
  Fields& add(std::string_view bytes) { return text += bytes, *this; }
  std::string text;

 private:
  Fields& number(uint64_t v, int bytes) {
    for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(v >> 8 * i));
    return *this;
  }
};

/// What the header of a file and its line in the directory have in common.
void describe(Fields& to, const Entry& entry, std::string_view extra) {
  to.u16(kVersion64).u16(kNamesAreUtf8).u16(0).u16(0).u16(kFirstDay);
  to.u32(entry.sum).u32(kElsewhere).u32(kElsewhere).u16(entry.name.size()).u16(extra.size());
}

std::string local_header(const Entry& entry) {
  const Fields extra = Fields().u16(kField64).u16(16).u64(entry.size).u64(entry.size);
  Fields all;
  all.u32(0x04034b50);
  describe(all, entry, extra.text);
  return all.add(entry.name).add(extra.text).text;
}

std::string directory(const std::vector<Entry>& entries, uint64_t at) {
  Fields all;
  for (const Entry& entry : entries) {
    const Fields extra = Fields().u16(kField64).u16(24).u64(entry.size).u64(entry.size).u64(entry.at);
    all.u32(0x02014b50).u16(kVersion64);
    describe(all, entry, extra.text);
    all.u16(0).u16(0).u16(0).u32(0).u32(kElsewhere).add(entry.name).add(extra.text);
  }
  const uint64_t size = all.text.size(), count = entries.size();
  all.u32(0x06064b50).u64(44).u16(kVersion64).u16(kVersion64).u32(0).u32(0).u64(count).u64(count).u64(size).u64(at);
  all.u32(0x07064b50).u32(0).u64(at + size).u32(1);
  all.u32(0x06054b50).u16(0).u16(0).u16(kElsewhere16).u16(kElsewhere16).u32(kElsewhere).u32(kElsewhere).u16(0);
  return all.text;
}

}  // namespace

std::vector<NamedTensor> read_npz(const std::string& path) {
  const Archive archive(ByteSource::file(path), true);
  std::vector<NamedTensor> all;
  for (const auto& [name, record] : archive.records()) {
    FACULA_CHECK(name.ends_with(kEnding), ErrorKind::Value, "npz: expected .npy files in it, got '", name, "'");
    all.push_back({name.substr(0, name.size() - kEnding.size()), parse_npy(archive.read(name, kMostBytes))});
  }
  return all;
}

void write_npz(const Sink& sink, const std::vector<NamedTensor>& arrays) {
  std::vector<Entry> entries;
  uint64_t at = 0;
  for (const auto& [name, tensor] : arrays) {
    std::string bytes = npy_header(tensor);
    bytes.append(tensor.data<char>(), static_cast<size_t>(tensor.numel() * tensor.item_size()));
    entries.push_back({name + std::string(kEnding), crc32(bytes), bytes.size(), at});
    const std::string header = local_header(entries.back());
    sink(header);
    sink(bytes);
    at += header.size() + bytes.size();
  }
  sink(directory(entries, at));
}

}  // namespace facula
