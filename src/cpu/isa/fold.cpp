// The walk of a fold over a tensor.
//
//     rows()       results one by one, in chunks of kFoldChunk elements    columns()      tiles of neighboring results
//       short_rows()      each in one block, several results at a time       fold_columns()       halves of many rows
//       fold_rows()       halves of many rows                                  fold_side_by_side()  narrow rows as wide
//         fold_few_rows()   at most kRowsMerged                                Folder::columns()    rows into a tile
//           fold_run()        halves of a long row
//             Folder::rows()    a block
//
// Where something is divided into halves or chunks, their accumulators are merged pairwise by fixed rules, so that
// neither the number of threads nor their order changes a result.
#include <vector>

#include "cpu/isa/fold_plan.h"

namespace facula::cpu::FACULA_ISA {
namespace {

constexpr int64_t kPieceBytes = 8 * kGrain;  // read by each thread
constexpr int64_t kFoldChunk = 1 << 15;      // elements one thread takes at a time; part of the result's definition
constexpr int64_t kColumnTile = 256;         // neighboring results folded together
constexpr int64_t kColumnRows = 128;         // rows folded into a tile before tiles are merged pairwise
constexpr int64_t kRowsMerged = 16;          // rows folded before pairs of them are merged
constexpr int64_t kRowsStored = 64;          // results of short rows, stored together
constexpr int64_t kWidest = 16;              // bytes of an element or an accumulator

/// The elements of a run that are folded first: whole blocks.
int64_t half_of_run(int64_t n) { return (n / 2 + kFoldBlock - 1) / kFoldBlock * kFoldBlock; }

/// Merges `count` times `width` accumulators, pairwise, into the first ones.
void merge_pairwise(const Folder& f, char* partials, int64_t count, int64_t width) {
  if (count == 1) return;
  char* half = partials + count / 2 * width * f.acc_size;
  merge_pairwise(f, partials, count / 2, width);
  merge_pairwise(f, half, count - count / 2, width);
  f.merge(f, partials, half, width);
}

int64_t pieces_of(int64_t length, int64_t piece) { return std::max<int64_t>(1, (length + piece - 1) / piece); }

/// Buffers for elements that must be packed or converted, on the stack of their thread.
struct Scratch {
  alignas(64) char values[kFoldBlock * kWidest];
  alignas(64) char packed[kFoldBlock * kWidest];
};

struct Accumulator {
  alignas(kWidest) char bytes[kWidest];
};

class FoldWalk {
 public:
  FoldWalk(const Folder& folder, const FoldPlan& plan, const char* centers) : f(folder), plan(plan), centers(centers) {}
  void rows() const;
  void columns() const;

 private:
  const Folder& f;
  const FoldPlan& plan;
  const char* centers;

