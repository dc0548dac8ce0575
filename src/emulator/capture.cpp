// Graphs of the emulated device. A capture lists the calls on its streams, each with those that must come before: the
// last one of its stream, and what an event brought along. A launch does them one after the other; in an order in which
// they were not called, where FACULA_EMULATED_ORDER is not `forward`, so that a missing dependency shows.
#include <algorithm>
#include <cstdio>
#include <map>
#include <vector>

#include "emulator/stream.h"

#define API extern "C" __attribute__((visibility("default")))
#define DECLARE(name, ...) API CUresult name(__VA_ARGS__);
FACULA_GRAPH_FUNCTIONS(DECLARE)
#undef DECLARE

namespace facula::emulator {

struct Capture {
  unsigned long long id;
  Stream* first;
  CUstreamCaptureMode mode;
  std::thread::id thread;
  std::vector<GraphNode> nodes;
  std::map<Stream*, std::set<size_t>> streams;  // those that take part, and what their next call comes after
  bool lost = false;
};

namespace {

// Nothing is locked by calls while no graph is captured.
std::atomic<int> captures{0};
std::mutex mutex;
std::map<Stream*, std::shared_ptr<Capture>>& by_stream() {
  static auto& all = *new std::map<Stream*, std::shared_ptr<Capture>>;
  return all;
}
thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

std::shared_ptr<Capture> capture_of(Stream& stream) {
  const auto found = by_stream().find(&stream);
  return found == by_stream().end() ? nullptr : found->second;
}

/// Loses the captures that the test holds for; the error of the call.
template <class Test>
CUresult refuse(Test test) {
  if (captures == 0) return CUDA_SUCCESS;
  std::lock_guard<std::mutex> guard(mutex);
  bool any = false;
  for (const auto& [stream, capture] : by_stream()) {
    if (!test(*stream, *capture)) continue;
    any = true;
    capture->lost = true;
  }
  return any ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS;
}

void end(Capture& capture) {
  for (const auto& [stream, after] : capture.streams) by_stream().erase(stream);
  --captures;
}

/// Whether all nodes come before what the first stream would do next.
bool all_joined(const Capture& capture) {
  std::vector<bool> seen(capture.nodes.size());
  const auto& last = capture.streams.at(capture.first);
  std::vector<size_t> open(last.begin(), last.end());
  while (!open.empty()) {
    const size_t node = open.back();
    open.pop_back();
    if (seen[node]) continue;
    seen[node] = true;
    open.insert(open.end(), capture.nodes[node].after.begin(), capture.nodes[node].after.end());
  }
  return std::find(seen.begin(), seen.end(), false) == seen.end();
}

/// An order in which every node comes after those that it must.
std::vector<size_t> order_of(const std::vector<GraphNode>& nodes) {
  std::vector<size_t> waits(nodes.size()), order, ready;
  std::vector<std::vector<size_t>> next(nodes.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    waits[n] = nodes[n].after.size();
    for (const size_t before : nodes[n].after) next[before].push_back(n);
    if (waits[n] == 0) ready.push_back(n);
  }
  uint64_t random = 7;
  while (!ready.empty()) {
    random = random * 6364136223846793005 + 1442695040888963407;
    const auto chosen = settings().order == Order::Forward   ? std::min_element(ready.begin(), ready.end())
                        : settings().order == Order::Reverse ? std::max_element(ready.begin(), ready.end())
                                                             : ready.begin() + (random >> 33) % ready.size();
    const size_t node = *chosen;
    ready.erase(chosen);
    order.push_back(node);
    for (const size_t n : next[node])
      if (--waits[n] == 0) ready.push_back(n);
  }
  return order;
}

}  // namespace

bool captured(Stream& stream, const Stream::Work& work, const What& what) {
  if (captures == 0) return false;
  std::lock_guard<std::mutex> guard(mutex);
  const auto capture = capture_of(stream);
  if (!capture) return false;
  auto& after = capture->streams[&stream];
  capture->nodes.push_back({work, what, after});
  after = {capture->nodes.size() - 1};
  return true;
}

CUresult refuse_while_capturing() {
  if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED) return CUDA_SUCCESS;
  return refuse([](const Stream&, const Capture& c) {
    if (c.mode == CU_STREAM_CAPTURE_MODE_RELAXED) return false;
    const bool others = c.mode == CU_STREAM_CAPTURE_MODE_GLOBAL && thread_mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    return others || c.thread == std::this_thread::get_id();
  });
}
CUresult refuse_capturing(Stream& stream) {
  return refuse([&](const Stream& s, const Capture&) { return &s == &stream; });
}
CUresult refuse_any_capture() {
  return refuse([](const Stream&, const Capture&) { return true; });
}

bool captured_record(Event& event, Stream& stream) {
  if (captures == 0) return false;
  std::lock_guard<std::mutex> guard(mutex);
  const auto capture = capture_of(stream);
  if (!capture) return false;
  std::lock_guard<std::mutex> event_guard(event.mutex);
  event.capture = capture;
  event.after = capture->streams[&stream];
  return true;
}

bool captured_wait(Event& event, Stream& stream, CUresult* result) {
  std::lock_guard<std::mutex> guard(mutex);
  std::lock_guard<std::mutex> event_guard(event.mutex);
  const auto capture = capture_of(stream);
  if (!capture && !event.capture) return false;
  const bool ended = event.capture && !by_stream().count(event.capture->first);
  if (capture && (!event.capture || ended)) {
    capture->lost = true;
    *result = CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
  } else if (ended) {
    *result = CUDA_ERROR_CAPTURED_EVENT;
  } else if (capture && capture != event.capture) {
    capture->lost = event.capture->lost = true;
    *result = CUDA_ERROR_STREAM_CAPTURE_MERGE;
  } else {
    by_stream()[&stream] = event.capture;
    event.capture->streams[&stream].insert(event.after.begin(), event.after.end());
    *result = sticky_error;
  }
  return true;
}

}  // namespace facula::emulator

