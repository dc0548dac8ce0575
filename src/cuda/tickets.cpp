#include "cuda/tickets.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "cuda/device.h"
#include "cuda/graph.h"
#include "cuda/stream.h"

namespace facula::cuda {
namespace {

constexpr size_t kBytes = kTickets * sizeof(unsigned), kStreamsAtOnce = 16;

/// Memory for the words of streams. It is the driver's: nobody frees it, and the allocator's counts stay the program's.
struct Room {
  CUdeviceptr next = 0;
  size_t left = 0;
};

/// Queued on the stream, before the first kernel that counts with them.
void clear(CUdeviceptr words, Stream stream) {
  FACULA_CUDA_CALL(cuMemsetD8Async, words, static_cast<unsigned char>(0), kBytes, handle(stream));
}

CUdeviceptr take_words(Room& room) {
  if (room.left == 0) {
    RelaxedCapture relaxed;  // of another stream
    FACULA_CUDA_CALL(cuMemAlloc_v2, &room.next, kStreamsAtOnce * kBytes);
    room.left = kStreamsAtOnce;
  }
  --room.left;
  return std::exchange(room.next, room.next + kBytes);
}

CUdeviceptr words_of(Stream stream) {
  static std::mutex mutex;
  static auto& known = *new std::map<std::pair<int, uint64_t>, CUdeviceptr>;
  static auto& rooms = *new std::map<int, Room>;
  const int device = stream.device.index;
  std::lock_guard<std::mutex> lock(mutex);
  if (const auto found = known.find({device, stream.id}); found != known.end()) return found->second;
  DeviceGuard guard(device);
  const CUdeviceptr words = take_words(rooms[device]);
  clear(words, stream);
  known[{device, stream.id}] = words;
  return words;
}

}  // namespace

CUdeviceptr Graph::tickets(Stream stream) {
  const auto found =
      std::find_if(tickets_.begin(), tickets_.end(), [&](const auto& each) { return each.first == stream; });
  if (found != tickets_.end()) return found->second;
  const Tensor words = facula::empty({kTickets}, DType::Int32, stream.device);
  const auto address = reinterpret_cast<CUdeviceptr>(words.data());
  clear(address, stream);
  keep(words);
  tickets_.emplace_back(stream, address);
  return address;
}

unsigned* fold_ticket(int device) {
  const Stream stream = current_stream(device);
  Graph* graph = captured_graph(device);
  return reinterpret_cast<unsigned*>(graph ? graph->tickets(stream) : words_of(stream));
}

}  // namespace facula::cuda
