// Bags of embeddings.
#include "ops/embedding.h"

#include "cuda/index_errors.h"
#include "cuda/kernel.h"

namespace facula::cuda {
namespace {

using Long = long long;
constexpr char kOp[] = "embedding_bag";

const Long* longs(const Tensor& t) { return static_cast<const Long*>(t.data()); }

void check_order(const Tensor& bag_of, int64_t bags) {
  static const DeviceKernel kernel{"embedding.cuh", "check_bags"};
  const int device = bag_of.device().index;
  kernel(device, {}, grid_for(device, bag_of.numel()), longs(bag_of), static_cast<Long>(bag_of.numel()),
         static_cast<Long>(bags), reporter(device, kOp, ErrorKind::Runtime, "bags in order, and as many as there are"));
}

void bag_argmax_cuda(const Tensor& out, const Tensor& weight, const Tensor& rows, const Tensor& bag_of,
                     int64_t padding) {
  static const DeviceKernel kernel{"embedding.cuh", "bag_argmax"};
  const int device = out.device().index;
  check_order(bag_of, out.size(0));
  if (is_complex(weight.dtype())) return;  // which have no order
  kernel(device, {weight.dtype()}, grid_for(device, out.numel()), static_cast<Long*>(out.data()),
         static_cast<const void*>(weight.data()), static_cast<Long>(weight.stride(0)),
         static_cast<Long>(weight.stride(1)), static_cast<Long>(weight.size(0)), longs(rows), longs(bag_of),
         static_cast<Long>(rows.numel()), static_cast<Long>(out.size(0)), static_cast<Long>(out.size(1)),
         static_cast<Long>(padding), reporter(device, kOp, ErrorKind::Index));
}

void bag_sum_cuda(const Tensor& out, const Tensor& weight, const Tensor& rows, const Tensor& bag_of,
                  const Tensor& factors, int64_t padding) {
  static const DeviceKernel kernel{"embedding.cuh", "bag_sum"};
  const int device = out.device().index;
  check_order(bag_of, out.size(0));
  kernel(device, {out.dtype()}, grid_for(device, out.numel()), out.data(), static_cast<const void*>(weight.data()),
         static_cast<Long>(weight.stride(0)), static_cast<Long>(weight.size(0)), longs(rows), longs(bag_of),
         static_cast<const void*>(factors.defined() ? factors.data() : nullptr), static_cast<Long>(rows.numel()),
         static_cast<Long>(out.size(0)), static_cast<Long>(out.size(1)), static_cast<Long>(padding),
         reporter(device, kOp, ErrorKind::Index));
}

void bag_members_cuda(const Tensor& bag_of, const Tensor& sizes, const Tensor& indices, const Tensor& offsets,
                      int64_t rows, int64_t padding) {
  static const DeviceKernel check{"embedding.cuh", "check_offsets"}, members{"embedding.cuh", "bag_members"},
      count{"embedding.cuh", "bag_sizes"};
  const int device = bag_of.device().index;
  const Long n = indices.numel(), places = offsets.numel(), bags = sizes.numel();
  check(device, {}, grid_for(device, places), longs(offsets), places, n,
        reporter(device, kOp, ErrorKind::Runtime,
                 "offsets must begin with 0, not decrease and not exceed the number of indices"));
  members(device, {}, grid_for(device, n), static_cast<Long*>(bag_of.data()), longs(indices), n, longs(offsets), places,
          bags, static_cast<Long>(rows), reporter(device, kOp, ErrorKind::Runtime));
  count(device, {}, grid_for(device, bags), static_cast<Long*>(sizes.data()), bags, longs(bag_of), longs(indices), n,
        static_cast<Long>(padding));
}

}  // namespace

void register_embedding() {
  bag_argmax_kernel.set(DeviceType::CUDA, bag_argmax_cuda);
  bag_sum_kernel.set(DeviceType::CUDA, bag_sum_cuda);
  bag_members_kernel.set(DeviceType::CUDA, bag_members_cuda);
}

}  // namespace facula::cuda
