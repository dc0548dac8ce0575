// Defines blocks of a device's memory, and the pools that hold those which are free. The policy is in allocator.h.
//
// A block is in one state at any time:
//
//            map                 allocate                release
//   Unmapped -----> Free ------------------> Allocated ----------> Recent
//            <-----  ^ ^                     ^  |   |   <---------- |
//            unmap   | |  release            |  |   |    allocate   |
//                    | +---------------------+--+   |               |
//                    |                              | release, other streams use it
//                    +------- AwaitingFree <--------+               |
//                    |  their events have passed                    |
//                    +----------------------------------------------+
//                       join_recent()
//
// Free blocks are merged with free neighbors and wait in their pool's set, ordered by size. Recent ones are small,
// keep their size, and wait in a list of their size. Only blocks of expandable segments are ever Unmapped.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "core/stream.h"
#include "cuda/allocator.h"
#include "cuda/expandable.h"
#include "cuda/memory_report.h"

namespace facula::cuda {

constexpr size_t kBlockUnit = 512, kMostRecentSize = 64 << 10, kMostSmallBlock = 1 << 20;

struct Block;
struct GraphPool;
struct Pool;

/// An expandable segment, and the first of the blocks that it is divided into.
struct Range {
  ExpandableRange memory;
  bool is_fine;  // of small granules
  Block* first = nullptr;
};

enum class BlockState : uint8_t { Unmapped, Free, Allocated, Recent, AwaitingFree };

struct Block {
  CUdeviceptr address;
  size_t size;
  uint64_t stream;
  Pool* pool;
  BlockState state = BlockState::Free;
  Range* range = nullptr;  // the expandable segment that it lies in
  size_t requested = 0;
  int events = 0;                             // of other streams, that it awaits
  uint64_t age = 0;                           // when it became free
  Block *before = nullptr, *after = nullptr;  // in its segment
  Block* next_recent = nullptr;
  std::vector<Stream> users;  // other streams
  BlockTensor tensor;
  uint32_t place = 0;

  bool is_split() const { return before || after; }
  bool is_mapped() const { return state != BlockState::Unmapped; }
  bool is_free() const { return state == BlockState::Free; }
  /// Neither free nor unmapped.
  bool is_active() const { return state > BlockState::Free; }
};

/// By stream, then by size, so that the first one not less is the best fit.
struct BlockOrder {
  bool operator()(const Block* a, const Block* b) const {
    return std::tie(a->stream, a->size, a->address) < std::tie(b->stream, b->size, b->address);
  }
};

/// The free blocks of one kind, small or large, and the expandable segments that they lie in.
struct Pool {
  /// The recent blocks of one size, all of one stream; the last one is found first.
  struct Recent {
    uint64_t stream = 0;
    Block* last = nullptr;
  };

  bool is_small;
  GraphPool* graph = nullptr;
  std::array<Recent, kMostRecentSize / kBlockUnit + 1> recent = {};  // by size
  bool has_recent = false;
  std::set<Block*, BlockOrder> free = {};
  std::map<uint64_t, std::vector<std::unique_ptr<Range>>> ranges = {};  // by stream

  inline PoolId graph_id() const;  // 0: of no graph
};

/// The pools of a captured graph, or of several that share them.
struct GraphPool {
  explicit GraphPool(PoolId n) : id(n) {}
  PoolId id;
  int users = 0;
  Pool small{true, this}, large{false, this};
};

PoolId Pool::graph_id() const { return graph ? graph->id : 0; }

}  // namespace facula::cuda
