#include "distributed/operation.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

#include "core/backend.h"
#include "core/kernel.h"
#include "core/write.h"
#include "cuda/allocator.h"
#include "cuda/graph.h"
#include "ops/contiguous.h"

namespace facula::distributed {
namespace {

// Bytes of a transfer. Measured with 2 ranks: 256 KiB to 2 MiB are alike, one of 100 MB is slow. With 8 ranks on 2
// processors each piece costs changes from process to process, and 4 MiB take half the time of four times 1 MiB.
constexpr int64_t kPiece = 1 << 20, kLargePiece = 4 << 20;
constexpr int kFew = 4;  // ranks

constexpr const char* kReductionNames[] = {"SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR", "PREMUL_SUM"};

bool reduces(Kind kind) { return kind == Kind::AllReduce || kind == Kind::Reduce || kind == Kind::ReduceScatter; }
bool has_root(Kind kind) {
  return kind == Kind::Reduce || kind == Kind::Broadcast || kind == Kind::Gather || kind == Kind::Scatter;
}

template <class T>
void scale(void* memory, int64_t n, double factor, double divisor) {
  T* p = static_cast<T*>(memory);
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_integral_v<T>) p[i] = static_cast<T>(p[i] / static_cast<T>(divisor));
    else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
      p[i] = T(static_cast<float>(p[i]) * static_cast<float>(factor) / static_cast<float>(divisor));
    else if constexpr (std::is_same_v<T, std::complex<float>>)
      p[i] = p[i] * static_cast<float>(factor) / static_cast<float>(divisor);
    else p[i] = p[i] * static_cast<T>(factor) / static_cast<T>(divisor);
  }
}

/// Multiplies by `factor`, then divides; integers are divided alone.
void scale(const Tensor& t, double factor, double divisor) {
  const auto run = [&](auto zero) { scale<decltype(zero)>(t.data(), t.numel(), factor, divisor); };
  switch (t.dtype()) {
    case DType::UInt8: return run(uint8_t{});
    case DType::Int8: return run(int8_t{});
    case DType::Int16: return run(int16_t{});
    case DType::Int32: return run(int32_t{});
    case DType::Int64: return run(int64_t{});
    case DType::UInt16: return run(uint16_t{});
    case DType::UInt32: return run(uint32_t{});
    case DType::UInt64: return run(uint64_t{});
    case DType::Float16: return run(Half{});
    case DType::BFloat16: return run(BFloat16{});
    case DType::Float32: return run(float{});
    case DType::Float64: return run(double{});
    case DType::Complex64: return run(std::complex<float>{});
    case DType::Complex128: return run(std::complex<double>{});
    default: return;  // can_reduce() has refused the others
  }
}

/// A tensor that transfers write to, until they are done or given up.
struct Written {
  Written(const Tensor& t, const char* op) : tensor(t), scope(std::in_place, tensor, op) {}
  Tensor tensor;
  std::optional<WriteScope> scope;
};

}  // namespace

/// Checks tensors and makes the transfers.
struct Planner {
  Operation& op;
  const Call& call;
  int rank, size;

  /// Where elements lie that transfers read and write.
  Device place() const { return op.route == Route::Device ? op.device : kCPU; }
  bool is_nccl() const { return op.route == Route::Device; }

