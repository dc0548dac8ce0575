#include "program/boxed.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <unordered_map>

#include "ops/semantics.h"
#include "program/custom.h"
#include "program/effects.h"

namespace facula {
namespace {

using Base = BoxedType::Base;

constexpr std::pair<const char*, Base> kBases[] = {
    {"Tensor", Base::Tensor},
    {"Operand", Base::Operand},
    {"Scalar", Base::Scalar},
    {"int", Base::Int},
    {"float", Base::Float},
    {"bool", Base::Bool},
    {"str", Base::String},
    {"dtype", Base::DType},
    {"device", Base::Device},
    {"layout", Base::Layout},
    {"memory_format", Base::MemoryFormat},
    {"Generator", Base::Generator},
    {"Graph", Base::Graph},
};

std::vector<std::string_view> split(std::string_view text, char between) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const char c = i < text.size() ? text[i] : between;
    depth += (c == '[' || c == '(') - (c == ']' || c == ')');
    if (c != between || (depth > 0 && i < text.size())) continue;
    std::string_view part = text.substr(begin, i - begin);
    while (part.starts_with(' ')) part.remove_prefix(1);
    if (!part.empty()) parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

// Defaults as the schema writes them.

double number(std::string_view text) {
  if (text == "inf") return INFINITY;
  if (text == "-inf") return -INFINITY;
  if (text == "nan") return NAN;
  return std::stod(std::string(text));
}

Value list_default(const BoxedType& type, std::string_view text) {
  const bool bare = !text.starts_with('[');
  if (!bare) text = text.substr(1, text.size() - 2);
  std::vector<std::string_view> parts = split(text, ',');
  if (bare) parts.resize(static_cast<size_t>(std::max<int>(type.list_size, 1)), parts[0]);
  if (type.base == Base::Float) {
    std::vector<double> values;
    for (std::string_view part : parts) values.push_back(number(part));
    return values;
  }
  std::vector<int64_t> values;
  for (std::string_view part : parts) values.push_back(std::stoll(std::string(part)));
  return values;
}

Value read_default(const BoxedType& type, std::string_view text) {
  if (text == "None") return {};
  if (type.list) return type.is_tensor() ? Value(std::vector<Tensor>{}) : list_default(type, text);
  if (text == "True" || text == "False") return text == "True";
  switch (type.base) {
    case Base::String: return std::string(text.substr(1, text.size() - 2));
    case Base::MemoryFormat: return text.starts_with("contiguous") ? MemoryFormat::Contiguous : MemoryFormat::Preserve;
    case Base::Int: return static_cast<int64_t>(std::stoll(std::string(text)));
    case Base::Float: return number(text);
    default:
      if (text.find_first_not_of("-0123456789") == std::string_view::npos)
        return static_cast<int64_t>(std::stoll(std::string(text)));
      return number(text);
  }
}

void read_arguments(BoxedOp& op, std::string_view text) {
  bool keywords = false;
  for (std::string_view part : split(text, ',')) {
    if (part == "*") {
      keywords = true;
      continue;
    }
    BoxedArgument argument;
    const size_t space = part.find(' '), equals = part.find('=', space);
    argument.type = BoxedType::parse(part.substr(0, space));
    argument.name = part.substr(space + 1, equals == std::string_view::npos ? equals : equals - space - 1);
    argument.keyword_only = keywords;
    argument.required = equals == std::string_view::npos;
    if (!argument.required) argument.default_value = read_default(argument.type, part.substr(equals + 1));
    op.arguments.push_back(std::move(argument));
  }
}

void read_results(BoxedOp& op, std::string_view text) {
  for (std::string_view part : split(text, ',')) {
    const size_t space = part.find(' ');
    op.results.push_back(BoxedType::parse(part.substr(0, space)));
    if (space != std::string_view::npos) op.result_names.emplace_back(part.substr(space + 1));
  }
}

void put_outs_first(BoxedOp& op) {
  std::vector<BoxedArgument> all;
  for (size_t i = 0; i < op.results.size(); ++i) {
    BoxedArgument out;
    out.name = op.results.size() == 1 ? "out" : "out" + std::to_string(i);
    out.keyword_only = out.written = true;
    all.push_back(std::move(out));
  }
  for (BoxedArgument& a : op.arguments) all.push_back(std::move(a));
  op.arguments = std::move(all);
}

void mark_written(BoxedOp& op, std::string_view names) {
  for (size_t i = 0; i < op.arguments.size(); ++i) {
    BoxedArgument& a = op.arguments[i];
    for (std::string_view name : split(names, ' ')) a.written = a.written || a.name == name;
    if (a.name == "inplace") op.inplace = static_cast<int>(i);
  }
}

struct Entry {
  const BoxedRow* row = nullptr;
  const BuiltinRow* builtin = nullptr;
  const BoxedText* text = nullptr;
};

// The name of a form of an op, without its overload.
std::string form_name(std::string_view name, OpForm form) {
  const bool marked = name.ends_with('_') && !name.ends_with("__");
  return std::string(name) + (form == OpForm::InPlace && !marked ? "_" : "");
}

// "softmax.int", "pow.Tensor_Tensor" of "TT:pow.Tensor_Tensor": the bare names that a row's text lists.
template <class F>
void each_aten(const BoxedText& text, const OpInfo& info, OpForm form, F&& see) {
  std::string_view listed = text.aten;
  if (listed == "-") return;
  const std::string own = std::string(info.name) + "." + (*info.overload ? info.overload : "default");
  if (listed.empty()) listed = own;
  for (std::string_view one : split(listed, ' ')) {
    const size_t colon = one.find(':');
    const std::string_view pattern = colon == std::string_view::npos ? "" : one.substr(0, colon);
    std::string_view name = colon == std::string_view::npos ? one : one.substr(colon + 1);
    const size_t dot = name.find('.');
    if (form == OpForm::Function) {
      see(pattern, std::string(name));
    } else if (form == OpForm::InPlace) {
      see(pattern, form_name(name.substr(0, dot), form) + std::string(name.substr(dot)));
    } else {
      const std::string_view overload = name.substr(dot + 1);
      const bool plain = overload == "default" || (overload == "Tensor" && std::string_view(info.overload).empty());
      see(pattern, std::string(name.substr(0, dot)) + "." + (plain ? "out" : std::string(overload) + "_out"));
    }
  }
}

class Table {
 public:
  Table() {
    std::unordered_map<uint16_t, const BoxedText*> texts;
    for (const BoxedText& text : boxed_texts()) texts[text.id] = &text;
    for (const auto& part : boxed_rows()) {
      for (const BoxedRow& row : part) add({&row, nullptr, texts.at(row.id)});
    }
    for (const auto rows :
         {builtin_rows(), core_ir_rows(), control_rows(), nn_rows(), backward_rows(), resample_rows()}) {
      for (const BuiltinRow& row : rows) add({nullptr, &row, nullptr});
    }
    read_ = std::make_unique<std::atomic<const BoxedOp*>[]>(entries_.size());
    for (const AtenAlias& alias : aten_aliases()) by_aten_.emplace(alias.name, by_aten_.at(alias.own));
  }

