// Damaged programs: every archive is read and run, or refused with an Error that says why; nothing else ever happens.
//
//     test_program_fuzz [[first+]rounds [seed [file ...]]]
//
// A file is an archive or a zip of archives (tests/data/pytorch_programs.zip, `python -m tests.fuzz.programs`); a round
// takes one of all. A third of the rounds changes bytes of the archive, a third bytes of its JSON, whose checksums are
// then right again, a third the tree of the JSON: members go, move, repeat, and become something else, or only numbers
// and words become others of their kind, so that most programs stay valid and run. Loops of a program end after 256
// rounds, a process in which one round takes a minute ends. A round depends on the seed and its
// number alone: `37512+1` repeats one. FACULA_FUZZ_TEXTS=1 shows an error of every kind.
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <typeinfo>

#include "check.h"
#include "core/host.h"
#include "cpu/backend.h"
#include "functions.h"
#include "mlp_archive.h"
#include "program/boxed.h"
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
                               "torch.ops.higher_order.cond",
                               "torch.ops.higher_order.while_loop",
                               "torch.ops.higher_order.map_impl",
                               "torch.ops.higher_order.scan",
                               "torch.ops.higher_order.wrap_with_set_grad_enabled",
                               "as_graph",
                               "as_tensors",
                               "as_sym_int",
                               "buffer_mutation",
                               "gradient_to_parameter",
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
  switch (below(7)) {
    case 0: return scalar(Json::Kind::Null, "null");
    case 1: return scalar(Json::Kind::Bool, below(2) ? "true" : "false");
    case 2: return {Json::Kind::Array, "", {}, {}};
    case 3: return {Json::Kind::Object, "", {}, {}};
    case 4: return scalar(Json::Kind::String, "\"" + std::string(texts[below(std::size(texts))]) + "\"");
    case 5: {
      static const std::vector<const BoxedOp*> ops = all_boxed();
      return scalar(Json::Kind::String, quoted("torch.ops.aten." + ops[below(ops.size())]->aten));
    }
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

using Leaves = std::vector<std::pair<std::string_view, Tree*>>;  // by the names of members

void leaves_of(Tree& tree, std::string_view name, Leaves& found) {
  if (tree.children.empty()) found.emplace_back(name, &tree);
  for (size_t i = 0; i < tree.children.size(); ++i)
    leaves_of(tree.children[i], tree.names.empty() ? name : tree.names[i], found);
}

/// An op that asks for a tensor or two.
const BoxedOp& small_op() {
  static const std::vector<const BoxedOp*> ops = [] {
    std::vector<const BoxedOp*> small;
    for (const BoxedOp* op : all_boxed()) {
      const auto asked = [](const BoxedArgument& a) { return a.required && !a.type.optional; };
      const auto other = [&](const BoxedArgument& a) { return asked(a) && !a.type.is_tensor(); };
      const auto& given = op->arguments;
      if (std::count_if(given.begin(), given.end(), asked) <= 2 && std::none_of(given.begin(), given.end(), other))
        small.push_back(op);
    }
    return small;
  }();
  return *ops[below(ops.size())];
}

/// A value becomes another one that could stand there: other operands, ops, flags, sizes.
void nudge(const Leaves& leaves) {
  const auto& [name, leaf] = leaves[below(leaves.size())];
  switch (leaf->kind) {
    case Json::Kind::Bool: leaf->scalar = leaf->scalar == "true" ? "false" : "true"; break;
    case Json::Kind::Int: {
      const int64_t near[] = {0, 1, -1, 2, 3, 5, 1 << 20, INT64_MAX};
      const auto old = static_cast<uint64_t>(std::strtoll(leaf->scalar.c_str(), nullptr, 10));
      const uint64_t made = below(2) ? old + (below(2) ? 1 : ~uint64_t{0}) : static_cast<uint64_t>(near[below(8)]);
      leaf->scalar = std::to_string(static_cast<int64_t>(made));
      break;
    }
    case Json::Kind::String:
      if (name == "target" && below(2)) {
        leaf->scalar = quoted("torch.ops.aten." + small_op().aten);
        break;
      }
      if (name == "type") {
        leaf->scalar = below(4) ? "\"meta\"" : "\"cuda\"";
        break;
      }
      for (int tries = 0; tries < 20; ++tries) {
        const auto& [own, other] = leaves[below(leaves.size())];
        if (own != name || other->kind != Json::Kind::String || other->scalar == leaf->scalar) continue;
        leaf->scalar = other->scalar;
        break;
      }
      break;
    default: *leaf = strange();
  }
}

// ---- archives

struct Parts {
  std::string whole, model_name;
  std::vector<std::string> other_names;  // of JSON
  std::vector<std::pair<std::string, std::string>> records;
};

Parts parts_of(std::string bytes) {
  Parts parts;
  parts.whole = std::move(bytes);
  const Archive archive(ByteSource::memory(parts.whole), true);
  for (const auto& [name, record] : archive.records()) {
    parts.records.emplace_back(name, archive.read(name, UINT64_MAX));
    if (name.find("/models/") != std::string::npos) parts.model_name = name;
    else if (name.ends_with(".json")) parts.other_names.push_back(name);
  }
  CHECK(!parts.model_name.empty() && !parts.other_names.empty());
  return parts;
}

/// Of an archive, or of all that are in a zip.
void add_file(const std::string& path, std::vector<Parts>& corpus) {
  std::ifstream file(path, std::ios::binary);
  CHECK(file);
  std::string bytes(std::istreambuf_iterator<char>(file), {});
  const Archive archive(ByteSource::memory(bytes), true);
  const size_t before = corpus.size();
  for (const auto& [name, record] : archive.records()) {
    if (name.ends_with(".pt2")) corpus.push_back(parts_of(archive.read(name, UINT64_MAX)));
  }
  if (corpus.size() == before) corpus.push_back(parts_of(std::move(bytes)));
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
  const bool other = below(4) == 0;
  const std::string& name = other ? parts.other_names[below(parts.other_names.size())] : parts.model_name;
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
  const size_t times = 1 + below(3);
  if (below(2)) {
    Leaves leaves;
    leaves_of(tree, "", leaves);
    for (size_t i = 0; i < times; ++i) nudge(leaves);
  } else {
    for (size_t i = 0; i < times; ++i) change(tree);
  }
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
    Tensor made = zeros(sizes, input.meta.dtype);
    if (below(2) && is_floating(made.dtype())) uniform_(made, -1, 2);
    inputs.push_back(std::move(made));
  }
  return inputs;
}

