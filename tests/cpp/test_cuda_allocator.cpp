// The caching allocator of the emulated device against a model: random allocations, releases and uses by other streams.
// Every block is filled by its stream, and read just before it is released, by the last stream that uses it: whoever is
// given the memory too early writes into what is still to be read.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "child.h"
#include "core/budget_hooks.h"
#include "core/error.h"
#include "cuda/allocator.h"
#include "cuda/allocator_settings.h"
#include "cuda/device.h"
#include "cuda/stream.h"

using namespace facula;
using namespace facula::cuda;

namespace {

struct Block {
  size_t bytes;
  Stream stream;
  unsigned char tag;
};
/// What a stream has read, to be looked at when it is there.
struct Reading {
  std::vector<unsigned char> bytes;
  unsigned char tag;
};

class Model {
 public:
  explicit Model(unsigned seed) : random_(seed) {
    streams_.push_back({{DeviceType::CUDA, 0}, 0});
    for (int i = 0; i < 3; ++i) streams_.push_back(stream_from_pool(0, 0));
  }

  /// Lets go of blocks within a budget.
  void run_within(size_t budget, int steps) {
    static Model* model;
    static size_t calls;
    model = this;
    calls = 0;
    budget_ = static_cast<int64_t>(budget);
    empty_cache();
    reset_peak_stats(0);
    set_memory_budget(0, budget);
    budget_hooks.make_room = [](Device device, size_t bytes) {
      CHECK(device.is_cuda() && device.index == 0 && bytes > 0);
      ++calls;
      return model->let_go(bytes);
    };
    run(steps, true);
    budget_hooks = {};
    set_memory_budget(0, 0);
    CHECK(calls > 0);
  }

  void run(int steps, bool with_other_streams) {
    for (int i = 0; i < steps; ++i) {
      if (live_.size() < 40 && below(5) < 3) take();
      else if (!live_.empty()) give(with_other_streams && below(3) == 0);
      if (below(60) == 0) settle();
      if (below(200) == 0) empty_cache();
      if (below(8) == 0) check_counters();  // not always: looking joins what was released
    }
    while (!live_.empty()) give(false);
    settle();
    check_counters();
    empty_cache();
    CHECK(allocator_stats(0).reserved_bytes.all.current == 0);
  }

 private:
  size_t below(size_t n) { return random_() % n; }

  size_t let_go(size_t bytes) {
    allocator_stats(0);  // takes the allocator's lock
    size_t went = 0;
    while (went < bytes && !live_.empty()) {
      const int64_t before = allocator_stats(0).allocated_bytes.all.current;
      give(below(3) == 0);
      went += static_cast<size_t>(before - allocator_stats(0).allocated_bytes.all.current);
    }
    return went;
  }

  size_t some_size() {
    constexpr size_t kMost[] = {2000, 100 << 10, 1500 << 10, 12 << 20};  // of each way to place a block
    return 1 + below(kMost[below(50) == 0 ? 3 : below(3)]);
  }

  void take() {
    const Block block{some_size(), streams_[below(streams_.size())], static_cast<unsigned char>(++tags_)};
    void* memory = allocate(block.bytes, 0, block.stream);
    const auto at = reinterpret_cast<CUdeviceptr>(memory);
    CHECK(at % 512 == 0);
    const auto after = live_.lower_bound(at);
    CHECK(after == live_.end() || at + block.bytes <= after->first);
    CHECK(after == live_.begin() || std::prev(after)->first + std::prev(after)->second.bytes <= at);
    live_[at] = block;
    FACULA_CUDA_CALL(cuMemsetD8Async, at, block.tag, block.bytes, handle(block.stream));
  }

  void give(bool used_by_another) {
    auto which = live_.begin();
    std::advance(which, below(live_.size()));
    const auto [at, block] = *which;
    Stream reader = block.stream;
    if (used_by_another) {
      reader = streams_[below(streams_.size())];
      Event filled;
      filled.record(block.stream);
      filled.block(reader);
      record_stream(reinterpret_cast<void*>(at), reader);
    }
    readings_.push_back(std::make_unique<Reading>(Reading{std::vector<unsigned char>(block.bytes), block.tag}));
    FACULA_CUDA_CALL(cuMemcpyDtoHAsync_v2, readings_.back()->bytes.data(), at, block.bytes, handle(reader));
    release(reinterpret_cast<void*>(at), 0);
    live_.erase(which);
  }

