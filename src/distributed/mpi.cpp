// The MPI engine: non-blocking calls on communicators, one after another from whoever holds the world's lock.
//
// MPI is entered as a session. Its world stays when the group is destroyed: when the same processes, or some of them,
// meet again, their new world is a communicator of the living one. After a fault MPI is not called again.
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "distributed/agreement.h"
#include "distributed/mpi_library.h"
#include "distributed/pmi.h"
#include "distributed/reduce.h"
#include "distributed/tcp_store.h"

namespace facula::distributed {
namespace {

using namespace mpi;

// ---- the world that MPI knows, at most one

struct Living {
  std::string job;
  size_t machines = 0;
  int rank = -1;
  Session session = Session::Null;
  Comm comm = Comm::Null;
  bool entering = false, broken = false;
};
Living& living = *new Living;  // never destroyed: a thread that MPI keeps may write it while the process ends

/// What others must know of this process to join it.
struct Card {
  std::string machine, job;
  int rank_there;
};

constexpr const char* kFailed = "!";  // in the place of a job

/// Who shares memory: one kernel, one mount of /dev/shm. FACULA_DIST_MACHINE separates processes of one machine.
std::string machine_name() {
  if (const char* named = std::getenv("FACULA_DIST_MACHINE")) return named;
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  file >> boot;
  struct stat s{};
  ::stat("/dev/shm", &s);
  return boot + ":" + std::to_string(s.st_dev) + ":" + std::to_string(s.st_ino);
}

std::vector<Card> exchange_cards(Store& store, int rank, int size, double timeout) {
  const bool failed = living.broken || living.entering;
  const std::string job = failed ? kFailed : living.comm == Comm::Null ? "-" : living.job;
  store.set("card/" + std::to_string(rank), machine_name() + "\n" + job + "\n" + std::to_string(living.rank));
  Texts keys;
  for (int i = 0; i < size; ++i) keys.push_back("card/" + std::to_string(i));
  const Reply reply = store.call({StoreOp::Get, keys}, timeout);
  if (reply.answer != Answer::Done) {
    std::string missing;
    for (int i = 0; i < size; ++i)
      if (!store.has({keys[static_cast<size_t>(i)]})) missing += "\n  missing  rank " + std::to_string(i);
    fail(Trouble::Backend, "init_process_group gave up after ", timeout, " s: all ranks came, and some went no further",
         missing);
  }
  std::vector<Card> cards;
  for (const std::string& text : reply.values) {
    const size_t first = text.find('\n'), second = text.find('\n', first + 1);
    cards.push_back(
        {text.substr(0, first), text.substr(first + 1, second - first - 1), std::atoi(text.c_str() + second + 1)});
  }
  return cards;
}

/// Whether all ranks belong to one world of MPI already. MPICH 5.0 enters one world in the life of a process: the ranks
/// of another one are all new.
bool all_in_one_world(const std::vector<Card>& cards) {
  const auto is_first = [&](const Card& c) { return c.job == cards[0].job; };
  const bool alike = std::all_of(cards.begin(), cards.end(), is_first);
  if (alike && cards[0].job == "-") return false;
  if (alike && cards[0].job != kFailed) return true;
  std::string old;
  for (size_t r = 0; r < cards.size(); ++r)
    if (cards[r].job != "-") old += " " + std::to_string(r);
  fail(Trouble::Backend, "init_process_group: ranks", old,
       " were in a group of other processes, or in one that failed, ",
       "and MPI cannot leave it: start these processes anew");
}

// ---- the environment that MPI reads when it starts

void set_default(const char* name, const std::string& value) { setenv(name, value.c_str(), 0); }

/// The interface by which this process reaches the store; empty if that is not known.
std::string interface_to(const std::string& host, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_DGRAM;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return {};
  std::string name;
  sockaddr_storage mine{};
  socklen_t size = sizeof mine;
  const Socket socket(::socket(found->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const bool routed = ::connect(socket.fd(), found->ai_addr, found->ai_addrlen) == 0 &&
                      getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&mine), &size) == 0;
  freeaddrinfo(found);
  ifaddrs* all = nullptr;
  if (!routed || getifaddrs(&all) != 0) return {};
  for (ifaddrs* i = all; i; i = i->ifa_next) {
    if (!i->ifa_addr || i->ifa_addr->sa_family != mine.ss_family) continue;
    const bool same = mine.ss_family == AF_INET6
                          ? std::memcmp(&reinterpret_cast<sockaddr_in6*>(i->ifa_addr)->sin6_addr,
                                        &reinterpret_cast<sockaddr_in6&>(mine).sin6_addr, sizeof(in6_addr)) == 0
                          : reinterpret_cast<sockaddr_in*>(i->ifa_addr)->sin_addr.s_addr ==
                                reinterpret_cast<sockaddr_in&>(mine).sin_addr.s_addr;
    if (same) name = i->ifa_name;
  }
  freeifaddrs(all);
  return name;
}

bool has_devices(const char* kind) {
  std::error_code error;
  return !std::filesystem::is_empty(kind, error) && !error;
}
/// Whether there is nothing faster between machines.
bool only_tcp() {
  const auto kinds = {"/sys/class/infiniband", "/sys/class/cxi", "/sys/class/cxi_user"};
  return std::none_of(kinds.begin(), kinds.end(), has_devices);
}

void choose_network(const Store& store) {
  if (!has_devices("/sys/class/infiniband")) set_default("MPIR_CVAR_CH4_NETMOD", "ofi");  // many times faster than UCX
  set_default("UCX_ERROR_SIGNALS", "");  // crashes are Python's to report
  std::string name;
  for (const char* variable : {"GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME"})
    if (const char* given = std::getenv(variable); given && name.empty()) name = given;
  if (const auto* tcp = dynamic_cast<const TcpStore*>(&store); tcp && name.empty())
    name = interface_to(tcp->host(), tcp->port());
  if (name.empty()) return;
  set_default("FI_TCP_IFACE", name);
  set_default("UCX_NET_DEVICES", name);
}

/// An environment variable as long as it lives; not there without a value.
class Setting {
 public:
  Setting(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before, had_ = true;
    if (value) setenv(name, value->c_str(), 1);
    else unsetenv(name);
  }
  ~Setting() {
    if (had_) setenv(name_, before_.c_str(), 1);
    else unsetenv(name_);
  }