  const BoxedOp* find(uint16_t id, OpForm form) {
    const size_t place = place_of(id, form);
    return place < by_id_.size() && by_id_[place] >= 0 ? at(static_cast<size_t>(by_id_[place])) : nullptr;
  }
  const BoxedOp* find(std::string_view key) { return find_in(by_key_, key); }
  const BoxedOp* find_aten(std::string_view name) { return find_in(by_aten_, name); }
  std::vector<const BoxedOp*> all() {
    std::vector<const BoxedOp*> ops;
    for (size_t i = 0; i < entries_.size(); ++i) ops.push_back(at(i));
    return ops;
  }

 private:
  using Names = std::map<std::string, size_t, std::less<>>;

  void add(Entry entry) {
    const size_t at = entries_.size();
    if (entry.row) {
      const OpInfo& info = op_info(entry.row->id);
      const auto form = static_cast<OpForm>(entry.row->form);
      const size_t place = place_of(entry.row->id, form);
      if (place >= by_id_.size()) by_id_.resize(place + 1, -1);
      by_id_[place] = static_cast<int32_t>(at);
      by_key_.emplace(key_of(info.name, info.overload, form), at);
      each_aten(*entry.text, info, form, [&](std::string_view, std::string name) { by_aten_.emplace(name, at); });
    } else {
      by_key_.emplace(key_of(entry.builtin->name, entry.builtin->overload, OpForm::Function), at);
      for (std::string_view name : split(entry.builtin->aten, ' ')) by_aten_[std::string(name)] = at;
    }
    entries_.push_back(std::move(entry));
  }