  void settle() {
    synchronize_device(0);
    for (const auto& r : readings_)
      CHECK(std::all_of(r->bytes.begin(), r->bytes.end(), [&](unsigned char b) { return b == r->tag; }));
    readings_.clear();
  }

  /// A block may be larger than what was asked for where the rest is not worth keeping.
  void check_counters() {
    int64_t bytes = 0, rounded = 0;
    for (const auto& [at, block] : live_) {
      bytes += static_cast<int64_t>(block.bytes);
      rounded += static_cast<int64_t>((block.bytes + 511) / 512 * 512);
    }
    const AllocatorStats stats = allocator_stats(0);
    CHECK(stats.requested_bytes.all.current == bytes);
    CHECK(stats.allocated_bytes.all.current >= rounded);
    CHECK(stats.allocation.all.current == static_cast<int64_t>(live_.size()));
    CHECK(stats.active_bytes.all.current >= stats.allocated_bytes.all.current);
    CHECK(stats.reserved_bytes.all.current >= stats.active_bytes.all.current);
    CHECK(!budget_ || stats.reserved_bytes.all.peak <= budget_);
    CHECK(stats.reserved_bytes.all.current - stats.active_bytes.all.current >= stats.inactive_split_bytes.all.current);
  }

  std::mt19937 random_;
  std::vector<Stream> streams_;
  std::map<CUdeviceptr, Block> live_;
  std::vector<std::unique_ptr<Reading>> readings_;
  unsigned tags_ = 0;
  int64_t budget_ = 0;
};

/// Blocks of which a budget can do without, the oldest first.
struct Spare {
  std::vector<void*> blocks;
  size_t bytes, calls = 0, asked = 0;
  size_t let_go(size_t wanted) {
    ++calls;
    asked = wanted;
    size_t went = 0;
    for (; went < wanted && !blocks.empty(); went += bytes) {
      release(blocks.front(), 0);
      blocks.erase(blocks.begin());
    }
    return went;
  }
};
Spare spare;

std::string refusal(size_t bytes, Stream stream) {
  try {
    release(allocate(bytes, 0, stream), 0);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::OutOfMemory);
    return error.what();
  }
  return {};
}

void test_budget() {
  const Stream stream{{DeviceType::CUDA, 0}, 0}, other = stream_from_pool(0, 0);
  constexpr size_t kMiB = 1 << 20;
  empty_cache();
  reset_peak_stats(0);
  set_memory_budget(0, 64 * kMiB);
  CHECK(memory_budget(0) == 64 * kMiB);
  budget_hooks.make_room = [](Device, size_t bytes) { return spare.let_go(bytes); };
  spare = {{}, 10 * kMiB};
  for (int i = 0; i < 30; ++i) spare.blocks.push_back(allocate(10 * kMiB, 0, i % 2 ? stream : other));
  CHECK(spare.calls > 0 && spare.asked == 6 * kMiB && held_bytes(0) == 60 * kMiB);
  const int64_t maps = allocator_stats(0).driver_allocations;
  for (int i = 0; i < 20; ++i) spare.blocks.push_back(allocate(10 * kMiB, 0, i % 2 ? stream : other));
  CHECK(allocator_stats(0).driver_allocations == maps);  // those of the stream are used again

  // Free pieces of another stream, of another size, and between others.
  spare.let_go(SIZE_MAX);
  spare.calls = 0;
  release(allocate(50 * kMiB, 0, other), 0);
  std::vector<void*> held;
  for (int i = 0; i < 60; ++i) held.push_back(allocate(kMiB / 2 * 3 / 2, 0, stream));
  for (void* block : held) release(block, 0);
  void* large = allocate(60 * kMiB, 0, other);
  CHECK(!is_used_elsewhere(large, 0));
  record_stream(large, stream);
  CHECK(is_used_elsewhere(large, 0));
  for (const SegmentSnapshot& s : memory_snapshot()) CHECK(s.is_expandable);
  CHECK(spare.calls == 0);

  // What fails says so, and leaves the allocator as it was. What others use is waited for.
  CHECK(refusal(5 * kMiB, stream).rfind("empty: cannot get 5.0 MiB within the memory budget of 64 MiB: 6", 0) == 0);
  spare = {{large}, 60 * kMiB};
  void* after = allocate(40 * kMiB, 0, stream);
  CHECK(spare.calls == 1 && spare.asked >= 36 * kMiB);
  CHECK(!refusal(65 * kMiB, stream).empty() && spare.calls == 1);  // for what can never be nothing goes

  // Nothing goes while a graph is captured.
  spare = {{after}, 40 * kMiB};
  const PoolId pool = new_pool();
  begin_pool(pool, 0);
  CHECK(!refusal(40 * kMiB, stream).empty() && spare.calls == 0);
  end_pool(pool, 0, 0);
  release_pool(pool, 0);
  release(allocate(40 * kMiB, 0, stream), 0);
  CHECK(spare.calls == 1);
  CHECK(allocator_stats(0).reserved_bytes.all.peak <= static_cast<int64_t>(64 * kMiB));

  // Above what the device has: what can go does, before it fails.
  set_memory_budget(0, 1024 * kMiB);
  spare = {{}, 50 * kMiB};
  for (int i = 0; i < 8; ++i) spare.blocks.push_back(allocate(50 * kMiB, 0, stream));
  CHECK(spare.calls > 0);
  CHECK(refusal(300 * kMiB, stream).find("out of memory") != std::string::npos);
  spare.let_go(SIZE_MAX);
  set_memory_budget(0, 32 * kMiB);  // at once, as far as it is cached
  CHECK(allocator_stats(0).reserved_bytes.all.current <= static_cast<int64_t>(32 * kMiB));
  set_memory_budget(0, 0);
  budget_hooks = {};
  empty_cache();
  CHECK(allocator_stats(0).reserved_bytes.all.current == 0);
}

