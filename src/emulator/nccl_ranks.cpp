// What ranks of the stand-in for NCCL do on their streams: they meet at the table, put what others need into their
// files, and compute. Who does not come is waited for until the communicator is aborted.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "emulator/nccl.h"

namespace facula::emulator::nccl {

int open_file(FileName name) {
  const std::string path = "/proc/" + std::to_string(name.process) + "/fd/" + std::to_string(name.file);
  return open(path.c_str(), O_RDWR | O_CLOEXEC);
}

int make_table() {
  const int file = memfd_create("facula_nccl", MFD_CLOEXEC);
  return file >= 0 && ftruncate(file, sizeof(Table)) == 0 ? file : -1;
}

size_t item_size(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8: return 1;
    case ncclFloat16:
    case ncclBfloat16: return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32: return 4;
    default: return 8;
  }
}

void Comm::fail(ncclResult_t result, const std::string& why) {
  refused("nccl", "rank " + std::to_string(rank) + ": " + why, result);
  std::lock_guard<std::mutex> guard(mutex);
  last_error = why;
  error = result;
}

bool Comm::join(FileName name) {
  const int file = open_file(name);
  void* at = file < 0 ? MAP_FAILED : mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (file >= 0) close(file);
  if (at == MAP_FAILED) return false;
  table = static_cast<Table*>(at);
  files_.fill(-1);
  mailbox = memfd_create("facula_nccl_mail", MFD_CLOEXEC);
  int expected = 0;
  if (!table->size.compare_exchange_strong(expected, size) && expected != size) return false;
  expected = 0;
  if (!seat().process.compare_exchange_strong(expected, getpid())) return false;  // taken
  seat().file = mailbox;
  ++table->joined;
  return true;
}

/// A rank whose process has ended shows as an error, as that of a broken connection does.
void Comm::look_for_dead() {
  if (error != ncclSuccess) return;
  for (int r = 0; r < size; ++r)
    if (kill(table->seats[r].process, 0) != 0)
      return fail(ncclRemoteError, "the process of rank " + std::to_string(r) + " is gone");
}

template <class F>
bool Comm::wait_until(F holds) {
  constexpr int kSpins = 200, kLook = 10000;
  for (int i = 0; !holds(); ++i) {
    if (aborted) return false;
    if (i < kSpins) std::this_thread::yield();
    else std::this_thread::sleep_for(std::chrono::microseconds(20));
    if (i % kLook == kLook - 1) look_for_dead();
  }
  return !aborted;
}

int Comm::file_of(int from) {
  if (from == rank) return mailbox;
  int& file = files_[static_cast<size_t>(from)];
  if (file < 0) file = open_file({table->seats[from].process, table->seats[from].file});
  return file;
}

std::vector<char> Comm::read(int from, size_t offset, size_t bytes) {
  std::vector<char> data(bytes);
  if (pread(file_of(from), data.data(), bytes, static_cast<off_t>(offset)) != static_cast<ssize_t>(bytes))
    fail(ncclInternalError, "what rank " + std::to_string(from) + " sends cannot be read");
  return data;
}

namespace {

/// How elements of a type are computed with: integers as they are, half precision in float.
template <class F>
void with_type(ncclDataType_t type, F f) {
  switch (type) {
    case ncclInt8: return f(int8_t{}, Plain{});
    case ncclUint8: return f(uint8_t{}, Plain{});
    case ncclInt32: return f(int32_t{}, Plain{});
    case ncclUint32: return f(uint32_t{}, Plain{});
    case ncclInt64: return f(int64_t{}, Plain{});
    case ncclUint64: return f(uint64_t{}, Plain{});
    case ncclFloat16: return f(float{}, Half{});
    case ncclBfloat16: return f(float{}, Brain{});
    case ncclFloat32: return f(float{}, Plain{});
    case ncclFloat64: return f(double{}, Plain{});
  }
}

template <class T>
T combined(int op, T a, T b) {
  if (op == ncclProd) return static_cast<T>(a * b);
  if (op == ncclMax) return a != a || a > b ? a : b;
  if (op == ncclMin) return a != a || a < b ? a : b;
  return static_cast<T>(a + b);
}

/// `parts` of all ranks, in their order.
void reduce(const std::vector<std::vector<char>>& parts, void* out, size_t count, ncclDataType_t type, int op) {
  with_type(type, [&]<class T, class L>(T, L) {
    for (int64_t i = 0; i < static_cast<int64_t>(count); ++i) {
      T all = L::template load<T>(parts[0].data(), i);
      for (size_t r = 1; r < parts.size(); ++r) all = combined(op, all, L::template load<T>(parts[r].data(), i));
      if (op == ncclAvg) all = static_cast<T>(all / static_cast<T>(parts.size()));
      L::template store<T>(out, i, all);
    }
  });
}

void multiply(void* data, size_t count, ncclDataType_t type, double factor) {
  with_type(type, [&]<class T, class L>(T, L) {
    for (int64_t i = 0; i < static_cast<int64_t>(count); ++i)
      L::template store<T>(data, i, static_cast<T>(L::template load<T>(data, i) * static_cast<T>(factor)));
  });
}

}  // namespace

/// Leaves what others need of this rank.
void Comm::put(const Call& call) {
  if (call.kind == Kind::Broadcast && call.root != rank) return;
  const size_t count = call.count * static_cast<size_t>(call.kind == Kind::ReduceScatter ? size : 1);
  std::vector<char> data(count * item_size(call.type));
  if (!data.empty()) std::memcpy(data.data(), call.in, data.size());
  if (call.scalar != 1) multiply(data.data(), count, call.type, call.scalar);
  if (pwrite(mailbox, data.data(), data.size(), 0) != static_cast<ssize_t>(data.size()))
    fail(ncclSystemError, "there is no memory for what is sent");
}

