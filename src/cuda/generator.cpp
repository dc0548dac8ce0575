#include "cuda/generator.h"

#include <cstring>

#include "core/error.h"
#include "core/generator_looks.h"
#include "cuda/graph.h"

namespace facula::cuda {

namespace {

uint64_t whole_calls(uint64_t numbers) { return (numbers + 3) / 4 * 4; }  // a call of the function gives four
void check_offset(uint64_t offset, const char* what) {
  FACULA_CHECK(offset % 4 == 0, ErrorKind::Runtime, what, ": an offset that is a multiple of 4, got ", offset);
}

}  // namespace

void PhiloxGenerator::seed(uint64_t seed) {
  std::lock_guard<std::mutex> lock(values_->mutex);
  values_->seed = seed;
  values_->offset = 0;
  ++values_->looks;
}

uint64_t PhiloxGenerator::initial_seed() const {
  std::lock_guard<std::mutex> lock(values_->mutex);
  return values_->seed;
}
uint64_t PhiloxGenerator::offset() const {
  std::lock_guard<std::mutex> lock(values_->mutex);
  return values_->offset;
}
void PhiloxGenerator::set_offset(uint64_t offset) {
  check_offset(offset, "set_offset");
  std::lock_guard<std::mutex> lock(values_->mutex);
  values_->offset = offset;
  ++values_->looks;
}
uint64_t PhiloxGenerator::looks() const {
  std::lock_guard<std::mutex> lock(values_->mutex);
  return values_->looks;
}

// The seed, then the offset, as PyTorch's states of CUDA generators.
void PhiloxGenerator::get_state(uint8_t* out) const {
  std::lock_guard<std::mutex> lock(values_->mutex);
  std::memcpy(out, &values_->seed, 8);
  std::memcpy(out + 8, &values_->offset, 8);
}

void PhiloxGenerator::note_look() const {
  std::lock_guard<std::mutex> lock(values_->mutex);
  ++values_->looks;
}

void PhiloxGenerator::set_state(const uint8_t* state, size_t bytes) {
  FACULA_CHECK(bytes == 16 || bytes == 8, ErrorKind::Runtime,
               "set_state: the 16 bytes of a CUDA generator's state, got ", bytes);
  uint64_t offset = 0;
  if (bytes == 16) std::memcpy(&offset, state + 8, 8);
  check_offset(offset, "set_state");
  std::lock_guard<std::mutex> lock(values_->mutex);
  std::memcpy(&values_->seed, state, 8);
  values_->offset = offset;
  ++values_->looks;
}

std::unique_ptr<Generator> PhiloxGenerator::clone() const {
  auto copy = std::make_unique<PhiloxGenerator>(device());
  std::lock_guard<std::mutex> lock(values_->mutex);
  copy->values_->seed = values_->seed;
  copy->values_->offset = values_->offset;
  return copy;
}

std::unique_ptr<PhiloxGenerator> PhiloxGenerator::shared() const {
  auto other = std::make_unique<PhiloxGenerator>(device());
  other->values_ = values_;
  return other;
}

void PhiloxGenerator::share(const PhiloxGenerator& other) {
  FACULA_CHECK(other.device() == device(), ErrorKind::Runtime, "graphsafe_set_state: expected a generator of ",
               device(), ", got one of ", other.device());
  values_ = other.values_;
}

PhiloxState PhiloxGenerator::take(uint64_t numbers) {
  numbers = whole_calls(numbers);
  if (Graph* graph = captured_graph(device().index)) return graph->draw(values_, numbers);
  std::lock_guard<std::mutex> lock(values_->mutex);
  const PhiloxState state{values_->seed, values_->offset};
  values_->offset += numbers;
  return state;
}

std::unique_ptr<Generator> make_generator(Device device) {
  look_hook = [](const Generator& generator) {
    if (generator.device().is_cuda()) static_cast<const PhiloxGenerator&>(generator).note_look();
  };
  return std::make_unique<PhiloxGenerator>(device);
}

}  // namespace facula::cuda
