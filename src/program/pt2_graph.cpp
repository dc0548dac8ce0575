#include "program/pt2_graph.h"

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

#include "program/run.h"
#include "program/srepr.h"

namespace facula::pt2 {
namespace {

constexpr size_t kMostNodes = 1'000'000;
constexpr int kDeepest = 16;  // graphs in graphs

using Kind = Value::Kind;

// PyTorch's numbers of things.
constexpr std::pair<int64_t, DType> kDTypeNumbers[] = {
    {1, DType::UInt8},           {2, DType::Int8},
    {3, DType::Int16},           {4, DType::Int32},
    {5, DType::Int64},           {6, DType::Float16},
    {7, DType::Float32},         {8, DType::Float64},
    {9, DType::Complex32},       {10, DType::Complex64},
    {11, DType::Complex128},     {12, DType::Bool},
    {13, DType::BFloat16},       {28, DType::UInt16},
    {29, DType::Float8E4M3FN},   {30, DType::Float8E5M2},
    {31, DType::Float8E4M3FNUZ}, {32, DType::Float8E5M2FNUZ},
    {34, DType::UInt32},         {35, DType::UInt64},
};
constexpr std::pair<int64_t, MemoryFormat> kFormatNumbers[] = {
    {1, MemoryFormat::Contiguous},
    {2, MemoryFormat::ChannelsLast},
    {3, MemoryFormat::ChannelsLast3d},
    {4, MemoryFormat::Preserve},
};
constexpr int64_t kStrided = 7;

template <class T, size_t N>
T by_number(const std::pair<int64_t, T> (&table)[N], const Json& number, const char* what) {
  for (const auto& [own, meant] : table) {
    if (own == number.to_int()) return meant;
  }
  refuse(what, " ", number.to_int(), " is not known");
}

// What graphs say of numbers, and has no name of aten.
constexpr std::pair<std::string_view, const char*> kNumberOps[] = {
    {"_operator.add", "int_add"},         {"_operator.sub", "int_sub"},
    {"_operator.mul", "int_mul"},         {"_operator.floordiv", "int_floordiv"},
    {"_operator.mod", "int_mod"},         {"_operator.neg", "int_neg"},
    {"_operator.truediv", "int_truediv"}, {"_operator.eq", "int_eq"},
    {"_operator.ne", "int_ne"},           {"_operator.lt", "int_lt"},
    {"_operator.le", "int_le"},           {"_operator.gt", "int_gt"},
    {"_operator.ge", "int_ge"},           {"_operator.and_", "bool_and"},
    {"_operator.or_", "bool_or"},         {"torch.sym_max", "int_max"},
    {"torch.sym_min", "int_min"},         {"torch.sym_float", "int_float"},
    {"torch.sym_not", "bool_not"},
};
// Checks of what holds anyway, or is checked here when inputs come.
constexpr std::string_view kIgnored[] = {"_assert_tensor_metadata", "_assert_scalar", "_assert_async",
                                         "sym_constrain_range", "sym_constrain_range_for_size"};

constexpr std::string_view kAten = "torch.ops.aten.", kHigherOrder = "torch.ops.higher_order.";
constexpr std::string_view kControl[] = {"cond", "while_loop", "map_impl", "scan"};

/// "torch.ops.space.name.overload" among the operators that libraries brought.
const BoxedOp* find_registered(std::string_view target) {
  constexpr std::string_view kOps = "torch.ops.";
  if (!target.starts_with(kOps) || target.starts_with(kAten) || target.starts_with(kHigherOrder)) return nullptr;
  std::string name(target.substr(kOps.size()));
  const size_t dot = name.find('.');
  if (dot == std::string::npos) return nullptr;
  name.replace(dot, 1, "::");
  const BoxedOp* op = find_boxed(name);
  if (!op)
    refuse("the operator ", text_of(name, 100), " is not registered: the library that has it must be loaded before ",
           "(torch.ops.load_library, facula-run --library)");
  return op;
}

/// The op of a target; null for one that is left out.
const BoxedOp* find_target(std::string_view target) {
  const BoxedOp* op = nullptr;
  if (target.starts_with(kAten)) {
    const std::string_view name = target.substr(kAten.size());
    if (name == "_assert_async.msg") return find_boxed(name);
    if (std::find(std::begin(kIgnored), std::end(kIgnored), name.substr(0, name.find('.'))) != std::end(kIgnored))
      return nullptr;
    op = find_aten(name);
  }
  for (std::string_view name : kControl) {
    if (target == std::string(kHigherOrder) + std::string(name)) op = find_boxed(std::string(name) + ".default");
  }
  for (const auto& [own, key] : kNumberOps) {
    if (target == own) op = find_boxed(std::string(key) + ".default");
  }
  if (!op) op = find_registered(target);
  if (!op) refuse("the operator ", text_of(target, 100), " is not known here");
  return op;
}

/// The line of a program that a node stands for: the last of its stack.
std::string source_of(const Json& node) {
  const Json* metadata = node.find("metadata");
  const Json* trace = metadata && !metadata->is_null() ? metadata->find("stack_trace") : nullptr;
  if (!trace || trace->kind() != Json::Kind::String) return "";
  constexpr std::string_view kFile = "File \"", kLine = "\", line ";
  const std::string_view text = trace->to_string();
  const size_t file = text.rfind(kFile);
  if (file == std::string_view::npos) return "";
  const size_t line = text.find(kLine, file);
  if (line == std::string_view::npos) return "";
  const std::string_view path = text.substr(file + kFile.size(), line - file - kFile.size());
  const std::string_view rest = text.substr(line + kLine.size());
  const std::string_view number = rest.substr(0, rest.find_first_not_of("0123456789"));
  const bool plain = std::all_of(path.begin(), path.end(), [](char c) { return static_cast<uint8_t>(c) >= ' '; });
  return plain && !number.empty() ? std::string(path) + ":" + std::string(number) : "";
}

/// Constants of one kind are one value.
Arg list_of(std::vector<Arg> items) {
  const auto all = [&](Kind kind) {
    return std::all_of(items.begin(), items.end(), [&](const Arg& item) {
      return item.kind == Arg::Kind::Constant && item.constant.kind() == kind;
    });
  };
  if (all(Kind::Int)) {
    std::vector<int64_t> ints;
    for (const Arg& item : items) ints.push_back(item.constant.to_int());
    return Value(std::move(ints));
  }
  return Arg::list(std::move(items));
}

template <class T, class Read>
Value values_of(const Json& list, Read&& read) {
  std::vector<T> values;
  for (const Json& item : list.items()) values.push_back(read(item));
  return values;
}

/// JSON has no infinities; files have their names.
double float_of(const Json& number) {
  if (number.kind() != Json::Kind::String) return number.to_float();
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const std::string_view name = number.to_string();
  if (name == "Infinity") return kInfinity;
  if (name == "-Infinity") return -kInfinity;
  if (name != "NaN") refuse("a number is expected, got '", text_of(name), "'");
  return std::numeric_limits<double>::quiet_NaN();
}

Device device_of(const Json& device) {
  std::string text(device.at("type").to_string());
  const Json* index = device.find("index");
  if (index && !index->is_null()) text += ":" + std::to_string(index->to_int());
  return parse_device(text);
}

/// Makes the program of a graph.
class GraphReader {
 public:
  GraphReader(const Json& graph, Program& program, int depth = 0)
      : graph_(graph), metas_(&graph.at("tensor_values")), program_(program), depth_(depth) {}

