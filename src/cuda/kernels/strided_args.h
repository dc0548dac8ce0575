// Layouts that are part of an element-wise kernel's instance, and what such kernels are given; read by both compilers.
#pragma once

#include "fast_division.h"
#include "pointwise_args.h"

namespace facula::cuda {

constexpr int kMostStridedDims = 5;
constexpr unsigned kStridedThreads = 256;

/// How operands lie, and as one number a template argument.
struct StridedForm {
  int dims;
  bool wide;    // the result and the inputs that do not repeat have vectors of neighbors in the innermost dimension
  int repeats;  // bits of the inputs of which there is one element, or number, along the innermost dimension

  constexpr int number() const { return 20 * dims + 10 * wide + repeats; }
  static constexpr StridedForm of(int number) { return {number / 20, number % 20 >= 10, number % 10}; }
  constexpr bool repeated(int input) const { return repeats >> input & 1; }
};

/// The fewest and most bytes of what is read and written of an element.
struct ItemBytes {
  int least, most;
  constexpr void see(int bytes) {
    if (bytes < least) least = bytes;
    if (bytes > most) most = bytes;
  }
  /// Elements of a vector: 16 bytes of the narrowest type, but no more than 32 of the widest.
  constexpr int vector_width() const { return 16 / least < 32 / most ? 16 / least : 32 / most; }
  /// Vectors of a thread: 32 bytes of the widest type, if that is not too much code.
  constexpr int vectors_of_thread(int width) const {
    const int count = 32 / (width * most);
    return count < 1 ? 1 : count > 4 ? 4 : count;
  }
};

struct StridedOperand {
  void* data;
  unsigned strides[kMostStridedDims];  // elements, innermost dimension first; negative ones modulo 2^32
  bool is_number;                      // of the compute dtype, in `numbers`
};

struct StridedArgs {
  unsigned numel, vectors;                   // vectors of one element where the form is not wide
  FastDivision shape[kMostStridedDims - 1];  // innermost dimension first, in vectors; of the outermost none is needed
  StridedOperand out, in[kMostInputs];
  alignas(16) char numbers[kMostInputs][16];
  alignas(16) char parameters[kMostParameters * 16];
};

}  // namespace facula::cuda
