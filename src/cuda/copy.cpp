// Copies between tensors on the device, and between it and the host; numbers written and read.
#include <cstring>

#include "core/kernel.h"
#include "cuda/backend.h"
#include "cuda/device.h"
#include "cuda/graph.h"
#include "cuda/host_allocator.h"
#include "cuda/pointwise.h"
#include "cuda/stream.h"
#include "cuda/transpose.h"
#include "ops/contiguous.h"
#include "ops/pinned.h"

namespace facula::cuda {
namespace {

// One loop, with or without conjugation. Elements of one dtype are moved as bits.
constexpr DeviceLoop kMoveLoop{"complex.h",
                               "struct Loop { static constexpr int inputs = 1; template <class C, class R> "
                               "static FACULA_FN R run(C a, C, C, const C*) { return a; } };"};
constexpr DeviceLoop kConjugateLoop{"complex.h",
                                    "struct Loop { static constexpr int inputs = 1; template <class C, class R> "
                                    "static FACULA_FN R run(C a, C, C, const C*) { a.im = -a.im; return a; } };"};

CUdeviceptr address(const Tensor& t) { return reinterpret_cast<CUdeviceptr>(t.data()); }
size_t bytes_of(const Tensor& t) { return static_cast<size_t>(t.numel() * t.item_size()); }
bool is_conjugated(const Tensor& out, const Tensor& in) {
  return in.is_complex() && out.is_complex() && out.is_conj() != in.is_conj();
}

void copy_on_device(const Tensor& out, const Tensor& in) {
  const int device = out.device().index;
  const bool conjugated = is_conjugated(out, in), same = out.dtype() == in.dtype() && !conjugated;
  if (same && out.is_contiguous() && in.is_contiguous() && out.numel() == in.numel()) {
    FACULA_CUDA_CALL(cuMemcpyDtoDAsync_v2, address(out), address(in), bytes_of(in), handle(current_stream(device)));
    return;
  }
  Plan plan = copy_plan(out, in);
  if (same) plan.out.dtype = plan.in[0].dtype = bits_of(in.item_size());
  if (same && run_transpose(plan, device)) return;
  plan.compute = plan.loop_result = same ? plan.out.dtype : compute_dtype(in.dtype());
  run_loop(conjugated ? kConjugateLoop : kMoveLoop, plan, device);
}

/// A tensor on the device of `like` with the shape of `in`.
Tensor room_on(const Tensor& like, const Tensor& in) { return facula::empty(in.sizes(), in.dtype(), like.device()); }

/// A graph reads the host's memory at every replay. It keeps pinned memory that is copied without waiting, where the
/// program puts something new, and constants that the library made; other memory could have changed, or be gone.
void keep_for_replays(const Tensor& bytes, const Tensor& given, Graph& graph) {
  const bool rereads = non_blocking_copies && is_pinned(bytes.data());
  FACULA_CHECK(rereads || !given.impl()->pyobj, ErrorKind::Runtime, current_op(),
               ": pinned memory and non_blocking=True, or a tensor on the device, since a graph is captured and its "
               "replays could not see what is in other memory then, got a tensor on ",
               given.device());
  graph.keep(bytes);
}

/// Queues a copy of bytes.
void copy_bytes_from_host(const Tensor& out, const Tensor& in, const Tensor& given) {
  const Stream stream = current_stream(out.device().index);
  Graph* graph = captured_graph(out.device().index);
  if (graph) keep_for_replays(in, given, *graph);
  else if (!is_pinned(in.data())) return copy_pageable(out.data(), in.data(), bytes_of(in), stream);
  FACULA_CUDA_CALL(cuMemcpyHtoDAsync_v2, address(out), in.data(), bytes_of(in), handle(stream));
  if (graph) return;
  if (non_blocking_copies) use_pinned(in.data(), stream);
  else wait_for_results(out.device().index);  // the program may write there next
}

void copy_from_host(const Tensor& out, const Tensor& in) {
  Tensor dense = in;  // bytes are converted, and lazy conjugation is undone, where they arrive
  if (!in.is_contiguous()) {
    dense = facula::empty(in.sizes(), out.dtype());
    copy_elements(dense, in);
  }
  const bool direct =
      out.is_contiguous() && out.sizes() == in.sizes() && out.dtype() == dense.dtype() && !is_conjugated(out, dense);
  if (direct) return copy_bytes_from_host(out, dense, in);
  const Tensor arrived = room_on(out, dense);
  arrived.impl()->flags |= dense.flags() & kConjugate;
  copy_bytes_from_host(arrived, dense, in);
  copy_on_device(out, arrived);
}

void copy_to_host(const Tensor& out, const Tensor& in) {
  const int device = in.device().index;
  const Stream stream = current_stream(device);
  const bool direct = out.is_contiguous() && out.sizes() == in.sizes();
  Tensor dense = in;
  if (!in.is_contiguous() || (direct && (in.dtype() != out.dtype() || is_conjugated(out, in)))) {
    dense = facula::empty(in.sizes(), direct ? out.dtype() : in.dtype(), in.device());
    if (dense.is_complex()) dense.impl()->flags |= (direct ? out : in).flags() & kConjugate;
    copy_on_device(dense, in);
  }
  Tensor host = direct ? out : facula::empty(in.sizes(), in.dtype());
  FACULA_CUDA_CALL(cuMemcpyDtoHAsync_v2, host.data(), address(dense), bytes_of(dense), handle(stream));
  if (direct && non_blocking_copies && is_pinned(out.data())) {
    if (Graph* graph = captured_graph(device)) graph->keep(out);  // every replay writes there
    return use_pinned(out.data(), stream);
  }
  if (!direct) host.impl()->flags |= dense.flags() & kConjugate;
  wait_for_results(device);
  if (!direct) copy_elements(out, host);
}

void copy_between_devices(const Tensor& out, const Tensor& in) {
  const int from = in.device().index, to = out.device().index;
  // bytes travel; what else there is to do is done where they come from and where they arrive
  const bool direct =
      out.is_contiguous() && out.sizes() == in.sizes() && out.dtype() == in.dtype() && !is_conjugated(out, in);
  Tensor dense = in, arrived = direct ? out : room_on(out, in);
  if (!in.is_contiguous()) {
    DeviceGuard guard(from);
    dense = room_on(in, in);
    if (in.is_complex()) dense.impl()->flags |= in.flags() & kConjugate;
    copy_on_device(dense, in);
  }
  if (!direct && in.is_complex()) arrived.impl()->flags |= in.flags() & kConjugate;
  Event ready;
  ready.record(current_stream(from));
  ready.block(current_stream(to));
  FACULA_CUDA_CALL(cuMemcpyPeerAsync, address(arrived), properties(to).context, address(dense),
                   properties(from).context, bytes_of(dense), handle(current_stream(to)));
  Event done;  // the memory of `dense` is used by the other device's stream
  done.record(current_stream(to));
  done.block(current_stream(from));
  if (!direct) copy_on_device(out, arrived);
}

void copy_cuda(const Tensor& out, const Tensor& in) {
  if (out.numel() == 0) return;
  if (out.is_cpu()) return copy_to_host(out, in);
  if (in.is_cpu()) copy_from_host(out, in);
  else if (out.device() != in.device()) copy_between_devices(out, in);
  else copy_on_device(out, in);
  wait_if_blocking(out.device().index);
}

void fill_cuda(const Tensor& out, const Scalar& value) {
  if (out.numel() == 0) return;
  const int device = out.device().index;
  const Tensor number = scalar_tensor(value, out.dtype());
  const auto* bytes = number.data<char>();
  const auto size = static_cast<size_t>(out.item_size());
  if (out.is_dense() && std::count(bytes, bytes + size, bytes[0]) == static_cast<ptrdiff_t>(size)) {
    FACULA_CUDA_CALL(cuMemsetD8Async, address(out), static_cast<unsigned char>(bytes[0]), bytes_of(out),
                     handle(current_stream(device)));
    return;
  }
  Plan plan = copy_plan(out, out);
  plan.out.dtype = plan.compute = plan.loop_result = bits_of(out.item_size());
  plan.in[0].residency = Residency::Number;
  std::memcpy(plan.numbers[0], bytes, size);
  run_loop(kMoveLoop, plan, device);
}

void read_cuda(const Tensor& in, std::array<char, 16>& bytes) {
  const int device = in.device().index;
  FACULA_CUDA_CALL(cuMemcpyDtoHAsync_v2, bytes.data(), address(in), static_cast<size_t>(in.item_size()),
                   handle(current_stream(device)));
  wait_for_results(device);
}

}  // namespace

void register_copy() {
  copy_kernel.set(DeviceType::CUDA, copy_cuda);
  fill_kernel.set(DeviceType::CUDA, fill_cuda);
  read_kernel.set(DeviceType::CUDA, read_cuda);
}

}  // namespace facula::cuda
