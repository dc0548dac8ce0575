// A stand-in for NCCL: what a program calls. It checks arguments, membership, devices and the states of non-blocking
// communicators as NCCL's documentation states them, where it is stricter: one stream for a communicator. The first
// operation of a communicator is held back until ncclCommGetAsyncError was called twice, as the library may take
// time to connect: events that were recorded too early, and calls in between, show.
#include "emulator/nccl.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#define DECLARE(name, ...) FACULA_EMULATED ncclResult_t name(__VA_ARGS__);
FACULA_NCCL_FUNCTIONS(DECLARE)
#undef DECLARE
#define DECLARE(name, ...) FACULA_EMULATED const char* name(__VA_ARGS__);
FACULA_NCCL_TEXTS(DECLARE)
#undef DECLARE

extern "C" CUresult cuStreamIsCapturing(CUstream stream, CUstreamCaptureStatus* status);

using namespace facula::emulator;
using namespace facula::emulator::nccl;

namespace {

using CommPointer = std::shared_ptr<Comm>;
auto& comms = *new Handles<ncclComm_t, Comm>;

constexpr int kVersion = 22809, kLooks = 2;
constexpr char kMagic[8] = "FENCCL1";
struct Id {
  char magic[8];
  FileName table;
};
static_assert(sizeof(Id) <= sizeof(ncclUniqueId));

ncclResult_t wrong(const char* call, const std::string& why, ncclResult_t result = ncclInvalidArgument) {
  return static_cast<ncclResult_t>(refused(call, why, result));
}

// ---- groups of calls

struct Queued {
  CommPointer comm;
  Call call;
  CUstream stream;
};
struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Queued> calls;
};
thread_local Group group;

/// What the calls of one communicator do on its stream: collectives one after another, messages together. As a part of
/// a graph it is done at each replay.
std::function<void()> work_of(const CommPointer& comm, const std::vector<Call>& calls, bool together, bool captured) {
  std::vector<Call> messages, collectives;
  for (const Call& c : calls) (is_message(c.kind) ? messages : collectives).push_back(c);
  if (!captured) ++comm->running;
  return [comm, messages, collectives, together, captured] {
    if (captured) ++comm->running;
    for (const Call& call : collectives)
      if (!comm->aborted) comm->run_collective(call, ++comm->collectives);
    if (!messages.empty() && !comm->aborted) comm->run_messages(messages, together);
    --comm->running;
  };
}

bool is_captured(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS && status != CU_STREAM_CAPTURE_STATUS_NONE;
}

ncclResult_t launch(const std::vector<Queued>& calls, bool together) {
  std::vector<CommPointer> each;
  for (const Queued& q : calls)
    if (std::find(each.begin(), each.end(), q.comm) == each.end()) each.push_back(q.comm);
  ncclResult_t result = ncclSuccess;
  for (const CommPointer& comm : each) {
    std::vector<Call> of;
    for (const Queued& q : calls)
      if (q.comm == comm) of.push_back(q.call);
    std::function<void()> work;
    {
      std::lock_guard<std::mutex> guard(comm->mutex);
      const bool captured = is_captured(comm->stream);
      if (captured && !comm->began)
        return wrong("ncclGroupEnd", "the first call of a communicator, while a graph is captured", ncclInvalidUsage);
      work = work_of(comm, of, together, captured);
      if (!comm->began) {  // it connects now
        comm->began = true;
        comm->state = State::Holding;
        comm->looks = 0;
        comm->held.push_back(work);
        result = ncclInProgress;
        continue;
      }
    }
    if (queue_loops(comm->stream, work) != CUDA_SUCCESS) return ncclUnhandledCudaError;
  }
  return result;
}

// ---- checks

size_t in_count(const Comm& comm, const Call& c) {
  if (c.kind == Kind::Recv || (c.kind == Kind::Broadcast && comm.rank != c.root)) return 0;
  return c.count * static_cast<size_t>(c.kind == Kind::ReduceScatter ? comm.size : 1);
}
size_t out_count(const Comm& comm, const Call& c) {
  if (c.kind == Kind::Send || (c.kind == Kind::Reduce && comm.rank != c.root)) return 0;
  return c.count * static_cast<size_t>(c.kind == Kind::AllGather ? comm.size : 1);
}