  void run(const Json& model) {
    const Json& signature = model.at("graph_module").at("signature");
    ranges_ = model.find("range_constraints");
    for (const Json& spec : signature.at("input_specs").items()) input(spec.only());
    nodes(graph_);
    for (const Json& spec : signature.at("output_specs").items()) output(spec.only());
    for (Symbol& symbol : program_.symbols) set_range(symbol);
  }
  /// A graph that a node calls: all that it needs are inputs.
  void run_inner() {
    for (const Json& spec : graph_.at("inputs").items()) user_input(spec.only());
    nodes(graph_);
    for (const Json& spec : graph_.at("outputs").items()) program_.outputs.push_back(argument(spec.only()));
  }

 private:
  void nodes(const Json& graph) {
    const auto all = graph.at("nodes").items();
    if (all.size() > kMostNodes) refuse("a program has at most ", kMostNodes, " nodes, got ", all.size());
    for (size_t i = 0; i < all.size(); ++i) node_at(i, all[i]);
  }

  // ---- names. Those of values are words, whatever the file calls them.

  int define(std::string_view name, Kind kind, TensorMeta meta = {}) {
    const int value = add(std::string(name), kind, std::move(meta));
    if (!values_.emplace(name, value).second) refuse("the value '", text_of(name), "' is made twice");
    return value;
  }
  /// A value that the file does not name.
  int add(std::string plain, Kind kind, TensorMeta meta = {}) {
    for (char& c : plain) {
      const bool fits = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
      if (!fits) c = '_';
    }
    if (plain.empty()) plain = "_";
    while (program_.find_value(plain) >= 0) plain = numbered(plain);
    return program_.add_named(plain, kind, std::move(meta));
  }
  std::string numbered(const std::string& name) { return name + "_" + std::to_string(++taken_[name]); }

