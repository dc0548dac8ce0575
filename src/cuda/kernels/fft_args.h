// Passes of Fourier transforms; read by both compilers.
#pragma once

namespace facula::cuda {

constexpr int kMostFftRadices = 12;

/// Where a transform reads its points: `points` of every line in memory.
struct FftSource {
  const void* data;
  long long points;
  bool real, mirrored, conjugated;  // mirrored: half of the points are there, the others are conjugates of them
  const void* factors;              // where there are any: by point; points that are not in memory are 0
};
/// And where it writes them.
struct FftTarget {
  void* data;
  long long points;                         // the others are left out
  bool real, conjugated_first, conjugated;  // before and after the factors
  const void* factors;
  double scale;
};

/// One pass over lines of `size * count * stride` numbers, `inner` neighbors of every point: Stockham's with the radix
/// `size`, as src/cpu/fft.h has it for a pass of small radices.
struct FftPass {
  long long outer, inner, count, stride;
  long long halved;  // of transforms from or to half of the points: how many all are; else 0
  int size;
  int lines_log;                               // a block takes 2^lines_log lines of `size` points,
  int pitch;                                   // which lie so far apart in shared memory
  bool lines_adjacent_in, lines_adjacent_out;  // in memory lines lie next to each other, not the points of one
  int radices;
  unsigned char radix[kMostFftRadices];  // of the passes in shared memory
  const void* roots;                     // exp(-2 pi i k / size), 0 <= k < size
  const void *coarse, *fine;             // their products are exp(-2 pi i k / (size * count)); in double
  int shift;
  FftSource in;
  FftTarget out;
};

/// Lines of `points` from half of them.
struct FftMirror {
  const void* half;
  void* out;
  long long outer, points, inner;
  bool conjugated;
};

/// `points` of every line of real elements, the half that determines them; with a middle one where there are evenly
/// many.
struct FftHalf {
  void* data;
  long long outer, points, inner;
  bool has_middle;
};

}  // namespace facula::cuda
