// Interpolation along one dimension.
#include "ops/resample.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <memory>

#include "cpu/isa.h"
#include "cpu/isa/grain.h"
#include "cpu/isa/lanes.h"
#include "cpu/isa/transpose.h"
#include "kernels/math.h"
#include "ops/pool.h"

namespace facula::cpu::FACULA_ISA {
namespace {

template <class T>
void copy_taps(T* out, const T* in, int64_t outer, int64_t inner, const Taps& taps) {
  const int64_t outputs = taps.out, *index = taps.index.data<int64_t>();
  parallel_for(0, outer, grain_of(outputs * inner), [&](int64_t from, int64_t to) {
    for (int64_t a = from; a < to; ++a) {
      const T* source = in + a * taps.in * inner;
      T* target = out + a * outputs * inner;
      if (inner == 1) {
        for (int64_t o = 0; o < outputs; ++o) target[o] = source[index[o]];
      } else {
        for (int64_t o = 0; o < outputs; ++o) {
          std::memcpy(static_cast<void*>(target + o * inner), source + index[o] * inner,
                      static_cast<size_t>(inner) * sizeof(T));
        }
      }
    }
  });
}

template <class T>
void weigh_row(T* row, const T* source, int64_t inner, const Taps& taps, const T* weight, int64_t o) {
  const int64_t *index = taps.index.data<int64_t>(), from = taps.first.data<int64_t>()[o],
                to = taps.first.data<int64_t>()[o + 1];
  if (from == to) {
    std::fill_n(row, inner, T(0));
    return;
  }
  const T* first = source + index[from] * inner;
  T w = weight[from];
  FACULA_SIMD
  for (int64_t i = 0; i < inner; ++i) row[i] = first[i] * w;
  for (int64_t k = from + 1; k < to; ++k) {
    const T* next = source + index[k] * inner;
    w = weight[k];
    FACULA_SIMD
    for (int64_t i = 0; i < inner; ++i) row[i] += next[i] * w;
  }
}

// Lines that lie along memory: as many as a vector has lanes are turned side by side, and what an output reads are
// vectors.
template <class T>
class LineGroup {
 public:
  static constexpr int64_t lanes = VectorOf<T>::lanes;

  LineGroup(const Taps& taps, const T* weights)
      : inputs_(taps.in),
        outputs_(taps.out),
        first_(taps.first.data<int64_t>()),
        index_(taps.index.data<int64_t>()),
        weights_(weights),
        turned_(static_cast<size_t>(taps.in)) {}

  /// `lines` lines of `in`, at most `lanes`.
  void run(T* out, const T* in, int64_t lines) {
    const int64_t inputs = inputs_, outputs = outputs_;
    int64_t c = 0, o = 0;
    for (; c + lanes <= inputs; c += lanes) {
      Vector square[lanes];
      for (int64_t i = 0; i < lanes; ++i) square[i] = load_vector(in + std::min(i, lines - 1) * inputs + c);
      transpose(square);
      std::copy_n(square, lanes, turned_.data() + c);
    }
    for (; c < inputs; ++c)
      for (int64_t i = 0; i < lines; ++i) turned_[c][i] = in[i * inputs + c];
    for (; o + lanes <= outputs; o += lanes) {
      Vector square[lanes];
      for (int64_t i = 0; i < lanes; ++i) square[i] = sum(o + i);
      transpose(square);
      for (int64_t i = 0; i < lines; ++i) std::memcpy(out + i * outputs + o, &square[i], sizeof(Vector));
    }
    for (; o < outputs; ++o) {
      const Vector v = sum(o);
      for (int64_t i = 0; i < lines; ++i) out[i * outputs + o] = v[i];
    }
  }

 private:
  using Vector = typename VectorOf<T>::type;
  using Bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  static_assert(kSide<Bits> == lanes);

  static void transpose(Vector* square) {
    typename Square<Bits>::Row rows[lanes];
    for (int64_t i = 0; i < lanes; ++i) rows[i] = std::bit_cast<typename Square<Bits>::Row>(square[i]);
    Square<Bits>::transpose(rows);
    for (int64_t i = 0; i < lanes; ++i) square[i] = std::bit_cast<Vector>(rows[i]);
  }
  Vector sum(int64_t o) const {
    const int64_t from = first_[o], to = first_[o + 1];
    if (from == to) return Vector{};
    Vector total = turned_[index_[from]] * weights_[from];
    for (int64_t k = from + 1; k < to; ++k) total += turned_[index_[k]] * weights_[k];
    return total;
  }

  int64_t inputs_, outputs_;
  const int64_t *first_, *index_;
  const T* weights_;
  std::vector<Vector> turned_;
};

template <class T>
void weigh_lines(T* out, const T* in, int64_t outer, const Taps& taps, const T* weights) {
  constexpr int64_t side = LineGroup<T>::lanes;
  parallel_for(0, (outer + side - 1) / side, grain_of(side * (taps.out + taps.in)), [&](int64_t from, int64_t to) {
    LineGroup<T> group(taps, weights);
    for (int64_t line = from * side; line < std::min(to * side, outer); line += side)
      group.run(out + line * taps.out, in + line * taps.in, std::min(side, outer - line));
  });
}

template <class T>
void weigh_taps(T* out, const T* in, int64_t outer, int64_t inner, const Taps& taps) {
  int64_t outputs = taps.out;
  const double* given = taps.weight.data<double>();
  std::vector<T> weights(given, given + taps.weight.numel());
  if (inner == 1) return weigh_lines(out, in, outer, taps, weights.data());
  int64_t reads = static_cast<int64_t>(weights.size()) / std::max<int64_t>(outputs, 1) + 1;
  parallel_for(0, outer * outputs, grain_of(reads * inner), [&](int64_t from, int64_t to) {
    for (int64_t row = from; row < to; ++row)
      weigh_row(out + row * inner, in + row / outputs * taps.in * inner, inner, taps, weights.data(), row % outputs);
  });
}

void resample_cpu(const Tensor& out, const Tensor& in, int64_t outer, int64_t inner, const Taps& taps) {
  LockRelease release(out.numel() > kGrain);
  visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_same_v<T, float> || std::is_same_v<T, double>) {
      if (!taps.copies) return weigh_taps(out.data<T>(), in.data<T>(), outer, inner, taps);
    }
    copy_taps(out.data<T>(), in.data<T>(), outer, inner, taps);
  });
}

}  // namespace

void register_resample() { resample_kernel.set(DeviceType::CPU, resample_cpu); }

}  // namespace facula::cpu::FACULA_ISA