  int find(const Json& name) const {
    const auto found = values_.find(name.to_string());
    if (found == values_.end())
      refuse("a value that is defined before is expected, got '", text_of(name.to_string()), "'");
    return found->second;
  }
  Arg named(const Json& holder, const char* key = "name") const { return Arg::of(find(holder.at(key))); }

  // ---- sizes

  const std::optional<Expr>& expression(std::string_view text) {
    const auto [at, fresh] = expressions_.try_emplace(text);
    if (fresh) at->second = parse_srepr(text);
    return at->second;
  }
  static int64_t hint_of(const Json& expression) {
    const Json* hint = expression.find("hint");
    const Json* number = hint && hint->kind() == Json::Kind::Object ? hint->find("as_int") : nullptr;
    return number && number->kind() == Json::Kind::Int ? number->to_int() : 1;
  }
  Symbol* find_symbol(const std::string& name) {
    const auto found = symbols_.find(name);
    return found == symbols_.end() ? nullptr : &program_.symbols[found->second];
  }
  void add_symbols(const Expr& size, int64_t hint) {
    size.each_symbol([&](const std::string& name) {
      const auto [at, fresh] = symbols_.emplace(name, program_.symbols.size());
      if (fresh) program_.symbols.push_back({name, 0, std::nullopt, 1});
      if (size.op() == Expr::Op::Symbol) program_.symbols[at->second].sample = hint;
    });
  }
  /// `binds`: of an input, whose sizes say what symbols are.
  Expr size(const Json& size, bool binds) {
    if (const Json* whole = size.find("as_int")) return whole->to_int();
    const Json& expr = size.at("as_expr");
    const std::string_view text = expr.at("expr_str").to_string();
    const std::optional<Expr>& read = expression(text);
    const int64_t hint = hint_of(expr);
    if (binds && depth_ > 0 && !(read && read->op() == Expr::Op::Symbol)) return free_size(hint);
    if (binds) {
      if (!read) refuse("the size '", text_of(text, 100), "' of an input cannot be read");
      add_symbols(*read, hint);
      return *read;
    }
    bool known = read.has_value();
    if (read) read->each_symbol([&](const std::string& name) { known = known && find_symbol(name); });
    return known ? *read : Expr(hint);
  }
  /// A size that is computed outside of the graph: to the graph, one of its own.
  Expr free_size(int64_t hint) {
    const Expr size = Expr::parse("free" + std::to_string(program_.symbols.size()));
    add_symbols(size, hint);
    return size;
  }
  TensorMeta meta(std::string_view name, bool binds = false) {
    const Json* found = metas_->find(name);
    if (!found) refuse("nothing is said of the tensor '", text_of(name), "'");
    TensorMeta made;
    made.dtype = dtype_of(found->at("dtype"));
    const auto sizes = found->at("sizes").items();
    if (sizes.size() > kMostDims) refuse("tensors have at most ", kMostDims, " dimensions, got ", sizes.size());
    for (const Json& one : sizes) made.sizes.push_back(size(one, binds));
    const Json* wants = found->find("requires_grad");
    made.requires_grad = wants && wants->to_bool();
    return made;
  }
  int define_tensor(const Json& tensor, bool binds = false) {
    const std::string_view name = tensor.at("name").to_string();
    return define(name, Kind::Tensor, meta(name, binds));
  }
  void set_range(Symbol& symbol) const {
    const Json* limits = ranges_ && !ranges_->is_null() ? ranges_->find(symbol.name) : nullptr;
    const auto bound = [&](const char* key) -> std::optional<int64_t> {
      const Json* number = limits && !limits->is_null() ? limits->find(key) : nullptr;
      if (!number || number->is_null()) return std::nullopt;
      return number->to_int();
    };
    symbol.least = bound("min_val").value_or(0);
    symbol.most = bound("max_val");
    if (symbol.least == 2) symbol.least = 0;  // what PyTorch says of sizes of which it has not looked at 0 and 1
    if (symbol.most && *symbol.most >= int64_t{1} << 62) symbol.most.reset();
  }

