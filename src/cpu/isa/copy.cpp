// copy_: the same elements into another layout or dtype.
#include <cstring>

#include "core/parallel.h"
#include "cpu/isa.h"
#include "cpu/isa/cast.h"
#include "ops/kernel_table.h"

namespace facula::cpu::FACULA_ISA {
namespace {

constexpr int64_t kTile = 16;
constexpr int64_t kChunk = 1024;

// Both operands' strides in bytes over the output's shape, dimensions collapsed, innermost first.
Plan copy_plan(const Tensor& out, const Tensor& in) {
  Plan plan;
  plan.inputs = 1;
  plan.numel = out.numel();
  plan.out.data = out.impl()->data;
  plan.out.dtype = out.dtype();
  plan.in[0].data = in.impl()->data;
  plan.in[0].dtype = in.dtype();
  std::vector<Dims> strides{Dims(out.strides()), broadcast_strides(in.sizes(), in.strides(), out.sizes())};
  Dims order = dimension_order(out.sizes(), List<Dims>(strides));
  for (int64_t& s : strides[0]) s *= out.item_size();
  for (int64_t& s : strides[1]) s *= in.item_size();
  collapse(plan, out.sizes(), strides, order);
  // rows of a few elements cost more to find than to copy: walk along the longer neighbour instead
  if (plan.shape.size() > 1 && plan.shape[0] < kTile / 2 && plan.shape[1] > plan.shape[0]) {
    std::swap(plan.shape[0], plan.shape[1]);
    std::swap(plan.out.strides[0], plan.out.strides[1]);
    std::swap(plan.in[0].strides[0], plan.in[0].strides[1]);
  }
  return plan;
}

// A matrix read along one dimension and written along the other: square tiles keep both sides in cache lines.
template <class T>
void transpose_tiles(const char* in, int64_t in_row, char* out, int64_t out_row, int64_t rows, int64_t columns) {
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    int64_t r1 = std::min(rows, r0 + kTile);
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      int64_t c1 = std::min(columns, c0 + kTile);
      for (int64_t r = r0; r < r1; ++r) {
        T* o = reinterpret_cast<T*>(out + r * out_row);
        for (int64_t c = c0; c < c1; ++c) o[c] = *reinterpret_cast<const T*>(in + c * in_row + r * static_cast<int64_t>(sizeof(T)));
      }
    }
  }
}

using TransposeFn = void (*)(const char*, int64_t, char*, int64_t, int64_t, int64_t);

TransposeFn transpose_for(int64_t item) {
  switch (item) {
    case 1: return transpose_tiles<uint8_t>;
    case 2: return transpose_tiles<uint16_t>;
    case 4: return transpose_tiles<uint32_t>;
    case 8: return transpose_tiles<uint64_t>;
    default: return transpose_tiles<std::pair<uint64_t, uint64_t>>;
  }
}

// The dimension along which the input is contiguous, when the output is contiguous along dimension 0; -1 for none.
int64_t transposed_dim(const Plan& plan, int64_t item) {
  if (plan.out.strides[0] != item || plan.in[0].strides[0] == item || plan.shape[0] < kTile / 2) return -1;
  for (size_t d = 1; d < plan.shape.size(); ++d) {
    if (plan.in[0].strides[d] == item && plan.shape[d] >= kTile / 2) return static_cast<int64_t>(d);
  }
  return -1;
}

void copy_transposed(const Plan& plan, int64_t d, int64_t item) {
  TransposeFn transpose = transpose_for(item);
  int64_t rows = plan.shape[d], columns = plan.shape[0], planes = plan.numel / (rows * columns);
  int64_t bands = (rows + kTile - 1) / kTile;
  parallel_for(0, planes * bands, std::max<int64_t>(1, kGrain / (columns * kTile)), [&](int64_t from, int64_t to) {
    for (int64_t task = from; task < to; ++task) {
      int64_t plane = task / bands, row = task % bands * kTile;
      const char* in = plan.in[0].data + row * plan.in[0].strides[d];
      char* out = plan.out.data + row * plan.out.strides[d];
      for (size_t k = 1; k < plan.shape.size(); ++k) {
        if (static_cast<int64_t>(k) == d) continue;
        int64_t at = plane % plan.shape[k];
        plane /= plan.shape[k];
        in += at * plan.in[0].strides[k];
        out += at * plan.out.strides[k];
      }
      transpose(in, plan.in[0].strides[0], out, plan.out.strides[d], std::min(kTile, rows - row), columns);
    }
  });
}