  static std::string key_of(std::string_view name, std::string_view overload, OpForm form) {
    const std::string_view shown = overload.empty() ? "default" : overload;
    return form_name(name, form) + "." + std::string(shown) + (form == OpForm::Out ? ".out" : "");
  }

  const BoxedOp* find_in(const Names& names, std::string_view name) {
    const auto found = names.find(name);
    return found == names.end() ? nullptr : at(found->second);
  }

  static size_t place_of(uint16_t id, OpForm form) { return size_t{id} * 4 + static_cast<size_t>(form); }

  const BoxedOp* at(size_t i) {
    if (const BoxedOp* op = read_[i].load(std::memory_order_acquire)) return op;
    const std::lock_guard lock(mutex_);
    if (const BoxedOp* op = read_[i].load(std::memory_order_relaxed)) return op;
    const Entry& entry = entries_[i];
    const BoxedOp* op = new BoxedOp(entry.row ? read(entry) : read(*entry.builtin));
    read_[i].store(op, std::memory_order_release);
    return op;
  }

  static BoxedOp read(const Entry& entry) {
    const OpInfo& info = op_info(entry.row->id);
    BoxedOp op;
    op.form = static_cast<OpForm>(entry.row->form);
    op.name = form_name(info.name, op.form);
    op.overload = info.overload;
    op.id = entry.row->id;
    op.function = entry.row->function;
    op.draws = op_semantics(op.id).weight == OpWeight::Draw;
    op.may_alias = op.form != OpForm::Function || op_semantics(op.id).may_alias;
    read_arguments(op, info.arguments);
    read_results(op, entry.text->results);
    if (op.form == OpForm::InPlace) op.arguments.front().written = true;
    mark_written(op, entry.text->writes);
    op.unordered = std::string_view(entry.text->writes).ends_with('+');
    if (op.form == OpForm::Out) put_outs_first(op);
    op.fills = fills(op);
    each_aten(*entry.text, info, op.form, [&](std::string_view pattern, std::string name) {
      op.aten += (op.aten.empty() ? "" : " ") + (pattern.empty() ? "" : std::string(pattern) + ":") + name;
    });
    return op;
  }
  static BoxedOp read(const BuiltinRow& row) {
    BoxedOp op;
    op.name = row.name;
    op.overload = row.overload;
    op.function = row.function;
    op.aten = split(row.aten, ' ').empty() ? "" : std::string(split(row.aten, ' ')[0]);
    read_arguments(op, row.arguments);
    read_results(op, row.results);
    if (op.name.ends_with('_') && !op.name.starts_with("__")) op.arguments.front().written = true;
    op.draws = op.name.starts_with("_assert");  // these run for what they find
    for (const BoxedArgument& a : op.arguments) op.draws = op.draws || a.name == "generator" || a.name == "dropout";
    return op;
  }

