// Declares generators of random numbers: a stream of the device whose memory it fills. The engine is the backend's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "core/device.h"

namespace facula {

class Generator {
 public:
  static constexpr uint64_t kDefaultSeed = 67280421310721;

  virtual ~Generator() = default;
  Device device() const { return device_; }

  /// Restarts the stream.
  virtual void seed(uint64_t seed) = 0;
  /// Restarts it from the system's entropy; returns the seed, which has 53 bits so that a double can hold it.
  uint64_t seed();
  virtual uint64_t initial_seed() const = 0;

  virtual size_t state_bytes() const = 0;
  virtual void get_state(uint8_t* out) const = 0;
  /// Throws on a wrong size or content; the generator is then unchanged.
  virtual void set_state(const uint8_t* state, size_t bytes) = 0;
  /// Another one in the same state.
  virtual std::unique_ptr<Generator> clone() const = 0;

  // Whoever draws holds it for the whole fill, so that a fill's numbers are consecutive.
  std::mutex mutex;

 protected:
  explicit Generator(Device device) : device_(device) {}

 private:
  const Device device_;
};

/// A generator for `device`, with the default seed; throws where the device has none.
std::unique_ptr<Generator> make_generator(Device device);
/// Used by every call without a generator of its own; starts from the system's entropy.
Generator& default_generator(Device device);
/// Seeds the default generators of all devices but the CPU's.
void seed_other_devices(uint64_t seed);

}  // namespace facula
