// Philox 4x32 with 10 rounds (Salmon et al., 2011), as cuRAND documents it: the key is the seed, the counter the place
// in a subsequence and the number of the subsequence, of which every thread has its own.
#pragma once

#include "random_args.h"
#include "types.cuh"

namespace facula::cuda {

struct Words {
  UInt32 at[4];
};

class Philox {
 public:
  FACULA_FN Philox(const PhiloxStart& start, UInt64 subsequence)
      : place_((start.offset + (start.captured ? start.captured[1] : 0)) / 4),
        subsequence_(subsequence),
        seed_(start.captured ? start.captured[0] : start.seed) {}

  /// The next four words.
  FACULA_FN Words next() {
    constexpr UInt32 kFactor0 = 0xD2511F53u, kFactor1 = 0xCD9E8D57u, kStep0 = 0x9E3779B9u, kStep1 = 0xBB67AE85u;
    UInt32 x = UInt32(place_), y = UInt32(place_ >> 32), z = UInt32(subsequence_), w = UInt32(subsequence_ >> 32);
    UInt32 key0 = UInt32(seed_), key1 = UInt32(seed_ >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
      const UInt64 a = UInt64(kFactor0) * x, b = UInt64(kFactor1) * z;
      x = UInt32(b >> 32) ^ y ^ key0;
      y = UInt32(b);
      z = UInt32(a >> 32) ^ w ^ key1;
      w = UInt32(a);
      key0 += kStep0;
      key1 += kStep1;
    }
    ++place_;
    return {{x, y, z, w}};
  }

 private:
  UInt64 place_, subsequence_, seed_;
};

/// A word as a number in (0, 1], and two words as one of 53 bits.
FACULA_FN float unit_of(UInt32 word) { return kernels::fma(float(word), 0x1p-32f, 0x1p-33f); }
FACULA_FN double unit_of(UInt32 low, UInt32 high) {
  return kernels::fma(double(UInt64(low) ^ UInt64(high) << 21), 0x1p-53, 0x1p-54);
}

/// Four floats or two doubles from four words.
template <class F>
constexpr int kDrawn = sizeof(F) == 8 ? 2 : 4;
template <class F>
struct Draws {
  F at[kDrawn<F>];
};
FACULA_FN void units_of(const Words& w, Draws<float>& out) {
  for (int k = 0; k < 4; ++k) out.at[k] = unit_of(w.at[k]);
}
FACULA_FN void units_of(const Words& w, Draws<double>& out) {
  for (int k = 0; k < 2; ++k) out.at[k] = unit_of(w.at[2 * k], w.at[2 * k + 1]);
}

// Normal values in pairs, by the transformation of Box and Muller; sine first.
FACULA_FN void normals_of(const Words& w, Draws<float>& out) {
  for (int k = 0; k < 4; k += 2) {
    constexpr float kTurn = float(2 * kernels::pi) * 0x1p-32f;
    const float radius = FACULA_LIBM(sqrtf)(-2.0f * FACULA_LIBM(logf)(unit_of(w.at[k])));
    const float angle = kernels::fma(float(w.at[k + 1]), kTurn, kTurn / 2);
#if defined(FACULA_EMULATED_KERNEL)
    const float sine = __builtin_sinf(angle), cosine = __builtin_cosf(angle);
#else
    float sine, cosine;
    __sincosf(angle, &sine, &cosine);
#endif
    out.at[k] = sine * radius;
    out.at[k + 1] = cosine * radius;
  }
}
FACULA_FN void normals_of(const Words& w, Draws<double>& out) {
  const double radius = FACULA_LIBM(sqrt)(-2.0 * FACULA_LIBM(log)(unit_of(w.at[0], w.at[1])));
  const double half_turns = kernels::fma(double(UInt64(w.at[2]) ^ UInt64(w.at[3]) << 21), 0x1p-52, 0x1p-53);
#if defined(FACULA_EMULATED_KERNEL)
  const double sine = __builtin_sin(kernels::pi * half_turns), cosine = __builtin_cos(kernels::pi * half_turns);
#else
  double sine, cosine;
  sincospi(half_turns, &sine, &cosine);
#endif
  out.at[0] = sine * radius;
  out.at[1] = cosine * radius;
}

/// act(element, number of the draw, words) for `count` elements of which a thread makes `kWide` from four words, as
/// many elements apart as there are threads: the order that PyTorch's kernels draw in.
template <int kWide, class F>
FACULA_FN void for_draws(const PhiloxStart& start, Int64 count, F act) {
  Philox philox(start, UInt64(thread_number()));
  const Int64 apart = thread_count();
  for (Int64 first = thread_number(); first < count; first += apart * kWide) act(first, apart, philox.next());
}

}  // namespace facula::cuda