  // ---- inputs

  void input(const Json::Member& spec) {
    constexpr struct {
      std::string_view kind;
      const char* path;
      ProgramInput::Kind meant;
    } kHeld[] = {{"parameter", "parameter_name", ProgramInput::Kind::Parameter},
                 {"buffer", "buffer_name", ProgramInput::Kind::Buffer},
                 {"tensor_constant", "tensor_constant_name", ProgramInput::Kind::Constant}};
    if (spec.key() == "user_input") return user_input(spec.value.at("arg").only());
    if (spec.key() == "constant_input")
      return constant_input(std::string(spec.value.at("name").to_string()), spec.value.at("value").only());
    for (const auto& held : kHeld) {
      if (spec.key() != held.kind) continue;
      ProgramInput made;
      made.kind = held.meant;
      made.path = spec.value.at(held.path).to_string();
      made.value = define_tensor(spec.value.at("arg"));
      const Json* persistent = spec.value.find("persistent");
      made.persistent = !persistent || persistent->to_bool();
      if (!held_.emplace(made.path, made.value).second) refuse("the input '", text_of(made.path), "' is there twice");
      program_.inputs.push_back(std::move(made));
      return;
    }
    refuse("inputs are tensors, parameters, buffers and constants, got ", text_of(spec.key()));
  }
  void user_input(const Json::Member& arg) {
    ProgramInput made;
    if (arg.key() == "as_tensor") {
      made.path = arg.value.at("name").to_string();
      made.value = define_tensor(arg.value, true);
    } else if (arg.key() == "as_sym_int") {
      const std::string_view name = arg.value.at("as_name").to_string();
      made.path = name;
      made.value = define(name, Kind::Int);
    } else {
      return constant_input("constant_" + std::to_string(values_.size()), arg);
    }
    program_.inputs.push_back(std::move(made));
  }
  void constant_input(std::string name, const Json::Member& arg) {
    ProgramInput made;
    made.constant = argument(arg).constant;
    const Kind kind = made.constant.kind();
    const bool plain = kind == Kind::Int || kind == Kind::Float || kind == Kind::Bool || kind == Kind::String;
    if (!plain && arg.key() != "as_none")
      refuse("a constant input is a number, a str or None, got ", text_of(arg.key()));
    made.value = add(name, kind);
    made.path = std::move(name);
    program_.inputs.push_back(std::move(made));
  }

  // ---- nodes

  void node_at(size_t i, const Json& json) {
    const Json* target = json.find("target");
    const bool named = target && target->kind() == Json::Kind::String;
    if (!named) refuse("node ", i, " has no target");
    try {
      node(json, target->to_string());
    } catch (const Error& error) {
      std::string_view what = error.what();
      if (what.starts_with("load: ")) what.remove_prefix(6);
      refuse(what, " [node ", i, ", ", text_of(target->to_string(), 100), "]");
    }
  }
  void node(const Json& json, std::string_view target) {
    if (target.starts_with(kHigherOrder) && target.substr(kHigherOrder.size()) == "wrap_with_set_grad_enabled")
      return region(json);
    ProgramNode made;
    made.op = find_target(target);
    if (!made.op) return;
    made.arguments = arguments(*made.op, json.at("inputs"));
    for (const Json& output : json.at("outputs").items()) made.results.push_back(result(output.only()));
    if (target.starts_with(kHigherOrder)) made.results = {joined(made.results)};
    if (made.op->name == "_assert_async") made.results = {{add("assertion", Kind::Bool)}};
    made.source = source_of(json);
    made.no_grad = no_grad_;
    program_.nodes.push_back(std::move(made));
  }

