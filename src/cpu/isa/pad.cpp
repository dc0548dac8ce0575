// Padding with elements of the tensor itself, and its transpose.
#include <algorithm>
#include <cstring>
#include <vector>

#include "core/parallel.h"
#include "cpu/isa/by_size.h"
#include "cpu/isa/combine.h"
#include "cpu/isa/row_copy.h"
#include "ops/split_join.h"

namespace facula::cpu::FACULA_ISA {
namespace {

int64_t row_grain(const EdgePad& g) {
  return std::max<int64_t>(1, kGrain / std::max<int64_t>(g.axes[2].out * g.inner, 1));
}

// Where the input's elements of a row of the output begin.
int64_t source_row(const EdgePad& g, int64_t row) {
  const EdgeAxis &a = g.axes[0], &b = g.axes[1];
  const int64_t o1 = row % b.out, o0 = row / b.out % a.out, outer = row / b.out / a.out;
  return ((outer * a.in + a.source(o0)) * b.in + b.source(o1)) * g.axes[2].in * g.inner;
}

// The places of an axis that show the input in order, [from, to), the first of them `source`; and what the others show.
struct InnerAxis {
  int64_t from, to, source;
  std::vector<int64_t> before, after;

  explicit InnerAxis(const EdgeAxis& axis) {
    from = std::clamp<int64_t>(axis.lead, 0, axis.out);
    to = std::clamp<int64_t>(axis.lead + axis.length, from, axis.out);
    source = from < axis.out ? axis.source(from) : 0;
    for (int64_t o = 0; o < from; ++o) before.push_back(axis.source(o));
    for (int64_t o = to; o < axis.out; ++o) after.push_back(axis.source(o));
  }
};

template <class T>
void pad_rows(const Tensor& out, const Tensor& in, const EdgePad& g) {
  const InnerAxis inner(g.axes[2]);
  const int64_t width = g.axes[2].out * g.inner, n = g.inner;
  const RowCopy middle{(inner.to - inner.from) * n * static_cast<int64_t>(sizeof(T))};
  auto copy = [n](T* to, const T* from) {
    if (n == 1) *to = *from;
    else std::memcpy(static_cast<void*>(to), from, static_cast<size_t>(n) * sizeof(T));
  };
  parallel_for(0, out.numel() / width, row_grain(g), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const T* from = static_cast<const T*>(in.data<void>()) + source_row(g, r);
      T* to = static_cast<T*>(out.data<void>()) + r * width;
      for (int64_t s : inner.before) copy(to, from + s * n), to += n;
      middle(reinterpret_cast<char*>(to), reinterpret_cast<const char*>(from + inner.source * n));
      to += (inner.to - inner.from) * n;
      for (int64_t s : inner.after) copy(to, from + s * n), to += n;
    }
  });
}

void pad_edges_cpu(const Tensor& out, const Tensor& in, const EdgePad& g) {
  LockRelease release(out.numel() > kGrain);
  visit_size(out.item_size(), [&]<class T>(TypeTag<T>) { pad_rows<T>(out, in, g); });
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
                 for (int64_t r = begin * rows; r < end * rows; ++r) {
                   T* to = out.data<T>() + source_row(g, r);
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
