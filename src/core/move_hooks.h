// Declares how bytes of a device move to the host's memory and back, which a memory budget (src/budget) requests from
// the device's backend. Copies run beside the program's work, on streams of their own. A move is used by one thread at
// a time.
#pragma once

#include <cstddef>

#include "core/device.h"

namespace facula {

struct DeviceMove;  // one block's bytes; of the backend

struct MoveHooks {
  /// Begins to copy a block of the device's allocator away, after what is queued on the streams that use it. The block
  /// stays as it is until is_out(), or until drop(). Null where that cannot be: the host has no memory for it, or a
  /// graph is captured. Throws nothing.
  DeviceMove* (*begin_out)(Device device, void* data, size_t bytes) = nullptr;
  /// Whether the bytes are in the host's memory, so that the block may be released.
  bool (*is_out)(DeviceMove* move) = nullptr;
  /// Waits for that.
  void (*wait)(DeviceMove* move) = nullptr;
  /// After is_out(): begins to copy the bytes back into a block that was allocated for the current stream. The bytes
  /// stay in the host's memory, too: the block may be released again without another copy. Throws while a graph is
  /// captured.
  void (*begin_back)(DeviceMove* move, void* to) = nullptr;
  /// What is queued from now on, on the current stream and on those that use the block, finds the bytes there. The host
  /// does not wait.
  void (*finish_back)(DeviceMove* move) = nullptr;
  /// Ends a move. The blocks of copies that are under way may be released at once, and may be written to by work that
  /// is queued on their streams later. Throws nothing.
  void (*drop)(DeviceMove* move) = nullptr;
  /// Whether copies away from the device are under way, behind which another one would wait.
  bool (*is_busy)(Device device) = nullptr;
  /// Bytes per second, of the last copies above all; a guess before the first.
  double (*rate)(Device device, bool back) = nullptr;
};
/// By device type; empty where a device has none.
inline MoveHooks move_hooks[kDeviceTypes];
inline const MoveHooks& move_hooks_of(Device device) { return move_hooks[static_cast<int>(device.type)]; }

}  // namespace facula
