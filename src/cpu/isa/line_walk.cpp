// Lines that do not lie contiguously are packed several at a time, so that each cache line is read once.
#include "cpu/isa/line_walk.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>

namespace facula::cpu::FACULA_ISA {
namespace {

constexpr int64_t kBatch = 16;   // lines packed together
constexpr size_t kOperands = 2;  // inputs, and outputs, at most

/// A tensor seen as lines of dimension `dim`, in the order of its sizes without that dimension.
struct LineOperand {
  char* data = nullptr;
  DType dtype = DType::Float32;    // of memory
  DType compute = DType::Float32;  // of the values handed on
  int64_t length = 0, stride = 0;  // stride in bytes
  Dims strides;                    // of the other dimensions, in bytes, innermost first
  int64_t pitch = -1;              // bytes from each line to the next, where that is always the same

  LineOperand() = default;
  LineOperand(const Tensor& t, int64_t dim, DType compute);
  bool contiguous() const { return stride == item_size(dtype) || length == 1; }
  bool direct() const { return dtype == compute && contiguous(); }
};

/// Bytes that nobody has written yet: few of them where they are, more on the heap.
class Room {
 public:
  char* data() { return many_ ? many_.get() : few_; }
  void resize(size_t bytes) {
    if (bytes <= size_) return;
    many_ = std::make_unique_for_overwrite<char[]>(bytes);
    size_ = bytes;
  }

 private:
  static constexpr size_t kFew = 2048;
  alignas(64) char few_[kFew];
  std::unique_ptr<char[]> many_;
  size_t size_ = kFew;
};

/// The values of a batch of lines, each contiguous.
struct LineBuffer {
  Room packed, converted;
};

/// Up to as many as there are operands, without memory of its own.
template <class T>
class Few {
 public:
  explicit Few(size_t size) : size_(size) {}
  size_t size() const { return size_; }
  T& operator[](size_t k) { return items_[k]; }
  const T& operator[](size_t k) const { return items_[k]; }
  const T* begin() const { return items_; }
  const T* end() const { return items_ + size_; }

