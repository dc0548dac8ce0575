#include "core/generator.h"

#include <array>
#include <map>
#include <mutex>
#include <optional>
#include <random>

#include "core/backend.h"
#include "core/error.h"
#include "core/generators.h"

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

namespace {

struct Owned {
  std::mutex mutex;
  std::map<const Generator*, std::weak_ptr<Generator>> known;
};
Owned& owned_generators() {
  static Owned& it = *new Owned;  // generators may die late
  return it;
}

}  // namespace

std::shared_ptr<Generator> owned(std::unique_ptr<Generator> generator) {
  Owned& all = owned_generators();
  std::shared_ptr<Generator> made(generator.get(), [](Generator* g) {
    {
      const std::lock_guard lock(owned_generators().mutex);
      owned_generators().known.erase(g);
    }
    delete g;
  });
  (void)generator.release();
  const std::lock_guard lock(all.mutex);
  all.known[made.get()] = made;
  return made;
}

std::shared_ptr<Generator> share(Generator* generator) {
  Owned& all = owned_generators();
  const std::lock_guard lock(all.mutex);
  const auto found = all.known.find(generator);
  std::shared_ptr<Generator> held = found == all.known.end() ? nullptr : found->second.lock();
  return held ? held : std::shared_ptr<Generator>(std::shared_ptr<void>(), generator);
}

void seed_other_devices(uint64_t seed) {
  {
    std::lock_guard<std::mutex> guard(seed_mutex);
    last_seed = seed;
  }
  for (Generator* generator : default_generators()) {
    if (generator->device().is_cpu()) continue;
    std::lock_guard<std::mutex> guard(generator->mutex);
    generator->seed(seed);
  }
}

std::vector<Generator*> default_generators() {
  std::vector<Generator*> found{&default_generator(kCPU)};
  for (int t = 0; t < kDeviceTypes; ++t) {
    const auto type = static_cast<DeviceType>(t);
    const auto count = backend_of(type).count;
    for (int i = 0; count && i < count(); ++i) found.push_back(&default_generator({type, static_cast<int8_t>(i)}));
  }
  return found;
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
