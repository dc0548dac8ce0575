// Attention.
#include "ops/attention.h"

#include <algorithm>

#include "cuda/attention_tensor.h"
#include "cuda/device.h"
#include "cuda/dnn_attention.h"
#include "cuda/kernel.h"
#include "cuda/kernels/attention_args.h"
#include "ops/contiguous.h"

namespace facula::cuda {
namespace {

constexpr const char* kOp = "scaled_dot_product_attention";

/// How the batch dimensions of all operands are joined: where one ends, as dimensions of the query.
struct BatchDims {
  std::vector<int64_t> last;  // of every joined dimension, the innermost of its dimensions
};

bool joins(const Tensor& t, int64_t d) {
  return !t.defined() || t.size(d) == 1 || t.size(d - 1) == 1 || t.stride(d - 1) == t.stride(d) * t.size(d);
}

/// Dimensions that lie evenly in every operand become one; those of size one go.
BatchDims batch_dims(const std::vector<Tensor>& operands, const Tensor& query) {
  BatchDims dims;
  for (int64_t d = 0; d < query.dim() - 2; ++d) {
    const bool joined = d > 0 && query.size(d) != 1 && query.size(d - 1) != 1 &&
                        std::all_of(operands.begin(), operands.end(), [&](const Tensor& t) { return joins(t, d); });
    if (joined) dims.last.back() = d;
    else if (query.size(d) != 1) dims.last.push_back(d);
  }
  FACULA_CHECK(dims.last.size() <= kMostBatchDims, ErrorKind::NotImplemented, kOp, ": on CUDA, at most ",
               kMostBatchDims, " batch dimensions that do not lie evenly, got ", dims.last.size());
  return dims;
}

AttentionMatrix matrix_of(const Tensor& t, const BatchDims& dims) {
  AttentionMatrix m{};
  if (!t.defined()) return m;
  m.data = t.data();
  m.row = t.stride(-2);
  m.column = t.stride(-1);
  for (size_t i = 0; i < dims.last.size(); ++i) m.batch[i] = t.stride(dims.last[i]);
  return m;
}

AttentionArgs arguments_of(const AttentionInputs& in, const AttentionOptions& options, const BatchDims& dims) {
  AttentionArgs p{};
  p.heads = 1;
  p.batch_dims = static_cast<int>(dims.last.size());
  int64_t next = 0;
  for (size_t i = 0; i < dims.last.size(); ++i) {
    p.batch_sizes[i] = 1;
    for (; next <= dims.last[i]; ++next) p.batch_sizes[i] *= in.query.size(next);
    p.heads *= p.batch_sizes[i];
  }
  for (; next < in.query.dim() - 2; ++next) p.heads *= in.query.size(next);
  p.queries = in.query.size(-2), p.keys = in.key.size(-2);
  p.size = in.query.size(-1), p.value_size = in.value.size(-1);
  p.query = matrix_of(in.query, dims);
  p.key = matrix_of(in.key, dims);
  p.value = matrix_of(in.value, dims);
  p.mask = matrix_of(in.mask, dims);
  p.mask_is_bool = in.mask.defined() && in.mask.dtype() == DType::Bool;
  p.seed = in.seed.defined() ? reinterpret_cast<const long long*>(in.seed.data<int64_t>()) : nullptr;
  p.scale = options.scale;
  p.dropout = options.dropout;
  p.is_causal = options.is_causal;
  return p;
}

constexpr int64_t kSide = 32, kColumns = 128;  // as in kernels/attention.cuh

Grid blocks(int64_t heads, int64_t rows, int64_t columns) {
  const int64_t wide = std::max<int64_t>((columns + kColumns - 1) / kColumns, 1);
  return {256, std::min<int64_t>(heads * ((rows + kSide - 1) / kSide) * wide, INT32_MAX)};
}

/// The mask in the compute dtype, unless it is bool. What is there once for many scores is converted once.
Tensor mask_to_add(const Tensor& mask, DType compute) {
  if (!mask.defined() || mask.dtype() == DType::Bool || mask.dtype() == compute) return mask;
  Dims sizes(mask.sizes()), strides(mask.strides());
  for (size_t d = 0; d < sizes.size(); ++d)
    if (strides[d] == 0) sizes[d] = 1;
  const Tensor made = ops::contiguous_copy(make_view(mask, sizes, strides, 0, false), sizes, compute);
  for (size_t d = 0; d < sizes.size(); ++d)
    if (strides[d] != 0) strides[d] = made.stride(static_cast<int64_t>(d));
  return make_view(made, mask.sizes(), strides, 0, false);
}

/// What a call's kernels are given: operands, in other forms where they need them, and the arguments.
struct Prepared {
  bool on_tensor_cores;
  Tensor query, key, value, mask;
  AttentionInputs in;
  BatchDims dims;