/// Input and output are the same place, where the call allows it, or have nothing in common.
bool may_overlap(const Comm& comm, const Call& c, size_t in_bytes, size_t out_bytes) {
  const auto in = reinterpret_cast<uintptr_t>(c.in), out = reinterpret_cast<uintptr_t>(c.out);
  if (!in_bytes || !out_bytes || in + in_bytes <= out || out + out_bytes <= in) return true;
  const size_t part = c.count * item_size(c.type) * static_cast<size_t>(comm.rank);
  if (c.kind == Kind::AllGather) return in == out + part;
  if (c.kind == Kind::ReduceScatter) return out == in + part;
  return in == out;
}

std::string misuse_of(Comm& comm, const Call& c, CUstream stream) {
  if (c.type < ncclInt8 || c.type > ncclBfloat16) return "a type that there is not";
  if (c.op < ncclSum || (c.op > ncclAvg && !comm.own_ops.count(c.op))) return "an operation that there is not";
  if (c.op > ncclAvg && comm.own_ops[c.op].first != c.type) return "an operation that was made for another type";
  if (c.root < 0 || c.root >= comm.size) return "a rank that is not in the communicator";
  if (is_message(c.kind) && c.root == comm.rank && group.depth == 0) return "a message to itself outside of a group";
  if (current_device != comm.device) return "the current device is not that of the communicator";
  if (comm.has_stream && comm.stream != stream) return "another stream than before";
  const auto bytes = static_cast<int64_t>(item_size(c.type));
  const auto in = static_cast<int64_t>(in_count(comm, c)) * bytes,
             out = static_cast<int64_t>(out_count(comm, c)) * bytes;
  const auto is_there = [&](const void* p, int64_t n) {
    return n == 0 || (is_readable(p, n, bytes) && device_of(reinterpret_cast<CUdeviceptr>(p)) == comm.device);
  };
  if (!is_there(c.in, in)) return "an input that is not in the device's memory, or not aligned";
  if (!is_there(c.out, out)) return "an output that is not in the device's memory, or not aligned";
  if (!may_overlap(comm, c, static_cast<size_t>(in), static_cast<size_t>(out)))
    return "an input and an output that overlap";
  return {};
}

ncclResult_t called(const char* name, ncclComm_t handle, Call call, CUstream stream) {
  const CommPointer comm = comms.find(handle);
  if (!comm) return wrong(name, "a communicator that there is not, or that was destroyed");
  if (does_nothing()) return ncclSuccess;
  std::string why;
  {
    std::lock_guard<std::mutex> guard(comm->mutex);
    if (comm->error != ncclSuccess) return static_cast<ncclResult_t>(comm->error.load());
    if (comm->state != State::Ready)
      return wrong(name, "a communicator that is in progress, or finalized: ncclCommGetAsyncError says so",
                   ncclInvalidUsage);
    why = misuse_of(*comm, call, stream);
    if (why.empty() && call.op > ncclAvg) call.scalar = comm->own_ops[call.op].second;
    if (why.empty()) comm->stream = stream, comm->has_stream = true;
  }
  if (!why.empty()) {
    if (group.depth) group.error = ncclInvalidArgument;
    return wrong(name, why);
  }
  remember(std::string(name) + " count=" + std::to_string(call.count) + " type=" + std::to_string(call.type) +
           " op=" + std::to_string(call.op) + " root=" + std::to_string(call.root) +
           " size=" + std::to_string(comm->size) + " group=" + std::to_string(group.depth));
  if (group.depth == 0) return launch({{comm, call, stream}}, false);
  group.calls.push_back({comm, call, stream});
  return ncclSuccess;
}

// ---- joining

std::optional<std::string> misuse_of(const ncclConfigBegin* config) {
  if (!config || config->magic != kNcclConfigMagic || config->size < kNcclConfigSize)
    return "a configuration that was not set up";
  if (config->blocking != 0) return "a blocking communicator, which the stand-in has not";
  return {};
}

/// Looks how far the split of a communicator is; the lock of `comm` is held.
void advance_split(Comm& comm) {
  Table& table = *comm.parent->table;
  const auto at = [&](int r) -> SplitCall& { return table.seats[r].splits[comm.split % kSplits]; };
  std::vector<std::pair<int, int>> members;  // key, rank there
  const SplitCall& own = at(comm.parent->rank);
  for (int r = 0; r < comm.parent->size; ++r) {
    if (at(r).number < comm.split) return;
    if (at(r).color == own.color) members.emplace_back(at(r).key, r);
  }
  std::sort(members.begin(), members.end());
  const int leader = members[0].second;
  if (leader == comm.parent->rank && !at(leader).file) at(leader).file = make_table();
  if (!at(leader).file) return;
  comm.size = static_cast<int>(members.size());
  while (members[static_cast<size_t>(comm.rank)].second != comm.parent->rank) ++comm.rank;
  const FileName name{table.seats[leader].process, at(leader).file};
  if (!comm.join(name)) comm.error = ncclSystemError;
  comm.state = State::Joining;
}

