#include "core/shape.h"

#include <numeric>
#include <optional>

#include "core/checked.h"
#include "core/device.h"
#include "core/near_name.h"
#include "core/scalar.h"

namespace facula {

std::ostream& operator<<(std::ostream& out, IntList list) {
  out << '(';
  for (size_t i = 0; i < list.size(); ++i) out << (i ? ", " : "") << list[i];
  return out << (list.size() == 1 ? ",)" : ")");
}

std::ostream& operator<<(std::ostream& out, MemoryFormat format) {
  constexpr const char* names[] = {"contiguous_format", "channels_last", "channels_last_3d", "preserve_format"};
  return out << names[static_cast<int>(format)];
}

std::ostream& operator<<(std::ostream& out, Layout layout) {
  constexpr const char* names[] = {"strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc"};
  return out << "torch." << names[static_cast<int>(layout)];
}

std::ostream& operator<<(std::ostream& out, const Scalar& scalar) {
  if (scalar.is_bool()) return out << (scalar.to_bool() ? "True" : "False");
  if (scalar.dtype() == DType::UInt64) return out << static_cast<uint64_t>(scalar.to_int());
  if (scalar.is_integral()) return out << scalar.to_int();
  if (scalar.is_floating()) return out << scalar.to_double();
  auto c = scalar.to_complex();
  return out << '(' << c.real() << (c.imag() < 0 ? "" : "+") << c.imag() << "j)";
}

// Programs read PyTorch's texts to learn which devices there are, so these begin as PyTorch's do, not with a name.
namespace {

std::vector<std::string> device_types() {
  std::vector<std::string> known;
  for (int t = 0; t < kDeviceTypes; ++t)
    if (const char* candidate = name(static_cast<DeviceType>(t))) known.emplace_back(candidate);
  return known;
}

std::string known_device_types() {
  std::string text;
  for (const std::string& type : device_types()) text += (text.empty() ? "" : ", ") + type;
  return text;
}

std::string meant_device(std::string_view type) {
  if (type == "gpu") return ". Did you mean: 'cuda'?";  // by its letters it is nearer to cpu
  return suggestion(type, device_types());
}

}  // namespace

Device parse_device(const std::string& text) {
  FACULA_CHECK(!text.empty(), ErrorKind::Runtime,
               "device: expected a device such as 'cpu' or 'cuda:0', got an empty text");
  const size_t colon = text.find(':');
  const std::string_view wanted = std::string_view(text).substr(0, colon);
  std::optional<DeviceType> type;
  for (int t = 0; t < kDeviceTypes; ++t) {
    const char* candidate = name(static_cast<DeviceType>(t));  // null: a place that no backend has taken
    if (candidate && wanted == candidate) type = static_cast<DeviceType>(t);
  }
  FACULA_CHECK(type, ErrorKind::Runtime, "Expected one of ", known_device_types(),
               " device type at start of device string: ", text, meant_device(wanted));
  Device device{*type};
  if (colon == std::string::npos) return device;
  const std::string digits = text.substr(colon + 1);
  const bool number = !digits.empty() && digits.find_first_not_of("0123456789") == std::string::npos;
  FACULA_CHECK(number && (digits == "0" || digits[0] != '0'), ErrorKind::Runtime, "Invalid device string: '", text,
               "', expected a number after the colon, got '", digits, "'");
  int index = digits.size() <= 3 ? std::stoi(digits) : 1000;
  FACULA_CHECK(index <= 127, ErrorKind::Runtime, "device: the number of a device is at most 127, got '", text, "'");
  device.index = static_cast<int8_t>(index);
  return device;
}

int64_t count_elements(IntList sizes, const char* op) {
  for (int64_t size : sizes)
    FACULA_CHECK(size >= 0, ErrorKind::Runtime, op, ": a negative dimension is not a size, got ", sizes);
  return product_of(sizes).get(op, "the number of elements", "size ", sizes);
}

Dims contiguous_strides(IntList sizes) {
  Dims strides(sizes.size());
  int64_t step = 1;  // wraps around for sizes that no memory holds, which the caller reports
  for (size_t i = sizes.size(); i-- > 0;) {
    strides[i] = step;
    step = wrapping_mul(step, std::max<int64_t>(sizes[i], 1));
  }
  return strides;
}

namespace {

// Dimensions of a channels-last tensor from the innermost outwards; none where the format has not so many.
IntList channels_last_order(size_t ndim, MemoryFormat format) {
  static constexpr int64_t order4[] = {1, 3, 2, 0}, order5[] = {1, 4, 3, 2, 0};
  if (format == MemoryFormat::ChannelsLast && ndim == 4) return {order4, 4};
  if (format == MemoryFormat::ChannelsLast3d && ndim == 5) return {order5, 5};
  return {};
}

}  // namespace

Dims strides_of(IntList sizes, MemoryFormat format, const char* op) {
  if (format == MemoryFormat::Contiguous || format == MemoryFormat::Preserve) return contiguous_strides(sizes);
  const IntList order = channels_last_order(sizes.size(), format);
  FACULA_CHECK(!order.empty(), ErrorKind::Runtime, op, ": ", format, " needs ",
               format == MemoryFormat::ChannelsLast ? 4 : 5, " dimensions, got ", sizes.size());
  Dims strides(sizes.size());
  int64_t step = 1;
  for (int64_t d : order) {
    strides[d] = step;
    step = wrapping_mul(step, std::max<int64_t>(sizes[d], 1));
  }
  return strides;
}

bool is_contiguous(IntList sizes, IntList strides) {
  for (int64_t size : sizes)
    if (size == 0) return true;
  int64_t step = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] == 1) continue;
    if (strides[i] != step) return false;
    step *= sizes[i];
  }
  return true;
}

