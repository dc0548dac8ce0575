// Runs element-wise plans on the CPU.
//
// Loops see only contiguous elements of the compute dtype, and numbers. A plan whose operands are all like that, at
// least along rows, runs directly over memory, split among threads. Otherwise the elements are taken in chunks that
// stay in the L1 cache: every operand that is strided, broadcast or of another dtype is packed into a buffer first, the
// result is unpacked afterwards. So one loop per op and dtype is compiled, and all other combinations share this file.
#include <cstring>

#include "core/parallel.h"
#include "cpu/isa.h"
#include "cpu/isa/half.h"
#include "cpu/isa/positions.h"
#include "cpu/isa/stream.h"
#include "cpu/isa/transpose.h"
#include "ops/kernel_table.h"

namespace facula::cpu::FACULA_ISA {
namespace {

constexpr int64_t kChunkBytes = 4096;          // of an operand
constexpr int64_t kPitch = kChunkBytes + 320;  // from one buffer to the next: at other places within pages

bool is_direct(const PlanOperand& operand, DType dtype) {
  return operand.dtype == dtype && operand.strides[0] == item_size(dtype);
}

/// Whether every element is the same one.
bool is_number(const PlanOperand& operand) {
  return std::all_of(operand.strides.begin(), operand.strides.end(), [](int64_t s) { return s == 0; });
}

/// Whether the elements lie one after the other in the order of the plan.
bool is_flat(const Plan& plan, const PlanOperand& operand, DType dtype) {
  bool flat = is_direct(operand, dtype);
  for (size_t d = 1; d < plan.shape.size(); ++d)
    flat = flat && operand.strides[d] == operand.strides[d - 1] * plan.shape[d - 1];
  return flat;
}

void unpack(const Plan& plan, Position at, int64_t count, const char* buffer) {
  const PlanOperand& out = plan.out;
  int64_t item = item_size(out.dtype);
  alignas(64) char raw[kChunk * 16];
  if (out.strides[0] == item && count <= at.left_in_row())
    return cast(out.dtype, plan.loop_result, count, out.data + at.offset(out), buffer);
  if (plan.loop_result != out.dtype) {
    cast(out.dtype, plan.loop_result, count, raw, buffer);
    buffer = raw;
  }
  for (int64_t done = 0; done < count;) {
    const StridedRows rows = at.next(count - done, out);
    scatter(item, rows, out.data + at.offset(out), buffer + done * item);
    done += rows.count * rows.length;
    at.advance(rows);
  }
}

void run_chunks(const Plan& plan, LoopFn loop, int64_t from, int64_t to) {
  alignas(64) char buffers[kMaxInputs + 1][kPitch];
  char* const result = buffers[kMaxInputs];
  const int64_t longest =
      std::min(kChunk, kChunkBytes / std::max(item_size(plan.compute), item_size(plan.loop_result)));
  Repeated numbers[kMaxInputs];
  LoopInput in[kMaxInputs];
  bool direct[kMaxInputs], flat[kMaxInputs], constant[kMaxInputs];
  for (int k = 0; k < plan.inputs; ++k) {
    direct[k] = is_direct(plan.in[k], plan.compute);
    flat[k] = is_flat(plan, plan.in[k], plan.compute);
    constant[k] = plan.inputs > 1 && is_number(plan.in[k]);
    if (!constant[k]) continue;
    numbers[k].set(plan.compute, plan.in[k].dtype, plan.in[k].data);
    in[k] = {numbers[k].bytes, 0};
  }
  const bool direct_out = is_direct(plan.out, plan.loop_result), flat_out = is_flat(plan, plan.out, plan.loop_result);
  // Chunks end with the row when rows are long, so that direct operands need no packing.
  bool whole_rows = plan.shape[0] >= longest / 4 || plan.shape.size() == 1;
  Position at(plan.shape, from);
  while (from < to) {
    int64_t row = at.left_in_row();
    int64_t count = std::min({longest, to - from, whole_rows ? row : to - from});
    bool one_run = count <= row;
    for (int k = 0; k < plan.inputs; ++k) {
      if (constant[k]) continue;
      const bool in_memory = flat[k] || (direct[k] && one_run);
      if (!in_memory) pack(plan.in[k], at, count, plan.compute, buffers[k]);
      in[k].data = in_memory ? plan.in[k].data + at.offset(plan.in[k]) : buffers[k];
    }
    bool into_memory = flat_out || (direct_out && one_run);
    char* target = into_memory ? plan.out.data + at.offset(plan.out) : result;
    loop(count, target, in, plan.params);
    if (!into_memory) unpack(plan, at, count, result);
    from += count;
    for (int64_t left = count; left > 0;) {
      const StridedRows rows = at.next(left, plan.out);
      at.advance(rows);
      left -= rows.count * rows.length;
    }
  }
}

/// Whether along every row the operands are elements of these dtypes, or numbers, and rows are not short.
bool runs_by_rows(const Plan& plan, DType from, DType to) {
  constexpr int64_t kShort = 48;  // below, packing many rows at once costs less than a call for each
  if ((plan.shape.size() > 1 && plan.shape[0] < kShort) || !is_direct(plan.out, to)) return false;
  for (int k = 0; k < plan.inputs; ++k) {
    const PlanOperand& in = plan.in[k];
    const bool number = plan.inputs > 1 && in.strides[0] == 0 && (in.dtype == from || is_number(in));
    if (!number && !is_direct(in, from)) return false;
  }
  return true;
}

/// Whether results are written around the caches: large ones whose memory the op does not read. Where computing takes
/// longer than memory does, sending blocks would only add to it.
bool writes_around(const Plan& plan) {
  const int64_t item = item_size(plan.out.dtype);
  if (!light_loops[plan.loop] || !BlockWriter<char>::is_worth(plan.numel * item) || plan.shape[0] * item < kStreamBlock)
    return false;
  for (int k = 0; k < plan.inputs; ++k) {
    if (plan.in[k].data == plan.out.data) return false;
  }
  return true;
}

/// A row of `n` elements by blocks that are sent to memory. `in` is at the end of the row then.
void loop_around(const Plan& plan, LoopFn loop, int64_t n, char* out, LoopInput* in) {
  const int64_t item = item_size(plan.out.dtype), most = kStreamBlock / item;
  BlockWriter<char> writer(out, true);
  for (int64_t done = 0; done < n; done += most) {
    const int64_t count = std::min(most, n - done);
    loop(count, writer.next(count * item), in, plan.params);
    for (int k = 0; k < plan.inputs; ++k)
      in[k].data = static_cast<const char*>(in[k].data) + in[k].step * count * item_size(plan.in[k].dtype);
  }
}

/// Elements [from, to), row by row.
void run_rows(const Plan& plan, LoopFn loop, int64_t from, int64_t to) {
  Repeated numbers[kMaxInputs];
  LoopInput in[kMaxInputs];
  bool changes[kMaxInputs];  // a number of its own in every row
  const bool around = writes_around(plan);
  Position at(plan.shape, from);
  for (int k = 0; k < plan.inputs; ++k) {
    const bool number = plan.inputs > 1 && plan.in[k].strides[0] == 0;
    changes[k] = number && !is_number(plan.in[k]);
    if (number) in[k] = {numbers[k].bytes, 0};
    if (number && !changes[k]) numbers[k].set(plan.compute, plan.in[k].dtype, plan.in[k].data);
  }
  while (from < to) {
    const StridedRows rows = at.next(to - from, plan.out);  // which follow each other evenly, for the inputs too
    const char* place[kMaxInputs];
    char* out = plan.out.data + at.offset(plan.out);
    for (int k = 0; k < plan.inputs; ++k) place[k] = plan.in[k].data + at.offset(plan.in[k]);
    for (int64_t r = 0; r < rows.count; ++r, out += rows.row_step) {
      for (int k = 0; k < plan.inputs; ++k) {
        if (in[k].step) in[k].data = place[k];
        else if (changes[k]) numbers[k].set(plan.compute, plan.in[k].dtype, place[k]);
        if (rows.count > 1) place[k] += plan.in[k].strides[1];
      }
      if (around) loop_around(plan, loop, rows.length, out, in);
      else loop(rows.length, out, in, plan.params);
    }
    from += rows.count * rows.length;
    at.advance(rows);
  }
}

/// The loop that takes the plan as it is in float16 or bfloat16; null where none does.
LoopFn loop_in_halves(const Plan& plan) {
  const DType half = plan.out.dtype;
  if (plan.compute != DType::Float32 || !is_half(half)) return nullptr;
  return runs_by_rows(plan, half, half) ? half_loop(plan.loop, half) : nullptr;
}

using RunFn = void (*)(const Plan&, LoopFn, int64_t, int64_t);

/// What computes a plan, or a part of it.
struct Runner {
  explicit Runner(const Plan& plan) : loop(loop_in_halves(plan)), run(run_rows) {
    if (loop) return;
    loop = loop_table[plan.loop][index(plan.compute)];
    FACULA_CHECK(loop, ErrorKind::NotImplemented, "elementwise: no CPU loop for dtype ", plan.compute);
    if (!runs_by_rows(plan, plan.compute, plan.loop_result)) run = run_chunks;
  }
  LoopFn loop;
  RunFn run;
};

// ---- Tiles, for matrices that are read across the direction in which the result is written

constexpr int64_t kTileBytes = 2048;  // of a row of a tile

bool is_across(const Plan& plan, const PlanOperand& in, size_t d) {
  const int64_t item = item_size(in.dtype);
  return in.strides[d] == item && in.strides[0] != item && in.strides[0] != 0 && plan.shape[d] >= kTile / 2;
}

/// The dimension along which an input lies in memory, other than the one of the result; 0 where there is none.
size_t dim_across(const Plan& plan) {
  constexpr int64_t kFew = 1024;
  if (plan.numel < kFew || plan.shape[0] < kTile / 2 || !is_direct(plan.out, plan.out.dtype)) return 0;
  for (int k = 0; k < plan.inputs; ++k) {
    for (size_t d = 1; d < plan.shape.size(); ++d) {
      if (is_across(plan, plan.in[k], d)) return d;
    }
  }
  return 0;
}

/// Computes one tile. Inputs that lie across it are transposed first.
void run_tile(const Plan& plan, size_t d, Plan& tile) {
  alignas(64) char turned[kMaxInputs][kTile * kTileBytes];
  for (int k = 0; k < plan.inputs; ++k) {
    if (!is_across(plan, plan.in[k], d)) continue;
    PlanOperand& in = tile.in[k];
    const int64_t item = item_size(in.dtype);
    transpose_for(item)(in.data, plan.in[k].strides[0], turned[k], tile.shape[0] * item, tile.shape[1], tile.shape[0]);
    in.data = turned[k];
    in.strides = {item, tile.shape[0] * item};
  }
  const Runner runner(tile);
  runner.run(tile, runner.loop, 0, tile.numel);
}

/// Goes through dimensions 0 and `d` by tiles of whole cache lines on either side.
void run_tiles(const Plan& plan, size_t d) {
  const int64_t columns = plan.shape[0], rows = plan.shape[d];
  const int64_t width = std::min(columns, kTileBytes / int64_t{16});
  const int64_t across = (columns + width - 1) / width, bands = (rows + kTile - 1) / kTile;
  const int64_t planes = plan.numel / (rows * columns);
  parallel_for(0, planes * bands * across, std::max<int64_t>(1, kGrain / (width * kTile)),
               [&](int64_t from, int64_t to) {
                 for (int64_t task = from; task < to; ++task) {
                   const int64_t column = task % across * width, row = task / across % bands * kTile;
                   Plan tile = plan;
                   tile.shape = {std::min(width, columns - column), std::min(kTile, rows - row)};
                   tile.numel = tile.shape[0] * tile.shape[1];
                   const auto place = [&](PlanOperand& operand) {
                     const Dims& strides = operand.strides;
                     operand.data += column * strides[0] + row * strides[d];
                     int64_t plane = task / (across * bands);
                     for (size_t k = 1; k < plan.shape.size(); ++k) {
                       if (k == d) continue;
                       operand.data += plane % plan.shape[k] * strides[k];
                       plane /= plan.shape[k];
                     }
                     operand.strides = {strides[0], strides[d]};
                   };
                   place(tile.out);
                   for (int k = 0; k < plan.inputs; ++k) place(tile.in[k]);
                   run_tile(plan, d, tile);
                 }
               });
}

void run_elementwise(const Plan& plan) {
  const Runner runner(plan);
  LockRelease release(plan.numel > kGrain);
  if (const size_t d = dim_across(plan)) return run_tiles(plan, d);
  parallel_for(0, plan.numel, kGrain, [&](int64_t from, int64_t to) { runner.run(plan, runner.loop, from, to); });
}

}  // namespace

void register_elementwise() { run_plan.set(DeviceType::CPU, run_elementwise); }

}  // namespace facula::cpu::FACULA_ISA
