// The random numbers: the engine against the standard library's MT19937, the fills against their definitions.
// Equality with PyTorch's values is checked from Python, with tests/data/rng_golden.json.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <random>
#include <vector>

#include "check.h"
#include "core/error.h"
#include "core/generator.h"
#include "core/half.h"
#include "cpu/backend.h"
#include "cpu/generator.h"
#include "cpu/random.h"

using namespace facula;
using namespace facula::cpu;

namespace {

template <class F>
bool refuses(F f) {
  try {
    f();
  } catch (const Error& error) {
    return error.kind() == ErrorKind::Runtime;
  }
  return false;
}

void test_engine_is_mt19937() {
  for (uint64_t seed : {uint64_t{0}, uint64_t{5489}, (uint64_t{1} << 40) + 7}) {
    Mt19937 generator(seed);
    std::mt19937 reference(static_cast<uint32_t>(seed));
    CHECK(generator.initial_seed() == seed);
    std::mt19937 lengths(1);
    std::vector<uint32_t> bulk(2000);
    for (int round = 0; round < 200; ++round) {
      const size_t length = lengths() % bulk.size();
      generator.fill32(bulk.data(), length);
      for (size_t i = 0; i < length; ++i) CHECK(bulk[i] == reference());
      CHECK(generator.random32() == reference());
      const uint64_t high = reference();
      CHECK(generator.random64() == (high << 32 | reference()));
    }
    uint64_t wide[700];
    generator.fill64(wide, 700);
    for (uint64_t value : wide) {
      const uint64_t high = reference();
      CHECK(value == (high << 32 | reference()));
    }
  }
}

void test_state() {
  Mt19937 generator(5);
  std::vector<uint8_t> state(Mt19937::kStateBytes), again(Mt19937::kStateBytes);
  std::vector<double> normals(3);
  fill_normal(normals.data(), 3, 0, 1, generator);  // leaves the second of a pair behind
  CHECK(generator.next_double_normal.has_value());
  for (int draws : {0, 1, 622, 623, 624, 1000}) {
    for (int i = 0; i < draws; ++i) generator.random32();
    generator.get_state(state.data());
    Mt19937 other;
    other.set_state(state.data(), state.size());
    other.get_state(again.data());
    CHECK(state == again);
    CHECK(other.initial_seed() == 5);
    CHECK(other.next_double_normal == generator.next_double_normal);
    for (int i = 0; i < 2000; ++i) CHECK(other.random32() == generator.random32());
  }
  Mt19937 kept(9);
  kept.get_state(state.data());
  std::vector<uint8_t> zeros(Mt19937::kStateBytes);
  CHECK(refuses([&] { kept.set_state(zeros.data(), zeros.size()); }));
  CHECK(refuses([&] { kept.set_state(state.data(), 100); }));
  std::vector<uint8_t> bad = state;
  bad[8] = 77;  // draws left that do not fit the position
  CHECK(refuses([&] { kept.set_state(bad.data(), bad.size()); }));
  kept.get_state(again.data());
  CHECK(state == again);
}

void test_seeds() {
  Mt19937 generator;
  CHECK(generator.initial_seed() == Generator::kDefaultSeed);
  const uint64_t first = generator.seed(), second = generator.seed();
  CHECK(first != second && first < (uint64_t{1} << 53));
  CHECK(generator.initial_seed() == second);
  generator.next_double_normal = 1.0;
  generator.seed(3);
  CHECK(!generator.next_double_normal.has_value());
  CHECK(&default_generator(kCPU) == &default_generator(kCPU));
  CHECK(default_generator(kCPU).device() == kCPU);
}

void test_uniform() {
  Mt19937 generator(1), draws(1);
  std::vector<float> values(5001);
  fill_uniform(values.data(), 5001, -0.1, 0.3, generator);
  for (float value : values) {
    const float u = static_cast<float>(draws.random32() & 0xffffff) * 0x1p-24f;
    CHECK(value == std::fma(u, 0.3f - -0.1f, -0.1f));
    CHECK(value >= -0.1f && value < 0.3f);
  }
  std::vector<Half> halves(100000);
  fill_uniform(halves.data(), 100000, 0, 1, generator);
  for (Half value : halves) CHECK(static_cast<float>(value) < 1.0f);
  // A fill in two parts gives the numbers of one fill.
  Mt19937 whole(2), parts(2);
  std::vector<double> one(3000), two(3000);
  fill_uniform(one.data(), 3000, 0, 1, whole);
  fill_uniform(two.data(), 700, 0, 1, parts);
  fill_uniform(two.data() + 700, 2300, 0, 1, parts);
  CHECK(one == two);
}

void test_normal() {
  Mt19937 generator(3);
  std::vector<float> values(100000);
  fill_normal(values.data(), 100000, 1.5, 2.0, generator);
  double sum = 0, squares = 0;
  for (float value : values) sum += value;
  const double mean = sum / 1e5;
  for (float value : values) squares += (value - mean) * (value - mean);
  CHECK(std::abs(mean - 1.5) < 0.03);
  CHECK(std::abs(squares / 1e5 - 4.0) < 0.1);
  // Against the same transform in double.
  Mt19937 draws(4), again(4);
  float block[16];
  fill_normal(block, 16, 0, 1, draws);
  double u[16];
  for (double& x : u) x = (again.random32() & 0xffffff) * 0x1p-24;
  for (int j = 0; j < 8; ++j) {
    const double radius = std::sqrt(-2 * std::log(1 - u[j])), angle = 2 * M_PI * u[j + 8];
    CHECK(std::abs(block[j] - radius * std::cos(angle)) < 1e-5);
    CHECK(std::abs(block[j + 8] - radius * std::sin(angle)) < 1e-5);
  }
  // Draws consumed: one per element, plus 16 for an incomplete block; narrow types skip the remainder's own.
  const auto consumed = [](auto element, int64_t count) {
    Mt19937 used(8), reference(8);
    std::vector<decltype(element)> out(static_cast<size_t>(count));
    fill_normal(out.data(), count, 0, 1, used);
    const uint32_t next = used.random32();
    int used_draws = 0;
    while (reference.random32() != next) ++used_draws;
    return used_draws;
  };
  CHECK(consumed(0.0f, 20) == 36);
  CHECK(consumed(BFloat16(0.0f), 20) == 32);
  CHECK(consumed(0.0f, 32) == 32);
  CHECK(consumed(0.0, 20) == 72);
  CHECK(consumed(0.0f, 3) == 8);
}

void test_integers() {
  for (uint64_t range :
       {uint64_t{1}, uint64_t{7}, uint64_t{255}, (uint64_t{1} << 28) - 1, uint64_t{1} << 28, (uint64_t{1} << 40) + 3}) {
    Mt19937 generator(6), draws(6);
    std::vector<int64_t> values(3000);
    fill_random_range(values.data(), 3000, range, -5, generator);
    for (int64_t value : values) {
      const uint64_t draw = range < (uint64_t{1} << 28) ? draws.random32() : draws.random64();
      CHECK(value == static_cast<int64_t>(draw % range) - 5);
    }
  }
  Mt19937 generator(6);
  std::vector<int8_t> narrow(3000);
  fill_random_default(narrow.data(), 3000, generator);
  CHECK(*std::min_element(narrow.begin(), narrow.end()) == 0);
  CHECK(*std::max_element(narrow.begin(), narrow.end()) == 127);
  int64_t from = 3, to = (int64_t{1} << 28) - 1;
  fit_random_range<float>(from, to);
  CHECK(from == 3 && to < (int64_t{1} << 28) - 1 && static_cast<int64_t>(static_cast<float>(to - 1)) < to + 16);
}

void test_bernoulli_and_waiting_times() {
  Mt19937 generator(7), draws(7);
  const auto next_unit = [&draws] {
    return static_cast<double>(draws.random64() & ((uint64_t{1} << 53) - 1)) * 0x1p-53;
  };
  std::vector<float> values(2000);
  fill_bernoulli(values.data(), 2000, 0.3, generator);
  for (float value : values) CHECK(value == (next_unit() < 0.3 ? 1.0f : 0.0f));
  fill_bernoulli(values.data(), 2000, 1.0, generator);
  for (float value : values) CHECK(value == 1.0f);
  fill_bernoulli(values.data(), 2000, 0.0, generator);
  for (float value : values) CHECK(value == 0.0f);
  for (int i = 0; i < 4000; ++i) next_unit();
  std::vector<double> waits(2000);
  fill_exponential(waits.data(), 2000, 1.5, generator);
  for (double wait : waits) CHECK(wait == -1.0 / 1.5 * std::log1p(-next_unit()));
  std::vector<int64_t> trials(2000);
  fill_geometric(trials.data(), 2000, 0.3, generator);
  for (int64_t count : trials) CHECK(count == std::ceil(std::log(next_unit()) / std::log1p(-0.3)));
}

void test_permutation() {
  Mt19937 generator(8);
  for (int64_t count : {0, 1, 2, 10, 511, 512, 513, 5000}) {
    std::vector<int32_t> values(static_cast<size_t>(count)), sorted(values.size());
    fill_permutation(values.data(), count, generator);
    std::iota(sorted.begin(), sorted.end(), 0);
    CHECK(count < 10 || values != sorted);
    std::sort(values.begin(), values.end());
    CHECK(values == sorted);
  }
}

void test_multinomial() {
  Mt19937 generator(9);
  const float weights[] = {1, 0, 3, 4, 0, 0, 2, 2};  // two rows of four
  std::vector<int64_t> drawn(2 * 10000);
  fill_multinomial(drawn.data(), weights, 2, 4, 10000, true, generator);
  int counts[2][4] = {};
  for (size_t i = 0; i < drawn.size(); ++i) ++counts[i / 10000][drawn[i]];
  CHECK(counts[0][1] == 0 && counts[1][0] == 0 && counts[1][1] == 0);
  CHECK(std::abs(counts[0][0] - 1250) < 150 && std::abs(counts[0][2] - 3750) < 250);
  for (int round = 0; round < 100; ++round) {
    int64_t pair[2];
    fill_multinomial(pair, weights + 4, 1, 4, 2, false, generator);
    CHECK((pair[0] == 2 && pair[1] == 3) || (pair[0] == 3 && pair[1] == 2));
  }
  const float bad[] = {1, -1}, nothing[] = {0, 0}, infinite[] = {1, INFINITY};
  int64_t out[4];
  for (const float* row : {bad, nothing, infinite})
    for (bool replacement : {true, false})
      CHECK(refuses([&] { fill_multinomial(out, row, 1, 2, 2, replacement, generator); }));
  CHECK(refuses([&] { fill_multinomial(out, weights, 1, 2, 3, false, generator); }));
}

}  // namespace

int main() {
  register_backend();
  test_engine_is_mt19937();
  test_state();
  test_seeds();
  test_uniform();
  test_normal();
  test_integers();
  test_bernoulli_and_waiting_times();
  test_permutation();
  test_multinomial();
  std::puts("generator: all tests passed");
  return 0;
}