/// Once the pools have grown, a loop of the same requests asks the driver for nothing.
void test_loop_without_driver() {
  const Stream stream{{DeviceType::CUDA, 0}, 0};
  const auto once = [&] {
    std::vector<void*> blocks;
    for (const size_t bytes : {100u, 5000u, 700u << 10, 3u << 20, 12u << 20})
      blocks.push_back(allocate(bytes, 0, stream));
    for (void* block : blocks) release(block, 0);
  };
  once();
  const AllocatorStats before = allocator_stats(0);
  for (int i = 0; i < 50; ++i) once();
  const AllocatorStats after = allocator_stats(0);
  CHECK(after.driver_allocations == before.driver_allocations && after.driver_frees == before.driver_frees);
  empty_cache();
}

/// What is cached is given back before an allocation fails.
void test_out_of_memory() {
  const Stream stream{{DeviceType::CUDA, 0}, 0}, other = stream_from_pool(0, 0);
  release(allocate(150 << 20, 0, stream), 0);
  void* most = allocate(175 << 20, 0, other);
  CHECK(allocator_stats(0).retries >= 1 || allocator_settings().garbage_threshold > 0);
  bool failed = false;
  try {
    allocate(100 << 20, 0, stream);
  } catch (const Error& error) {
    failed = error.kind() == ErrorKind::OutOfMemory;
  }
  CHECK(failed);
  release(most, 0);
  release(allocate(225 << 20, 0, stream), 0);
  empty_cache();
}

/// Where only free pieces between blocks of another stream are left, they serve others too.
void test_pieces_of_another_stream() {
  const Stream stream{{DeviceType::CUDA, 0}, 0}, other = stream_from_pool(0, 0);
  constexpr size_t kPiece = 512 << 10;
  set_memory_budget(0, 8 << 20);
  std::vector<void*> blocks;
  for (int i = 0; i < 16; ++i) blocks.push_back(allocate(kPiece, 0, other));
  CHECK(!refusal(kPiece, stream).empty());
  const auto address = [](void* memory) { return reinterpret_cast<CUdeviceptr>(memory); };
  std::vector<std::vector<unsigned char>> last(8, std::vector<unsigned char>(kPiece));
  for (size_t i = 0; i < 16; i += 2) {  // what the other stream still does there comes first
    FACULA_CUDA_CALL(cuMemsetD8Async, address(blocks[i]), static_cast<unsigned char>(i + 1), kPiece, handle(other));
    FACULA_CUDA_CALL(cuMemcpyDtoHAsync_v2, last[i / 2].data(), address(blocks[i]), kPiece, handle(other));
    release(blocks[i], 0);
  }
  std::vector<void*> borrowed;
  for (int i = 0; i < 8; ++i) {
    borrowed.push_back(allocate(kPiece - 100, 0, stream));
    CHECK(is_used_elsewhere(borrowed.back(), 0));
    FACULA_CUDA_CALL(cuMemsetD8Async, address(borrowed.back()), static_cast<unsigned char>(99), kPiece, handle(stream));
  }
  CHECK(!refusal(kPiece, stream).empty() && !refusal(kPiece, other).empty());
  synchronize_device(0);
  for (size_t i = 0; i < 16; i += 2)
    CHECK(std::all_of(last[i / 2].begin(), last[i / 2].end(), [&](unsigned char b) { return b == i + 1; }));
  for (void* block : borrowed) release(block, 0);
  for (size_t i = 0; i < 16; i += 2) blocks[i] = allocate(kPiece, 0, other);  // they are still the other stream's
  for (void* block : blocks) {
    CHECK(!is_used_elsewhere(block, 0));
    release(block, 0);
  }
  set_memory_budget(0, 0);
  empty_cache();
  CHECK(allocator_stats(0).reserved_bytes.all.current == 0);
}

