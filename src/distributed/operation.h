// Describes a collective or a message: what was called, the transfers that it is made of, and how far it is.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "distributed/agreement.h"
#include "distributed/engine.h"
#include "distributed/socket.h"

namespace facula::distributed {

struct CallSite {
  const char* file = "";  // lives for ever
  int line = 0;
};

/// What a program requests. Lists have one tensor, or one for each rank.
struct Call {
  Kind kind;
  const char* name;  // the public one; lives for ever
  std::vector<Tensor> in, out;
  Reduction reduction = Reduction::Sum;
  double factor = 1;
  int root = 0;  // in the group, or the peer
  int tag = 0;
  std::vector<int64_t> in_splits, out_splits;  // elements for each rank
  double timeout = 1800;
  CallSite site;
  uint64_t salt = 0;   // what else all ranks must agree on
  std::string detail;  // the same for people
};

/// Where an operation is. World::advance() takes it from one phase to the next:
///
///              agree                    first transfer              last transfer, on the host
///     Queued --------> Agreeing ------------------------> Moving ------------------------------> Done
///       |                  |  the calls differ             |  ^ |                                 ^ ^
///       |                  +------------> Describing ---+  +--+ | last transfer is queued         | |
///       |                   texts of all ranks,         | next  +-----------> OnDevice -----------+ |
///       |                   then an error               |        transfer                its event  |
///       |                                               +-------------------------------------------+
///       +--> Moving: messages, groups of one rank, and FACULA_DIST_CHECK=0
///
/// World::break_off() takes it from any phase to Done, with an error.
enum class Phase : uint8_t { Queued, Agreeing, Describing, Moving, OnDevice, Done };

/// How the elements travel: from memory of the host, or from a device by way of it, or from device to device.
enum class Route : uint8_t { Host, Staged, Device };

struct Operation {
  /// `nccl`: elements on a device do not go by way of the host.
  Operation(Call c, int rank, int size, bool nccl = false);
  /// Such as "all_reduce (float32[3, 4], SUM)".
  std::string text() const;
  bool done() const { return phase.load(std::memory_order_acquire) == Phase::Done; }
  /// Done, or the device's alone to do: nothing is left for the host.
  bool has_left_host() const { return phase.load(std::memory_order_acquire) >= Phase::OnDevice; }
  /// What all ranks must agree on, as a number.
  uint64_t fingerprint() const;
  /// Makes the agreement, with the values if they are few; takes them out of it.
  void begin_agreement(int rank);
  void end_agreement();
  /// Of all_to_all: a number whose sum over all ranks is 0 when everybody sends what the others expect.
  uint64_t imbalance(int rank) const;

  Call call;
  Route route = Route::Host;
  Device device = kCPU;
  bool captured = false;     // in a graph: its replays do it
  Stream caller;             // whose work comes before, where the route is not Host
  cuda::Event ready, moved;  // of Route::Device: the inputs are there, the outputs are
  DType dtype = DType::UInt8;
  std::vector<int64_t> shape;
  int64_t count = 0;
  uint64_t sequence = 0, record = 0;  // in its group, and in the flight recorder

  std::vector<Transfer> plan;
  std::deque<Splits> splits;
  std::vector<Tensor> memory;                 // staged elements that transfers read and write
  std::vector<std::function<void()>> finish;  // what follows the last transfer

  std::atomic<Phase> phase{Phase::Queued};
  std::atomic<size_t> next{0};  // of `plan`; who waits reads it without the lock
  Engine::Request request = 0;
  Agreement agreement;
  bool rides = false;  // the values travel with the agreement
  std::string texts;   // of all ranks, where they disagree
  Received received;
  Deadline deadline, warning;
  bool reported = false, warned = false;
  std::unique_ptr<DistError> error;
  std::vector<std::function<void()>> callbacks;
  double queued_at = 0, started_at = 0, done_at = 0;  // seconds since 1970

 private:
  friend struct Planner;
};

}  // namespace facula::distributed
