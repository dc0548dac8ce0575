// Random numbers of the device: Philox 4x32 with 10 rounds (Salmon et al., "Parallel Random Numbers: As Easy as 1,
// 2, 3", 2011). A number is a function of the seed, the thread and how many were drawn before; the generator holds
// the first and the last.
#pragma once

#include "core/generator.h"

namespace facula::cuda {

/// What a kernel draws from.
struct PhiloxState {
  uint64_t seed, offset;
};

class PhiloxGenerator final : public Generator {
 public:
  explicit PhiloxGenerator(Device device) : Generator(device) {}

  void seed(uint64_t seed) override;
  uint64_t initial_seed() const override { return seed_; }
  size_t state_bytes() const override { return 16; }
  void get_state(uint8_t* out) const override;
  void set_state(const uint8_t* state, size_t bytes) override;
  std::unique_ptr<Generator> clone() const override;

  /// A state from which every thread may draw `numbers`; the caller holds the mutex.
  PhiloxState take(uint64_t numbers);
  uint64_t offset() const { return offset_; }
  void set_offset(uint64_t offset) { offset_ = offset; }

 private:
  uint64_t seed_ = kDefaultSeed, offset_ = 0;
};

std::unique_ptr<Generator> make_generator(Device device);

}  // namespace facula::cuda
