// Implements streams, events and memory of the emulated device.
//
// FACULA_EMULATED_MODE says when queued work runs: `async`, on a thread of each stream (FACULA_EMULATED_JITTER: with
// random waits of up to so many microseconds); `eager`, at the call; `lazy`, not before the host waits for it, so that
// a missing wait shows every time. Memory is one arena. In the last two modes it is inaccessible outside of queued
// work, so a host that reads device memory dies. Fresh and released memory is filled with patterns. With
// FACULA_EMULATED_GUARD=1 every allocation ends where inaccessible memory begins, and is inaccessible once it is
// released. A kernel that goes there ends the process, with its name and the place.
//
// FACULA_CUDA=null is a driver for measuring the host's part of an op and for listing kernels: nothing is compiled,
// launches return at once, and copies run at the call.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "cuda/abi.h"
#include "emulator/block.h"
#include "emulator/handles.h"
#include "emulator/views.h"

namespace facula::emulator {

enum class Mode : uint8_t { Async, Eager, Lazy, Null };

struct Settings {
  Mode mode;
  Order order;
  unsigned jitter_us;
  bool guard;
  bool fences;  // count (views.h)
  int devices;
  size_t memory;   // bytes of each device
  int capability;  // 90 for 9.0
  bool reads_pageable;
  int driver;           // 13000 for 13.0
  bool runs_relatives;  // code of older devices of its major version
};
const Settings& settings();

/// The error that every call gives from the first kernel on that did something undefined.
inline std::atomic<CUresult> sticky_error{CUDA_SUCCESS};

/// The kernel that this thread runs, for reports.
inline thread_local const char* running_kernel = nullptr;

/// What a piece of work is, for graphs that are shown and for profilers (cupti.cpp).
struct What {
  enum class Kind : uint8_t { Other, Kernel, Copy, Fill, Graph };
  What(const char* its_name) : name(its_name) {}
  What(const char* its_name, Kind its_kind) : name(its_name), kind(its_kind) {}
  std::string name;
  Kind kind = Kind::Other;
  Index3 grid{1, 1, 1}, block{1, 1, 1};
  unsigned shared_bytes = 0;
  size_t bytes = 0;                // copied or filled
  int copy = 0, from = 0, to = 0;  // as CUPTI numbers them
};

class Stream {
 public:
  Stream(int device, bool blocking);
  ~Stream();
  int device() const { return device_; }

  using Work = std::function<void(BlockRunner&)>;
  /// Queues it, or adds it to the graph that is captured from the stream.
  void push(Work work, const What& what);
  void synchronize();
  bool is_idle();
  /// Lazy mode: runs the oldest piece of work; false when there is none.
  bool step();
  /// Lazy mode: runs all of it.
  void drain();

 private:
  void loop();

  const int device_;
  BlockRunner runner_;
  std::mutex mutex_, running_;
  std::condition_variable changed_;
  std::deque<Work> queue_;
  bool busy_ = false, stop_ = false;
  std::thread thread_;
};

/// The device that the driver works with on the calling thread.
inline thread_local int current_device = 0;
constexpr int kForeignDevice = -2;  // in a context of another library's

/// The stream of a handle; that of null (and CUDA's numbers 1 and 2) is the device's default one. Null where the handle
/// was never made, or is destroyed.
using StreamPointer = std::shared_ptr<Stream>;
StreamPointer stream_of(CUstream handle, int device);
inline StreamPointer stream_here(CUstream handle) {
  return current_device == kForeignDevice ? nullptr : stream_of(handle, current_device);
}
CUresult make_stream(CUstream* handle, int device);
CUresult destroy_stream(CUstream handle);
void synchronize_all();

// ---- graphs (capture.cpp)

/// What a graph does: calls in the order in which they were made, each with those that must be done before it.
struct GraphNode {
  Stream::Work work;
  What what;
  std::set<size_t> after;
};
struct Capture;

/// Whether the call was added to a graph; it is then not to be queued.
bool captured(Stream& stream, const Stream::Work& work, const What& what);
/// CUDA_SUCCESS, or the error of a call that may not be made now; the capture is lost.
CUresult refuse_while_capturing();
CUresult refuse_capturing(Stream& stream);
CUresult refuse_any_capture();

// ---- profilers (cupti.cpp)

/// The number of the call that queues such work, whose record is made here; 0 where nothing is recorded.
uint32_t note_call(const What& what);
/// The work, which is recorded when it is done, where work of its kind is.
Stream::Work recorded_work(Stream::Work work, const What& what, const Stream& stream, uint32_t call,
                           uint64_t graph_node);

// ---- events

/// Of an event that other processes know: in memory that they share. A slot for each of the last records.
struct SharedEvent {
  static constexpr uint64_t kSlots = 64;
  std::atomic<uint64_t> recorded, reached[kSlots];
  std::atomic<int> process;  // which recorded it last
  bool is_reached(uint64_t number) const { return reached[number % kSlots] >= number; }
};
/// One record of an event. A wait is for the one that was the last when it was made.
struct Record {
  std::weak_ptr<Stream> stream;
  uint64_t number = 0;  // of an event that other processes know
  bool done = false;
  double time = 0;
};
/// What a stream has reached.
struct Event {
  std::mutex mutex;
  std::condition_variable changed;
  std::shared_ptr<Record> last;
  std::shared_ptr<Capture> capture;  // recorded while a graph was captured,
  std::set<size_t> after;            // behind these nodes of it
  SharedEvent* shared = nullptr;
  int file = -1;  // that `shared` lies in

  ~Event();
};
CUresult record(const std::shared_ptr<Event>& event, const StreamPointer& stream);
/// Whether the last record is reached.
bool is_reached(Event& event);
/// Until then.
void wait_for(Event& event);
CUresult make_wait(Stream& stream, const std::shared_ptr<Event>& event);
/// Of record() and make_wait(): nothing where no graph is captured from the stream.
bool captured_record(Event& event, Stream& stream);
bool captured_wait(Event& event, Stream& stream, CUresult* result);

// ---- memory

CUresult allocate(CUdeviceptr* memory, size_t bytes, int device);
CUresult release(CUdeviceptr memory);
void memory_info(size_t* free, size_t* total, int device);
/// Where memory lies that another process is to use, and the same there.
struct SharedMemory {
  int process, file;
  size_t offset, bytes;
};
bool find_allocation(CUdeviceptr memory, SharedMemory* shared);
CUresult import_memory(CUdeviceptr* memory, const SharedMemory& shared);
CUresult close_import(CUdeviceptr memory);
/// The device of an address; -1 for memory that is none's.
int device_of(CUdeviceptr memory);
/// Whether the bytes lie in one allocation.
bool is_allocated(CUdeviceptr memory, size_t bytes);

/// All that kernels may use now.
std::vector<Piece> pieces_of_memory();

/// Makes device memory accessible for as long as it lives.
class Opened {
 public:
  Opened();
  ~Opened();
  Opened(const Opened&) = delete;
};

}  // namespace facula::emulator
