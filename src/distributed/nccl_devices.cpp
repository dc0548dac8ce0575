#include "distributed/nccl_devices.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "cuda/device.h"
#include "distributed/nccl_library.h"
#include "distributed/pause.h"
#include "distributed/socket.h"

namespace facula::distributed {

using namespace nccl_library;

namespace {

constexpr double kPatience = 60;

struct Member {
  int device;
  Stream stream;
  ncclComm_t comm = nullptr;
};
using Members = std::vector<Member>;

void wait_until_ready(const Members& members, const char* call) {
  Pause pause(100, 1000);
  const Deadline deadline = Deadline::after(kPatience);
  for (const Member& m : members)
    for (; !is_ready(m.comm, call); pause.next())
      if (deadline.passed()) fail(Trouble::Backend, "nccl: ", call, " is not done after ", kPatience, " s");
}

Members connected(const std::vector<int>& devices) {
  ncclUniqueId id{};
  check(nccl().ncclGetUniqueId(&id), "ncclGetUniqueId");
  Members members;
  for (int device : devices) {
    cuda::DeviceGuard guard(device);
    Member m{device, take_stream(device)};
    ncclConfigBegin how = config();
    check(nccl().ncclCommInitRankConfig(&m.comm, static_cast<int>(devices.size()), id, static_cast<int>(members.size()),
                                        &how),
          "ncclCommInitRankConfig");
    members.push_back(m);
  }
  wait_until_ready(members, "ncclCommInitRankConfig");
  return members;
}

/// By devices, in the order of ranks. Communicators are called by one thread at a time.
struct Known {
  std::mutex mutex;
  std::map<std::vector<int>, Members> members;
};
Known& known() {
  static Known& k = *new Known;
  return k;
}

void* memory_of(const Tensor& t) { return t.data(); }

struct Arguments {
  Kind kind;
  size_t count;
  Number number;
  ncclRedOp_t op;
  int root;
};

ncclResult_t queue(const Arguments& a, const Member& m, const void* in, void* out) {
  const Functions& call = nccl();
  const CUstream stream = cuda::handle(m.stream);
  switch (a.kind) {
    case Kind::AllReduce: return call.ncclAllReduce(in, out, a.count, a.number.type, a.op, m.comm, stream);
    case Kind::Reduce: return call.ncclReduce(in, out, a.count, a.number.type, a.op, a.root, m.comm, stream);
    case Kind::ReduceScatter: return call.ncclReduceScatter(in, out, a.count, a.number.type, a.op, m.comm, stream);
    case Kind::Broadcast: return call.ncclBroadcast(in, out, a.count, a.number.type, a.root, m.comm, stream);
    case Kind::AllGather: return call.ncclAllGather(in, out, a.count, a.number.type, m.comm, stream);
    default: return ncclInvalidUsage;
  }
}

void check_tensors(const std::vector<Tensor>& tensors, const Tensor& like) {
  for (const Tensor& t : tensors) {
    FACULA_CHECK(t.device().is_cuda() && t.is_contiguous(), ErrorKind::Type,
                 "nccl: tensors must be contiguous ones of CUDA devices, got one on ", t.device());
    FACULA_CHECK(t.dtype() == like.dtype(), ErrorKind::Type, "nccl: tensors must have one dtype, got ", like.dtype(),
                 " and ", t.dtype());
  }
}

std::vector<int> devices_of(const std::vector<Tensor>& tensors) {
  std::vector<int> devices;
  for (const Tensor& t : tensors) {
    FACULA_CHECK(std::find(devices.begin(), devices.end(), t.device().index) == devices.end(), ErrorKind::Value,
                 "nccl: tensors must be on different devices, got two on ", t.device());
    devices.push_back(t.device().index);
  }
  return devices;
}

void check_outputs(Kind kind, const std::vector<Tensor>& in, const std::vector<Tensor>& out, size_t root) {
  const auto n = static_cast<int64_t>(in.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const Tensor& source = in[kind == Kind::Reduce ? root : i];
    const int64_t more = kind == Kind::AllGather ? source.numel() * n : source.numel(),
                  is = kind == Kind::ReduceScatter ? out[i].numel() * n : out[i].numel();
    FACULA_CHECK(is == more, ErrorKind::Value, "nccl: an output does not fit its input, got ", out[i].numel(), " and ",
                 source.numel(), " elements for ", n, " devices");
    FACULA_CHECK(out[i].device() == source.device(), ErrorKind::Value,
                 "nccl: an output must be on the device of its input, got ", out[i].device(), " and ", source.device());
  }
  for (const Tensor& t : in)
    FACULA_CHECK(t.numel() == in[0].numel(), ErrorKind::Value, "nccl: tensors must have one number of elements, got ",
                 in[0].numel(), " and ", t.numel());
}

}  // namespace

std::string nccl_unique_id() {
  if (const std::string why = why_no_nccl(); !why.empty()) fail(Trouble::Backend, "nccl.unique_id: ", why);
  ncclUniqueId id{};
  check(nccl().ncclGetUniqueId(&id), "ncclGetUniqueId");
  return {id.internal, sizeof id.internal};
}

void run_on_devices(Kind kind, const std::vector<Tensor>& in, const std::vector<Tensor>& out, Reduction reduction,
                    int root) {
  if (const std::string why = why_no_nccl(); !why.empty()) fail(Trouble::Backend, "nccl: ", why);
  FACULA_CHECK(!in.empty(), ErrorKind::Value, "nccl: a tensor on each device is expected, got none");
  FACULA_CHECK(root >= 0 && root < static_cast<int>(in.size()), ErrorKind::Value, "nccl: there are ", in.size(),
               " tensors, got root ", root);
  check_tensors(in, in[0]);
  check_tensors(out, in[0]);
  check_outputs(kind, in, out, static_cast<size_t>(root));
  const DType dtype = in[0].dtype();
  const bool reduces = kind == Kind::AllReduce || kind == Kind::Reduce || kind == Kind::ReduceScatter;
  FACULA_CHECK(!reduces || can_reduce_by_nccl(dtype, reduction), ErrorKind::Type,
               "nccl: this dtype is not reduced, got ", dtype);
  Arguments a{kind, 0, reduces ? number_of(dtype) : Number{ncclUint8, static_cast<size_t>(item_size(dtype))},
              op_of(dtype, reduction), root};
  a.count = static_cast<size_t>(kind == Kind::ReduceScatter ? out[0].numel() : in[0].numel()) * a.number.each;

  Known& all = known();
  const std::lock_guard lock(all.mutex);
  const std::vector<int> devices = devices_of(in);
  auto at = all.members.find(devices);
  if (at == all.members.end()) at = all.members.emplace(devices, connected(devices)).first;
  const Members& members = at->second;
  for (const Member& m : members) {
    cuda::Event before;
    before.record(cuda::current_stream(m.device));
    before.block(m.stream);
  }
  check(nccl().ncclGroupStart(), "ncclGroupStart");
  ncclResult_t wrong = ncclSuccess;
  for (size_t i = 0; i < members.size(); ++i) {
    cuda::DeviceGuard guard(members[i].device);
    const bool has_out = kind != Kind::Reduce || static_cast<int>(i) == root;
    void* to = !has_out ? nullptr : kind == Kind::Reduce ? memory_of(out[0]) : memory_of(out[i]);
    const ncclResult_t result = queue(a, members[i], memory_of(in[i]), to);
    if (wrong == ncclSuccess && result != ncclInProgress) wrong = result;
  }
  const ncclResult_t ended = nccl().ncclGroupEnd();
  check(wrong, "a collective of devices", members[0].comm);
  check(ended, "ncclGroupEnd", members[0].comm);
  wait_until_ready(members, "a collective of devices");
  for (const Member& m : members) {
    cuda::Event after;
    after.record(m.stream);
    after.block(cuda::current_stream(m.device));
  }
}

}  // namespace facula::distributed
