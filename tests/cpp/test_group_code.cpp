// Machine code of groups against the loops that ops run alone: every step that can be code, on hostile numbers, at all
// lengths around a vector's, and random programs in every way that a group holds its values. Operands end where memory
// that may be touched ends.
#include <sys/mman.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <vector>

#include "check.h"
#include "cpu/backend.h"
#include "cpu/group_runs.h"
#include "cpu/group_trust.h"
#include "op_ids_activation.h"
#include "op_ids_elementwise.h"
#include "ops/kernel_table.h"

namespace {

using namespace facula;
using cpu::Held;
using cpu::emit::Level;
using cpu::emit::Rule;
using Kind = GroupValue::Kind;

std::mt19937 chance(1);
int64_t below(int64_t n) { return static_cast<int64_t>(chance() % static_cast<uint64_t>(n)); }

/// Bytes that end at a page which nobody may touch.
class Fenced {
 public:
  explicit Fenced(int64_t bytes) : bytes_(static_cast<size_t>(bytes)), size_((bytes_ + kPage - 1) / kPage * kPage) {
    memory_ =
        static_cast<char*>(mmap(nullptr, size_ + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    CHECK(memory_ != MAP_FAILED);
    CHECK(mprotect(memory_ + size_, kPage, PROT_NONE) == 0);
  }
  Fenced(Fenced&& other) noexcept
      : memory_(std::exchange(other.memory_, nullptr)), bytes_(other.bytes_), size_(other.size_) {}
  ~Fenced() {
    if (memory_) munmap(memory_, size_ + kPage);
  }
  char* data() const { return memory_ + size_ - bytes_; }
  size_t size() const { return bytes_; }

 private:
  static constexpr size_t kPage = 4096;
  char* memory_;
  size_t bytes_, size_;
};

double hostile() {
  static const double numbers[] = {0.0,
                                   -0.0,
                                   1,
                                   -1,
                                   0.5,
                                   -0.5,
                                   3,
                                   -3,
                                   6,
                                   2.5,
                                   1e-45,
                                   -1e-45,
                                   1e-39,
                                   -3e-39,
                                   1.1754944e-38,
                                   3.4e38,
                                   -3.4e38,
                                   65504,
                                   65520,
                                   -70000,
                                   6e-8,
                                   5.9e-8,
                                   1e-5,
                                   5e-324,
                                   -1e-310,
                                   1.7e308,
                                   std::numeric_limits<double>::infinity(),
                                   -std::numeric_limits<double>::infinity(),
                                   std::numeric_limits<double>::quiet_NaN(),
                                   -std::numeric_limits<double>::quiet_NaN()};
  if (below(3) == 0) return numbers[below(std::size(numbers))];
  const double mantissa = std::uniform_real_distribution<double>(-4, 4)(chance);
  return below(4) ? mantissa : std::ldexp(mantissa, static_cast<int>(below(270)) - 140);
}

void put(char* at, DType dtype, double value) {
  const auto write = [&](auto x) { std::memcpy(at, &x, sizeof x); };
  switch (dtype) {
    case DType::Bool: return write(static_cast<uint8_t>(value > 0));
    case DType::UInt8: return write(static_cast<uint8_t>(chance()));
    case DType::Int8: return write(static_cast<int8_t>(chance()));
    case DType::Int16: return write(static_cast<int16_t>(chance()));
    case DType::Int32: return write(static_cast<int32_t>(chance()));
    case DType::Float64: return write(value);
    case DType::Float32: return write(static_cast<float>(value));
    case DType::BFloat16: return write(static_cast<uint16_t>(std::bit_cast<uint32_t>(static_cast<float>(value)) >> 16));
    default:
      return write(static_cast<uint16_t>(below(3) ? (below(2) << 15) + 0x3c00 + below(0x800) - 0x400 : chance()));
  }
}

bool is_nan(const char* at, DType dtype) {
  uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<size_t>(item_size(dtype)));
  switch (dtype) {
    case DType::Float64: return (bits & ~uint64_t{0} >> 1) > 0x7ff0000000000000;
    case DType::Float32: return (bits & 0x7fffffff) > 0x7f800000;
    case DType::BFloat16: return (bits & 0x7fff) > 0x7f80;
    case DType::Float16: return (bits & 0x7fff) > 0x7c00;
    default: return false;
  }
}

bool same(const char* a, const char* b, int64_t n, DType dtype) {
  const int64_t item = item_size(dtype);
  for (int64_t i = 0; i < n; ++i, a += item, b += item)
    if (std::memcmp(a, b, static_cast<size_t>(item)) != 0 && !(is_nan(a, dtype) && is_nan(b, dtype))) return false;
  return true;
}

size_t arity(uint16_t loop) {
  using namespace loop_id;
  static const std::set<uint16_t> three = {clamp_between_ternary, lerp_ternary, addcmul_ternary, addcdiv_ternary,
                                           where_ternary};
  static const std::set<uint16_t> two = {add_binary,
                                         sub_binary,
                                         rsub_binary,
                                         mul_binary,
                                         div_binary,
                                         maximum_binary,
                                         minimum_binary,
                                         fmax_binary,
                                         fmin_binary,
                                         tanh_backward_binary,
                                         sigmoid_backward_binary,
                                         threshold_backward_binary,
                                         hardtanh_backward_binary,
                                         hardsigmoid_backward_binary,
                                         hardswish_backward_binary,
                                         leaky_relu_backward_binary,
                                         prelu_binary,
                                         shrink_backward_binary,
                                         eq_binary_bool,
                                         ne_binary_bool,
                                         lt_binary_bool,
                                         le_binary_bool,
                                         gt_binary_bool,
                                         ge_binary_bool,
                                         logical_and_binary_bool,
                                         logical_or_binary_bool,
                                         logical_xor_binary_bool,
                                         bitwise_and_binary,
                                         bitwise_or_binary,
                                         bitwise_xor_binary};
  return three.contains(loop) ? 3 : two.contains(loop) ? 2 : 1;
}

bool gives_truth(const Rule& rule) { return rule.form == Rule::Form::Test || rule.form == Rule::Form::Logic; }

/// A group that is made step by step, with its values in memory and what the loops make of them.
class Sample {
 public:
  Sample(Dims shape, int64_t row) {
    group.shape = shape;
    group.row = row;
    group.numel = 1;
    for (const int64_t size : shape) group.numel *= size;
  }

