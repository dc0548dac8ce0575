#include "cuda/attention_tensor.h"

#include <algorithm>
#include <cmath>

#include "cuda/device.h"
#include "cuda/flags.h"
#include "cuda/kernel.h"
#include "cuda/tickets.h"
#include "ops/contiguous.h"

namespace facula::cuda {
namespace {

constexpr int kWidest = 128;            // head that has kernels
constexpr int kGroupRows = 64;          // rows of a block, of each group
constexpr int64_t kMostRows = 1 << 30;  // positions have 32 bits

/// Elements of 16 bytes.
int64_t each_of(DType dtype) { return 16 / item_size(dtype); }

/// Whether sums of parts take the place of factors that are rounded to TF32.
bool is_exact(DType dtype) { return dtype == DType::Float32 && !flags()[Flag::MatmulTf32]; }

/// The queries of heads that share keys and values become rows of one head, if each has one: results of several lie
/// beside those of other heads.
void join_heads(AttentionArgs& p) {
  const int last = p.batch_dims - 1;
  if (last < 0 || p.is_causal || p.dropout > 0 || !are_few_queries(p.queries, p.batch_sizes[last])) return;
  if (p.key.batch[last] != 0 || p.value.batch[last] != 0) return;
  for (AttentionMatrix* m : {&p.query, &p.out, &p.mask}) m->row = m->batch[last];
  p.heads /= p.batch_sizes[last];
  p.queries *= p.batch_sizes[last];
  --p.batch_dims;
}

/// The groups of a block: `most`, unless that leaves processors without a block.
int groups_for(const AttentionArgs& p, int64_t rows, int most, int device) {
  const int64_t lines = int64_t{kGroupRows} * most;
  const bool is_enough =
      rows > kGroupRows && p.heads * ((rows + lines - 1) / lines) >= properties(device).multiprocessors;
  return is_enough ? most : 1;
}

Grid blocks_for(const AttentionArgs& p, int64_t rows, int groups, int shared_bytes) {
  const int64_t lines = int64_t{kGroupRows} * groups;
  return {kTensorThreads, p.heads * ((rows + lines - 1) / lines), 1, 1, static_cast<unsigned>(shared_bytes)};
}

int mask_kind(const AttentionInputs& in) {
  if (!in.mask.defined()) return kNoMask;
  return in.mask.dtype() == DType::Bool ? kTruthMask : in.mask.dtype() == in.query.dtype() ? kOwnMask : kFloatMask;
}

bool has_pairs(const AttentionArgs& p, int64_t bytes) {
  const AttentionMatrix& m = p.mask;
  return m.column == 1 && m.row % 2 == 0 && reinterpret_cast<uintptr_t>(m.data) % static_cast<size_t>(2 * bytes) == 0 &&
         std::all_of(m.batch, m.batch + p.batch_dims, [](long long stride) { return stride % 2 == 0; });
}

}  // namespace

int padded_size(int64_t size, int64_t value_size) {
  return static_cast<int>((std::max(size, value_size) + 31) / 32 * 32);
}

bool are_few_queries(int64_t queries, int64_t heads) { return heads > 1 && queries == 1; }

bool is_for_tensor_cores(const AttentionInputs& in, const AttentionOptions& options) {
  const int64_t size = in.query.size(-1), value_size = in.value.size(-1), queries = in.query.size(-2),
                keys = in.key.size(-2);
  const DType dtype = in.query.dtype();
  const Properties& device = properties(in.query.device().index);
  if (!(is_half(dtype) || dtype == DType::Float32) || device.major < 8) return false;
  for (const int64_t each : {size, value_size})
    if (each < 1 || each > kWidest || each % each_of(dtype)) return false;
  for (const int64_t each : {queries, keys})
    if (each < 1 || each > kMostRows) return false;
  const int64_t heads = in.query.numel() / (queries * size);
  if (heads < 1 || heads > INT32_MAX / (std::max(queries, keys) / kGroupRows + 1)) return false;
  const auto scale = static_cast<float>(options.scale);
  const int bytes = padded_size(size, value_size) * static_cast<int>(item_size(dtype));
  return scale > 0 && std::isfinite(scale) &&
         static_cast<size_t>(tensor_shared_backward(bytes, 1)) <= device.shared_per_block_optin;
}

Tensor with_even_rows(const Tensor& t) {
  const int64_t each = each_of(t.dtype());
  bool is_even = reinterpret_cast<uintptr_t>(t.data()) % 16 == 0 && t.stride(-1) == 1;
  for (int64_t d = 0; d < t.dim() - 1; ++d) is_even = is_even && (t.size(d) == 1 || t.stride(d) % each == 0);
  return is_even ? t : ops::contiguous_copy(t);
}

namespace {

/// What both passes are made for.
struct Instance {
  DType dtype;
  int device, size, bytes, mask;
  bool drops, is_wide;

