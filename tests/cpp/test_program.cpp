// Programs without Python: JSON, zip archives and PyTorch's files read, run, trained.
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>

#include "autograd/engine.h"
#include "autograd/node.h"
#include "check.h"
#include "core/generator.h"
#include "cpu/backend.h"
#include "functions.h"
#include "mlp_archive.h"
#include "program/json.h"
#include "program/loaded.h"
#include "program/passes/passes.h"
#include "program/srepr.h"

namespace {

using namespace facula;

template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}
bool has(const std::string& text, const std::string& part) {
  const bool found = text.find(part) != std::string::npos;
  if (!found) std::printf("'%s' is not in '%s'\n", part.c_str(), text.c_str());
  return found;
}
#define EXPECT_ERROR(part, ...) EXPECT(has(error_of([&] { __VA_ARGS__; }), part))

// ---- JSON

void test_json_is_read() {
  const JsonDocument document(R"( {"b": [1, -2.5e1, true, false, null, ""], "a": {"x": "\u00e9\ud83d\ude00\n\/"}, )"
                              R"("big": 123456789012345678901} )");
  const Json& root = document.root();
  EXPECT(root.members().size() == 3 && root.members()[0].key() == "a");
  const auto items = root.at("b").items();
  EXPECT(items.size() == 6 && items[0].to_int() == 1 && items[1].to_float() == -25 && items[0].to_float() == 1);
  EXPECT(items[2].to_bool() && !items[3].to_bool() && items[4].is_null() && items[5].to_string().empty());
  EXPECT(root.at("a").only().value.to_string() == "\xc3\xa9\xf0\x9f\x98\x80\n/");
  EXPECT(root.at("big").to_float() == 123456789012345678901.0 && !root.find("c"));
  EXPECT_ERROR("an integer of 64 bits, got a number", root.at("big").to_int());
  EXPECT_ERROR("'c' is missing", root.at("c"));
  EXPECT_ERROR("expected an object, got a list", root.at("b").find("x"));
  EXPECT_ERROR("one member, got 3", root.only());
  EXPECT(JsonDocument("[[], {}, 9223372036854775807, -9223372036854775808]").root().items()[3].to_int() == INT64_MIN);
  EXPECT(JsonDocument(std::string(200, '[') + std::string(200, ']')).root().items().size() == 1);
}

