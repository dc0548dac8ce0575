#include "core/generator.h"

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <random>

#include "core/backend.h"
#include "core/error.h"

namespace facula {

uint64_t Generator::seed() {
  std::random_device entropy;
  const uint64_t drawn = ((uint64_t{entropy()} << 32) | entropy()) & ((uint64_t{1} << 53) - 1);
  seed(drawn);
  return drawn;
}

void report_no_backend(Device device, const char* op) {
  const std::string& why = backend_of(device.type).why_not;
  throw_error(ErrorKind::Assertion, op, ": ",
              why.empty() ? "this facula was built without a backend for the device" : why, ", got ", device);
}

std::unique_ptr<Generator> make_generator(Device device) {
  device = concrete(device);
  if (!device.is_meta() && !has_backend(device.type)) report_no_backend(device, "Generator");
  auto* make = backend_of(device.type).make_generator;
  FACULA_CHECK(make, ErrorKind::Runtime, "Generator: a device with random numbers in this build, got ", device);
  return make(device);
}

namespace {

// What generators of devices start from that are loaded later; none: the system's entropy.
std::mutex seed_mutex;
std::optional<uint64_t> last_seed;

}  // namespace

void seed_other_devices(uint64_t seed) {
  {
    std::lock_guard<std::mutex> guard(seed_mutex);
    last_seed = seed;
  }
  for (int t = 0; t < kDeviceTypes; ++t) {
    const auto type = static_cast<DeviceType>(t);
    const auto count = backend_of(type).count;
    for (int i = 0; count && i < count(); ++i) {
      Generator& generator = default_generator({type, static_cast<int8_t>(i)});
      std::lock_guard<std::mutex> guard(generator.mutex);
      generator.seed(seed);
    }
  }
}

Generator& default_generator(Device device) {
  static std::mutex mutex;
  static auto& generators = *new std::map<std::pair<DeviceType, int8_t>, std::unique_ptr<Generator>>;  // never dies
  device = concrete(device);
  std::lock_guard<std::mutex> guard(mutex);
  auto& generator = generators[{device.type, device.index}];
  if (!generator) {
    auto made = make_generator(device);
    std::lock_guard<std::mutex> seed_guard(seed_mutex);
    if (last_seed && !device.is_cpu()) made->seed(*last_seed);
    else made->seed();
    generator = std::move(made);
  }
  return *generator;
}

}  // namespace facula