  Prepared(const AttentionInputs& given, const AttentionOptions& options, DType compute, std::vector<Tensor> others)
      : on_tensor_cores(is_for_tensor_cores(given, options)),
        query(on_tensor_cores ? with_even_rows(given.query) : given.query),
        key(on_tensor_cores ? with_even_rows(given.key) : given.key),
        value(on_tensor_cores ? with_even_rows(given.value) : given.value),
        mask(on_tensor_cores ? given.mask : mask_to_add(given.mask, compute)),
        in{query, key, value, mask, given.seed} {
    others.insert(others.end(), {query, key, value, mask});
    dims = batch_dims(others, query);
  }
  Prepared(const Prepared&) = delete;
};

void attention_cuda(const Tensor& out, const Tensor& sums, const AttentionInputs& in, const AttentionOptions& options) {
  if (options.by_library) return attention_by_library(out, sums, in, options);
  static const DeviceKernel kernel{"attention.cuh", "attention"};
  const Prepared call(in, options, sums.dtype(), {out});
  AttentionArgs p = arguments_of(call.in, options, call.dims);
  p.out = matrix_of(out, call.dims);
  p.sums = sums.data();
  if (call.on_tensor_cores) return attention_by_tensor_cores(p, call.in);
  kernel(out.device().index, {out.dtype(), sums.dtype()}, blocks(p.heads, p.queries, p.value_size), p);
}

void attention_backward_cuda(const AttentionGradients& gradients, const AttentionInputs& in,
                             const AttentionResults& results, const AttentionOptions& options) {
  if (options.by_library) return attention_backward_by_library(gradients, in, results, options);
  static const DeviceKernel delta{"attention.cuh", "attention_delta"}, keys{"attention.cuh", "attention_backward_keys"},
      queries{"attention.cuh", "attention_backward_queries"};
  const bool is_even = is_for_tensor_cores(in, options);
  const Tensor grad = is_even ? with_even_rows(results.grad) : results.grad,
               out = is_even ? with_even_rows(results.out) : results.out;
  const Prepared call(in, options, results.sums.dtype(), {grad, out, gradients.query, gradients.key, gradients.value});
  AttentionArgs p = arguments_of(call.in, options, call.dims);
  p.out = matrix_of(out, call.dims);
  p.grad = matrix_of(grad, call.dims);
  p.grad_query = matrix_of(gradients.query, call.dims);
  p.grad_key = matrix_of(gradients.key, call.dims);
  p.grad_value = matrix_of(gradients.value, call.dims);
  p.sums = results.sums.data();
  const Tensor room = facula::empty(results.sums.sizes(), results.sums.dtype(), results.sums.device());
  p.delta = room.data();
  if (call.on_tensor_cores) return attention_backward_by_tensor_cores(p, call.in);
  const int device = in.query.device().index;
  const DType dtype = in.query.dtype(), compute = results.sums.dtype();
  delta(device, {dtype, compute}, grid_for(device, p.heads * p.queries * 32), p);
  keys(device, {dtype, compute}, blocks(p.heads, p.keys, std::max(p.size, p.value_size)), p);
  queries(device, {dtype, compute}, blocks(p.heads, p.queries, p.size), p);
}

void attention_kept_cuda(const Tensor& out, const Tensor& seed, double p) {
  static const DeviceKernel kernel{"attention.cuh", "attention_kept"};
  const long long count = out.numel(), columns = out.size(-1);
  kernel(out.device().index, {out.dtype()}, grid_for(out.device().index, count), out.data(), count, columns,
         static_cast<const void*>(seed.data()), p);
}

void attention_weights_cuda(const Tensor& out, const Tensor& scores, const Tensor& mask, bool is_causal) {
  static const DeviceKernel kernel{"attention.cuh", "attention_weights"};
  WeightsArgs p{};
  p.length = scores.size(-1);
  p.rows = scores.numel() / p.length;
  p.queries = scores.dim() > 1 ? scores.size(-2) : 1;
  p.scores = scores.data();
  p.out = out.data();
  p.is_causal = is_causal;
  if (mask.defined()) {
    FACULA_CHECK(mask.dim() <= kMostBatchDims + 2, ErrorKind::NotImplemented, kOp, ": on CUDA, scores of at most ",
                 kMostBatchDims + 2, " dimensions, got ", mask.dim());
    p.mask = mask.data();
    for (int64_t d = 0; d < mask.dim() - 1; ++d) {
      p.batch_sizes[d] = mask.size(d);
      p.batch[d] = mask.stride(d);
      ++p.batch_dims;
    }
  }
  kernel(out.device().index, {out.dtype(), mask.defined(), mask.defined() ? mask.dtype() : out.dtype()},
         {256, std::min<int64_t>(p.rows, INT32_MAX)}, p);
}

}  // namespace

void register_attention() {
  constexpr auto cuda = DeviceType::CUDA;
  attention_kernel.set(cuda, attention_cuda);
  why_no_library_attention = why_no_dnn_attention;
  predicted_attention_times = predicted_times;
  attention_backward_kernel.set(cuda, attention_backward_cuda);
  attention_kept_kernel.set(cuda, attention_kept_cuda);
  attention_weights_kernel.set(cuda, attention_weights_cuda);
}

}  // namespace facula::cuda
