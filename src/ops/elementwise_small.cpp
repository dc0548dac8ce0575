// Element-wise ops on little memory, without a plan: one classifier finds how each operand is read.
//
// An operand of the result's shape is read where it lies, a number or a tensor of one element as copies of it, a row
// again and again where the result is large, and everything else (columns, what is broadcast or cut out of something
// larger, conditions) is laid out in the result's shape on the stack first, which costs less than to describe it.
// Beside the transpose of a matrix the result's shape is that of its memory, and other matrices are laid out.
#include "ops/elementwise_small.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/number.h"

namespace facula::ops {
namespace {

constexpr int kSmallDims = 6;
constexpr int64_t kSpread = 4096;  // bytes of a broadcast or strided operand that are laid out at once

/// A call whose operands are numbers and tensors of one dtype on the CPU, in the result of which elements lie in the
/// logical order. Made by `classify()`.
struct SmallCall {
  const TensorImpl* like = nullptr;  // a dense operand of the result's shape
  DType dtype = DType::Float32;      // what the loop reads
  int ndim = 0;
  int64_t dims[kSmallDims], numel = 1;
  bool turned = false;  // the result is a transposed matrix in memory, of which `dims` are the memory's
  int64_t row = 0;      // elements that one call of the loop computes: all, or those of a row which an operand has once
  LoopFn loop = nullptr;
  LoopInput in[kMaxInputs];
  bool by_rows[kMaxInputs] = {};  // whether the operand goes on from row to row
  alignas(64) char buffers[kMaxInputs][kSpread];
};

/// Joins the shapes of the operands. False where they are not of one dtype, on the CPU and of few dimensions, and where
/// they do not fit together.
bool join_shapes(const ElementwiseOp& op, const Operand* inputs, int count, SmallCall& call) {
  const TensorImpl* first = nullptr;
  for (int i = 0; i < count; ++i) {
    const TensorImpl* t = inputs[i].impl();
    if (!t) continue;
    if (t->ndim > kSmallDims || (t->flags & kPrivateLayout) || !t->storage->device.is_cpu()) return false;
    if (i == 0 && op.condition_first) {
      if (t->dtype != DType::Bool) return false;
    } else if (!first) {
      first = t;
    } else if (t->dtype != first->dtype) {
      return false;
    }
    const int shift = t->ndim - call.ndim;
    if (shift > 0) {
      for (int d = call.ndim; d-- > 0;) call.dims[d + shift] = call.dims[d];
      for (int d = 0; d < shift; ++d) call.dims[d] = 1;
      call.ndim = t->ndim;
    }
    int64_t* dims = call.dims + (call.ndim - t->ndim);
    for (int d = 0; d < t->ndim; ++d) {
      if (dims[d] == 1) dims[d] = t->dims[d];
      else if (t->dims[d] != 1 && t->dims[d] != dims[d]) return false;
    }
  }
  if (!first) return false;
  call.dtype = first->dtype;
  for (int d = 0; d < call.ndim; ++d) call.numel *= call.dims[d];
  return call.numel > 0 && call.numel <= kSerialElements;
}

/// Returns true if the first operand, which decides that, is the transpose of a dense matrix of the result's shape.
bool lies_turned(const Operand* inputs, int count, const SmallCall& call) {
  for (int i = 0; i < count && call.ndim == 2; ++i) {
    const TensorImpl* t = inputs[i].impl();
    if (!t) continue;
    if (t->ndim != 2 || t->numel != call.numel || t->dims[0] == 1 || t->dims[1] == 1) return false;
    const IntList strides = t->strides();
    return strides[0] == 1 && strides[1] == t->dims[0];
  }
  return false;
}

/// The strides of `t` in the shape of the call. False where they would order the result's memory in another way than
/// the logical one.
bool strides_in(const SmallCall& call, const TensorImpl* t, int64_t* strides) {
  const int shift = call.ndim - t->ndim;
  const IntList own = t->strides();
  if (call.turned) {
    for (int d = 0; d < 2; ++d) strides[1 - d] = d < shift || t->dims[d - shift] == 1 ? 0 : own[d - shift];
    return true;
  }
  int64_t last = INT64_MAX, last_size = INT64_MAX;
  for (int d = 0; d < call.ndim; ++d) {
    strides[d] = d < shift || (t->dims[d - shift] == 1 && call.dims[d] != 1) ? 0 : own[d - shift];
    if (strides[d] == 0) continue;
    if (strides[d] < 0 || strides[d] > last || (strides[d] == last && call.dims[d] > last_size)) return false;
    last = strides[d], last_size = call.dims[d];
  }
  return true;
}

// Elements of a size, whatever dtype they are of.
template <class T>
struct Element {
  typedef T type __attribute__((may_alias));
};
struct [[gnu::may_alias]] Bytes16 {
  uint64_t low, high;
};

/// The same element `n` times, by vectors of 16 bytes.
template <class E>
void repeat(E value, int64_t n, E* out) {
  constexpr int64_t kLanes = 16 / sizeof(E);
  if (n < kLanes) {
    for (int64_t i = 0; i < n; ++i) out[i] = value;
    return;
  }
  E lanes[kLanes];
  for (E& lane : lanes) lane = value;
  for (int64_t i = 0; i + kLanes <= n; i += kLanes) std::memcpy(out + i, lanes, sizeof lanes);
  std::memcpy(out + n - kLanes, lanes, sizeof lanes);
}

/// Elements along `ndim` dimensions, one after the other.
template <class E>
E* spread(const E* in, const int64_t* dims, const int64_t* strides, int ndim, E* out) {
  const int64_t n = *dims, step = *strides;
  if (ndim > 1 && step == 0) {  // what is there already, again and again
    const E* const end = spread(in, dims + 1, strides + 1, ndim - 1, out);
    int64_t done = end - out;
    const int64_t all = n * done;
    for (int64_t more; done < all; done += more) {
      more = std::min(done, all - done);
      std::memcpy(out + done, out, static_cast<size_t>(more) * sizeof(E));
    }
    return out + all;
  }
  if (ndim > 1) {
    for (int64_t i = 0; i < n; ++i) out = spread(in + i * step, dims + 1, strides + 1, ndim - 1, out);
    return out;
  }
  if (step == 0) repeat(*in, n, out);
  else if (step == 1) std::memcpy(out, in, static_cast<size_t>(n) * sizeof(E));
  else
    for (int64_t i = 0; i < n; ++i) out[i] = in[i * step];
  return out + n;
}

/// Calls `f` with a null pointer to elements of the size.
template <class F>
void by_item_size(int64_t item, F&& f) {
  switch (item) {
    case 1: return f(static_cast<Element<uint8_t>::type*>(nullptr));
    case 2: return f(static_cast<Element<uint16_t>::type*>(nullptr));
    case 4: return f(static_cast<Element<uint32_t>::type*>(nullptr));
    case 8: return f(static_cast<Element<uint64_t>::type*>(nullptr));
    default: return f(static_cast<Bytes16*>(nullptr));
  }
}

typedef int8_t Bytes __attribute__((vector_size(16)));

/// The lanes of `width` bytes in one half of a vector, each twice: masks of twice the width.
template <size_t width, bool high, size_t... i>
[[gnu::always_inline]] inline Bytes twice(Bytes masks, std::index_sequence<i...>) {
  using Word = std::conditional_t<width == 1, int8_t, std::conditional_t<width == 2, int16_t, int32_t>>;
  typedef Word Words __attribute__((vector_size(16)));
  const Words words = reinterpret_cast<Words>(masks);
  return reinterpret_cast<Bytes>(__builtin_shufflevector(words, words, (i / 2 + (high ? sizeof...(i) / 2 : 0))...));
}

/// Writes `one` where the mask of a byte is set, in elements of `item` bytes.
template <size_t item, size_t width = 1>
[[gnu::always_inline]] inline void widen(Bytes masks, Bytes one, char*& out) {
  if constexpr (width == item) {
    masks &= one;
    std::memcpy(out, &masks, sizeof masks);
    out += sizeof masks;
  } else {
    widen<item, 2 * width>(twice<width, false>(masks, std::make_index_sequence<16 / width>()), one, out);
    widen<item, 2 * width>(twice<width, true>(masks, std::make_index_sequence<16 / width>()), one, out);
  }
}

/// Turns `n` truth values into numbers, of which `one` is the number one again and again.
template <size_t item>
void write_truths(const char* truths, int64_t n, Bytes one, char* out) {
  Bytes read{};
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    std::memcpy(&read, truths + i, sizeof read);
    widen<item>(read != 0, one, out);
  }
  if (i == n) return;
  read = Bytes{};
  std::memcpy(&read, truths + i, static_cast<size_t>(n - i));
  widen<item>(read != 0, one, out);  // there is room for what follows the last one
}

/// The same for the call's dtype. False where it is one that is seldom chosen by conditions.
bool truths_as(DType dtype, const char* truths, int64_t n, char* out) {
  const auto all = [](auto number) {
    decltype(number) numbers[16 / sizeof number];
    std::fill(std::begin(numbers), std::end(numbers), number);
    Bytes bytes;
    std::memcpy(&bytes, numbers, sizeof bytes);
    return bytes;
  };
  switch (dtype) {
    case DType::Float32: return write_truths<4>(truths, n, all(1.0f), out), true;
    case DType::Int32: return write_truths<4>(truths, n, all(int32_t{1}), out), true;
    case DType::Float64: return write_truths<8>(truths, n, all(1.0), out), true;
    case DType::Int64: return write_truths<8>(truths, n, all(int64_t{1}), out), true;
    default: return false;
  }
}

/// Lays out what the loop reads of an operand that is not dense or has not the result's shape.
bool lay_out(const TensorImpl* t, const int64_t* strides, const SmallCall& call, char* buffer, LoopInput& in) {
  const int64_t item = item_size(t->dtype);
  const bool number = t->numel == 1;
  if (!number && call.numel * item > kSpread) return false;
  in = {buffer, number ? 0 : 1};
  int64_t sizes[kSmallDims], steps[kSmallDims];  // dimensions that lie evenly are one
  int ndim = 0;
  for (int d = 0; d < call.ndim; ++d) {
    if (call.dims[d] == 1) continue;
    if (ndim && steps[ndim - 1] == strides[d] * call.dims[d]) sizes[--ndim] *= call.dims[d];
    else sizes[ndim] = call.dims[d];
    steps[ndim++] = strides[d];
  }
  constexpr int64_t kManyRows = 32, kShortRow = 8;  // which cost less as a plan
  int64_t rows = 1;
  for (int d = 0; d + 1 < ndim; ++d) rows = rows == 1 && steps[d] == 0 ? 1 : rows * sizes[d];
  if (!number && rows > kManyRows && sizes[ndim - 1] < kShortRow) return false;
  by_item_size(item, [&]<class E>(E*) {
    const E* from = reinterpret_cast<const E*>(t->data);
    if (number) repeat(*from, std::min(call.numel, kRepeats), reinterpret_cast<E*>(buffer));
    else spread(from, sizes, steps, ndim, reinterpret_cast<E*>(buffer));
  });
  return true;
}

/// Makes numbers of a condition, which lies in `buffer` or is dense.
bool read_condition(const SmallCall& call, LoopInput& in, char* buffer) {
  const int64_t n = in.step ? call.numel : std::min(call.numel, kRepeats);
  const int64_t item = item_size(call.dtype);
  if (item < 4 || n * item > kSpread) return false;
  const char* truths = static_cast<const char*>(in.data);
  char copy[kSpread / 4];
  if (truths == buffer) truths = static_cast<const char*>(std::memcpy(copy, buffer, static_cast<size_t>(n)));
  in.data = buffer;
  return truths_as(call.dtype, truths, n, buffer);
}

/// What the loop reads of a tensor: its memory where that has the result's shape, a number, or else a copy in that
/// shape. A larger result is computed row by row where the tensor is one row of it.
bool read_tensor(const TensorImpl* t, bool condition, SmallCall& call, int i) {
  const bool dense = !call.turned && (t->flags & kContiguous);
  const bool whole = dense && t->numel == call.numel && t->ndim == call.ndim;
  int64_t strides[kSmallDims];
  if (!whole && !strides_in(call, t, strides)) return false;
  if ((dense && t->numel == call.numel) || (call.turned && strides[1] == 1 && strides[0] == call.dims[1])) {
    call.in[i] = {t->data}, call.by_rows[i] = true;
    if (!condition && whole) call.like = t;
  } else if (!condition && dense && t->numel > 1 && call.numel * item_size(t->dtype) > kSpread) {
    const int shift = call.ndim - t->ndim;
    if (t->numel < 8 || !std::equal(t->dims, t->dims + t->ndim, call.dims + shift)) return false;
    if (call.row != call.numel && call.row != t->numel) return false;
    call.row = t->numel, call.in[i] = {t->data}, call.by_rows[i] = false;
    return true;
  } else if (!lay_out(t, strides, call, call.buffers[i], call.in[i])) {
    return false;
  }
  return !condition || read_condition(call, call.in[i], call.buffers[i]);
}

/// Copies of a number in any dtype. False where it would make the result one of another dtype.
bool repeat_number(DType dtype, const Scalar& number, int64_t n, char* buffer) {
  if (fill_number(dtype, number, buffer, n)) return true;
  if (!is_bits(dtype) || dtype == DType::Bool || dtype == DType::Int64 || !(number.is_integral() || number.is_bool()))
    return false;
  visit_dtype(dtype, [&]<class T>(TypeTag<T>) {
    repeat(element_of<T>(number), std::min(n, kRepeats), reinterpret_cast<T*>(buffer));
  });
  return true;
}

/// Finds out whether the loop can be called at once, and with what. `same`: see same_operands().
bool classify(const ElementwiseOp& op, const Operand* inputs, int count, const Scalar* params, int param_count,
              const TensorImpl* same, SmallCall& call) {
  if (same) {
    if (same->numel == 0 || !same->storage->device.is_cpu()) return false;
    call.like = same, call.dtype = same->dtype, call.numel = same->numel;
  } else if (!join_shapes(op, inputs, count, call) || !contains(op.dtypes, call.dtype) ||
             !numbers_fit(op, call.dtype, params, param_count)) {
    return false;
  }
  call.loop = loop_table[op.loop][index(call.dtype)];
  if (!call.loop) return false;
  call.row = call.numel;
  if (!same && lies_turned(inputs, count, call)) {
    call.turned = true;
    std::swap(call.dims[0], call.dims[1]);
  }
  for (int i = 0; i < count; ++i) {
    const bool condition = i == 0 && op.condition_first;
    if (const TensorImpl* t = inputs[i].impl()) {
      if (!same) {
        if (!read_tensor(t, condition, call, i)) return false;
        continue;
      }
      call.in[i] = {t->data};
      if (condition && !read_condition(call, call.in[i], call.buffers[i])) return false;
      continue;
    }
    if (count == 1 || condition || !repeat_number(call.dtype, inputs[i].scalar(), call.numel, call.buffers[i]))
      return false;
    call.in[i] = {call.buffers[i], 0};
  }
  return true;
}

/// Whether the result may be written into `out` at once: of its dtype, dense, and on no memory that an operand lies on,
/// but for its own place.
bool takes_result(const Tensor& out, const SmallCall& call, DType result, const Operand* inputs, int count) {
  if (call.turned) return false;
  const TensorImpl* o = out.impl();
  constexpr uint32_t kLookedAt = kContiguous | kInference | kPrivateLayout | kConjugate;
  if (o->dtype != result || (o->flags & kLookedAt) != kContiguous || o->storage->asks_first() ||
      !o->storage->device.is_cpu())
    return false;
  if (call.like ? !same_shape(call.like, o) : o->sizes() != IntList(call.dims, static_cast<size_t>(call.ndim)))
    return false;
  for (int i = 0; i < count; ++i) {
    const TensorImpl* t = inputs[i].impl();
    if (!t || t == o || !share_bytes(t->storage, o->storage)) continue;
    if (t->data != o->data || !same_shape(t, o) || !(t->flags & kContiguous) || t->dtype != result) return false;
  }
  return true;
}

}  // namespace

