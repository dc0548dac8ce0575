#include "program/pt2.h"

#include <algorithm>

#include "autograd/node.h"
#include "core/checked.h"
#include "program/json.h"
#include "program/modules.h"
#include "program/pt2_graph.h"

namespace facula {
namespace {

using pt2::dtype_of, pt2::kMostDims, pt2::refuse;

constexpr int64_t kSchema = 8;

/// The tensors of an archive by path. Those that share bytes there share them here.
class TensorReader {
 public:
  TensorReader(const Archive& archive, const std::string& root, const std::string& name, bool map)
      : archive_(archive), root_(root), map_(map) {
    add("weights", name);
    add("constants", name);
  }

  Tensor get(const std::string& path) {
    for (const Table& table : tables_) {
      const Json* entry = table.json->root().at("config").find(path);
      if (entry) return tensor(table.folder, path, *entry);
    }
    refuse("there is no tensor for '", text_of(path), "'");
  }

 private:
  struct Table {
    std::string folder;
    std::unique_ptr<const JsonDocument> json;
  };
  struct Made {
    Json meta;
    bool parameter;
    Tensor tensor;
  };

  void add(const std::string& word, const std::string& name) {
    const std::string file = root_ + "data/" + word + "/" + name + "_" + word + "_config.json";
    if (!archive_.has(file)) return;
    auto json = std::make_unique<const JsonDocument>(archive_.read(file, JsonDocument::kMostBytes));
    tables_.push_back({root_ + "data/" + word + "/", std::move(json)});
  }

  static std::vector<int64_t> integers(const Json& list) {
    std::vector<int64_t> found;
    for (const Json& size : list.items()) found.push_back(size.at("as_int").to_int());
    return found;
  }

  Tensor tensor(const std::string& folder, const std::string& path, const Json& entry) {
    const Json* pickled = entry.find("use_pickle");
    if (pickled && pickled->to_bool()) refuse(text_of(path, 200), " is pickled, which is not read");
    const Json& meta = entry.at("tensor_meta");
    const DType dtype = dtype_of(meta.at("dtype"));
    const std::vector<int64_t> sizes = integers(meta.at("sizes")), strides = integers(meta.at("strides"));
    const int64_t offset = meta.at("storage_offset").at("as_int").to_int();
    const auto negative = [](int64_t v) { return v < 0; };
    const bool valid = sizes.size() == strides.size() && sizes.size() <= kMostDims && offset >= 0 &&
                       std::none_of(sizes.begin(), sizes.end(), negative) &&
                       std::none_of(strides.begin(), strides.end(), negative);
    if (!valid) refuse(text_of(path, 200), " has no valid sizes and strides");
    const std::string record = folder + std::string(entry.at("path_name").to_string());
    const Json* parameter = entry.find("is_param");
    const Json* wants = meta.find("requires_grad");
    const bool grad = parameter && parameter->to_bool() && wants && wants->to_bool();
    const Storage* storage = storage_of(record).get();
    const bool empty = product_of(sizes).value_or(1) == 0;
    const int64_t last = empty ? -1 : places_of(sizes, strides, offset).high.value_or(INT64_MAX);
    const int64_t there = static_cast<int64_t>(storage->nbytes) / item_size(dtype);
    if (last >= there) refuse(text_of(path, 200), " reaches beyond its ", storage->nbytes, " bytes");
    return shared(record, dtype, sizes, strides, empty ? 0 : offset, grad);
  }
  const Ref<Storage>& storage_of(const std::string& record) {
    Ref<Storage>& storage = storages_[record];
    if (!storage) storage = archive_.storage(record, map_);
    return storage;
  }
  /// One tensor where two paths say the same: tied parameters stay tied.
  Tensor shared(const std::string& record, DType dtype, IntList sizes, IntList strides, int64_t offset, bool grad) {
    for (const Tensor& made : made_[record]) {
      if (made.dtype() == dtype && made.sizes() == sizes && made.strides() == strides &&
          made.storage_offset() == offset && made.requires_grad() == grad)
        return made;
    }
    Tensor made = tensor_on_storage(storages_[record].get(), dtype, offset, sizes, strides, "load");
    if (grad) set_requires_grad(made, true);
    made_[record].push_back(made);
    return made;
  }

