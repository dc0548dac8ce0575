// vmap rules of indexing, scattering and embedding.
#include "autograd/batching_rules.h"
#include "functions.h"

namespace facula {

Tensor index_along(const Tensor& index, int64_t dim, const Tensor& t) {
  if (t.dim() == 0) return reshape(index, IntList());
  Dims sizes(t.sizes()), shape(sizes.size(), 1);
  auto d = static_cast<size_t>(wrap_dim(dim, t.dim(), "index"));
  shape[d] = sizes[d] = index.numel();
  return expand(reshape(index, shape), sizes, false);
}
Tensor index_of_source(const Tensor& index, int64_t dim, const Tensor& source) {
  int64_t count = source.dim() == 0 ? 1 : source.size(wrap_dim(dim, source.dim(), "index"));
  FACULA_CHECK(index.numel() == count, ErrorKind::Runtime,
               "index: expected as many indices as the source has positions in dimension ", dim, ", got ",
               index.numel(), " and ", count);
  return index_along(index, dim, source);
}

// On a copy in which the examples follow each other.
Tensor batched_as_strided_scatter(const Tensor& self, const Tensor& src, IntList size, IntList stride,
                                  std::optional<int64_t> offset) {
  Batch batch("as_strided_scatter", self, src);
  if (!self.is_contiguous()) {
    return batch.loop(
        [&](const Batch::Example& e) { return as_strided_scatter(e(self), e(src), size, stride, offset); });
  }
  Tensor copy = make_batched(contiguous(batch.spread(self), MemoryFormat::Contiguous), batch.level());
  return batch.wrap(as_strided_scatter(batch_behind(copy), batch.spread(src), batch.sizes(size),
                                       batch.strides(copy, stride), offset));
}

namespace {

// Indices of a batch. With batched indices the batch is one more index, else one more dimension taken whole.
struct BatchedIndices {
  std::vector<Tensor> tensors;
  int64_t first = -1;     // the first indexed dimension of an example
  int64_t named = 0;      // how many are indexed
  int64_t count = 0;      // dimensions of the indices
  bool adjacent = true;   // else the indexed dimensions of a result come first
  bool of_batch = false;  // an index is batched

  BatchedIndices(const Batch& batch, const Tensor& self, TensorList indices) {
    int64_t last = -1;
    for (size_t i = 0; i < indices.size(); ++i) {
      if (!indices[i].defined()) continue;
      if (first < 0) first = static_cast<int64_t>(i);
      last = static_cast<int64_t>(i);
      ++named;
      of_batch |= batch.has(indices[i]);
      count = std::max(count, indices[i].dim());
    }
    adjacent = last - first + 1 == named;
    if (batch.has(self)) tensors.push_back(of_batch ? examples(batch.size(), self.device()) : Tensor());
    for (const Tensor& index : indices) tensors.push_back(index.defined() ? batch.raised(index, count) : index);
  }

 private:
  Tensor examples(int64_t size, Device device) const {
    Dims shape(static_cast<size_t>(count + 1), 1);
    shape[0] = size;
    return reshape(arange(Scalar(size), DType::Int64, device), shape);
  }
};

}  // namespace

Tensor batched_index(const Tensor& self, TensorList indices) {
  Batch batch("index", self, indices);
  BatchedIndices b(batch, self, indices);
  Tensor made = index(batch.value(self), b.tensors);
  if (!batch.has(self)) return batch.wrap(b.adjacent ? movedim(made, b.first, 0) : made);
  if (!b.of_batch) return batch.wrap(b.adjacent ? made : movedim(made, b.count, 0));
  // (B, indexed..., before..., after...) -> (B, before..., indexed..., after...)
  for (int64_t k = 0; k < b.count && b.adjacent && b.first > 0; ++k) made = movedim(made, 1, b.count + b.first);
  return batch.wrap(made);
}

Tensor batched_index_put(const Tensor& self, TensorList indices, const Tensor& values, bool accumulate) {
  Batch batch("index_put", self, indices, values);
  if (!batch.has(self)) return index_put(make_batched(batch.spread(self), batch.level()), indices, values, accumulate);
  BatchedIndices b(batch, self, indices);
  bool in_front = b.of_batch ? !b.adjacent || b.first == 0 : b.adjacent;
  if (!in_front) {
    return batch.loop([&](const Batch::Example& example) {
      return index_put(example(self), example(indices), example(values), accumulate);
    });
  }
  Tensor part = batch.raised(values, b.count + self.dim() - b.named);
  return batch.wrap(index_put(batch.value(self), b.tensors, part, accumulate));
}

Tensor batched_embedding(const Tensor& weight, const Tensor& indices, int64_t padding_idx, bool scale_grad_by_freq,
                         bool sparse) {
  Batch batch("embedding", weight, indices);
  if (!batch.has(weight))
    return batch.wrap(embedding(weight, batch.value(indices), padding_idx, scale_grad_by_freq, sparse));
  if (padding_idx >= 0 || scale_grad_by_freq) {
    return batch.loop([&](const Batch::Example& e) {
      return embedding(e(weight), e(indices), padding_idx, scale_grad_by_freq, sparse);
    });
  }
  Dims sizes(indices.sizes());
  sizes.push_back(weight.size(1));
  return reshape(index_select(weight, 0, reshape(indices, {-1})), sizes);
}

Tensor batched_embedding_backward(const Tensor& grad_output, const Tensor& indices, int64_t num_weights,
                                  int64_t padding_idx, bool scale_grad_by_freq) {
  Batch batch("embedding_dense_backward", grad_output, indices);
  // every example gets rows of its own; padding goes to one row more, which is cut off
  int64_t rows = num_weights + (padding_idx >= 0);
  Tensor places = batch.spread(indices);
  if (padding_idx >= 0) places = where(eq(places, Scalar(padding_idx)), Scalar(num_weights), places);
  Dims shape(static_cast<size_t>(places.dim()), 1);
  shape[0] = batch.size();
  places = places + reshape(arange(Scalar(batch.size()), DType::Int64, indices.device()), shape) * Scalar(rows);
  Tensor made =
      embedding_dense_backward(batch.spread(grad_output), places, rows * batch.size(), -1, scale_grad_by_freq);
  return batch.wrap(slice(split_front(made, batch.size()), 1, 0, num_weights, 1));
}

}  // namespace facula
