// Element-wise kernels for operands that have types and layouts of their own, which are part of the instance: see
// StridedForm. All loads of a thread stand before its first store, and it reads nothing of a result but what it writes
// itself, so that a result may lie where an input does.
#pragma once

#include "pointwise.cuh"
#include "strided_args.h"

namespace facula::cuda {

/// The place of a vector in each dimension.
template <int kDims>
struct Place {
  UInt32 at[kDims];

  FACULA_FN Place(const StridedArgs& p, UInt32 v) {
#pragma unroll
    for (int d = 0; d < kDims; ++d) {
      at[d] = v;
      if (d + 1 < kDims) v = p.shape[d].divide(at[d]);
    }
  }
  /// Elements to the vector of an operand from its first one.
  template <int kWide, bool kRepeats>
  FACULA_FN Int32 of(const StridedOperand& operand) const {
    UInt32 offset = kRepeats ? 0 : at[0] * (kWide > 1 ? kWide : operand.strides[0]);
#pragma unroll
    for (int d = 1; d < kDims; ++d) offset += at[d] * operand.strides[d];
    return offset;
  }
};

/// The elements of an input at one place: a vector, or the one that repeats; there is nothing where a loop has no such
/// input.
template <class M, class C, int kWide, bool kRepeats, bool kIsThere>
struct Piece {
  static constexpr int kCount = kRepeats ? 1 : kWide;
  Vector<M, kCount> elements;

  FACULA_FN void load(const StridedArgs& p, int k, Int32 offset) {
    if constexpr (kRepeats && is_same_type<M, C>) {
      if (p.in[k].is_number) {
        elements.at[0] = *reinterpret_cast<const C*>(p.numbers[k]);
        return;
      }
    }
    elements = load_vector<kCount>(static_cast<const M*>(p.in[k].data) + offset);
  }
  FACULA_FN Vector<C, kWide> operands() const {
    const Vector<C, kCount> found = computed<C>(elements);
    if constexpr (kCount == kWide) {
      return found;
    } else {
      Vector<C, kWide> all;
#pragma unroll
      for (int j = 0; j < kWide; ++j) all.at[j] = found.at[0];
      return all;
    }
  }
};
template <class M, class C, int kWide, bool kRepeats>
struct Piece<M, C, kWide, kRepeats, false> {
  FACULA_FN Vector<C, kWide> operands() const { return {}; }
};

/// What a thread does at one place. Of inputs that a loop does not have M is C.
template <class Loop, class C, class R, class O, int kForm, class M0, class M1, class M2>
struct Strided {
  static constexpr StridedForm kLayout = StridedForm::of(kForm);
  static constexpr int kInputs = Loop::inputs;
  static constexpr ItemBytes bytes() {
    ItemBytes all{sizeof(O), sizeof(O)};
    if (!kLayout.repeated(0)) all.see(sizeof(M0));
    if (kInputs > 1 && !kLayout.repeated(1)) all.see(sizeof(M1));
    if (kInputs > 2 && !kLayout.repeated(2)) all.see(sizeof(M2));
    return all;
  }
  static constexpr int kWide = kLayout.wide ? bytes().vector_width() : 1, kMany = bytes().vectors_of_thread(kWide);

  template <int n>
  struct Work {
    Piece<M0, C, n, kLayout.repeated(0), true> a;
    Piece<M1, C, n, kLayout.repeated(1), (kInputs > 1)> b;
    Piece<M2, C, n, kLayout.repeated(2), (kInputs > 2)> c;
    Int32 to;

    FACULA_FN void load(const StridedArgs& p, const Place<kLayout.dims>& place) {
      to = place.template of<n, false>(p.out);
      a.load(p, 0, place.template of<n, kLayout.repeated(0)>(p.in[0]));
      if constexpr (kInputs > 1) b.load(p, 1, place.template of<n, kLayout.repeated(1)>(p.in[1]));
      if constexpr (kInputs > 2) c.load(p, 2, place.template of<n, kLayout.repeated(2)>(p.in[2]));
    }
    FACULA_FN void run(const StridedArgs& p) const {
      const C* parameters = reinterpret_cast<const C*>(p.parameters);
      const Vector<C, n> x = a.operands(), y = b.operands(), z = c.operands();
      Vector<Compute<O>, n> made;
#pragma unroll
      for (int j = 0; j < n; ++j)
        made.at[j] = convert<Compute<O>>(element_of<Loop, C, R>(x.at[j], y.at[j], z.at[j], parameters));
      store_vector(static_cast<O*>(p.out.data) + to, narrow_all<O>(made));
    }
  };
};

template <class Loop, class C, class R, class O, int kForm, class M0, class M1, class M2>
__global__ __launch_bounds__(kStridedThreads) void pointwise_strided(StridedArgs p) {
  using All = Strided<Loop, C, R, O, kForm, M0, M1, M2>;
  constexpr int kDims = All::kLayout.dims, kWide = All::kWide, kMany = All::kMany;
  const UInt32 first = blockIdx.x * (kStridedThreads * kMany) + threadIdx.x;
  if constexpr (kDims == 1 && kWide > 1) {  // what is left over is less than a vector
    if (const UInt32 i = p.vectors * kWide + first; i < p.numel) {
      typename All::template Work<1> last;
      last.load(p, Place<1>(p, i));
      last.run(p);
    }
  }
  typename All::template Work<kWide> work[kMany];
#pragma unroll
  for (int m = 0; m < kMany; ++m) {
    const UInt32 v = first + kStridedThreads * m;
    if (v >= p.vectors) break;
    work[m].load(p, Place<kDims>(p, v));
  }
#pragma unroll
  for (int m = 0; m < kMany; ++m) {
    if (first + kStridedThreads * m >= p.vectors) break;
    work[m].run(p);
  }
}

}  // namespace facula::cuda
