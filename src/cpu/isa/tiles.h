// Tiles of AMX: eight registers of 16 rows of 64 bytes, and an instruction that multiplies two of them. Written down by
// their names, so that a compiler for older processors takes them; chosen where the processor has them and the system
// lets the process use them. `EmulatedTiles` is the same in plain numbers, for tests (FACULA_TILES=emulated).
#pragma once

#include "core/half.h"
#include "cpu/isa.h"

#if defined(__AVX512F__) && defined(__linux__)
#define FACULA_HAS_TILES

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <type_traits>

namespace facula::cpu::FACULA_ISA {

constexpr int kTileCount = 8, kTileRows = 16, kTileBytes = 64;

struct HardwareTiles {
  /// While one lives, the thread's tiles are whole ones: 16 rows of 64 bytes.
  class Use {
   public:
    Use() {
      struct Shapes {
        uint8_t palette = 1, start = 0, reserved[14] = {};
        uint16_t bytes[16] = {};
        uint8_t rows[16] = {};
      };
      alignas(64) Shapes shapes;
      for (int t = 0; t < kTileCount; ++t) shapes.bytes[t] = kTileBytes, shapes.rows[t] = kTileRows;
      asm volatile("ldtilecfg %0" ::"m"(shapes));
    }
    ~Use() { asm volatile("tilerelease"); }
    Use(const Use&) = delete;
  };

  template <int t>
  static void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(t));
  }
  template <int t>
  static void load(const void* from, int64_t step) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(step), "i"(t) : "memory");
  }
  template <int t>
  static void store(void* to, int64_t step) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(step), "i"(t) : "memory");
  }
  /// c += a b in int32, of bytes: a's are without sign, and four of a row meet four neighbors of a column in b.
  template <int c, int a, int b>
  static void add_bytes() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
  }
  /// c += a b in float32, of bfloat16: two of a row meet two neighbors of a column in b.
  template <int c, int a, int b>
  static void add_bfloats() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(b));
  }
};

struct EmulatedTiles {
  using Registers = char[kTileCount][kTileRows][kTileBytes];
  class Use {
   public:
    Use() { tiles = &registers_; }
    Use(const Use&) = delete;

   private:
    Registers registers_;
  };
  template <int t>
  static void zero() {
    std::memset((*tiles)[t], 0, sizeof(*tiles)[t]);
  }
  template <int t>
  static void load(const void* from, int64_t step) {
    for (int r = 0; r < kTileRows; ++r)
      std::memcpy((*tiles)[t][r], static_cast<const char*>(from) + r * step, kTileBytes);
  }
  template <int t>
  static void store(void* to, int64_t step) {
    for (int r = 0; r < kTileRows; ++r) std::memcpy(static_cast<char*>(to) + r * step, (*tiles)[t][r], kTileBytes);
  }
  template <int c, int a, int b>
  static void add_bytes() {
    for (int r = 0; r < kTileRows; ++r) {
      for (int column = 0; column < kTileBytes / 4; ++column) {
        uint32_t sum;
        std::memcpy(&sum, (*tiles)[c][r] + 4 * column, 4);
        for (int k = 0; k < kTileBytes; ++k) {
          const auto x = static_cast<uint8_t>((*tiles)[a][r][k]);
          const auto y = static_cast<int8_t>((*tiles)[b][k / 4][4 * column + k % 4]);
          sum += static_cast<uint32_t>(x * y);
        }
        std::memcpy((*tiles)[c][r] + 4 * column, &sum, 4);
      }
    }
  }
  template <int c, int a, int b>
  static void add_bfloats() {
    for (int r = 0; r < kTileRows; ++r) {
      for (int column = 0; column < kTileBytes / 4; ++column) {
        float sums[3] = {};  // of the first and of the second of each pair, and what both are added to
        std::memcpy(&sums[2], (*tiles)[c][r] + 4 * column, 4);
        for (int k = 0; k < kTileBytes / 2; ++k) {
          BFloat16 x, y;
          std::memcpy(&x, (*tiles)[a][r] + 2 * k, 2);
          std::memcpy(&y, (*tiles)[b][k / 2] + 4 * column + 2 * (k % 2), 2);
          sums[k % 2] += static_cast<float>(x) * static_cast<float>(y);
        }
        sums[2] += sums[0] + sums[1];
        std::memcpy((*tiles)[c][r] + 4 * column, &sums[2], 4);
      }
    }
  }
  static inline thread_local Registers* tiles = nullptr;
};

