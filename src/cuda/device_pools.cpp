#include "cuda/device_pools.h"

#include <algorithm>

#include "cuda/graph.h"

namespace facula::cuda {

GraphPool* DevicePools::used_pool(PoolId id) {
  auto& pool = graph_pools_[id];
  if (!pool) pool = std::make_unique<GraphPool>(id);
  ++pool->users;
  return pool.get();
}

void DevicePools::remove_user(PoolId id) {
  const auto found = graph_pools_.find(id);
  if (found != graph_pools_.end()) --found->second->users;
}

int DevicePools::users(PoolId id) const {
  const auto found = graph_pools_.find(id);
  return found == graph_pools_.end() ? 0 : found->second->users;
}

std::vector<DevicePools::Capture>::iterator DevicePools::find_capture(PoolId id, uint64_t number) {
  return std::find_if(captures_.begin(), captures_.end(),
                      [&](const Capture& c) { return c.pool->id == id && c.number == number; });
}

void DevicePools::name_capture(PoolId id, uint64_t number) {
  const auto unnamed = find_capture(id, 0);
  if (unnamed != captures_.end()) unnamed->number = number;
}

void DevicePools::end_capture(PoolId id, uint64_t number) {
  const auto ended = find_capture(id, number);
  if (ended != captures_.end()) captures_.erase(ended);
}

void DevicePools::end_route(PoolId id) {
  const auto last = std::find_if(routes_.rbegin(), routes_.rend(), [&](const Route& r) {
    return r.pool->id == id && r.thread == std::this_thread::get_id();
  });
  if (last == routes_.rend()) return;
  --last->pool->users;
  routes_.erase(std::next(last).base());
}

Pool& DevicePools::pool_of_graph(bool is_small, Stream stream) {
  if (const uint64_t number = captures_.empty() ? 0 : capture_id(stream)) {
    for (const Capture& capture : captures_)
      if (capture.number == number) return is_small ? capture.pool->small : capture.pool->large;
  }
  for (auto r = routes_.rbegin(); r != routes_.rend(); ++r)
    if (r->thread == std::this_thread::get_id()) return is_small ? r->pool->small : r->pool->large;
  return is_small ? small : large;
}

}  // namespace facula::cuda
