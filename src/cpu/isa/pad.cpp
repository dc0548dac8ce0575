// Padding with elements of the tensor itself, and its transpose.
#include <algorithm>
#include <cstring>

#include "core/parallel.h"
#include "cpu/isa/by_size.h"
#include "cpu/isa/combine.h"
#include "cpu/isa/lanes.h"
#include "cpu/isa/row_copy.h"
#include "ops/split_join.h"

namespace facula::cpu::FACULA_ISA {
namespace {

int64_t row_grain(const EdgePad& g) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(g.axes[2].out * g.inner, 1));
}

/// Where the input's elements of rows of the output begin, one row after the other.
class SourceRows {
 public:
  SourceRows(const EdgePad& g, int64_t row)
      : g_(g),
        o1_(row % g.axes[1].out),
        o0_(row / g.axes[1].out % g.axes[0].out),
        outer_(row / g.axes[1].out / g.axes[0].out) {
    enter_plane();
  }
  int64_t next() {
    if (o1_ == g_.axes[1].out) {
      o1_ = 0;
      if (++o0_ == g_.axes[0].out) o0_ = 0, ++outer_;
      enter_plane();
    }
    return (plane_ + g_.axes[1].source(o1_++)) * g_.axes[2].in * g_.inner;
  }

 private:
  void enter_plane() { plane_ = (outer_ * g_.axes[0].in + g_.axes[0].source(o0_)) * g_.axes[1].in; }

  const EdgePad& g_;
  int64_t o1_, o0_, outer_, plane_ = 0;
};

// The places of an axis that show the input in order, [from, to), the first of them `source`; and what the others show.
struct InnerAxis {
  int64_t from, to, source;
  Dims before, after;  // mostly few

  explicit InnerAxis(const EdgeAxis& axis) {
    from = std::clamp<int64_t>(axis.lead, 0, axis.out);
    to = std::clamp<int64_t>(axis.lead + axis.length, from, axis.out);
    source = from < axis.out ? axis.source(from) : 0;
    for (int64_t o = 0; o < from; ++o) before.push_back(axis.source(o));
    for (int64_t o = to; o < axis.out; ++o) after.push_back(axis.source(o));
  }
};

/// The parts of a row from `places`, `n` elements each.
template <class T>
T* copy_parts(T* to, const T* from, const int64_t* places, int64_t count, int64_t n) {
  if (n == 1) {
    for (int64_t k = 0; k < count; ++k) to[k] = from[places[k]];
  } else {
    for (int64_t k = 0; k < count; ++k)
      std::memcpy(static_cast<void*>(to + k * n), from + places[k] * n, static_cast<size_t>(n) * sizeof(T));
  }
  return to + count * n;
}

/// `count` rows. What they have in common is in locals: the compiler knows that no write to a row changes it.
template <class T>
void pad_rows(T* to, const T* in, SourceRows rows, int64_t count, const InnerAxis& inner, int64_t n) {
  const int64_t *before = inner.before.data(), *after = inner.after.data(), source = inner.source * n,
                lead = static_cast<int64_t>(inner.before.size()), rest = static_cast<int64_t>(inner.after.size()),
                length = (inner.to - inner.from) * n;
  const RowCopy middle{length * static_cast<int64_t>(sizeof(T))};
  for (int64_t r = 0; r < count; ++r) {
    const T* from = in + rows.next();
    to = copy_parts(to, from, before, lead, n);
    middle(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(from + source));
    to = copy_parts(to + length, from, after, rest, n);
  }
}

#ifdef __AVX512F__

/// Rows of at most sixteen elements of four bytes: a permutation of the row that is read. False where they are not like
/// that.
bool pad_short_rows(const Tensor& out, const Tensor& in, const EdgePad& g) {
  constexpr int64_t kLanes = 16;
  const EdgeAxis& axis = g.axes[2];
  if (out.item_size() != 4 || g.inner != 1 || axis.in > kLanes || axis.out > kLanes || out.numel() > kGrain)
    return false;
  alignas(64) int32_t source[kLanes] = {};
  for (int64_t o = 0; o < axis.out; ++o) source[o] = static_cast<int32_t>(axis.source(o));
  const __m512i at = _mm512_load_si512(source);
  const auto read = static_cast<__mmask16>((1u << axis.in) - 1), written = static_cast<__mmask16>((1u << axis.out) - 1);
  const auto* from = static_cast<const int32_t*>(in.data<void>());
  auto* to = static_cast<int32_t*>(out.data<void>());
  SourceRows rows(g, 0);
  for (int64_t left = out.numel(); left > 0; left -= axis.out, to += axis.out) {
    const __m512i row = _mm512_maskz_loadu_epi32(read, from + rows.next());
    _mm512_mask_storeu_epi32(to, written, _mm512_permutexvar_epi32(at, row));
  }
  return true;
}

#endif

void pad_edges_cpu(const Tensor& out, const Tensor& in, const EdgePad& g) {
#ifdef __AVX512F__
  if (pad_short_rows(out, in, g)) return;
#endif
  LockRelease release(out.numel() > kGrain);
  const InnerAxis inner(g.axes[2]);
  const int64_t width = g.axes[2].out * g.inner;
  visit_size(out.item_size(), [&]<class T>(TypeTag<T>) {
    const T* from = static_cast<const T*>(in.data<void>());
    T* to = static_cast<T*>(out.data<void>());
    parallel_for(0, out.numel() / width, row_grain(g), [&](int64_t begin, int64_t end) {
      pad_rows(to + begin * width, from, SourceRows(g, begin), end - begin, inner, g.inner);
    });
  });
}

// Every outer part is one thread's: rows of one part are added to the same places.
template <class T>
void add_rows(const Tensor& out, const Tensor& grad, const EdgePad& g) {
  const InnerAxis inner(g.axes[2]);
  const int64_t width = g.axes[2].out * g.inner, n = g.inner, rows = g.axes[0].out * g.axes[1].out;
  auto add = [](T* to, const T* from, int64_t count) {
    FACULA_SIMD
    for (int64_t i = 0; i < count; ++i) to[i] = combine<Combine::Add>(to[i], from[i]);
  };
  parallel_for(0, g.outer, std::max<int64_t>(1, row_grain(g) / std::max<int64_t>(rows, 1)),
               [&](int64_t begin, int64_t end) {
                 SourceRows targets(g, begin * rows);
                 for (int64_t r = begin * rows; r < end * rows; ++r) {
                   T* to = out.data<T>() + targets.next();
                   const T* from = grad.data<T>() + r * width;
                   for (int64_t s : inner.before) add(to + s * n, from, n), from += n;
                   add(to + inner.source * n, from, (inner.to - inner.from) * n);
                   from += (inner.to - inner.from) * n;
                   for (int64_t s : inner.after) add(to + s * n, from, n), from += n;
                 }
               });
}

void add_edges_cpu(const Tensor& out, const Tensor& grad, const EdgePad& g) {
  LockRelease release(grad.numel() > kGrain);
  visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (!std::is_integral_v<T>) add_rows<T>(out, grad, g);
  });
}

}  // namespace

void register_pad() {
  pad_edges_kernel.set(DeviceType::CPU, pad_edges_cpu);
  add_edges_kernel.set(DeviceType::CPU, add_edges_cpu);
}

}  // namespace facula::cpu::FACULA_ISA