  uint16_t stream(DType dtype, const Dims& elements, bool per_row = false) {
    int64_t largest = 0;
    for (size_t d = 0; d < group.shape.size(); ++d) largest += (group.shape[d] - 1) * std::abs(elements[d]);
    const int64_t item = item_size(dtype);
    const Fenced& memory = memory_.emplace_back((group.numel ? largest + 1 : 0) * item);
    for (size_t at = 0; at < memory.size(); at += static_cast<size_t>(item)) put(memory.data() + at, dtype, hostile());
    GroupValue v;
    v.dtype = dtype;
    v.data = memory.data();
    v.per_row = per_row;
    for (const int64_t e : elements) v.strides.push_back(e * item);
    Fenced dense(group.numel * item);
    for (int64_t i = 0; i < group.numel; ++i) {
      int64_t rest = i, offset = 0;
      for (size_t d = 0; d < group.shape.size(); rest /= group.shape[d], ++d)
        offset += rest % group.shape[d] * v.strides[d];
      std::memcpy(dense.data() + i * item, v.data + offset, static_cast<size_t>(item));
    }
    return add(v, std::move(dense));
  }
  uint16_t flat(DType dtype) {
    Dims elements;
    int64_t step = 1;
    for (const int64_t size : group.shape) elements.push_back(step), step *= size;
    return stream(dtype, elements);
  }
  uint16_t number(DType compute) {
    GroupValue v;
    v.kind = Kind::Number;
    v.dtype = compute;
    put(v.number, compute, hostile());
    return add(v, Fenced(0));
  }

  /// Adds a step and computes it by its loop.
  uint16_t step(uint16_t loop, DType compute, DType result, std::vector<uint16_t> in, bool written) {
    const Rule& rule = *cpu::emit::rule_of(loop, compute);
    GroupStep s;
    s.loop = loop;
    s.compute = compute;
    s.loop_result = gives_truth(rule) ? DType::Bool : compute;
    s.inputs = static_cast<uint8_t>(in.size());
    std::copy(in.begin(), in.end(), s.in.begin());
    for (int64_t k = 0; k < rule.params; ++k) put(s.params + k * item_size(compute), compute, below(2) ? 1 : hostile());
    GroupValue v;
    v.kind = Kind::Result;
    v.dtype = result;
    Fenced dense(group.numel * item_size(result));
    if (group.numel) alone(s, v, dense);
    if (written) v.data = memory_.emplace_back(group.numel * item_size(result)).data();
    const uint16_t value = s.out[0] = add(v, std::move(dense));
    group.steps.push_back(s);
    return value;
  }

