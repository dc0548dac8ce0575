// Many short rows of equal length, copied.
#pragma once

#include <cstdint>
#include <cstring>

#include "core/copy_bytes.h"
#include "cpu/isa/lanes.h"

namespace facula::cpu::FACULA_ISA {

/// Rows of a few vectors, without a call for each.
struct RowCopy {
  int64_t bytes;

  void operator()(char* to, const char* from) const {
    constexpr int64_t kLongest = 32 * kVectorBytes;
    if (bytes < kVectorBytes || bytes > kLongest) {
      copy_bytes(to, from, bytes);
      return;
    }
    for (int64_t at = 0; at + kVectorBytes <= bytes; at += kVectorBytes) copy_vector(to + at, from + at);
    copy_vector(to + bytes - kVectorBytes, from + bytes - kVectorBytes);  // the rest, some of it again
  }

 private:
  static void copy_vector(char* to, const char* from) {
    const auto v = load_vector(from);
    std::memcpy(to, &v, sizeof v);
  }
};

}  // namespace facula::cpu::FACULA_ISA