void copy_run(const Plan& plan, char* out, const char* in, int64_t count) {
  int64_t out_step = plan.out.strides[0], in_step = plan.in[0].strides[0];
  int64_t out_item = item_size(plan.out.dtype), in_item = item_size(plan.in[0].dtype);
  if (plan.out.dtype == plan.in[0].dtype) {
    if (out_step == out_item) gather(out_item, count, out, in, in_step);
    else if (in_step == in_item) scatter(out_item, count, out, out_step, in);
    else {
      alignas(64) char buffer[kChunk * 16];
      for (int64_t done = 0; done < count; done += kChunk) {
        int64_t n = std::min(kChunk, count - done);
        gather(in_item, n, buffer, in + done * in_step, in_step);
        scatter(out_item, n, out + done * out_step, out_step, buffer);
      }
    }
    return;
  }
  alignas(64) char packed[kChunk * 16], converted[kChunk * 16];
  for (int64_t done = 0; done < count; done += kChunk) {
    int64_t n = std::min(kChunk, count - done);
    const char* source = in + done * in_step;
    if (in_step != in_item) {
      gather(in_item, n, packed, source, in_step);
      source = packed;
    }
    char* target = out_step == out_item ? out + done * out_step : converted;
    cast(plan.out.dtype, plan.in[0].dtype, n, target, source);
    if (target == converted) scatter(out_item, n, out + done * out_step, out_step, converted);
  }
}

void copy_rows(const Plan& plan, int64_t from, int64_t to) {
  while (from < to) {
    int64_t flat = from, out = 0, in = 0;
    int64_t first = flat % plan.shape[0];
    for (size_t d = 0; d < plan.shape.size(); ++d) {
      int64_t at = flat % plan.shape[d];
      flat /= plan.shape[d];
      out += at * plan.out.strides[d];
      in += at * plan.in[0].strides[d];
    }
    int64_t run = std::min(to - from, plan.shape[0] - first);
    copy_run(plan, plan.out.data + out, plan.in[0].data + in, run);
    from += run;
  }
}

template <class T>
void conjugate_in_place(const Tensor& out) {
  Plan plan = copy_plan(out, out);
  for (int64_t i = 0; i < plan.numel; ++i) {
    int64_t flat = i, at = 0;
    for (size_t d = 0; d < plan.shape.size(); ++d) {
      at += flat % plan.shape[d] * plan.out.strides[d];
      flat /= plan.shape[d];
    }
    T* imag = reinterpret_cast<T*>(plan.out.data + at) + 1;
    *imag = -*imag;
  }
}

void copy_cpu(const Tensor& out, const Tensor& in) {
  if (out.numel() == 0) return;
  LockRelease release(out.numel() > kGrain);
  Plan plan = copy_plan(out, in);
  int64_t item = out.item_size();
  int64_t d = out.dtype() == in.dtype() ? transposed_dim(plan, item) : -1;
  if (d > 0) copy_transposed(plan, d, item);
  else parallel_for(0, plan.numel, kGrain, [&](int64_t from, int64_t to) { copy_rows(plan, from, to); });
  if (out.is_conj() != in.is_conj() && out.is_complex()) {
    if (out.dtype() == DType::Complex64) conjugate_in_place<float>(out);
    else if (out.dtype() == DType::Complex128) conjugate_in_place<double>(out);
  }
}

}  // namespace

void register_copy() { copy_kernel.set(DeviceType::CPU, copy_cpu); }

}  // namespace facula::cpu::FACULA_ISA
