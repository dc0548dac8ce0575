// The NCCL engine: transfers of tensors of a device, queued on streams of the engine's own.
//
// A group has one communicator, and messages one for each direction between two ranks, so that sends and receives
// wait for nothing but each other; each has a stream. Communicators are made when they are first needed, or split off
// that of the world if it is there. Nothing here waits: communicators are non-blocking, and a transfer takes as many
// looks of test() as its communicator needs to connect. It is done for test() when it is queued; events say the rest.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "distributed/engine.h"
#include "distributed/nccl_library.h"
#include "distributed/socket.h"
#include "distributed/store.h"

namespace facula::distributed {

using namespace nccl_library;

namespace {

enum class Stage : uint8_t { Connecting, Launching, Settling };
struct Pending {
  Transfer transfer;
  Stage stage = Stage::Connecting;
};

/// A communicator, the stream of its transfers, and those that are to be queued.
struct Channel {
  std::string key;
  int rank = 0, size = 1, device = 0;
  Stream stream;
  ncclComm_t comm = nullptr;
  bool connected = false, dead = false;
  std::deque<Pending*> queue;
  Deadline look = Deadline::after(0), closing = Deadline::after(0);
  bool finalized = false;
};

struct Members {
  std::vector<int> ranks;
  int rank = 0;
  std::string key;
};

class NcclEngine final : public Engine {
 public:
  NcclEngine(std::shared_ptr<Store> store, int rank, int size) : store_(std::move(store)), rank_(rank) {
    if (store_) store_->set_timeout(kStorePatience);
    Members world{{}, rank, "world"};
    for (int r = 0; r < size; ++r) world.ranks.push_back(r);
    groups_.push_back(std::move(world));
  }

  Request issue(int group, const Transfer& t) override {
    Channel& c = channel(group, t);
    c.queue.push_back(new Pending{t});
    return reinterpret_cast<Request>(c.queue.back());
  }

  /// Whether it is queued.
  bool test(Request& request, Received& received) override {
    auto* p = reinterpret_cast<Pending*>(request);
    Channel& c = *channel_of(p);
    if (c.dead) fail(Trouble::Backend, "the communicator was given up");
    const bool done = p->transfer.batch && !p->transfer.batch->separate ? advance_together(c, *p)
                                                                        : c.queue.front() == p && advance(c, *p);
    if (!done) return false;
    received.bytes = -1;  // not known
    received.source = p->transfer.root;
    c.queue.erase(std::find(c.queue.begin(), c.queue.end(), p));
    delete p;
    request = 0;
    return true;
  }

  void progress() override {
    for (auto c = closing_.begin(); c != closing_.end();) c = close_step(**c) ? closing_.erase(c) : std::next(c);
  }

  int make_group(const std::vector<int>& ranks, int number) override {
    uint64_t hash = 14695981039346656037u;
    for (int r : ranks) hash = (hash ^ static_cast<uint64_t>(r)) * 1099511628211u;
    std::string key = std::to_string(number) + "." + std::to_string(hash);
    key += "." + std::to_string(made_[key]++);
    const auto here = std::find(ranks.begin(), ranks.end(), rank_);
    split(ranks, here, number);
    if (here == ranks.end()) return -1;
    groups_.push_back({ranks, static_cast<int>(here - ranks.begin()), key});
    const int id = static_cast<int>(groups_.size()) - 1;
    if (split_) {
      split_->key = key;
      channels_[{id, kEverybody}] = std::move(split_);
    }
    return id;
  }

  void drop_group(int group) override {
    for (auto c = channels_.begin(); c != channels_.end();) {
      if (c->first.first != group) {
        ++c;
        continue;
      }
      close(std::move(c->second));
      c = channels_.erase(c);
    }
  }

  void close() override {
    for (auto& [key, channel] : channels_) close(std::move(channel));
    channels_.clear();
  }
  bool is_closed() const override { return closing_.empty(); }

  void abandon() override {
    for (auto& [key, channel] : channels_) abort(*channel);
    for (auto& channel : closing_) abort(*channel);
  }
  void abandon_group(int group) override {
    for (auto& [key, channel] : channels_)
      if (key.first == group) abort(*channel);
  }

  bool connect(int group, Device device) override {
    Channel& c = channel(group, {.kind = Kind::Barrier, .device = device});
    return is_connected(c);
  }
  bool is_connected(int group, const Transfer& t) override { return channel(group, t).connected; }
  Stream stream(int group, const Transfer& t) override { return channel(group, t).stream; }

  /// Throws what went wrong with what is queued.
  void look(int group, const Transfer& t) override {
    Channel& c = channel(group, t);
    if (c.comm && !c.dead) is_ready(c.comm, "the collective");
  }

