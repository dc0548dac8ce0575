// A record that kernels write and the host reads: what was wrong with a value. Read by both compilers.
#pragma once

namespace facula::cuda {

enum ErrorFound : unsigned { kNothingWrong = 0, kIndexOutside = 1, kValueWrong = 2 };

struct ErrorRecord {
  unsigned found;         // ErrorFound; written last
  unsigned taken;         // by the first thread that has something to say
  const char* op;         // the host's text
  const char* expected;   // kValueWrong: what should hold
  int kind;               // the host's ErrorKind
  unsigned place;         // the line that queued the kernel, as the host numbers it
  long long index, size;  // kIndexOutside
  double value;           // kValueWrong
};

/// What a kernel is given to report with.
struct Reporter {
  ErrorRecord* record;
  const char *op, *expected;
  int kind;
  unsigned place;
};

}  // namespace facula::cuda
