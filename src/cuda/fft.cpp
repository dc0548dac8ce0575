// Fourier transforms: by cuFFT where it is there and takes them (fft_library.cpp), else by kernels of our own.
//
// A pass of fft_pass (kernels/fft.cuh) transforms lines that fit into shared memory; longer lines are divided into as
// few passes as their length allows, each of which is one of Stockham's with a large radix, so that points come out in
// order. Lengths with a large prime factor are convolutions, whose products are made where passes read and write. What
// real transforms need is done there, too: a pass reads real numbers, or the half that determines a line, and writes
// half of the points, or their real parts.
//
// Plans hold tables on the device. They belong to a stream, whose work makes and uses them, so that nothing waits.
#include "cuda/fft.h"

#include <deque>

#include "core/kernel.h"
#include "cuda/device.h"
#include "cuda/fft_library.h"
#include "cuda/kernel.h"
#include "cuda/kernels/fft_args.h"
#include "cuda/stream.h"
#include "ops/fft_plan.h"
#include "raw_elementwise.h"
#include "raw_shape.h"

namespace facula::cuda {
namespace {

using fft::Lines;

constexpr int64_t kSharedBytes = 72 << 10, kUsualBytes = 32 << 10;  // of a block, at most and where there is a choice
constexpr int64_t kMostInBlock = 64 << 10;                          // bytes of a line in one pass, twice
constexpr int64_t kMostOfMany = 1024;                               // points of one pass of many
constexpr int64_t kSectorBytes = 32;                                // what memory reads and writes at once

// ---- plans

struct PlanKey {
  int64_t n;
  DType dtype;  // of real numbers
  Stream stream;
  bool neighbors;  // lines lie next to each other
  bool operator==(const PlanKey&) const = default;
};

struct PassPlan {
  int64_t size, count, stride;
  std::vector<int64_t> radices;
  Tensor roots, coarse, fine;
  int shift = 0;
};

struct FftPlan {
  int64_t n = 0;
  std::vector<PassPlan> passes;  // none where the length has a large prime factor: then a convolution it is
  std::shared_ptr<const FftPlan> convolution;
  Tensor factors, kernel;  // of the convolution: fft::write_chirp; the kernel is transformed

