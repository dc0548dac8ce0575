// Copies rows of bytes. The C library's memcpy may be `rep movsb` from some 2 KiB on, which takes up to nine times as
// long where the destination lies less than 32 bytes after the source, except for multiples of a page: each store then
// seems to meet the next load (measured: glibc 2.36 on an AMD Zen 3). This happens where a row is shifted by a few
// elements.
#pragma once

#include <cstdint>
#include <cstring>

namespace facula {

// Inlined, because files of different instruction-set levels use it.
[[gnu::always_inline]] inline void copy_bytes(void* to, const void* from, int64_t bytes) {
  constexpr int64_t kLeast = 2048, kMost = int64_t{1} << 20, kLine = 64;
#if defined(__AVX__)
  constexpr int64_t kPart = 32;
#else
  constexpr int64_t kPart = 16;
#endif
  const auto ahead = (reinterpret_cast<uintptr_t>(to) - reinterpret_cast<uintptr_t>(from)) % 4096;
  if (bytes < kLeast || bytes >= kMost || ahead == 0 || ahead >= 32) {
    std::memcpy(to, from, static_cast<size_t>(bytes));
    return;
  }
  typedef char Part __attribute__((vector_size(kPart)));
  auto line = [](char* out, const char* in) __attribute__((always_inline)) {
    Part part[kLine / kPart];
    for (int64_t k = 0; k < kLine / kPart; ++k) std::memcpy(&part[k], in + k * kPart, sizeof(Part));
    for (int64_t k = 0; k < kLine / kPart; ++k) std::memcpy(out + k * kPart, &part[k], sizeof(Part));
  };
  char* out = static_cast<char*>(to);
  const char* in = static_cast<const char*>(from);
  for (int64_t at = 0; at + kLine <= bytes; at += kLine) line(out + at, in + at);
  line(out + bytes - kLine, in + bytes - kLine);  // the rest, some of it again
}

}  // namespace facula