/// Returns true if FACULA_TILES asks for the emulated ones.
inline bool tiles_are_emulated() {
  const char* setting = std::getenv("FACULA_TILES");
  return setting && std::string_view(setting) == "emulated";
}

constexpr unsigned kTilesOfBFloats = 1U << 22, kTilesOfBytes = 1U << 25;  // in EDX of leaf 7
/// Returns true if the processor multiplies tiles of that kind and the system gives this process their state.
inline bool has_tiles(unsigned kind) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  constexpr unsigned kTile = 1U << 24;
  if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & kTile) || !(d & kind)) return false;
  constexpr long kRequestPermission = 0x1023, kTileState = 18;  // of arch_prctl
  return syscall(SYS_arch_prctl, kRequestPermission, kTileState) == 0;
}

constexpr int kTiledRows = 2 * kTileRows;

/// Up to 32 rows of `a_bytes` bytes times a panel whose lines, of `line` bytes, have a word of each column: rows of as
/// many sums. A word is four bytes, whose sums are int32, or two elements of bfloat16, whose sums are floats.
template <class T, int line, class Sum>
void product_of_tiles(const char* a, int64_t a_row, int64_t a_bytes, int64_t rows, const char* panel, Sum* sums) {
  constexpr int kWords = kTileBytes / 4;
  const int64_t words = (a_bytes + 3) / 4;
  alignas(64) char left[kTiledRows][kTileBytes], right[kWords][2 * kTileBytes];
  for (int at = 0; at < line; at += 2 * kTileBytes) {
    T::template zero<0>(), T::template zero<1>(), T::template zero<2>(), T::template zero<3>();
    for (int64_t w = 0; w < words; w += kWords) {
      const int64_t count = words - w < kWords ? words - w : kWords;
      const int64_t bytes = a_bytes - 4 * w < kTileBytes ? a_bytes - 4 * w : kTileBytes;
      const char *x = a + 4 * w, *y = panel + w * line + at;
      int64_t x_row = a_row, y_row = line;
      if (rows < kTiledRows || bytes < kTileBytes) {  // zeros around what there is
        std::memset(left, 0, sizeof left);
        for (int64_t r = 0; r < rows; ++r) std::memcpy(left[r], x + r * a_row, static_cast<size_t>(bytes));
        x = left[0];
        x_row = kTileBytes;
      }
      if (count < kWords) {
        std::memset(right, 0, sizeof right);
        for (int64_t k = 0; k < count; ++k) std::memcpy(right[k], y + k * line, sizeof right[k]);
        y = right[0];
        y_row = sizeof right[0];
      }
      T::template load<4>(x, x_row), T::template load<5>(x + kTileRows * x_row, x_row);
      T::template load<6>(y, y_row), T::template load<7>(y + kTileBytes, y_row);
      if constexpr (std::is_same_v<Sum, float>) {
        T::template add_bfloats<0, 4, 6>(), T::template add_bfloats<1, 4, 7>();
        T::template add_bfloats<2, 5, 6>(), T::template add_bfloats<3, 5, 7>();
      } else {
        T::template add_bytes<0, 4, 6>(), T::template add_bytes<1, 4, 7>();
        T::template add_bytes<2, 5, 6>(), T::template add_bytes<3, 5, 7>();
      }
    }
    char* out = reinterpret_cast<char*>(sums) + at;
    T::template store<0>(out, line), T::template store<1>(out + kTileBytes, line);
    out += kTileRows * line;
    T::template store<2>(out, line), T::template store<3>(out + kTileBytes, line);
  }
}

}  // namespace facula::cpu::FACULA_ISA

#endif
