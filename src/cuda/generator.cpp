#include "cuda/generator.h"

#include <cstring>

#include "core/error.h"

namespace facula::cuda {

void PhiloxGenerator::seed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
}

// The seed, then the offset, as PyTorch's states of CUDA generators.
void PhiloxGenerator::get_state(uint8_t* out) const {
  std::memcpy(out, &seed_, 8);
  std::memcpy(out + 8, &offset_, 8);
}

void PhiloxGenerator::set_state(const uint8_t* state, size_t bytes) {
  FACULA_CHECK(bytes == 16 || bytes == 8, ErrorKind::Runtime,
               "set_state: the 16 bytes of a CUDA generator's state, got ", bytes);
  uint64_t offset = 0;
  if (bytes == 16) std::memcpy(&offset, state + 8, 8);
  FACULA_CHECK(offset % 4 == 0, ErrorKind::Runtime, "set_state: an offset that is a multiple of 4, got ", offset);
  std::memcpy(&seed_, state, 8);
  offset_ = offset;
}

std::unique_ptr<Generator> PhiloxGenerator::clone() const {
  auto copy = std::make_unique<PhiloxGenerator>(device());
  copy->seed_ = seed_;
  copy->offset_ = offset_;
  return copy;
}

PhiloxState PhiloxGenerator::take(uint64_t numbers) {
  const PhiloxState state{seed_, offset_};
  offset_ += (numbers + 3) / 4 * 4;  // a call of the function gives four
  return state;
}

std::unique_ptr<Generator> make_generator(Device device) { return std::make_unique<PhiloxGenerator>(device); }

}  // namespace facula::cuda