 private:
  const char* name_;
  std::string before_;
  bool had_ = false;
};

/// libfabric's own messages over TCP cost a third less than those of the layer that MPICH takes (ofi_rxm), but as it
/// comes it keeps only 64 that nobody waits for yet, and a rank that waits for a later one hangs. Those of more than
/// 256 KiB are announced first, so that they take no memory.
std::optional<std::string> tcp_provider() {
  const char* given = std::getenv("FI_PROVIDER");
  if (given || !only_tcp()) return given ? std::optional<std::string>(given) : std::nullopt;
  set_default("FI_TCP_MAX_SAVED", std::to_string(std::numeric_limits<int>::max()));
  set_default("FI_TCP_MAX_SAVED_SIZE", std::to_string(256 << 10));
  return "tcp";
}

/// Up to so many bytes every rank adds up whole vectors of others, above that it adds up its part and gathers the rest:
/// fewer messages against fewer bytes. With two ranks the bytes are the same.
void choose_sums(int size) {
  set_default("MPIR_CVAR_ALLREDUCE_SHORT_MSG_SIZE", std::to_string(size > 2 ? 32 << 10 : 64 << 20));
}

// ---- joining

std::string job_name(Store& store, int rank) {
  if (rank == 0) {
    std::ifstream file("/proc/sys/kernel/random/uuid");
    std::string uuid;
    file >> uuid;
    std::erase(uuid, '-');
    store.set("job",
              uuid.empty() ? std::to_string(getpid()) + "." + std::to_string(Deadline::after(0).seconds_left()) : uuid);
  }
  return store.get("job");
}

/// Once all ranks have opened the shared memory, its names are taken away: whatever happens later, nothing is left.
void forget_names_together(double timeout) {
  const Functions& call = library().call;
  int8_t all = 1;
  mpi::Request request;
  check(call.Iallreduce_c(kInPlace, &all, 1, Type::Int8, Op::Min, living.comm, &request), "init_process_group");
  Status status;
  int done = 0;
  for (const Deadline deadline = Deadline::after(timeout); !done; std::this_thread::yield()) {
    check(call.Test(&request, &done, &status), "init_process_group");
    if (!done && deadline.passed()) return;  // the names stay
  }
  forget_shared_names();
}

void enter(const std::shared_ptr<Store>& store, const std::vector<Card>& cards, int rank, double timeout) {
  const Functions& call = library().call;
  const int size = static_cast<int>(cards.size());
  PmiJob job{job_name(*store, rank), {}, rank, size, timeout};
  std::vector<std::string> machines;
  for (const Card& card : cards) machines.push_back(card.machine);
  job.mapping = process_mapping(machines);
  choose_network(*store);
  choose_sums(size);
  const Setting provider("FI_PROVIDER", tcp_provider());  // NCCL may want another one
  const std::string name = job.name;
  living.job = name;
  living.machines = std::set<std::string>(machines.begin(), machines.end()).size();
  const Setting fd("PMI_FD", std::to_string(serve_pmi(store->clone(), std::move(job))));
  const Setting ranks("PMI_RANK", std::to_string(rank)), sizes("PMI_SIZE", std::to_string(size));
  // Before it calls exit() it would notify the others, and wait for ever for those who cannot be reached.
  const Setting abort("MPIR_CVAR_COREDUMP_ON_ABORT",
                      library().aborts_to_us ? std::optional<std::string>("1") : std::nullopt);
  const Setting pmix("PMIX_NAMESPACE", std::nullopt);  // Open MPI's mpirun; MPICH refuses to choose between the two
  living.entering = true;                              // for ever, if it fails
  check(call.Session_init(Info::Null, Errors::Return, &living.session), "init_process_group: MPI_Session_init");
  mpi::Group everybody;
  check(call.Group_from_session_pset(living.session, "mpi://WORLD", &everybody), "init_process_group");
  check(call.Comm_create_from_group(everybody, name.c_str(), Info::Null, Errors::Return, &living.comm),
        "init_process_group: MPI_Comm_create_from_group");
  call.Group_free(&everybody);
  living.rank = rank;
  living.entering = false;
  forget_names_together(timeout);
}

/// A communicator of some ranks of another one, in this order.
Comm subset(Comm comm, const std::vector<int>& ranks, int number) {
  const Functions& call = library().call;
  mpi::Group all, some;
  Comm made = Comm::Null;
  check(call.Comm_group(comm, &all), "new_group");
  check(call.Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some), "new_group");
  const int code = call.Comm_create_group(comm, some, number, &made);
  call.Group_free(&some);
  call.Group_free(&all);
  check(code,
        "new_group: MPI has no room for another communicator (it has about 2,000; destroy_process_group frees them)");
  call.Comm_set_errhandler(made, Errors::Return);
  return made;
}

void combine_all(void* in, void* inout, int* count, Type*) {
  for (int i = 0; i < *count; ++i) combine(static_cast<const Agreement*>(in)[i], static_cast<Agreement*>(inout)[i]);
}

class MpiEngine final : public Engine {
 public:
  MpiEngine(Comm world, const std::vector<Card>& cards) : call_(library().call), comms_{world} {
    const auto here =
        std::count_if(cards.begin(), cards.end(), [&](const Card& c) { return c.machine == machine_name(); });
    load_ = static_cast<double>(here) / std::max(std::thread::hardware_concurrency(), 1u);
    check(call_.Type_contiguous(sizeof(Agreement), Type::Byte, &agreement_), "init_process_group");
    check(call_.Type_commit(&agreement_), "init_process_group");
    check(call_.Op_create(combine_all, 1, &combine_), "init_process_group");
    for (int d : {0, 1})
      for (int r = 0; r < kReductions; ++r)
        check(call_.Op_create(own_reduction(d ? DType::BFloat16 : DType::Float16, static_cast<Reduction>(r)), 1,
                              &own_[d][r]),
              "init_process_group");
  }