bool is_contiguous(IntList sizes, IntList strides, MemoryFormat format) {
  if (format == MemoryFormat::Contiguous) return is_contiguous(sizes, strides);
  const IntList order = channels_last_order(sizes.size(), format);
  if (order.empty()) return false;
  int64_t step = 1;
  for (int64_t d : order) {
    if (sizes[d] != 1) {
      if (strides[d] != step) return false;
      step = wrapping_mul(step, sizes[d]);
    }
  }
  return true;
}

namespace {

// Dimensions with more than one element, ordered by stride from the smallest.
Dims by_stride(IntList sizes, IntList strides) {
  Dims order;
  for (size_t i = sizes.size(); i-- > 0;) {
    if (sizes[i] != 1) order.push_back(static_cast<int64_t>(i));
  }
  // by insertion: few, mostly in order, and std::stable_sort would take memory
  for (size_t i = 1; i < order.size(); ++i) {
    for (size_t j = i; j > 0 && strides[order[j]] < strides[order[j - 1]]; --j) std::swap(order[j], order[j - 1]);
  }
  return order;
}

}  // namespace

bool is_dense(IntList sizes, IntList strides) {
  size_t left = 0;
  for (int64_t size : sizes) {
    if (size == 0) return true;
    left += size != 1;
  }
  // the dimension that goes on where those before it end, again and again; mostly one pass, from the last on
  int64_t step = 1;
  for (size_t before = left + 1; left && left < before;) {
    before = left;
    for (size_t i = sizes.size(); i-- > 0;) {
      if (sizes[i] == 1 || strides[i] != step) continue;
      step *= sizes[i];
      --left;
    }
  }
  return left == 0;
}

bool may_self_overlap(IntList sizes, IntList strides) {
  Dims magnitudes(strides.size());
  for (size_t i = 0; i < strides.size(); ++i) {
    if (sizes[i] == 0) return false;
    magnitudes[i] = strides[i] < 0 ? wrapping_mul(strides[i], -1) : strides[i];
  }
  int64_t reach = 0;
  for (int64_t d : by_stride(sizes, magnitudes)) {
    if (magnitudes[d] <= reach) return true;
    reach += magnitudes[d] * (sizes[d] - 1);
  }
  return false;
}

Dims dimension_order(IntList sizes, List<Dims> strides) {
  size_t n = sizes.size();
  Dims order(n);
  for (size_t i = 0; i < n; ++i) order[i] = static_cast<int64_t>(n - 1 - i);
  // -1: keep, 1: swap, 0: this operand pair does not decide
  auto decide = [&](int64_t inner, int64_t outer) {
    for (const Dims& s : strides) {
      int64_t a = std::abs(s[inner]), b = std::abs(s[outer]);
      if (a == 0 || b == 0) continue;
      if (a < b) return -1;
      if (a > b) return 1;
      if (sizes[inner] > sizes[outer]) return 1;
    }
    return 0;
  };
  for (size_t i = 1; i < n; ++i) {
    size_t at = i;
    for (size_t j = i; j-- > 0;) {
      int decision = decide(order[j], order[at]);
      if (decision > 0) {
        std::swap(order[j], order[at]);
        at = j;
      } else if (decision < 0) {
        break;
      }
    }
  }
  return order;
}

