// Moves of blocks to pinned memory and back, for a memory budget (core/move_hooks.h). Each device has two streams for
// them, one for each direction, as it has an engine for each.
//
// Events alone ensure the order. A copy away waits for what is queued on the streams that use the block: so it reads
// what they have written. A copy back waits for what is queued on the streams of the block it writes to, which may have
// been released and given out again a moment before; and they wait for it (finish_back). A move that ends early leaves
// its copies running: the streams of their blocks wait for these, so that the allocator's rule stays true, by which a
// block may be used again by what is queued on its stream later.
//
// Pinned memory comes in powers of two: a block is cut into some, the last of 1 MiB at least.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <memory>
#include <mutex>
#include <new>
#include <vector>

#include "core/error.h"
#include "core/move_hooks.h"
#include "core/os_memory.h"
#include "cuda/allocator.h"
#include "cuda/device.h"
#include "cuda/host_allocator.h"
#include "cuda/stream.h"

namespace facula {

struct DeviceMove {
  enum Direction { Away, Back };
  /// One way.
  struct Copy {
    cuda::Event begin{CU_EVENT_DEFAULT}, end{CU_EVENT_DEFAULT};
    std::vector<Stream> streams;  // of the block; empty: not begun
    bool done = false;            // as the host knows
    bool awaited = false;         // by those streams
  };
  struct Piece {
    void* memory;
    size_t bytes;
  };

