// Captures and replays graphs. What a stream receives between capture_begin() and capture_end() is not done but listed,
// and replay() does all of it at the cost of one launch. Addresses are those of the capture: what was allocated
// meanwhile comes from a pool of the graph's (allocator.h), which graphs may share. Generators draw from the device's
// memory: a replay draws the numbers that come next, as the same ops would without a graph.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/tensor.h"
#include "cuda/abi.h"
#include "cuda/allocator.h"
#include "cuda/generator.h"

namespace facula::cuda {

class Graph {
 public:
  Graph() = default;
  ~Graph();
  Graph(const Graph&) = delete;

  /// From the current stream of the current device; into a pool, 0: its own.
  void capture_begin(PoolId pool, CUstreamCaptureMode mode);
  void capture_end(bool instantiated);
  /// Where capture_end() did not.
  void instantiate();
  void replay();
  /// Gives everything back; a graph can then be captured anew.
  void reset();
  PoolId pool() const;
  /// In Graphviz's language.
  void debug_dump(const char* path) const;
  /// Whether capture_end() keeps what debug_dump() shows.
  void keep_graph() { keeps_graph_ = true; }
  CUgraph handle() const { return graph_; }
  CUgraphExec executable() const { return executable_; }

  // ---- while it is captured
  /// What a kernel draws from, which every replay sets.
  PhiloxState draw(const std::shared_ptr<PhiloxValues>& values, uint64_t numbers);
  /// A constant that every replay reads.
  void keep(const Tensor& tensor) { constants_.push_back(tensor); }
  /// The words of tickets.h for what is captured from the stream; a replay sets them to zero.
  CUdeviceptr tickets(Stream stream);

 private:
  friend Graph* captured_graph(int device);
  struct Drawn {
    std::shared_ptr<PhiloxValues> values;
    void* memory;
    uint64_t numbers;
  };
  void end_capture();

  CUgraph graph_ = nullptr;
  CUgraphExec executable_ = nullptr;
  Stream stream_{};
  uint64_t capture_ = 0;  // the driver's number of it
  PoolId pool_ = 0;
  bool captures_ = false, keeps_graph_ = false;
  std::vector<Drawn> drawn_;
  std::vector<Tensor> constants_;
  std::vector<std::pair<Stream, CUdeviceptr>> tickets_;
};

/// The driver's number of the capture that the stream belongs to, 0 where none is.
uint64_t capture_id(Stream stream);
/// The graph that is captured from the calling thread's current stream of the device, or null.
Graph* captured_graph(int device);
bool is_captured(Stream stream);

}  // namespace facula::cuda