  Request issue(int group, const Transfer& t) override {
    const Calling calling;
    mpi::Request request = mpi::Request::Null;
    const int code = start(comms_.at(static_cast<size_t>(group)), t, &request);
    if (code != kSuccess) explain(code, "issue");
    return static_cast<Request>(request);
  }

  bool test(Request& request, Received& received) override {
    const Calling calling;
    auto r = static_cast<mpi::Request>(request);
    int done = 0;
    Status status{};
    const int code = call_.Test(&r, &done, &status);
    request = static_cast<Request>(r);
    if (code != kSuccess) explain(code, "test");
    if (!done) return false;
    received.source = status.source;
    call_.Get_count_c(&status, Type::Byte, &received.bytes);
    return true;
  }

  void progress() override {
    const Calling calling;
    int found;
    call_.Iprobe(mpi::kAnySource, mpi::kAnyTag, comms_[0], &found, nullptr);
  }

  int make_group(const std::vector<int>& ranks, int number) override {
    const Calling calling;
    comms_.push_back(subset(comms_[0], ranks, number));
    return static_cast<int>(comms_.size()) - 1;
  }

  void drop_group(int group) override {
    const Calling calling;
    Comm& comm = comms_[static_cast<size_t>(group)];
    if (group != 0 && comm != Comm::Null) call_.Comm_free(&comm);
    comm = Comm::Null;
  }

  double ranks_per_processor() const override { return load_; }

  void abandon() override { living.broken = true; }
  void interrupt() override { Calling::interrupt(); }