  void check(const Tensor& t) const {
    FACULA_CHECK(t.device() == op.device, ErrorKind::Value, call.name, ": expected tensors on one device, got ",
                 op.device, " and ", t.device());
    FACULA_CHECK(!t.is_conj(), ErrorKind::Value, call.name,
                 ": a tensor is conjugated lazily, call resolve_conj() first");
    FACULA_CHECK(t.dtype() == op.dtype, ErrorKind::Value, call.name, ": tensors of one dtype, got ", op.dtype, " and ",
                 t.dtype());
  }
  /// Elements in order, to read.
  Tensor input(const Tensor& t) const {
    materialize(t);
    check(t);
    op.memory.push_back(op.route == Route::Staged ? ops::on_host(t) : ops::as_contiguous(t));
    return op.memory.back();
  }
  /// Elements in order, to write; what is not so is copied back in the end. `reads`: also what is there counts.
  Tensor output(const Tensor& t, bool reads) const {
    materialize(t);
    check(t);
    check_written(t, call.name);
    const bool staged = op.route == Route::Staged;
    const Tensor at = t.is_contiguous() && !staged ? t
                      : !reads                     ? empty(t.sizes(), t.dtype(), place())
                      : staged                     ? ops::on_host(t)
                                                   : ops::contiguous_copy(t);
    op.memory.push_back(at);
    op.finish.push_back([at, written = std::make_shared<Written>(t, call.name)] {
      if (!at.is_same(written->tensor)) copy_elements(written->tensor, at);
      written->scope.reset();
    });
    return at;
  }
  /// Parts of all ranks behind each other: the one tensor, or copies of the list.
  Tensor joined_input(const std::vector<Tensor>& list, int64_t part) const {
    if (list.size() == 1 && list[0].numel() == part * size) return input(list[0]);
    const Tensor flat = buffer(part * size);
    parts(list, flat, [](const Tensor& t, const Tensor& p) { copy_elements(p, t); });
    return flat;
  }
  /// Copies the parts of `flat` into the list in the end.
  void give_parts(const std::vector<Tensor>& list, const Tensor& flat) const {
    for (const Tensor& t : list) check_written(t, call.name);
    op.finish.push_back([list, flat, self = *this, name = call.name] {
      self.parts(list, flat, [name](const Tensor& t, const Tensor& p) {
        const WriteScope write(t, name);
        copy_elements(t, p);
      });
    });
  }
  Tensor joined_output(const std::vector<Tensor>& list, int64_t part) const {
    if (list.size() == 1 && list[0].numel() == part * size) return output(list[0], false);
    const Tensor flat = buffer(part * size);
    give_parts(list, flat);
    return flat;
  }
  template <class F>
  void parts(const std::vector<Tensor>& list, const Tensor& flat, F f) const {
    int64_t at = 0;
    for (const Tensor& t : list) {
      materialize(t);
      check(t);
      std::vector<int64_t> strides(static_cast<size_t>(t.dim()));
      int64_t step = 1;
      for (int64_t d = t.dim() - 1; d >= 0; --d) strides[static_cast<size_t>(d)] = step, step *= t.size(d);
      if (t.numel() > 0) f(t, make_view(flat, t.sizes(), {strides.data(), strides.size()}, at, false));
      at += t.numel();
    }
  }
  Tensor buffer(int64_t count) const {
    op.memory.push_back(empty({count}, op.dtype, place()));
    return op.memory.back();
  }
  /// Of equal tensors for all ranks.
  int64_t part_of(const std::vector<Tensor>& list) const {
    for (const Tensor& t : list)
      FACULA_CHECK(t.numel() == list[0].numel() && t.dtype() == op.dtype, ErrorKind::Value, call.name,
                   ": tensors of one size and dtype for all ranks, got ", op.dtype, " of ", list[0].numel(),
                   " elements and ", t.dtype(), " of ", t.numel());
    return list[0].numel();
  }
  void expect(const std::vector<Tensor>& list, int64_t part, const char* what) const {
    int64_t total = 0;
    for (const Tensor& t : list) total += t.numel();
    FACULA_CHECK(total == part * size, ErrorKind::Value, call.name, ": ", what, " holds ", size, " times ", part,
                 " elements, got ", total);
  }