/// What is to be queued now.
std::vector<std::function<void()>> advance(Comm& comm) {
  if (comm.state == State::Splitting) advance_split(comm);
  if (comm.state == State::Joining && comm.table && comm.table->joined == comm.size) comm.state = State::Ready;
  if (comm.state != State::Holding || ++comm.looks < kLooks) return {};
  comm.state = State::Ready;
  return std::exchange(comm.held, {});
}

}  // namespace

FACULA_EMULATED ncclResult_t ncclGetVersion(int* version) {
  *version = kVersion;
  return ncclSuccess;
}

FACULA_EMULATED ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (!id) return wrong(__func__, "a null pointer");
  Id made{{}, {getpid(), make_table()}};
  if (made.table.file < 0) return ncclSystemError;
  std::memcpy(made.magic, kMagic, sizeof made.magic);
  *id = {};
  std::memcpy(id->internal, &made, sizeof made);
  return ncclSuccess;
}

FACULA_EMULATED ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                                    ncclConfigBegin* config) {
  Id given;
  std::memcpy(&given, id.internal, sizeof given);
  if (!comm || size < 1 || size > kMostRanks || rank < 0 || rank >= size)
    return wrong(__func__, "a rank, or a number of ranks, that cannot be");
  if (const auto why = misuse_of(config)) return wrong(__func__, *why);
  if (std::memcmp(given.magic, kMagic, sizeof given.magic) != 0) return wrong(__func__, "an id that was not made here");
  auto made = std::make_shared<Comm>();
  made->rank = rank, made->size = size, made->device = current_device;
  if (!made->join(given.table))
    return wrong(__func__, "an id of a process that is gone, that has another size, or whose rank is taken",
                 ncclSystemError);
  *comm = comms.add(std::move(made));
  return ncclInProgress;
}

FACULA_EMULATED ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* made,
                                           ncclConfigBegin* config) {
  const CommPointer parent = comms.find(comm);
  if (!parent || !made || color < NCCL_SPLIT_NOCOLOR) return wrong(__func__, "a communicator or color that is none");
  if (const auto why = misuse_of(config)) return wrong(__func__, *why);
  std::lock_guard<std::mutex> guard(parent->mutex);
  if (parent->state != State::Ready)
    return wrong(__func__, "a communicator that is in progress, or finalized", ncclInvalidUsage);
  const uint64_t number = ++parent->splits;
  SplitCall& call = parent->seat().splits[number % kSplits];
  call.color = color, call.key = key;
  call.file = 0;
  call.number = number;
  *made = nullptr;
  if (color == NCCL_SPLIT_NOCOLOR) return ncclSuccess;
  auto child = std::make_shared<Comm>();
  child->parent = parent, child->split = number, child->device = parent->device, child->state = State::Splitting;
  *made = comms.add(std::move(child));
  return ncclInProgress;
}

FACULA_EMULATED ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  const CommPointer c = comms.find(comm);
  if (!c || !error) return wrong(__func__, "a communicator that there is not, or that was destroyed");
  std::unique_lock<std::mutex> lock(c->mutex);
  const auto queued = advance(*c);
  lock.unlock();
  for (const auto& work : queued)
    if (queue_loops(c->stream, work) != CUDA_SUCCESS) c->error = ncclUnhandledCudaError;
  lock.lock();
  const bool busy =
      (c->state != State::Ready && c->state != State::Finalized) || (c->state == State::Finalized && c->running != 0);
  *error = c->error != ncclSuccess ? static_cast<ncclResult_t>(c->error.load()) : busy ? ncclInProgress : ncclSuccess;
  return ncclSuccess;
}

FACULA_EMULATED ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  const CommPointer c = comms.find(comm);
  if (!c) return wrong(__func__, "a communicator that there is not, or that was destroyed");
  std::lock_guard<std::mutex> guard(c->mutex);
  if (c->state != State::Ready) return wrong(__func__, "a communicator that is in progress", ncclInvalidUsage);
  c->state = State::Finalized;
  return c->running ? ncclInProgress : ncclSuccess;
}

FACULA_EMULATED ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  const CommPointer c = comms.find(comm);
  if (!c) return wrong(__func__, "a communicator that there is not, or that was destroyed");
  if (c->state != State::Finalized || c->running != 0)
    return wrong(__func__, "a communicator that is not finalized, or whose operations are not done", ncclInvalidUsage);
  comms.remove(comm);
  return ncclSuccess;
}