  static std::vector<int> joined(const std::vector<std::vector<int>>& parts) {
    std::vector<int> all;
    for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
  }

  Arg graph(const Json& json) {
    if (depth_ >= kDeepest) refuse("graphs are nested at most ", kDeepest, " deep");
    auto inner = std::make_shared<Program>();
    GraphReader(json.at("graph"), *inner, depth_ + 1).run_inner();
    return Value(std::make_shared<const Runner>(std::move(inner)));
  }

  /// A graph that runs with gradients on or off becomes nodes of this one that say so.
  void region(const Json& json) {
    const auto inputs = json.at("inputs").items();
    const auto given = [&](size_t i) -> const Json::Member& { return inputs[i].at("arg").only(); };
    if (inputs.size() < 2 || given(1).key() != "as_graph") refuse("a region has a bool and a graph");
    if (depth_ >= kDeepest) refuse("graphs are nested at most ", kDeepest, " deep");
    const Json& inner = given(1).value.at("graph");
    const auto places = inner.at("inputs").items();
    if (places.size() != inputs.size() - 2)
      refuse("a region takes ", places.size(), " values, and is given ", inputs.size() - 2);
    std::unordered_map<std::string_view, int> inside;
    for (size_t i = 0; i < places.size(); ++i) {
      const Json::Member& place = places[i].only();
      const Arg value = argument(given(i + 2));
      if (value.kind != Arg::Kind::Ref) continue;  // a constant, which the graph knows
      inside.emplace(place.value.at(place.key() == "as_tensor" ? "name" : "as_name").to_string(), value.ref);
    }
    const bool no_grad = std::exchange(no_grad_, !given(0).value.to_bool());
    const Json* metas = std::exchange(metas_, &inner.at("tensor_values"));
    std::swap(values_, inside);
    ++depth_;
    nodes(inner);
    std::vector<Arg> results;
    for (const Json& output : inner.at("outputs").items()) results.push_back(argument(output.only()));
    --depth_;
    std::swap(values_, inside);
    metas_ = metas;
    no_grad_ = no_grad;
    const auto outputs = json.at("outputs").items();
    if (outputs.size() != results.size()) refuse("a region gives ", results.size(), " values, not ", outputs.size());
    for (size_t i = 0; i < results.size(); ++i) {
      const std::string_view name = outputs[i].only().value.at("name").to_string();
      if (results[i].kind != Arg::Kind::Ref || !values_.emplace(name, results[i].ref).second)
        refuse("the value '", text_of(name), "' is made twice");
    }
  }

  std::vector<Arg> arguments(const BoxedOp& op, const Json& inputs) {
    std::vector<std::optional<Arg>> given(op.arguments.size());
    size_t next = 0;  // of those by position
    for (const Json& entry : inputs.items()) {
      const std::string_view name = entry.at("name").to_string();
      const Json::Member& arg = entry.at("arg").only();
      const Json* kind = entry.find("kind");
      const bool keyword = kind && kind->kind() == Json::Kind::Int && kind->to_int() == 2;
      size_t place = keyword ? place_of(op, name) : next_place(op, next);
      if (place >= given.size()) place = place_of(op, name);
      if (place < given.size()) given[place] = argument(arg);
      else if (!harmless(name, arg)) refuse("there is no argument '", text_of(name), "' here");
    }
    std::vector<Arg> all;
    for (size_t i = 0; i < given.size(); ++i) {
      const BoxedArgument& wanted = op.arguments[i];
      if (!given[i] && wanted.required && !wanted.type.optional) refuse("it needs the argument '", wanted.name, "'");
      all.push_back(given[i] ? std::move(*given[i]) : wanted.required ? Arg(Value()) : Arg(wanted.default_value));
    }
    return all;
  }
  static size_t place_of(const BoxedOp& op, std::string_view name) {
    const auto has_name = [&](const BoxedArgument& a) { return a.name == name; };
    const auto found = std::find_if(op.arguments.begin(), op.arguments.end(), has_name);
    if (found == op.arguments.end() && name == "self") return 0;
    return static_cast<size_t>(found - op.arguments.begin());
  }
  static size_t next_place(const BoxedOp& op, size_t& next) {
    while (next < op.arguments.size() && op.arguments[next].keyword_only) ++next;
    return next < op.arguments.size() ? next++ : next;
  }
  /// An argument that says nothing that is not so anyway.
  static bool harmless(std::string_view name, const Json::Member& arg) {
    const bool no = arg.value.kind() == Json::Kind::Bool && !arg.value.to_bool();
    return no || arg.key() == "as_none" || arg.key() == "as_layout" || name == "pin_memory" || name == "non_blocking";
  }