  const Archive& archive_;
  const std::string root_;
  const bool map_;
  std::vector<Table> tables_;
  std::map<std::string, Ref<Storage>> storages_;
  std::map<std::string, std::vector<Tensor>> made_;
};

/// The folder of the archive that its marks are in.
std::string root_of(const Archive& archive) {
  constexpr std::string_view kMark = "archive_format";
  for (const auto& [name, record] : archive.records()) {
    const std::string_view root = std::string_view(name).substr(0, name.rfind('/') + 1);
    if (name.substr(root.size()) == kMark && std::count(root.begin(), root.end(), '/') <= 1) return std::string(root);
  }
  refuse("no exported program: there is no ", kMark);
}

std::string trimmed(std::string text) {
  while (!text.empty() && text.back() <= ' ') text.pop_back();
  return text;
}

std::string model_of(const Archive& archive, const std::string& root) {
  if (trimmed(archive.read(root + "archive_format", 100)) != "pt2") refuse("archive_format must be pt2");
  const std::string order = root + "byteorder";
  const std::string bytes = archive.has(order) ? trimmed(archive.read(order, 100)) : "little";
  if (bytes != "little" && !bytes.empty()) refuse("the byte order must be little");
  const std::string prefix = root + "models/";
  std::vector<std::string> found;
  for (const auto& [name, record] : archive.records()) {
    if (name.starts_with(prefix) && name.ends_with(".json") && name.size() > prefix.size() + 5)
      found.push_back(name.substr(prefix.size(), name.size() - prefix.size() - 5));
  }
  if (found.size() != 1) refuse("one program is expected, got ", found.size());
  return found[0];
}

/// How the module itself is called.
void read_call(const Json& module, ProgramFile& file) {
  for (const Json& entry : module.at("module_call_graph").items()) {
    if (entry.at("fqn").to_string() != "") continue;
    const Json& signature = entry.at("signature");
    file.in_spec = signature.at("in_spec").to_string();
    file.out_spec = signature.at("out_spec").to_string();
    const Json* names = signature.find("forward_arg_names");
    if (!names || names->is_null()) return;
    for (const Json& name : names->items()) file.forward_names.emplace_back(name.to_string());
    return;
  }
  refuse("it does not say how the module is called");
}

ProgramFile read(const Archive& archive, bool map, bool examples) {
  const std::string root = root_of(archive), name = model_of(archive, root);
  const JsonDocument document(archive.read(root + "models/" + name + ".json", JsonDocument::kMostBytes));
  const Json& model = document.root();
  const int64_t version = model.at("schema_version").at("major").to_int();
  if (version != kSchema) refuse("a file of schema ", kSchema, " is expected, got ", version);
  ProgramFile file;
  file.program = std::make_shared<Program>();
  pt2::read_graph(model, *file.program);
  file.program->verify();
  TensorReader tensors(archive, root, name, map);
  for (ProgramInput& input : file.program->inputs) {
    if (input.kind != ProgramInput::Kind::User) file.program->hold(input, tensors.get(input.path));
  }
  read_call(model.at("graph_module"), file);
  file.modules = called_modules(model.at("graph_module").at("graph"));
  const std::string sample = root + "data/sample_inputs/" + name + ".pt";
  if (examples && archive.has(sample)) file.examples = archive.read(sample, UINT64_MAX);
  return file;
}

}  // namespace

ProgramFile read_program(std::unique_ptr<const ByteSource> source, const LoadOptions& options, bool examples) {
  try {
    return read(Archive(std::move(source), options.checksums), options.map, examples);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::OutOfMemory || std::string_view(error.what()).starts_with("load: ")) throw;
    refuse("the program is damaged: ", error.what());
  } catch (const std::bad_alloc&) {
    throw_error(ErrorKind::OutOfMemory, "load: there is not enough memory for the file");
  }
}

bool is_torchscript(std::unique_ptr<const ByteSource> source) {
  const Archive archive(std::move(source), false);
  return std::any_of(archive.records().begin(), archive.records().end(),
                     [](const auto& record) { return record.first.ends_with("/constants.pkl"); });
}

std::shared_ptr<Program> load_program(const std::string& path, const LoadOptions& options) {
  return read_program(ByteSource::file(path), options).program;
}

}  // namespace facula