  Instance(AttentionArgs& p, const AttentionInputs& in)
      : dtype(in.query.dtype()),
        device(in.query.device().index),
        size(padded_size(p.size, p.value_size)),
        bytes(size * static_cast<int>(item_size(dtype))),
        mask(mask_kind(in)),
        drops(p.dropout > 0),
        is_wide(dtype == DType::Float32) {
    p.mask_has_pairs = mask != kNoMask && has_pairs(p, item_size(in.mask.dtype()));
  }
};

}  // namespace

void attention_by_tensor_cores(AttentionArgs p, const AttentionInputs& in) {
  static const DeviceKernel kernel{"attention_tensor.cuh", "tensor_attention"},
      of_parts{"attention_tensor_parts.cuh", "tensor_attention_parts"};
  join_heads(p);
  const Instance i(p, in);
  KeyParts by;
  if (!p.is_causal && !i.drops) by = key_parts(p.heads, p.queries, p.keys, p.size, p.value_size, i.dtype, i.device);
  if (by.groups > 0) {
    p.parts = by.parts;
    p.part_tiles = by.part_tiles;
    Tensor made;
    if (by.parts > 1) {
      const int64_t places = p.heads * p.queries * by.parts;
      made = facula::empty({places * (p.value_size + 2)}, DType::Float32, in.query.device());
      p.made = made.data<float>();
      p.made_sums = p.made + places * p.value_size;
      p.tickets = fold_ticket(i.device);
    }
    const int64_t rows = int64_t{16} * by.groups, blocks = p.heads * ((p.queries + rows - 1) / rows) * by.parts;
    const int shared = tensor_shared_parts(i.bytes, i.size, by.groups);
    return of_parts(i.device, {i.dtype, i.size / 8, by.groups, i.mask, is_exact(i.dtype)},
                    Grid{kTensorThreads, blocks, 1, 1, static_cast<unsigned>(shared)}, p);
  }
  const int groups = groups_for(p, p.queries, i.is_wide ? 1 : 2, i.device);
  kernel(i.device, {i.dtype, i.size / 8, groups, i.mask, i.drops, is_exact(i.dtype)},
         blocks_for(p, p.queries, groups, tensor_shared(i.bytes, groups)), p);
}

void attention_backward_by_tensor_cores(AttentionArgs p, const AttentionInputs& in) {
  static const DeviceKernel kernel{"attention_tensor_backward.cuh", "tensor_attention_backward"};
  const Instance i(p, in);
  // the pass of queries comes first: it finds what the other one takes from `delta`
  for (const bool of_keys : {false, true}) {
    const int64_t rows = of_keys ? p.keys : p.queries;
    const int groups = groups_for(p, rows, i.is_wide || (of_keys && i.size > 64) ? 1 : 2, i.device);
    kernel(i.device, {i.dtype, i.size / 8, groups, of_keys, i.mask, i.drops, is_exact(i.dtype)},
           blocks_for(p, rows, groups, tensor_shared_backward(i.bytes, groups)), p);
  }
}

}  // namespace facula::cuda
