// NumPy's .npz: a zip archive of .npy files.
#include "program/archive.h"
#include "run/arrays.h"

namespace facula {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 40;
constexpr std::string_view kEnding = ".npy";

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

void write_npz(const ArchiveWriter::Sink& sink, const std::vector<NamedTensor>& arrays) {
  ArchiveWriter archive(sink);
  for (const auto& [name, tensor] : arrays) {
    std::string bytes = npy_header(tensor);
    bytes.append(tensor.data<char>(), static_cast<size_t>(tensor.numel() * tensor.item_size()));
    archive.add(name + std::string(kEnding), bytes);
  }
  archive.finish();
}

}  // namespace facula