 private:
  static constexpr int kEverybody = -1;
  static constexpr double kStorePatience = 5, kClosing = 10;

  Channel& channel(int group, const Transfer& t) {
    const Members& members = groups_.at(static_cast<size_t>(group));
    const bool message = is_point_to_point(t.kind);
    if (message && t.root < 0)
      fail(Trouble::Backend, "recv: NCCL receives from one rank, which must be named, got any");
    const int size = static_cast<int>(members.ranks.size()), from = t.kind == Kind::Send ? members.rank : t.root,
              to = t.kind == Kind::Send ? t.root : members.rank;
    auto& slot = channels_[{group, message ? from * size + to : kEverybody}];
    if (!slot) {
      slot = std::make_unique<Channel>();
      slot->key = "nccl/" + members.key + (message ? "/" + std::to_string(from) + ">" + std::to_string(to) : "");
      slot->rank = message ? t.kind == Kind::Recv : members.rank;
      slot->size = message ? 2 : size;
      slot->device = t.device.index;
      slot->stream = take_stream(t.device.index);
    }
    FACULA_CHECK(slot->device == t.device.index, ErrorKind::Value,
                 "nccl: a group's tensors of one process are on one device, ", slot->stream.device,
                 " here (set_device() chooses it), got one on ", t.device);
    return *slot;
  }
  Channel* channel_of(const Pending* p) {
    for (auto& [key, c] : channels_)
      if (std::find(c->queue.begin(), c->queue.end(), p) != c->queue.end()) return c.get();
    fail(Trouble::Backend, "the group was destroyed");
  }

  // ---- making communicators

  /// All ranks of the world come here, with the world's communicator ready or not on all of them.
  void split(const std::vector<int>& ranks, std::vector<int>::const_iterator here, int number) {
    constexpr int kLocal = 1 << 14;  // numbers from here on are of groups that only their members make
    const auto world = channels_.find({0, kEverybody});
    if (number >= kLocal || world == channels_.end() || !world->second->connected || world->second->dead) return;
    Channel& parent = *world->second;
    const bool member = here != ranks.end();
    ncclConfigBegin c = config();
    ncclComm_t made = nullptr;
    cuda::DeviceGuard guard(parent.device);
    check(nccl().ncclCommSplit(parent.comm, member ? 0 : NCCL_SPLIT_NOCOLOR, static_cast<int>(here - ranks.begin()),
                               &made, &c),
          "new_group", parent.comm);
    if (!member) return;
    split_ = std::make_unique<Channel>();
    split_->rank = static_cast<int>(here - ranks.begin());
    split_->size = static_cast<int>(ranks.size());
    split_->device = parent.device;
    split_->stream = take_stream(parent.device);
    split_->comm = made;
  }

  bool is_connected(Channel& c) {
    if (c.dead) fail(Trouble::Backend, "the communicator was given up");
    if (c.connected) return true;
    if (!c.comm && !begin(c)) return false;
    return c.connected = is_ready(c.comm, "ncclCommInitRankConfig");
  }
  /// Once the id is known: who is first makes it.
  bool begin(Channel& c) {
    ncclUniqueId id{};
    if (c.rank == 0) {
      check(nccl().ncclGetUniqueId(&id), "ncclGetUniqueId");
      if (store_) store_->set(c.key, std::string(id.internal, sizeof id.internal));
    } else {
      if (!c.look.passed()) return false;
      c.look = Deadline::after(0.001);
      if (!store_->has({c.key})) return false;
      const std::string text = store_->get(c.key);
      if (text.size() != sizeof id.internal) fail(Trouble::Store, "the store has no id of NCCL's under ", c.key);
      std::memcpy(id.internal, text.data(), sizeof id.internal);
    }
    cuda::DeviceGuard guard(c.device);
    ncclConfigBegin how = config();
    check(nccl().ncclCommInitRankConfig(&c.comm, c.size, id, c.rank, &how), "ncclCommInitRankConfig");
    return true;
  }
  // ---- transfers

  bool advance(Channel& c, Pending& p) {
    if (p.stage == Stage::Connecting) {
      if (!is_connected(c)) return false;
      p.stage = Stage::Launching;
    }
    if (p.stage == Stage::Launching) {
      if (!is_ready(c.comm, "the collective before it")) return false;
      cuda::DeviceGuard guard(c.device);
      if (p.transfer.after) p.transfer.after->block(c.stream);
      p.stage = Stage::Settling;
      if (launch(c, p.transfer) == ncclSuccess) return true;
    }
    return is_ready(c.comm, "the collective");
  }

