// How long a device would take for attention by each of the ways that it has, from what the machine code of the kernels
// lets it reach (benchmarks/cuda/static). No kernel is timed: the same call goes the same way each time.
#include <algorithm>

#include "cuda/attention_tensor.h"
#include "cuda/device.h"
#include "cuda/flags.h"

namespace facula::cuda {
namespace {

// Multiplications and additions of a processor in a cycle that kernels reach. Tensor cores of 8.0 and 9.0 do 1024 of 16
// bits and more, those of others half of it; of float32 as three products of parts a sixth, rounded to TF32 a half.
constexpr double kTensor = 0.8 * 1024, kThreeParts = kTensor / 6, kRounded = kTensor / 2;
constexpr double kRoundedPass = 0.8 * 230;   // which more instructions than products hold up
constexpr double kScalarPass = 0.8 * 24;     // attention.cuh, which shared memory holds up
constexpr double kScalarProduct = 0.8 * 64;  // product.cuh, or a library, of float32
constexpr double kDouble = 0.8 * 16;
constexpr double kPasses = 3.5, kPassesInOps = 3;  // with gradients, times forwards: scores are made again, or saved
constexpr double kScoreBytes = 16;  // written and read around soft-max, and as much for each further pass
constexpr double kLaunch = 4e-6;
constexpr double kOpsLaunched = 8, kOfMemory = 16, kOfMemorySaved = 128;

/// What is done in a second at most: multiplications and additions for one of a processor in a cycle, and bytes.
struct Rates {
  double cycles, bytes;
  explicit Rates(const Properties& p)
      : cycles(1e3 * p.clock_khz * p.multiprocessors), bytes(2e3 * p.memory_clock_khz * p.memory_bus_bits / 8) {}
};

double product_rate(DType dtype, const Properties& p) {
  if (dtype == DType::Float64) return kDouble;
  if (p.major < 8) return kScalarProduct;
  const double whole = p.minor == 0 ? 1 : 0.5;
  return std::max(kScalarProduct, whole * (flags()[Flag::MatmulTf32] ? kRounded : kThreeParts));
}

double pass_rate(const LibraryAttention& call, const Properties& p) {
  const Tensor none;
  const AttentionInputs in{call.query, call.key, call.value, call.mask, none};
  if (is_for_tensor_cores(in, {call.scale, call.dropout, call.is_causal})) {
    const double whole = p.minor == 0 ? 1 : 0.5;
    if (is_half(call.query.dtype())) return whole * kTensor;
    return whole * (flags()[Flag::MatmulTf32] ? kRoundedPass : kThreeParts);
  }
  return call.query.dtype() == DType::Float64 ? std::min(kDouble, kScalarPass) : kScalarPass;
}

}  // namespace

AttentionTimes predicted_times(const LibraryAttention& call) {
  const Properties& p = properties(call.query.device().index);
  const Rates rates(p);
  const auto queries = static_cast<double>(call.query.size(-2)), keys = static_cast<double>(call.key.size(-2)),
             sizes = static_cast<double>(call.query.size(-1) + call.value.size(-1));
  const double heads = static_cast<double>(call.query.numel()) / std::max(1.0, queries * call.query.size(-1)),
               scores = heads * queries * keys, products = scores * sizes,
               itemsize = static_cast<double>(item_size(call.query.dtype())),
               key_bytes = heads * keys * sizes * itemsize;
  // in one pass a block has the keys of its rows to itself, and a processor has memory's share of two blocks
  const double passes = call.with_gradients ? kPasses : 1, blocks = heads * ((queries + 63) / 64),
               busy = std::min(1.0, blocks / p.multiprocessors), seen = call.is_causal ? 0.5 : 1;
  const double one_pass = kLaunch + passes * std::max(seen * products / (pass_rate(call, p) * rates.cycles * busy),
                                                      key_bytes / (rates.bytes * std::min(1.0, 2 * busy)));
  // in ops halves become float32 first, and scores are in memory
  const bool is_half_type = is_half(call.query.dtype());
  const double ops = call.with_gradients ? kPassesInOps : 1, wide = is_half_type ? 4 : itemsize,
               score_bytes = scores * wide / 4 * kScoreBytes * (call.dropout > 0 ? 2 : 1),
               cast_bytes = is_half_type ? 5 * key_bytes : key_bytes;
  const double in_ops = kLaunch * kOpsLaunched * (ops + is_half_type) +
                        ops * (products / (product_rate(call.query.dtype(), p) * rates.cycles) +
                               (score_bytes + cast_bytes) / rates.bytes);
  const double room = static_cast<double>(p.total_memory) / (call.with_gradients ? kOfMemorySaved : kOfMemory);
  return {one_pass, in_ops, scores * wide * 2 <= room};
}

}  // namespace facula::cuda
