// Damaged programs: every archive is read and run, or refused with an Error that says why; nothing else ever happens.
//
//     test_program_fuzz [rounds [seed [file.pt2]]]
//
// A third of the rounds changes bytes of the archive, a third bytes of its JSON, whose checksums are then right again,
// a third the tree of the JSON: members go, move, repeat, and become something else. Loops of a program end after 256
// rounds.
#include <cstdio>
#include <fstream>
#include <iterator>
#include <random>
#include <typeinfo>

#include "check.h"
#include "core/host.h"
#include "cpu/backend.h"
#include "functions.h"
#include "mlp_archive.h"
#include "program/json.h"
#include "program/loaded.h"

namespace {

using namespace facula;

std::mt19937_64 numbers;
size_t below(size_t count) { return count ? numbers() % count : 0; }

// ---- a tree that can be changed

struct Tree {
  Json::Kind kind = Json::Kind::Null;
  std::string scalar;  // as it is written
  std::vector<std::string> names;
  std::vector<Tree> children;
};

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    char room[8];
    if (c == '"' || c == '\\') out += '\\', out += c;
    else if (static_cast<unsigned char>(c) < 0x20) std::snprintf(room, sizeof room, "\\u%04x", c), out += room;
    else out += c;
  }
  return out + "\"";
}

Tree tree_of(const Json& json) {
  Tree tree;
  tree.kind = json.kind();
  switch (json.kind()) {
    case Json::Kind::Object:
      for (const auto& member : json.members()) {
        tree.names.emplace_back(member.key());
        tree.children.push_back(tree_of(member.value));
      }
      break;
    case Json::Kind::Array:
      for (const Json& item : json.items()) tree.children.push_back(tree_of(item));
      break;
    case Json::Kind::String: tree.scalar = quoted(json.to_string()); break;
    case Json::Kind::Int: tree.scalar = std::to_string(json.to_int()); break;
    case Json::Kind::Float: tree.scalar = std::to_string(json.to_float()); break;
    case Json::Kind::Bool: tree.scalar = json.to_bool() ? "true" : "false"; break;
    default: tree.scalar = "null";
  }
  return tree;
}

void write(const Tree& tree, std::string& out) {
  const bool object = tree.kind == Json::Kind::Object;
  if (!object && tree.kind != Json::Kind::Array) {
    out += tree.scalar;
    return;
  }
  out += object ? '{' : '[';
  for (size_t i = 0; i < tree.children.size(); ++i) {
    if (i) out += ',';
    if (object) out += quoted(tree.names[i]) + ":";
    write(tree.children[i], out);
  }
  out += object ? '}' : ']';
}

void all_of(Tree& tree, std::vector<Tree*>& found) {
  found.push_back(&tree);
  for (Tree& child : tree.children) all_of(child, found);
}

Tree scalar(Json::Kind kind, std::string text) { return {kind, std::move(text), {}, {}}; }

Tree strange() {
  const char* const texts[] = {"x",
                               "",
                               "\\u0000",
                               "linear",
                               "torch.ops.aten.view.default",
                               "torch.ops.aten.relu_.default",
                               "torch.ops.aten.topk.default",
                               "torch.ops.aten.expand.default",
                               "_operator.add",
                               "p_w",
                               "torch.ops.aten.chunk.default",
                               "torch.ops.aten.cat.default",
                               "as_optional_tensors",
                               "as_none",
                               "torch.ops.aten.sym_size.int",
                               "Infinity",
                               "lin.weight",
                               "Pow(Symbol('s77'), Integer(3))",
                               "FloorDiv(Symbol('s77'), Integer(0))",
                               "weight_0",
                               "../x"};
  const char* const ints[] = {"0",
                              "1",
                              "-1",
                              "2",
                              "7",
                              "12",
                              "64",
                              "9223372036854775807",
                              "-9223372036854775808",
                              "4611686018427387904",
                              "1e308",
                              "0.5",
                              "99999999999999999999"};
  switch (below(6)) {
    case 0: return scalar(Json::Kind::Null, "null");
    case 1: return scalar(Json::Kind::Bool, below(2) ? "true" : "false");
    case 2: return {Json::Kind::Array, "", {}, {}};
    case 3: return {Json::Kind::Object, "", {}, {}};
    case 4: return scalar(Json::Kind::String, "\"" + std::string(texts[below(std::size(texts))]) + "\"");
    default: return scalar(Json::Kind::Int, ints[below(std::size(ints))]);
  }
}

void change(Tree& root) {
  std::vector<Tree*> all;
  all_of(root, all);
  Tree& tree = *all[below(all.size())];
  const Tree other = *all[below(all.size())];
  const size_t child = below(tree.children.size());
  if (tree.children.empty() || below(4) == 0) {
    tree = below(2) ? strange() : other;
  } else if (below(3) == 0) {  // one goes
    if (!tree.names.empty()) tree.names.erase(tree.names.begin() + static_cast<ptrdiff_t>(child));
    tree.children.erase(tree.children.begin() + static_cast<ptrdiff_t>(child));
  } else if (tree.names.empty() && below(2)) {  // one repeats, or moves
    const Tree moved = tree.children[child];
    tree.children.insert(tree.children.begin() + static_cast<ptrdiff_t>(below(tree.children.size() + 1)), moved);
  } else {
    tree.children[child] = below(2) ? other : strange();
    if (!tree.names.empty() && below(8) == 0) tree.names[child] = tree.names[below(tree.names.size())];
  }
}