  void add(Transfer t) const {
    t.kind = call.kind;
    t.dtype = op.dtype;
    t.reduction = call.reduction;
    t.root = call.root;
    t.tag = call.tag;
    t.factor = call.factor;
    t.device = op.device;
    t.after = is_nccl() ? &op.ready : nullptr;
    op.plan.push_back(t);
  }
  /// One transfer for each MiB of the host's; `unit` is 1 where elements are counted, else the bytes of one.
  void in_pieces(const void* in, void* out, int64_t n, int64_t unit) const {
    const int64_t bytes = item_size(op.dtype),
                  piece = is_nccl() ? n : std::max<int64_t>((size > kFew ? kLargePiece : kPiece) / bytes, 1);
    for (int64_t at = 0; at < n; at += piece) {
      const auto* from = in ? static_cast<const char*>(in) + at * bytes : nullptr;
      auto* to = out ? static_cast<char*>(out) + at * bytes : nullptr;
      add({.kind = call.kind, .in = from, .out = to, .count = std::min(piece, n - at) * unit});
    }
  }
  /// What is done to values before (once they are copies of the program's) and after they are reduced.
  Tensor premultiplied(const Tensor& t) const {
    if (!scales()) return t;
    const Tensor copy = ops::contiguous_copy(t);
    op.memory.push_back(copy);
    scale(copy, call.factor, 1);
    return copy;
  }
  /// NCCL multiplies and averages itself.
  bool scales() const { return call.reduction == Reduction::PremulSum && !is_nccl(); }
  void averaged(const Tensor& t) const {
    if (call.reduction == Reduction::Avg && !is_nccl())
      op.finish.insert(op.finish.begin(), [t, n = size] { scale(t, 1, n); });
  }

  void all_reduce() const {
    for (const Tensor& given : call.out) {
      const Tensor t = output(given, true);
      if (scales()) scale(t, call.factor, 1);
      in_pieces(t.data(), t.data(), t.numel(), 1);
      averaged(t);
      op.count += t.numel();
    }
  }
  void reduce() const {
    const bool here = rank == call.root;
    const Tensor t = here ? output(call.out[0], true) : premultiplied(input(call.out[0]));
    if (here && scales()) scale(t, call.factor, 1);
    in_pieces(t.data(), here ? t.data() : nullptr, t.numel(), 1);
    if (here) averaged(t);
    op.count = t.numel();
  }
  void broadcast() const {
    for (const Tensor& given : call.out) {
      const Tensor t = rank == call.root ? input(given) : output(given, false);
      in_pieces(t.data(), t.data(), t.numel(), item_size(op.dtype));
      op.count += t.numel();
    }
  }
  void all_gather() const {
    const Tensor in = input(call.in[0]);
    expect(call.out, in.numel(), "the output");
    const Tensor out = joined_output(call.out, in.numel());
    op.count = in.numel();
    if (op.count) add({.kind = call.kind, .in = in.data(), .out = out.data(), .count = op.count * item_size(op.dtype)});
  }
  void gather() const {
    const Tensor in = input(call.in[0]);
    if (rank == call.root) expect(call.out, in.numel(), "gather_list");
    char* out = rank == call.root ? joined_output(call.out, in.numel()).data<char>() : nullptr;
    op.count = in.numel();
    if (op.count) add({.kind = call.kind, .in = in.data(), .out = out, .count = op.count * item_size(op.dtype)});
  }
  void scatter() const {
    const Tensor out = output(call.out[0], false);
    if (rank == call.root) expect(call.in, out.numel(), "scatter_list");
    const char* in = rank == call.root ? joined_input(call.in, out.numel()).data<char>() : nullptr;
    op.count = out.numel();
    if (op.count) add({.kind = call.kind, .in = in, .out = out.data(), .count = op.count * item_size(op.dtype)});
  }
  void reduce_scatter() const {
    const Tensor out = output(call.out[0], false);
    expect(call.in, out.numel(), "the input");
    const Tensor in = premultiplied(joined_input(call.in, out.numel()));
    op.count = out.numel();
    if (op.count) add({.kind = call.kind, .in = in.data(), .out = out.data(), .count = op.count});
    averaged(out);
  }
  void all_to_all() const {
    const auto sums = [](const std::vector<int64_t>& counts) {
      int64_t sum = 0;
      for (int64_t n : counts) sum += n;
      return sum;
    };
    const Tensor in = joined(call.in, sums(call.in_splits), true), out = joined(call.out, sums(call.out_splits), false);
    Splits& s = op.splits.emplace_back();
    const int64_t bytes = item_size(op.dtype);
    const auto lay = [bytes](const std::vector<int64_t>& counts, std::vector<int64_t>& sizes,
                             std::vector<int64_t>& at) {
      int64_t sum = 0;
      for (int64_t n : counts) sizes.push_back(n * bytes), at.push_back(sum), sum += n * bytes;
    };
    lay(call.in_splits, s.in_bytes, s.in_offsets);
    lay(call.out_splits, s.out_bytes, s.out_offsets);
    add({.kind = call.kind, .in = in.data(), .out = out.data(), .splits = &s});
  }
  Tensor joined(const std::vector<Tensor>& list, int64_t total, bool reads) const {
    if (list.size() == 1) {
      FACULA_CHECK(list[0].numel() == total, ErrorKind::Value, call.name,
                   ": the split sizes are those of the tensor, got ", total, " elements of ", list[0].numel());
      return reads ? input(list[0]) : output(list[0], false);
    }
    const Tensor flat = buffer(total);
    const auto into = [](const Tensor& t, const Tensor& p) { copy_elements(p, t); };
    if (reads) {
      parts(list, flat, into);
      return flat;
    }
    give_parts(list, flat);
    return flat;
  }
  void message() const {
    const bool sends = call.kind == Kind::Send;
    const Tensor t = sends ? input(call.in[0]) : output(call.out[0], false);
    op.count = t.numel();
    add({.kind = call.kind,
         .in = sends ? t.data() : nullptr,
         .out = sends ? nullptr : t.data(),
         .count = op.count * item_size(op.dtype)});
  }