void Comm::get(const Call& call) {
  const size_t bytes = call.count * item_size(call.type);
  const auto all = [&](size_t offset) {
    std::vector<std::vector<char>> parts;
    for (int r = 0; r < size; ++r) parts.push_back(read(r, offset, bytes));
    return parts;
  };
  auto* out = static_cast<char*>(call.out);
  switch (call.kind) {
    case Kind::Reduce:
      if (rank != call.root) return;
      [[fallthrough]];
    case Kind::AllReduce: return reduce(all(0), out, call.count, call.type, call.op);
    case Kind::ReduceScatter:
      return reduce(all(static_cast<size_t>(rank) * bytes), out, call.count, call.type, call.op);
    case Kind::AllGather:
      for (int r = 0; r < size; ++r) {
        const std::vector<char> part = read(r, 0, bytes);
        std::copy(part.begin(), part.end(), out + static_cast<size_t>(r) * bytes);
      }
      return;
    case Kind::Broadcast: {
      const std::vector<char> part = read(call.root, 0, bytes);
      std::copy(part.begin(), part.end(), out);
      return;
    }
    default: return;
  }
}

void Comm::run_collective(const Call& call, uint64_t number) {
  put(call);
  const bool premultiplied = call.op > ncclAvg;
  seat().said = {static_cast<int>(call.kind), call.type, premultiplied ? ncclAvg + 1 : call.op, call.root, call.count};
  seat().arrived = number;
  const auto each = [&](auto of) {
    return [this, number, of] {
      return std::all_of(table->seats, table->seats + size, [&](Seat& s) { return of(s) >= number; });
    };
  };
  if (!wait_until(each([](Seat& s) { return s.arrived.load(); }))) return;
  bool alike = true;
  for (int r = 0; r < size; ++r)
    if (const Said& other = table->seats[r].said; !(other == seat().said)) {
      if (alike)
        fail(ncclInternalError, "collective " + std::to_string(number) + ": rank " + std::to_string(r) +
                                    " called another one, or with another count, type, operation or root (" +
                                    std::to_string(other.count) + " and " + std::to_string(call.count) + " elements)");
      alike = false;
    }
  if (alike) get(call);
  seat().left = number;
  wait_until(each([](Seat& s) { return s.left.load(); }));
}

void Comm::run_messages(const std::vector<Call>& calls, bool together) {
  std::array<std::vector<const Call*>, kMostRanks> sends, receives;
  for (const Call& c : calls) (c.kind == Kind::Send ? sends : receives)[static_cast<size_t>(c.root)].push_back(&c);
  const auto of = [](const auto& lists, size_t peer, size_t round) {
    return round < lists[peer].size() ? lists[peer][round] : nullptr;
  };
  // the first message to each rank, then the second one
  for (size_t round = 0, more = 1; more; ++round) {
    more = 0;
    size_t offset = 0;
    for (size_t peer = 0; peer < static_cast<size_t>(size); ++peer) {
      const Call* c = of(sends, peer, round);
      if (!c) continue;
      more = 1;
      const size_t bytes = c->count * item_size(c->type);
      if (pwrite(mailbox, c->in, bytes, static_cast<off_t>(offset)) != static_cast<ssize_t>(bytes))
        fail(ncclSystemError, "there is no memory for what is sent");
      Letter& letter = seat().letters[peer];
      letter.offset = offset, letter.bytes = bytes;
      letter.sent = ++sent[peer];
      offset += bytes;
    }
    for (size_t peer = 0; peer < static_cast<size_t>(size); ++peer) {
      const Call* c = of(receives, peer, round);
      if (!c) continue;
      more = 1;
      Letter& letter = table->seats[peer].letters[rank];
      const uint64_t number = ++received[peer];
      if (!wait_until([&] { return letter.sent >= number; })) return;
      const size_t bytes = c->count * item_size(c->type);
      if (bytes != letter.bytes)
        fail(ncclInternalError, "rank " + std::to_string(peer) + " sends " + std::to_string(letter.bytes) +
                                    " bytes, and this one receives " + std::to_string(bytes));
      const std::vector<char> data = read(static_cast<int>(peer), letter.offset, std::min<size_t>(bytes, letter.bytes));
      std::copy(data.begin(), data.end(), static_cast<char*>(c->out));
      letter.taken = number;
    }
    for (size_t peer = 0; peer < static_cast<size_t>(size); ++peer) {
      if (!of(sends, peer, round)) continue;
      Letter& letter = seat().letters[peer];
      // in its stream each waits for the other to come to its receive: so would NCCL with more than its buffers hold
      seat().stuck_on = together ? 0 : static_cast<int>(peer) + 1;
      int together_for = 0;
      constexpr int kSure = 5000;
      const bool done = wait_until([&] {
        if (letter.taken >= sent[peer]) return true;
        const bool both = !together && table->seats[peer].stuck_on == rank + 1;
        together_for = both ? together_for + 1 : 0;
        if (together_for == kSure)
          fail(ncclInternalError, "this rank and rank " + std::to_string(peer) +
                                      " send to each other outside of a group, and wait for each other");
        return false;
      });
      seat().stuck_on = 0;
      if (!done) return;
    }
  }
}

}  // namespace facula::emulator::nccl
