// NumPy's format NPY (numpy.lib.format): a magic word, the length of a header, the header as a Python literal
// {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }, the elements.
#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>

#include "core/checked.h"
#include "functions.h"
#include "run/arrays.h"

namespace facula {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr size_t kAlignment = 64;  // of the elements in the file

struct NpyType {
  std::string_view text;  // without the order of bytes
  DType dtype;
};
constexpr NpyType kTypes[] = {
    {"b1", DType::Bool},      {"i1", DType::Int8},        {"i2", DType::Int16},   {"i4", DType::Int32},
    {"i8", DType::Int64},     {"u1", DType::UInt8},       {"u2", DType::UInt16},  {"u4", DType::UInt32},
    {"u8", DType::UInt64},    {"f2", DType::Float16},     {"f4", DType::Float32}, {"f8", DType::Float64},
    {"c8", DType::Complex64}, {"c16", DType::Complex128},
};

[[noreturn]] void damaged(const std::string& why) { throw Error(ErrorKind::Value, "npy: " + why); }

/// Reads the dict of a header. What NumPy writes, and no more of Python.
class Header {
 public:
  explicit Header(std::string_view text) : text_(text) { parse(); }
  std::string_view descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;

 private:
  void parse() {
    int seen = 0;
    expect('{');
    while (!accept('}')) {
      const std::string_view key = quoted();
      expect(':');
      if (key == "descr") descr = quoted(), seen |= 1;
      else if (key == "fortran_order") fortran_order = truth(), seen |= 2;
      else if (key == "shape") tuple(), seen |= 4;
      else damaged("the header has an unknown key");
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (seen != 7) damaged("the header must have 'descr', 'fortran_order' and 'shape'");
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
  }
  bool accept(char c) {
    skip();
    const bool there = at_ < text_.size() && text_[at_] == c;
    at_ += there;
    return there;
  }
  void expect(char c) {
    if (!accept(c)) damaged(std::string("the header must have '") + c + "' at byte " + std::to_string(at_));
  }
  std::string_view quoted() {
    const char quote = accept('"') ? '"' : '\'';
    if (quote == '\'') {
      if (accept('[')) damaged("arrays of records are not read");
      expect('\'');
    }
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) damaged("a text of the header does not end");
    const std::string_view inside = text_.substr(at_, end - at_);
    at_ = end + 1;
    return inside;
  }
  bool truth() {
    skip();
    for (const std::string_view word : {"True", "False"})
      if (text_.substr(at_).starts_with(word)) {
        at_ += word.size();
        return word == "True";
      }
    damaged("fortran_order must be True or False");
  }
  void tuple() {
    expect('(');
    while (!accept(')')) {
      skip();
      int64_t size = 0;
      const auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), size);
      if (error != std::errc() || size < 0) damaged("shape must be numbers that are not negative");
      at_ = static_cast<size_t>(end - text_.data());
      shape.push_back(size);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    constexpr size_t kMostDims = 64;
    if (shape.size() > kMostDims) damaged("shape must have at most 64 dimensions, got " + std::to_string(shape.size()));
  }

  std::string_view text_;
  size_t at_ = 0;
};

/// The text of the header, and where the elements begin.
std::pair<std::string_view, size_t> find_header(std::string_view bytes) {
  if (!bytes.starts_with(kMagic) || bytes.size() < 12) damaged("the file does not begin as NumPy's files do");
  const int version = static_cast<unsigned char>(bytes[6]);
  if (version < 1 || version > 3) damaged("version must be 1, 2 or 3, got " + std::to_string(version));
  const size_t width = version == 1 ? 2 : 4;
  uint32_t length = 0;
  std::memcpy(&length, bytes.data() + 8, width);
  const size_t start = 8 + width;
  if (length > bytes.size() - start) damaged("the file ends within its header");
  return {bytes.substr(start, length), start + length};
}

DType dtype_of(std::string_view descr) {
  const std::string_view text = descr.substr(std::min<size_t>(descr.size(), 1));
  for (const NpyType& type : kTypes)
    if (text == type.text) return type.dtype;
  damaged("dtype '" + std::string(descr) + "' is none of Facula's");
}

/// Turns the bytes of every number around. A complex number is two.
void swap_bytes(const Tensor& t) {
  const auto width = static_cast<size_t>(t.is_complex() ? t.item_size() / 2 : t.item_size());
  char* at = t.data<char>();
  for (char* end = at + t.numel() * t.item_size(); at != end; at += width) std::reverse(at, at + width);
}

/// Rows of a matrix that was written column by column: the transpose of what the file holds in its order.
Tensor from_fortran(const Tensor& t) {
  std::vector<int64_t> reversed(static_cast<size_t>(t.dim()));
  for (size_t i = 0; i < reversed.size(); ++i) reversed[i] = t.dim() - 1 - static_cast<int64_t>(i);
  return contiguous(permute(t, reversed));
}

}  // namespace

Tensor parse_npy(std::string_view bytes) {
  const auto [text, start] = find_header(bytes);
  Header header(text);
  const DType dtype = dtype_of(header.descr);
  if (header.fortran_order) std::reverse(header.shape.begin(), header.shape.end());
  const int64_t wanted = (product_of(header.shape) * item_size(dtype)).get("npy", "the size of the array");
  const size_t there = bytes.size() - start;
  if (static_cast<size_t>(wanted) != there)
    damaged("shape and dtype need " + std::to_string(wanted) + " bytes, the file has " + std::to_string(there));
  Tensor t = empty(header.shape, dtype);
  if (there) std::memcpy(t.data(), bytes.data() + start, there);
  if (dtype == DType::Bool)
    std::transform(t.data<char>(), t.data<char>() + there, t.data<char>(), [](char c) { return c != 0; });
  if (header.descr[0] == '>') swap_bytes(t);
  return header.fortran_order && t.dim() > 1 ? from_fortran(t) : t;
}

std::string npy_header(const Tensor& tensor) {
  const auto* type =
      std::find_if(std::begin(kTypes), std::end(kTypes), [&](const NpyType& t) { return t.dtype == tensor.dtype(); });
  FACULA_CHECK(type != std::end(kTypes), ErrorKind::Value, "npy: NumPy has no dtype for ", name(tensor.dtype()),
               "; .safetensors files hold it");
  std::string shape;
  for (const int64_t size : tensor.sizes()) shape += std::to_string(size) + ", ";
  if (tensor.dim() > 1) shape.resize(shape.size() - 2);
  else if (tensor.dim() == 1) shape.resize(shape.size() - 1);
  const char order = tensor.item_size() == 1 ? '|' : '<';
  std::string text =
      "{'descr': '" + (order + std::string(type->text)) + "', 'fortran_order': False, 'shape': (" + shape + "), }";
  constexpr size_t kBefore = 10;  // magic word, version, length
  text.append((2 * kAlignment - 1 - (kBefore + text.size()) % kAlignment) % kAlignment, ' ');
  text += '\n';
  std::string start(kMagic);
  start += {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return start + text;
}

}  // namespace facula
