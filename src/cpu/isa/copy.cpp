// copy_: the same elements into another layout or dtype; fill_: one number into all of them.

#include "core/copy_bytes.h"
#include "core/number.h"
#include "core/parallel.h"
#include "cpu/isa.h"
#include "cpu/isa/cast.h"
#include "cpu/isa/lanes.h"
#include "cpu/isa/transpose.h"
#include "cpu/loops.h"
#include "ops/kernel_table.h"

namespace facula::cpu::FACULA_ISA {

TransposeFn transpose_for(int64_t item) {
  switch (item) {
    case 1: return transpose_tiles<uint8_t>;
    case 2: return transpose_tiles<uint16_t>;
    case 4: return transpose_tiles<uint32_t>;
    case 8: return transpose_tiles<uint64_t>;
    default: return transpose_scalar<Bytes16>;
  }
}

namespace {

constexpr int64_t kChunk = 1024;

Plan copy_plan_by_rows(const Tensor& out, const Tensor& in) {
  Plan plan = copy_plan(out, in);
  // rows of a few elements cost more to find than to copy: walk along the longer neighbor instead
  bool dense = plan.out.strides[0] == out.item_size() && plan.in[0].strides[0] == out.item_size();
  int64_t few = dense && plan.out.dtype == plan.in[0].dtype ? 4 / out.item_size() : kTile / 2;
  if (plan.shape.size() > 1 && plan.shape[0] < few && plan.shape[1] > plan.shape[0]) {
    std::swap(plan.shape[0], plan.shape[1]);
    std::swap(plan.out.strides[0], plan.out.strides[1]);
    std::swap(plan.in[0].strides[0], plan.in[0].strides[1]);
  }
  return plan;
}

// The dimension along which the input is contiguous, when the output is contiguous along dimension 0; -1 for none.
int64_t transposed_dim(const Plan& plan, int64_t item) {
  if (plan.out.strides[0] != item || plan.in[0].strides[0] == item || plan.in[0].strides[0] == 0 ||
      plan.shape[0] < kTile / 2)
    return -1;
  for (size_t d = 1; d < plan.shape.size(); ++d) {
    if (plan.in[0].strides[d] == item && plan.shape[d] >= kTile / 2) return static_cast<int64_t>(d);
  }
  return -1;
}

void copy_transposed(const Plan& plan, int64_t d, int64_t item) {
  TransposeFn transpose = transpose_for(item);
  int64_t rows = plan.shape[d], columns = plan.shape[0], planes = plan.numel / (rows * columns);
  int64_t bands = (rows + kTile - 1) / kTile;
  parallel_for(0, planes * bands, std::max<int64_t>(1, kGrain / (columns * kTile)), [&](int64_t from, int64_t to) {
    for (int64_t task = from; task < to; ++task) {
      int64_t plane = task / bands, row = task % bands * kTile;
      const char* in = plan.in[0].data + row * plan.in[0].strides[d];
      char* out = plan.out.data + row * plan.out.strides[d];
      for (size_t k = 1; k < plan.shape.size(); ++k) {
        if (static_cast<int64_t>(k) == d) continue;
        int64_t at = plane % plan.shape[k];
        plane /= plan.shape[k];
        in += at * plan.in[0].strides[k];
        out += at * plan.out.strides[k];
      }
      transpose(in, plan.in[0].strides[0], out, plan.out.strides[d], std::min(kTile, rows - row), columns);
    }
  });
}

/// Bools as 0 and 1: their memory may hold other bytes, and a comparison within each conversion is far from one
/// instruction for a vector.
void truths(int64_t n, char* out, const char* in) {
  auto* o = reinterpret_cast<uint8_t*>(out);
  auto* a = reinterpret_cast<const uint8_t*>(in);
  FACULA_SIMD
  for (int64_t i = 0; i < n; ++i) o[i] = a[i] != 0;
}

// Converts one row.
void copy_run(const Plan& plan, char* out, const char* in, int64_t count) {
  int64_t out_step = plan.out.strides[0], in_step = plan.in[0].strides[0];
  int64_t out_item = item_size(plan.out.dtype), in_item = item_size(plan.in[0].dtype);
  alignas(64) char packed[kChunk * 16], converted[kChunk * 16];
  for (int64_t done = 0; done < count; done += kChunk) {
    int64_t n = std::min(kChunk, count - done);
    const char* source = in + done * in_step;
    if (in_step != in_item) {
      gather(in_item, {1, n, 0, in_step}, packed, source);
      source = packed;
    }
    char* target = out_step == out_item ? out + done * out_step : converted;
    if (plan.in[0].dtype == DType::Bool) {
      truths(n, packed, source);
      cast(plan.out.dtype, DType::UInt8, n, target, packed);
    } else {
      cast(plan.out.dtype, plan.in[0].dtype, n, target, source);
    }
    if (target == converted) scatter(out_item, {1, n, 0, out_step}, out + done * out_step, converted);
  }
}

// ---- rows: the two innermost dimensions at a time

struct CopiedRows {
  char* out;
  const char* in;
  int64_t out_row, in_row, out_step, in_step;  // bytes
  int64_t n, count;                            // elements of a row, rows
};

template <class F>
void for_rows(const CopiedRows& m, F&& f) {
  for (int64_t r = 0; r < m.count; ++r) f(m.out + r * m.out_row, m.in + r * m.in_row);
}

// Rows of `size` to 2 * `size` bytes, as two pieces that overlap.
template <int size>
void copy_in_two(const CopiedRows& m, int64_t bytes) {
  for_rows(m, [=](char* out, const char* in) {
    char first[size], second[size];
    std::memcpy(first, in, size);
    std::memcpy(second, in + bytes - size, size);
    std::memcpy(out, first, size);
    std::memcpy(out + bytes - size, second, size);
  });
}

void copy_whole_rows(const CopiedRows& m, int64_t bytes) {
  if (bytes >= 4 && bytes <= 8) copy_in_two<4>(m, bytes);
  else if (bytes > 8 && bytes <= 16) copy_in_two<8>(m, bytes);
  else if (bytes > 16 && bytes <= 32) copy_in_two<16>(m, bytes);
  else if (bytes > 32 && bytes <= 64) copy_in_two<32>(m, bytes);
  else for_rows(m, [=](char* out, const char* in) { copy_bytes(out, in, bytes); });
}

// Steps that the compiler knows become vector code.
template <class T, int64_t out_step, int64_t in_step>
void copy_stepping(const CopiedRows& m) {
  using E = typename Element<T>::type;
  for_rows(m, [&](char* out, const char* in) {
    E* o = reinterpret_cast<E*>(out);
    const E* a = reinterpret_cast<const E*>(in);
    if constexpr (in_step == 0) {
      const E value = *a;  // a copy, which stores cannot change
      std::fill_n(o, m.n, value);
      return;
    }
#pragma omp simd simdlen(kLight / sizeof(T))
    for (int64_t i = 0; i < m.n; ++i) o[i * out_step] = a[i * in_step];
  });
}

/// Rows that become the elements of triples, as the planes of an image in color become channels.
template <class T>
void interleave_three(const CopiedRows& m) {
  using E = typename Element<T>::type;
  E* o = reinterpret_cast<E*>(m.out);
  const E *x = reinterpret_cast<const E*>(m.in), *y = reinterpret_cast<const E*>(m.in + m.in_row),
          *z = reinterpret_cast<const E*>(m.in + 2 * m.in_row);
  FACULA_SIMD
  for (int64_t i = 0; i < m.n; ++i) {
    o[3 * i] = x[i];
    o[3 * i + 1] = y[i];
    o[3 * i + 2] = z[i];
  }
}

template <class T>
void copy_elements(const CopiedRows& m) {
  using E = typename Element<T>::type;
  constexpr int64_t item = sizeof(T);
  if (m.count == 3 && m.in_step == item && m.out_row == item && m.out_step == 3 * item) return interleave_three<T>(m);
  bool dense = m.out_step == item;
  if (dense && m.in_step == item) return copy_whole_rows(m, m.n * item);
  if (dense && m.in_step == 0) return copy_stepping<T, 1, 0>(m);
  if (dense && m.in_step == -item) return copy_stepping<T, 1, -1>(m);
  if (dense && m.in_step == 2 * item) return copy_stepping<T, 1, 2>(m);
  if (m.in_step == item && m.out_step == 2 * item) return copy_stepping<T, 2, 1>(m);
  for_rows(m, [&](char* out, const char* in) {
    for (int64_t i = 0; i < m.n; ++i, out += m.out_step, in += m.in_step)
      *reinterpret_cast<E*>(out) = *reinterpret_cast<const E*>(in);
  });
}

void copy_block(const Plan& plan, const CopiedRows& m) {
  if (plan.out.dtype != plan.in[0].dtype)
    return for_rows(m, [&](char* out, const char* in) { copy_run(plan, out, in, m.n); });
  switch (item_size(plan.out.dtype)) {
    case 1: return copy_elements<uint8_t>(m);
    case 2: return copy_elements<uint16_t>(m);
    case 4: return copy_elements<uint32_t>(m);
    case 8: return copy_elements<uint64_t>(m);
    default: return copy_elements<Bytes16>(m);
  }
}

// Rows [from, to) of all rows of the plan.
void copy_rows(const Plan& plan, int64_t from, int64_t to) {
  size_t dims = plan.shape.size();
  Dims index(dims);
  int64_t out = 0, in = 0, flat = from;
  for (size_t d = 1; d < dims; ++d) {
    index[d] = flat % plan.shape[d];
    flat /= plan.shape[d];
    out += index[d] * plan.out.strides[d];
    in += index[d] * plan.in[0].strides[d];
  }
  CopiedRows m{nullptr, nullptr, 0, 0, plan.out.strides[0], plan.in[0].strides[0], plan.shape[0], 1};
  if (dims > 1) m.out_row = plan.out.strides[1], m.in_row = plan.in[0].strides[1];
  while (from < to) {
    m.count = dims > 1 ? std::min(to - from, plan.shape[1] - index[1]) : 1;
    m.out = plan.out.data + out, m.in = plan.in[0].data + in;
    copy_block(plan, m);
    from += m.count;
    if (dims == 1) return;
    out += m.count * m.out_row, in += m.count * m.in_row, index[1] += m.count;
    for (size_t d = 1; d + 1 < dims && index[d] == plan.shape[d]; ++d) {
      out += plan.out.strides[d + 1] - plan.shape[d] * plan.out.strides[d];
      in += plan.in[0].strides[d + 1] - plan.shape[d] * plan.in[0].strides[d];
      index[d] = 0;
      ++index[d + 1];
    }
  }
}

void copy_all(const Plan& plan) {
  int64_t n = plan.shape[0], rows = plan.numel / n;
  if (rows > 1) {
    parallel_for(0, rows, std::max<int64_t>(1, kGrain / n),
                 [&](int64_t from, int64_t to) { copy_rows(plan, from, to); });
    return;
  }
  parallel_for(0, n, kGrain, [&](int64_t from, int64_t to) {
    int64_t out_step = plan.out.strides[0], in_step = plan.in[0].strides[0];
    copy_block(plan, {plan.out.data + from * out_step, plan.in[0].data + from * in_step, 0, 0, out_step, in_step,
                      to - from, 1});
  });
}

template <class T>
void conjugate_in_place(const Tensor& out) {
  Plan plan = copy_plan_by_rows(out, out);
  for (int64_t i = 0; i < plan.numel; ++i) {
    int64_t flat = i, at = 0;
    for (size_t d = 0; d < plan.shape.size(); ++d) {
      at += flat % plan.shape[d] * plan.out.strides[d];
      flat /= plan.shape[d];
    }
    T* imag = reinterpret_cast<T*>(plan.out.data + at) + 1;
    *imag = -*imag;
  }
}

/// Contiguous elements with the sign of their imaginary parts turned.
template <class Word>
void copy_conjugates(int64_t count, void* out, const void* in) {
  constexpr Word sign = Word(1) << (8 * sizeof(Word) - 1);
  parallel_for(0, count, kGrain, [=](int64_t from, int64_t to) {
    auto* o = static_cast<Word*>(out);
    auto* a = static_cast<const Word*>(in);
#pragma omp simd simdlen(kLight / (2 * sizeof(Word)))
    for (int64_t i = from; i < to; ++i) {
      o[2 * i] = a[2 * i];
      o[2 * i + 1] = a[2 * i + 1] ^ sign;
    }
  });
}

/// Copies what is lazily conjugated on one side, dense on both; false where it is not like that.
bool copy_conjugated(const Tensor& out, const Tensor& in) {
  if (out.is_conj() == in.is_conj() || out.dtype() != in.dtype() || !out.is_contiguous() || !in.is_contiguous() ||
      out.sizes() != in.sizes())
    return false;
  if (out.dtype() == DType::Complex64) copy_conjugates<uint32_t>(out.numel(), out.impl()->data, in.impl()->data);
  else if (out.dtype() == DType::Complex128) copy_conjugates<uint64_t>(out.numel(), out.impl()->data, in.impl()->data);
  else return false;
  return true;
}

/// One piece of memory into another; false where it is not that.
bool copy_dense(const Tensor& out, const Tensor& in) {
  if (out.dtype() != in.dtype() || !out.is_contiguous() || !in.is_contiguous() || out.numel() != in.numel() ||
      out.is_conj() != in.is_conj() || out.dtype() == DType::Bool)
    return false;
  const int64_t item = out.item_size();
  char* to = out.data<char>();
  const char* from = in.data<char>();
  parallel_for(0, out.numel(), kGrain,
               [=](int64_t a, int64_t b) { copy_bytes(to + a * item, from + a * item, (b - a) * item); });
  return true;
}

// ---- Few elements into contiguous memory: the plan is dimensions on the stack

constexpr int64_t kLittle = 4096, kLittleDims = 8;

/// Dimensions of what is read, innermost first; those that lie evenly are one. Steps are in elements.
struct LittleDims {
  int64_t count = 0, size[kLittleDims], step[kLittleDims];

