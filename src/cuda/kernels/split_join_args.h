// What padding with a tensor's own elements is given; read by both compilers.
#pragma once

namespace facula::cuda {

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
