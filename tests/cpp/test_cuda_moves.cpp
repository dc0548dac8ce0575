// Moves of blocks of the emulated device to pinned memory and back, against a model: blocks of several streams are
// filled, moved away, released, brought back into other blocks, read; moves end early at every place. Work is done
// late and in any order that streams and events allow, so that an order which nobody asked for shows.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "child.h"
#include "core/backend.h"
#include "core/error.h"
#include "core/move_hooks.h"
#include "cuda/allocator.h"
#include "cuda/backend.h"
#include "cuda/device.h"
#include "cuda/graph.h"
#include "cuda/host_allocator.h"
#include "cuda/stream.h"

using namespace facula;
using namespace facula::cuda;

namespace {

constexpr Device kDevice{DeviceType::CUDA, 0};
const MoveHooks& hooks() { return move_hooks_of(kDevice); }

/// What a stream has read, to be looked at when it is there.
struct Reading {
  std::vector<unsigned char> bytes;
  unsigned char tag;
};
struct Block {
  void* memory;  // null: the bytes are away
  size_t bytes;
  Stream stream;
  unsigned char tag;
  DeviceMove* move = nullptr;
  bool comes_back = false;  // begun, and not finished
};

class Model {
 public:
  explicit Model(unsigned seed) : random_(seed) {
    streams_.push_back({kDevice, 0});
    for (int i = 0; i < 2; ++i) streams_.push_back(stream_from_pool(0, 0));
  }

  void run(int steps) {
    for (int i = 0; i < steps; ++i) {
      if (blocks_.size() < 12 && below(3) == 0) make();
      else if (!blocks_.empty()) change(below(blocks_.size()));
      if (below(40) == 0) settle();
    }
    while (!blocks_.empty()) end(blocks_.size() - 1);
    settle();
    empty_cache();
    CHECK(allocator_stats(0).reserved_bytes.all.current == 0);
    CHECK(host_stats().used_bytes.current == 0);
  }

 private:
  size_t below(size_t n) { return random_() % n; }
  static CUdeviceptr at(const Block& block) { return reinterpret_cast<CUdeviceptr>(block.memory); }

  void make() {
    constexpr size_t kMost[] = {100 << 10, 3 << 20, 9 << 20};
    Block block{nullptr, 1 + below(kMost[below(3)]), streams_[below(streams_.size())],
                static_cast<unsigned char>(++tags_)};
    block.memory = allocate(block.bytes, 0, block.stream);
    FACULA_CUDA_CALL(cuMemsetD8Async, at(block), block.tag, block.bytes, handle(block.stream));
    blocks_.push_back(block);
  }

  void change(size_t i) {
    Block& b = blocks_[i];
    const StreamGuard guard(b.stream);
    if (!b.move) {
      if (below(4) == 0) return end(i);
      b.move = hooks().begin_out(kDevice, b.memory, b.bytes);
      CHECK(b.move);
    } else if (!b.memory) {  // away
      if (below(8) == 0) return end(i);
      b.memory = allocate(b.bytes, 0, b.stream);
      hooks().begin_back(b.move, b.memory);
      b.comes_back = true;
    } else if (b.comes_back) {
      if (below(8) == 0) return end(i);
      hooks().finish_back(b.move);
      b.comes_back = false;
      read(b);
      if (below(2)) hooks().drop(std::exchange(b.move, nullptr));
    } else {  // on its way, or here and there
      if (below(8) == 0) hooks().drop(std::exchange(b.move, nullptr));
      else if (below(2)) hooks().wait(b.move);
      if (b.move && hooks().is_out(b.move)) {
        FACULA_CUDA_CALL(cuMemsetD8Async, at(b), static_cast<unsigned char>(0), b.bytes, handle(b.stream));
        release(std::exchange(b.memory, nullptr), 0);
      }
    }
  }

  void read(const Block& b) {
    readings_.push_back(std::make_unique<Reading>(Reading{std::vector<unsigned char>(b.bytes), b.tag}));
    FACULA_CUDA_CALL(cuMemcpyDtoHAsync_v2, readings_.back()->bytes.data(), at(b), b.bytes, handle(b.stream));
  }

  /// In any state; then others may have the block, and write to it, at once.
  void end(size_t i) {
    Block& b = blocks_[i];
    if (b.memory && !b.comes_back) read(b);
    if (b.move) hooks().drop(b.move);
    if (b.memory) {
      FACULA_CUDA_CALL(cuMemsetD8Async, at(b), static_cast<unsigned char>(0), b.bytes, handle(b.stream));
      release(b.memory, 0);
    }
    std::swap(b, blocks_.back());
    blocks_.pop_back();
  }

  void settle() {
    synchronize_device(0);
    for (const auto& r : readings_)
      CHECK(std::all_of(r->bytes.begin(), r->bytes.end(), [&](unsigned char b) { return b == r->tag; }));
    readings_.clear();
  }