  /// Messages of a batch wait for each other, and are launched as one group of calls.
  bool advance_together(Channel& c, Pending& p) {
    Batch& batch = *p.transfer.batch;
    if (!batch.launched) {
      const std::pair<void*, void*> me{&c, &p};
      if (std::find(batch.waiting.begin(), batch.waiting.end(), me) == batch.waiting.end()) batch.waiting.push_back(me);
      if (!batch.closed || batch.waiting.size() < batch.size || !may_launch(batch)) return false;
      launch_together(batch);
    }
    return is_ready(c.comm, "the messages of a batch");
  }
  /// Whether nothing else is before a batch in its channels.
  static bool may_launch(const Batch& batch) {
    return std::all_of(batch.waiting.begin(), batch.waiting.end(), [&](const auto& member) {
      const Channel& c = *static_cast<Channel*>(member.first);
      for (const Pending* before : c.queue) {
        if (before == member.second) return is_ready(c.comm, "the messages before a batch");
        if (before->transfer.batch.get() != &batch) return false;
      }
      return false;
    });
  }
  void launch_together(Batch& batch) {
    batch.launched = true;
    check(nccl().ncclGroupStart(), "ncclGroupStart");
    std::exception_ptr wrong;
    for (const auto& [where, what] : batch.waiting) {
      const Channel& c = *static_cast<Channel*>(where);
      const Transfer& t = static_cast<Pending*>(what)->transfer;
      cuda::DeviceGuard guard(c.device);
      try {
        if (t.after) t.after->block(c.stream);
        launch(c, t);
      } catch (const Error&) {
        if (!wrong) wrong = std::current_exception();
      }
    }
    const ncclResult_t ended = nccl().ncclGroupEnd();
    if (wrong) std::rethrow_exception(wrong);
    check(ended, "ncclGroupEnd");
  }

  ncclResult_t launch(const Channel& c, const Transfer& t) {
    const Functions& call = nccl();
    const CUstream stream = cuda::handle(c.stream);
    const auto n = static_cast<size_t>(t.count);
    const auto done = [&](ncclResult_t result, const char* name) {
      check(result, name, c.comm);
      return result;
    };
    switch (t.kind) {
      case Kind::AllReduce:
      case Kind::Reduce:
      case Kind::ReduceScatter: return reduce(c, t);
      case Kind::Broadcast:
        return done(call.ncclBroadcast(t.in, t.out, n, ncclUint8, t.root, c.comm, stream), "ncclBroadcast");
      case Kind::AllGather: return done(call.ncclAllGather(t.in, t.out, n, ncclUint8, c.comm, stream), "ncclAllGather");
      case Kind::Send: return done(call.ncclSend(t.in, n, ncclUint8, 1, c.comm, stream), "ncclSend");
      case Kind::Recv: return done(call.ncclRecv(t.out, n, ncclUint8, 0, c.comm, stream), "ncclRecv");
      case Kind::Gather:
      case Kind::Scatter:
      case Kind::AllToAll: return exchange(c, t);
      case Kind::Barrier: break;
    }
    return ncclSuccess;
  }

  ncclResult_t reduce(const Channel& c, const Transfer& t) {
    const Functions& call = nccl();
    const Number number = number_of(t.dtype);
    const auto n = static_cast<size_t>(t.count) * number.each;
    const CUstream stream = cuda::handle(c.stream);
    ncclRedOp_t op = op_of(t.dtype, t.reduction);
    const bool own = t.reduction == Reduction::PremulSum;
    if (own) op = premultiplied(c, t.factor, number.type);
    const ncclResult_t result =
        t.kind == Kind::AllReduce ? call.ncclAllReduce(t.in, t.out, n, number.type, op, c.comm, stream)
        : t.kind == Kind::Reduce  ? call.ncclReduce(t.in, t.out, n, number.type, op, t.root, c.comm, stream)
                                  : call.ncclReduceScatter(t.in, t.out, n, number.type, op, c.comm, stream);
    if (own) call.ncclRedOpDestroy(op, c.comm);
    check(result, "a reduction", c.comm);
    return result;
  }
  static ncclRedOp_t premultiplied(const Channel& c, double factor, ncclDataType_t type) {
    const auto single = static_cast<float>(factor);
    const Half half(single);
    const BFloat16 brain(single);
    const void* scalar = &factor;
    if (type == ncclFloat32) scalar = &single;
    if (type == ncclFloat16) scalar = &half;
    if (type == ncclBfloat16) scalar = &brain;
    ncclRedOp_t op = ncclSum;
    check(nccl().ncclRedOpCreatePreMulSum(&op, const_cast<void*>(scalar), type, ncclScalarHostImmediate, c.comm),
          "ncclRedOpCreatePreMulSum", c.comm);
    return op;
  }

