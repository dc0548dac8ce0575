#include "cuda/graph.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <utility>

#include "core/host.h"
#include "cuda/activity.h"
#include "cuda/device.h"
#include "cuda/host_allocator.h"
#include "cuda/stream.h"

namespace facula::cuda {
namespace {

std::mutex mutex;
std::vector<Graph*> captured;
std::atomic<int> captures{0};  // ops look at nothing else where it is 0

void check_state(bool good, const char* op, const char* expected, const char* given) {
  FACULA_CHECK(good, ErrorKind::Runtime, op, ": ", expected, ", got ", given);
}

}  // namespace

bool is_captured(Stream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  if (captures == 0 || !stream.id) return false;
  DeviceGuard guard(stream.device.index);
  FACULA_CUDA_CALL(cuStreamIsCapturing, handle(stream), &status);
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

uint64_t capture_id(Stream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  unsigned long long id = 0;
  if (!stream.id) return 0;
  DeviceGuard guard(stream.device.index);
  FACULA_CUDA_CALL(cuStreamGetCaptureInfo_v2, handle(stream), &status, &id, nullptr, nullptr, nullptr);
  return status == CU_STREAM_CAPTURE_STATUS_NONE ? 0 : id;
}

// Also of streams that have joined, and whatever else is captured.
Graph* captured_graph(int device) {
  if (captures == 0) return nullptr;
  const uint64_t id = capture_id(current_stream(device));
  if (id == 0) return nullptr;
  std::lock_guard<std::mutex> lock(mutex);
  const auto found = std::find_if(captured.begin(), captured.end(), [&](const Graph* g) { return g->capture_ == id; });
  return found == captured.end() ? nullptr : *found;
}

Graph::~Graph() {
  if (is_forked_child) return;
  try {
    reset();
  } catch (const Error&) {  // the driver's; nothing can be done about it here
  }
}

void Graph::capture_begin(PoolId pool, CUstreamCaptureMode mode) {
  constexpr const char* op = "CUDAGraph.capture_begin";
  check_state(!captures_ && !executable_ && !graph_, op, "a graph that was not captured, or reset() before",
              captures_ ? "one that is being captured" : "one that was");
  const int device = current_index();
  stream_ = current_stream(device);
  check_state(stream_.id != 0, op, "a stream of its own (`with torch.cuda.stream(torch.cuda.Stream())`)",
              "the default stream");
  DeviceGuard guard(device);
  OpName name(op);
  pool_ = pool ? pool : new_pool();
  begin_pool(pool_, device);
  const CUresult result = driver().cuStreamBeginCapture_v2(cuda::handle(stream_), mode);
  if (result != CUDA_SUCCESS) {
    end_pool(pool_, device, 0);
    release_pool(pool_, device);
    check(result, "cuStreamBeginCapture_v2");
  }
  captures_ = true;
  capture_ = capture_id(stream_);
  name_capture(pool_, device, capture_);
  std::lock_guard<std::mutex> lock(mutex);
  captured.push_back(this);
  ++captures;
}

void Graph::end_capture() {
  captures_ = false;
  std::lock_guard<std::mutex> lock(mutex);
  std::erase(captured, this);
  --captures;
}

void Graph::capture_end(bool instantiated) {
  constexpr const char* op = "CUDAGraph.capture_end";
  check_state(captures_, op, "a graph that is being captured", "one that is not");
  const int device = stream_.device.index;
  check_state(current_stream(device) == stream_, op, "the stream that the capture began on", "another one");
  DeviceGuard guard(device);
  OpName name(op);
  const CUresult result = driver().cuStreamEndCapture(cuda::handle(stream_), &graph_);
  end_capture();
  end_pool(pool_, device, capture_);
  if (result != CUDA_SUCCESS) {
    reset();
    check(result, "cuStreamEndCapture");
  }
  size_t nodes = 0;
  FACULA_CUDA_CALL(cuGraphGetNodes, graph_, nullptr, &nodes);
  if (nodes == 0 && host.warn)
    host.warn("CUDAGraph: nothing was captured: no op ran on the stream, on its device, between begin and end");
  if (!instantiated) return;
  instantiate();
  if (!keeps_graph_) FACULA_CUDA_CALL(cuGraphDestroy, std::exchange(graph_, nullptr));
}

void Graph::instantiate() {
  constexpr const char* op = "CUDAGraph.instantiate";
  check_state(graph_, op, "a captured graph with keep_graph=True", "none");
  DeviceGuard guard(stream_.device.index);
  if (executable_) FACULA_CUDA_CALL(cuGraphExecDestroy, std::exchange(executable_, nullptr));
  FACULA_CUDA_CALL(cuGraphInstantiateWithFlags, &executable_, graph_, 0ull);
}

PhiloxState Graph::draw(const std::shared_ptr<PhiloxValues>& values, uint64_t numbers) {
  auto drawn = std::find_if(drawn_.begin(), drawn_.end(), [&](const Drawn& d) { return d.values == values; });
  if (drawn == drawn_.end()) {
    const Device device = stream_.device;
    drawn_.push_back({values, allocate(2 * sizeof(uint64_t), device.index, {device}), 0});  // not of the pool
    drawn = drawn_.end() - 1;
  }
  const PhiloxState state{0, drawn->numbers, static_cast<const uint64_t*>(drawn->memory)};
  drawn->numbers += numbers;
  return state;
}

void Graph::replay() {
  constexpr const char* op = "CUDAGraph.replay";
  if (!executable_ && graph_) instantiate();
  check_state(executable_, op, "a graph that was captured",
              captures_ ? "one that is being captured" : "one that was not");
  const int device = stream_.device.index;
  DeviceGuard guard(device);
  OpName name(op);
  const ActivityNote note(device, op);
  const CUstream stream = cuda::handle(current_stream(device));
  for (const Drawn& d : drawn_) {
    std::lock_guard<std::mutex> lock(d.values->mutex);
    const uint64_t start[] = {d.values->seed, d.values->offset};
    copy_pageable(d.memory, start, sizeof start, current_stream(device));
    d.values->offset += d.numbers;
  }
  FACULA_CUDA_CALL(cuGraphLaunch, executable_, stream);
  wait_if_blocking(device);
}

void Graph::reset() {
  if (captures_) {  // never ended: the stream goes back to doing its work
    driver().cuStreamEndCapture(cuda::handle(stream_), &graph_);
    end_capture();
    end_pool(pool_, stream_.device.index, capture_);
  }
  const int device = stream_.device.index;
  for (const Drawn& d : std::exchange(drawn_, {})) {
    cuda::record_stream(d.memory, current_stream(device));
    release(d.memory, device);
  }
  constants_.clear();
  tickets_.clear();
  if (executable_) driver().cuGraphExecDestroy(std::exchange(executable_, nullptr));
  if (graph_) driver().cuGraphDestroy(std::exchange(graph_, nullptr));
  if (pool_) release_pool(std::exchange(pool_, 0), device);
}

PoolId Graph::pool() const {
  check_state(pool_, "CUDAGraph.pool", "a graph that was captured", "one that was not");
  return pool_;
}

void Graph::debug_dump(const char* path) const {
  check_state(graph_, "CUDAGraph.debug_dump", "a captured graph, after enable_debug_mode()", "none");
  const CUresult result = driver().cuGraphDebugDotPrint(graph_, path, CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE);
  FACULA_CHECK(result == CUDA_SUCCESS, ErrorKind::Runtime, "CUDAGraph.debug_dump: a path that can be written, got ",
               path);
}

}  // namespace facula::cuda