  std::mt19937 random_;
  std::vector<Stream> streams_;
  std::vector<Block> blocks_;
  std::vector<std::unique_ptr<Reading>> readings_;
  unsigned tags_ = 0;
};

void fill(void* memory, unsigned char tag, size_t bytes, Stream stream) {
  FACULA_CUDA_CALL(cuMemsetD8Async, reinterpret_cast<CUdeviceptr>(memory), tag, bytes, handle(stream));
}
std::vector<unsigned char> bytes_of(void* memory, size_t bytes, Stream stream) {
  std::vector<unsigned char> read(bytes);
  FACULA_CUDA_CALL(cuMemcpyDtoHAsync_v2, read.data(), reinterpret_cast<CUdeviceptr>(memory), bytes, handle(stream));
  synchronize(stream);
  return read;
}

/// A block that another stream writes to, as record_stream() says: the copy waits for that one, too.
void test_other_streams() {
  const Stream own{kDevice, 0}, other = stream_from_pool(0, 0);
  constexpr size_t kBytes = 5 << 20;
  void* memory = allocate(kBytes, 0, own);
  CHECK(streams_of(memory, 0) == std::vector{own});
  record_stream(memory, other);
  CHECK((streams_of(memory, 0) == std::vector{own, other}));
  fill(memory, 3, kBytes, other);
  DeviceMove* move = hooks().begin_out(kDevice, memory, kBytes);
  hooks().wait(move);
  CHECK(hooks().is_out(move));
  fill(memory, 4, kBytes, own);
  release(memory, 0);
  void* back = allocate(kBytes, 0, own);
  hooks().begin_back(move, back);
  {
    const StreamGuard guard(other);  // who reads there, and not where the block belongs
    hooks().finish_back(move);
    const std::vector<unsigned char> read = bytes_of(back, kBytes, other);
    CHECK(std::count(read.begin(), read.end(), 3) == static_cast<ptrdiff_t>(kBytes));
  }
  hooks().drop(move);
  release(back, 0);
  synchronize_device(0);
}

/// What came back can go again without a copy; rates are measured; the lane is busy until a copy is done.
void test_again_and_rates() {
  const Stream stream{kDevice, 0};
  constexpr size_t kBytes = (6 << 20) + 12345;
  void* memory = allocate(kBytes, 0, stream);
  fill(memory, 9, kBytes, stream);
  CHECK(hooks().rate(kDevice, false) == 12e9 && hooks().rate(kDevice, true) == 12e9);
  DeviceMove* move = hooks().begin_out(kDevice, memory, kBytes);
  hooks().wait(move);
  CHECK(hooks().is_out(move));
  synchronize_device(0);
  CHECK(!hooks().is_busy(kDevice));
  for (int i = 0; i < 3; ++i) {
    fill(memory, 0, kBytes, stream);
    release(memory, 0);
    memory = allocate(kBytes, 0, stream);
    hooks().begin_back(move, memory);
    hooks().finish_back(move);
    CHECK(hooks().is_out(move));
    const std::vector<unsigned char> read = bytes_of(memory, kBytes, stream);
    CHECK(std::count(read.begin(), read.end(), 9) == static_cast<ptrdiff_t>(kBytes));
  }
  hooks().drop(move);
  hooks().drop(nullptr);
  release(memory, 0);
  CHECK(hooks().rate(kDevice, false) > 0 && hooks().rate(kDevice, false) != 12e9 && hooks().rate(kDevice, true) > 0);
}

/// While a graph is captured nothing is moved, and what is dropped does not get into the graph.
void test_capture() {
  const Stream stream = stream_from_pool(0, 0);
  constexpr size_t kBytes = 2 << 20;
  const StreamGuard guard(stream);
  void* memory = allocate(kBytes, 0, stream);
  fill(memory, 1, kBytes, stream);
  DeviceMove* move = hooks().begin_out(kDevice, memory, kBytes);
  DeviceMove* other = hooks().begin_out(kDevice, memory, kBytes);
  const PoolId pool = new_pool();
  Graph graph;
  graph.capture_begin(pool, CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(!hooks().begin_out(kDevice, memory, kBytes));
  CHECK(hooks().is_busy(kDevice));
  bool refused = false;
  try {
    hooks().begin_back(move, memory);
  } catch (const Error& error) {
    refused = std::string(error.what()).find("memory_budget: bytes that lie in the host's memory") == 0;
  }
  CHECK(refused);
  hooks().wait(move);
  CHECK(hooks().is_out(move));
  hooks().drop(move);
  hooks().drop(other);
  graph.capture_end(false);
  release(memory, 0);
  synchronize_device(0);
}

/// A child has no device: it neither moves nor ends what its parent has moved.
void test_fork() {
  const Stream stream{kDevice, 0};
  void* memory = allocate(1 << 20, 0, stream);
  DeviceMove* move = hooks().begin_out(kDevice, memory, 1 << 20);
  hooks().wait(move);
  expect_good("a forked child", in_child({}, [&] {
                CHECK(!hooks().begin_out(kDevice, memory, 1 << 20));
                hooks().drop(move);
              }));
  CHECK(hooks().is_out(move));
  hooks().drop(move);
  release(memory, 0);
}

void run_all() {
  register_backend();
  CHECK(has_backend(DeviceType::CUDA));
  test_again_and_rates();
  Model(1).run(250);
  Model(2).run(250);
  test_other_streams();
  test_capture();
  test_fork();
}

}  // namespace

int main() {
  setenv("FACULA_CUDA", "emulated", 1);
  setenv("FACULA_EMULATED_MEMORY_MIB", "512", 1);
  for (const std::string mode : {"async", "eager", "lazy"})
    for (const std::string order : {"forward", "reverse"})
      expect_good((mode + " " + order).c_str(),
                  in_child({"FACULA_EMULATED_MODE=" + mode, "FACULA_EMULATED_ORDER=" + order}, run_all));
  expect_good("late", in_child({"FACULA_EMULATED_MODE=async", "FACULA_EMULATED_JITTER=300",
                                "FACULA_CUDA_ALLOC_CONF=expandable_segments:True"},
                               run_all));
  std::puts("ok");
}
