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
  /// After `calls` of next().
  FACULA_FN Philox(const PhiloxStart& start, UInt64 subsequence, UInt64 calls = 0)
      : place_((start.offset + (start.captured ? start.captured[1] : 0)) / 4 + calls),
        subsequence_(subsequence),
        seed_(start.captured ? start.captured[0] : start.seed) {}

  /// The next four words.
  FACULA_FN Words next() {
    Words words;
    next_beside<1>(&words);
    return words;
  }
  /// The next four of this subsequence and of those that follow it, which share the keys.
  template <int kCount>
  FACULA_FN void next_beside(Words* words) {
    constexpr UInt32 kFactor0 = 0xD2511F53u, kFactor1 = 0xCD9E8D57u, kStep0 = 0x9E3779B9u, kStep1 = 0xBB67AE85u;
#pragma unroll
    for (int j = 0; j < kCount; ++j) {
      const UInt64 subsequence = subsequence_ + j;
      words[j] = {{UInt32(place_), UInt32(place_ >> 32), UInt32(subsequence), UInt32(subsequence >> 32)}};
    }
    UInt32 key0 = UInt32(seed_), key1 = UInt32(seed_ >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
#pragma unroll
      for (int j = 0; j < kCount; ++j) {
        const auto [x, y, z, w] = words[j].at;
        const UInt64 a = UInt64(kFactor0) * x, b = UInt64(kFactor1) * z;
        words[j] = {{UInt32(b >> 32) ^ y ^ key0, UInt32(b), UInt32(a >> 32) ^ w ^ key1, UInt32(a)}};
      }
      key0 += kStep0;
      key1 += kStep1;
    }
    ++place_;
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
FACULA_FN void normal_pair(UInt32 first, UInt32 second, float& sine, float& cosine) {
  constexpr float kTurn = float(2 * kernels::pi) * 0x1p-32f;
  const float radius = FACULA_LIBM(sqrtf)(-2.0f * FACULA_LIBM(logf)(unit_of(first)));
  const float angle = kernels::fma(float(second), kTurn, kTurn / 2);
#if defined(FACULA_EMULATED_KERNEL)
  sine = __builtin_sinf(angle), cosine = __builtin_cosf(angle);
#else
  __sincosf(angle, &sine, &cosine);
#endif
  sine *= radius;
  cosine *= radius;
}
FACULA_FN void normals_of(const Words& w, Draws<float>& out) {
  normal_pair(w.at[0], w.at[1], out.at[0], out.at[1]);
  normal_pair(w.at[2], w.at[3], out.at[2], out.at[3]);
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

/// Words one after the other, and numbers of single precision made from them.
class WordSource {
 public:
  FACULA_FN WordSource(const PhiloxStart& start, UInt64 subsequence) : philox_(start, subsequence) {}
  FACULA_RARE UInt32 word() {
    if (left_ == 0) words_ = philox_.next(), left_ = 4;
    --left_;
    const UInt32 word = words_.at[0];  // always the first, so that all of them stay in registers
    words_ = {{words_.at[1], words_.at[2], words_.at[3], 0}};
    return word;
  }
  /// In (0, 1].
  FACULA_FN float unit() { return unit_of(word()); }
  /// Made in pairs, the second of which is stored for the next call.
  FACULA_RARE float normal() {
    has_second_ = !has_second_;
    if (!has_second_) return second_;
    const UInt32 one = word(), other = word();
    float first;
    normal_pair(one, other, first, second_);
    return first;
  }

 private:
  Philox philox_;
  Words words_;
  float second_;
  int left_ = 0;
  bool has_second_ = false;
};

/// act(element, number of the draw, words) for `count` elements of which a thread makes `kWide` from four words, as
/// many elements apart as there are threads: the order that PyTorch's kernels draw in.
template <int kWide, class F>
FACULA_FN void for_draws(const PhiloxStart& start, Int64 count, F act) {
  Philox philox(start, UInt64(thread_number()));
  const Int64 apart = thread_count();
  for (Int64 first = thread_number(); first < count; first += apart * kWide) act(first, apart, philox.next());
}

/// The same where a thread draws in the place of kNext threads, whose elements lie next to each other: act(first
/// element, how many are apart, the words of each).
template <int kWide, int kNext, class F>
FACULA_FN void for_neighbors(const PhiloxStart& start, Int64 count, F act) {
  const Int64 own = thread_number() * kNext, apart = thread_count() * kNext;
  Philox philox(start, UInt64(own));
  for (Int64 first = own; first < count; first += apart * kWide) {
    Words words[kNext];
    philox.next_beside<kNext>(words);
    act(first, apart, words);
  }
}

}  // namespace facula::cuda