void test_json_that_is_none() {
  const char* const bad[] = {"",
                             " ",
                             "{",
                             "[1",
                             "[1,]",
                             "{\"a\":1,}",
                             "{a:1}",
                             "{\"a\" 1}",
                             "01",
                             "-",
                             "1.",
                             ".5",
                             "1e",
                             "+1",
                             "NaN",
                             "Infinity",
                             "tru",  // codespell:ignore
                             "nul",
                             "\"",
                             "\"\\x\"",
                             "\"\\u12\"",
                             "\"\\ud800\"",
                             "\"\\ud800\\u0041\"",
                             "\"\\udc00\"",
                             "\"\n\"",
                             "\"\xff\"",
                             "\"\xc0\x80\"",
                             "\"\xed\xa0\x80\"",
                             "[1] 2",
                             "{\"a\": 1, \"a\": 2}",
                             "1e999",
                             "[1 2]",
                             "'a'",
                             "\"\\",
                             "00",
                             "1e5x"};
  for (const char* text : bad) {
    const std::string error = error_of([&] { JsonDocument document{text}; });
    if (!error.starts_with("JSON: ")) std::printf("%s: %s\n", text, error.c_str());
    EXPECT(error.starts_with("JSON: "));
  }
  EXPECT_ERROR("at most 200 deep", JsonDocument(std::string(100'000, '[')));
  EXPECT_ERROR("expected ',' or ']' at byte 3, got 'x]'", JsonDocument("[1 x]"));
}

void test_json_with_many_values() {
  std::string text = "[";
  for (int i = 0; i < 100'000; ++i)
    text += (i ? ",[" : "[") + std::to_string(i) + ",{\"k\":" + std::to_string(i) + "}]";
  const JsonDocument document(text + "]");
  const auto items = document.root().items();
  EXPECT(items.size() == 100'000);
  bool same = true;
  for (size_t i = 0; i < items.size(); ++i) {
    const auto pair = items[i].items();
    same = same && pair[0].to_int() == static_cast<int64_t>(i) && pair[1].at("k").to_int() == static_cast<int64_t>(i);
  }
  EXPECT(same);
}

// ---- expressions

void test_expressions_of_sympy() {
  const auto text = [](const char* srepr) {
    const auto read = parse_srepr(srepr);
    return read ? read->text() : "none";
  };
  EXPECT(text("Symbol('s0', positive=True, integer=True)") == "s0");
  EXPECT(text("Add(Mul(Integer(2), Symbol('s0')), Integer(-3))") == parse_srepr("Add(Integer(-3), Mul(Symbol('s0'), "
                                                                                "Integer(2)))")
                                                                        ->text());
  EXPECT(text("FloorDiv(Symbol('a'), Integer(2))") == "a // 2" && text("Mod(Symbol('a'), Integer(2))") == "a % 2");
  EXPECT(text("Pow(Symbol('a'), Integer(2))") == "a*a" && text("Max(Integer(3), Symbol('a'), Integer(4))") != "none");
  const char* const bad[] = {"",
                             "Symbol",
                             "Symbol('1a')",
                             "Symbol('a'",
                             "Integer(2) 3",
                             "Half()",
                             "FloorDiv(Integer(1))",
                             "Pow(Symbol('a'), Integer(99))",
                             "Integer(99999999999999999999)",
                             "Symbol('a b')",
                             "FloorDiv(Integer(1), Integer(2), Integer(3))",
                             "__import__('os')"};
  for (const char* srepr : bad) EXPECT(text(srepr) == "none");
  std::string powers = "Symbol('a')", deep = "Symbol('a')";
  for (int i = 0; i < 9; ++i) powers = "Pow(" + powers + ", Integer(15))";
  for (int i = 0; i < 500; ++i) deep = "Add(" + deep + ", Integer(1))";
  EXPECT(text(powers.c_str()) == "none" && text(deep.c_str()) == "none");
}

// ---- zip

std::string unpacked(std::string_view hexadecimal, size_t size) {
  std::string packed, out(size, '\0');
  for (size_t i = 0; i + 1 < hexadecimal.size(); i += 2)
    packed += static_cast<char>(std::stoi(std::string(hexadecimal.substr(i, 2)), nullptr, 16));
  inflate(packed, out);
  return out;
}

void test_inflate() {
  std::string repeated;
  for (int i = 0; i < 3; ++i) repeated += "abcabcabcabcabcabcabcabcabc, a text that repeats; abcabcabc\n";
  const std::string packed = "4b4c4a4ec481741412154a522b4a144a32124b148a520b52134b8aad15e0f25c8903a41700";
  EXPECT(unpacked(packed, repeated.size()) == repeated);
  EXPECT(unpacked("010600f9ff73746f726564", 6) == "stored" && unpacked("0300", 0).empty());
  EXPECT_ERROR("longer than it should be", unpacked(packed, repeated.size() - 1));
  EXPECT_ERROR("shorter than it should be", unpacked(packed, repeated.size() + 1));
  EXPECT_ERROR("it ends early", unpacked(packed.substr(0, 20), repeated.size()));
  EXPECT_ERROR("contradicts itself", unpacked("010600f9fe73746f726564", 6));
  EXPECT_ERROR("no known kind", unpacked("07", 1));
  EXPECT_ERROR("it ends early", unpacked("", 1));
  EXPECT(crc32("123456789") == 0xcbf43926u && crc32("") == 0);
}

void test_archives() {
  const std::string whole = mlp_archive();
  const Archive archive(ByteSource::memory(whole), true);
  EXPECT(archive.records().size() == 9 && archive.has("mlp/byteorder"));
  EXPECT(archive.read("mlp/archive_format", 3) == "pt2");
  EXPECT_ERROR("has at most 2 bytes, got 3", archive.read("mlp/archive_format", 2));
  EXPECT_ERROR("the archive has no nothing", archive.read("nothing", 2));
  for (size_t count = 0; count < whole.size(); ++count)
    EXPECT_ERROR("load: no archive", Archive(ByteSource::memory(whole.substr(0, count)), true));
  EXPECT_ERROR("bytes follow", Archive(ByteSource::memory(whole + "x"), true));
  std::string broken = whole;
  broken[broken.find("pt2")] = 'q';
  EXPECT_ERROR("does not match its checksum", Archive(ByteSource::memory(broken), true).read("mlp/archive_format", 3));
  EXPECT(Archive(ByteSource::memory(broken), false).read("mlp/archive_format", 3) == "qt2");
  ZipWriter twice;
  twice.add("a/b", "1"), twice.add("a/b", "2");
  EXPECT_ERROR("'a/b' is there twice", Archive(ByteSource::memory(twice.bytes()), true));
  ZipWriter bomb;
  bomb.add("a/b", std::string("\x03\x00", 2), true, uint64_t{1} << 31, 0);
  EXPECT_ERROR("cannot have 2147483648 bytes in 2", Archive(ByteSource::memory(bomb.bytes()), true));
  EXPECT_ERROR("cannot be opened", ByteSource::file("/nowhere/at/all.pt2"));
  EXPECT_ERROR("is no file of a disk", ByteSource::file("/dev/zero"));
}

// ---- programs

/// A file for as long as it lives.
struct TemporaryFile {
  explicit TemporaryFile(const std::string& bytes) : path("/tmp/facula_program_" + std::to_string(getpid()) + ".pt2") {
    std::ofstream(path, std::ios::binary) << bytes;
  }
  ~TemporaryFile() { std::remove(path.c_str()); }
  std::string path;
};

std::vector<float> listed(const Tensor& t) {
  const Tensor whole = contiguous(t);
  return {whole.data<float>(), whole.data<float>() + whole.numel()};
}
Tensor input(int64_t rows) { return reshape(sub(arange(rows * 3, DType::Float32), 2), {rows, 3}); }
// The same by hand.
std::vector<float> expected(int64_t rows, const std::vector<float>& x) {
  const float w[4][3] = {{1, 2, 3}, {-1, 0, 1}, {0.5, 0.5, 0.5}, {0, -2, 1}}, b[] = {0, 1, -1, 0.5};
  const float out[2][4] = {{1, -1, 2, 0}, {0.5, 1, 0, 3}};
  std::vector<float> y;
  for (int64_t r = 0; r < rows; ++r) {
    float hidden[4];
    for (int i = 0; i < 4; ++i) {
      hidden[i] = b[i];
      for (int k = 0; k < 3; ++k) hidden[i] += w[i][k] * x[static_cast<size_t>(r * 3 + k)];
      hidden[i] = std::max(hidden[i], 0.0f) * 2;
    }
    for (const auto& row : out) {
      float sum = 1;
      for (int i = 0; i < 4; ++i) sum += row[i] * hidden[i];
      y.push_back(sum);
    }
  }
  return y;
}

void test_a_program_runs() {
  const TemporaryFile file(mlp_archive());
  for (const bool map : {true, false}) {
    const LoadedProgram p(file.path, {.map = map});
    for (int64_t rows : {1, 5, 64}) {
      const Tensor y = p({input(rows)})[0];
      EXPECT(y.requires_grad() && listed(y) == expected(rows, listed(input(rows))));
    }
    EXPECT(p.inputs().size() == 1 && p.inputs()[0].name == "x" && p.inputs()[0].meta.text() == "float32[s77, 3]");
    EXPECT(p.named_parameters().size() == 4 && p.named_parameters()[1].first == "lin.bias");
    EXPECT(p.at("out.weight").is_same(p.at("tied.weight")) && p.parameters().size() == 3);
    EXPECT(p.named_buffers().size() == 1 && !p.at("scale").requires_grad() && p.symbols()[0].sample == 5);
    EXPECT(has(p.text(), "linear.default(%x, %p_w, %p_b) @ net.py:7"));
    EXPECT_ERROR("no parameter, buffer or constant 'nothing'", p.at("nothing"));
  }
  auto p = Program::load(file.path);  // as programs are used
  EXPECT(p({input(2)})[0].size(1) == 2);
}

void test_wrong_inputs_are_named() {
  const TemporaryFile file(mlp_archive());
  const LoadedProgram p(file.path);
  EXPECT_ERROR("input 'x': expected float32[s77, 3], got float64[2, 3]", p({to_dtype(input(2), DType::Float64)}));
  EXPECT_ERROR("input 'x': expected float32[s77, 3], got float32[6]", p({reshape(input(2), {6})}));
  EXPECT_ERROR("input 'x': expected float32[s77, 3], got float32[3, 2]", p({reshape(input(2), {3, 2})}));
  EXPECT_ERROR("the size s77 must be in [1, 64], got 65", p({input(65)}));
  EXPECT_ERROR("input 'x': expected float32[s77, 3], got int", p({3}));
  EXPECT_ERROR("expected 1 inputs, got 2", p({input(2), input(2)}));
}

void test_a_program_trains() {
  const TemporaryFile file(mlp_archive());
  const LoadedProgram p(file.path);
  const Tensor x = input(4), target = full({4, 2}, 3.0, DType::Float32);
  const auto loss = [&] { return mean(square(p({x})[0] - target)); };
  double before = loss().item().to_double();
  for (int step = 0; step < 5; ++step) {
    std::vector<Edge> roots;
    const Tensor current = loss();
    roots.push_back(gradient_edge(current.impl()));
    run_backward(roots, {scalar_tensor(Scalar(1.0), DType::Float32)}, {}, {false, false, true});
    for (const Tensor& parameter : p.parameters()) {
      const Tensor gradient = grad_of(parameter);
      CHECK(gradient.defined());
      const Tensor plain = alias(parameter);
      sub_(plain, mul(gradient, 1e-4));
      set_grad_of(parameter, {});
    }
    const double after = loss().item().to_double();
    EXPECT(after < before);
    before = after;
  }
  // what was trained is this process's: the file is as it was
  const LoadedProgram again(file.path);
  EXPECT(listed(again.at("lin.bias")) == std::vector<float>({0, 1, -1, 0.5}) &&
         listed(p.at("lin.bias")) != listed(again.at("lin.bias")));
}

void test_tensors_outlive_their_file() {
  Tensor kept;
  {
    const TemporaryFile file(mlp_archive());
    kept = LoadedProgram(file.path).at("lin.bias");
  }
  EXPECT(listed(kept) == std::vector<float>({0, 1, -1, 0.5}));
}

std::string replaced(std::string text, const std::string& old, const std::string& fresh) {
  const size_t at = text.find(old);
  CHECK(at != std::string::npos);
  return text.replace(at, old.size(), fresh);
}

void test_files_that_are_refused() {
  const auto error = [](const std::string& old, const std::string& fresh) {
    const std::string bytes = mlp_archive(replaced(mlp_model(), old, fresh));
    return error_of([&] { read_program(ByteSource::memory(bytes), {}); });
  };
  EXPECT(has(error("\"major\": 8", "\"major\": 9"), "load: a file of schema 8 is expected, got 9"));
  EXPECT(has(error("aten.relu.default", "aten.system"), "torch.ops.aten.system is not known here [node 1"));
  EXPECT(has(error("torch.ops.aten.relu.default", "os.system"), "the operator os.system is not known here"));
  EXPECT(has(error("graph_module", "graph"), "load: the program is damaged: JSON: 'graph_module' is missing"));
  EXPECT(has(error(R"("name": "relu"}}])", R"("name": "x"}}])"), "the value 'x' is made twice"));
  EXPECT(
      has(error(R"({"as_tensor": {"name": "linear"}}, "kind": 1}])", R"({"as_tensor": {"name": "mul"}}, "kind": 1}])"),
          "a value that is defined before is expected, got 'mul'"));
  EXPECT(has(error("\"as_float\": 0.5", "\"as_string\": \"0.5\""), "has another value than a Operand for 'other'"));
  EXPECT(has(error("\"name\": \"alpha\"", "\"name\": \"beta\""), "there is no argument 'beta' here"));
  EXPECT(has(error("\"min_val\": 1", "\"min_val\": 65"), "has a range that is not empty"));
  EXPECT(has(error("Symbol('s77', p", "Function('s77', p"), "of an input cannot be read"));
  EXPECT(has(error("\"lin.bias\"", "\"other.bias\""), "there is no tensor for 'other.bias'"));
  const auto config = [](const std::string& old, const std::string& fresh) {
    const std::string bytes = mlp_archive(mlp_model(), replaced(mlp_config(), old, fresh));
    return error_of([&] { read_program(ByteSource::memory(bytes), {}); });
  };
  EXPECT(has(config("\"as_int\": 4", "\"as_int\": 5"), "load: lin.weight reaches beyond its 48 bytes"));
  EXPECT(has(config("\"as_int\": 4", "\"as_int\": 2"), "expected float32[4, 3] requires_grad, got float32[2, 3]"));
  EXPECT(has(config("\"as_int\": 4", "\"as_int\": -4"), "load: lin.weight has no valid sizes and strides"));
  EXPECT(has(config("\"use_pickle\": false", "\"use_pickle\": true"), "lin.weight is pickled, which is not read"));
  EXPECT(has(config("weight_1", "weight_9"), "the archive has no mlp/data/weights/weight_9"));
  EXPECT(has(config("\"dtype\": 7", "\"dtype\": 77"), "dtype 77 is not known"));
}

void test_what_a_file_says_besides() {
  const std::string bytes = mlp_archive();
  const ProgramFile file = read_program(ByteSource::memory(bytes), {}, true);
  EXPECT(file.in_spec == "[1]" && file.forward_names == std::vector<std::string>{"x"} && file.examples == "examples");
  EXPECT(!read_program(ByteSource::memory(bytes), {}).examples);
}

// ---- what the interpreter costs for an op, over the same calls in C++: printed by `test_program time`

template <class F>
double best_of(F&& f) {
  double best = 1e9;
  for (int repeat = 0; repeat < 2000; ++repeat) {
    const auto begin = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count());
  }
  return best;
}

/// A chain of `count` calls of an op, each on the result of the one before.
template <class Direct>
void time_chain(const char* op, const std::string& rest, Direct&& direct) {
  constexpr int kCount = 256;
  std::string text = "input user \"w\" %w: float32[4, 4]\ninput user \"x\" %x0: float32[1, 4]\n";
  for (int i = 0; i < kCount; ++i) {
    text += "%x" + std::to_string(i + 1) + ": float32[1, 4] = " + op + "(%x" + std::to_string(i) + rest + ")\n";
  }
  const auto program = std::make_shared<Program>(Program::parse(text + "return %x" + std::to_string(kCount) + "\n"));
  const LoadedProgram p(program);
  const Tensor x = full({1, 4}, 0.5, DType::Float32), w = full({4, 4}, 0.25, DType::Float32);
  const std::vector<Value> inputs = {w, x};
  const auto plain = [&] {
    Tensor y = x;
    for (int i = 0; i < kCount; ++i) y = direct(y, w);
  };
  double called = 1e9, interpreted = 1e9;
  for (int repeat = 0; repeat < 5; ++repeat) {  // in turn
    called = std::min(called, best_of(plain));
    interpreted = std::min(interpreted, best_of([&] { p.run(inputs); }));
  }
  std::printf("%-16s direct %6.1f ns, interpreted %6.1f ns, %5.1f ns more\n", op, called / kCount, interpreted / kCount,
              (interpreted - called) / kCount);
}
int time_interpreter() {
  time_chain("relu.default", "", [](const Tensor& y, const Tensor&) { return relu(y); });
  time_chain("add.default", ", 1.5, 1", [](const Tensor& y, const Tensor&) { return add(y, 1.5); });
  time_chain("mul.default", ", %x0", [](const Tensor& y, const Tensor&) { return mul(y, y); });
  time_chain("linear.default", ", %w, none", [](const Tensor& y, const Tensor& w) { return linear(y, w); });
  time_chain("softmax.default", ", 1, none", [](const Tensor& y, const Tensor&) { return softmax(y, 1); });
  return EXIT_SUCCESS;
}

// ---- joint programs

constexpr const char* kStep = R"(input parameter "w" %w: float32[4, 3] requires_grad
input buffer "steps" %steps: float32[]
input user "x" %x: float32[2, 3]
%add_: float32[] = add_.default(%steps, 1, 1)
%linear: float32[2, 4] = linear.default(%x, %w, none)
%tanh: float32[2, 4] = tanh.default(%linear)
%half: float32[2, 2] = slice.Tensor(%tanh, 1, 0, 2, 1)
%drop: float32[2, 2] = dropout.default(%half, 0.5, true)
%sum: float32[] = sum.default(%drop, none)
return %sum, %tanh
)";

void test_forward_and_backward_in_one_program() {
  Program step = Program::parse(kStep);
  const Tensor x = randn({2, 3}), w = randn({4, 3}), steps = zeros({});
  set_requires_grad(w, true);
  step.inputs[0].tensor = w;
  step.inputs[1].tensor = steps;
  const std::vector<Value> given{x};
  const Joint made = joint(step, given, {.loss = 0});
  EXPECT(steps.item().to_double() == 0 && made.results == 2 && made.gradient_of == std::vector<int>{0});
  EXPECT(made.program->roles.size() == 3 && made.program->roles[2].target == "w");
  const Program again = Program::parse(made.program->text());
  EXPECT(again.roles[0].kind == OutputRole::Kind::Loss && again.text() == made.program->text());

  default_generator(kCPU).seed(3);
  const std::vector<Tensor> results = LoadedProgram(made.program)(given);
  EXPECT(steps.item().to_double() == 1 && !results[2].requires_grad());
  default_generator(kCPU).seed(3);
  const Tensor loss = sum(dropout(slice(tanh(linear(x, w)), 1, 0, 2, 1), 0.5, true));
  const Tensor wanted = run_backward({gradient_edge(loss.impl())}, {ones_like(loss)}, {gradient_edge(w.impl())},
                                     {.accumulate = false})[0];
  EXPECT(equal(results[0], loss) && equal(results[2], wanted));

  EXPECT_ERROR("output 1 must be a scalar that requires a gradient, got float32[2, 4]",
               joint(step, given, {.loss = 1}));
  EXPECT_ERROR("2 outputs, got number 5", joint(step, given, {.loss = 5}));
  EXPECT_ERROR("expected 1 example inputs, got 2", joint(step, std::vector<Value>{x, x}, {.loss = 0}));
  const Joint both = joint(step, given, {});
  EXPECT(both.program->inputs.back().path == "tangents_1" && both.program->outputs.size() == 3);
}

void test_composites_open_up() {
  const Program program = Program::parse(R"(input user "x" %x: float32[2, 3]
%norm: float32[2, 3] = layer_norm.default(%x, [3], none, none, 1e-05, true)
return %norm
)");
  const std::shared_ptr<Program> made = decompose(program, {});
  EXPECT(made->nodes.size() == 1 && made->nodes[0].op->key() == "_row_norm.default");
  const Tensor x = randn({2, 3});
  EXPECT(equal(LoadedProgram(made)({x})[0], layer_norm(x, {3})));
}

}  // namespace

int main(int count, char** given) {
  facula::cpu::register_backend();
  if (count > 1 && std::string_view(given[1]) == "time") return time_interpreter();
  test_json_is_read();
  test_json_that_is_none();
  test_json_with_many_values();
  test_expressions_of_sympy();
  test_inflate();
  test_archives();
  test_a_program_runs();
  test_wrong_inputs_are_named();
  test_a_program_trains();
  test_tensors_outlive_their_file();
  test_files_that_are_refused();
  test_what_a_file_says_besides();
  test_forward_and_backward_in_one_program();
  test_composites_open_up();
  std::printf(failures ? "%d failures\n" : "ok\n", failures.load());
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
