// Division by multiplication gives what division gives, for all that it is made for.
#include <cstdint>
#include <random>

#include "check.h"
#include "cuda/kernels/fast_division.h"

namespace {

using facula::cuda::fast_division;
constexpr unsigned kMost = 0x7fffffff;

void check(unsigned n, unsigned by) {
  unsigned rest = n;
  const unsigned quotient = fast_division(by).divide(rest);
  EXPECT(quotient == n / by && rest == n % by);
}

/// Numbers around multiples are the ones that rounding would get wrong.
void check_around_multiples(unsigned by, unsigned n) {
  const unsigned multiple = n / by * by;
  for (const unsigned m : {n, multiple, multiple + by - 1, kMost, kMost / by * by, kMost / by * by - 1, 0u, 1u})
    if (m <= kMost) check(m, by);
}

}  // namespace

int main() {
  std::mt19937_64 random(0);
  for (unsigned by = 1; by < 5000; ++by) check_around_multiples(by, static_cast<unsigned>(random() >> 33));
  for (int bit = 1; bit < 31; ++bit)
    for (const unsigned by : {(1u << bit) - 1, 1u << bit, (1u << bit) + 1, kMost - (1u << bit)})
      check_around_multiples(by, static_cast<unsigned>(random() >> 33));
  for (int i = 0; i < 1000000; ++i) {  // of every length
    const auto by = static_cast<unsigned>(random() >> (33 + random() % 31));
    check_around_multiples(by == 0 ? kMost : by, static_cast<unsigned>(random() >> 33));
  }
  return failures != 0;
}