  void run() const {
    switch (call.kind) {
      case Kind::AllReduce: return all_reduce();
      case Kind::Reduce: return reduce();
      case Kind::Broadcast: return broadcast();
      case Kind::AllGather: return all_gather();
      case Kind::Gather: return gather();
      case Kind::Scatter: return scatter();
      case Kind::ReduceScatter: return reduce_scatter();
      case Kind::AllToAll: return all_to_all();
      case Kind::Barrier: return;
      case Kind::Send:
      case Kind::Recv: return message();
    }
  }
};

Operation::Operation(Call c, int rank, int size, bool nccl) : call(std::move(c)) {
  const std::vector<Tensor>& shown = call.out.empty() || (call.kind == Kind::ReduceScatter) ? call.in : call.out;
  const std::vector<Tensor>& first = call.in.empty() ? call.out : call.in;
  if (!first.empty()) {
    dtype = first[0].dtype();
    const Tensor& t = call.kind == Kind::Scatter ? shown[0] : first[0];
    shape.assign(t.sizes().begin(), t.sizes().end());
    device = first[0].device();
  }
  if (!device.is_cpu()) {
    FACULA_CHECK(device.is_cuda(), ErrorKind::Value, call.name,
                 ": tensors of processes are on the CPU or on CUDA devices, got one on ", device);
    caller = current_stream(device);
    captured = cuda::is_captured(caller);
    FACULA_CHECK(nccl || !captured, ErrorKind::Runtime, call.name,
                 ": without NCCL a collective cannot be captured in a graph, got a call while one is captured");
    route = nccl ? Route::Device : Route::Staged;
  }
  FACULA_CHECK(!reduces(call.kind) || can_reduce(dtype, call.reduction), ErrorKind::Type, call.name, ": ",
               kReductionNames[static_cast<int>(call.reduction)], " does not go with this dtype, got ", dtype);
  FACULA_CHECK(route != Route::Device || !reduces(call.kind) || can_reduce_by_nccl(dtype, call.reduction),
               ErrorKind::Type, call.name, ": NCCL has no ", kReductionNames[static_cast<int>(call.reduction)],
               " of this dtype (a group with backend='gloo' has), got ", dtype);
  deadline = Deadline::after(call.timeout);
  Planner{*this, call, rank, size}.run();
  if (route == Route::Device) ready.record(caller);
}

