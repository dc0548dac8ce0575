// What a small a + b costs in C++: as programs call it, and without the tests for who watches and what needs autograd.
// `program_times.py` links it twice, with libfacula.so and with the objects themselves.
#include <chrono>
#include <cstdio>

#include "cpu/backend.h"
#include "functions.h"
#ifdef FACULA_WITHOUT_HOOKS
#include "autograd/function_support.h"
#include "raw_elementwise.h"
#endif

namespace {

using namespace facula;
constexpr int kCalls = 256;

#ifdef FACULA_WITHOUT_HOOKS
/// facula::add as it would be if nobody could watch ops.
[[gnu::noinline]] Tensor add_unwatched(const Operand& self, const Operand& other, const Scalar& alpha) {
  if (__builtin_expect(((flags_of(self) | flags_of(other)) & kSlowFlags) == 0, 1)) return ops::add(self, other, alpha);
  return add(self, other, alpha);
}
#endif

template <class F>
double best_of(F&& f) {
  double best = 1e9;
  for (int repeat = 0; repeat < 3000; ++repeat) {
    const auto begin = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) f();
    const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - begin;
    best = std::min(best, took.count() / kCalls);
  }
  return best;
}

}  // namespace

int main() {
  cpu::register_backend();
  const Tensor a = full({4}, 1.0, DType::Float32), b = full({4}, 2.0, DType::Float32);
  double watched = 1e9, unwatched = 1e9;
  for (int turn = 0; turn < 5; ++turn) {
    watched = std::min(watched, best_of([&] { add(a, b, 1); }));
#ifdef FACULA_WITHOUT_HOOKS
    unwatched = std::min(unwatched, best_of([&] { add_unwatched(a, b, 1); }));
#endif
  }
  std::printf("%.3f %.3f\n", watched, unwatched);
}