  /// From each to each: a group of messages.
  ncclResult_t exchange(const Channel& c, const Transfer& t) {
    const Functions& call = nccl();
    check(call.ncclGroupStart(), "ncclGroupStart");
    const CUstream stream = cuda::handle(c.stream);
    const auto send = [&](int peer, int64_t at, int64_t bytes) {
      const char* from = static_cast<const char*>(t.in) + at;
      return bytes ? call.ncclSend(from, static_cast<size_t>(bytes), ncclUint8, peer, c.comm, stream) : ncclSuccess;
    };
    const auto receive = [&](int peer, int64_t at, int64_t bytes) {
      char* to = static_cast<char*>(t.out) + at;
      return bytes ? call.ncclRecv(to, static_cast<size_t>(bytes), ncclUint8, peer, c.comm, stream) : ncclSuccess;
    };
    ncclResult_t wrong = ncclSuccess;
    const auto note = [&](ncclResult_t result) {
      if (result != ncclSuccess && wrong == ncclSuccess) wrong = result;
    };
    const bool root = c.rank == t.root;
    if (t.kind == Kind::Gather) note(send(t.root, 0, t.count));
    if (t.kind == Kind::Scatter) note(receive(t.root, 0, t.count));
    for (int r = 0; r < c.size; ++r) {
      const auto i = static_cast<size_t>(r);
      if (t.kind == Kind::Gather && root) note(receive(r, r * t.count, t.count));
      if (t.kind == Kind::Scatter && root) note(send(r, r * t.count, t.count));
      if (t.kind == Kind::AllToAll) {
        note(send(r, t.splits->in_offsets[i], t.splits->in_bytes[i]));
        note(receive(r, t.splits->out_offsets[i], t.splits->out_bytes[i]));
      }
    }
    const ncclResult_t ended = call.ncclGroupEnd();
    check(wrong, "a group of messages", c.comm);
    check(ended, "ncclGroupEnd", c.comm);
    return ended;
  }

  // ---- the end

  void close(std::unique_ptr<Channel> c) {
    if (c->dead || !c->comm) return;
    c->closing = Deadline::after(kClosing);
    closing_.push_back(std::move(c));
    if (close_step(*closing_.back())) closing_.pop_back();
  }
  /// Whether it is closed.
  bool close_step(Channel& c) {
    if (c.dead) return true;
    ncclResult_t state = ncclSuccess;
    const bool known = nccl().ncclCommGetAsyncError(c.comm, &state) == ncclSuccess;
    if (!known || c.closing.passed() || (state != ncclSuccess && state != ncclInProgress)) {
      abort(c);
      return true;
    }
    if (state == ncclInProgress) return false;
    if (!c.finalized) {
      c.finalized = true;
      if (nccl().ncclCommFinalize(c.comm) == ncclInProgress) return false;
    }
    nccl().ncclCommDestroy(c.comm);
    give_back(c.stream);
    c.dead = true;
    return true;
  }
  /// What is on the stream ends. That may take long where the device does not answer, so nobody waits for it.
  static void abort(Channel& c) {
    if (c.dead) return;
    c.dead = true;
    if (!c.comm) return;
    std::thread([comm = c.comm, device = c.device] {
      try {
        cuda::activate(device);
      } catch (const Error&) {  // it is broken: the communicator is let go all the same
      }
      nccl().ncclCommAbort(comm);
    }).detach();
  }

  std::shared_ptr<Store> store_;
  int rank_;
  std::vector<Members> groups_;
  std::map<std::string, int> made_;
  std::map<std::pair<int, int>, std::unique_ptr<Channel>> channels_;  // by group and direction
  std::list<std::unique_ptr<Channel>> closing_;
  std::unique_ptr<Channel> split_;  // until its group has a number
};

}  // namespace

std::string why_no_nccl() {
  if (!cuda::is_available()) return cuda::why_unavailable();
  return why_not_opened();
}

int nccl_version() {
  int version = 0;
  if (const std::string why = why_no_nccl(); !why.empty()) fail(Trouble::Backend, "nccl.version: ", why);
  check(nccl().ncclGetVersion(&version), "ncclGetVersion");
  return version;
}

bool can_reduce_by_nccl(DType dtype, Reduction reduction) {
  const bool bits = reduction >= Reduction::BitAnd && reduction <= Reduction::BitXor;
  if (dtype == DType::Bool) return reduction != Reduction::BitXor;
  return !bits && dtype != DType::Int16 && dtype != DType::UInt16;
}

std::unique_ptr<Engine> make_nccl_engine(const std::shared_ptr<Store>& store, int rank, int size) {
  if (const std::string why = why_no_nccl(); !why.empty())
    fail(Trouble::Backend, "the backend 'nccl' is not to be had: ", why);
  return std::make_unique<NcclEngine>(store, rank, size);
}

}  // namespace facula::distributed
