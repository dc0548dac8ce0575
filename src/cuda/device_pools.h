// Manages the pools of a device: one for all streams, and those of graphs (allocator.h), with the captures and threads
// that allocate from the latter.
#pragma once

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "cuda/block.h"

namespace facula::cuda {

class DevicePools {
 public:
  Pool small{true}, large{false};

  /// Where a request is served: from the pool of the graph that is captured from the stream, from that which this
  /// thread was routed to, or from the common one.
  Pool& pool_for(bool is_small, Stream stream) {
    if (captures_.empty() && routes_.empty()) return is_small ? small : large;
    return pool_of_graph(is_small, stream);
  }
  bool is_capturing() const { return !captures_.empty(); }

  // ---- users of a graph's pool; see the functions of these names in allocator.h
  void add_user(PoolId id) { used_pool(id); }
  void remove_user(PoolId id);
  int users(PoolId id) const;
  void begin_capture(PoolId id) { captures_.push_back({used_pool(id), 0}); }
  void name_capture(PoolId id, uint64_t number);
  void end_capture(PoolId id, uint64_t number);
  void begin_route(PoolId id) { routes_.push_back({used_pool(id), std::this_thread::get_id()}); }
  void end_route(PoolId id);

  std::map<PoolId, std::unique_ptr<GraphPool>>& of_graphs() { return graph_pools_; }

 private:
  struct Capture {
    GraphPool* pool;
    uint64_t number;  // the driver's; 0 until name_capture()
  };
  struct Route {
    GraphPool* pool;
    std::thread::id thread;
  };

  GraphPool* used_pool(PoolId id);
  Pool& pool_of_graph(bool is_small, Stream stream);
  std::vector<Capture>::iterator find_capture(PoolId id, uint64_t number);

  std::map<PoolId, std::unique_ptr<GraphPool>> graph_pools_;
  std::vector<Capture> captures_;
  std::vector<Route> routes_;
};

}  // namespace facula::cuda
