// Defines the interface of engines, which move bytes between processes: MPI (mpi.cpp), NCCL for memory of devices
// (nccl.cpp), or copies within one process (local.cpp). An engine only starts transfers and says when they are done;
// fingerprints, deadlines, reports, layouts and handles are above it, in world.h, alike for all engines.
//
// With memory of a device "done" means that the transfer is queued on a stream of the engine's: what has to come before
// it and what follows it wait by events.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "cuda/stream.h"
#include "distributed/error.h"

namespace facula::distributed {

enum class Kind : uint8_t {
  AllReduce,
  Reduce,
  Broadcast,
  AllGather,
  Gather,
  Scatter,
  ReduceScatter,
  AllToAll,
  Barrier,  // an Agreement and nothing else
  Send,
  Recv,
};
inline bool is_point_to_point(Kind kind) { return kind == Kind::Send || kind == Kind::Recv; }

enum class Reduction : uint8_t { Sum, Avg, Product, Min, Max, BitAnd, BitOr, BitXor, PremulSum };
constexpr int kReductions = 9;

/// Bytes for every rank, and where they lie.
struct Splits {
  std::vector<int64_t> in_bytes, in_offsets, out_bytes, out_offsets;
};

/// Messages that an engine for devices starts with one launch: those that were issued until it is closed.
struct Batch {
  size_t size = 0;
  bool closed = false, separate = false, launched = false;  // separate: each by itself, for not all are connected
  std::vector<std::pair<void*, void*>> waiting;             // the engine's
};

/// One non-blocking call. `in == out` is in place. Reductions count elements of `dtype`, the others bytes; where all
/// ranks have a part, those of one part.
struct Transfer {
  Kind kind;
  const void* in = nullptr;
  void* out = nullptr;
  int64_t count = 0;
  DType dtype = DType::UInt8;
  Reduction reduction = Reduction::Sum;
  int root = 0;  // or the peer; -1 is any
  int tag = 0;
  const Splits* splits = nullptr;
  double factor = 1;  // of PremulSum
  Device device = kCPU;
  const cuda::Event* after = nullptr;  // what the device does before it
  std::shared_ptr<Batch> batch{};
};

/// What a Recv got.
struct Received {
  int source = -1;
  int64_t bytes = 0;
};

constexpr int kAnySource = -1;

class Engine {
 public:
  using Request = uintptr_t;
  virtual ~Engine() = default;
  /// Starts a transfer among the ranks of a group; memory stays valid until it is done.
  virtual Request issue(int group, const Transfer& transfer) = 0;
  /// Whether it is done; then the request is no more.
  virtual bool test(Request& request, Received& received) = 0;
  /// Gives the engine time for what others want of it.
  virtual void progress() = 0;
  /// A group of ranks of the world, called by all of them with one number below 32,768 when all are there. Group 0 is
  /// the world.
  virtual int make_group(const std::vector<int>& ranks, int number) = 0;
  virtual void drop_group(int) {}
  /// Ranks on this machine for each processor: where there is more than one, who waits keeps others from working.
  virtual double ranks_per_processor() const { return 1; }
  /// Something is broken: the engine is not called again.
  virtual void abandon() = 0;
  /// From any thread: a call that does not return is to end by EngineGaveUp. Nothing works any more.
  virtual void interrupt() {}

  // ---- of engines for devices

  /// One step towards a group that can transfer at once; whether it can.
  virtual bool connect(int, Device) { return true; }
  /// Whether the transfer can be queued at once.
  virtual bool is_connected(int, const Transfer&) { return true; }
  /// Where the transfer is queued.
  virtual Stream stream(int, const Transfer&) { return {}; }
  /// Throws if something went wrong since a transfer was queued.
  virtual void look(int, const Transfer&) {}
  /// What a group has queued ends, and it is not used any more.
  virtual void abandon_group(int) {}
  /// All groups end in order, which progress() goes on with.
  virtual void close() {}
  virtual bool is_closed() const { return true; }
};

/// Whether an engine can reduce this dtype so; the error is the caller's.
bool can_reduce(DType dtype, Reduction reduction);

/// For one process, and to try programs for many in one ("fake"): what others would send stays as it is.
std::unique_ptr<Engine> make_local_engine(int rank, int size);

class Store;
/// Where MPI was found, or an error that says how to get one.
std::string find_mpi();
/// Takes away names of shared memory that MPI has made here and not taken away itself.
void forget_shared_names();
/// Empty, or why NCCL cannot be used.
std::string why_no_nccl();
/// Such as 22809.
int nccl_version();
bool can_reduce_by_nccl(DType dtype, Reduction reduction);
/// Ranks join when they first transfer something. Without a store, one rank.
std::unique_ptr<Engine> make_nccl_engine(const std::shared_ptr<Store>& store, int rank, int size);
/// Joins the ranks of a store by MPI. All call it.
std::unique_ptr<Engine> make_mpi_engine(const std::shared_ptr<Store>& store, int rank, int size, double timeout);

}  // namespace facula::distributed