 private:
  T items_[kOperands];
  size_t size_;
};

/// Bytes from one line of a buffer to the next: not a power of two, which would put all lines into the same cache sets.
int64_t pitch_of(int64_t length, int64_t item) { return (length * item + 63) / 64 * 64 + 64; }

/// Whether the lines of a full batch lie side by side.
bool side_by_side(int64_t lines, const char* const* at, int64_t item) {
  if (lines < kBatch) return false;
  for (int64_t b = 1; b < kBatch; ++b) {
    if (at[b] != at[0] + b * item) return false;
  }
  return true;
}

template <size_t item>
void pack(int64_t lines, int64_t n, char* to, int64_t pitch, const char* const* from, int64_t stride) {
  if (side_by_side(lines, from, item)) {
    for (int64_t i = 0; i < n; ++i) {
      const char* row = from[0] + i * stride;
      for (int64_t b = 0; b < kBatch; ++b) std::memcpy(to + b * pitch + i * item, row + b * item, item);
    }
    return;
  }
  for (int64_t b = 0; b < lines; ++b) {
    for (int64_t i = 0; i < n; ++i) std::memcpy(to + b * pitch + i * item, from[b] + i * stride, item);
  }
}

template <size_t item>
void unpack(int64_t lines, int64_t n, char* const* to, int64_t stride, const char* from, int64_t pitch) {
  if (side_by_side(lines, to, item)) {
    for (int64_t i = 0; i < n; ++i) {
      char* row = to[0] + i * stride;
      for (int64_t b = 0; b < kBatch; ++b) std::memcpy(row + b * item, from + b * pitch + i * item, item);
    }
    return;
  }
  for (int64_t b = 0; b < lines; ++b) {
    for (int64_t i = 0; i < n; ++i) std::memcpy(to[b] + i * stride, from + b * pitch + i * item, item);
  }
}

template <class F>
void by_item_size(int64_t item, F&& f) {
  switch (item) {
    case 1: return f(std::integral_constant<size_t, 1>());
    case 2: return f(std::integral_constant<size_t, 2>());
    case 4: return f(std::integral_constant<size_t, 4>());
    case 8: return f(std::integral_constant<size_t, 8>());
    default: return f(std::integral_constant<size_t, 16>());
  }
}

/// Makes values[b] point at the contiguous values of each line.
void load(const LineOperand& t, int64_t lines, const char* const* at, LineBuffer& buffer, const void** values) {
  int64_t item = item_size(t.dtype), wide = item_size(t.compute);
  int64_t pitch = pitch_of(t.length, item), wide_pitch = pitch_of(t.length, wide);
  bool contiguous = t.stride == item || t.length == 1;
  if (!contiguous) {
    buffer.packed.resize(static_cast<size_t>(lines * pitch));
    by_item_size(item, [&](auto size) {
      pack<decltype(size)::value>(lines, t.length, buffer.packed.data(), pitch, at, t.stride);
    });
  }
  if (t.dtype != t.compute) buffer.converted.resize(static_cast<size_t>(lines * wide_pitch));
  for (int64_t b = 0; b < lines; ++b) {
    const char* line = contiguous ? at[b] : buffer.packed.data() + b * pitch;
    if (t.dtype != t.compute) {
      char* target = buffer.converted.data() + b * wide_pitch;
      cast(t.compute, t.dtype, t.length, target, line);
      line = target;
    }
    values[b] = line;
  }
}

void make_room(const LineOperand& t, int64_t lines, LineBuffer& buffer) {
  if (!t.contiguous()) buffer.packed.resize(static_cast<size_t>(lines * pitch_of(t.length, item_size(t.dtype))));
  if (t.dtype != t.compute)
    buffer.converted.resize(static_cast<size_t>(lines * pitch_of(t.length, item_size(t.compute))));
}

/// Where the values of line `b` are made.
char* place_of_result(const LineOperand& t, int64_t b, char* const* at, LineBuffer& buffer) {
  if (t.dtype != t.compute) return buffer.converted.data() + b * pitch_of(t.length, item_size(t.compute));
  return t.contiguous() ? at[b] : buffer.packed.data() + b * pitch_of(t.length, item_size(t.dtype));
}

/// Converts and spreads the lines that were made elsewhere.
void store(const LineOperand& t, int64_t lines, char* const* at, LineBuffer& buffer) {
  const int64_t pitch = pitch_of(t.length, item_size(t.dtype));
  for (int64_t b = 0; t.dtype != t.compute && b < lines; ++b)
    cast(t.dtype, t.compute, t.length, t.contiguous() ? at[b] : buffer.packed.data() + b * pitch,
         place_of_result(t, b, at, buffer));
  if (t.contiguous()) return;
  by_item_size(item_size(t.dtype), [&](auto size) {
    unpack<decltype(size)::value>(lines, t.length, at, t.stride, buffer.packed.data(), pitch);
  });
}

LineOperand::LineOperand(const Tensor& t, int64_t dim, DType compute)
    : data(t.data<char>()),
      dtype(t.dtype()),
      compute(compute),
      length(t.dim() ? t.size(dim) : 1),
      stride(t.dim() ? t.stride(dim) * t.item_size() : t.item_size()) {
  int64_t next = -1;
  bool even = true;
  for (int64_t d = t.dim(); d-- > 0;) {
    if (d == dim) continue;
    strides.push_back(t.stride(d) * t.item_size());
    even &= next < 0 || strides.back() == next;
    next = strides.back() * t.size(d);
  }
  if (even && !strides.empty()) pitch = strides[0];
}

// Whether every line of `t` lies contiguously right behind the one before it.
bool in_a_row(const Tensor& t, int64_t dim, DType compute) {
  return t.dtype() == compute && dim >= t.dim() - 1 && t.is_contiguous();
}

int64_t line_length(const Tensor& t, int64_t dim) { return t.dim() ? t.size(dim) : 1; }

// The shortest way: nothing to pack, no strides to follow.
void for_lines_in_a_row(int64_t lines, int64_t dim, std::span<const Tensor* const> in,
                        std::span<const Tensor* const> out, LineFunction f) {
  int64_t n = line_length(*in[0], dim);
  int64_t in_pitch = n * in[0]->item_size(), out_pitch[kOperands];
  for (size_t k = 0; k < out.size(); ++k) out_pitch[k] = line_length(*out[k], dim) * out[k]->item_size();
  parallel_for(0, lines, std::max<int64_t>(1, kGrain / std::max<int64_t>(n, 1)), [&](int64_t from, int64_t to) {
    const void* x[kOperands];
    void* y[kOperands];
    for (int64_t line = from; line < to; ++line) {
      for (size_t k = 0; k < in.size(); ++k) x[k] = in[k]->data<char>() + line * in_pitch;
      for (size_t k = 0; k < out.size(); ++k) y[k] = out[k]->data<char>() + line * out_pitch[k];
      f(n, x, y);
    }
  });
}

}  // namespace

void for_lines(DType compute, int64_t dim, std::span<const Tensor* const> inputs,
               std::span<const Tensor* const> outputs, LineFunction f) {
  const Tensor& first_input = *inputs[0];
  int64_t elements = first_input.numel();
  if (elements == 0) return;
  IntList sizes = first_input.sizes();
  LockRelease unlocked(elements > 4 * kGrain);
  auto is_in_a_row = [&](const Tensor* t) { return in_a_row(*t, dim, compute); };
  auto is_contiguous = [&](const Tensor* t) { return dim >= t->dim() - 1 && t->is_contiguous(); };
  // results, not positions
  auto is_narrow = [&](const Tensor* t) { return t->dtype() != compute && compute_dtype(t->dtype()) == compute; };
  if (std::all_of(inputs.begin(), inputs.end(), is_in_a_row) &&
      std::all_of(outputs.begin(), outputs.end(), is_contiguous) &&
      !std::any_of(outputs.begin(), outputs.end(), is_narrow)) {
    for_lines_in_a_row(elements / line_length(first_input, dim), dim, inputs, outputs, f);
    return;
  }
  Few<LineOperand> in(inputs.size()), out(outputs.size());
  for (size_t k = 0; k < in.size(); ++k) in[k] = LineOperand(*inputs[k], dim, compute);
  for (size_t k = 0; k < out.size(); ++k)
    out[k] = LineOperand(*outputs[k], dim, is_narrow(outputs[k]) ? compute : outputs[k]->dtype());
  Dims others;
  int64_t count = 1;
  for (int64_t d = static_cast<int64_t>(sizes.size()); d-- > 0;) {
    if (d == dim) continue;
    others.push_back(sizes[d]);
    count *= sizes[d];
  }
  int64_t n = sizes.empty() ? 1 : sizes[dim];
  auto is_direct = [](const LineOperand& t) { return t.direct(); };
  FACULA_CHECK(n < std::numeric_limits<int64_t>::max() / (32 * kBatch), ErrorKind::Runtime,
               "sort: a dimension is too long to walk along, got size ", n);
  bool packs = !std::all_of(in.begin(), in.end(), is_direct) || !std::all_of(out.begin(), out.end(), is_direct);
  int64_t grain = std::max<int64_t>(packs ? kBatch : 1, kGrain / std::max<int64_t>(n, 1));
  parallel_for(0, count, grain, [&](int64_t from, int64_t to) {
    Few<LineBuffer> in_buffers(in.size()), out_buffers(out.size());
    const char* in_at[kBatch];
    char* out_at[kOperands][kBatch];
    const void* in_values[kOperands][kBatch];
    for (int64_t first = from; first < to; first += kBatch) {
      int64_t lines = std::min(kBatch, to - first);
      auto place = [&](const LineOperand& t, int64_t line) {
        if (t.pitch >= 0) return t.data + line * t.pitch;
        char* at = t.data;
        for (size_t d = 0; d < others.size(); ++d) {
          at += line % others[d] * t.strides[d];
          line /= others[d];
        }
        return at;
      };
      for (size_t k = 0; k < in.size(); ++k) {
        for (int64_t b = 0; b < lines; ++b) in_at[b] = place(in[k], first + b);
        load(in[k], lines, in_at, in_buffers[k], in_values[k]);
      }
      for (size_t k = 0; k < out.size(); ++k) {
        for (int64_t b = 0; b < lines; ++b) out_at[k][b] = place(out[k], first + b);
        make_room(out[k], lines, out_buffers[k]);
      }
      for (int64_t b = 0; b < lines; ++b) {
        const void* arguments[kOperands];
        void* results[kOperands];
        for (size_t k = 0; k < in.size(); ++k) arguments[k] = in_values[k][b];
        for (size_t k = 0; k < out.size(); ++k) {
          results[k] = place_of_result(out[k], b, out_at[k], out_buffers[k]);
        }
        f(n, arguments, results);
      }
      for (size_t k = 0; k < out.size(); ++k) {
        if (!out[k].direct()) store(out[k], lines, out_at[k], out_buffers[k]);
      }
    }
  });
}

}  // namespace facula::cpu::FACULA_ISA
