// Random ops: parameter checks and the order in which elements are drawn.
#include "ops/random.h"

#include "core/asking.h"
#include "core/checked.h"
#include "core/draws.h"
#include "core/host.h"
#include "core/parallel.h"
#include "ops/checks.h"
#include "ops/contiguous.h"
#include "ops/out.h"
#include "raw_elementwise.h"
#include "raw_random.h"

namespace facula::ops {
namespace {

Tensor flat(const Tensor& dense) { return make_view(dense, {dense.numel()}, {1}, 0, false); }

// Whoever waits for a generator does not hold the interpreter's lock, which whoever draws may ask for.
template <class Draw>
void with_generator(Generator* given, Device device, int64_t numel, Draw draw) {
  Generator& generator = given ? *given : default_generator(device);
  FACULA_CHECK(generator.device() == device, ErrorKind::Runtime, "Generator: expected one of device ", device,
               ", got one of ", generator.device());
  if (Generator* again = repeated_generator(generator)) return draw(*again);
  if (numel <= kGrain && generator.mutex.try_lock()) {
    const std::lock_guard guard(generator.mutex, std::adopt_lock);
    const Uninterrupted loops;  // short ones
    note_draw(generator);
    return draw(generator);
  }
  LockRelease release(true);
  HeldAroundLoops guard(generator.mutex);
  note_draw(generator);
  draw(generator);
}

Tensor fill(const Tensor& self, RandomFill f, Generator* generator) {
  if (self.is_meta()) return self;
  const auto draw = [&](const Tensor& line) {
    with_generator(generator, self.device(), self.numel(),
                   [&](Generator& g) { random_fill_kernel(self.device(), line, f, g); });
  };
  f.serial = !self.is_contiguous();
  if (f.serial) {
    const Tensor target = facula::empty_like(self, self.dtype());
    draw(flat(target));
    copy_elements(self, target);
  } else if (self.dim() == 1) {
    draw(self);
  } else {
    draw(flat(self));
  }
  return self;
}

/// fill() of real and complex numbers: of complex32 the parts are drawn, as so many float16 numbers.
Tensor fill_parts(const Tensor& self, const RandomFill& f, Generator* generator) {
  if (self.dtype() != DType::Complex32 || self.is_meta()) return fill(self, f, generator);
  check_no_internal_overlap(self, f.op);
  Dims sizes(self.sizes()), strides(self.strides());
  for (int64_t& stride : strides) stride *= 2;
  sizes.push_back(2);
  strides.push_back(1);
  const int64_t offset = self.byte_offset() / item_size(DType::Float16);
  fill(tensor_on_storage(self.storage(), DType::Float16, offset, sizes, strides, f.op), f, generator);
  return self;
}

void check_continuous(const Tensor& self, const char* op) {
  FACULA_CHECK(is_floating(self.dtype()), ErrorKind::Runtime, op,
               ": a continuous distribution needs a floating dtype, got ", self.dtype());
}

// ---- integers

struct Limits {
  int64_t low, high;
};
// Values that random_ accepts as ends.
Limits limits_of(DType dtype) {
  return visit_dtype(dtype, [](auto tag) -> Limits {
    using T = typename decltype(tag)::type;
    if constexpr (std::is_same_v<T, bool>) return {0, 1};
    else if constexpr (std::is_same_v<T, uint64_t>) return {0, std::numeric_limits<int64_t>::max()};
    else if constexpr (std::is_integral_v<T>) return {std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max()};
    else return {std::numeric_limits<int64_t>::lowest(), std::numeric_limits<int64_t>::max()};
  });
}

int digits_of(DType dtype) {
  return dtype == DType::Float64 ? 53 : dtype == DType::Float32 ? 24 : dtype == DType::Float16 ? 11 : 8;
}

/// Beyond the digits of a floating dtype not every integer is a number of it.
void warn_of_gaps(DType dtype, const char* end, int64_t value, const char* op) {
  const int64_t whole = int64_t{1} << digits_of(dtype);
  if ((value >= -whole && value <= whole) || !host.warn) return;
  std::ostringstream text;
  text << op << ": " << end << " is out of bounds of the integers that " << dtype << " holds without gaps, got "
       << value;
  host.warn(text.str().c_str());
}

Tensor fill_range(const Tensor& self, int64_t from, int64_t to, Generator* generator, const char* op) {
  FACULA_CHECK(from < to, ErrorKind::Runtime, op, ": 'from' must be less than 'to', got from=", from, " and to=", to);
  Limits limits = limits_of(self.dtype());
  FACULA_CHECK(from >= limits.low && from <= limits.high, ErrorKind::Runtime, op, ": from is out of bounds for ",
               self.dtype(), ", got ", from);
  FACULA_CHECK(to - 1 >= limits.low && to - 1 <= limits.high, ErrorKind::Runtime, op, ": to - 1 is out of bounds for ",
               self.dtype(), ", got ", to - 1);
  if (is_floating(self.dtype())) {
    warn_of_gaps(self.dtype(), "from", from, op);
    warn_of_gaps(self.dtype(), "to - 1", to - 1, op);
  }
  return fill(self,
              {.distribution = Distribution::Range,
               .range = static_cast<uint64_t>(to) - static_cast<uint64_t>(from),
               .base = from,
               .op = op},
              generator);
}

Tensor fill_from(const Tensor& self, int64_t from, Generator* generator) {
  if (from == std::numeric_limits<int64_t>::lowest())
    return fill(self, {.distribution = Distribution::FullRange, .op = "random_"}, generator);
  int64_t last = is_floating(self.dtype()) ? int64_t{1} << digits_of(self.dtype()) : limits_of(self.dtype()).high;
  FACULA_CHECK(from >= limits_of(self.dtype()).low && from < last, ErrorKind::Runtime,
               "random_: from is out of bounds for ", self.dtype(), ", got ", from);
  uint64_t range = static_cast<uint64_t>(last) - static_cast<uint64_t>(from) + 1;
  return fill(self, {.distribution = Distribution::Range, .range = range, .base = from, .op = "random_"}, generator);
}

Tensor like(const Tensor& self, std::optional<MemoryFormat> format, std::optional<DType> dtype,
            std::optional<Device> device, const char* op) {
  MemoryFormat order = format.value_or(MemoryFormat::Preserve);
  Dims strides = order == MemoryFormat::Preserve ? preserved_strides(self.sizes(), self.strides())
                                                 : strides_of(self.sizes(), order, op);
  return facula::empty_strided(self.sizes(), strides, dtype.value_or(self.dtype()), device.value_or(self.device()));
}

void check_std(const Tensor& std_) {
  FACULA_CHECK(!std_.is_complex(), ErrorKind::Runtime, "normal: std must be real, got ", std_.dtype());
  check_values(std_, {Holds::NotNegative, ErrorKind::Runtime, "normal", "every std must not be negative"});
}

RandomFill normal_fill(const Tensor& self, double mean, double std, const char* op) {
  FACULA_CHECK(!(std < 0), ErrorKind::Runtime, op, ": expected std >= 0, got ", std);
  FACULA_CHECK(is_inexact(self.dtype()), ErrorKind::NotImplemented, op, ": expected a floating or complex dtype, got ",
               self.dtype());
  // both parts of a complex value get the mean, and half the variance each
  return {
      .distribution = Distribution::Normal, .a = mean, .b = self.is_complex() ? std / std::sqrt(2.0) : std, .op = op};
}

}  // namespace

Tensor normal_(const Tensor& self, double mean, double std, Generator* generator) {
  return fill_parts(self, normal_fill(self, mean, std, "normal_"), generator);
}

Tensor uniform_(const Tensor& self, double from, double to, Generator* generator) {
  FACULA_CHECK(is_inexact(self.dtype()), ErrorKind::NotImplemented,
               "uniform_: expected a floating or complex dtype, got ", self.dtype());
  FACULA_CHECK(from <= to, ErrorKind::Runtime, "uniform_: 'from' must not be greater than 'to', got ", from, " and ",
               to);
  FACULA_CHECK(to - from <= (self.dtype() == DType::Float64   ? std::numeric_limits<double>::max()
                             : self.dtype() == DType::Float16 ? 65504.0
                                                              : std::numeric_limits<float>::max()),
               ErrorKind::Runtime, "uniform_: the range does not fit into ", self.dtype(), ", got ", from, " to ", to);
  return fill_parts(self, {.distribution = Distribution::Uniform, .a = from, .b = to, .op = "uniform_"}, generator);
}

Tensor random_(const Tensor& self, int64_t from, std::optional<int64_t> to, Generator* generator) {
  return to ? fill_range(self, from, *to, generator, "random_") : fill_from(self, from, generator);
}
Tensor random_(const Tensor& self, int64_t to, Generator* generator) {
  return fill_range(self, 0, to, generator, "random_");
}
Tensor random_(const Tensor& self, Generator* generator) {
  return fill(self, {.distribution = Distribution::DefaultRange, .op = "random_"}, generator);
}

Tensor bernoulli_(const Tensor& self, double p, Generator* generator) {
  FACULA_CHECK(p >= 0 && p <= 1, ErrorKind::Runtime, "bernoulli_: p must lie in [0, 1], got ", p);
  return fill(self, {.distribution = Distribution::Bernoulli, .a = p, .op = "bernoulli_"}, generator);
}

Tensor bernoulli_(const Tensor& self, const Tensor& p, Generator* generator) {
  FACULA_CHECK(is_floating(p.dtype()), ErrorKind::NotImplemented, "bernoulli_: probabilities must be floating, got ",
               p.dtype());
  FACULA_CHECK(broadcasts_to(p.sizes(), self.sizes()), ErrorKind::Runtime, "bernoulli_: p must broadcast to shape ",
               self.sizes(), ", got ", p.sizes());
  if (self.is_meta()) return self;
  DType wide = p.dtype() == DType::Float64 ? DType::Float64 : DType::Float32;
  Tensor target = self.is_contiguous() && self.storage() != p.storage() ? self : facula::empty_like(self, self.dtype());
  // probabilities in the memory order of the target
  Tensor each =
      facula::empty_strided(target.sizes(), preserved_strides(target.sizes(), target.strides()), wide, self.device());
  copy_elements(each, make_view(p, self.sizes(), broadcast_strides(p.sizes(), p.strides(), self.sizes()), 0, false));
  check_values(each, {Holds::InUnitInterval, ErrorKind::Runtime, "bernoulli_", "probabilities must lie in [0, 1]"});
  with_generator(generator, self.device(), self.numel(),
                 [&](Generator& g) { bernoulli_kernel(self.device(), flat(target), flat(each), g); });
  if (!target.is_same(self)) copy_elements(self, target);
  return self;
}

Tensor exponential_(const Tensor& self, double lambd, Generator* generator) {
  check_continuous(self, "exponential_");
  FACULA_CHECK(lambd > 0, ErrorKind::Runtime, "exponential_: lambd must be positive, got ", lambd);
  return fill(self, {.distribution = Distribution::Exponential, .a = lambd, .op = "exponential_"}, generator);
}

Tensor cauchy_(const Tensor& self, double median, double sigma, Generator* generator) {
  check_continuous(self, "cauchy_");
  FACULA_CHECK(sigma > 0, ErrorKind::Runtime, "cauchy_: sigma must be positive, got ", sigma);
  return fill(self, {.distribution = Distribution::Cauchy, .a = median, .b = sigma, .op = "cauchy_"}, generator);
}

Tensor geometric_(const Tensor& self, double p, Generator* generator) {
  FACULA_CHECK(p > 0 && p < 1, ErrorKind::Runtime, "geometric_: p must lie between 0 and 1, got ", p);
  FACULA_CHECK(!self.is_complex(), ErrorKind::NotImplemented, "geometric_: expected a real dtype, got ", self.dtype());
  return fill(self, {.distribution = Distribution::Geometric, .a = p, .op = "geometric_"}, generator);
}

Tensor log_normal_(const Tensor& self, double mean, double std, Generator* generator) {
  FACULA_CHECK(is_floating(self.dtype()), ErrorKind::NotImplemented, "log_normal_: expected a floating dtype, got ",
               self.dtype());
  FACULA_CHECK(std > 0, ErrorKind::Runtime, "log_normal_: std must be positive, got ", std);
  return fill(self, {.distribution = Distribution::LogNormal, .a = mean, .b = std, .op = "log_normal_"}, generator);
}

// ---- new tensors

/// The dtype of a result that holds fractions: looked at before out= is written.
static DType of_fractions(std::optional<DType> dtype, const Out& out, const char* op) {
  const DType d = dtype.value_or(out.dtype_or(default_dtype()));
  FACULA_CHECK(is_inexact(d), ErrorKind::NotImplemented, op, ": expected a floating or complex dtype, got ", d);
  return d;
}

Tensor rand(IntList size, Generator* generator, std::optional<DType> dtype, std::optional<Device> device,
            const Out& out) {
  const DType d = of_fractions(dtype, out, "rand");
  return uniform_(out.make(size, d, device.value_or(out.device_or(kCPU))), 0, 1, generator);
}
Tensor randn(IntList size, Generator* generator, std::optional<DType> dtype, std::optional<Device> device,
             const Out& out) {
  const DType d = of_fractions(dtype, out, "randn");
  return normal_(out.make(size, d, device.value_or(out.device_or(kCPU))), 0, 1, generator);
}
Tensor randint(int64_t low, int64_t high, IntList size, Generator* generator, std::optional<DType> dtype,
               std::optional<Device> device, const Out& out) {
  return fill_range(out.make(size, dtype.value_or(out.dtype_or(DType::Int64)), device.value_or(out.device_or(kCPU))),
                    low, high, generator, "randint");
}
Tensor randint(int64_t high, IntList size, Generator* generator, std::optional<DType> dtype,
               std::optional<Device> device, const Out& out) {
  return randint(0, high, size, generator, dtype, device, out);
}
Tensor randperm(int64_t n, Generator* generator, std::optional<DType> dtype, std::optional<Device> device,
                const Out& out) {
  DType d = dtype.value_or(out.dtype_or(DType::Int64));
  FACULA_CHECK(n >= 0, ErrorKind::Runtime, "randperm: n must not be negative, got ", n);
  FACULA_CHECK(!is_complex(d) && d != DType::Bool, ErrorKind::NotImplemented,
               "randperm: expected an integer or floating dtype, got ", d);
  int64_t largest = is_floating(d) ? int64_t{1} << digits_of(d) : limits_of(d).high;
  FACULA_CHECK(n - 1 <= largest, ErrorKind::Runtime, "randperm: n is too large for ", d, ", got ", n);
  return fill(out.make({n}, d, device.value_or(out.device_or(kCPU))),
              {.distribution = Distribution::Permutation, .op = "randperm"}, generator);
}
Tensor rand_like(const Tensor& self, Generator* generator, std::optional<MemoryFormat> format,
                 std::optional<DType> dtype, std::optional<Device> device) {
  return uniform_(like(self, format, dtype, device, "rand_like"), 0, 1, generator);
}
Tensor randn_like(const Tensor& self, Generator* generator, std::optional<MemoryFormat> format,
                  std::optional<DType> dtype, std::optional<Device> device) {
  return normal_(like(self, format, dtype, device, "randn_like"), 0, 1, generator);
}
Tensor randint_like(const Tensor& self, int64_t low, int64_t high, Generator* generator,
                    std::optional<MemoryFormat> format, std::optional<DType> dtype, std::optional<Device> device) {
  return fill_range(like(self, format, dtype, device, "randint_like"), low, high, generator, "randint_like");
}
Tensor randint_like(const Tensor& self, int64_t high, Generator* generator, std::optional<MemoryFormat> format,
                    std::optional<DType> dtype, std::optional<Device> device) {
  return randint_like(self, 0, high, generator, format, dtype, device);
}

// ---- distributions whose parameters are tensors

Tensor normal(const Tensor& mean, const Tensor& std, Generator* generator, const Out& out) {
  check_std(std);
  Tensor result = out.make(broadcast(mean.sizes(), std.sizes(), "normal"), out.dtype_or(mean.dtype()), mean.device());
  normal_(result, 0, 1, generator);
  mul_into(result, Into::Part, Operand(result), Operand(std));
  add_into(result, Into::Part, Operand(result), Operand(mean), Scalar(1));
  return result;
}
Tensor normal(const Tensor& mean, double std, Generator* generator, const Out& out) {
  Tensor result = out.make(mean.sizes(), out.dtype_or(mean.dtype()), mean.device());
  normal_(result, 0, std, generator);
  add_into(result, Into::Part, Operand(result), Operand(mean), Scalar(1));
  return result;
}
Tensor normal(double mean, const Tensor& std, Generator* generator, const Out& out) {
  check_std(std);
  Tensor result = out.make(std.sizes(), out.dtype_or(std.dtype()), std.device());
  normal_(result, 0, 1, generator);
  mul_into(result, Into::Part, Operand(result), Operand(std));
  add_into(result, Into::Part, Operand(result), Operand(mean), Scalar(1));
  return result;
}
Tensor normal(double mean, double std, IntList size, Generator* generator, std::optional<DType> dtype,
              std::optional<Device> device, const Out& out) {
  FACULA_CHECK(!(std < 0), ErrorKind::Runtime, "normal_: expected std >= 0, got ", std);
  const DType d = of_fractions(dtype, out, "normal_");
  return normal_(out.make(size, d, device.value_or(out.device_or(kCPU))), mean, std, generator);
}

Tensor bernoulli(const Tensor& self, Generator* generator, const Out& out) {
  Tensor result = out.given() ? out.make(self.sizes(), out.dtype_or(self.dtype()), self.device())
                              : facula::empty_like(self, self.dtype());
  return bernoulli_(result, self, generator);
}
Tensor bernoulli(const Tensor& self, double p, Generator* generator) {
  return bernoulli_(facula::empty_like(self, self.dtype()), p, generator);
}

Tensor multinomial(const Tensor& self, int64_t num_samples, bool replacement, Generator* generator, const Out& out) {
  FACULA_CHECK(self.dim() == 1 || self.dim() == 2, ErrorKind::Runtime,
               "multinomial: weights must have one or two dimensions, got shape ", self.sizes());
  FACULA_CHECK(is_floating(self.dtype()), ErrorKind::Runtime, "multinomial: weights must be floating, got ",
               self.dtype());
  FACULA_CHECK(num_samples > 0, ErrorKind::Runtime, "multinomial: num_samples must be positive, got ", num_samples);
  FACULA_CHECK(replacement || num_samples <= self.size(-1), ErrorKind::Runtime,
               "multinomial: without replacement there are at most ", self.size(-1), " samples, got ", num_samples);
  FACULA_CHECK(self.size(-1) <= int64_t{1} << 24, ErrorKind::Runtime, "multinomial: at most 2**24 categories, got ",
               self.size(-1));
  FACULA_CHECK(out.dtype_or(DType::Int64) == DType::Int64, ErrorKind::Runtime, "multinomial: out= must be int64, got ",
               out.dtype_or(DType::Int64));
  bool single = self.dim() == 1;
  Tensor result = out.make(single ? Dims{num_samples} : Dims{self.size(0), num_samples}, DType::Int64, self.device());
  if (self.is_meta() || result.numel() == 0) return result;
  Tensor weights = as_contiguous(self, self.sizes(), self.dtype());
  int64_t rows = single ? 1 : self.size(0), categories = self.size(-1);
  with_generator(generator, self.device(), self.numel() + result.numel(), [&](Generator& g) {
    multinomial_kernel(self.device(), make_view(result, {rows, num_samples}, {num_samples, 1}, 0, false),
                       make_view(weights, {rows, categories}, {categories, 1}, 0, false), replacement, g);
  });
  return result;
}

namespace {

// One draw per parameter, in its shape and dtype.
Tensor draw_each(const Tensor& self, Generator* generator,
                 Kernel<void(const Tensor&, const Tensor&, Generator&)>& kernel, const char* op) {
  FACULA_CHECK(is_floating(self.dtype()), ErrorKind::NotImplemented, op, ": expected a floating dtype, got ",
               self.dtype());
  Tensor result = facula::empty(self.sizes(), self.dtype(), self.device());
  if (self.is_meta()) return result;
  Tensor parameters = as_contiguous(self, self.sizes(), self.dtype());
  with_generator(generator, self.device(), self.numel(),
                 [&](Generator& g) { kernel(self.device(), result, parameters, g); });
  return result;
}

}  // namespace

Tensor poisson(const Tensor& self, Generator* generator) {
  return draw_each(self, generator, poisson_kernel, "poisson");
}
Tensor _standard_gamma(const Tensor& self, Generator* generator) {
  return draw_each(self, generator, gamma_kernel, "_standard_gamma");
}
Tensor _sample_dirichlet(const Tensor& self, Generator* generator) {
  FACULA_CHECK(self.dim() > 0, ErrorKind::Runtime, "Dirichlet: expected at least one dimension, got shape ",
               self.sizes());
  return draw_each(self, generator, dirichlet_kernel, "_sample_dirichlet");
}

Tensor binomial(const Tensor& count, const Tensor& prob, Generator* generator) {
  FACULA_CHECK(is_floating(count.dtype()) && is_floating(prob.dtype()), ErrorKind::Value,
               "binomial: count and prob must be floating, got ", count.dtype(), " and ", prob.dtype());
  FACULA_CHECK(count.dtype() == prob.dtype(), ErrorKind::Runtime,
               "binomial: count and prob must have the same dtype, got ", count.dtype(), " and ", prob.dtype());
  Dims shape = broadcast(count.sizes(), prob.sizes(), "binomial");
  Tensor result = facula::empty(shape, count.dtype(), count.device());
  if (result.is_meta()) return result;
  Tensor counts = as_contiguous(count, shape, count.dtype()), probabilities = as_contiguous(prob, shape, prob.dtype());
  with_generator(generator, count.device(), result.numel(),
                 [&](Generator& g) { binomial_kernel(count.device(), result, counts, probabilities, g); });
  return result;
}

Tensor _dropout_kept(const Tensor& self, double keep, Generator* generator) {
  FACULA_CHECK(is_floating(self.dtype()), ErrorKind::NotImplemented, "dropout: expected a floating dtype, got ",
               self.dtype());
  Tensor mask = facula::empty_like(self, DType::Bool);
  if (self.device().type != DeviceType::CUDA) return bernoulli_(mask, keep, generator);
  if (mask.numel() == 0) return mask;
  with_generator(generator, self.device(), self.numel(),
                 [&](Generator& g) { dropout_kernel(self.device(), mask, self, keep, g); });
  return mask;
}

Tensor _rrelu_slopes(const Tensor& self, double lower, double upper, Generator* generator) {
  FACULA_CHECK(is_floating(self.dtype()), ErrorKind::NotImplemented, "rrelu: expected a floating dtype, got ",
               self.dtype());
  Tensor slopes = facula::empty(self.sizes(), self.dtype(), self.device());
  if (self.is_meta()) return slopes;
  Tensor values = as_contiguous(self, self.sizes(), self.dtype());
  with_generator(generator, self.device(), self.numel(),
                 [&](Generator& g) { rrelu_kernel(self.device(), slopes, values, lower, upper, g); });
  return slopes;
}

}  // namespace facula::ops