FACULA_EMULATED ncclResult_t ncclCommAbort(ncclComm_t comm) {
  const CommPointer c = comms.remove(comm);
  if (!c) return wrong(__func__, "a communicator that there is not, or that was destroyed");
  c->aborted = true;
  std::lock_guard<std::mutex> guard(c->mutex);
  c->held.clear();
  return ncclSuccess;
}

FACULA_EMULATED ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  const CommPointer c = comms.find(comm);
  if (!c || !op || !scalar) return wrong(__func__, "a communicator that there is not, or a null pointer");
  if (residence != ncclScalarHostImmediate)
    return wrong(__func__, "a factor on the device, which the stand-in has not");
  double factor = 0;
  switch (type) {
    case ncclFloat16: factor = Half::load<double>(scalar, 0); break;
    case ncclBfloat16: factor = Brain::load<double>(scalar, 0); break;
    case ncclFloat32: factor = *static_cast<const float*>(scalar); break;
    case ncclFloat64: factor = *static_cast<const double*>(scalar); break;
    default: return wrong(__func__, "a factor of integers");
  }
  std::lock_guard<std::mutex> guard(c->mutex);
  if (c->state != State::Ready) return wrong(__func__, "a communicator that is in progress", ncclInvalidUsage);
  *op = static_cast<ncclRedOp_t>(++c->last_op);
  c->own_ops[*op] = {type, factor};
  return ncclSuccess;
}

FACULA_EMULATED ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  const CommPointer c = comms.find(comm);
  if (!c) return wrong(__func__, "a communicator that there is not, or that was destroyed");
  std::lock_guard<std::mutex> guard(c->mutex);
  return c->own_ops.erase(op) ? ncclSuccess : wrong(__func__, "an operation that there is not");
}

FACULA_EMULATED ncclResult_t ncclGroupStart() {
  ++group.depth;
  return ncclSuccess;
}

FACULA_EMULATED ncclResult_t ncclGroupEnd() {
  if (group.depth == 0) return wrong(__func__, "a group that did not begin", ncclInvalidUsage);
  if (--group.depth) return ncclSuccess;
  const std::vector<Queued> calls = std::exchange(group.calls, {});
  const ncclResult_t error = std::exchange(group.error, ncclSuccess);
  return error != ncclSuccess ? error : launch(calls, true);
}

FACULA_EMULATED ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                           ncclComm_t comm, CUstream stream) {
  return called(__func__, comm, {Kind::AllReduce, in, out, count, type, op}, stream);
}
FACULA_EMULATED ncclResult_t ncclReduce(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                        int root, ncclComm_t comm, CUstream stream) {
  return called(__func__, comm, {Kind::Reduce, in, out, count, type, op, root}, stream);
}
FACULA_EMULATED ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t type, int root,
                                           ncclComm_t comm, CUstream stream) {
  return called(__func__, comm, {Kind::Broadcast, in, out, count, type, ncclSum, root}, stream);
}
FACULA_EMULATED ncclResult_t ncclAllGather(const void* in, void* out, size_t count, ncclDataType_t type,
                                           ncclComm_t comm, CUstream stream) {
  return called(__func__, comm, {Kind::AllGather, in, out, count, type}, stream);
}
FACULA_EMULATED ncclResult_t ncclReduceScatter(const void* in, void* out, size_t count, ncclDataType_t type,
                                               ncclRedOp_t op, ncclComm_t comm, CUstream stream) {
  return called(__func__, comm, {Kind::ReduceScatter, in, out, count, type, op}, stream);
}
FACULA_EMULATED ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                      CUstream stream) {
  return called(__func__, comm, {Kind::Send, in, nullptr, count, type, ncclSum, peer}, stream);
}
FACULA_EMULATED ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                                      CUstream stream) {
  return called(__func__, comm, {Kind::Recv, nullptr, out, count, type, ncclSum, peer}, stream);
}

FACULA_EMULATED const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled CUDA error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "in progress"};
  return result >= 0 && result <= ncclInProgress ? kTexts[result] : "unknown result code";
}

FACULA_EMULATED const char* ncclGetLastError(ncclComm_t comm) {
  static thread_local std::string text;
  const CommPointer c = comms.find(comm);
  if (!c) return "";
  std::lock_guard<std::mutex> guard(c->mutex);
  text = c->last_error;
  return text.c_str();
}
