#include "run/arrays.h"

#include "core/new_file.h"
#include "functions.h"
#include "program/archive.h"

namespace facula {
namespace {

std::string whole(const std::string& path) {
  const auto source = ByteSource::file(path);
  std::string bytes(source->size(), '\0');
  source->read(0, bytes.size(), bytes.data());
  return bytes;
}

void write(NewFile& file, const Tensor& t) { file.write(t.data(), static_cast<size_t>(t.numel() * t.item_size())); }

void write_npy(NewFile& file, const std::vector<NamedTensor>& arrays) {
  FACULA_CHECK(arrays.size() == 1, ErrorKind::Value, "an .npy file holds one array, got ", arrays.size(),
               "; .npz and .safetensors hold several");
  file.write(npy_header(arrays[0].tensor));
  write(file, arrays[0].tensor);
}

void write_safetensors(NewFile& file, const std::vector<NamedTensor>& arrays) {
  file.write(safetensors_header(arrays));
  for (const NamedTensor& array : arrays) write(file, array.tensor);
}

struct Format {
  std::string_view ending;
  std::vector<NamedTensor> (*read)(const std::string& path);
  void (*write)(NewFile& file, const std::vector<NamedTensor>& arrays);
};
constexpr Format kFormats[] = {
    {".npy", [](const std::string& path) { return std::vector<NamedTensor>{{"", parse_npy(whole(path))}}; }, write_npy},
    {".npz", read_npz,
     [](NewFile& file, const auto& arrays) {
       write_npz([&](const void* data, size_t size) { file.write(data, size); }, arrays);
     }},
    {".safetensors", [](const std::string& path) { return parse_safetensors(whole(path)); }, write_safetensors},
};

const Format& format_of(const std::string& path) {
  for (const Format& format : kFormats)
    if (path.ends_with(format.ending)) return format;
  throw Error(ErrorKind::Value, "'" + path + "' must end in .npy, .npz or .safetensors");
}

}  // namespace

std::vector<NamedTensor> read_arrays(const std::string& path) {
  const Format& format = format_of(path);
  try {
    return format.read(path);
  } catch (const Error& error) {
    throw Error(error.kind(), "'" + path + "': " + error.what());
  }
}

void write_arrays(const std::string& path, const std::vector<NamedTensor>& arrays) {
  const Format& format = format_of(path);
  std::vector<NamedTensor> plain;
  for (const auto& [name, tensor] : arrays)
    plain.push_back({name, contiguous(_to_device(resolve_conj(tensor), kCPU, tensor.dtype()))});
  NewFile file("facula-run", path);
  format.write(file, plain);
  file.finish();
}

}  // namespace facula