using namespace facula::emulator;

namespace {

struct Graph {
  std::vector<GraphNode> nodes;
};
/// A graph that can be launched: never twice at a time.
struct Executable {
  std::vector<GraphNode> nodes;
  std::vector<size_t> order;
  std::mutex running;
};
auto& graphs = *new Handles<CUgraph, Graph>;
auto& executables = *new Handles<CUgraphExec, Executable>;

}  // namespace

API CUresult cuStreamBeginCapture_v2(CUstream stream, CUstreamCaptureMode mode) {
  if (!stream) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const StreamPointer s = stream_here(stream);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard<std::mutex> guard(mutex);
  if (capture_of(*s)) return CUDA_ERROR_INVALID_VALUE;
  auto capture = std::make_shared<Capture>();
  static unsigned long long last_id = 0;
  capture->id = ++last_id;
  capture->first = s.get();
  capture->mode = mode;
  capture->thread = std::this_thread::get_id();
  capture->streams[s.get()] = {};
  by_stream()[s.get()] = std::move(capture);
  ++captures;
  return sticky_error;
}

API CUresult cuStreamEndCapture(CUstream stream, CUgraph* graph) {
  *graph = nullptr;
  const StreamPointer s = stream_here(stream);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  std::lock_guard<std::mutex> guard(mutex);
  const auto capture = capture_of(*s);
  if (!capture) return CUDA_ERROR_INVALID_VALUE;
  if (capture->first != s.get()) {
    capture->lost = true;
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  }
  if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED && capture->thread != std::this_thread::get_id())
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  end(*capture);
  if (capture->lost) return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  if (!all_joined(*capture)) return CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  *graph = graphs.add(std::make_shared<Graph>(std::move(capture->nodes)));
  return CUDA_SUCCESS;
}

API CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status) {
  *status = CU_STREAM_CAPTURE_STATUS_NONE;
  const StreamPointer s = stream_here(stream);
  if (!s) return CUDA_ERROR_INVALID_HANDLE;
  if (captures == 0) return CUDA_SUCCESS;
  std::lock_guard<std::mutex> guard(mutex);
  if (const auto capture = capture_of(*s))
    *status = capture->lost ? CU_STREAM_CAPTURE_STATUS_INVALIDATED : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  return CUDA_SUCCESS;
}

API CUresult cuStreamGetCaptureInfo_v2(CUstream stream, CUstreamCaptureStatus* status, unsigned long long* id,
                                       CUgraph* graph, const CUgraphNode** last, size_t* last_count) {
  if (graph || last || last_count) return CUDA_ERROR_INVALID_VALUE;  // nodes have no handles here
  if (const CUresult result = cuStreamIsCapturing(stream, status); result != CUDA_SUCCESS) return result;
  const StreamPointer s = stream_here(stream);
  std::lock_guard<std::mutex> guard(mutex);
  const auto capture = capture_of(*s);
  if (capture && id) *id = capture->id;
  return CUDA_SUCCESS;
}

API CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  std::swap(*mode, thread_mode);
  return CUDA_SUCCESS;
}

API CUresult cuGraphInstantiateWithFlags(CUgraphExec* made, CUgraph graph, unsigned long long) {
  const auto g = graphs.find(graph);
  if (!g) return CUDA_ERROR_INVALID_HANDLE;
  auto executable = std::make_shared<Executable>();
  executable->nodes = g->nodes;
  executable->order = order_of(executable->nodes);
  *made = executables.add(std::move(executable));
  return CUDA_SUCCESS;
}

API CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream) {
  const StreamPointer s = stream_here(stream);
  const auto executable = executables.find(graph);
  if (!s || !executable) return CUDA_ERROR_INVALID_HANDLE;
  const uint32_t call = note_call({"graph", What::Kind::Graph});
  const auto run = [executable, call, on = s.get()](BlockRunner& runner) {
    std::lock_guard<std::mutex> turn(executable->running);
    for (const size_t node : executable->order) {
      const GraphNode& n = executable->nodes[node];
      call ? recorded_work(n.work, n.what, *on, call, node + 1)(runner) : n.work(runner);
    }
  };
  s->push(run, "graph");
  return sticky_error;
}

API CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  const auto g = graphs.find(graph);
  if (!g) return CUDA_ERROR_INVALID_HANDLE;
  if (nodes) return CUDA_ERROR_INVALID_VALUE;  // they have no handles here
  *count = g->nodes.size();
  return CUDA_SUCCESS;
}

API CUresult cuGraphDebugDotPrint(CUgraph graph, const char* path, unsigned) {
  const auto g = graphs.find(graph);
  if (!g) return CUDA_ERROR_INVALID_HANDLE;
  std::FILE* file = std::fopen(path, "w");
  if (!file) return CUDA_ERROR_INVALID_VALUE;
  std::fputs("digraph dot {\n", file);
  const auto& nodes = g->nodes;
  for (size_t n = 0; n < nodes.size(); ++n) {
    std::fprintf(file, "  n%zu [label=\"%s\"];\n", n, nodes[n].what.name.c_str());
    for (const size_t before : nodes[n].after) std::fprintf(file, "  n%zu -> n%zu;\n", before, n);
  }
  std::fputs("}\n", file);
  std::fclose(file);
  return CUDA_SUCCESS;
}

API CUresult cuGraphExecDestroy(CUgraphExec graph) {
  return executables.remove(graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

API CUresult cuGraphDestroy(CUgraph graph) { return graphs.remove(graph) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE; }
