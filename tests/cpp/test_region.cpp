// Regions without Python: what is put off is made when it is needed, by whichever thread, and is what eager execution
// makes. Meant for the address and the thread sanitizer.
#include <cmath>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "autograd/engine.h"
#include "check.h"
#include "cpu/backend.h"
#include "functions.h"
#include "region/compiled.h"

namespace {

using namespace facula;

bool same_bits(const Tensor& a, const Tensor& b) {
  const size_t bytes = static_cast<size_t>(a.numel() * a.item_size());
  materialize(a);
  materialize(b);
  return a.sizes() == b.sizes() && std::memcmp(a.data<char>(), b.data<char>(), bytes) == 0;
}

Tensor numbers(IntList sizes, double step) {
  Tensor t = empty(sizes, DType::Float32);
  for (int64_t i = 0; i < t.numel(); ++i)
    t.data<float>()[i] = static_cast<float>(std::sin(step * static_cast<double>(i)));
  return t;
}

/// Calls `f` eagerly and then several times in a region, each time with other values left alive.
template <class F>
void expect_same(F f) {
  const std::vector<Tensor> wanted = f();
  Work work;
  for (int call = 0; call < 4; ++call) {
    Region region(work, true);
    const std::vector<Tensor> got = f();
    region.leave();
    EXPECT(got.size() == wanted.size());
    for (size_t i = 0; i < got.size(); ++i) EXPECT(same_bits(got[i], wanted[i]));
  }
  EXPECT(work.recordings.size() == 1 && work.recordings[0]->counts.put_off > 0);
}

void test_chains_and_broadcasts() {
  const Tensor x = numbers({96, 130}, 0.1), row = numbers({130}, 0.3), column = numbers({96, 1}, 0.7);
  expect_same([&] {
    const Tensor a = x * row + 1.5, b = tanh(a) / (column * column + 2.0);
    return std::vector<Tensor>{a, exp(-b), where(b > 0.0, a, transpose(b, 0, 1).is_contiguous() ? a : b)};
  });
}

void test_narrow_floats_and_strides() {
  const Tensor x = numbers({128, 96}, 0.1), y = transpose(numbers({96, 128}, 0.2), 0, 1);
  const Tensor h = to_dtype(x, DType::BFloat16), d = to_dtype(x, DType::Float64);
  expect_same([&] {
    const Tensor a = h * 3.0 + h, b = x + y, c = slice(x, 1, 1, 96, 2) * 2.0 + 1.0;
    return std::vector<Tensor>{a * h, b * d, c * c, b - y};
  });
}

void test_rows() {
  const Tensor x = numbers({300, 100}, 0.1), w = numbers({100}, 0.2);
  expect_same([&] {
    const int64_t last = -1;
    const Tensor y = x * w, mean = facula::mean(y, IntList(&last, 1), true, std::nullopt);
    const Tensor centered = y - mean, total = sum(centered * centered, IntList(&last, 1), true, std::nullopt);
    return std::vector<Tensor>{centered * rsqrt(total + 1e-5), std::get<1>(max(y, last, true))};
  });
}

void test_writes() {
  expect_same([&] {
    Tensor x = numbers({100, 100}, 0.1);
    const Tensor before = x * 2.0 + 1.0;
    add_(x, before, Scalar(1));
    Tensor y = before * x;
    mul_(y, 0.5);
    add_(y, x, Scalar(2));
    copy_(slice(y, 0, 3, 7, 1), slice(x, 0, 10, 14, 1), false);
    return std::vector<Tensor>{before, y, x};
  });
}

void test_passes() {
  const auto gradient = [](bool compiled, CompiledCalls* calls) {
    Tensor x = numbers({100, 100}, 0.1);
    set_requires_grad(x, true);
    Tensor loss;
    {
      std::optional<Region> region;
      if (compiled) region.emplace(*calls->work, true, calls->number());
      loss = sum(tanh(x * x) * x + x);
      if (region) region->leave();
    }
    std::vector<Edge> roots;
    roots.push_back(gradient_edge(loss.impl()));
    run_backward(roots, {scalar_tensor(Scalar(1.0), DType::Float32)}, {}, {false, false, true});
    return grad_of(x);
  };
  CompiledCalls calls(std::make_shared<Work>());
  calls.always_follows = true;
  const Tensor wanted = gradient(false, nullptr);
  for (int i = 0; i < 4; ++i) EXPECT(same_bits(gradient(true, &calls), wanted));
}

void test_threads_need_what_waits() {
  const Tensor x = numbers({200, 200}, 0.1);
  const Tensor wanted = tanh(x * 2.0 + 1.0);
  Work work;
  for (int call = 0; call < 50; ++call) {
    Region region(work, true);
    const Tensor y = tanh(x * 2.0 + 1.0);
    std::vector<std::thread> threads;
    std::atomic<int> right{0};
    for (int t = 0; t < 3; ++t) threads.emplace_back([&] { right += same_bits(y * 1.0, wanted * 1.0); });
    const Tensor more = y * x - x;
    for (std::thread& t : threads) t.join();
    EXPECT(right == 3);
    region.leave();
    EXPECT(same_bits(more, wanted * x - x));
  }
}

void test_threads_share_recordings() {
  Work work;
  std::atomic<int> right{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const Tensor x = numbers({100 + t, 100}, 0.1);
      const Tensor wanted = exp(tanh(x * 2.0 + 1.0) - x);
      for (int call = 0; call < 50; ++call) {
        Region region(work, true);
        const Tensor y = tanh(x * 2.0 + 1.0);
        const Tensor z = call % 7 == t ? sqrt(y) : exp(y - x);
        region.leave();
        right += call % 7 == t || same_bits(z, wanted);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT(right == 200);
}

void test_what_waits_outlives_its_region() {
  const Tensor x = numbers({100, 100}, 0.1);
  Work work;
  Tensor y;
  for (int call = 0; call < 3; ++call) {
    Region region(work, true);  // left by an error, as it were: nothing is made
    y = tanh(x * 2.0 + 1.0);
  }
  EXPECT(same_bits(y, tanh(x * 2.0 + 1.0)));
}

/// Whether steps are requested of a function of which every call takes so long, but for the first `interrupted` ones of
/// those that are timed.
bool requests_steps(int interrupted) {
  CompiledCalls calls(std::make_shared<Work>());
  calls.may_replay = true;
  for (int call = 0; call < 700; ++call) {
    if (calls.passes(1)) continue;
    const CompiledCalls::Way way = calls.begin(1);
    calls.end(way, {});
    if (way.prepares && calls.is_tiny(interrupted-- > 0 ? 2 * CompiledCalls::kTiny : 100)) return true;
  }
  return false;
}

void test_a_call_that_was_interrupted_is_timed_again() {
  EXPECT(requests_steps(0));
  EXPECT(requests_steps(7));
  EXPECT(!requests_steps(700));
}

}  // namespace

int main() {
  facula::cpu::register_backend();
  test_chains_and_broadcasts();
  test_narrow_floats_and_strides();
  test_rows();
  test_writes();
  test_passes();
  test_threads_need_what_waits();
  test_threads_share_recordings();
  test_what_waits_outlives_its_region();
  test_a_call_that_was_interrupted_is_timed_again();
  std::printf(failures ? "%d failures\n" : "ok\n", failures.load());
  return failures ? EXIT_FAILURE : EXIT_SUCCESS;
}
