// Number sequences, index tables and windows.
#include "ops/sequence.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/asking.h"
#include "core/checked.h"
#include "core/parallel.h"
#include "kernels/special_bessel.h"
#include "raw_create.h"
#include "raw_elementwise.h"
#include "raw_split_join.h"

namespace facula::ops {
namespace {

DType sequence_dtype(std::optional<DType> dtype, const Out& out, std::initializer_list<Scalar> numbers) {
  if (dtype) return *dtype;
  if (out.given()) return out.dtype_or(DType::Int64);
  for (const Scalar& s : numbers) {
    if (s.is_floating()) return default_dtype();
  }
  return DType::Int64;
}

void check_real(const char* op, std::initializer_list<Scalar> numbers) {
  for (const Scalar& s : numbers)
    FACULA_CHECK(!s.is_complex(), ErrorKind::Runtime, op, ": expected real numbers, got ", s);
}

// How many steps lead from start to end, as a fraction.
double checked_steps(const char* op, const Scalar& start, const Scalar& end, const Scalar& step) {
  double from = start.to_double(), to = end.to_double(), by = step.to_double();
  FACULA_CHECK(by != 0, ErrorKind::Runtime, op, ": step must not be zero, got ", step);
  FACULA_CHECK(std::isfinite(from) && std::isfinite(to), ErrorKind::Runtime, op, ": start and end must be finite, got ",
               start, " and ", end);
  FACULA_CHECK((by > 0 && to >= from) || (by < 0 && to <= from), ErrorKind::Runtime, op,
               ": the sign of step must lead from start to end, got start ", start, ", end ", end, " and step ", step);
  double steps = (to - from) / by;
  whole_count(steps + 1, op, "the number of elements", "start ", start, ", end ", end, " and step ", step);
  return steps;
}

Tensor progression(int64_t count, DType dtype, const Scalar& start, const Scalar& step, std::optional<Device> device,
                   const Out& out) {
  Device where = device.value_or(out.device_or(kCPU));
  if (is_bits(dtype)) {
    return make_there(count, dtype, where, out, [&](const Tensor& vector) {
      whole_progression_kernel(vector.device(), vector, start.to_int(), step.to_int());
    });
  }
  return make_progressions(count, dtype, where, out, {{count, start.to_double(), step.to_double(), 0}});
}

// int64 is counted exactly, beyond the 53 bits of a double; the other dtypes as fractions, before numbers are rounded.
int64_t arange_count(DType dtype, const Scalar& start, const Scalar& end, const Scalar& step) {
  double steps = checked_steps("arange", start, end, step);
  FACULA_CHECK(!is_bits(dtype) || step.to_int() != 0, ErrorKind::Value, "arange: step must not become zero as ", dtype,
               ", got ", step);
  if (dtype != DType::Int64) return static_cast<int64_t>(std::ceil(steps));
  for (const Scalar& s : {start, end, step})
    FACULA_CHECK(s.dtype() != DType::UInt64, ErrorKind::Runtime, "arange: numbers with a value in int64, got ", s);
  __int128 gap = static_cast<__int128>(end.to_int()) - start.to_int(), by = step.to_int();
  return static_cast<int64_t>((gap + by - (by > 0 ? 1 : -1)) / by);
}

}  // namespace

Tensor arange(const Scalar& start, const Scalar& end, const Scalar& step, std::optional<DType> dtype,
              std::optional<Device> device, const Out& out) {
  check_real("arange", {start, end, step});
  DType d = sequence_dtype(dtype, out, {start, end, step});
  FACULA_CHECK(d != DType::Bool && !is_complex(d), ErrorKind::NotImplemented,
               "arange: expected a dtype of real numbers, got ", d);
  int64_t count = arange_count(d, start, end, step);
  return progression(count, d, start, step, device, out);
}

Tensor arange(const Scalar& start, const Scalar& end, std::optional<DType> dtype, std::optional<Device> device,
              const Out& out) {
  return arange(start, end, Scalar(1), dtype, device, out);
}

Tensor arange(const Scalar& end, std::optional<DType> dtype, std::optional<Device> device, const Out& out) {
  return arange(Scalar(0), end, Scalar(1), dtype, device, out);
}

Tensor range(const Scalar& start, const Scalar& end, const Scalar& step, std::optional<DType> dtype,
             std::optional<Device> device, const Out& out) {
  check_real("range", {start, end, step});
  if (host.warn) host.warn("range: deprecated and different from Python's range, as the end is included; use arange");
  DType d = dtype.value_or(out.dtype_or(default_dtype()));
  int64_t count = static_cast<int64_t>(std::floor(checked_steps("range", start, end, step))) + 1;
  return progression(count, d, start, step, device, out);
}

namespace {

Scalar end_point(const Operand& point, const char* op) {
  if (!point.is_tensor()) return point.scalar();
  Tensor t = point.tensor();
  FACULA_CHECK(t.dim() == 0, ErrorKind::Runtime, op, ": start and end must be numbers or 0-d tensors, got shape ",
               t.sizes());
  return t.item();
}

struct Spacing {
  DType dtype;
  Device device;
  Scalar start, end;
};

Spacing spacing(const char* op, const Operand& start, const Operand& end, int64_t steps, std::optional<DType> dtype,
                std::optional<Device> device, const Out& out) {
  FACULA_CHECK(steps >= 0, ErrorKind::Runtime, op, ": the number of steps must not be negative, got ", steps);
  Spacing s{DType::Float32, kCPU, end_point(start, op), end_point(end, op)};
  bool complex = s.start.is_complex() || s.end.is_complex();
  DType natural = complex ? complex_dtype(default_dtype()) : default_dtype();
  s.dtype = dtype.value_or(out.dtype_or(natural));
  FACULA_CHECK(!complex || is_complex(s.dtype), ErrorKind::Runtime, op,
               ": complex start or end need a complex dtype, got ", s.dtype);
  s.device = device              ? *device
             : start.is_tensor() ? start.tensor().device()
             : end.is_tensor()   ? end.tensor().device()
                                 : out.device_or(kCPU);
  auto rounded = [&](const Scalar& x) {
    return visit_dtype(s.dtype, [&]<class T>(TypeTag<T>) -> Scalar {
      if constexpr (std::is_integral_v<T>) return Scalar(x.to<T>());
      else return x;
    });
  };
  s.start = rounded(s.start);
  s.end = rounded(s.end);
  return s;
}

// Points are counted from the nearer end, so that both ends are exact and the sequence is symmetric.
template <class T>
struct Points {
  Points(T start, T end, int64_t steps)
      : start(start),
        end(steps == 1 ? start : end),
        step((this->end - start) / static_cast<double>(std::max<int64_t>(steps - 1, 1))),
        half(static_cast<double>(steps / 2)),
        last(static_cast<double>(steps - 1)) {}
  T operator()(Place p) const {
    const double i = p.real(), back = i - last;  // both, so that there is nothing to branch for
    const bool first_half = i < half;
    return (first_half ? start : end) + step * (first_half ? i : back);
  }
  T start, end, step;
  double half, last;  // place numbers
};

}  // namespace

Tensor linspace(const Operand& start, const Operand& end, int64_t steps, std::optional<DType> dtype,
                std::optional<Device> device, const Out& out) {
  Spacing s = spacing("linspace", start, end, steps, dtype, device, out);
  if (is_complex(s.dtype))
    return make_vector(steps, s.dtype, s.device, out, Points(s.start.to_complex(), s.end.to_complex(), steps));
  const double from = s.start.to_double(), to = steps == 1 ? from : s.end.to_double();
  const double step = (to - from) / static_cast<double>(std::max<int64_t>(steps - 1, 1));
  return make_progressions(steps, s.dtype, s.device, out, {{steps / 2, from, step, 0}, {steps, to, step, steps - 1}});
}

Tensor logspace(const Operand& start, const Operand& end, int64_t steps, double base, std::optional<DType> dtype,
                std::optional<Device> device, const Out& out) {
  Spacing s = spacing("logspace", start, end, steps, dtype, device, out);
  if (is_complex(s.dtype)) {
    Points exponent(s.start.to_complex(), s.end.to_complex(), steps);
    return make_vector(steps, s.dtype, s.device, out,
                       [=](Place p) { return std::pow(std::complex<double>(base), exponent(p)); });
  }
  if (is_bits(s.dtype)) {  // PyTorch takes the distance in float32 here, which shows where a power is nearly whole
    double from = s.start.to_double(), to = steps == 1 ? from : s.end.to_double();
    float step = static_cast<float>(to - from) / static_cast<float>(std::max<int64_t>(steps - 1, 1));
    return make_vector(steps, s.dtype, s.device, out, [=](Place p) {
      const int64_t i = p.whole();
      float exponent = i < steps / 2 ? static_cast<float>(from) + step * static_cast<float>(i)
                                     : static_cast<float>(to) - step * static_cast<float>(steps - 1 - i);
      return std::pow(base, static_cast<double>(exponent));
    });
  }
  Points exponent(s.start.to_double(), s.end.to_double(), steps);
  return make_vector(steps, s.dtype, s.device, out, [=](Place p) { return std::pow(base, exponent(p)); });
}

Tensor eye(int64_t n, int64_t m, std::optional<DType> dtype, std::optional<Device> device, const Out& out) {
  FACULA_CHECK(n >= 0, ErrorKind::Runtime, "eye: n must not be negative, got ", n);
  FACULA_CHECK(m >= 0, ErrorKind::Runtime, "eye: m must not be negative, got ", m);
  DType d = dtype.value_or(out.dtype_or(default_dtype()));
  Tensor result = zeros({n, m}, d, device.value_or(out.device_or(kCPU)), out);
  int64_t count = std::min(n, m);
  if (result.is_meta() || count == 0) return result;
  fill_kernel(result.device(), make_view(result, {count}, {m + 1}, 0, false), Scalar(1));
  return result;
}

Tensor eye(int64_t n, std::optional<DType> dtype, std::optional<Device> device, const Out& out) {
  return eye(n, n, dtype, device, out);
}

namespace {

// How many positions of a matrix have column <= row + offset.
__int128 count_lower(__int128 row, __int128 col, __int128 offset) {
  __int128 begin = std::clamp<__int128>(-offset, 0, row);              // rows before have none
  __int128 full = std::clamp<__int128>(col - offset - 1, begin, row);  // rows from here on have all columns
  return (full - begin) * (begin + full + 2 * offset + 1) / 2 + (row - full) * col;
}

// Positions (row, column) with column <= row + offset, or those with column >= row + offset, row by row.
Tensor triangle_indices(const char* op, bool lower, int64_t row, int64_t col, int64_t offset,
                        std::optional<DType> dtype, std::optional<Device> device) {
  FACULA_CHECK(row >= 0, ErrorKind::Runtime, op, ": row must not be negative, got ", row);
  FACULA_CHECK(col >= 0, ErrorKind::Runtime, op, ": col must not be negative, got ", col);
  DType d = dtype.value_or(DType::Int64);
  FACULA_CHECK(d == DType::Int64 || d == DType::Int32, ErrorKind::Runtime, op, ": dtype must be int32 or int64, got ",
               d);
  offset = std::clamp(offset, -row, col);
  __int128 exact =
      lower ? count_lower(row, col, offset) : __int128{row} * col - count_lower(row, col, __int128{offset} - 1);
  FACULA_CHECK(exact <= std::numeric_limits<int64_t>::max(), ErrorKind::Runtime, op,
               ": too many positions for 64 bits, got ", row, " rows and ", col, " columns");
  int64_t count = static_cast<int64_t>(exact);
  Device where = device.value_or(kCPU);
  Tensor result = facula::empty({2, count}, d, where);
  if (result.is_meta() || count == 0) return result;
  const bool direct = d == DType::Int64 && result.device() == kCPU;
  Tensor host = direct ? result : facula::empty({2, count}, DType::Int64);
  int64_t *rows = host.data<int64_t>(), *columns = rows + count, *end = columns;
  const LockRelease release(count > kGrain);
  // the longest row has all columns of the others, which are copied from it
  const int64_t least = lower ? 0 : std::max<int64_t>(offset, 0), most = lower ? std::min(row + offset, col) : col;
  std::vector<int64_t> longest(static_cast<size_t>(most - least));
  std::iota(longest.begin(), longest.end(), least);
  LongWork written;
  for (int64_t r = lower ? std::max<int64_t>(-offset, 0) : 0; rows != end; ++r) {
    int64_t first = lower ? 0 : std::max<int64_t>(r + offset, 0), last = lower ? std::min(r + offset + 1, col) : col;
    rows = std::fill_n(rows, last - first, r);
    columns = std::copy_n(longest.begin() + (first - least), last - first, columns);
    written.did(last - first + 1);
  }
  if (!direct) copy_elements(result, host);
  return result;
}

}  // namespace

Tensor tril_indices(int64_t row, int64_t col, int64_t offset, std::optional<DType> dtype,
                    std::optional<Device> device) {
  return triangle_indices("tril_indices", true, row, col, offset, dtype, device);
}

Tensor triu_indices(int64_t row, int64_t col, int64_t offset, std::optional<DType> dtype,
                    std::optional<Device> device) {
  return triangle_indices("triu_indices", false, row, col, offset, dtype, device);
}

namespace {

DType window_dtype(const char* op, int64_t length, std::optional<DType> dtype) {
  DType d = dtype.value_or(default_dtype());
  FACULA_CHECK(is_floating(d), ErrorKind::Runtime, op, ": expected a floating point dtype, got ", d);
  FACULA_CHECK(length >= 0, ErrorKind::Runtime, op, ": window_length must not be negative, got ", length);
  return d;
}

// `value(i, last)` over a window whose last index is `last`; a periodic one is cut from a window one longer.
template <class F>
Tensor window(const char* op, int64_t length, bool periodic, std::optional<DType> dtype, std::optional<Device> device,
              F value) {
  DType d = window_dtype(op, length, dtype);
  double last = static_cast<double>(periodic ? length : length - 1);
  if (length == 1) return make_vector(length, d, device.value_or(kCPU), Out(), [](Place) { return 1.0; });
  return make_vector(length, d, device.value_or(kCPU), Out(), [=](Place p) { return value(p, last); });
}

/// A window that is `value` of the cosines of its angles. They are taken in the first half; the second one mirrors it.
template <class F>
Tensor cosine_window(const char* op, int64_t length, bool periodic, std::optional<DType> dtype,
                     std::optional<Device> device, F value) {
  constexpr double kTurn = 6.28318530717958647692;
  const DType d = window_dtype(op, length, dtype);
  const Tensor result = facula::empty({length}, d, device.value_or(kCPU));
  if (result.is_meta() || length == 0) return result;
  if (length == 1) {
    fill_kernel(result.device(), result, Scalar(1));
    return result;
  }
  const int64_t last = periodic ? length : length - 1, first_half = last / 2 + 1;
  const Tensor cosines = cos(make_progressions(first_half, DType::Float64, kCPU, Out(),
                                               {{first_half, 0, kTurn / static_cast<double>(last), 0}}));
  const double* c = cosines.data<double>();
  const Tensor half = make_vector(first_half, d, kCPU, Out(), [=](Place p) { return value(c[p.whole()]); });
  const auto part = [](const Tensor& of, int64_t from, int64_t count) {
    return make_view(of, {count}, {1}, from, false);
  };
  copy_elements(part(result, 0, first_half), half);
  copy_elements(part(result, first_half, length - first_half),
                flip(part(half, last - length + 1, length - first_half), {0}));
  return result;
}

}  // namespace

Tensor bartlett_window(int64_t length, bool periodic, std::optional<DType> dtype, std::optional<Device> device) {
  return window("bartlett_window", length, periodic, dtype, device,
                [](Place p, double last) { return 1 - std::abs(2 * p.real() / last - 1); });
}

Tensor blackman_window(int64_t length, bool periodic, std::optional<DType> dtype, std::optional<Device> device) {
  return cosine_window("blackman_window", length, periodic, dtype, device,
                       [](double c) { return std::max(0.42 - 0.5 * c + 0.08 * (2 * c * c - 1), 0.0); });
}

Tensor hamming_window(int64_t length, bool periodic, double alpha, double beta, std::optional<DType> dtype,
                      std::optional<Device> device) {
  return cosine_window("hamming_window", length, periodic, dtype, device, [=](double c) { return alpha - beta * c; });
}

Tensor hann_window(int64_t length, bool periodic, std::optional<DType> dtype, std::optional<Device> device) {
  return cosine_window("hann_window", length, periodic, dtype, device, [](double c) { return 0.5 - 0.5 * c; });
}

Tensor kaiser_window(int64_t length, bool periodic, double beta, std::optional<DType> dtype,
                     std::optional<Device> device) {
  double scale = kernels::i0(beta);
  return window("kaiser_window", length, periodic, dtype, device, [=](Place p, double last) {
    double x = 2 * p.real() / last - 1;
    return kernels::i0(beta * std::sqrt(std::max(1 - x * x, 0.0))) / scale;
  });
}

}  // namespace facula::ops