  /// Adds a conversion.
  uint16_t convert(DType dtype, uint16_t in, bool written) {
    GroupStep s;
    s.copies = true;
    s.inputs = 1;
    s.in[0] = in;
    GroupValue v;
    v.kind = Kind::Result;
    v.dtype = dtype;
    Fenced dense(group.numel * item_size(dtype));
    if (group.numel) alone(s, v, dense);
    if (written) v.data = memory_.emplace_back(group.numel * item_size(dtype)).data();
    const uint16_t value = s.out[0] = add(v, std::move(dense));
    group.steps.push_back(s);
    return value;
  }

  /// The whole group as the engine runs it.
  void run() const { run_group(kCPU, group); }

  /// The runs of code alone: only where all steps are in one, and all streams are in order.
  void run_code(Level level) const {
    std::vector<Held> held;
    for (const GroupValue& v : group.values) held.push_back(v.kind == Kind::Number ? Held::Number : Held::Elements);
    const auto runs = cpu::runs_of(group, held, level);
    if (!runs) return;
    seen += runs->runs.size();
    for (const cpu::GroupRun& run : runs->runs) {
      if (run.end - run.first != group.steps.size()) return;
      std::vector<const void*> arguments;
      for (const auto& a : run.arguments) {
        using K = cpu::GroupRun::Argument::Kind;
        if (a.kind == K::Number) arguments.push_back(group.values[group.steps[a.value].in[a.input]].number);
        else if (a.kind == K::Params) arguments.push_back(group.steps[a.value].params);
        else arguments.push_back(group.values[a.value].data);
      }
      cpu::call_run(run, group.numel, arguments.data());
    }
    ++whole;
  }

  bool is_right() const {
    for (size_t i = 0; i < group.values.size(); ++i) {
      const GroupValue& v = group.values[i];
      if (v.kind == Kind::Result && v.data && !same(v.data, dense_[i].data(), group.numel, v.dtype)) return false;
    }
    return true;
  }
  void forget() const {
    for (const GroupValue& v : group.values)
      if (v.kind == Kind::Result && v.data)
        std::memset(v.data, 0x55, static_cast<size_t>(group.numel * item_size(v.dtype)));
  }
  void print() const {
    for (const GroupStep& s : group.steps)
      std::printf("  loop %d in dtype %d: %d %d %d -> %d, dtype %d%s\n", s.loop, index(s.compute), s.in[0], s.in[1],
                  s.in[2], s.out[0], index(group.values[s.out[0]].dtype),
                  group.values[s.out[0]].data ? ", written" : "");
  }

  Group group;
  static inline size_t seen = 0, whole = 0;

 private:
  uint16_t add(const GroupValue& v, Fenced dense) {
    group.values.push_back(v);
    dense_.push_back(std::move(dense));
    return static_cast<uint16_t>(group.values.size() - 1);
  }
  void alone(GroupStep s, GroupValue out, const Fenced& dense) const {
    Group one;
    one.numel = group.numel;
    one.shape = {group.numel};
    for (size_t k = 0; k < s.inputs; ++k) {
      GroupValue v = group.values[s.in[k]];
      if (v.kind != Kind::Number) {
        v.kind = Kind::Stream;
        v.per_row = false;
        v.data = dense_[s.in[k]].data();
        v.strides = {item_size(v.dtype)};
      }
      one.values.push_back(v);
      s.in[k] = static_cast<uint16_t>(k);
    }
    s.out[0] = s.inputs;
    out.data = dense.data();
    one.values.push_back(out);
    one.steps.push_back(s);
    run_group(kCPU, one);
  }

