// Random numbers on the device, which are those of PyTorch for the same seed.
//
// PyTorch's rule for fills (its calc_execution_policy): a grid of 256 threads a block, with as many blocks as the
// device holds at once or as the elements need, if those are fewer. Thread t draws from subsequence t of Philox, four
// words at a time; a call advances the generator by four words for every turn that a thread takes. Elements go to
// threads in the order of a grid-stride loop, so numbers depend on the device's size.
#include "ops/random.h"

#include <array>
#include <bit>
#include <cmath>
#include <optional>

#include "cuda/device.h"
#include "cuda/generator.h"
#include "cuda/index_errors.h"
#include "cuda/kernel.h"
#include "cuda/kernels/random_args.h"
#include "cuda/sort.h"
#include "cuda/sorting.h"
#include "ops/sequence.h"

namespace facula::cuda {
namespace {

using Long = long long;

PhiloxStart advance(Generator& generator, uint64_t numbers) {
  const PhiloxState state = static_cast<PhiloxGenerator&>(generator).take(numbers);
  return {state.seed, state.offset, reinterpret_cast<const unsigned long long*>(state.captured)};
}

struct Drawing {
  Grid grid;
  PhiloxStart start;
};
/// Where a fill of `count` elements draws: PyTorch's grid, and the place in the generator, which is advanced. `wide`
/// elements are made from four words. A thread of ours may draw for `neighbors` threads of PyTorch's.
Drawing drawing(int device, int64_t count, int wide, Generator& generator, int neighbors = 1) {
  constexpr int64_t kThreads = 256, kWords = 4;
  const Properties& p = properties(device);
  const int64_t most = int64_t{p.multiprocessors} * (p.threads_per_multiprocessor / kThreads);
  const int64_t blocks = std::min((count + kThreads - 1) / kThreads, most);
  const int64_t turns = (count - 1) / (kThreads * blocks * wide) + 1;
  const auto threads = static_cast<unsigned>(kThreads / neighbors);
  return {{threads, blocks}, advance(generator, static_cast<uint64_t>(turns * kWords))};
}

// ---- fills

int digits_of(DType dtype) {
  return dtype == DType::Float64 ? 53 : dtype == DType::Float32 ? 24 : dtype == DType::Float16 ? 11 : 8;
}
bool has_64_bits(DType dtype) { return dtype == DType::Float64 || dtype == DType::Int64 || dtype == DType::UInt64; }

/// The integers [base, base + range) from which a fill draws (PyTorch's random_from_to); a range of 0 stands for all of
/// 64 bits. `wide`: two words make a number, else one.
struct IntegerRange {
  uint64_t range;
  int64_t base;
  bool wide;
};
/// The distance between elements of a dtype next to an integer.
int64_t step_at(int64_t value, DType dtype) {
  const uint64_t magnitude = value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
  return int64_t{1} << std::max(static_cast<int>(std::bit_width(magnitude)) - digits_of(dtype), 0);
}
/// The nearest element of the dtype, the even one of two.
int64_t rounded(int64_t value, DType dtype) {
  const int64_t step = step_at(value, dtype), below = value & -step, rest = value - below;
  return below + (2 * rest > step || (2 * rest == step && (below & step)) ? step : 0);
}

/// Ends that are not elements of a floating dtype move inwards, as in PyTorch's update_from and update_to.
IntegerRange range_of(DType dtype, const RandomFill& f) {
  int64_t from = f.base, to = static_cast<int64_t>(static_cast<uint64_t>(f.base) + f.range);
  if (is_floating(dtype)) {
    if (rounded(from + 1, dtype) < from) from = rounded(from + 1, dtype) + step_at(from + 1, dtype);
    if (rounded(to - 1, dtype) >= to) to = rounded(to - 1, dtype) - step_at(to - 1, dtype);
    FACULA_CHECK(from < to, ErrorKind::Runtime, f.op, ": no value of the dtype lies between the ends, got ", from,
                 " and ", to);
  }
  const uint64_t range = static_cast<uint64_t>(to) - static_cast<uint64_t>(from);
  return {range, from, range >= uint64_t{1} << 28};
}
uint64_t default_range(DType dtype) {
  if (is_floating(dtype)) return (uint64_t{1} << digits_of(dtype)) + 1;
  switch (dtype) {
    case DType::Bool: return 2;
    case DType::Int8: return uint64_t{1} << 7;
    case DType::Int16: return uint64_t{1} << 15;
    case DType::Int32: return uint64_t{1} << 31;
    case DType::Int64: return uint64_t{1} << 63;
    case DType::UInt32:  // all words
    case DType::UInt64: return 0;
    default: return uint64_t{1} << (8 * item_size(dtype));
  }
}
/// Nothing for distributions of real numbers.
std::optional<IntegerRange> integers_of(DType dtype, const RandomFill& f) {
  switch (f.distribution) {
    case Distribution::Range: return range_of(dtype, f);
    case Distribution::FullRange: return IntegerRange{0, 0, true};
    case Distribution::DefaultRange: return IntegerRange{default_range(dtype), 0, has_64_bits(dtype)};
    default: return {};
  }
}

bool can_fill(DType dtype, Distribution distribution) {
  const bool real = dtype == DType::Float32 || dtype == DType::Float64 || dtype == DType::Float16 ||
                    dtype == DType::BFloat16,
             whole = is_integral(dtype) || dtype == DType::Bool;
  switch (distribution) {
    case Distribution::Range:
    case Distribution::DefaultRange:
    case Distribution::Bernoulli:
    case Distribution::Geometric: return real || whole;
    case Distribution::Permutation: return real || (whole && dtype != DType::Bool);
    case Distribution::FullRange:
      return (real && dtype != DType::Float16) || dtype == DType::Int64 || dtype == DType::UInt64;
    default: return real;
  }
}

/// So many bits of sort keys that n of them are all different with a probability of 0.9: PyTorch's bound.
int key_bits(int64_t n) {
  const double count = static_cast<double>(n), bound = -12 * std::log(0.9);
  return std::min(64, static_cast<int>(std::ceil(std::log2(count + (6 * count * count + 1) / bound))));
}

/// Sorts the numbers by random keys, and permutes those of equal keys once more.
void permute(const Tensor& out, Generator& generator) {
  static const DeviceKernel draw{"random.cuh", "random_keys"}, permute_ties{"random.cuh", "permute_ties"};
  const Device device = out.device();
  const int64_t n = out.numel();
  const int bits = key_bits(n);
  Sorted s{facula::empty({n}, bits <= 32 ? DType::UInt32 : DType::UInt64, device),
           facula::empty({n}, n <= UINT32_MAX ? DType::UInt32 : DType::UInt64, device)};
  const DType key = s.keys.dtype(), number = s.numbers.dtype();
  const Drawing d = drawing(device.index, n, 2, generator);
  draw(device.index, {key}, d.grid, s.keys.data(), static_cast<Long>(n), ~0ull >> (64 - bits), d.start);
  whole_progression_kernel(device, s.numbers, 0, 1);
  s = radix_sort(s, bits);
  permute_ties(device.index, {key, number}, grid_for(device.index, n), static_cast<const void*>(s.keys.data()),
               s.numbers.data(), static_cast<Long>(n), advance(generator, static_cast<uint64_t>(n)));
  copy_elements(out, s.numbers);
}

void random_fill_cuda(const Tensor& given, const RandomFill& f, Generator& generator) {
  static const DeviceKernel real{"random.cuh", "random_real"}, whole{"random.cuh", "random_whole"};
  const int device = given.device().index;
  const DType dtype = real_dtype(given.dtype());
  // parts of complex numbers are drawn like real ones, where these are not whole
  const bool fits = can_fill(dtype, f.distribution) && !(given.is_complex() && can_fill(DType::Int64, f.distribution));
  FACULA_CHECK(fits, ErrorKind::NotImplemented, f.op, ": not implemented for this dtype, got ", given.dtype());
  if (given.numel() == 0) return;
  if (f.distribution == Distribution::Permutation) return permute(given, generator);
  const int64_t n = given.numel() * (given.is_complex() ? 2 : 1);
  const int neighbors = std::min(4, aligned_width(dtype, std::array{static_cast<const void*>(given.data())}));
  if (const auto w = integers_of(dtype, f)) {
    const Drawing d = drawing(device, n, w->wide ? 2 : 4, generator, neighbors);
    return whole(device, {dtype, w->wide, neighbors}, d.grid, given.data(), static_cast<Long>(n),
                 FillArgs{0, 0, w->range, w->base}, d.start);
  }
  const Drawing d = drawing(device, n, dtype == DType::Float64 ? 2 : 4, generator, neighbors);
  real(device, {dtype, static_cast<int>(f.distribution), neighbors}, d.grid, given.data(), static_cast<Long>(n),
       FillArgs{f.a, f.b, 0, 0}, d.start);
}

void bernoulli_cuda(const Tensor& out, const Tensor& p, Generator& generator) {
  static const DeviceKernel kernel{"random.cuh", "random_bernoulli"};
  FACULA_CHECK(can_fill(out.dtype(), Distribution::Bernoulli), ErrorKind::NotImplemented,
               "bernoulli_: not implemented for this dtype, got ", out.dtype());
  if (out.numel() == 0) return;
  const int device = out.device().index;
  kernel(device, {out.dtype(), p.dtype()}, grid_for(device, (out.numel() + 3) / 4), out.data(),
         static_cast<const void*>(p.data()), static_cast<Long>(out.numel()), advance(generator, 10));
}

/// How many neighbors PyTorch's kernel of dropout reads at once: up to 16 bytes.
int dropout_vector(const Tensor& input) {
  const auto address = reinterpret_cast<uintptr_t>(input.data()),
             one = static_cast<uintptr_t>(item_size(input.dtype())), count = static_cast<uintptr_t>(input.numel());
  uintptr_t bytes = input.is_dense() ? 16 : one;
  while (bytes > one && (address % bytes != 0 || count % (bytes / one) != 0)) bytes /= 2;
  return static_cast<int>(bytes / one);
}

void dropout_cuda(const Tensor& mask, const Tensor& input, double keep, Generator& generator) {
  static const DeviceKernel kernel{"random.cuh", "random_kept"};
  const int device = mask.device().index, vector = dropout_vector(input);
  const DType limit = input.dtype() == DType::Float64 ? DType::Float64 : DType::Float32;
  // one by one elements are counted as the program sees them, else as they lie in memory
  const Tensor target =
      vector == 1 && !mask.is_contiguous() ? facula::empty(mask.sizes(), DType::Bool, mask.device()) : mask;
  const Drawing d = drawing(device, mask.numel(), 4, generator);
  kernel(device, {limit, vector}, d.grid, target.data(), static_cast<Long>(mask.numel()), keep, d.start);
  if (!target.is_same(mask)) copy_elements(mask, target);
}

void rrelu_cuda(const Tensor& out, const Tensor& values, double lower, double upper, Generator& generator) {
  static const DeviceKernel kernel{"random.cuh", "random_slopes"};
  if (out.numel() == 0) return;
  const int device = out.device().index;
  const Drawing d = drawing(device, out.numel(), out.dtype() == DType::Float64 ? 2 : 4, generator);
  kernel(device, {out.dtype()}, d.grid, out.data(), static_cast<const void*>(values.data()),
         static_cast<Long>(out.numel()), lower, upper, d.start);
}

// ---- as many numbers for an element as it needs; the generator goes on by as many as PyTorch's, which can be less

void poisson_cuda(const Tensor& out, const Tensor& rate, Generator& generator) {
  static const DeviceKernel kernel{"random_each.cuh", "random_poisson"};
  const int device = out.device().index;
  kernel(device, {out.dtype()}, grid_for(device, out.numel()), out.data(), static_cast<const void*>(rate.data()),
         static_cast<Long>(out.numel()), advance(generator, 20),
         reporter(device, "poisson", ErrorKind::Runtime, "rates must not be negative"));
}

void gamma_cuda(const Tensor& out, const Tensor& shape, Generator& generator) {
  static const DeviceKernel kernel{"random_each.cuh", "random_gamma"};
  const int device = out.device().index;
  kernel(device, {out.dtype()}, grid_for(device, out.numel()), out.data(), static_cast<const void*>(shape.data()),
         static_cast<Long>(out.numel()), advance(generator, 10));
}

void dirichlet_cuda(const Tensor& out, const Tensor& concentration, Generator& generator) {
  static const DeviceKernel rows{"random_each.cuh", "dirichlet_rows"};
  if (out.numel() == 0) return;
  const int device = out.device().index;
  gamma_cuda(out, concentration, generator);
  const Long size = out.size(-1), count = out.numel() / size;
  rows(device, {out.dtype()}, grid_for(device, count), out.data(), count, size);
}

void binomial_cuda(const Tensor& out, const Tensor& count, const Tensor& probability, Generator& generator) {
  static const DeviceKernel kernel{"random_each.cuh", "random_binomial"};
  const int device = out.device().index;
  kernel(device, {out.dtype()}, grid_for(device, (out.numel() + 7) / 8, 128), out.data(),
         static_cast<const void*>(count.data()), static_cast<const void*>(probability.data()),
         static_cast<Long>(out.numel()), advance(generator, 42));
}

// ---- categories

/// The sums of the weights up to each category, where they are wanted; reports what are no weights.
Tensor check_weights(const Tensor& weights, bool sums) {
  static const DeviceKernel kernel{"multinomial.cuh", "sum_weights"};
  const int device = weights.device().index;
  const Tensor shares = sums ? facula::empty({weights.numel()}, DType::Float64, weights.device()) : Tensor();
  kernel(device, {weights.dtype()}, grid_for(device, weights.size(0) * 256), static_cast<const void*>(weights.data()),
         static_cast<double*>(sums ? shares.data() : nullptr), static_cast<Long>(weights.size(0)),
         static_cast<Long>(weights.size(1)),
         reporter(device, "multinomial", ErrorKind::Runtime, "weights must be finite and not negative"),
         reporter(device, "multinomial", ErrorKind::Runtime, "the weights of a row must have a positive sum"));
  return shares;
}

/// The categories of every row in the order in which they win the race.
Tensor race(const Tensor& weights, Generator& generator) {
  static const DeviceKernel kernel{"multinomial.cuh", "race_speeds"};
  const Device device = weights.device();
  const Tensor speeds = facula::empty(weights.sizes(), weights.dtype(), device),
               order = facula::empty(weights.sizes(), DType::Int64, device);
  random_fill_cuda(speeds, {.distribution = Distribution::Exponential, .a = 1, .op = "multinomial"}, generator);
  kernel(device.index, {weights.dtype()}, grid_for(device.index, weights.numel()),
         static_cast<const void*>(weights.data()), static_cast<const void*>(speeds.data()),
         static_cast<Long>(weights.numel()), speeds.data());
  sort_rows(speeds, order, true);
  return order;
}

void multinomial_cuda(const Tensor& out, const Tensor& weights, bool replacement, Generator& generator) {
  static const DeviceKernel search{"multinomial.cuh", "draw_categories"};
  const int device = out.device().index;
  const Long rows = weights.size(0), categories = weights.size(1), samples = out.size(1);
  if (weights.numel() == 0) return;
  const bool sums = replacement && samples > 1;
  const Tensor shares = check_weights(weights, sums);
  if (sums)
    return search(device, {weights.dtype()}, grid_for(device, out.numel()), static_cast<Long*>(out.data()),
                  static_cast<const double*>(shares.data()), rows, categories, samples,
                  advance(generator, 4 * static_cast<uint64_t>((rows + 65534) / 65535)));
  copy_elements(out, make_view(race(weights, generator), {rows, samples}, {categories, 1}, 0, false));
}

}  // namespace

void register_random() {
  constexpr auto cuda = DeviceType::CUDA;
  random_fill_kernel.set(cuda, random_fill_cuda);
  bernoulli_kernel.set(cuda, bernoulli_cuda);
  dropout_kernel.set(cuda, dropout_cuda);
  rrelu_kernel.set(cuda, rrelu_cuda);
  poisson_kernel.set(cuda, poisson_cuda);
  gamma_kernel.set(cuda, gamma_cuda);
  dirichlet_kernel.set(cuda, dirichlet_cuda);
  binomial_kernel.set(cuda, binomial_cuda);
  multinomial_kernel.set(cuda, multinomial_cuda);
}

}  // namespace facula::cuda
