// Files of the format safetensors: eight bytes with the length of a header, the header in JSON
// {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}, the elements of all one after the other.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "core/checked.h"
#include "program/json.h"
#include "run/arrays.h"

namespace facula {
namespace {

struct SafeType {
  std::string_view text;
  DType dtype;
};
constexpr SafeType kTypes[] = {
    {"BOOL", DType::Bool},          {"U8", DType::UInt8},      {"I8", DType::Int8},
    {"I16", DType::Int16},          {"U16", DType::UInt16},    {"F16", DType::Float16},
    {"BF16", DType::BFloat16},      {"I32", DType::Int32},     {"U32", DType::UInt32},
    {"F32", DType::Float32},        {"F64", DType::Float64},   {"I64", DType::Int64},
    {"U64", DType::UInt64},         {"C64", DType::Complex64}, {"F8_E4M3", DType::Float8E4M3FN},
    {"F8_E5M2", DType::Float8E5M2},
};
constexpr size_t kMostHeader = 100'000'000;

[[noreturn]] void damaged(const std::string& why) { throw Error(ErrorKind::Value, "safetensors: " + why); }

Tensor one_tensor(std::string_view name, const Json& entry, std::string_view data) {
  const auto wrong = [&](const std::string& why) { damaged("'" + text_of(name) + "' " + why); };
  const std::string_view text = entry.at("dtype").to_string();
  const auto* type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const SafeType& t) { return t.text == text; });
  if (type == std::end(kTypes)) wrong("has a dtype that Facula has not, " + text_of(text));
  std::vector<int64_t> shape;
  for (const Json& size : entry.at("shape").items()) shape.push_back(size.to_int());
  constexpr size_t kMostDims = 64;
  if (shape.size() > kMostDims) wrong("has more than 64 dimensions");
  for (const int64_t size : shape)
    if (size < 0) wrong("has a negative size");
  const int64_t wanted = (product_of(shape) * item_size(type->dtype)).get("safetensors", "the size of a tensor");
  const auto offsets = entry.at("data_offsets").items();
  if (offsets.size() != 2) wrong("must have two offsets, got " + std::to_string(offsets.size()));
  const int64_t from = offsets[0].to_int(), to = offsets[1].to_int();
  if (from < 0 || from > to || static_cast<uint64_t>(to) > data.size()) wrong("reaches outside of the file");
  if (to - from != wanted)
    wrong("needs " + std::to_string(wanted) + " bytes, its offsets say " + std::to_string(to - from));
  Tensor t = empty(shape, type->dtype);
  if (wanted) std::memcpy(t.data(), data.data() + from, static_cast<size_t>(wanted));
  if (type->dtype == DType::Bool)
    for (int64_t i = 0; i < wanted; ++i) t.data<char>()[i] = t.data<char>()[i] != 0;
  return t;
}

/// A text of JSON. Characters above 127 stand as they are.
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (static_cast<unsigned char>(c) < ' ') {
      char room[8];
      std::snprintf(room, sizeof room, "\\u%04x", c);
      out += room;
    } else {
      if (c == '"' || c == '\\') out += '\\';
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace

std::vector<NamedTensor> parse_safetensors(std::string_view bytes) {
  uint64_t length = 0;
  if (bytes.size() < sizeof length) damaged("the file is too short for a header");
  std::memcpy(&length, bytes.data(), sizeof length);
  if (length > kMostHeader || length > bytes.size() - sizeof length) damaged("the file ends within its header");
  const JsonDocument header(std::string(bytes.substr(sizeof length, length)));
  const std::string_view data = bytes.substr(sizeof length + length);
  std::vector<NamedTensor> all;
  for (const Json::Member& member : header.root().members())
    if (member.key() != "__metadata__")
      all.push_back({std::string(member.key()), one_tensor(member.key(), member.value, data)});
  return all;
}

std::string safetensors_header(const std::vector<NamedTensor>& arrays) {
  std::string text = "{";
  int64_t at = 0;
  for (const NamedTensor& array : arrays) {
    const Tensor& t = array.tensor;
    const auto* type =
        std::find_if(std::begin(kTypes), std::end(kTypes), [&](const SafeType& s) { return s.dtype == t.dtype(); });
    FACULA_CHECK(type != std::end(kTypes), ErrorKind::Value, "safetensors: the format has no ", name(t.dtype()));
    std::string shape;
    for (const int64_t size : t.sizes()) shape += (shape.empty() ? "" : ",") + std::to_string(size);
    const int64_t end = at + t.numel() * t.item_size();
    text += (text.size() > 1 ? "," : "") + quoted(array.name) + ":{\"dtype\":\"" + std::string(type->text) +
            "\",\"shape\":[" + shape + "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(end) + "]}";
    at = end;
  }
  text += "}";
  constexpr size_t kAlignment = 8;
  text.append((kAlignment - text.size() % kAlignment) % kAlignment, ' ');
  const uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof length) + text;
}

}  // namespace facula
