// Manages segments that grow: a range of addresses, larger than the device's memory, of which as much is mapped as is
// used. Memory is mapped and unmapped in granules, so that free pieces between tensors serve any size, and a training
// loop whose sizes vary does not break memory into segments that fit nothing.
#pragma once

#include <cstddef>
#include <vector>

#include "cuda/driver.h"

namespace facula::cuda {

class ExpandableRange {
 public:
  ExpandableRange(int device, size_t bytes, size_t granule);
  ~ExpandableRange();
  ExpandableRange(const ExpandableRange&) = delete;

  CUdeviceptr base() const { return base_; }
  size_t bytes() const { return bytes_; }
  size_t granule() const { return granule_; }
  /// Whole granules. False where the device has no more memory; then nothing is mapped.
  bool map(CUdeviceptr at, size_t bytes);
  /// The caller has waited for what uses them.
  void unmap(CUdeviceptr at, size_t bytes);
  /// A file descriptor of the granule at `at`, by which another process maps it; the caller closes it.
  int export_granule(CUdeviceptr at) const;

 private:
  bool map_one(CUdeviceptr at);

  const int device_;
  const size_t bytes_, granule_;
  CUdeviceptr base_ = 0;
};

/// Granules of another process, side by side.
class ImportedGranules {
 public:
  /// `files` stay the caller's.
  ImportedGranules(int device, const std::vector<int>& files, size_t granule);
  /// The caller has waited for what uses them.
  ~ImportedGranules();
  ImportedGranules(const ImportedGranules&) = delete;
  CUdeviceptr base() const { return base_; }

 private:
  void map(int file);
  void release();

  const int device_;
  const size_t granule_, bytes_;
  size_t mapped_ = 0;
  CUdeviceptr base_ = 0;
};

}  // namespace facula::cuda
