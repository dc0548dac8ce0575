// What kernels/mma.cuh needs of the emulated device: products of small matrices by a warp, and loads of matrices from
// shared memory. Which lane has which element is as the manual of PTX says (mma.m16n8k16, mma.m16n8k8, ldmatrix).
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <utility>

#include "emulator/device.h"
#include "emulator/library.h"

namespace facula::emulator {
namespace {

struct Product {
  float* d;
  const unsigned* a;
  unsigned b[2];
};

// How elements lie in words: kEach in one, of which `at` is number k.
struct Brains {
  static constexpr int kEach = 2;
  static double at(unsigned word, int k) { return from_brain(static_cast<uint16_t>(word >> 16 * k)); }
};
struct Halves {
  static constexpr int kEach = 2;
  static double at(unsigned word, int k) { return from_half(static_cast<uint16_t>(word >> 16 * k)); }
};
struct Tf32 {
  static constexpr int kEach = 1;
  static double at(unsigned word, int) { return std::bit_cast<float>(word & 0xffffe000U); }
};

/// Tensor cores round sums toward zero.
float cut(double value) {
  const auto nearest = static_cast<float>(value);
  return std::isfinite(nearest) && std::abs(static_cast<double>(nearest)) > std::abs(value)
             ? std::nextafter(nearest, 0.0F)
             : nearest;
}

template <class Element>
void multiply(void** lanes) {
  constexpr int kEach = Element::kEach, kInner = 8 * kEach;
  double a[16][kInner], b[kInner][8];
  for (int l = 0; l < 32; ++l) {
    const Product& mine = *static_cast<const Product*>(lanes[l]);
    const int line = l / 4, first = l % 4 * kEach;
    for (int k = 0; k < kEach; ++k) {
      for (int w = 0; w < 4; ++w) a[line + w % 2 * 8][first + k + w / 2 * 4 * kEach] = Element::at(mine.a[w], k);
      for (int w = 0; w < 2; ++w) b[first + k + w * 4 * kEach][line] = Element::at(mine.b[w], k);
    }
  }
  for (int l = 0; l < 32; ++l) {
    for (int q = 0; q < 4; ++q) {
      float& d = static_cast<Product*>(lanes[l])->d[q];
      double sum = d;
      for (int k = 0; k < kInner; ++k) sum += a[l / 4 + q / 2 * 8][k] * b[k][l % 4 * 2 + q % 2];
      d = cut(sum);
    }
  }
}

struct MatrixRow {
  const char* row;
  unsigned* words;
};
std::atomic<long long> bank_conflicts{0};

template <bool kTransposed>
void load_matrices(void** lanes) {
  for (int m = 0; m < 4; ++m) {
    uint16_t elements[8][8];
    unsigned banks = 0;
    for (int r = 0; r < 8; ++r) {
      const char* row = static_cast<const MatrixRow*>(lanes[8 * m + r])->row;
      banks |= 1U << reinterpret_cast<uintptr_t>(row) / 16 % 8;
      std::memcpy(elements[r], row, sizeof elements[r]);
    }
    bank_conflicts += 8 - std::popcount(banks);
    for (int l = 0; l < 32; ++l) {
      const int r = l / 4, c = l % 4 * 2;
      const auto element = [&](int column) { return kTransposed ? elements[column][r] : elements[r][column]; };
      static_cast<MatrixRow*>(lanes[l])->words[m] = element(c) | static_cast<unsigned>(element(c + 1)) << 16;
    }
  }
}

constexpr unsigned kAllLanes = 0xffffffffU;

}  // namespace
}  // namespace facula::emulator

using namespace facula::emulator;

FACULA_EMULATED void facula_emulated_multiply(FaculaEmulatedElements elements, float* d, const unsigned* a, unsigned b0,
                                              unsigned b1) {
  static constexpr void (*kMultiply[])(void**) = {multiply<Brains>, multiply<Halves>, multiply<Tf32>};
  Product mine{d, a, {b0, b1}};
  facula_emulated_collective(kAllLanes, &mine, kMultiply[elements]);
}

FACULA_EMULATED void facula_emulated_load_matrices(unsigned* words, const void* row, int transposed) {
  facula_emulated_check_shared(row);
  MatrixRow mine{static_cast<const char*>(row), words};
  facula_emulated_collective(kAllLanes, &mine, transposed ? load_matrices<true> : load_matrices<false>);
}

/// How many rows loaded matrices had in the banks of another of their rows, since the last call: each costs a turn.
FACULA_EMULATED long long facula_emulated_bank_conflicts() { return bank_conflicts.exchange(0); }