std::string Operation::text() const {
  std::ostringstream s;
  s << call.name << " (" << call.detail;
  if (call.kind != Kind::Barrier) {
    s << dtype << '[';
    for (size_t i = 0; i < shape.size(); ++i) s << (i ? ", " : "") << shape[i];
    s << ']';
    if (!device.is_cpu()) s << " on " << device;
  }
  if (const size_t tensors = std::max(call.in.size(), call.out.size()); tensors > 1)
    s << " and " << tensors - 1 << " more";
  if (reduces(call.kind)) s << ", " << kReductionNames[static_cast<int>(call.reduction)];
  if (has_root(call.kind)) s << ", root " << call.root;
  if (call.kind == Kind::AllToAll) {
    const auto list = [&](const char* what, const std::vector<int64_t>& counts) {
      s << ", " << what;
      for (int64_t n : counts) s << ' ' << n;
    };
    list("sends", call.in_splits);
    list("expects", call.out_splits);
  }
  if (is_point_to_point(call.kind)) s << ", rank " << call.root << ", tag " << call.tag;
  s << ')';
  return s.str();
}

void Operation::begin_agreement(int rank) {
  agreement = Agreement(fingerprint());
  if (call.kind == Kind::AllToAll) agreement.imbalance = imbalance(rank);
  if (route == Route::Device || plan.size() != 1 || (call.kind != Kind::AllReduce && call.kind != Kind::Broadcast))
    return;
  const Transfer& t = plan[0];
  const bool sums = call.kind == Kind::AllReduce;  // a broadcast is the sum of the root's bytes and zeros
  const int64_t bytes = sums ? t.count * item_size(dtype) : t.count;
  if (bytes > Agreement::kBytes) return;
  rides = true;
  agreement.count = static_cast<uint16_t>(t.count);
  if (sums) agreement.dtype = dtype, agreement.reduction = call.reduction;
  if (sums || rank == call.root) std::memcpy(agreement.values, sums ? t.in : t.out, static_cast<size_t>(bytes));
}

void Operation::end_agreement() {
  if (!rides) return;
  const Transfer& t = plan[0];
  const int64_t bytes = call.kind == Kind::AllReduce ? t.count * item_size(dtype) : t.count;
  std::memcpy(t.out, agreement.values, static_cast<size_t>(bytes));
  next = 1;
}

uint64_t Operation::fingerprint() const {
  uint64_t hash = 14695981039346656037u;  // FNV-1a
  const auto mix = [&](uint64_t value) {
    for (int i = 0; i < 8; ++i) hash = (hash ^ (value >> (8 * i) & 0xff)) * 1099511628211u;
  };
  mix(static_cast<uint64_t>(call.kind));
  mix(static_cast<uint64_t>(dtype));
  mix(static_cast<uint64_t>(count));
  mix(reduces(call.kind) ? static_cast<uint64_t>(call.reduction) : 0);
  mix(has_root(call.kind) ? static_cast<uint64_t>(call.root) : 0);
  mix(route == Route::Device);
  mix(call.salt);
  return hash;
}

uint64_t Operation::imbalance(int rank) const {
  const auto weight = [](uint64_t from, uint64_t to) {  // splitmix64
    uint64_t x = (from << 32 | to) + 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
  };
  const Splits& s = splits.front();
  const auto me = static_cast<uint64_t>(rank);
  uint64_t sum = 0;
  for (uint64_t r = 0; r < s.in_bytes.size(); ++r)
    sum += weight(me, r) * static_cast<uint64_t>(s.in_bytes[r]) - weight(r, me) * static_cast<uint64_t>(s.out_bytes[r]);
  return sum;
}

}  // namespace facula::distributed
