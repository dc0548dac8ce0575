// Holds what programs set for NVIDIA's libraries and for float32 (facula.backends), with PyTorch's defaults.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <string_view>

namespace facula::cuda {

enum class Flag : uint8_t {
  MatmulTf32,        // float32 products may round their factors to 10 bits
  HalfReduction,     // sums of float16 products may be divided into parts of float16
  BrainReduction,    // the same of bfloat16
  HalfAccumulation,  // float16 products may add up in float16
  Cudnn,             // cuDNN may be used
  ConvTf32,          // the same of convolutions, also without cuDNN
  RnnTf32,
  Benchmark,      // cuDNN's ways are timed
  Deterministic,  // cuDNN's ways give the same result each time
  DeterministicAlgorithms,
  BenchmarkLimit,   // how many of cuDNN's ways are timed at most; 0 for all
  NativeDepthwise,  // convolutions of a group a channel are our own
  PreferSolver,     // cuSOLVER also where our own kernels are thought to be faster
};
struct FlagRow {
  const char* name;
  int preset;
};
constexpr FlagRow flag_rows[] = {
    {"matmul_tf32", 0},
    {"half_reduction", 1},
    {"brain_reduction", 1},
    {"half_accumulation", 0},
    {"cudnn", 1},
    {"conv_tf32", 1},
    {"rnn_tf32", 1},
    {"benchmark", 0},
    {"deterministic", 0},
    {"deterministic_algorithms", 0},
    {"benchmark_limit", 10},
    {"native_depthwise", 0},
    {"prefer_cusolver", 0},
};
constexpr size_t kFlags = std::size(flag_rows);

class Flags {
 public:
  Flags() {
    for (size_t i = 0; i < kFlags; ++i) set_[i] = flag_rows[i].preset;
    const char* prefer = std::getenv("TORCH_LINALG_PREFER_CUSOLVER");
    set_[static_cast<size_t>(Flag::PreferSolver)] = prefer && prefer == std::string_view("1");
  }
  int operator[](Flag flag) const { return set_[static_cast<size_t>(flag)].load(std::memory_order_relaxed); }
  /// False when there is no flag of that name.
  bool set(std::string_view name, int value) {
    for (size_t i = 0; i < kFlags; ++i)
      if (name == flag_rows[i].name) {
        set_[i].store(value, std::memory_order_relaxed);
        return true;
      }
    return false;
  }

 private:
  std::array<std::atomic<int>, kFlags> set_;
};
Flags& flags();

}  // namespace facula::cuda