  std::vector<Fenced> memory_, dense_;
};

std::vector<Level> levels() {
  std::vector<Level> list;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) list.push_back(Level::Avx2);
  if (__builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw")) list.push_back(Level::Avx512);
#endif
  return list;
}

/// Runs a sample in all ways.
bool agrees(const Sample& sample, bool in_order) {
  bool right = true;
  const auto look = [&](const char* how, int level) {
    if (sample.is_right()) return;
    right = false;
    std::printf("%s (%d) differs, %d elements\n", how, level, static_cast<int>(sample.group.numel));
    sample.print();
  };
  if (in_order) {
    for (const Level level : levels()) {
      sample.forget();
      const size_t whole = Sample::whole;
      sample.run_code(level);
      if (Sample::whole > whole) look("code", static_cast<int>(level));
    }
  }
  if (!sample.group.numel) return right;
  sample.forget();
  sample.run();
  look("group", 0);
  return right;
}

std::vector<DType> dtypes_in(DType compute) {
  if (compute == DType::Bool) return {DType::Bool};
  if (compute == DType::Float64) return {DType::Float64, DType::Float32, DType::Int32, DType::Bool};
  return {DType::Float32, DType::BFloat16, DType::Float16, DType::Bool,
          DType::UInt8,   DType::Int8,     DType::Int16,   DType::Int32};
}
bool is_result(DType dtype, DType compute) {
  return dtype == compute || (compute == DType::Float32 ? is_half(dtype) : dtype == DType::Float32);
}

void test_every_loop() {
  int rules = 0;
  for (uint16_t loop = 0; loop < 256; ++loop) {
    for (const DType compute : {DType::Float32, DType::Float64, DType::Bool}) {
      const Rule* rule = cpu::emit::rule_of(loop, compute);
      if (!rule || !loop_table[loop][index(compute)]) continue;
      ++rules;
      for (const Level level : levels()) EXPECT(cpu::is_as_its_loop(*rule, compute, level));
      for (const DType dtype : dtypes_in(compute)) {
        const DType result = gives_truth(*rule) ? DType::Bool : is_result(dtype, compute) ? dtype : compute;
        for (int numbers = 0; numbers < (1 << arity(loop)) - 1; ++numbers) {
          if (numbers && (compute == DType::Bool || rule->form == Rule::Form::Logic)) continue;
          if (numbers & 1 && rule->form == Rule::Form::Where) continue;
          for (int64_t n = 0; n <= 70; ++n) {
            Sample sample({n}, 0);
            std::vector<uint16_t> in;
            for (size_t k = 0; k < arity(loop); ++k) {
              const bool condition = k == 0 && rule->form == Rule::Form::Where && below(2);
              in.push_back(numbers >> k & 1 ? sample.number(compute) : sample.flat(condition ? DType::Bool : dtype));
            }
            const uint16_t made = sample.step(loop, compute, result, in, true);
            if (result == DType::Bool)
              sample.step(loop_id::logical_not_unary_bool, DType::Bool, DType::Bool, {made}, true);
            else sample.step(loop_id::neg_unary, compute, result, {made}, true);
            if (!agrees(sample, true)) {
              ++failures;
              std::printf("loop %d, compute %d, dtype %d, numbers %d\n", loop, index(compute), index(dtype), numbers);
              n = 71;
            }
          }
        }
      }
    }
  }
  EXPECT(rules > 100);
}

void test_conversions() {
  const DType dtypes[] = {DType::Bool,    DType::UInt8,    DType::Int8,    DType::Int16,  DType::Int32,
                          DType::Float16, DType::BFloat16, DType::Float32, DType::Float64};
  for (const DType from : dtypes) {
    for (const DType middle : dtypes) {
      for (const DType to : dtypes) {
        if (from == middle || middle == to) continue;
        for (int64_t n = 0; n <= 70; n += 1 + below(3)) {
          Sample sample({n}, 0);
          sample.convert(to, sample.convert(middle, sample.flat(from), below(2)), true);
          EXPECT(agrees(sample, true));
        }
      }
    }
  }
}

std::vector<uint16_t> loops_in(DType compute) {
  std::vector<uint16_t> list;
  for (uint16_t loop = 0; loop < 256; ++loop)
    if (cpu::emit::rule_of(loop, compute) && loop_table[loop][index(compute)]) list.push_back(loop);
  return list;
}

/// A random program over values that lie in some way.
class RandomProgram {
 public:
  RandomProgram(Dims shape, int64_t row, bool in_order)
      : sample(shape, row), in_order_(in_order), compute_(below(3) ? DType::Float32 : DType::Float64) {
    for (int64_t steps = 2 + below(30), s = 0; s < steps; ++s) step(s + 1 == steps);
  }
  Sample sample;

