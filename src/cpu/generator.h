// Implements the CPU's source of random numbers: MT19937, with PyTorch's seeding, order of draws and state bytes, so
// that a seed gives PyTorch's numbers.
#pragma once

#include <optional>

#include "core/generator.h"

namespace facula::cpu {

class Mt19937 final : public Generator {
 public:
  static constexpr size_t kStateBytes = 5056;

  explicit Mt19937(uint64_t seed = kDefaultSeed, Device device = kCPU) : Generator(device) { this->seed(seed); }

  // All 64 bits are remembered, the low 32 select the stream. Forgets the cached normals.
  void seed(uint64_t seed) override;
  using Generator::seed;
  uint64_t initial_seed() const override { return seed_; }
  std::unique_ptr<Generator> clone() const override;

  uint32_t random32() {
    if (--left_ == 0) next_block();
    uint32_t word = state_[next_++];
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680;
    word ^= (word << 15) & 0xefc60000;
    return word ^ (word >> 18);
  }
  // Two draws, the first in the high half.
  uint64_t random64() {
    const uint64_t high = random32();
    return high << 32 | random32();
  }
  // The same numbers as `count` calls, at less than a nanosecond each.
  void fill32(uint32_t* out, size_t count);
  void fill64(uint64_t* out, size_t count);

  // The second value of a Box-Muller pair waits here for the next scalar draw; saved with the state.
  std::optional<double> next_double_normal;
  std::optional<float> next_float_normal;

  // Seed, position, words and cached normals, kStateBytes long, little-endian:
  //   0 u64 seed | 8 i32 draws left + 1 | 12 i32 seeded | 16 u64 next word | 24 u64[624] words
  //   5016 f64 unused | 5024 f64 normal | 5032 f64 unused | 5040 i32 normal is there | 5048 f32 normal | 5052
  //   bool is there
  size_t state_bytes() const override { return kStateBytes; }
  void get_state(uint8_t* out) const override;
  void set_state(const uint8_t* state, size_t bytes) override;

 private:
  static constexpr int kWords = 624;
  void next_block();

  uint64_t seed_ = 0;
  int32_t left_ = 1;   // draws until the next block, plus one
  uint32_t next_ = 0;  // word of the next draw
  uint32_t state_[kWords];
};

// What a kernel of the CPU draws from: the generators of the devices that lend its kernels are of this class, too.
inline Mt19937& mt19937(Generator& generator) { return static_cast<Mt19937&>(generator); }

}  // namespace facula::cpu
