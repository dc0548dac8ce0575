// Packed weights asked for by several threads, while others drop them, storages come and go, and there is not room for
// all: a copy is always one of the weight that it was asked for.
#include <cstring>
#include <random>
#include <thread>

#include "check.h"
#include "cpu/backend.h"
#include "cpu/packed_weights.h"
#include "functions.h"

namespace {

using namespace facula;

constexpr int64_t kElements = 16 * 1024, kBytes = kElements * 4, kWeights = 16;

Tensor weight(int64_t value) { return full({kElements}, Scalar(static_cast<double>(value)), DType::Float32); }

/// Asks twice, since a weight is kept when it is seen again; how often there was a copy.
int ask(const Tensor& w, int64_t value, int64_t order) {
  int found = 0;
  for (int time = 0; time < 2; ++time) {
    const int64_t words[] = {static_cast<int64_t>(cpu::PackedAs::Columns), order};
    const char* from = reinterpret_cast<const char*>(w.data<float>());
    const auto pack = [&](char* to) { std::memcpy(to, from, kBytes); };
    const Tensor copy = cpu::packed_weight({w.storage(), from, IntList(words, 2)}, kBytes, pack);
    if (!copy.defined()) continue;
    ++found;
    const auto* elements = static_cast<const float*>(static_cast<const void*>(copy.data<uint8_t>()));
    EXPECT(elements[0] == static_cast<float>(value) && elements[kElements - 1] == elements[0]);
  }
  return found;
}

void test_threads() {
  const int64_t before = cpu::set_packed_limit(kWeights * kBytes / 2);
  std::vector<Tensor> weights;
  for (int64_t i = 0; i < kWeights; ++i) weights.push_back(weight(i));
  std::atomic<int> found = 0;
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      std::mt19937 numbers(seed);
      for (int round = 0; round < 1000; ++round) {
        const bool own = numbers() % 4 == 0;  // whose storage is let go at once
        const int64_t value = own ? 100 + seed : numbers() % kWeights;
        found += ask(own ? weight(value) : weights[static_cast<size_t>(value)], value, numbers() % 2);
        if (numbers() % 100 == 0) cpu::drop_packed_weights();
        if (numbers() % 200 == 0) cpu::drop_packed_weights();
        EXPECT(cpu::packed_stats().bytes <= kWeights * kBytes / 2);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT(found > 1000);
  cpu::drop_packed_weights();
  EXPECT(cpu::packed_stats().bytes == 0);
  cpu::set_packed_limit(before);
}

/// Products by one weight in several threads are those of one thread, also while its copy is dropped.
void test_products() {
  const Tensor x = rand({4, 96}), w = rand({160, 96});
  const Tensor wanted = linear(x, w, Tensor());
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int round = 0; round < 200; ++round) {
        EXPECT(equal(linear(x, w, Tensor()), wanted));
        if (i == 0 && round % 10 == 0) cpu::drop_packed_weights();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main() {
  facula::cpu::register_backend();
  test_threads();
  test_products();
  std::printf(failures ? "%d failures\n" : "ok\n", failures.load());
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
