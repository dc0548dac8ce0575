// Joining, reversing, rolling, repeating and padding: one allocation and block copies into it.
#include "ops/split_join.h"

#include <algorithm>
#include <cstring>

#include "core/checked.h"
#include "core/copy_bytes.h"
#include "core/near_name.h"
#include "core/number.h"
#include "core/parallel.h"
#include "ops/contiguous.h"
#include "raw_create.h"
#include "raw_split_join.h"

namespace facula::ops {
namespace {

Tensor part_of(const Tensor& t, int64_t dim, int64_t start, int64_t length) {
  Dims sizes(t.sizes());
  sizes[dim] = length;
  return make_view(t, sizes, t.strides(), length ? start * t.stride(dim) : 0, false);
}

void copy_into(const Tensor& target, const Tensor& source) { copy_elements(target, source); }

// Whether every part and the result are plain memory of one dtype.
bool is_plain(const Tensor& result, TensorList parts) {
  if (!result.is_contiguous()) return false;
  for (const Tensor& t : parts) {
    if (!t.is_contiguous() || t.dtype() != result.dtype() || t.is_conj() != result.is_conj()) return false;
  }
  return true;
}

// Whether pieces are long enough, or few.
bool are_long(const Tensor& result, size_t parts, int64_t outer) {
  constexpr int64_t kPiece = 64, kFew = 4096;  // bytes
  int64_t bytes = result.numel() * result.item_size();
  return outer == 1 || bytes <= kFew || bytes >= kPiece * outer * static_cast<int64_t>(parts);
}

/// Pieces of so many bytes, from one after the other to `row` bytes apart.
template <int64_t length>
void copy_short_pieces(char* out, int64_t row, const char* in, int64_t count) {
  for (int64_t r = 0; r < count; ++r) std::memcpy(out + r * row, in + r * length, length);
}
/// The same of `half` to twice as many bytes, as two that overlap.
template <int64_t half>
void copy_in_halves(char* out, int64_t row, const char* in, int64_t length, int64_t count) {
  for (int64_t r = 0; r < count; ++r, out += row, in += length) {
    char first[half], second[half];
    std::memcpy(first, in, half);
    std::memcpy(second, in + length - half, half);
    std::memcpy(out, first, half);
    std::memcpy(out + length - half, second, half);
  }
}
void copy_pieces(char* out, int64_t row, const char* in, int64_t length, int64_t count) {
  if (length == 1) return copy_short_pieces<1>(out, row, in, count);
  if (length == 2) return copy_short_pieces<2>(out, row, in, count);
  if (length == 4) return copy_short_pieces<4>(out, row, in, count);
  if (length == 8) return copy_short_pieces<8>(out, row, in, count);
  if (length > 4 && length <= 16)
    return length < 8 ? copy_in_halves<4>(out, row, in, length, count) : copy_in_halves<8>(out, row, in, length, count);
  if (length > 16 && length <= 32) return copy_in_halves<16>(out, row, in, length, count);
  if (length > 32 && length <= 64) return copy_in_halves<32>(out, row, in, length, count);
  for (int64_t r = 0; r < count; ++r) copy_bytes(out + r * row, in + r * length, length);
}

// `outer` rounds, in each of which every part gives its next bytes.
void join_bytes(const Tensor& result, TensorList parts, int64_t outer) {
  char* out = result.data<char>();
  LockRelease release(result.numel() > kGrain);
  if (outer == 1) {  // one round: the bytes of each part are shared out
    for (const Tensor& t : parts) {
      const int64_t length = t.numel() * t.item_size();
      const char* in = t.data<char>();
      parallel_for(0, length, 4 * kGrain, [=](int64_t a, int64_t b) { copy_bytes(out + a, in + a, b - a); });
      out += length;
    }
    return;
  }
  const int64_t row = result.numel() * result.item_size() / outer;
  parallel_for(0, outer, std::max<int64_t>(1, 4 * kGrain / std::max<int64_t>(row, 1)), [&](int64_t from, int64_t to) {
    char* target = out + from * row;
    for (const Tensor& t : parts) {
      const int64_t length = t.numel() * t.item_size() / outer;
      copy_pieces(target, row, t.data<char>() + from * length, length, to - from);
      target += length;
    }
  });
}

/// Joins plain memory at once; false where it is to be done part by part.
bool joined(const Tensor& result, TensorList parts, int64_t outer) {
  if (!is_plain(result, parts)) return false;
  if (result.is_cpu()) {
    if (!are_long(result, parts.size(), outer)) return false;
    join_bytes(result, parts, outer);
    return true;
  }
  if (!join_kernel.table[static_cast<size_t>(result.device().type)]) return false;
  join_kernel(result.device(), result, parts, outer);
  return true;
}

DType common_dtype(TensorList tensors) {
  bool equal = true;
  for (const Tensor& t : tensors) equal &= t.dtype() == tensors[0].dtype();
  if (equal) return tensors[0].dtype();
  ResultType type;
  for (const Tensor& t : tensors) type.add(t.dtype(), t.dim());
  return type.get();
}

size_t place_of(const Tensor& t, TensorList tensors) {
  size_t i = 0;
  while (i + 1 < tensors.size() && !tensors[i].is_same(t)) ++i;
  return i;
}

void check_same_device(const char* op, TensorList tensors) {
  for (const Tensor& t : tensors) {
    FACULA_CHECK(t.device() == tensors[0].device(), ErrorKind::Runtime, op,
                 ": all tensors must be on the same device (to(device) moves them), got ", tensors[0].device(), " and ",
                 t.device());
  }
}

// The memory format that a tensor's strides say; also of a part of an image, whose elements do not lie side by side.
MemoryFormat format_of(const Tensor& t) {
  const MemoryFormat format = t.suggest_memory_format();
  if (t.is_dense() || t.dim() < 4 || t.dim() > 5 || t.numel() == 0 || t.stride(1) == 0) return format;
  int64_t needed = t.stride(1) * t.size(1);  // channels lie innermost, then the dimensions of the image from the last
  for (size_t d = static_cast<size_t>(t.dim()) - 1; d >= 2; --d) {
    if (t.stride(d) < needed) return format;
    needed = t.stride(d) * t.size(d);
  }
  if (t.stride(0) < needed || needed == t.stride(1)) return format;
  return t.dim() == 4 ? MemoryFormat::ChannelsLast : MemoryFormat::ChannelsLast3d;
}

// channels_last when every joined tensor is, so that images keep their memory order.
MemoryFormat joined_format(TensorList parts) {
  MemoryFormat format = format_of(parts[0]);
  for (const Tensor& t : parts) {
    if (format_of(t) != format) return MemoryFormat::Contiguous;
  }
  return format;
}

bool is_legacy_empty(const Tensor& t) { return t.dim() == 1 && t.size(0) == 0; }

}  // namespace

Tensor cat(TensorList tensors, int64_t dim, const Out& out) {
  FACULA_CHECK(!tensors.empty(), ErrorKind::Value, "cat: expected a non-empty list of tensors, got an empty one");
  check_same_device("cat", tensors);
  bool all_count = true;
  for (const Tensor& t : tensors) {
    FACULA_CHECK(t.dim() > 0, ErrorKind::Runtime, "cat: 0-d tensors cannot be joined (use stack), got one");
    all_count &= !is_legacy_empty(t);
  }
  DType dtype = common_dtype(tensors);
  FACULA_CHECK(!out.given() || can_cast(dtype, out.tensor().dtype()), ErrorKind::Type, "cat: a result of ", dtype,
               " can't be cast, so it cannot be written into out= of ", out.tensor().dtype());
  for (const Tensor& t : tensors) {
    if (!out.given()) break;
    bool same_place = t.storage() == out.tensor().storage() && t.impl()->data == out.tensor().impl()->data;
    FACULA_CHECK(!same_place || t.numel() == 0, ErrorKind::Runtime,
                 "cat: out= must not share memory with an input, got shape ", t.sizes());
    check_no_partial_overlap(out.tensor(), t, "cat");
  }
  std::vector<Tensor> counting;  // without empty vectors, which stand for nothing
  for (const Tensor& t : tensors) {
    if (!all_count && !is_legacy_empty(t)) counting.push_back(t);
  }
  TensorList parts = all_count ? tensors : TensorList(counting);
  if (parts.empty()) return out.make({0}, dtype, tensors[0].device());  // whatever dim is
  int64_t d = wrap_dim(dim, parts[0].dim(), "cat");
  Dims sizes(parts[0].sizes());
  sizes[d] = 0;
  for (const Tensor& t : parts) {
    bool fits = t.dim() == static_cast<int64_t>(sizes.size());
    for (int64_t i = 0; fits && i < t.dim(); ++i) fits = i == d || t.size(i) == sizes[i];
    FACULA_CHECK(fits, ErrorKind::Runtime, "cat: sizes of tensors must match but for dimension ", d, ", got ",
                 parts[0].sizes(), " and, as tensor ", place_of(t, tensors), ", ", t.sizes());
    sizes[d] = (Checked(sizes[d]) + t.size(d)).get("cat", "the joined size", sizes[d], " and ", t.size(d));
  }
  MemoryFormat format = out.given() ? MemoryFormat::Contiguous : joined_format(parts);
  Tensor result = format == MemoryFormat::Contiguous ? out.make(sizes, dtype, tensors[0].device())
                                                     : empty_in(format, sizes, dtype, tensors[0].device(), "cat");
  if (result.is_meta() || result.numel() == 0) return result;
  int64_t outer = count_elements(IntList(sizes).slice(0, static_cast<size_t>(d)), "cat");
  if (joined(result, parts, outer)) return result;
  int64_t at = 0;
  for (const Tensor& t : parts) {
    copy_into(part_of(result, d, at, t.size(d)), t);
    at += t.size(d);
  }
  return result;
}

Tensor stack(TensorList tensors, int64_t dim, const Out& out) {
  FACULA_CHECK(!tensors.empty(), ErrorKind::Runtime, "stack: expected a non-empty list of tensors, got an empty one");
  check_same_device("stack", tensors);
  const Tensor& first = tensors[0];
  int64_t d = wrap_dim(dim, first.dim() + 1, "stack");
  for (const Tensor& t : tensors) {
    FACULA_CHECK(t.sizes() == first.sizes(), ErrorKind::Runtime, "stack: the tensors must have equal shapes, got ",
                 first.sizes(), " and, as tensor ", place_of(t, tensors), ", ", t.sizes());
  }
  Dims sizes(first.sizes());
  sizes.insert(static_cast<size_t>(d), static_cast<int64_t>(tensors.size()));
  Tensor result = out.make(sizes, common_dtype(tensors), first.device());
  if (result.is_meta() || result.numel() == 0) return result;
  int64_t outer = count_elements(first.sizes().slice(0, static_cast<size_t>(d)), "stack");
  if (joined(result, tensors, outer)) return result;
  Dims strides(result.strides());
  strides.erase(static_cast<size_t>(d));
  for (size_t k = 0; k < tensors.size(); ++k) {
    copy_into(make_view(result, first.sizes(), strides, static_cast<int64_t>(k) * result.stride(d), false), tensors[k]);
  }
  return result;
}

Tensor flip(const Tensor& self, IntList dims) {
  Dims strides(self.strides());
  uint64_t seen = 0;
  int64_t offset = 0;
  for (int64_t dim : dims) {
    int64_t d = wrap_dim(dim, self.dim(), "flip");
    FACULA_CHECK(!(seen >> d & 1), ErrorKind::Runtime, "flip: expected every dimension at most once, got ", dims);
    seen |= uint64_t{1} << d;
    if (self.dim() == 0) continue;
    offset = wrapping_add(offset, wrapping_mul(self.size(d) - 1, strides[d]));  // no place where there is no element
    strides[d] = wrapping_mul(strides[d], -1);
  }
  Tensor result = facula::empty_like(self, self.dtype());
  if (self.numel() > 0) copy_into(result, make_view(self, self.sizes(), strides, offset, false));
  return result;
}

namespace {

// Copies `from` to `to`, cut at the shifts of the dimensions from k on.
void roll_blocks(const Tensor& to, const Tensor& from, const Dims& dims, const Dims& shifts, size_t k) {
  if (k == dims.size()) {
    copy_into(to, from);
    return;
  }
  int64_t d = dims[k], size = from.size(d), shift = shifts[k];
  roll_blocks(part_of(to, d, shift, size - shift), part_of(from, d, 0, size - shift), dims, shifts, k + 1);
  if (shift) roll_blocks(part_of(to, d, 0, shift), part_of(from, d, size - shift, shift), dims, shifts, k + 1);
}

}  // namespace

Tensor roll(const Tensor& self, IntList shifts, IntList dims) {
  FACULA_CHECK(!shifts.empty(), ErrorKind::Runtime, "roll: at least one shift is required, got none");
  if (dims.empty() && shifts.size() == 1) {
    Tensor flat = self.is_contiguous() ? self : clone(self, MemoryFormat::Contiguous);
    Tensor rolled = roll(make_view(flat, {self.numel()}, {1}, 0, false), shifts, {0});
    return make_view(rolled, self.sizes(), contiguous_strides(self.sizes()), 0, false);
  }
  FACULA_CHECK(shifts.size() == dims.size(), ErrorKind::Runtime, "roll: expected as many shifts as dims, got ", shifts,
               " and ", dims);
  Dims steps, along;
  for (size_t k = 0; k < dims.size(); ++k) {
    FACULA_CHECK(self.dim() > 0, ErrorKind::Index, "roll: a 0-d tensor has no dimension, got dims ", dims);
    int64_t d = wrap_dim(dims[k], self.dim(), "roll"), size = std::max<int64_t>(self.size(d), 1);
    int64_t shift = shifts[k] % size;
    if (shift < 0) shift += size;
    auto known = std::find(along.begin(), along.end(), d);
    if (known == along.end()) {
      along.push_back(d);
      steps.push_back(shift);
    } else {
      int64_t& sum = steps[static_cast<size_t>(known - along.begin())];
      sum = sum < size - shift ? sum + shift : sum - (size - shift);
    }
  }
  Tensor result = facula::empty(self.sizes(), self.dtype(), self.device());
  if (self.numel() > 0 && !self.is_meta()) roll_blocks(result, self, along, steps, 0);
  return result;
}

Tensor repeat(const Tensor& self, IntList repeats) {
  int64_t n = static_cast<int64_t>(repeats.size()), shift = n - self.dim();
  FACULA_CHECK(shift >= 0, ErrorKind::Runtime, "repeat: a count for every dimension of the tensor of shape ",
               self.sizes(), ", got ", repeats);
  Dims sizes, split, target_strides, source_strides;
  for (int64_t i = 0; i < n; ++i) {
    FACULA_CHECK(repeats[i] >= 0, ErrorKind::Runtime, "repeat: counts must not be negative, got ", repeats);
    const Checked size = Checked(repeats[i]) * (i < shift ? 1 : self.size(i - shift));
    sizes.push_back(size.get("repeat", "a repeated size", "repeats ", repeats, " of shape ", self.sizes()));
  }
  Tensor result = facula::empty(sizes, self.dtype(), self.device());
  if (result.is_meta() || result.numel() == 0) return result;
  // Every dimension is seen as (copies, elements), where there are several: that makes no more dimensions than a tensor
  // can have.
  const auto add_dim = [&](int64_t size, int64_t to, int64_t from) {
    if (size == 1) return;
    split.push_back(size);
    target_strides.push_back(to);
    source_strides.push_back(from);
  };
  for (int64_t i = 0; i < n; ++i) {
    const int64_t own = i < shift ? 1 : self.size(i - shift);
    add_dim(repeats[i], own * result.stride(i), 0);
    add_dim(own, result.stride(i), i < shift ? 0 : self.stride(i - shift));
  }
  copy_into(make_view(result, split, target_strides, 0, false), make_view(self, split, source_strides, 0, false));
  return result;
}

Tensor constant_pad_nd(const Tensor& self, IntList pad, const Scalar& value) {
  FACULA_CHECK(pad.size() % 2 == 0, ErrorKind::Runtime, "constant_pad_nd: expected an even number of counts, got ",
               pad);
  int64_t padded = static_cast<int64_t>(pad.size() / 2);
  FACULA_CHECK(padded <= self.dim(), ErrorKind::Runtime,
               "constant_pad_nd: expected at most two counts per dimension of the tensor of shape ", self.sizes(),
               ", got ", pad);
  Tensor source = self;
  Dims sizes(self.sizes());
  for (int64_t k = 0; k < padded; ++k) {
    int64_t d = self.dim() - 1 - k;
    sizes[d] = (Checked(sizes[d]) + pad[2 * k] + pad[2 * k + 1])
                   .get("constant_pad_nd", "a padded size", "padding ", pad, " of shape ", self.sizes());
    FACULA_CHECK(sizes[d] >= 0, ErrorKind::Runtime, "constant_pad_nd: the padding ", pad,
                 " leaves a negative size in dimension ", d, ", got shape ", self.sizes());
  }
  MemoryFormat format = self.suggest_memory_format();
  Tensor result = empty_in(format, sizes, self.dtype(), self.device(), "constant_pad_nd");
  require_value(value, self.dtype(), "constant_pad_nd");
  if (result.is_meta() || result.numel() == 0) return result;
  Tensor target = result;
  bool covered = true;
  for (int64_t k = 0; k < padded; ++k) {
    int64_t d = self.dim() - 1 - k, before = pad[2 * k], after = pad[2 * k + 1];
    // more is cut away than there is where the other end adds as much
    int64_t first = before < 0 ? std::min(wrapping_mul(before, -1), self.size(d)) : 0;
    int64_t last = after < 0 ? std::min(wrapping_mul(after, -1), self.size(d)) : 0,
            shared = self.size(d) - first - last;
    covered &= before <= 0 && after <= 0;
    shared = std::max<int64_t>(shared, 0);
    source = part_of(source, d, first, shared);
    target = part_of(target, d, std::max<int64_t>(before, 0), shared);
  }
  if (!covered) fill_kernel(result.device(), result, value);
  copy_into(target, source);
  return result;
}

namespace {

PadMode pad_mode(std::string_view mode) {
  if (mode == "reflect") return PadMode::Reflect;
  if (mode == "circular") return PadMode::Circular;
  FACULA_CHECK(mode == "replicate", ErrorKind::NotImplemented, "pad: mode must be ",
               one_of({"constant", "reflect", "replicate", "circular"}, mode));
  return PadMode::Replicate;
}

EdgeAxis edge_axis(int64_t d, IntList sizes, int64_t before, int64_t after, PadMode mode, IntList pad) {
  const int64_t size = sizes[static_cast<size_t>(d)];
  // further out nothing changes: all of the input is cut away
  EdgeAxis a{size, 0, 0, size, std::max(before, wrapping_mul(size, -2)), mode};
  if (mode == PadMode::Circular) {  // what is cut away does not come back on the other side
    a.first = before < 0 ? (-Checked(before)).get("pad", "a count", pad) : 0;
    a.length = (Checked(a.in) - a.first + std::min<int64_t>(after, 0)).get("pad", "the padded size", pad);
    a.lead = std::max<int64_t>(before, 0);
  }
  const int64_t most = mode == PadMode::Reflect ? a.length - 1 : a.length;
  FACULA_CHECK(mode == PadMode::Replicate || (before <= most && after <= most), ErrorKind::Runtime, "pad: at most ",
               most, " elements can be added at an end of dimension ", d, " of shape ", sizes, ", got ", pad);
  a.out = (Checked(a.in) + before + after).get("pad", "the padded size", pad);
  FACULA_CHECK(a.out > 0 && (a.length > 0 || before + after == 0), ErrorKind::Runtime,
               "pad: the padding leaves nothing of dimension ", d, " of shape ", sizes, ", got ", pad);
  return a;
}

struct PadShape {
  EdgePad geometry;
  Dims sizes;
  MemoryFormat format = MemoryFormat::Contiguous;  // of what the kernel reads and writes
};

PadShape pad_shape(IntList sizes, IntList pad, std::string_view mode_name, MemoryFormat format) {
  const int64_t n = static_cast<int64_t>(sizes.size()), padded = static_cast<int64_t>(pad.size() / 2);
  FACULA_CHECK(pad.size() % 2 == 0 && padded <= std::min<int64_t>(n, 3), ErrorKind::Runtime,
               "pad: two counts for each of at most three dimensions of the tensor of shape ", sizes, ", got ", pad);
  const PadMode mode = pad_mode(mode_name);
  PadShape s;
  s.sizes = Dims(sizes);
  // images whose channels are not padded keep their order in memory
  const bool last = format == MemoryFormat::ChannelsLast && n == 4 && padded <= 2 && mode != PadMode::Circular;
  if (last) s.format = format, s.geometry.inner = sizes[1];
  for (int64_t k = 0; k < 3; ++k) {
    const int64_t d = n - 1 - k;
    if (d < (last ? 2 : 0)) break;
    EdgeAxis& axis = s.geometry.axes[static_cast<size_t>(2 - k)];
    axis.in = axis.out = axis.length = sizes[static_cast<size_t>(d)];
    if (k < padded && (pad[2 * k] || pad[2 * k + 1])) axis = edge_axis(d, sizes, pad[2 * k], pad[2 * k + 1], mode, pad);
    s.sizes[static_cast<size_t>(d)] = axis.out;
  }
  for (int64_t d = 0; d < (last ? 1 : n - 3); ++d) s.geometry.outer *= sizes[static_cast<size_t>(d)];
  return s;
}

}  // namespace

Tensor _pad_edges(const Tensor& self, IntList pad, std::string_view mode) {
  const MemoryFormat wanted =
      self.dim() == 4 && mode != "circular" ? self.suggest_memory_format() : MemoryFormat::Contiguous;
  const PadShape s = pad_shape(self.sizes(), pad, mode, wanted);
  Tensor result = empty_in(s.format, s.sizes, self.dtype(), self.device(), "pad");
  if (!result.is_meta() && result.numel()) {
    if (self.is_contiguous(s.format)) pad_edges_kernel(self.device(), result, self, s.geometry);
    else pad_edges_kernel(self.device(), result, as_contiguous(self, s.format), s.geometry);
  }
  if (result.is_contiguous(wanted)) return result;
  return as_contiguous(result, wanted);
}

Tensor _pad_edges_backward(const Tensor& grad, IntList sizes, IntList pad, std::string_view mode) {
  count_elements(sizes, "pad");
  const PadShape s =
      pad_shape(sizes, pad, mode, grad.dim() == 4 ? grad.suggest_memory_format() : MemoryFormat::Contiguous);
  FACULA_CHECK(grad.sizes() == IntList(s.sizes) && is_inexact(grad.dtype()), ErrorKind::Runtime,
               "pad: expected a floating-point gradient of shape ", s.sizes, ", got ", grad.sizes(), " of ",
               grad.dtype());
  Tensor result = empty_in(s.format, sizes, grad.dtype(), grad.device(), "pad");
  if (result.is_meta()) return result;
  fill_kernel(result.device(), result, Scalar(0));
  if (grad.numel()) add_edges_kernel(grad.device(), result, as_contiguous(grad, s.format), s.geometry);
  return result;
}

}  // namespace facula::ops
