// What joining, and padding with a tensor's own elements, are given; read by both compilers.
#pragma once

namespace facula::cuda {

/// Parts that are joined, in units of as many bytes as all of them consist of.
struct JoinPart {
  const void* from;
  long long row, at;  // what it gives in each round, and where that begins in the row of the result
};
template <int kMost>
struct JoinArgs {
  long long outer, row;
  void* to;
  JoinPart parts[kMost];
};

/// As EdgeAxis and EdgePad of the host.
struct PadAxis {
  long long in, out, first, length, lead;
  int mode;  // PadMode
};
struct PadArgs {
  long long count;  // of elements written
  const void* from;
  void* to;
  long long inner;
  PadAxis axes[3];
};

}  // namespace facula::cuda
