// How long a device would take for attention by each of the ways that it has, from what the machine code of the kernels
// lets it reach (benchmarks/cuda/static). No kernel is timed: the same call goes the same way each time.
#include <algorithm>
#include <cmath>
#include <utility>

#include "cuda/attention_tensor.h"
#include "cuda/device.h"
#include "cuda/flags.h"
#include "cuda/tickets.h"

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
constexpr double kLaunch = 4e-6, kLastBlock = 2e-6;
constexpr double kTileTime = 0.7e-6;  // from the request of a tile to its use, when no other block is there
constexpr double kOpsLaunched = 8, kOfMemory = 16, kOfMemorySaved = 128;

/// What is done in a second at most: multiplications and additions for one of a processor in a cycle, and bytes.
struct Rates {
  double cycles, bytes;
  explicit Rates(const Properties& p)
      : cycles(1e3 * p.clock_khz * p.multiprocessors), bytes(2e3 * p.memory_clock_khz * p.memory_bus_bits / 8) {}
};

double tensor_pass_rate(DType dtype, const Properties& p) {
  const double whole = p.minor == 0 ? 1 : 0.5;
  if (is_half(dtype)) return whole * kTensor;
  return whole * (flags()[Flag::MatmulTf32] ? kRoundedPass : kThreeParts);
}

/// A pass forwards on tensor cores.
struct TensorPass {
  double heads, queries, keys, sizes;
  DType dtype;
  double seen = 1;  // the share of the scores that is computed

  /// Where each block has `rows` rows and one of `parts` parts of the keys.
  double time(int64_t rows, double parts, const Properties& p) const {
    const Rates rates(p);
    const double lines = std::ceil(queries / static_cast<double>(rows)), blocks = heads * lines * parts,
                 busy = std::min(1.0, blocks / p.multiprocessors), read = seen * heads * lines * keys * sizes,
                 products = read * static_cast<double>(rows), results = heads * queries * parts * sizes;
    // a block has the keys of its rows to itself, and a processor has memory's share of two blocks
    const double pass =
        std::max({products / (tensor_pass_rate(dtype, p) * rates.cycles * busy),
                  read * static_cast<double>(item_size(dtype)) / (rates.bytes * std::min(1.0, 2 * busy)),
                  kTileTime * std::ceil(seen * keys / kPartKeys / parts)});
    return pass + (parts > 1 ? kLastBlock + results * sizeof(float) / rates.bytes : 0);
  }
  double by_rows(const Properties& p) const { return time(64, 1, p); }
};

/// The best of few candidates, and its time.
std::pair<KeyParts, double> parts_and_time(const TensorPass& pass, int64_t key_size, int64_t value_size,
                                           const Properties& p) {
  constexpr double kMostQueries = 64, kResident = 2;
  constexpr int kMostBytesOfGroups = 256;  // of a head: registers have no room for more than one group of wider ones
  std::pair<KeyParts, double> best{KeyParts{}, pass.by_rows(p)};
  if (pass.queries > kMostQueries) return best;
  const int size = padded_size(key_size, value_size), bytes = size * static_cast<int>(item_size(pass.dtype));
  const double tiles = std::ceil(pass.keys / kPartKeys);
  const int groups = pass.queries > 16 && bytes <= kMostBytesOfGroups ? kMostPartGroups : 1;
  if (static_cast<size_t>(tensor_shared_parts(bytes, size, groups)) > p.shared_per_block_optin) return best;
  const double lines = pass.heads * std::ceil(pass.queries / (16.0 * groups));
  double most = std::ceil(kResident * p.multiprocessors / lines);
  most = lines > kTickets ? 1 : std::max(1.0, std::min({most, double{kMostParts}, std::floor(tiles / 2)}));
  for (const double parts : {1.0, most}) {
    const double part_tiles = std::ceil(tiles / parts), made = std::ceil(tiles / part_tiles),
                 time = pass.time(int64_t{16} * groups, made, p);
    const bool instead = best.first.groups == 0 && time == best.second;  // of rows, most of which are not there
    if (time < best.second || instead) best = {{groups, static_cast<int>(made), static_cast<int>(part_tiles)}, time};
  }
  return best;
}

double product_rate(DType dtype, const Properties& p) {
  if (dtype == DType::Float64) return kDouble;
  if (p.major < 8) return kScalarProduct;
  const double whole = p.minor == 0 ? 1 : 0.5;
  return std::max(kScalarProduct, whole * (flags()[Flag::MatmulTf32] ? kRounded : kThreeParts));
}

/// Seconds of a pass forwards.
double pass_time(const LibraryAttention& call, double heads, const Properties& p) {
  const Tensor& query = call.query;
  const Tensor none;
  const AttentionInputs in{query, call.key, call.value, call.mask, none};
  const int64_t rows = query.size(-2), key_size = query.size(-1), value_size = call.value.size(-1);
  const auto keys = static_cast<double>(call.key.size(-2)), sizes = static_cast<double>(key_size + value_size);
  TensorPass pass{heads, static_cast<double>(rows), keys, sizes, query.dtype(), call.is_causal ? 0.5 : 1};
  if (is_for_tensor_cores(in, {call.scale, call.dropout, call.is_causal})) {
    if (call.is_causal || call.dropout > 0) return pass.by_rows(p);
    const int64_t shared = query.dim() > 2 && call.key.dim() > 2 && call.key.size(-3) > 0
                               ? query.size(-3) / call.key.size(-3)
                               : 1;  // heads that meet the same keys
    if (are_few_queries(rows, shared)) {
      pass.heads /= static_cast<double>(shared);
      pass.queries *= static_cast<double>(shared);
    }
    return parts_and_time(pass, key_size, value_size, p).second;
  }
  const Rates rates(p);
  const double rate = query.dtype() == DType::Float64 ? std::min(kDouble, kScalarPass) : kScalarPass,
               busy = std::min(1.0, heads * static_cast<double>((rows + 63) / 64) / p.multiprocessors);
  return std::max(
      pass.seen * heads * pass.queries * keys * sizes / (rate * rates.cycles * busy),
      heads * keys * sizes * static_cast<double>(item_size(query.dtype())) / (rates.bytes * std::min(1.0, 2 * busy)));
}

}  // namespace

KeyParts key_parts(int64_t heads, int64_t queries, int64_t keys, int64_t key_size, int64_t value_size, DType dtype,
                   int device) {
  const TensorPass pass{static_cast<double>(heads), static_cast<double>(queries), static_cast<double>(keys),
                        static_cast<double>(key_size + value_size), dtype};
  return parts_and_time(pass, key_size, value_size, properties(device)).first;
}

AttentionTimes predicted_times(const LibraryAttention& call) {
  const Properties& p = properties(call.query.device().index);
  const Rates rates(p);
  const auto queries = static_cast<double>(call.query.size(-2)), keys = static_cast<double>(call.key.size(-2)),
             sizes = static_cast<double>(call.query.size(-1) + call.value.size(-1));
  const double heads = static_cast<double>(call.query.numel()) / std::max(1.0, queries * call.query.size(-1)),
               scores = heads * queries * keys, products = scores * sizes,
               itemsize = static_cast<double>(item_size(call.query.dtype())),
               key_bytes = heads * keys * sizes * itemsize;
  const double one_pass = kLaunch + (call.with_gradients ? kPasses : 1) * pass_time(call, heads, p);
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