// ---- errors

std::map<std::string, std::pair<size_t, std::string>> kinds;  // how often, and one of them

/// A text without what differs from file to file.
std::string shape_of(const std::string& text) {
  std::string shape;
  bool word = false;
  for (char c : text.substr(0, text.find(" [in the program's"))) {
    if (c == '\'') word = !word;
    if (!word && (c < '0' || c > '9')) shape += c;
  }
  return shape;
}

/// Says what it says, in a line of characters that can be read.
bool is_clear(const std::string& text) {
  const auto readable = [](char c) { return static_cast<unsigned char>(c) >= ' ' || c == '\n'; };
  return text.size() > 8 && text.size() < 4000 && std::all_of(text.begin(), text.end(), readable);
}

size_t current = 0;  // round

void check_text(const Error& error, bool reading) {
  const std::string text = error.what();
  const bool prefix = error.kind() == ErrorKind::OutOfMemory || text.starts_with("load: ");
  if (!is_clear(text) || (reading && !prefix)) {
    std::printf("round %zu: an error's text: %.500s\n", current, text.c_str());
    ++failures;
  }
  if (std::getenv("FACULA_FUZZ_TEXTS")) {
    auto& [times, example] = kinds[shape_of(text).substr(0, 60)];
    if (times++ == 0) example = text;
  }
}

extern "C" void end(int number) {
  std::printf("round %zu ended by signal %d\n", current, number);
  std::fflush(stdout);
  std::signal(number, SIG_DFL);
  std::raise(number);
}

void set_limits() {
#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // which take all addresses, and report these themselves
  constexpr rlim_t kMost = rlim_t{4} << 30;
  const rlimit limit{kMost, kMost};
  CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
  for (int number : {SIGSEGV, SIGBUS, SIGFPE}) std::signal(number, end);
#endif
  for (int number : {SIGABRT, SIGALRM}) std::signal(number, end);
}

}  // namespace

int main(int count, char** given) {
  facula::cpu::register_backend();
  host.check_interrupt = [] { throw_error(ErrorKind::Runtime, "a loop that goes on and on"); };
  set_limits();
  const std::string range = count > 1 ? given[1] : "6000";
  const size_t plus = range.find('+');
  const size_t first = plus == std::string::npos ? 0 : std::stoul(range);
  const size_t rounds = std::stoul(plus == std::string::npos ? range : range.substr(plus + 1));
  const size_t seed = count > 2 ? std::stoul(given[2]) : 1;
  std::vector<Parts> corpus;
  for (int i = 3; i < count; ++i) add_file(given[i], corpus);
  if (corpus.empty()) corpus.push_back(parts_of(mlp_archive()));
  size_t loaded[3] = {}, ran = 0;
  for (current = first; current < first + rounds; ++current) {
    numbers.seed(seed << 32 ^ current);
    const size_t kind = current % 3;
    const std::string archive = mutated(corpus[below(corpus.size())], kind);
    alarm(60);
    bool reading = true;
    try {
      const std::shared_ptr<Program> read = read_program(ByteSource::memory(archive), {}).program;
      reading = false;
      const LoadedProgram program(read);
      ++loaded[kind];
      program.run(inputs_of(program));
      ++ran;
    } catch (const Error& error) {
      check_text(error, reading);
    } catch (const std::exception& error) {
      std::printf("round %zu: %s: %s\n", current, typeid(error).name(), error.what());
      ++failures;
    }
  }
  std::printf("%zu archives of %zu: %zu, %zu and %zu were read, %zu ran\n", rounds, corpus.size(), loaded[0], loaded[1],
              loaded[2], ran);
  for (const auto& [shape, found] : kinds) std::printf("%8zu %s\n", found.first, found.second.c_str());
  for (size_t kind : loaded) EXPECT(rounds < 1000 || (kind > 0 && kind < rounds / 3 + 1));
  EXPECT(rounds < 1000 || ran > 0);
  std::printf(failures ? "%d failures\n" : "ok\n", failures.load());
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
