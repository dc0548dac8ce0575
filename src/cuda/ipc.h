// Shares memory and events between processes. The sender of a tensor sends the driver's handle of the allocation that
// it lies in, where in it, an event behind what is queued, and a counter in memory that both see. The receiver opens a
// handle once (however many tensors it holds), or maps the granules of an expandable segment, waits for the event on
// its stream, and counts down when its storage dies. The sender's storage, when it dies, goes to a list until the
// counter says that nobody uses it: its block would be another tensor's otherwise. Storages with a counter of 0 are
// released when something is shared, memory runs short or ipc_collect() is called.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/storage.h"
#include "cuda/stream.h"

namespace facula::cuda {

/// What the receiver needs; plain bytes but for the file of the counter, which must be opened by its descriptor.
struct SharedStorage {
  int device;
  std::string memory, event;  // handles of the driver
  size_t offset, bytes;
  uint64_t origin;       // of the sender's storage: it may come back to its process
  int counter_file;      // stays open here
  size_t counter_index;  // in it
  // In place of `memory`, of expandable segments: files of granules, which stay open while the storage is shared.
  size_t granule;
  std::vector<int> files;
};

/// The counter goes up: one receiver more. The storage is the process's own, on a CUDA device.
SharedStorage share_storage(Storage* storage);
/// The storage of another process, or this one's own. Files stay the caller's.
Storage* open_storage(const SharedStorage& shared);
/// Lets go of what receivers have finished with; whether there was something.
bool ipc_collect();

std::string event_handle(Event& event, int device);

}  // namespace facula::cuda