// ---- archives

struct Parts {
  std::string whole, model_name, config_name;
  std::vector<std::pair<std::string, std::string>> records;
};

Parts parts_of(std::string bytes) {
  Parts parts;
  parts.whole = std::move(bytes);
  const Archive archive(ByteSource::memory(parts.whole), true);
  for (const auto& [name, record] : archive.records()) {
    parts.records.emplace_back(name, archive.read(name, UINT64_MAX));
    if (name.find("/models/") != std::string::npos) parts.model_name = name;
    if (name.ends_with("_weights_config.json")) parts.config_name = name;
  }
  CHECK(!parts.model_name.empty() && !parts.config_name.empty());
  return parts;
}

std::string with(const Parts& parts, const std::string& name, const std::string& data) {
  ZipWriter zip;
  for (const auto& [own, bytes] : parts.records) zip.add(own, own == name ? data : bytes);
  return zip.bytes();
}

void change_bytes(std::string& bytes, bool text) {
  constexpr std::string_view kSigns = "0129\"[]{}:,-.eE\\u nulltruefals_ax\x80\xff";
  for (size_t times = 1 + below(4); times > 0 && !bytes.empty(); --times) {
    const size_t at = below(bytes.size());
    switch (below(text ? 6 : 4)) {
      case 0: bytes[at] = static_cast<char>(numbers()); break;
      case 1: bytes[at] = static_cast<char>(bytes[at] ^ 1 << below(8)); break;
      case 2: bytes.erase(at, 1 + below(below(2) ? 4 : 400)); break;
      case 3: bytes.insert(at, bytes.substr(below(bytes.size()), below(60))); break;
      default: bytes[at] = kSigns[below(kSigns.size())];
    }
  }
}
/// Of the archive mostly what is no tensor's: its directory.
void change_archive(std::string& bytes) {
  const size_t directory = bytes.find("PK\1\2");
  if (below(2) == 0 || directory == std::string::npos) return change_bytes(bytes, false);
  for (size_t times = 1 + below(3); times > 0; --times) {
    const size_t at = directory + below(bytes.size() - directory);
    constexpr unsigned char kValues[] = {0, 1, 0x7f, 0x80, 0xff, 8, 0x50};
    bytes[at] = below(2) ? static_cast<char>(kValues[below(std::size(kValues))]) : static_cast<char>(numbers());
  }
}

std::string mutated(const Parts& parts, size_t kind) {
  const std::string& name = below(4) == 0 ? parts.config_name : parts.model_name;
  std::string data;
  for (const auto& [own, bytes] : parts.records) {
    if (own == name) data = bytes;
  }
  if (kind == 0) {
    std::string whole = parts.whole;
    change_archive(whole);
    return whole;
  }
  if (kind == 1) {
    change_bytes(data, true);
    return with(parts, name, data);
  }
  Tree tree = tree_of(JsonDocument(data).root());
  for (size_t times = 1 + below(3); times > 0; --times) change(tree);
  std::string text;
  write(tree, text);
  return with(parts, name, text);
}

std::vector<Value> inputs_of(const LoadedProgram& program) {
  std::vector<Value> inputs;
  for (const auto& input : program.inputs()) {
    if (input.kind != Value::Kind::Tensor) {
      inputs.push_back(input.constant.is_none() ? Value(3) : input.constant);
      continue;
    }
    std::vector<int64_t> sizes;
    int64_t count = 1;
    for (const Expr& size : input.meta.sizes) {
      sizes.push_back(std::clamp<int64_t>(size.is_integer() ? size.integer() : 5, 0, 64));
      count *= std::max<int64_t>(sizes.back(), 1);
      if (count > 1 << 20) return {};
    }
    inputs.push_back(zeros(sizes, input.meta.dtype));
  }
  return inputs;
}

}  // namespace

int main(int count, char** given) {
  facula::cpu::register_backend();
  host.check_interrupt = [] { throw_error(ErrorKind::Runtime, "a loop that goes on and on"); };
  const size_t rounds = count > 1 ? std::stoul(given[1]) : 6000;
  numbers.seed(count > 2 ? std::stoul(given[2]) : 1);
  std::string bytes = mlp_archive();
  if (count > 3) {
    std::ifstream file(given[3], std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(file), {});
  }
  const Parts parts = parts_of(std::move(bytes));
  size_t loaded[3] = {}, ran = 0;
  for (size_t round = 0; round < rounds; ++round) {
    const std::string archive = mutated(parts, round % 3);
    try {
      const LoadedProgram program(read_program(ByteSource::memory(archive), {}).program);
      ++loaded[round % 3];
      program.run(inputs_of(program));
      ++ran;
    } catch (const Error& error) {
      EXPECT(*error.what());
    } catch (const std::exception& error) {
      std::printf("round %zu: %s: %s\n", round, typeid(error).name(), error.what());
      ++failures;
    }
  }
  std::printf("%zu archives: %zu, %zu and %zu were read, %zu ran\n", rounds, loaded[0], loaded[1], loaded[2], ran);
  for (size_t kind : loaded) EXPECT(kind > 0 && kind < rounds / 3 + 1);
  EXPECT(ran > 0);
  std::printf(failures ? "%d failures\n" : "ok\n", failures.load());
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
