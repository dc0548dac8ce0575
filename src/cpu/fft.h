// Defines plans of Fourier transforms, and what an instruction-set level provides for them. src/cpu/fft.cpp opens with
// the policy; the levels' part is src/cpu/isa/fft.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/fft.h"

namespace facula::cpu {

/// Memory aligned to whole cache lines, which are whole vectors of every level.
constexpr int64_t kFftAlign = 64;

template <class T>
class AlignedArray {
 public:
  AlignedArray() = default;
  explicit AlignedArray(int64_t count)
      : data_(static_cast<T*>(::operator new(static_cast<size_t>(count) * sizeof(T), std::align_val_t(kFftAlign)))),
        count_(count) {}
  T* data() { return data_.get(); }
  const T* data() const { return data_.get(); }
  int64_t size() const { return count_; }
  T& operator[](int64_t i) { return data_.get()[i]; }

 private:
  struct Free {
    void operator()(T* p) const { ::operator delete(p, std::align_val_t(kFftAlign)); }
  };
  std::unique_ptr<T, Free> data_;
  int64_t count_ = 0;
};

/// One pass of Stockham's algorithm over n = radix * count * stride points: for p < count and q < stride the points
/// q + stride (p + count k), k < radix, are transformed, multiplied by exp(-2 pi i p j / (radix count)) and written to
/// q + stride (radix p + j).
struct FftStage {
  int64_t radix, count, stride;
  int64_t twiddles;  // where its factors lie in the plan: for every p those of j = 1 ... radix - 1
  int64_t roots;  // of a radix without a butterfly of its own: for j, k = 1 ... radix / 2 cos and sin(2 pi j k / radix)
};

/// What multiplies points by exp(-pi i t^2 / n): a transform of any length as a convolution (Bluestein).
template <class T>
struct FftChirp {
  AlignedArray<T> factors;  // n complex numbers
  AlignedArray<T> kernel;   // the transform of the convolution's kernel, divided by its length
};

/// Several transforms of n points at once, one in each lane. Points are pairs of vectors: real parts, imaginary parts.
template <class T>
struct FftLanes {
  int64_t n = 0;
  std::vector<FftStage> stages;  // empty where the length has a large prime factor: then a convolution it is
  AlignedArray<T> factors;
  FftChirp<T> chirp;
  std::shared_ptr<const FftLanes> convolution;
  /// Pairs of vectors that each of the two buffers must hold.
  int64_t room() const { return convolution ? convolution->n : n; }
  int64_t bytes() const {
    return (factors.size() + chirp.factors.size() + chirp.kernel.size()) * static_cast<int64_t>(sizeof(T));
  }
};

/// One transform of n = columns.n * rows.n points in two sweeps whose lanes are neighboring points; or a convolution.
template <class T>
struct FftLong {
  int64_t n = 0;
  std::shared_ptr<const FftLanes<T>> columns, rows;
  /// exp(-2 pi i r k / n) for point k of a row and row r of what the columns gave: (block of points, row) times (row,
  /// point in the block) by lanes; and for lines that are not very long their products, point by point as `between`.
  AlignedArray<T> coarse, fine, turns;
  FftChirp<T> chirp;
  std::shared_ptr<const FftLong> convolution;
  int64_t bytes() const {
    return (coarse.size() + fine.size() + turns.size() + chirp.factors.size() + chirp.kernel.size()) *
           static_cast<int64_t>(sizeof(T));
  }
};

/// Factors exp(-2 pi i k / n), 0 <= k <= n / 4, between a real transform of n points and a complex one of n / 2.
template <class T>
struct FftHalves {
  AlignedArray<T> factors;
  int64_t bytes() const { return factors.size() * static_cast<int64_t>(sizeof(T)); }
};

/// Lines of one length, of which a block is transformed at a time: as many as a vector has lanes, twice as many for the
/// real kinds, or fewer. Places are counted in elements, real or complex as the array is.
template <class T>
struct FftBlock {
  FftKind kind;
  double scale;
  const T* in;
  T* out;
  int64_t in_step, out_step;          // between the points of a line
  const int64_t *in_line, *out_line;  // where each line begins
  int64_t lines;
  bool adjacent;  // line i begins i elements behind the first
};

/// A range of a long transform, between sweeps or after them.
template <class T>
struct FftSweep {
  const FftLong<T>* plan;
  const T* in;
  T* out;
  T* between;  // columns.n * 2 * lanes numbers per block of rows.n
  bool backward;
  double scale;
};

/// The functions of a level.
template <class T>
struct FftLevel {
  int64_t lanes = 0;
  const int* order = nullptr;  // which of neighboring points is in which lane
  /// `buffers`: two of plan.room() pairs of vectors.
  void (*block)(const FftLanes<T>& plan, const FftBlock<T>& block, T* buffers) = nullptr;
  /// Blocks of `lanes` points of rows: transforms along the columns.
  void (*columns)(const FftSweep<T>& sweep, int64_t from, int64_t to, T* buffers) = nullptr;
  /// Blocks of `lanes` points of columns: transforms along the rows.
  void (*rows)(const FftSweep<T>& sweep, int64_t from, int64_t to, T* buffers) = nullptr;
  /// The transform of n/2 complex points, which are n real ones, in place into n/2 + 1 points of the real transform:
  /// pairs k and n/2 - k of k in [from, to).
  void (*untangle)(const FftHalves<T>& plan, T* data, int64_t n, int64_t from, int64_t to) = nullptr;
  /// The other way.
  void (*tangle)(const FftHalves<T>& plan, const T* in, T* out, int64_t n, int64_t from, int64_t to) = nullptr;
  /// out = scale * a * b for complex numbers in [from, to), with `a`, `out` or both conjugated.
  void (*multiply)(const T* a, const T* b, T* out, double scale, bool conj_a, bool conj_out, int64_t from,
                   int64_t to) = nullptr;
};

template <class T>
inline FftLevel<T> fft_level;

}  // namespace facula::cpu