  int device;
  std::vector<Piece> pieces;
  size_t bytes = 0;
  Copy copies[2];
};

namespace cuda {
namespace {

using Copy = DeviceMove::Copy;
using Direction = DeviceMove::Direction;

constexpr size_t kSmallestPiece = size_t{1} << 20;
constexpr size_t kMeasured = size_t{1} << 18;  // smaller copies say nothing about the rate

/// What a device has for copies in one direction.
struct Lane {
  CUstream stream = nullptr;
  std::atomic<double> rate{12e9};
  std::atomic<bool> is_measured{false};
};
Lane& lane_of(int device, Direction direction) {
  static auto& lanes = *new std::array<Lane[2], detail::kMostDevices>;
  static std::mutex mutex;
  Lane& lane = lanes[static_cast<size_t>(device)][direction];
  const std::lock_guard lock(mutex);
  if (!lane.stream) {
    DeviceGuard guard(device);
    FACULA_CUDA_CALL(cuStreamCreateWithPriority, &lane.stream, CU_STREAM_NON_BLOCKING, 0);
  }
  return lane;
}
Stream stream_of(int device, Direction direction) {
  return {{DeviceType::CUDA, static_cast<int8_t>(device)},
          reinterpret_cast<uint64_t>(lane_of(device, direction).stream)};
}

std::vector<Stream> users_of(void* block, int device) {
  std::vector<Stream> streams = streams_of(block, device);
  const Stream current = current_stream(device);
  if (!std::count(streams.begin(), streams.end(), current)) streams.push_back(current);
  return streams;
}

/// Whether the host can give so much for good: what is pinned cannot be swapped.
bool has_room(size_t bytes) {
  const HostStats stats = host_stats();
  const auto cached = static_cast<size_t>(std::max<int64_t>(stats.bytes.current - stats.used_bytes.current, 0));
  return cached >= bytes || os::available_memory() / 2 >= bytes - cached;
}

void take_pieces(DeviceMove& move) {
  for (size_t left = move.bytes; left > 0;) {
    const size_t size = left < 2 * kSmallestPiece ? left : std::bit_floor(left);
    move.pieces.push_back({nullptr, size});
    left -= size;
  }
  for (DeviceMove::Piece& piece : move.pieces) piece.memory = allocate_pinned(piece.bytes);
}

/// Queues the copy of a whole block behind what its streams have queued.
void begin(DeviceMove& move, Direction direction, void* block) {
  Copy& copy = move.copies[direction];
  DeviceGuard guard(move.device);
  const Stream stream = stream_of(move.device, direction);
  for (const Stream& user : users_of(block, move.device)) {
    Event ready;
    ready.record(user);
    ready.block(stream);
    copy.streams.push_back(user);
  }
  copy.begin.record(stream);
  auto at = reinterpret_cast<CUdeviceptr>(block);
  for (const DeviceMove::Piece& piece : move.pieces) {
    if (direction == DeviceMove::Away)
      FACULA_CUDA_CALL(cuMemcpyDtoHAsync_v2, piece.memory, at, piece.bytes, handle(stream));
    else FACULA_CUDA_CALL(cuMemcpyHtoDAsync_v2, at, piece.memory, piece.bytes, handle(stream));
    at += piece.bytes;
  }
  copy.end.record(stream);
}

/// Queries an event also while a graph is captured, with which the streams of moves have nothing to do.
bool is_done(DeviceMove& move, Direction direction) {
  Copy& copy = move.copies[direction];
  if (copy.done || copy.streams.empty()) return true;
  const RelaxedCapture relaxed;
  if (!copy.end.is_done()) return false;
  copy.done = true;
  if (move.bytes < kMeasured) return true;
  Lane& lane = lane_of(move.device, direction);
  const double now = 1e3 * static_cast<double>(move.bytes) / std::max(1e-3f, copy.begin.elapsed(copy.end));
  lane.rate = lane.is_measured.exchange(true) ? 0.75 * lane.rate + 0.25 * now : now;
  return true;
}

void wait_for(DeviceMove& move, Direction direction) {
  if (is_done(move, direction)) return;
  DeviceGuard guard(move.device);
  const RelaxedCapture relaxed;
  FACULA_CUDA_CALL(cuEventSynchronize, move.copies[direction].end.get());
  is_done(move, direction);
}

/// What the block's streams do from now on, they do after the copy.
void order_after(DeviceMove& move, Direction direction) {
  Copy& copy = move.copies[direction];
  if (copy.awaited || is_done(move, direction)) return;
  if (is_capturing(move.device)) return wait_for(move, direction);  // a stream may be the graph's by now
  for (const Stream& stream : copy.streams) copy.end.block(stream);
  copy.awaited = true;
}

void end(std::unique_ptr<DeviceMove> move) {
  for (const Direction direction : {DeviceMove::Away, DeviceMove::Back}) {
    order_after(*move, direction);
    if (is_done(*move, direction)) continue;
    for (const DeviceMove::Piece& piece : move->pieces)
      if (piece.memory) use_pinned(piece.memory, stream_of(move->device, direction));
  }
  for (const DeviceMove::Piece& piece : move->pieces)
    if (piece.memory) release_pinned(piece.memory);
}

void drop(DeviceMove* move) {
  if (is_forked_child || !move) return;  // a child has neither the driver nor the memory
  try {
    end(std::unique_ptr<DeviceMove>(move));
  } catch (const Error&) {  // the next call of the driver gives it again
  }
}

DeviceMove* begin_out(Device device, void* data, size_t bytes) {
  if (is_forked_child || is_capturing(device.index)) return nullptr;
  DeviceMove* move = nullptr;
  try {
    if (!has_room(bytes)) return nullptr;
    move = new DeviceMove{.device = device.index, .bytes = bytes};
    take_pieces(*move);
    begin(*move, DeviceMove::Away, data);
    return move;
  } catch (const Error&) {
  } catch (const std::bad_alloc&) {
  }
  drop(move);
  return nullptr;
}

bool is_out(DeviceMove* move) { return is_done(*move, DeviceMove::Away); }
void wait_out(DeviceMove* move) { wait_for(*move, DeviceMove::Away); }

void begin_back(DeviceMove* move, void* to) {
  check_not_forked("memory_budget");
  FACULA_CHECK(!is_capturing(move->device), ErrorKind::Runtime,
               "memory_budget: bytes that lie in the host's memory are brought back before a graph is captured, got "
               "an op of a capture that reads them");
  order_after(*move, DeviceMove::Back);  // of an earlier time
  Copy& copy = move->copies[DeviceMove::Back];
  copy.streams.clear();
  copy.done = copy.awaited = false;
  begin(*move, DeviceMove::Back, to);
}

void finish_back(DeviceMove* move) {
  Copy& copy = move->copies[DeviceMove::Back];
  const Stream current = current_stream(move->device);
  if (!std::count(copy.streams.begin(), copy.streams.end(), current))
    copy.streams.push_back(current), copy.awaited = false;
  order_after(*move, DeviceMove::Back);
}

bool is_busy(Device device) {
  return is_capturing(device.index) || !cuda::is_done(stream_of(device.index, DeviceMove::Away));
}

double rate(Device device, bool back) { return lane_of(device.index, back ? DeviceMove::Back : DeviceMove::Away).rate; }

}  // namespace

void register_moves() {
  move_hooks[static_cast<int>(DeviceType::CUDA)] = {begin_out,   is_out, wait_out, begin_back,
                                                    finish_back, drop,   is_busy,  rate};
}

}  // namespace cuda
}  // namespace facula
