// Generates random numbers of the device: Philox 4x32 with 10 rounds (Salmon et al., "Parallel Random Numbers: As Easy
// as 1, 2, 3", 2011). A number is a function of the seed, the thread and how many were drawn before; the generator
// holds the first and the last.
#pragma once

#include "core/generator.h"

namespace facula::cuda {

/// What a kernel draws from. In a graph seed and offset are in the device's memory, and `offset` is added.
struct PhiloxState {
  uint64_t seed, offset;
  const uint64_t* captured = nullptr;
};

/// Of a generator; graphs that draw from it keep them.
struct PhiloxValues {
  std::mutex mutex;
  uint64_t seed = Generator::kDefaultSeed, offset = 0, looks = 0;
};

class PhiloxGenerator final : public Generator {
 public:
  explicit PhiloxGenerator(Device device) : Generator(device) {}

  void seed(uint64_t seed) override;
  uint64_t initial_seed() const override;
  size_t state_bytes() const override { return 16; }
  void get_state(uint8_t* out) const override;
  void set_state(const uint8_t* state, size_t bytes) override;
  void note_look() const;
  std::unique_ptr<Generator> clone() const override;

  /// A state from which every thread may draw `numbers`; the caller holds the mutex.
  PhiloxState take(uint64_t numbers);
  uint64_t offset() const;
  /// How often its state was given away (note_look) or set. A library whose own states follow this one's makes them
  /// anew then.
  uint64_t looks() const;
  /// Throws where it is no multiple of 4.
  void set_offset(uint64_t offset);
  /// Another one that goes on with this one; the caller holds the mutexes.
  std::unique_ptr<PhiloxGenerator> shared() const;
  /// Goes on with `other` from now on.
  void share(const PhiloxGenerator& other);

 private:
  std::shared_ptr<PhiloxValues> values_ = std::make_shared<PhiloxValues>();
};

std::unique_ptr<Generator> make_generator(Device device);

}  // namespace facula::cuda