  const char* center_of(int64_t place) const { return centers ? centers + place * f.value_size : nullptr; }
  const char* load(const char* at, int64_t n, Scratch* scratch, int64_t place = 0) const;
  template <class Piece>
  void in_parallel(int64_t tasks, int64_t grain, Piece piece) const;
  /// How many tasks of `elements` each a thread is worth. Folds take about as long as reading takes, but for powers.
  int64_t grain_of(int64_t elements) const {
    const int64_t piece = f.args.finish == Finish::Power ? kGrain / 16 : kPieceBytes / item_size(plan.dtype);
    return std::max<int64_t>(1, piece / std::max<int64_t>(1, elements));
  }
  void short_rows() const;
  void fold_run(const char* at, int64_t n, const char* center, Scratch* scratch, char* acc) const;
  void fold_rows(const char* base, int64_t from, int64_t to, const char* center, Scratch* scratch, char* acc) const;
  void fold_few_rows(const char* base, int64_t from, int64_t to, const char* center, Scratch* scratch, char* acc) const;
  int64_t rows_side_by_side(int64_t width) const;
  void fold_columns(const char* base, int64_t from, int64_t to, int64_t width, const char* center, Scratch* scratch,
                    char* acc) const;
  struct Tile;
  const char* centers_of(const Tile& tile, char* buffer) const;
  int64_t fold_side_by_side(const char* base, int64_t from, int64_t to, int64_t width, const char* center,
                            char* acc) const;
};

/// `n` elements from `at` on, as contiguous values of the compute dtype: in place, or packed and converted to `place`
/// bytes from the begin of the buffer on.
const char* FoldWalk::load(const char* at, int64_t n, Scratch* scratch, int64_t place) const {
  if (plan.direct()) return at;
  const int64_t item = item_size(plan.dtype);
  const char* source = at;
  if (plan.inner_stride != item) {
    char* target = plan.dtype == plan.compute ? scratch->values + place : scratch->packed;
    gather(item, {1, n, 0, plan.inner_stride}, target, at);
    source = target;
  }
  if (plan.dtype == plan.compute) return source;
  cast(plan.compute, plan.dtype, n, scratch->values + place, source);
  return scratch->values + place;
}

/// Calls piece(from, to, scratch) over the tasks.
template <class Piece>
void FoldWalk::in_parallel(int64_t tasks, int64_t grain, Piece piece) const {
  if (plan.direct()) return parallel_for(0, tasks, grain, [&](int64_t from, int64_t to) { piece(from, to, nullptr); });
  parallel_for(0, tasks, grain, [&](int64_t from, int64_t to) {
    Scratch scratch;
    piece(from, to, &scratch);
  });
}

/// Folds `n` elements of the innermost dimension.
void FoldWalk::fold_run(const char* at, int64_t n, const char* center, Scratch* scratch, char* acc) const {
  if (const auto narrow = plan.narrow(f).rows; narrow && n <= kFoldBlock)
    return narrow(f, at, 0, 1, n, nullptr, 0, acc);
  if (n <= kFoldBlock) return f.rows(f, load(at, n, scratch), 0, 1, n, center, 0, acc);
  const int64_t half = half_of_run(n);
  Accumulator other;
  fold_run(at, half, center, scratch, acc);
  fold_run(at + half * plan.inner_stride, n - half, center, scratch, other.bytes);
  f.merge(f, acc, other.bytes, 1);
}

/// Folds the rows [from, to) of the outer reduced dimensions.
void FoldWalk::fold_rows(const char* base, int64_t from, int64_t to, const char* center, Scratch* scratch,
                         char* acc) const {
  if (to - from <= kRowsMerged) return fold_few_rows(base, from, to, center, scratch, acc);
  const int64_t middle = from + (to - from) / 2;
  Accumulator other;
  fold_rows(base, from, middle, center, scratch, acc);
  fold_rows(base, middle, to, center, scratch, other.bytes);
  f.merge(f, acc, other.bytes, 1);
}

void FoldWalk::fold_few_rows(const char* base, int64_t from, int64_t to, const char* center, Scratch* scratch,
                             char* acc) const {
  const bool together = plan.direct() && plan.inner <= kFoldBlock;
  Accumulator others[kRowsMerged];
  f.start(f, acc, 1);
  for (int64_t r = from, count; r < to; r += count) {
    const char* row = base + plan.reduced.in_offset(r);
    count = together ? plan.reduced.evenly(r, to) : 1;
    if (together) f.rows(f, row, plan.reduced.in_step(), count, plan.inner, center, 0, others->bytes);
    else fold_run(row, plan.inner, center, scratch, others->bytes);
    for (int64_t left = count; left > 1; left -= left / 2)  // the last half into the first
      f.merge(f, others->bytes, others->bytes + (left - left / 2) * f.acc_size, left / 2);
    f.merge(f, acc, others->bytes, 1);
  }
}

/// Rows of one block each, whose values are in place.
void FoldWalk::short_rows() const {
  const int64_t stride = plan.results.in_step(), step = plan.results.out_step();
  parallel_for(0, plan.results.count, grain_of(plan.inner), [&](int64_t from, int64_t to) {
    alignas(64) char acc[kRowsStored * kWidest];
    for (int64_t k = from, count; k < to; k += count) {
      count = std::min(kRowsStored, plan.results.evenly(k, to));
      const int64_t place = plan.results.out_offset(k);
      f.rows(f, plan.in + plan.results.in_offset(k), stride, count, plan.inner, center_of(place), step * f.value_size,
             acc);
      f.store(f, place, step, acc, count);
    }
  });
}

void FoldWalk::rows() const {
  const bool split_inner = plan.reduced.count == 1;
  if (split_inner && plan.direct() && plan.inner <= kFoldBlock) return short_rows();
  const int64_t length = split_inner ? plan.inner : plan.reduced.count;
  const int64_t chunk = split_inner ? kFoldChunk : std::max<int64_t>(1, kFoldChunk / plan.inner);
  const int64_t chunks = pieces_of(length, chunk), work = std::min(length, chunk) * (split_inner ? 1 : plan.inner);
  std::vector<char> partials(chunks > 1 ? static_cast<size_t>(plan.results.count * chunks * f.acc_size) : 0);
  in_parallel(plan.results.count * chunks, grain_of(work), [&](int64_t from, int64_t to, Scratch* scratch) {
    for (int64_t task = from; task < to; ++task) {
      const int64_t k = task / chunks, c = task % chunks, place = plan.results.out_offset(k);
      const char* base = plan.in + plan.results.in_offset(k);
      const int64_t first = c * chunk, last = std::min(length, first + chunk);
      Accumulator one;
      char* acc = chunks == 1 ? one.bytes : partials.data() + task * f.acc_size;
      if (split_inner) fold_run(base + first * plan.inner_stride, last - first, center_of(place), scratch, acc);
      else fold_rows(base, first, last, center_of(place), scratch, acc);
      if (chunks == 1) f.store(f, place, 1, acc, 1);
    }
  });
  for (int64_t k = 0; chunks > 1 && k < plan.results.count; ++k) {
    char* of_result = partials.data() + k * chunks * f.acc_size;
    merge_pairwise(f, of_result, chunks, 1);
    f.store(f, plan.results.out_offset(k), 1, of_result, 1);
  }
}

/// How many rows are folded side by side: narrow rows that follow each other in memory are read as wider ones.
int64_t FoldWalk::rows_side_by_side(int64_t width) const {
  const bool adjacent = plan.direct() && width == plan.inner && plan.reduced.sizes.size() == 1 &&
                        plan.reduced.in_step() == width * plan.inner_stride;
  return adjacent && width <= 32 ? 64 / width : 1;
}

/// Enters rows from `from` on, as wider ones, into `acc`; returns the first row that is left.
int64_t FoldWalk::fold_side_by_side(const char* base, int64_t from, int64_t to, int64_t width, const char* center,
                                    char* acc) const {
  alignas(64) char wide[64 * kWidest], centers[64 * kWidest];
  const int64_t beside = rows_side_by_side(width), rows = (to - from) / beside, bytes = width * f.value_size;
  for (int64_t b = 0; center && b < beside; ++b) std::memcpy(centers + b * bytes, center, static_cast<size_t>(bytes));
  f.start(f, wide, beside * width);
  f.columns(f, base + from * plan.reduced.in_step(), beside * plan.reduced.in_step(), rows, beside * width,
            center ? centers : nullptr, wide);
  for (int64_t b = 0; b < beside; ++b) f.merge(f, acc, wide + b * width * f.acc_size, width);
  return from + rows * beside;
}

/// Folds the rows [from, to) into `width` neighboring accumulators.
void FoldWalk::fold_columns(const char* base, int64_t from, int64_t to, int64_t width, const char* center,
                            Scratch* scratch, char* acc) const {
  const int64_t beside = rows_side_by_side(width);
  if (to - from > kColumnRows * beside) {
    const int64_t middle = from + (to - from) / 2;
    alignas(64) char other[kColumnTile * kWidest];
    fold_columns(base, from, middle, width, center, scratch, acc);
    fold_columns(base, middle, to, width, center, scratch, other);
    return f.merge(f, acc, other, width);
  }
  f.start(f, acc, width);
  int64_t r = from;
  if (beside > 1 && to - from >= 2 * beside) r = fold_side_by_side(base, from, to, width, center, acc);
  for (int64_t count; r < to; r += count) {
    const char* row = base + plan.reduced.in_offset(r);
    const int64_t step = plan.reduced.in_step();
    count = plan.reduced.evenly(r, to);
    if (plan.direct()) {
      f.columns(f, row, step, count, width, center, acc);
    } else if (const auto narrow = plan.narrow(f).columns) {
      narrow(f, row, step, count, width, nullptr, acc);
    } else {
      count = std::min(count, kRun);
      for (int64_t i = 0; i < count; ++i) load(row + i * step, width, scratch, i * width * f.value_size);
      f.columns(f, scratch->values, width * f.value_size, count, width, center, acc);
    }
  }
}

/// Neighboring results that are folded together, at one place of the outer dimensions.
struct FoldWalk::Tile {
  int64_t first, count;  // of the innermost dimension
  int64_t place;         // of the first result
  const char* base;

