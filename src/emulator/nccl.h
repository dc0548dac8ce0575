// Declares what the stand-in for NCCL shares among processes: a table for each communicator, and a file for each rank
// in which it puts what others read.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/abi_nccl.h"
#include "emulator/library.h"

namespace facula::emulator::nccl {

constexpr int kMostRanks = 32, kSplits = 8;

enum class Kind : int { AllReduce, Reduce, Broadcast, AllGather, ReduceScatter, Send, Recv };

/// What all ranks must have said alike.
struct Said {
  int kind, type, op, root;
  uint64_t count;
  bool operator==(const Said&) const = default;
};
/// From one rank to another: the last message.
struct Letter {
  std::atomic<uint64_t> sent, taken;
  uint64_t offset, bytes;
};
struct SplitCall {
  std::atomic<uint64_t> number;
  int color, key;
  std::atomic<int> file;  // of the new table, from the one who makes it
};
struct Seat {
  std::atomic<int> process, file;
  std::atomic<uint64_t> arrived, left;
  std::atomic<int> stuck_on;  // 1 + the rank that a message outside of a group waits for
  Said said;
  SplitCall splits[kSplits];
  Letter letters[kMostRanks];
};
struct Table {
  std::atomic<int> size, joined;
  Seat seats[kMostRanks];
};

/// An open file of some process.
struct FileName {
  int process, file;
};
int open_file(FileName name);
/// A table of no ranks yet; -1 where there is no memory for it.
int make_table();

struct Call {
  Kind kind;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclUint8;
  int op = ncclSum, root = 0;  // or the peer
  double scalar = 1;
};
inline bool is_message(Kind kind) { return kind == Kind::Send || kind == Kind::Recv; }
size_t item_size(ncclDataType_t type);

enum class State : uint8_t { Splitting, Joining, Ready, Holding, Finalized };

/// A rank's end of a communicator.
struct Comm {
  int rank = 0, size = 0, device = 0;
  Table* table = nullptr;
  int mailbox = -1;
  std::mutex mutex;
  State state = State::Joining;
  std::atomic<bool> aborted{false};
  std::atomic<int> error{ncclSuccess}, running{0};
  std::string last_error;
  CUstream stream = nullptr;
  bool has_stream = false, began = false;
  int looks = 0;  // at what is held
  std::vector<std::function<void()>> held;
  std::map<int, std::pair<ncclDataType_t, double>> own_ops;
  int last_op = ncclAvg;
  std::atomic<uint64_t> collectives{0};
  uint64_t splits = 0;
  std::array<uint64_t, kMostRanks> sent{}, received{};
  std::shared_ptr<Comm> parent;  // that it is split off
  uint64_t split = 0;

  Seat& seat() const { return table->seats[rank]; }
  void fail(ncclResult_t result, const std::string& why);
  /// Takes a seat; false where the table is not to be had.
  bool join(FileName name);
  /// Waits on the stream until it holds; false when the communicator is aborted.
  template <class F>
  bool wait_until(F holds);
  void run_collective(const Call& call, uint64_t number);
  /// `together`: they were called in a group.
  void run_messages(const std::vector<Call>& calls, bool together);

 private:
  void look_for_dead();
  void put(const Call& call);
  void get(const Call& call);
  std::vector<char> read(int from, size_t offset, size_t bytes);
  int file_of(int rank);
  std::array<int, kMostRanks> files_{};
};

}  // namespace facula::emulator::nccl