/// Free pieces far from each other serve one block; what is between them stays.
void test_expandable_segments() {
  const Stream stream{{DeviceType::CUDA, 0}, 0};
  const size_t piece = 20 << 20;
  std::vector<void*> blocks;
  for (int i = 0; i < 12; ++i) blocks.push_back(allocate(piece, 0, stream));
  FACULA_CUDA_CALL(cuMemsetD8Async, reinterpret_cast<CUdeviceptr>(blocks[1]), static_cast<unsigned char>(7), piece,
                   handle(stream));
  for (size_t i = 0; i < blocks.size(); i += 2) release(blocks[i], 0);
  void* large = allocate(5 * piece, 0, stream);
  FACULA_CUDA_CALL(cuMemsetD8Async, reinterpret_cast<CUdeviceptr>(large), static_cast<unsigned char>(9), 5 * piece,
                   handle(stream));
  std::vector<unsigned char> kept(piece);
  FACULA_CUDA_CALL(cuMemcpyDtoHAsync_v2, kept.data(), reinterpret_cast<CUdeviceptr>(blocks[1]), piece, handle(stream));
  synchronize_device(0);
  CHECK(std::all_of(kept.begin(), kept.end(), [](unsigned char b) { return b == 7; }));
  CHECK(memory_snapshot().front().is_expandable);
  for (size_t i = 1; i < blocks.size(); i += 2) release(blocks[i], 0);
  release(large, 0);
  empty_cache();
  CHECK(memory_snapshot().empty());
}

void test_settings() {
  const AllocatorSettings s = parse_allocator_settings(
      "max_split_size_mb:64, roundup_power2_divisions:[256:1,512:2,>:8],expandable_segments:True");
  CHECK(s.expandable_segments && s.max_split == 64u << 20);
  CHECK(divisions_for(s, 300u << 20) == 1 && divisions_for(s, 600u << 20) == 2 &&
        divisions_for(s, size_t{5000} << 20) == 8);
  for (const char* wrong :
       {"split:3", "max_split_size_mb:20", "max_split_size_mb:x", "expandable_segments:1",
        "garbage_collection_threshold:2", "roundup_power2_divisions:3", "backend:other", "backend"}) {
    bool refused = false;
    try {
      parse_allocator_settings(wrong);
    } catch (const Error& error) {
      refused = error.kind() == ErrorKind::Value;
    }
    CHECK(refused);
  }
}

void run_all() {
  test_settings();
  Model(1).run(200, false);
  Model(2).run(300, true);
  Model(3).run_within(24 << 20, 400);
  test_budget();
  test_loop_without_driver();
  test_out_of_memory();
  test_pieces_of_another_stream();
  if (allocator_settings().expandable_segments) test_expandable_segments();
}

}  // namespace

int main() {
  setenv("FACULA_CUDA", "emulated", 1);
  setenv("FACULA_EMULATED_MEMORY_MIB", "256", 1);
  setenv("FACULA_EMULATED_JITTER", "50", 1);
  const std::string settings = "FACULA_CUDA_ALLOC_CONF=";
  for (const std::string mode : {"async", "eager", "lazy"}) {
    expect_good(mode.c_str(), in_child({"FACULA_EMULATED_MODE=" + mode}, run_all));
    if (mode == "eager") continue;
    expect_good("expandable",
                in_child({"FACULA_EMULATED_MODE=" + mode, settings + "expandable_segments:True"}, run_all));
  }
  expect_good("rounding",
              in_child({settings + "roundup_power2_divisions:4,garbage_collection_threshold:0.5"}, run_all));
  std::puts("ok");
}