  Tile(const FoldPlan& plan, int64_t number) {
    const int64_t tiles = pieces_of(plan.inner, kColumnTile), outer = number / tiles;
    first = number % tiles * kColumnTile;
    count = std::min(kColumnTile, plan.inner - first);
    place = plan.results.out_offset(outer) + first * plan.inner_out;
    base = plan.in + plan.results.in_offset(outer) + first * plan.inner_stride;
  }
};

/// The centers of the results of a tile, one after the other; null where the fold has none.
const char* FoldWalk::centers_of(const Tile& tile, char* buffer) const {
  if (!centers) return nullptr;
  for (int64_t w = 0; w < tile.count; ++w)
    std::memcpy(buffer + w * f.value_size, center_of(tile.place + w * plan.inner_out),
                static_cast<size_t>(f.value_size));
  return buffer;
}

void FoldWalk::columns() const {
  const int64_t tiles = plan.results.count * pieces_of(plan.inner, kColumnTile);
  const int64_t width = std::min(plan.inner, kColumnTile), partial = width * f.acc_size;  // bytes of a task's results
  const int64_t chunk = std::max(kColumnRows, kFoldChunk / width), chunks = pieces_of(plan.reduced.count, chunk);
  const int64_t work = std::min(chunk, plan.reduced.count) * width;
  std::vector<char> partials(chunks > 1 ? static_cast<size_t>(tiles * chunks * partial) : 0);
  in_parallel(tiles * chunks, grain_of(work), [&](int64_t from, int64_t to, Scratch* scratch) {
    alignas(64) char own[kColumnTile * kWidest], middle[kColumnTile * kWidest];
    for (int64_t task = from; task < to; ++task) {
      const Tile tile(plan, task / chunks);
      const int64_t begin = task % chunks * chunk, end = std::min(plan.reduced.count, begin + chunk);
      char* acc = chunks == 1 ? own : partials.data() + task * partial;
      fold_columns(tile.base, begin, end, tile.count, centers_of(tile, middle), scratch, acc);
      if (chunks == 1) f.store(f, tile.place, plan.inner_out, acc, tile.count);
    }
  });
  for (int64_t t = 0; chunks > 1 && t < tiles; ++t) {
    const Tile tile(plan, t);
    char* of_tile = partials.data() + t * chunks * partial;
    merge_pairwise(f, of_tile, chunks, width);
    f.store(f, tile.place, plan.inner_out, of_tile, tile.count);
  }
}

/// Merges the accumulators of `n` elements as fold_run() does, into the first one.
void merge_run(const Folder& f, char* blocks, int64_t n) {
  if (n <= kFoldBlock) return;
  const int64_t half = half_of_run(n);
  char* other = blocks + half / kFoldBlock * f.acc_size;
  merge_run(f, blocks, half);
  merge_run(f, other, n - half);
  f.merge(f, blocks, other, 1);
}

}  // namespace

void merge_blocks(const Folder& f, char* blocks, int64_t n) {
  constexpr int64_t kBlocks = kFoldChunk / kFoldBlock;
  const int64_t chunks = pieces_of(n, kFoldChunk);
  for (int64_t c = 0; c < chunks; ++c) {
    char* chunk = blocks + c * kBlocks * f.acc_size;
    merge_run(f, chunk, std::min(kFoldChunk, n - c * kFoldChunk));
    std::memmove(blocks + c * f.acc_size, chunk, static_cast<size_t>(f.acc_size));
  }
  merge_pairwise(f, blocks, chunks, 1);
  f.store(f, 0, 1, blocks, 1);
}

void run_fold(const Folder& folder, const Tensor& out, const Tensor& in, const char* centers) {
  if (in.numel() == 0) {
    Accumulator nothing;
    folder.start(folder, nothing.bytes, 1);
    for (int64_t i = 0; i < out.numel(); ++i) folder.store(folder, i, 1, nothing.bytes, 1);
    return;
  }
  const FoldPlan plan = plan_fold(out, in, folder.args.compute);
  LockRelease unlocked(in.numel() > 4 * kGrain);
  const FoldWalk walk(folder, plan, centers);
  if (plan.columns) walk.columns();
  else walk.rows();
}

}  // namespace facula::cpu::FACULA_ISA