bool small_call(const ElementwiseOp& op, const Operand* inputs, int count, const Scalar* params, int param_count,
                const TensorImpl* same, Tensor& out) {
  // one operand shows most of what is not for here
  const TensorImpl* seen =
      inputs[count - 1].impl() && !op.condition_first ? inputs[count - 1].impl() : inputs[0].impl();
  if (seen && (seen->numel > kSerialElements || (!op.condition_first && !loop_table[op.loop][index(seen->dtype)])))
    return false;
  SmallCall call;
  if (!classify(op, inputs, count, params, param_count, same, call)) return false;
  const DType result = loop_result(op, call.dtype);
  if (out.defined()) {
    if (!takes_result(out, call, result, inputs, count)) return false;
  } else if (call.turned) {
    out = facula::empty_strided({call.dims[1], call.dims[0]}, {1, call.dims[1]}, result);
  } else {
    out = call.like ? empty_like_contiguous(call.like, result)
                    : facula::empty(IntList(call.dims, static_cast<size_t>(call.ndim)), result);
  }
  const Params converted(call.dtype, params, param_count);
  char* to = out.impl()->data;
  for (int64_t done = 0; done < call.numel; done += call.row) {
    call.loop(call.row, to + done * item_size(result), call.in, converted.bytes);
    for (int i = 0; i < count; ++i) {
      if (call.by_rows[i])
        call.in[i].data = static_cast<const char*>(call.in[i].data) + call.row * item_size(call.dtype);
    }
  }
  return true;
}

}  // namespace facula::ops