  std::mutex mutex_;
  std::vector<Entry> entries_;
  std::unique_ptr<std::atomic<const BoxedOp*>[]> read_;  // of each entry: made when first requested
  std::vector<int32_t> by_id_;                           // entries by place_of()
  Names by_key_, by_aten_;
};

Table& table() {
  static Table* table = new Table;
  return *table;
}

}  // namespace

BoxedType BoxedType::parse(std::string_view text) {
  BoxedType type;
  if (text.ends_with('?')) {
    type.optional = true;
    text.remove_suffix(1);
  }
  if (text.ends_with(']')) {
    type.list = true;
    const size_t open = text.find('[');
    const std::string size(text.substr(open + 1, text.size() - open - 2));
    if (!size.empty()) type.list_size = static_cast<int8_t>(std::stoi(size));
    text = text.substr(0, open);
  }
  for (const auto& [word, base] : kBases) {
    if (text == word) {
      type.base = base;
      return type;
    }
  }
  throw_error(ErrorKind::Value, "boxed: expected a type of the schema, got '", text, "'");
}

std::string BoxedType::text() const {
  std::string word;
  for (const auto& [known, own] : kBases) {
    if (own == base) word = known;
  }
  if (list) word += "[" + (list_size ? std::to_string(list_size) : "") + "]";
  return word + (optional ? "?" : "");
}

bool BoxedType::accepts(const Value& v) const {
  using Kind = Value::Kind;
  const Kind kind = v.kind();
  if (kind == Kind::None) return optional;
  const bool is_int = kind == Kind::Int || kind == Kind::Symbolic;
  if (list) {
    const bool ints = kind == Kind::Ints || kind == Kind::Symbolics;
    switch (base) {
      case Base::Tensor: return kind == Kind::Tensors || (kind == Kind::Ints && v.ints().empty());
      case Base::Int: return ints || (kind == Kind::Tensors && v.tensors().empty());
      case Base::Float: return ints || kind == Kind::Floats;
      case Base::Bool: return kind == Kind::Bools;
      default: return false;
    }
  }
  switch (base) {
    case Base::Tensor: return kind == Kind::Tensor;
    case Base::Operand: return kind == Kind::Tensor || is_int || v.is_number();
    case Base::Scalar: return is_int || v.is_number();
    case Base::Int: return is_int;
    case Base::Float: return kind == Kind::Float || is_int;
    case Base::Bool: return kind == Kind::Bool;
    case Base::String: return kind == Kind::String;
    case Base::DType: return kind == Kind::DType;
    case Base::Device: return kind == Kind::Device;
    case Base::Layout: return kind == Kind::Layout;
    case Base::MemoryFormat: return kind == Kind::MemoryFormat;
    case Base::Graph: return kind == Kind::Graph;
    default: return kind == Kind::Generator;
  }
}

bool BoxedArgument::accepts(const Value& v) const {
  if (!type.accepts(v)) return false;
  const bool checked = v.kind() == Value::Kind::Tensors && !has_gaps();
  return !checked || std::all_of(v.tensors().begin(), v.tensors().end(), [](const Tensor& t) { return t.defined(); });
}

std::string BoxedOp::key() const {
  return name + "." + (overload.empty() ? "default" : overload) + (form == OpForm::Out ? ".out" : "");
}

std::string BoxedOp::signature() const {
  std::string text = key() + "(";
  bool keywords = false;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const BoxedArgument& a = arguments[i];
    if (i) text += ", ";
    if (a.keyword_only && !keywords) text += "*, ";
    keywords = keywords || a.keyword_only;
    text += a.type.text() + " " + a.name;
  }
  text += ") -> ";
  for (size_t i = 0; i < results.size(); ++i) text += (i ? ", " : "") + results[i].text();
  return text;
}

std::string BoxedOp::aten_name(std::span<const bool> is_tensor) const {
  std::string pattern;
  for (size_t i = outs(); i < arguments.size(); ++i) {
    if (arguments[i].type.base == Base::Operand) pattern += is_tensor[i] ? 'T' : 'S';
  }
  for (std::string_view one : split(aten, ' ')) {
    const size_t colon = one.find(':');
    if (colon == std::string_view::npos) return std::string(one);
    if (one.substr(0, colon) == pattern) return std::string(one.substr(colon + 1));
  }
  return "";
}

const BoxedOp* find_boxed(uint16_t id, OpForm form) { return table().find(id, form); }
const BoxedOp* find_boxed(std::string_view key) {
  if (key.find("::") == std::string_view::npos) return table().find(key);
  const CustomOp* custom = find_custom(key);
  return custom ? custom->row() : nullptr;
}
const BoxedOp* find_aten(std::string_view name) { return table().find_aten(name); }
std::vector<const BoxedOp*> all_boxed() { return table().all(); }

}  // namespace facula