  int64_t bytes() const {
    int64_t sum = 0;
    auto add = [&](const Tensor& t) { sum += t.defined() ? t.numel() * t.item_size() : 0; };
    for (const PassPlan& p : passes) {
      add(p.roots);
      add(p.coarse);
      add(p.fine);
    }
    add(factors);
    add(kernel);
    return sum;
  }
};

/// Points of the longest line that one pass takes.
int64_t most_alone(const PlanKey& key) {
  const int64_t most = kMostInBlock / (4 * item_size(key.dtype));
  return key.neighbors ? std::min(most, kMostOfMany) : most;
}

/// Factors of n, `parts` of them, each at most `most`; empty where there are none. The largest comes first.
std::vector<int64_t> divided(int64_t n, int parts, int64_t most) {
  if (parts == 1) return n <= most ? std::vector<int64_t>{n} : std::vector<int64_t>{};
  auto least = static_cast<int64_t>(std::pow(static_cast<double>(n), 1.0 / parts));
  for (int64_t factor = std::max<int64_t>(least, 2); factor <= most; ++factor) {
    if (n % factor != 0) continue;
    std::vector<int64_t> rest = divided(n / factor, parts - 1, factor);
    if (rest.empty()) continue;
    rest.insert(rest.begin(), factor);
    return rest;
  }
  return {};
}
std::vector<int64_t> pass_sizes(int64_t n, const PlanKey& key) {
  if (n <= most_alone(key)) return {n};
  for (int parts = 2;; ++parts)
    if (auto sizes = divided(n, parts, kMostOfMany); !sizes.empty()) return sizes;
}

template <class T>
Tensor on_device(const std::vector<T>& numbers, const PlanKey& key) {
  const Tensor host =
      facula::empty({static_cast<int64_t>(numbers.size())}, std::is_same_v<T, float> ? DType::Float32 : DType::Float64);
  std::copy(numbers.begin(), numbers.end(), host.data<T>());
  const Tensor there = facula::empty(host.sizes(), host.dtype(), key.stream.device);
  copy_elements(there, host);
  return there;
}

/// exp(-2 pi i k / n).
template <class T>
Tensor roots_table(int64_t n, const PlanKey& key) {
  const fft::UnitRoots<T> roots(n);
  std::vector<T> numbers(static_cast<size_t>(2 * n));
  for (int64_t k = 0; k < n; ++k) roots.write(k, numbers.data() + 2 * k);
  return on_device(numbers, key);
}
Tensor in_double(const std::vector<fft::Root<double>>& roots, const PlanKey& key) {
  std::vector<double> numbers;
  for (const auto& root : roots) numbers.insert(numbers.end(), {root.re, root.im});
  return on_device(numbers, key);
}

template <class T>
void add_passes(FftPlan& plan, const PlanKey& key) {
  int64_t rest = plan.n, stride = 1;
  for (int64_t size : pass_sizes(plan.n, key)) {
    rest /= size;
    PassPlan p{size, rest, stride, fft::radices_of(size), roots_table<T>(size, key), {}, {}};
    if (rest > 1) {
      const fft::UnitRoots<float> turns(size * rest);
      p.coarse = in_double(turns.coarse(), key);
      p.fine = in_double(turns.fine(), key);
      p.shift = turns.shift();
    }
    plan.passes.push_back(std::move(p));
    stride *= size;
  }
}

/// What is transformed: where points come from and go to, besides the passes between.
struct Ends {
  int64_t outer, inner;
  FftSource in;
  FftTarget out;
  int64_t halved = 0;
};
FftSource plain_source(const Tensor& t, int64_t points) { return {t.data(), points, false, false, false, nullptr}; }
FftTarget plain_target(const Tensor& t, int64_t points) { return {t.data(), points, false, false, false, nullptr, 1}; }

void run_passes(const FftPlan& plan, const Ends& ends, const PlanKey& key);
std::shared_ptr<const FftPlan> plan_of(const PlanKey& key);

template <class T>
void add_convolution(FftPlan& plan, const PlanKey& key) {
  PlanKey inner = key;
  // what a point costs: its ways to memory and back
  inner.n = fft::cheapest_convolution(
      plan.n, [&](int64_t length) { return static_cast<double>(pass_sizes(length, key).size()); });
  plan.convolution = plan_of(inner);
  std::vector<T> factors(static_cast<size_t>(2 * plan.n)), kernel(static_cast<size_t>(2 * inner.n));
  fft::write_chirp(plan.n, inner.n, factors.data(), kernel.data());
  plan.factors = on_device(factors, key);
  const Tensor untransformed = on_device(kernel, key);
  plan.kernel = facula::empty(untransformed.sizes(), untransformed.dtype(), key.stream.device);
  run_passes(*plan.convolution, {1, 1, plain_source(untransformed, inner.n), plain_target(plan.kernel, inner.n)},
             inner);
}

using FftPlans = fft::FftPlanCache<FftPlan, PlanKey>;
FftPlans& plans_of(int device) {
  static auto& all = *new std::deque<FftPlans>(static_cast<size_t>(device_count()));
  return all[static_cast<size_t>(device)];
}

std::shared_ptr<const FftPlan> plan_of(const PlanKey& key) {
  return plans_of(key.stream.device.index).get(key, [&] {
    auto plan = std::make_shared<FftPlan>();
    plan->n = key.n;
    const bool single = key.dtype == DType::Float32;
    if (fft::is_smooth(key.n)) (single ? add_passes<float> : add_passes<double>)(*plan, key);
    else (single ? add_convolution<float> : add_convolution<double>)(*plan, key);
    return plan;
  });
}

// ---- passes

/// How many lines a block takes: enough to use memory and threads well, but so that the device is busy.
void choose_block(FftPass& f, int device, int64_t item) {
  const Properties& properties = cuda::properties(device);
  const auto most = std::min<int64_t>(kSharedBytes, static_cast<int64_t>(properties.shared_per_block_optin));
  const int64_t each = f.count * f.stride, all = f.outer * each;
  const auto bytes = [&](int log) { return (int64_t{f.size | 1} << log) * 4 * item; };
  const auto worth = [&](int log) {
    const bool sector = each > 1 && (2 * item << log) <= kSectorBytes;
    return bytes(log) <= (sector ? most : kUsualBytes) && (sector || all >> log >= properties.multiprocessors);
  };
  while (f.lines_log < 8 && int64_t{1} << f.lines_log < all && worth(f.lines_log + 1)) ++f.lines_log;
  f.pitch = f.lines_log ? f.size | 1 : f.size;
  constexpr int64_t kApart = 4;
  f.lines_adjacent_in = each >= kApart;
  f.lines_adjacent_out = f.stride >= kApart;
}

void launch_pass(FftPass& f, const PlanKey& key) {
  static const DeviceKernel pass{"fft.cuh", "fft_pass"};
  const int device = key.stream.device.index;
  const int64_t item = item_size(key.dtype), all = f.outer * f.count * f.stride;
  choose_block(f, device, item);
  const int64_t lines = int64_t{1} << f.lines_log, blocks = (all + lines - 1) / lines;
  const auto threads = static_cast<unsigned>(std::clamp<int64_t>((f.size * lines / 8 + 31) / 32 * 32, 32, 256));
  Grid grid = grid_for(device, blocks * threads, threads);
  grid.shared_bytes = static_cast<unsigned>(4 * item * lines * f.pitch);
  pass(device, {key.dtype}, grid, f);
}

void run_passes(const FftPlan& plan, const Ends& ends, const PlanKey& key) {
  Tensor work;
  for (size_t i = 0; i < plan.passes.size(); ++i) {
    const PassPlan& p = plan.passes[i];
    const Tensor before = work;
    FftPass f{};
    f.outer = ends.outer;
    f.inner = ends.inner;
    f.count = p.count;
    f.stride = p.stride * ends.inner;
    f.halved = ends.halved;
    f.size = static_cast<int>(p.size);
    f.radices = static_cast<int>(p.radices.size());
    std::copy(p.radices.begin(), p.radices.end(), f.radix);
    f.roots = p.roots.data();
    if (p.count > 1) {
      f.coarse = p.coarse.data();
      f.fine = p.fine.data();
      f.shift = p.shift;
    }
    f.in = i == 0 ? ends.in : plain_source(before, plan.n);
    f.out = ends.out;
    if (p.count > 1) {
      work = facula::empty({ends.outer, plan.n, ends.inner}, complex_dtype(key.dtype), key.stream.device);
      f.out = plain_target(work, plan.n);
    }
    launch_pass(f, key);
  }
}

void convolve(const FftPlan& plan, const Ends& ends, const PlanKey& key) {
  const int64_t length = plan.convolution->n;
  const Tensor work = facula::empty({ends.outer, length, ends.inner}, complex_dtype(key.dtype), key.stream.device);
  Ends there{ends.outer, ends.inner, ends.in, plain_target(work, length), ends.halved};
  there.in.factors = plan.factors.data();
  there.out.factors = plan.kernel.data();
  there.out.conjugated = true;
  run_passes(*plan.convolution, there, key);
  Ends back{ends.outer, ends.inner, plain_source(work, length), ends.out, ends.halved};
  back.out.conjugated_first = true;
  back.out.factors = plan.factors.data();
  run_passes(*plan.convolution, back, key);
}

bool is_half_precision(const Tensor& t) { return item_size(real_dtype(t.dtype())) == 2; }
Tensor in_single(const Tensor& t) {
  const Tensor wide = facula::empty(t.sizes(), t.is_complex() ? DType::Complex64 : DType::Float32, t.device());
  copy_elements(wide, t);
  return wide;
}

/// Half precision is computed in single precision.
void transform_lines(const Lines& l, const Tensor& in, const Tensor& out) {
  if (is_half_precision(out)) {
    const Tensor wide = facula::empty(out.sizes(), out.is_complex() ? DType::Complex64 : DType::Float32, out.device());
    transform_lines(l, in_single(in), wide);
    return copy_elements(out, wide);
  }
  const bool backward = l.kind == FftKind::Backward || l.kind == FftKind::HalfToReal;
  const PlanKey key{l.n, real_dtype(out.dtype()), current_stream(out.device().index), l.inner > 1};
  const auto plan = plan_of(key);
  Ends ends{l.outer, l.inner, plain_source(in, l.in_size()), plain_target(out, l.out_size())};
  ends.halved = l.real_in() || l.real_out() ? l.n : 0;
  ends.in.real = l.real_in();
  ends.in.mirrored = l.real_out();
  ends.in.conjugated = backward;
  ends.out.real = l.real_out();
  ends.out.conjugated = backward;
  ends.out.scale = l.scale;
  if (plan->convolution) convolve(*plan, ends, key);
  else run_passes(*plan, ends, key);
}

// ---- by the library, where it is there (fft_library.cpp says what of it)

void lines_by_library(const Lines& l, const Tensor& in, const Tensor& out, bool is_ours) {
  const auto lines = [&](const Tensor& t, int64_t points) {
    return make_view(t, {l.outer, points, l.inner}, {points * l.inner, l.inner, 1}, 0, false);
  };
  if (!fft_library::transform(lines(out, l.out_size()), lines(in, l.in_size()), {1}, l.kind, is_ours))
    transform_lines(l, in, out);
}

void complex_by_library(const Tensor& out, const Tensor& in, IntList dims, FftKind kind) {
  Tensor from = in;
  for (size_t i = 0; i < dims.size(); i += fft_library::kMostDims) {
    const IntList some = dims.slice(i, std::min(dims.size() - i, fft_library::kMostDims));
    if (!fft_library::transform(out, from, some, kind))
      fft::complex_dims(out, from, some, kind, 1, [](const Lines& l, const Tensor& points, const Tensor& transformed) {
        lines_by_library(l, points, transformed, false);
      });
    from = out;
  }
}

/// The library halves a dimension together with up to two that lie before it.
void halved_by_library(const Tensor& out, const Tensor& in, IntList dims) {
  const size_t others = dims.size() - 1, together = std::min(others, fft_library::kMostDims - 1);
  if (fft_library::transform(out, in, dims.slice(others - together, together + 1), FftKind::RealToHalf))
    return complex_by_library(out, out, dims.slice(0, others - together), FftKind::Forward);
  lines_by_library(fft::lines_along(in, dims.back(), FftKind::RealToHalf, 1), in, out, false);
  complex_by_library(out, out, dims.slice(0, others), FftKind::Forward);
}

void real_by_library(const Tensor& out, const Tensor& in, IntList dims) {
  const IntList others = dims.slice(0, dims.size() - 1);
  Tensor half = in;
  if (!others.empty()) {
    half = facula::empty(in.sizes(), in.dtype(), in.device());
    complex_by_library(half, in, others, FftKind::Backward);
  }
  lines_by_library(fft::lines_along(out, dims.back(), FftKind::HalfToReal, 1), half, out, !others.empty());
}

void by_library(const Tensor& out, const Tensor& in, IntList dims, FftKind kind, double scale) {
  const bool halved = kind == FftKind::RealToHalf || kind == FftKind::HalfToReal;
  Dims ordered(dims);  // but for the halved one, the order does not matter
  std::sort(ordered.begin(), ordered.end() - (halved ? 1 : 0));
  if (kind == FftKind::RealToHalf) halved_by_library(out, in, ordered);
  else if (kind == FftKind::HalfToReal) real_by_library(out, in, ordered);
  else complex_by_library(out, in, ordered, kind);
  if (scale == 1) return;
  const Tensor numbers = out.is_complex() ? ops::view_as_real(out) : out;
  ops::mul_into(numbers, ops::Into::Part, Operand(numbers), Operand(Scalar(scale)));
}

void fft_cuda(const Tensor& out, const Tensor& in, IntList dims, FftKind kind, double scale) {
  if (fft_library::is_there()) by_library(out, in, dims, kind, scale);
  else fft::transform_dims(out, in, dims, kind, scale, transform_lines);
}

void fft_mirror_cuda(const Tensor& out, const Tensor& half, int64_t dim, bool conjugated) {
  static const DeviceKernel mirror{"fft.cuh", "fft_mirror"};
  const Lines l = fft::lines_along(out, dim, FftKind::RealToHalf, 1);
  const int device = out.device().index;
  mirror(device, {real_dtype(out.dtype())}, grid_for(device, out.numel()),
         FftMirror{half.data(), out.data(), l.outer, l.n, l.inner, conjugated});
}

}  // namespace

size_t fft_plans(int device) { return fft_library::is_there() ? fft_library::plans(device) : plans_of(device).size(); }
size_t most_fft_plans(int device) {
  return fft_library::is_there() ? fft_library::most_plans(device) : plans_of(device).most();
}
void set_most_fft_plans(int device, size_t most) {
  if (fft_library::is_there()) fft_library::set_most_plans(device, most);
  else plans_of(device).set_most(most);
}
void forget_fft_plans(int device) {
  if (fft_library::is_there()) fft_library::forget_plans(device);
  plans_of(device).clear();
}

void register_fft() {
  fft_kernel.set(DeviceType::CUDA, fft_cuda);
  fft_mirror_kernel.set(DeviceType::CUDA, fft_mirror_cuda);
}

}  // namespace facula::cuda