 private:
  /// What is wrong with one call is its own error; anything else is the end of MPI, and most often that of a process,
  /// whose memory or connection is gone: who it was is heard elsewhere.
  [[noreturn]] void explain(int code, const char* what) {
    int kind = 0;
    call_.Error_class(code, &kind);
    if (kind == kErrTruncate) fail(Trouble::Backend, "recv: more was sent than the tensor holds");
    if (kind < kErrUnknown) check(code, what);
    throw EngineGaveUp(error_text(code, what));
  }

  int start(Comm comm, const Transfer& t, mpi::Request* request) {
    const void* in = t.in == t.out ? kInPlace : t.in;
    const auto reduction = [&] {
      const int d = t.dtype == DType::BFloat16;
      return arithmetic(t.dtype, t.reduction, own_[d][static_cast<int>(t.reduction)]);
    };
    const Count n = t.count;
    switch (t.kind) {
      case Kind::AllReduce: {
        const Arithmetic a = reduction();
        return call_.Iallreduce_c(in, t.out, n * a.per_element, a.type, a.op, comm, request);
      }
      case Kind::Reduce: {  // `out` is the root's alone
        const Arithmetic a = reduction();
        return call_.Ireduce_c(t.out ? in : t.in, t.out, n * a.per_element, a.type, a.op, t.root, comm, request);
      }
      case Kind::ReduceScatter: {
        const Arithmetic a = reduction();
        return call_.Ireduce_scatter_block_c(t.in, t.out, n * a.per_element, a.type, a.op, comm, request);
      }
      case Kind::Broadcast: return call_.Ibcast_c(t.out, n, Type::Byte, t.root, comm, request);
      case Kind::AllGather: return call_.Iallgather_c(t.in, n, Type::Byte, t.out, n, Type::Byte, comm, request);
      case Kind::Gather: return call_.Igather_c(t.in, n, Type::Byte, t.out, n, Type::Byte, t.root, comm, request);
      case Kind::Scatter: return call_.Iscatter_c(t.in, n, Type::Byte, t.out, n, Type::Byte, t.root, comm, request);
      case Kind::AllToAll: {
        const Splits& s = *t.splits;
        static_assert(sizeof(Aint) == sizeof(int64_t));
        return call_.Ialltoallv_c(t.in, s.in_bytes.data(), reinterpret_cast<const Aint*>(s.in_offsets.data()),
                                  Type::Byte, t.out, s.out_bytes.data(),
                                  reinterpret_cast<const Aint*>(s.out_offsets.data()), Type::Byte, comm, request);
      }
      case Kind::Send: return call_.Isend_c(t.in, n, Type::Byte, t.root, t.tag, comm, request);
      case Kind::Recv: return call_.Irecv_c(t.out, n, Type::Byte, t.root, t.tag, comm, request);
      case Kind::Barrier: return call_.Iallreduce_c(in, t.out, n, agreement_, combine_, comm, request);
    }
    return kSuccess;
  }

  const Functions& call_;
  std::vector<Comm> comms_;
  double load_;
  Type agreement_;
  Op combine_;
  std::array<std::array<Op, kReductions>, 2> own_;
};

}  // namespace

/// What this process has open, and by their names what MPICH makes for a job: who made it may be gone before another
/// has it open. MPICH 5.0 takes the job's name, later ones that of the first world that a process enters.
void forget_shared_names() {
  for (const char* world : {"", "-1"}) {
    uint32_t hash = 2166136261u;  // FNV-1a
    for (const char c : living.job + world) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619u;
    for (size_t machine = 0; machine < living.machines; ++machine) {
      char name[64];
      std::snprintf(name, sizeof name, "/dev/shm/mpich_shm_%x_%zu", hash, machine);
      ::unlink(name);
    }
  }
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    const size_t at = line.find("/dev/shm/mpich_shm_");
    if (at != std::string::npos && line.find(' ', at) == std::string::npos) ::unlink(line.c_str() + at);
  }
}

std::string find_mpi() { return library().path; }

std::unique_ptr<Engine> make_mpi_engine(const std::shared_ptr<Store>& store, int rank, int size, double timeout) {
  library();
  const Calling calling;
  const std::vector<Card> cards = exchange_cards(*store, rank, size, timeout);
  if (!all_in_one_world(cards)) {
    enter(store, cards, rank, timeout);
    return std::make_unique<MpiEngine>(living.comm, cards);
  }
  std::vector<int> there;
  for (const Card& card : cards) there.push_back(card.rank_there);
  return std::make_unique<MpiEngine>(subset(living.comm, there, 0), cards);
}

}  // namespace facula::distributed
