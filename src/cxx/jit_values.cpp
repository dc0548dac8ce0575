// The arguments and results of a loaded program: nested values, and the list of tensors and numbers that it takes.
#include <algorithm>

#include "cxx/jit_loaded.h"
#include "program/json.h"

namespace torch::jit::detail {

using facula::ErrorKind;
using facula::Json;
using facula::JsonDocument;
using facula::Value;

namespace {

constexpr std::string_view kDicts[] = {"builtins.dict", "collections.OrderedDict", "collections.defaultdict"};

IValue key_of(const Json& key) {
  if (key.kind() == Json::Kind::Int) return key.to_int();
  return std::string(key.to_string());
}

/// The keys that a context names; none where it names nothing of the kind.
std::vector<IValue> keys_of(const Json& context) {
  if (context.kind() != Json::Kind::String) return {};
  const JsonDocument document{std::string(context.to_string())};
  const Json* list = &document.root();
  if (list->kind() == Json::Kind::Object) {
    list = list->find("dict_context");
    if (!list) return {};
  }
  if (list->kind() != Json::Kind::Array) return {};
  std::vector<IValue> keys;
  for (const Json& key : list->items()) {
    if (key.kind() != Json::Kind::Int && key.kind() != Json::Kind::String) return {};
    keys.push_back(key_of(key));
  }
  return keys;
}

Spec read(const Json& json) {
  Spec spec;
  if (json.at("type").is_null()) return spec;
  const std::string_view type = json.at("type").to_string();
  for (const Json& child : json.at("children_spec").items()) spec.children.push_back(read(child));
  spec.kind = type == "builtins.list" ? Spec::Kind::List : Spec::Kind::Tuple;
  if (type == "builtins.list" || type == "builtins.tuple") return spec;
  spec.keys = keys_of(json.at("context"));
  const bool is_dict = std::find(std::begin(kDicts), std::end(kDicts), type) != std::end(kDicts);
  if (spec.keys.size() != spec.children.size()) {
    FACULA_CHECK(!is_dict, ErrorKind::Runtime, "jit.load: a dictionary has ", spec.keys.size(), " keys and ",
                 spec.children.size(), " values");
    spec.keys.clear();
  } else if (is_dict || !spec.keys.empty()) {
    spec.kind = Spec::Kind::Dict;
  }
  return spec;
}

Value leaf_of(const IValue& value, const std::string& path) {
  if (value.isTensor()) return Value(value.toTensor().core());
  if (value.isInt()) return Value(value.toInt());
  if (value.isDouble()) return Value(value.toDouble());
  if (value.isBool()) return Value(value.toBool());
  if (value.isString()) return Value(value.toStringRef());
  if (value.isNone()) return Value();
  facula::throw_error(ErrorKind::Type, "forward: argument '", path, "': a tensor or a number is expected, got ",
                      value.tagKind());
}

std::string key_text(const IValue& key) { return key.isInt() ? std::to_string(key.toInt()) : key.toStringRef(); }

const IValue* find(const std::vector<std::pair<IValue, IValue>>& items, const IValue& key) {
  const auto found = std::find_if(items.begin(), items.end(), [&](const auto& item) { return item.first == key; });
  return found == items.end() ? nullptr : &found->second;
}

void flatten_dict(const Spec& spec, const IValue& value, const std::string& path, std::vector<Value>& leaves) {
  FACULA_CHECK(value.isGenericDict(), ErrorKind::Type, "forward: argument '", path, "': a dictionary of ",
               spec.keys.size(), " is expected, got ", value.tagKind());
  const auto& items = *value.toGenericDict().items();
  FACULA_CHECK(items.size() == spec.keys.size(), ErrorKind::Value, "forward: argument '", path, "': ", spec.keys.size(),
               " entries are expected, got ", items.size());
  for (size_t i = 0; i < spec.keys.size(); ++i) {
    const std::string place = path + "." + key_text(spec.keys[i]);
    const IValue* found = find(items, spec.keys[i]);
    FACULA_CHECK(found, ErrorKind::Value, "forward: argument '", path, "': an entry '", key_text(spec.keys[i]),
                 "' is expected, got none of that name");
    flatten(spec.children[i], *found, place, leaves);
  }
}

}  // namespace

Spec Spec::parse(const std::string& text) {
  const JsonDocument document(text);
  const auto parts = document.root().items();  // a version, and the tree
  FACULA_CHECK(parts.size() == 2 && parts[0].to_int() == 1, ErrorKind::Runtime,
               "jit.load: how values are nested is not said in a way that is known: ", facula::text_of(text));
  return read(parts[1]);
}

size_t Spec::leaves() const {
  if (kind == Kind::Leaf) return 1;
  size_t all = 0;
  for (const Spec& child : children) all += child.leaves();
  return all;
}

void flatten(const Spec& spec, const IValue& value, const std::string& path, std::vector<Value>& leaves) {
  if (spec.kind == Spec::Kind::Leaf) return leaves.push_back(leaf_of(value, path));
  if (spec.kind == Spec::Kind::Dict) return flatten_dict(spec, value, path, leaves);
  const bool tuple = spec.kind == Spec::Kind::Tuple;
  FACULA_CHECK(tuple ? value.isTuple() : value.isList(), ErrorKind::Type, "forward: argument '", path,
               tuple ? "': a tuple of " : "': a list of ", spec.children.size(), " is expected, got ", value.tagKind());
  const std::vector<IValue> items = tuple ? value.toTupleRef().elements() : value.toListRef();
  FACULA_CHECK(items.size() == spec.children.size(), ErrorKind::Value, "forward: argument '", path,
               "': ", spec.children.size(), " elements are expected, got ", items.size());
  for (size_t i = 0; i < items.size(); ++i) flatten(spec.children[i], items[i], path + "." + std::to_string(i), leaves);
}

namespace {

IValue value_of(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::None: return {};
    case Value::Kind::Tensor: return Tensor(value.tensor());
    case Value::Kind::Int: return value.to_int();
    case Value::Kind::Float: return value.to_float();
    case Value::Kind::Bool: return value.to_bool();
    case Value::Kind::String: return std::string(value.to_string());
    default:
      facula::throw_error(ErrorKind::NotImplemented, "forward: a result is a tensor, a number or a text, got ",
                          facula::name(value.kind()));
  }
}

}  // namespace

IValue unflatten(const Spec& spec, const Value*& leaf) {
  if (spec.kind == Spec::Kind::Leaf) return value_of(*leaf++);
  std::vector<IValue> items;
  for (const Spec& child : spec.children) items.push_back(unflatten(child, leaf));
  if (spec.kind == Spec::Kind::Tuple) return ivalue::Tuple::create(std::move(items));
  if (spec.kind == Spec::Kind::Dict) {
    impl::GenericDict dict;
    for (size_t i = 0; i < items.size(); ++i) dict.insert(spec.keys[i], items[i]);
    return dict;
  }
  if (items.empty() || !std::all_of(items.begin(), items.end(), [](const IValue& v) { return v.isTensor(); }))
    return items;
  std::vector<Tensor> tensors;
  for (const IValue& item : items) tensors.push_back(item.toTensor());
  return tensors;
}

}  // namespace torch::jit::detail
