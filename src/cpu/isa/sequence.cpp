// Writes arithmetic progressions: of float64, float32 and int64 at once, of other dtypes through a buffer.
#include "ops/sequence.h"

#include "core/parallel.h"
#include "cpu/isa.h"
#include "cpu/isa/cast.h"
#include "cpu/isa/lanes.h"

namespace facula::cpu::FACULA_ISA {
namespace {

/// out[k] = base + step * (first + k), in double precision. Places are counted in vectors of doubles: whole numbers of
/// 64 bits have no instruction that converts them.
template <class T>
void write_numbers(T* out, int64_t count, double base, double step, int64_t first) {
  using V = VectorOf<double>::type;
  constexpr int lanes = VectorOf<double>::lanes;
  typedef T Result __attribute__((vector_size(lanes * sizeof(T))));
  V place;
  for (int k = 0; k < lanes; ++k) place[k] = static_cast<double>(first + k);
  for (; count >= lanes; count -= lanes, out += lanes, place += lanes) {
    const Result values = __builtin_convertvector(base + step * place, Result);
    std::memcpy(out, &values, sizeof values);
  }
  for (int64_t k = 0; k < count; ++k) out[k] = static_cast<T>(base + step * place[k]);
}

/// The same in whole numbers, modulo 2^64.
void write_numbers(int64_t* out, int64_t count, uint64_t base, uint64_t step, int64_t first) {
  uint64_t value = base + step * static_cast<uint64_t>(first);
  for (int64_t k = 0; k < count; ++k, value += step) out[k] = static_cast<int64_t>(value);
}

/// write(memory, from, count) for the elements of a contiguous vector: where they belong if they are of type T, else
/// into a buffer that is converted.
template <class T, class F>
void write_runs(const Tensor& out, F write) {
  constexpr int64_t kRun = 1024;
  LockRelease release(out.numel() > kGrain);
  parallel_for(0, out.numel(), kGrain, [&](int64_t from, int64_t to) {
    if (out.dtype() == dtype_of<T>()) return write(out.data<T>() + from, from, to - from);
    alignas(64) T run[kRun];
    for (; from < to; from += kRun) {
      const int64_t count = std::min(kRun, to - from);
      write(run, from, count);
      cast(out.dtype(), dtype_of<T>(), count, out.data<char>() + from * item_size(out.dtype()), run);
    }
  });
}

void write_real(const Tensor& out, double base, double step, int64_t first) {
  const auto write = [=](auto* to, int64_t from, int64_t count) { write_numbers(to, count, base, step, first + from); };
  if (out.dtype() == DType::Float32) write_runs<float>(out, write);
  else write_runs<double>(out, write);
}

void write_whole(const Tensor& out, int64_t base, int64_t step) {
  write_runs<int64_t>(out, [=](int64_t* to, int64_t from, int64_t count) {
    write_numbers(to, count, static_cast<uint64_t>(base), static_cast<uint64_t>(step), from);
  });
}

}  // namespace

void register_sequence() {
  progression_kernel.set(DeviceType::CPU, write_real);
  whole_progression_kernel.set(DeviceType::CPU, write_whole);
}

}  // namespace facula::cpu::FACULA_ISA
