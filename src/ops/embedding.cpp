// embedding: rows picked by index, and the gradient of the table they come from.
#include "ops/index_support.h"
#include "raw_create.h"
#include "raw_elementwise.h"
#include "raw_index.h"

namespace facula::ops {
namespace {

Tensor flat(const Tensor& indices) {
  Tensor wide = index_as_int64(indices, "embedding");
  if (wide.is_contiguous()) return make_view(wide, {wide.numel()}, {1}, 0, false);
  Tensor packed = facula::empty({wide.numel()}, DType::Int64, wide.device());
  if (!wide.is_meta())
    copy_kernel(wide.device(), make_view(packed, wide.sizes(), contiguous_strides(wide.sizes()), 0, false), wide);
  return packed;
}

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& indices, int64_t, bool, bool) {
  FACULA_CHECK(weight.dim() == 2, ErrorKind::Runtime, "embedding: 'weight' must be 2-D, got shape ", weight.sizes());
  Tensor rows = select_positions(weight, 0, flat(indices), {}, "embedding");
  Dims shape(indices.sizes());
  shape.push_back(weight.size(1));
  return make_view(rows, shape, contiguous_strides(shape), 0, false);
}

Tensor embedding_dense_backward(const Tensor& grad_output, const Tensor& indices, int64_t num_weights,
                                int64_t padding_idx, bool scale_grad_by_freq) {
  Tensor index = flat(indices);
  int64_t n = index.numel(), width = grad_output.size(-1);
  Tensor result = zeros({num_weights, width}, grad_output.dtype(), grad_output.device(), {});
  if (result.is_meta() || grad_output.numel() == 0) return result;
  Tensor rows = grad_output;
  if (!rows.is_contiguous()) {
    rows = facula::empty(grad_output.sizes(), grad_output.dtype());
    copy_kernel(rows.device(), rows, grad_output);
  }
  rows = make_view(rows, {n, width}, {width, 1}, 0, false);
  index_add_(result, 0, index, rows, Scalar(1));
  if (scale_grad_by_freq) {
    Tensor counts = zeros({num_weights, 1}, grad_output.dtype(), kCPU, {});
    scatter_add_(counts, 0, make_view(index, {n, 1}, {1, 1}, 0, false),
                 make_view(scalar_tensor(Scalar(1), counts.dtype()), {n, 1}, {0, 0}, 0, false));
    Tensor unused = eq(counts, Operand(Scalar(0)));
    masked_fill_(counts, unused, Scalar(1));
    div_into(result, true, Operand(result), Operand(counts));
  }
  if (padding_idx >= 0 && padding_idx < num_weights)
    fill_(make_view(result, {width}, {1}, padding_idx * width, false), Scalar(0));
  return result;
}

Tensor _bag_argmax(const Tensor& weight, const Tensor& indices, const Tensor& bag_of, int64_t bags, int64_t padding) {
  FACULA_CHECK(weight.dim() == 2 && indices.dtype() == DType::Int64 && bag_of.dtype() == DType::Int64 &&
                   indices.numel() == bag_of.numel(),
               ErrorKind::Runtime, "_bag_argmax: a matrix and two int64 vectors of one length, got shapes ",
               weight.sizes(), ", ", indices.sizes(), " and ", bag_of.sizes());
  int64_t width = weight.size(1);
  Tensor rows = clone(indices, MemoryFormat::Contiguous), owners = clone(bag_of, MemoryFormat::Contiguous);
  Tensor result = zeros({bags, width}, DType::Int64, kCPU, {});
  std::vector<bool> seen(static_cast<size_t>(bags), false);
  visit_dtype(weight.dtype(), [&]<class T>(TypeTag<T>) {
    if constexpr (std::is_convertible_v<T, double>) {
      const T* table = weight.data<T>();
      int64_t row_step = weight.stride(0), step = weight.stride(1);
      for (int64_t i = 0; i < indices.numel(); ++i) {
        int64_t k = rows.data<int64_t>()[i], bag = owners.data<int64_t>()[i];
        FACULA_CHECK(k >= 0 && k < weight.size(0) && bag >= 0 && bag < bags, ErrorKind::Index, "_bag_argmax: index ", k,
                     " of bag ", bag, " is out of range for ", weight.size(0), " rows and ", bags, " bags");
        if (k == padding) continue;
        int64_t* best = result.data<int64_t>() + bag * width;
        for (int64_t c = 0; c < width; ++c) {
          if (!seen[bag] || static_cast<double>(table[k * row_step + c * step]) >
                                static_cast<double>(table[best[c] * row_step + c * step]))
            best[c] = k;
        }
        seen[bag] = true;
      }
    }
  });
  return result;
}

}  // namespace facula::ops