  std::vector<int> result(const Json::Member& output) {
    if (output.key() == "as_tensor") return {define_tensor(output.value)};
    if (output.key() == "as_tensors") {
      std::vector<int> all;
      for (const Json& one : output.value.items()) all.push_back(define_tensor(one));
      return all;
    }
    if (output.key() == "as_none") return {add("unused", Kind::Tensor)};  // a gradient that nobody wants
    for (const auto& [own, kind] :
         {std::pair{"as_sym_int", Kind::Int}, {"as_sym_float", Kind::Float}, {"as_sym_bool", Kind::Bool}}) {
      if (output.key() == own) return {define(output.value.at("as_name").to_string(), kind)};
    }
    refuse("a result is a tensor or a number, got ", text_of(output.key()));
  }

  // ---- arguments, by what the file calls their kinds

  Arg argument(const Json::Member& arg) {
    using Reader = Arg (*)(GraphReader&, const Json&);
    static const std::map<std::string_view, Reader> kReaders = {
        {"as_tensor", [](GraphReader& r, const Json& v) { return r.named(v); }},
        {"as_tensors", [](GraphReader& r, const Json& v) { return r.list(v, &GraphReader::item); }},
        {"as_optional_tensor", [](GraphReader& r, const Json& v) { return r.item(v); }},
        {"as_optional_tensors", [](GraphReader& r, const Json& v) { return r.list(v, &GraphReader::item); }},
        {"as_sym_int", [](GraphReader& r, const Json& v) { return r.number(v); }},
        {"as_sym_float", [](GraphReader& r, const Json& v) { return r.number(v); }},
        {"as_sym_bool", [](GraphReader& r, const Json& v) { return r.number(v); }},
        {"as_sym_ints", [](GraphReader& r, const Json& v) { return r.list(v, &GraphReader::number); }},
        {"as_sym_floats", [](GraphReader& r, const Json& v) { return r.list(v, &GraphReader::number); }},
        {"as_sym_bools", [](GraphReader& r, const Json& v) { return r.list(v, &GraphReader::number); }},
        {"as_graph", [](GraphReader& r, const Json& v) { return r.graph(v); }},
        {"as_none", [](GraphReader&, const Json&) { return Arg(); }},
        {"as_int", [](GraphReader&, const Json& v) { return Arg(Value(v.to_int())); }},
        {"as_float", [](GraphReader&, const Json& v) { return Arg(Value(float_of(v))); }},
        {"as_bool", [](GraphReader&, const Json& v) { return Arg(Value(v.to_bool())); }},
        {"as_string", [](GraphReader&, const Json& v) { return Arg(Value(v.to_string())); }},
        {"as_complex",
         [](GraphReader&, const Json& v) {
           return Arg(Value(std::complex<double>(float_of(v.at("real")), float_of(v.at("imag")))));
         }},
        {"as_ints", [](GraphReader&,
                       const Json& v) { return Arg(values_of<int64_t>(v, [](const Json& i) { return i.to_int(); })); }},
        {"as_floats", [](GraphReader&, const Json& v) { return Arg(values_of<double>(v, float_of)); }},
        {"as_bools", [](GraphReader&,
                        const Json& v) { return Arg(values_of<bool>(v, [](const Json& i) { return i.to_bool(); })); }},
        {"as_scalar_type", [](GraphReader&, const Json& v) { return Arg(Value(dtype_of(v))); }},
        {"as_device", [](GraphReader&, const Json& v) { return Arg(Value(device_of(v))); }},
        {"as_memory_format",
         [](GraphReader&, const Json& v) { return Arg(Value(by_number(kFormatNumbers, v, "memory format"))); }},
        {"as_layout",
         [](GraphReader&, const Json& v) {
           if (v.to_int() != kStrided) refuse("layout ", v.to_int(), " is not known");
           return Arg(Value(Layout::Strided));
         }},
    };
    const auto found = kReaders.find(arg.key());
    if (found == kReaders.end()) refuse("an argument ", text_of(arg.key()), " is not known");
    return found->second(*this, arg.value);
  }
  Arg list(const Json& json, Arg (GraphReader::*read)(const Json&)) {
    std::vector<Arg> items;
    for (const Json& one : json.items()) items.push_back((this->*read)(one));
    return list_of(std::move(items));
  }
  Arg item(const Json& json) {
    if (json.find("as_none")) return Arg();
    const Json* tensor = json.find("as_tensor");
    return named(tensor ? *tensor : json);
  }
  /// A number that is a value, or one as it stands.
  Arg number(const Json& json) {
    if (json.find("as_name")) return named(json, "as_name");
    return argument(json.only());
  }

