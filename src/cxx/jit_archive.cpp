// torch::jit::load and Module::save: archives of programs.
#include <iterator>
#include <ostream>

#include "core/new_file.h"
#include "cxx/jit_loaded.h"
#include "program/archive_writer.h"
#include "program/json.h"

namespace torch::jit {

using facula::Archive;
using facula::ByteSource;
using facula::ErrorKind;
using facula::Json;
using facula::JsonDocument;

namespace {

std::unique_ptr<const ByteSource> source_of(const std::string& path, const std::string& bytes) {
  return path.empty() ? ByteSource::memory(bytes) : ByteSource::file(path);
}

/// The archive, and what is in it where it is no file.
struct Opened {
  Opened(const std::string& path, std::string contents)
      : bytes(std::move(contents)), archive(source_of(path, bytes), false) {}
  const std::string bytes;
  const Archive archive;
};

Module read(const std::string& path, std::string bytes, optional<Device> device) {
  FACULA_CHECK(!facula::is_torchscript(source_of(path, bytes)), ErrorKind::NotImplemented,
               "jit.load: ", path.empty() ? "the stream" : path,
               " is an archive of TorchScript, of which programs in C++ read the ",
               "tensors only (torch::load into a module of the same names). In Python, ",
               "facula.jit.trace(facula.jit.load(file), inputs).save('program.pt2') makes a program of it");
  facula::LoadOptions options;
  options.map = !path.empty();
  facula::ProgramFile file = facula::read_program(source_of(path, bytes), options);
  const auto opened = std::make_shared<const Opened>(path, std::move(bytes));
  const std::shared_ptr<const Archive> archive(opened, &opened->archive);
  Module module(std::make_shared<detail::Loaded>(std::move(file), archive), "");
  if (device && !device->is_cpu()) module.to(*device);
  return module;
}

/// The bytes of the file of a tensor, where the archive says this of it; `keep` owns them.
std::string_view bytes_of(const Json& entry, const std::string& path, const facula::Tensor& held, size_t size,
                          Tensor& keep) {
  const auto numbers = [&](const char* key) {
    std::vector<int64_t> found;
    for (const Json& number : entry.at("tensor_meta").at(key).items()) found.push_back(number.at("as_int").to_int());
    return found;
  };
  keep = Tensor(held).detach().cpu();
  const std::vector<int64_t> strides = numbers("strides");
  if (keep.strides() != IntArrayRef(strides))
    keep = torch::empty_strided(keep.sizes(), strides, keep.options()).copy_(keep);
  facula::materialize(keep.core());
  const facula::Storage* storage = keep.core().storage();
  const int64_t offset = entry.at("tensor_meta").at("storage_offset").at("as_int").to_int();
  FACULA_CHECK(storage->nbytes == size && keep.storage_offset() == offset, ErrorKind::NotImplemented, "save: '", path,
               "' has other bytes than the archive has: ", size, " are expected, got ", storage->nbytes);
  return {static_cast<const char*>(storage->data), storage->nbytes};
}

}  // namespace

namespace detail {

void write_archive(const Loaded& loaded, const std::function<void(const void*, size_t)>& sink) {
  FACULA_CHECK(loaded.training == loaded.recorded_training, ErrorKind::NotImplemented,
               "save: the archive was recorded in ", loaded.recorded_training ? "training" : "evaluation",
               ", and train() or eval() changed the program; export it in that mode");
  const Archive& archive = *loaded.archive;
  std::unordered_map<std::string, std::pair<std::string_view, Tensor>> changed;  // files of tensors
  for (const auto& [name, record] : archive.records()) {
    const bool table = name.ends_with("_weights_config.json") || name.ends_with("_constants_config.json");
    if (!table) continue;
    const JsonDocument document(archive.read(name, JsonDocument::kMostBytes));
    const std::string folder = name.substr(0, name.rfind('/') + 1);
    for (const Json::Member& entry : document.root().at("config").members()) {
      const auto* input = const_cast<Loaded&>(loaded).held(std::string(entry.key()));
      const std::string file = folder + std::string(entry.value.at("path_name").to_string());
      const auto stored = archive.records().find(file);
      if (!input || stored == archive.records().end()) continue;
      const facula::TensorMeta& meta = loaded.program->values[static_cast<size_t>(input->value)].meta;
      FACULA_CHECK(meta.dtype == input->tensor.dtype(), ErrorKind::Runtime, "save: '", input->path, "' has changed");
      auto& place = changed[file];
      place.first = bytes_of(entry.value, input->path, input->tensor, stored->second.size, place.second);
    }
  }
  facula::ArchiveWriter zip(sink);
  for (const auto& [name, record] : archive.records()) {
    const auto found = changed.find(name);
    if (found == changed.end()) zip.add(name, archive.read(name, record.size));
    else zip.add(name, found->second.first);
  }
  zip.finish();
}

}  // namespace detail

namespace {

void check_save(const std::string& path, const ExtraFilesMap& extra_files) {
  FACULA_CHECK(path.empty(), ErrorKind::NotImplemented, "save: '", path,
               "' is a part of a program, which is saved as a whole");
  FACULA_CHECK(extra_files.empty(), ErrorKind::NotImplemented, "save: further files are not written, got ",
               extra_files.size());
}

}  // namespace

void Module::save(std::ostream& out, const ExtraFilesMap& extra_files) const {
  check_save(path_, extra_files);
  detail::write_archive(loaded(), [&](const void* data, size_t size) {
    out.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
    FACULA_CHECK(out, ErrorKind::Runtime, "save: ", size, " bytes could not be written");
  });
}
void Module::save(const std::string& filename, const ExtraFilesMap& extra_files) const {
  check_save(path_, extra_files);
  facula::NewFile file("save", filename);  // `filename` may be the one that the tensors are in
  detail::write_archive(loaded(), [&](const void* data, size_t size) { file.write(data, size); });
  file.finish();
}

Module load(const std::string& filename, optional<Device> device, bool) { return read(filename, {}, device); }
Module load(std::istream& in, optional<Device> device, bool) {
  std::string bytes(std::istreambuf_iterator<char>(in), {});
  FACULA_CHECK(!bytes.empty(), ErrorKind::Runtime, "jit.load: an archive is expected, got an empty stream");
  return read("", std::move(bytes), device);
}

}  // namespace torch::jit
