// Composes the error about memory: how much there is, why none of it fits, and what holds it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "core/making.h"

namespace facula::cuda {

/// The tensor that a block was taken for, as far as it is known.
class BlockTensor {
 public:
  BlockTensor() = default;
  explicit BlockTensor(const MadeTensor* made);
  /// "float32 [64, 3, 224, 224]"; empty where nothing is known.
  std::string text() const;
  bool operator==(const BlockTensor&) const = default;

 private:
  static constexpr size_t kShown = 6;
  std::array<int64_t, kShown> sizes_{};
  uint8_t dims_ = 0;
  bool known_ = false;
  DType dtype_{};
};

/// Blocks of one kind that one line made.
struct HeldMemory {
  BlockTensor tensor;
  uint32_t place;
  size_t bytes, count = 1;  // bytes of each
};

struct MemoryReport {
  const char* op;
  int device;
  size_t wanted, total, free, limit, reserved, allocated, cached, pieces, largest;
  size_t of_graphs;  // part of `cached` that belongs to graphs
  size_t budget;     // that refuses the request, or 0
  bool expandable, places;
  BlockTensor wanted_for;
  std::vector<HeldMemory> held;
};

/// Throws OutOfMemory. Not to be called with a lock held: it may need the lines of the program.
[[noreturn]] void report_out_of_memory(MemoryReport report);

}  // namespace facula::cuda