  // ---- outputs. A functional graph says what buffers and inputs are from then on: they are written.

  void output(const Json::Member& spec) {
    if (spec.key() == "user_output") return program_.outputs.push_back(argument(spec.value.at("arg").only()));
    constexpr std::pair<std::string_view, const char*> kWritten[] = {{"buffer_mutation", "buffer_name"},
                                                                     {"parameter_mutation", "parameter_name"},
                                                                     {"user_input_mutation", "user_input_name"}};
    for (const auto& [kind, key] : kWritten) {
      if (spec.key() == kind) return write_back(spec.value.at(key), spec.value.at("arg"));
    }
    using Role = OutputRole::Kind;
    if (spec.key() == "loss_output") return with_role(spec.value, Role::Loss, nullptr);
    if (spec.key() == "gradient_to_parameter") return with_role(spec.value, Role::ParameterGradient, "parameter_name");
    if (spec.key() == "gradient_to_user_input") return with_role(spec.value, Role::InputGradient, "user_input_name");
    refuse("outputs are results, gradients and mutations, got ", text_of(spec.key()));
  }
  void with_role(const Json& spec, OutputRole::Kind kind, const char* target) {
    program_.roles.resize(program_.outputs.size());
    program_.roles.push_back({kind, target ? std::string(spec.at(target).to_string()) : std::string()});
    program_.outputs.push_back(named(spec.at("arg")));
  }
  void write_back(const Json& place, const Json& made) {
    const auto held = held_.find(place.to_string());
    const int target = held == held_.end() ? find(place) : held->second;
    const ProgramValue& value = program_.values[static_cast<size_t>(target)];
    const TensorMeta meta = value.meta;
    ProgramNode node;
    node.op = find_boxed("copy_.default");
    node.arguments = {Arg::of(target), named(made), Arg(Value(false))};
    node.results = {{add(value.name + "__written", Kind::Tensor, meta)}};
    program_.nodes.push_back(std::move(node));
  }

  const Json& graph_;
  const Json* metas_;  // of the graph whose nodes are read
  const Json* ranges_ = nullptr;
  Program& program_;
  int depth_;                                         // of graphs around it
  bool no_grad_ = false;                              // within a region
  std::unordered_map<std::string_view, int> values_;  // by the names of the file
  std::unordered_map<std::string, int> taken_;        // how often a word was numbered
  std::map<std::string, int, std::less<>> held_;      // values of parameters, buffers and constants by path
  std::unordered_map<std::string, size_t> symbols_;
  std::unordered_map<std::string_view, std::optional<Expr>> expressions_;
};

}  // namespace

DType dtype_of(const Json& number) { return by_number(kDTypeNumbers, number, "dtype"); }

void read_graph(const Json& model, Program& program) {
  GraphReader(model.at("graph_module").at("graph"), program).run(model);
}

}  // namespace facula::pt2
