// The folds that reductions are made of, on the CPU.
#include <limits>

#include "core/checked.h"
#include "cpu/isa/extreme.h"
#include "cpu/isa/fold.h"
#include "cpu/isa/types.h"

namespace facula::cpu::FACULA_ISA {
namespace {

// Each fold: how one element x enters an accumulator (step), and how two accumulators become one (merge). `step` and
// `merge` take numbers and vectors alike. `c` is the center, of folds that are `centered`.

/// Sums and products of elements: integers wrap around.
auto plus(auto a, auto b) {
  if constexpr (std::is_same_v<decltype(a), int64_t>) return wrapping_add(a, b);
  else return a + b;
}
auto times(auto a, auto b) {
  if constexpr (std::is_same_v<decltype(a), int64_t>) return wrapping_mul(a, b);
  else return a * b;
}

/// What sums of T are held in: floats enter in short runs, whose sums are added up in double. So the error of a sum is
/// that of its runs, whatever its length.
template <class T>
struct Wide {
  using type = T;
};
template <>
struct Wide<float> {
  using type = double;
};
template <>
struct Wide<std::complex<float>> {
  using type = std::complex<double>;
};

template <class T>
struct SumFold {
  using Value = T;
  using Result = T;
  using Acc = typename Wide<T>::type;
  static constexpr bool vectorized = std::is_arithmetic_v<T>;
  static constexpr bool wide = !std::is_same_v<Acc, Value>;
  T identity() const { return T(0); }
  auto step(auto a, auto x, auto) const { return plus(a, x); }
  auto merge(auto a, auto b) const { return plus(a, b); }
};

template <class T>
struct SumFold<std::complex<T>> {
  using Value = std::complex<T>;
  using Result = Value;
  using Acc = typename Wide<Value>::type;
  using Parts = SumFold<T>;
  static constexpr bool vectorized = false;
  static constexpr bool wide = !std::is_same_v<Acc, Value>;
  Value identity() const { return {}; }
  auto step(auto a, Value x, Value) const { return a + decltype(a)(x); }
  auto merge(auto a, auto b) const { return a + b; }
};

template <class T>
struct NanSumFold : SumFold<T> {
  auto step(auto a, auto x, auto) const { return x == x ? plus(a, x) : a; }
};

template <class T>
struct NanSumFold<std::complex<T>> {
  using Value = std::complex<T>;
  using Result = Value;
  using Acc = typename Wide<Value>::type;
  static constexpr bool vectorized = false;
  static constexpr bool wide = !std::is_same_v<Acc, Value>;
  Value identity() const { return {}; }
  auto step(auto a, Value x, Value) const { return x == x ? a + decltype(a)(x) : a; }
  auto merge(auto a, auto b) const { return a + b; }
};

template <class T>
struct ProdFold {
  using Value = T;
  using Acc = T;
  static constexpr bool vectorized = std::is_arithmetic_v<T>;
  T identity() const { return T(1); }
  auto step(auto a, auto x, auto) const { return times(a, x); }
  auto merge(auto a, auto b) const { return times(a, b); }
};

template <class T, bool largest>
struct ExtremumFold {
  using Value = T;
  using Acc = T;
  static constexpr bool vectorized = true;
  T identity() const {
    if constexpr (std::is_floating_point_v<T>) return largest ? -INFINITY : INFINITY;
    else return largest ? std::numeric_limits<T>::lowest() : std::numeric_limits<T>::max();
  }
  auto merge(auto a, auto x) const { return extreme<largest, decltype(a)>(a, x); }
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
  static constexpr bool centered = true;
  auto step(auto a, auto x, auto c) const { return a + (x - c) * (x - c); }
};

template <class T, bool largest>
struct AbsExtremumFold : ExtremumFold<T, largest> {
  T identity() const { return largest ? T(0) : T(INFINITY); }
  auto step(auto a, auto x, auto) const { return this->merge(a, x < T(0) ? -x : x); }
};

template <class T>
struct PowerSumFold : SumFold<T> {
  static constexpr bool vectorized = false;
  T power;
  explicit PowerSumFold(const FoldArgs& args) : power(static_cast<T>(args.power)) {}
  auto step(auto a, T x, T) const { return a + (power == 0 ? T(x != 0) : std::pow(std::abs(x), power)); }
};

template <bool all>
struct TruthFold {
  using Value = bool;
  using Acc = uint8_t;  // 0 or 1
  static constexpr bool vectorized = false;
  uint8_t identity() const { return all; }
  uint8_t step(uint8_t a, bool x, bool) const { return merge(a, x); }
  uint8_t merge(uint8_t a, uint8_t b) const { return all ? a & b : a | b; }
};

struct CountFold {
  using Value = bool;
  using Acc = int64_t;
  static constexpr bool vectorized = false;
  /// Eight at a time: 255 words can be added up before a byte of the sum runs over.
  static int64_t run(const bool* x, int64_t n) {
    constexpr uint64_t kEven = 0x00ff00ff00ff00ff, kEach = 0x0001000100010001;
    int64_t total = 0, i = 0;
    while (i + 8 <= n) {
      const int64_t words = std::min<int64_t>((n - i) / 8, 255);
      uint64_t sum = 0;
      FACULA_SIMD
      for (int64_t w = 0; w < words; ++w) {
        uint64_t word;
        std::memcpy(&word, x + i + 8 * w, sizeof word);
        sum += word;
      }
      total += static_cast<int64_t>(((sum & kEven) + (sum >> 8 & kEven)) * kEach >> 48);
      i += 8 * words;
    }
    for (; i < n; ++i) total += x[i];
    return total;
  }
  int64_t identity() const { return 0; }
  int64_t step(int64_t a, bool x, bool) const { return a + x; }
  int64_t merge(int64_t a, int64_t b) const { return a + b; }
};

struct XorFold {
  using Value = int64_t;
  using Acc = int64_t;
  static constexpr bool vectorized = true;
  int64_t identity() const { return 0; }
  auto step(auto a, auto x, auto) const { return a ^ x; }
  auto merge(auto a, auto b) const { return a ^ b; }
};

template <class T>
using MaxFold = ExtremumFold<T, true>;
template <class T>
using MinFold = ExtremumFold<T, false>;
template <class T>
using AbsMaxFold = AbsExtremumFold<T, true>;
template <class T>
using AbsMinFold = AbsExtremumFold<T, false>;

/// The type of the elements of the result.
template <class Op>
struct ResultOf {
  using type = typename Op::Acc;
};
template <class Op>
  requires requires { typename Op::Result; }
struct ResultOf<Op> {
  using type = typename Op::Result;
};

template <class Op>
Op make_fold(const FoldArgs& args) {
  if constexpr (std::is_constructible_v<Op, const FoldArgs&>) return Op(args);
  else return Op();
}

template <class Op>
Folder make_folder(const Op& op, const FoldArgs& args, void* results) {
  using Acc = typename Op::Acc;
  using Functions = FolderOf<Op>;
  return {args,
          results,
          sizeof(typename Op::Value),
          sizeof(Acc),
          &op,
          Functions::start,
          Functions::template rows<typename Op::Value>,
          Functions::columns,
          Functions::merge,
          store_folded<Acc, typename ResultOf<Op>::type>,
          Functions::template narrow<BFloat16>(),
          Functions::template narrow<Half>()};
}

/// A fold over elements of one type.
template <class Op>
void fold_one(const Tensor& out, const Tensor& in, const FoldArgs& args) {
  const Op op = make_fold<Op>(args);
  run_fold(make_folder(op, args, out.data()), out, in, args.center ? args.center->data<char>() : nullptr);
}

template <template <class> class Op>
Folder folder_of_reals(const FoldArgs& args, void* results) {
  static const Op<float> floats{};
  static const Op<double> doubles{};
  return args.compute == DType::Float32 ? make_folder(floats, args, results) : make_folder(doubles, args, results);
}

/// A fold over elements of the compute dtype, one of `TypeList`.
template <template <class> class Op, class TypeList>
void fold_any(const Tensor& out, const Tensor& in, const FoldArgs& args) {
  visit_types(TypeList(), args.compute, [&]<class T>(TypeTag<T>) { fold_one<Op<T>>(out, in, args); });
}

template <class T>
void sum_flat(int64_t n, const void* in, void* out) {
  const T* x = static_cast<const T*>(in);
  const int64_t first = std::min(n, kFoldBlock);  // as fold_run() splits it, which sums larger tensors
  auto sum = fold_block(SumFold<T>{}, x, first, T(0));
  if (n > first) sum = plus(sum, fold_block(SumFold<T>{}, x + first, n - first, T(0)));
  *static_cast<T*>(out) = static_cast<T>(sum);
}

void sum_flat_cpu(DType dtype, int64_t n, const void* in, void* out) {
  switch (dtype) {
    case DType::Float32: return sum_flat<float>(n, in, out);
    case DType::Float64: return sum_flat<double>(n, in, out);
    default: return sum_flat<int64_t>(n, in, out);
  }
}

}  // namespace

Folder folder_of(const FoldKernel& kernel, const FoldArgs& args, void* results) {
  if (&kernel == &max_fold) return folder_of_reals<MaxFold>(args, results);
  if (&kernel == &min_fold) return folder_of_reals<MinFold>(args, results);
  FACULA_CHECK(&kernel == &sum_fold, ErrorKind::NotImplemented, "group: no fold ", kernel.name, " of all elements");
  return folder_of_reals<SumFold>(args, results);
}

void register_reduce() {
  constexpr DeviceType cpu = DeviceType::CPU;
  sum_fold.set(cpu, fold_any<SumFold, Numbers>);
  nansum_fold.set(cpu, fold_any<NanSumFold, Numbers>);
  prod_fold.set(cpu, fold_any<ProdFold, Numbers>);
  max_fold.set(cpu, fold_any<MaxFold, Reals>);
  min_fold.set(cpu, fold_any<MinFold, Reals>);
  any_fold.set(cpu, fold_one<TruthFold<false>>);
  all_fold.set(cpu, fold_one<TruthFold<true>>);
  count_nonzero_fold.set(cpu, fold_one<CountFold>);
  xor_fold.set(cpu, fold_one<XorFold>);
  abs_sum_fold.set(cpu, fold_any<AbsSumFold, Floats>);
  square_sum_fold.set(cpu, fold_any<SquareSumFold, Floats>);
  power_sum_fold.set(cpu, fold_any<PowerSumFold, Floats>);
  abs_max_fold.set(cpu, fold_any<AbsMaxFold, Floats>);
  abs_min_fold.set(cpu, fold_any<AbsMinFold, Floats>);
  centered_squares_fold.set(cpu, fold_any<CenteredSquaresFold, Floats>);
  sum_flat_kernel.set(cpu, sum_flat_cpu);
}

}  // namespace facula::cpu::FACULA_ISA