Dims dense_strides(IntList sizes, const Dims& order) {
  Dims strides(sizes.size());
  int64_t step = 1;
  for (int64_t d : order) {
    strides[d] = step;
    step = wrapping_mul(step, std::max<int64_t>(sizes[d], 1));
  }
  return strides;
}

Dims preserved_strides(IntList sizes, IntList strides) {
  if (is_dense(sizes, strides) && !may_self_overlap(sizes, strides)) {
    bool positive = std::all_of(strides.begin(), strides.end(), [](int64_t s) { return s >= 0; });
    return positive ? Dims(strides) : contiguous_strides(sizes);
  }
  return dense_strides(sizes, dimension_order(sizes, {Dims(strides)}));
}

Dims broadcast(IntList a, IntList b, const char* op) {
  IntList longer = a.size() >= b.size() ? a : b, shorter = a.size() >= b.size() ? b : a;
  Dims out(longer);
  size_t shift = longer.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t x = longer[shift + i], y = shorter[i];
    FACULA_CHECK(x == y || x == 1 || y == 1, ErrorKind::Runtime, op,
                 ": shapes must broadcast (equal sizes or 1, counted from the last dimension), got ", a, " and ", b);
    out[shift + i] = x == 1 ? y : x;
  }
  return out;
}

bool broadcasts_to(IntList from, IntList to) {
  if (from.size() > to.size()) return false;
  size_t shift = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] != 1 && from[i] != to[shift + i]) return false;
  }
  return true;
}

bool view_strides(IntList sizes, IntList strides, IntList shape, Dims& out) {
  out.resize(0);
  out.resize(shape.size());
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) {
    out = contiguous_strides(shape);
    return true;
  }
  if (sizes.empty()) {
    for (size_t i = 0; i < shape.size(); ++i) out[i] = 1;
    return true;
  }
  // Walk from the last dimension: each maximal run of dimensions that lie evenly in memory is split among new ones.
  int64_t at = static_cast<int64_t>(shape.size()) - 1;
  int64_t run_step = strides.back(), run_count = 1, made = 1;
  for (int64_t d = static_cast<int64_t>(sizes.size()) - 1; d >= 0; --d) {
    run_count *= sizes[d];
    bool run_ends = d == 0 || (sizes[d - 1] != 1 && strides[d - 1] != wrapping_mul(run_count, run_step));
    if (!run_ends) continue;
    while (at >= 0 && (made < run_count || shape[at] == 1)) {
      out[at] = wrapping_mul(made, run_step);
      made *= shape[at];
      --at;
    }
    if (made != run_count) return false;
    if (d > 0) {
      run_step = strides[d - 1];
      run_count = made = 1;
    }
  }
  return at == -1;
}

namespace {

// Programs look for PyTorch's words here, with the shape as it writes it: shape '[5, 3]' is invalid for input of size
// 12.
[[noreturn, gnu::cold]] void report_wrong_count(const char* op, IntList shape, int64_t numel) {
  std::string list;
  for (int64_t size : shape) list += (list.empty() ? "" : ", ") + std::to_string(size);
  throw_error(ErrorKind::Runtime, op, ": shape '[", list, "]' is invalid for input of size ", numel);
}

}  // namespace

Dims infer_shape(IntList shape, int64_t numel, const char* op) {
  Dims out(shape);
  int64_t hole = -1;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == -1) {
      FACULA_CHECK(hole < 0, ErrorKind::Runtime, op, ": only one dimension can be inferred, got ", shape);
      hole = static_cast<int64_t>(i);
      out[i] = 1;
    } else {
      FACULA_CHECK(shape[i] >= 0, ErrorKind::Runtime, op, ": a size is -1 or not negative, got ", shape);
    }
  }
  const int64_t known = product_of(out).get(op, "the number of elements", shape);
  if (hole >= 0) {
    FACULA_CHECK(known != 0, ErrorKind::Runtime, op, ": a size of -1 is ambiguous beside a size of 0, got ", shape);
    if (numel % known != 0) report_wrong_count(op, shape, numel);
    out[hole] = numel / known;
  } else {
    if (known != numel) report_wrong_count(op, shape, numel);
  }
  return out;
}

}  // namespace facula
