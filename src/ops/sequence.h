// Makes tensors whose elements are a formula of their place. Arithmetic progressions are written where they belong;
// others are computed on the host, in double precision, complex double precision or as exact integers, then converted
// and copied there.
#pragma once

#include <algorithm>
#include <utility>

#include "core/kernel.h"
#include "core/parallel.h"
#include "ops/out.h"

namespace facula {

/// out[k] = base + step * (first + k) in a contiguous vector, computed in double precision and then converted.
inline Kernel<void(const Tensor& out, double base, double step, int64_t first)> progression_kernel{"progression"};
/// out[k] = base + step * k, computed modulo 2^64 and then converted.
inline Kernel<void(const Tensor& out, int64_t base, int64_t step)> whole_progression_kernel{"whole_progression"};

}  // namespace facula

namespace facula::ops {

/// A place in a sequence: whole, or as a double, which is all that most formulas need. Counted from `base`, so that
/// vectors of neighboring places need no conversion of 64-bit numbers, for which there may be no instruction.
struct Place {
  int64_t whole() const { return base + ahead; }
  double real() const { return real_base + ahead; }
  int64_t base;
  double real_base;
  int ahead;
};

constexpr int64_t kSequenceRun = 1024;  // stays in the first-level cache

/// data[k] = value(place from + k) for 0 <= k < count, which is no more than a run.
template <class V, class F>
void write_run(V* data, int64_t from, int64_t count, const F& value) {
  const double real = static_cast<double>(from);
  const F here = value;  // what the stores cannot change
#pragma omp simd
  for (int k = 0; k < static_cast<int>(count); ++k) data[k] = here(Place{from, real, k});
}

/// Memory for a vector, which an out= with as many elements takes in their order, whatever its shape.
inline Tensor make_flat(int64_t count, DType dtype, Device device, const Out& out) {
  const bool shaped = out.given() && out.tensor().numel() == count;
  const IntList vector{&count, 1};
  return out.make(shaped ? out.tensor().sizes() : vector, dtype, device);
}

/// A vector that `write(host)` fills: where it belongs, or contiguous memory of the host that is copied there.
template <class F>
Tensor make_on_host(int64_t count, DType dtype, Device device, const Out& out, F write) {
  Tensor result = make_flat(count, dtype, device, out);
  if (result.is_meta() || count == 0) return result;
  Tensor host = result.is_cpu() && result.is_contiguous() ? result : facula::empty({count}, dtype);
  write(host);
  if (host.impl() != result.impl()) copy_elements(result, host);
  return result;
}

/// A vector of `value(place)`: int64_t, double or std::complex<double>, which are converted to `dtype` as copies are.
template <class F>
Tensor make_vector(int64_t count, DType dtype, Device device, const Out& out, F&& value) {
  using V = decltype(value(Place{}));
  return make_on_host(count, dtype, device, out, [&](const Tensor& host) {
    parallel_for(0, count, kGrain, [&](int64_t from, int64_t to) {
      const bool direct = dtype == dtype_of<V>();
      Tensor run = direct ? Tensor() : facula::empty({std::min(kSequenceRun, to - from)}, dtype_of<V>());
      for (; from < to; from += kSequenceRun) {
        const int64_t length = std::min(kSequenceRun, to - from);
        write_run(direct ? host.data<V>() + from : run.data<V>(), from, length, value);
        if (!direct)
          copy_elements(make_view(host, {length}, {1}, from, false), make_view(run, {length}, {1}, 0, false));
      }
    });
  });
}

/// Elements of a sequence up to `end`, from the end of the part before: base + step * (place - origin).
struct Progression {
  int64_t end;
  double base, step;
  int64_t origin;
};

/// A vector that `write(contiguous)` fills where it belongs.
template <class F>
Tensor make_there(int64_t count, DType dtype, Device device, const Out& out, F write) {
  Tensor result = make_flat(count, dtype, device, out);
  if (result.is_meta() || count == 0) return result;
  const Tensor direct = result.is_contiguous() ? result : facula::empty({count}, dtype, result.device());
  write(direct);
  if (!direct.is_same(result)) copy_elements(result, direct);
  return result;
}

inline Tensor make_progressions(int64_t count, DType dtype, Device device, const Out& out,
                                std::initializer_list<Progression> parts) {
  return make_there(count, dtype, device, out, [&](const Tensor& vector) {
    int64_t from = 0;
    for (const Progression& part : parts) {
      const int64_t begin = std::exchange(from, part.end);
      if (begin == part.end) continue;
      progression_kernel(vector.device(), make_view(vector, {part.end - begin}, {1}, begin, false), part.base,
                         part.step, begin - part.origin);
    }
  });
}

}  // namespace facula::ops
