// The folds that reductions are made of, on the CPU.
#include <limits>

#include "cpu/isa/fold.h"

namespace facula::cpu::FACULA_ISA {
namespace {

// Each fold: how one element x enters an accumulator (step), and how two accumulators become one (merge). `step` and
// `merge` take numbers and vectors alike. `c` is the centre of CenteredSquares.

template <class T>
struct SumFold {
  using Value = T;
  using Acc = T;
  static constexpr bool vectorised = std::is_arithmetic_v<T>;
  T identity() const { return T(0); }
  auto step(auto a, auto x, auto) const { return a + x; }
  auto merge(auto a, auto b) const { return a + b; }
};

template <class T>
struct SumFold<std::complex<T>> {
  using Value = std::complex<T>;
  using Acc = Value;
  using Parts = SumFold<T>;
  static constexpr bool vectorised = false;
  Value identity() const { return {}; }
  Value step(Value a, Value x, Value) const { return a + x; }
  Value merge(Value a, Value b) const { return a + b; }
};

template <class T>
struct NanSumFold : SumFold<T> {
  auto step(auto a, auto x, auto) const { return x == x ? a + x : a; }
};

template <class T>
struct NanSumFold<std::complex<T>> {
  using Value = std::complex<T>;
  using Acc = Value;
  static constexpr bool vectorised = false;
  Value identity() const { return {}; }
  Value step(Value a, Value x, Value) const { return x == x ? a + x : a; }
  Value merge(Value a, Value b) const { return a + b; }
};

template <class T>
struct ProdFold {
  using Value = T;
  using Acc = T;
  static constexpr bool vectorised = std::is_arithmetic_v<T>;
  T identity() const { return T(1); }
  auto step(auto a, auto x, auto) const { return a * x; }
  auto merge(auto a, auto b) const { return a * b; }
};

template <class T, bool largest>
struct ExtremumFold {
  using Value = T;
  using Acc = T;
  static constexpr bool vectorised = true;
  T identity() const {
    if constexpr (std::is_floating_point_v<T>) return largest ? -INFINITY : INFINITY;
    else return largest ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
  }
  auto merge(auto a, auto x) const {
    if constexpr (largest) return (x > a) | (x != x) ? x : a;
    else return (x < a) | (x != x) ? x : a;
  }
  auto step(auto a, auto x, auto) const { return merge(a, x); }
};

template <class T>
struct AbsSumFold : SumFold<T> {
  auto step(auto a, auto x, auto) const { return a + (x < T(0) ? -x : x); }
};

template <class T>
struct SquareSumFold : SumFold<T> {
  auto step(auto a, auto x, auto) const { return a + x * x; }
};

template <class T>
struct CenteredSquaresFold : SumFold<T> {
  auto step(auto a, auto x, auto c) const { return a + (x - c) * (x - c); }
};

template <class T, bool largest>
struct AbsExtremumFold : ExtremumFold<T, largest> {
  T identity() const { return largest ? T(0) : T(INFINITY); }
  auto step(auto a, auto x, auto) const { return this->merge(a, x < T(0) ? -x : x); }
};

template <class T>
struct PowerSumFold : SumFold<T> {
  static constexpr bool vectorised = false;
  T power;
  T step(T a, T x, T) const { return a + (power == 0 ? T(x != 0) : std::pow(std::abs(x), power)); }
};

template <bool all>
struct TruthFold {
  using Value = bool;
  using Acc = uint8_t;  // 0 or 1
  static constexpr bool vectorised = false;
  uint8_t identity() const { return all; }
  uint8_t step(uint8_t a, bool x, bool) const { return merge(a, x); }
  uint8_t merge(uint8_t a, uint8_t b) const { return all ? a & b : a | b; }
};

struct CountFold {
  using Value = bool;
  using Acc = int64_t;
  static constexpr bool vectorised = false;
  int64_t identity() const { return 0; }
  int64_t step(int64_t a, bool x, bool) const { return a + x; }
  int64_t merge(int64_t a, int64_t b) const { return a + b; }
};

struct XorFold {
  using Value = int64_t;
  using Acc = int64_t;
  static constexpr bool vectorised = true;
  int64_t identity() const { return 0; }
  auto step(auto a, auto x, auto) const { return a ^ x; }
  auto merge(auto a, auto b) const { return a ^ b; }
};

template <class Op>
void run(const Op& op, const Tensor& out, const Tensor& in, const FoldArgs& args) {
  using Acc = typename Op::Acc;
  Acc* results = out.data<Acc>();
  const auto* centers = args.center ? args.center->data<typename Op::Value>() : nullptr;
  double divisor = args.divisor, root = 1 / args.power;
  Finish finish = args.finish;
  run_fold(op, out, in, args.compute, centers, [=](int64_t place, Acc value) {
    if constexpr (std::is_floating_point_v<Acc>) {
      if (divisor != 1) value /= static_cast<Acc>(divisor);
      if (finish == Finish::Sqrt) value = std::sqrt(value);
      if (finish == Finish::Power) value = static_cast<Acc>(std::pow(static_cast<double>(value), root));
    } else if constexpr (!std::is_integral_v<Acc>) {
      if (divisor != 1) value /= static_cast<typename Acc::value_type>(divisor);
    }
    results[place] = value;
  });
}

[[noreturn]] void refuse(const FoldArgs& args) {
  throw_error(ErrorKind::NotImplemented, "reduction: not implemented for dtype ", args.compute);
}

template <class T>
void fold_number(const Tensor& out, const Tensor& in, const FoldArgs& args) {
  switch (args.fold) {
    case Fold::Sum: return run(SumFold<T>{}, out, in, args);
    case Fold::NanSum: return run(NanSumFold<T>{}, out, in, args);
    case Fold::Prod: return run(ProdFold<T>{}, out, in, args);
    default: break;
  }
  if constexpr (std::is_arithmetic_v<T>) {
    if (args.fold == Fold::Max) return run(ExtremumFold<T, true>{}, out, in, args);
    if (args.fold == Fold::Min) return run(ExtremumFold<T, false>{}, out, in, args);
  }
  if constexpr (std::is_floating_point_v<T>) {
    switch (args.fold) {
      case Fold::AbsSum: return run(AbsSumFold<T>{}, out, in, args);
      case Fold::SquareSum: return run(SquareSumFold<T>{}, out, in, args);
      case Fold::AbsMax: return run(AbsExtremumFold<T, true>{}, out, in, args);
      case Fold::AbsMin: return run(AbsExtremumFold<T, false>{}, out, in, args);
      case Fold::CenteredSquares: return run(CenteredSquaresFold<T>{}, out, in, args);
      case Fold::PowerSum: return run(PowerSumFold<T>{{}, static_cast<T>(args.power)}, out, in, args);
      default: break;
    }
  }
  refuse(args);
}

void fold_cpu(const Tensor& out, const Tensor& in, const FoldArgs& args) {
  switch (args.fold) {
    case Fold::Any: return run(TruthFold<false>{}, out, in, args);
    case Fold::All: return run(TruthFold<true>{}, out, in, args);
    case Fold::CountNonzero: return run(CountFold{}, out, in, args);
    case Fold::Xor: return run(XorFold{}, out, in, args);
    default: break;
  }
  switch (args.compute) {
    case DType::Float32: return fold_number<float>(out, in, args);
    case DType::Float64: return fold_number<double>(out, in, args);
    case DType::Int64: return fold_number<int64_t>(out, in, args);
    case DType::Complex64: return fold_number<std::complex<float>>(out, in, args);
    case DType::Complex128: return fold_number<std::complex<double>>(out, in, args);
    default: refuse(args);
  }
}

template <class T>
void sum_flat(int64_t n, const void* in, void* out) {
  *static_cast<T*>(out) = fold_block(SumFold<T>{}, static_cast<const T*>(in), n, T(0));
}

void sum_flat_cpu(DType dtype, int64_t n, const void* in, void* out) {
  switch (dtype) {
    case DType::Float32: return sum_flat<float>(n, in, out);
    case DType::Float64: return sum_flat<double>(n, in, out);
    default: return sum_flat<int64_t>(n, in, out);
  }
}

}  // namespace

void register_reduce() {
  fold_kernel.set(DeviceType::CPU, fold_cpu);
  sum_flat_kernel.set(DeviceType::CPU, sum_flat_cpu);
}

}  // namespace facula::cpu::FACULA_ISA
