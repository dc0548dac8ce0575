// How rules of all topics rearrange batches.
#include "autograd/batching_rules.h"

#include "functions.h"

namespace facula {

Dims unit_dims(const Tensor& t) {
  Dims made;
  for (int64_t d = 0; d < t.dim(); ++d) {
    if (t.size(d) == 1) made.push_back(d);
  }
  return made;
}
std::vector<Tensor> unsqueeze_each(TensorList tensors, int64_t dim) {
  std::vector<Tensor> made;
  for (const Tensor& t : tensors) made.push_back(unsqueeze(t, dim));
  return made;
}
Tensor flat_position(const Tensor& position, int64_t dim, bool keepdim) {
  return keepdim ? reshape(position, Dims(static_cast<size_t>(dim), 1)) : position;
}

// (B, N, C, ...) -> (N, B * C, ...) and back: examples become groups of channels.
Tensor into_channels(const Tensor& t) {
  Tensor moved = transpose(t, 0, 1);
  Dims shape{moved.size(0), moved.size(1) * moved.size(2)};
  for (int64_t d = 3; d < moved.dim(); ++d) shape.push_back(moved.size(d));
  return reshape(moved, shape);
}
Tensor out_of_channels(const Tensor& t, int64_t size) {
  Dims shape{t.size(0), size, t.size(1) / size};
  for (int64_t d = 2; d < t.dim(); ++d) shape.push_back(t.size(d));
  return transpose(reshape(t, shape), 0, 1);
}
Tensor split_front(const Tensor& t, int64_t size) {
  Dims shape{size, t.size(0) / size};
  for (int64_t d = 1; d < t.dim(); ++d) shape.push_back(t.size(d));
  return reshape(t, shape);
}
Tensor join_front(const Tensor& t) {
  Dims shape{t.size(0) * t.size(1)};
  for (int64_t d = 2; d < t.dim(); ++d) shape.push_back(t.size(d));
  return reshape(t, shape);
}

}  // namespace facula