  explicit LittleDims(const Tensor& t) {
    for (int64_t d = t.dim(); d-- > 0;) {
      const int64_t n = t.size(d), by = t.stride(d);
      if (n == 1) continue;
      if (count && step[count - 1] * size[count - 1] == by) {
        size[count - 1] *= n;
      } else {
        size[count] = n;
        step[count++] = by;
      }
    }
    if (count == 0) size[0] = step[0] = count = 1;
  }

  /// Calls f(offset of what is read) for every block of the first `inner` dimensions, in the order of the result.
  template <class F>
  void each_block(int64_t inner, F&& f) const {
    int64_t index[kLittleDims] = {}, offset = 0;
    while (true) {
      f(offset);
      int64_t d = inner;
      for (; d < count; ++d) {
        offset += step[d];
        if (++index[d] < size[d]) break;
        offset -= size[d] * step[d];
        index[d] = 0;
      }
      if (d == count) return;
    }
  }
};

/// Blocks of the innermost dimensions whose offsets are written down once.
template <class T>
void copy_by_offsets(char* out, const char* in, const LittleDims& dims) {
  using E = typename Element<T>::type;
  constexpr int64_t kShort = 16, kLong = 256;  // elements of a block
  int32_t offsets[kLong];
  int64_t inner = 0, n = 1;
  offsets[0] = 0;
  while (inner < dims.count && n < kShort && n * dims.size[inner] <= kLong) {
    const int64_t before = n, step = dims.step[inner], size = dims.size[inner++];
    for (int64_t k = 1; k < size; ++k)
      for (int64_t i = 0; i < before; ++i) offsets[n++] = offsets[i] + static_cast<int32_t>(k * step);
  }
  E* o = reinterpret_cast<E*>(out);
  // the next dimension is walked along, however long it is
  const bool more = inner < dims.count;
  const int64_t size = more ? dims.size[inner] : 1, step = more ? dims.step[inner] : 0;
  dims.each_block(inner + more, [&](int64_t offset) {
    const E* from = reinterpret_cast<const E*>(in) + offset;
    for (int64_t k = 0; k < size; ++k, from += step, o += n)
      for (int64_t i = 0; i < n; ++i) o[i] = from[offsets[i]];
  });
}

/// False where there are many elements, or they do not come to lie one behind the other.
template <class T>
bool copy_little(const Tensor& out, const Tensor& in) {
  constexpr int64_t item = sizeof(T), kSmallest = 16;  // bytes of a row that is copied as one
  const LittleDims dims(in);
  char* to = out.data<char>();
  const char* from = in.data<char>();
  const int64_t n = dims.size[0], by = dims.step[0];
  if (by == 1 ? n * item >= kSmallest : (by >= -1 && by <= 2 && n >= kTile / 2)) {  // rows of vectors
    const int64_t rows = dims.count > 1 ? dims.size[1] : 1, step = dims.count > 1 ? dims.step[1] * item : 0;
    dims.each_block(std::min<int64_t>(2, dims.count), [&](int64_t offset) {
      copy_elements<T>({to, from + offset * item, n * item, step, item, by * item, n, rows});
      to += rows * n * item;
    });
    return true;
  }
  for (int64_t d = 1; d < dims.count; ++d)
    if (dims.step[d] == 1 && dims.size[d] >= kTile / 2 && n >= kTile / 2) return false;  // by transposed squares
  int64_t reach = 0;
  for (int64_t d = 0; d < dims.count; ++d) reach += std::abs(dims.step[d]) * dims.size[d];
  if (reach > INT32_MAX) return false;
  copy_by_offsets<T>(to, from, dims);
  return true;
}

bool copy_little(const Tensor& out, const Tensor& in) {
  if (out.numel() > kLittle || !out.is_contiguous() || out.dtype() != in.dtype() || out.is_conj() != in.is_conj() ||
      in.dim() > kLittleDims || in.sizes() != out.sizes())
    return false;
  switch (out.item_size()) {
    case 1: return copy_little<uint8_t>(out, in);
    case 2: return copy_little<uint16_t>(out, in);
    case 4: return copy_little<uint32_t>(out, in);
    case 8: return copy_little<uint64_t>(out, in);
    default: return copy_little<Bytes16>(out, in);
  }
}

void copy_cpu(const Tensor& out, const Tensor& in) {
  if (out.numel() == 0) return;
  if (copy_little(out, in)) return;
  LockRelease release(out.numel() > kGrain);
  if (copy_dense(out, in) || copy_conjugated(out, in)) return;
  Plan plan = copy_plan_by_rows(out, in);
  int64_t item = out.item_size();
  int64_t d = out.dtype() == in.dtype() ? transposed_dim(plan, item) : -1;
  if (d > 0) copy_transposed(plan, d, item);
  else copy_all(plan);
  if (out.is_conj() != in.is_conj() && out.is_complex()) {
    if (out.dtype() == DType::Complex64) conjugate_in_place<float>(out);
    else if (out.dtype() == DType::Complex128) conjugate_in_place<double>(out);
  }
}

// ---- fill_

bool is_zero(const Scalar& value) {
  if (value.is_complex()) return false;
  return value.is_floating() ? value.to_double() == 0 && !std::signbit(value.to_double()) : value.to_int() == 0;
}

constexpr int64_t kFillBlock = 4 * kVectorBytes;

/// Every element of a dense tensor, by whole vectors: `block` holds a whole number of elements of any dtype.
void fill_dense(const Tensor& out, const char* block) {
  constexpr int64_t kBlock = kFillBlock;
  const int64_t bytes = out.numel() * out.item_size();
  parallel_for(0, (bytes + kBlock - 1) / kBlock, kGrain / (kBlock / 16), [&](int64_t from, int64_t end) {
    const auto v = load_vector(reinterpret_cast<const uint8_t*>(block));
    const int64_t whole = std::min(bytes / kBlock, end);
    char* to =
        out.data<char>() + from * kBlock;  // of its own, for the compiler: stores of bytes may change what is captured
    for (; from < whole; ++from, to += kBlock) {
      for (int64_t k = 0; k < kBlock; k += kVectorBytes) std::memcpy(to + k, &v, sizeof v);
    }
    if (from < end) std::memcpy(to, block, static_cast<size_t>(bytes - from * kBlock));
  });
}

void fill_cpu(const Tensor& out, const Scalar& value) {
  const LockRelease release(out.numel() > kGrain);
  if (out.is_dense() && is_zero(value)) {  // all bits zero in every dtype
    if (out.numel()) std::memset(out.data(), 0, static_cast<size_t>(out.numel() * out.item_size()));
    return;
  }
  alignas(64) char block[kFillBlock];
  const bool dense = out.is_dense(), few = dense && out.numel() * out.item_size() <= kFillBlock;
  visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    const T converted = element_of<T>(value);
    T* to = few ? out.data<T>() : reinterpret_cast<T*>(block);
    const int64_t count = few ? out.numel() : dense ? kFillBlock / static_cast<int64_t>(sizeof(T)) : 1;
    std::fill_n(to, count, converted);
  });
  if (few) return;
  if (dense) return fill_dense(out, block);
  Plan plan = copy_plan_by_rows(out, out);  // of one element for all places
  plan.in[0].data = block;
  for (int64_t& stride : plan.in[0].strides) stride = 0;
  copy_all(plan);
}

}  // namespace

void register_copy() {
  copy_kernel.set(DeviceType::CPU, copy_cpu);
  fill_kernel.set(DeviceType::CPU, fill_cpu);
}

}  // namespace facula::cpu::FACULA_ISA