 private:
  void step(bool last) {
    if (below(8) == 0) return convert(last);
    const DType compute = below(8) ? compute_ : DType::Bool;
    static const std::vector<uint16_t> loops[] = {loops_in(DType::Float32), loops_in(DType::Float64),
                                                  loops_in(DType::Bool)};
    const auto& list = loops[compute == DType::Bool ? 2 : compute == DType::Float64];
    const uint16_t loop = list[static_cast<size_t>(below(static_cast<int64_t>(list.size())))];
    const Rule& rule = *cpu::emit::rule_of(loop, compute);
    std::vector<uint16_t> in;
    for (size_t k = 0; k < arity(loop); ++k) {
      const bool truth = rule.form == Rule::Form::Logic || (k == 0 && rule.form == Rule::Form::Where);
      const bool whole = k + 1 == arity(loop);  // at least one input has all elements, as ops have it
      in.push_back(truth && below(4) ? value_of(DType::Bool, whole) : operand(compute, whole));
    }
    const DType narrow = compute == DType::Float64 ? DType::Float32 : below(2) ? DType::BFloat16 : DType::Float16;
    const DType result = gives_truth(rule) ? DType::Bool : below(5) ? compute : narrow;
    sample.step(loop, compute, result, in, last || below(4) == 0);
  }
  void convert(bool written) {
    const std::vector<DType> dtypes = dtypes_in(compute_);
    const auto any = [&] { return dtypes[static_cast<size_t>(below(static_cast<int64_t>(dtypes.size())))]; };
    const uint16_t in = value_of(any(), true);
    DType to = any();
    while (to == sample.group.values[in].dtype) to = any();
    sample.convert(to, in, written || below(4) == 0);
  }
  uint16_t operand(DType compute, bool whole) {
    if (compute == DType::Bool) return value_of(DType::Bool, whole);
    if (!whole && below(5) == 0) return sample.number(compute);
    const std::vector<DType> dtypes = dtypes_in(compute);
    return value_of(below(3) ? compute : dtypes[static_cast<size_t>(below(static_cast<int64_t>(dtypes.size())))],
                    whole);
  }
  uint16_t value_of(DType dtype, bool whole) {
    std::vector<uint16_t> known;
    for (size_t i = 0; i < sample.group.values.size(); ++i) {
      const GroupValue& v = sample.group.values[i];
      if (v.dtype == dtype && v.kind != Kind::Number && (!whole || v.kind == Kind::Result))
        known.push_back(static_cast<uint16_t>(i));
    }
    if (!known.empty() && (below(4) || sample.group.values.size() > 60))
      return known[static_cast<size_t>(below(static_cast<int64_t>(known.size())))];
    return in_order_ || whole ? sample.flat(dtype) : laid(dtype);
  }
  /// A stream that lies in one of the ways.
  uint16_t laid(DType dtype) {
    const Dims& shape = sample.group.shape;
    Dims elements;
    for (size_t d = 0; d < shape.size(); ++d) elements.push_back(0);
    switch (below(5)) {
      case 0:  // a row for all
        elements[0] = 1;
        return sample.stream(dtype, elements);
      case 1:  // every second element
        for (size_t d = 0, step = 2; d < shape.size(); step *= static_cast<size_t>(shape[d]), ++d)
          elements[d] = static_cast<int64_t>(step);
        return sample.stream(dtype, elements);
      case 2:  // one for each row
        for (size_t d = 1, step = 1; d < shape.size(); step *= static_cast<size_t>(shape[d]), ++d)
          elements[d] = static_cast<int64_t>(step);
        return sample.stream(dtype, elements, sample.group.row > 0);
      case 3:  // with gaps between rows
        elements[0] = 1;
        for (size_t d = 1, step = static_cast<size_t>(shape[0]) + 3; d < shape.size();
             step *= static_cast<size_t>(shape[d]), ++d)
          elements[d] = static_cast<int64_t>(step);
        return sample.stream(dtype, elements);
      default: return sample.flat(dtype);
    }
  }

  bool in_order_;
  DType compute_;
};

void test_random_programs() {
  for (int i = 0; i < 3000; ++i) EXPECT(agrees(RandomProgram({below(200) + 1}, 0, true).sample, true));
  static const Dims shapes[] = {{7, 30}, {64, 20}, {100, 13}, {1000, 3}, {33, 4, 5}, {2500}, {128, 40}};
  for (int i = 0; i < 3000; ++i) {
    const Dims& shape = shapes[below(std::size(shapes))];
    const int64_t row = below(2) ? shape[0] : 0;
    EXPECT(agrees(RandomProgram(shape, row, false).sample, false));
  }
}

void test_large_results() {
  RandomProgram program({(int64_t{17} << 20) / 4 + 5}, 0, true);
  EXPECT(agrees(program.sample, true));
}

}  // namespace

int main() {
  std::setvbuf(stdout, nullptr, _IONBF, 0);
  facula::cpu::register_backend();
  test_every_loop();
  test_conversions();
  test_random_programs();
  test_large_results();
  EXPECT(levels().empty() || (Sample::seen > 10000 && Sample::whole > 10000));
  if (failures) std::printf("%d failures\n", failures.load());
  else std::printf("ok: %zu runs of code, %zu whole groups\n", Sample::seen, Sample::whole);
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
