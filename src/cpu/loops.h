// Defines the loop of which every element-wise op is made: contiguous inputs, contiguous output, one plain scalar
// function.
#pragma once

#include <algorithm>
#include <complex>
#include <utility>

#include "core/dtype.h"
#include "cpu/isa.h"
#include "cpu/processor.h"
#include "kernels/complex.h"
#include "ops/iterator.h"

namespace facula::cpu::FACULA_ISA {

/// The type that scalar functions see for an element type of memory.
template <class T>
struct KernelType {
  using type = T;
};
template <class T>
struct KernelType<std::complex<T>> {
  using type = kernels::Complex<T>;
};
template <DType D>
using kernel_t = decltype(visit_dtype(D, []<class T>(TypeTag<T>) { return T{}; }));

// Truth values are read and written as bytes: loops over bool do not vectorize.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, uint8_t, T>;
template <class T>
inline T loaded(Stored<T> x) {
  if constexpr (std::is_same_v<T, bool>) return x != 0;
  else return x;
}

// With the widest vectors, Intel's processors start to fetch the line that a store goes to only when all computation
// before it is done, so that computing and waiting add up: there loops ask for the memory of later elements ahead
// (`asks_ahead`). Elsewhere (measured on Zen 3 and Zen 4) asking costs a quarter more than it saves.
constexpr int64_t kBytesPerBlock = 512;  // larger ones have more requests in flight than the processor keeps
constexpr int64_t kBytesAhead = 4096;

template <bool Write, class T>
void ask_for(const T* p, int64_t count) {
  for (int64_t i = 0; i < count; i += 64 / sizeof(T)) __builtin_prefetch(p + i, Write);
}

/// Calls block(from, count) for all of 0 to n; `out` and `in` are what it writes and reads. Blocks are short where
/// later memory is prefetched in between; otherwise there is one.
template <class R, class F, class... T>
void in_blocks(int64_t n, const R* out, F block, const T*... in) {
  if constexpr (kVectorBytes < 64) return block(0, n);
  constexpr int64_t largest = std::max({sizeof(T)...}), ahead = kBytesAhead / largest;
  const int64_t length = asks_ahead ? kBytesPerBlock / largest : n;
  for (int64_t from = 0; from < n; from += length) {
    if (from + ahead + length <= n) {
      (ask_for<false>(in + from + ahead, length), ...);
      ask_for<true>(out + from + ahead, length);
    }
    block(from, std::min(length, n - from));
  }
}

/// What loops of several inputs compute at once: whole vectors of the smallest type. An input that is a number stays
/// where it is from block to block, so that one compiled loop serves numbers and elements.
constexpr int64_t kLoopBlock = kVectorBytes;
static_assert(kLoopBlock <= kRepeats);

/// Bytes of the vectors of loops that take no longer than memory does. Zen 4 moves 32 bytes at a time as fast as 64 in
/// its first caches, and faster by a tenth to a quarter beyond them.
constexpr int kLight = std::min(kVectorBytes, 32);

template <int bytes, class... T, class R, class F, size_t... k>
[[gnu::always_inline]] inline void block_loop(int64_t n, R* o, const LoopInput* in, F f, std::index_sequence<k...>,
                                              const Stored<T>*... a) {
  constexpr int64_t largest = std::max({sizeof(T)..., sizeof(R)}), ahead = kBytesAhead / largest;
  constexpr int64_t lanes = bytes / std::min({sizeof(T)..., sizeof(R)});
  const int64_t step[] = {in[k].step...};
  const bool asks = kVectorBytes == 64 && asks_ahead;
  for (; n >= kLoopBlock; n -= kLoopBlock, o += kLoopBlock, ((a += step[k] * kLoopBlock), ...)) {
    if (asks && n >= ahead + kLoopBlock) {
      (ask_for<false>(a + step[k] * ahead, kLoopBlock), ...);
      ask_for<true>(o + ahead, kLoopBlock);
    }
#pragma omp simd simdlen(lanes)
    for (int64_t i = 0; i < kLoopBlock; ++i) o[i] = f(loaded<T>(a[i])...);
  }
  FACULA_SIMD
  for (int64_t i = 0; i < n; ++i) o[i] = f(loaded<T>(a[i])...);
}

template <class T>
const Stored<T>* elements(const LoopInput& in) {
  return static_cast<const Stored<T>*>(in.data);
}

template <class T, class R, int bytes = kVectorBytes, class F>
void unary_loop(int64_t n, void* out, const LoopInput* in, F f) {
  auto* o = static_cast<Stored<R>*>(out);
  auto* a = elements<T>(in[0]);
  in_blocks(
      n, o,
      [=](int64_t from, int64_t count) {
#pragma omp simd simdlen(bytes / std::min(sizeof(T), sizeof(R)))
        for (int64_t i = from; i < from + count; ++i) o[i] = f(loaded<T>(a[i]));
      },
      a);
}

template <class T, class R, int bytes = kVectorBytes, class F>
void binary_loop(int64_t n, void* out, const LoopInput* in, F f) {
  block_loop<bytes, T, T>(n, static_cast<Stored<R>*>(out), in, f, std::make_index_sequence<2>(), elements<T>(in[0]),
                          elements<T>(in[1]));
}

template <class T, class R, int bytes = kVectorBytes, class F>
void ternary_loop(int64_t n, void* out, const LoopInput* in, F f) {
  block_loop<bytes, T, T, T>(n, static_cast<Stored<R>*>(out), in, f, std::make_index_sequence<3>(), elements<T>(in[0]),
                             elements<T>(in[1]), elements<T>(in[2]));
}

/// As binary_loop, where `quick` is a form of `f` that vectorizes but holds only where `hard` is false. `hard` is rare.
template <class T, class R, class F, class Quick, class Hard>
void quick_binary_loop(int64_t n, void* out, const LoopInput* in, F f, Quick quick, Hard hard) {
  auto* o = static_cast<Stored<R>*>(out);
  const Stored<T>*a = elements<T>(in[0]), *b = elements<T>(in[1]);
  const int64_t a_step = in[0].step * kRepeats, b_step = in[1].step * kRepeats;
  for (; n > 0; n -= kRepeats, o += kRepeats, a += a_step, b += b_step) {
    int64_t count = n < kRepeats ? n : kRepeats;
    unsigned any = 0;
    for (int64_t i = 0; i < count; ++i) any |= static_cast<unsigned>(hard(a[i], b[i]));
    if (any) {
      for (int64_t i = 0; i < count; ++i) o[i] = f(loaded<T>(a[i]), loaded<T>(b[i]));
      continue;
    }
    FACULA_SIMD
    for (int64_t i = 0; i < count; ++i) o[i] = quick(a[i], b[i]);
  }
}

}  // namespace facula::cpu::FACULA_ISA
