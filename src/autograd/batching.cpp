#include "autograd/batching.h"

#include "core/generator.h"
#include "functions.h"

namespace facula {

std::vector<VmapLevel>& vmap_levels() {
  static thread_local std::vector<VmapLevel> levels;
  return levels;
}

void check_not_batched(const Tensor& t, const char* op) {
  FACULA_CHECK(!is_batched(t), ErrorKind::Runtime, "vmap: ", op,
               " needs the values of a Tensor, which inside vmap stands for a whole batch; "
               "got an example of shape ",
               t.sizes());
}

void write_batched(const Tensor& self, const Tensor& value, const char* op, bool cast) {
  Batch batch(op, self, value);
  FACULA_CHECK(batch.has(self), ErrorKind::Runtime, "vmap: ", op,
               "(self, *extra_args) is not possible because there exists a Tensor `other` in "
               "extra_args that has more elements than `self`: self is shared by all examples (make it from a batched "
               "tensor), got shape ",
               self.sizes());
  FACULA_CHECK(cast || can_cast(value.dtype(), self.dtype()), ErrorKind::Runtime, op, ": a result of ", value.dtype(),
               " cannot be written into ", self.dtype());
  FACULA_CHECK(broadcasts_to(value.sizes(), self.sizes()), ErrorKind::Runtime, op, ": the result has shape ",
               value.sizes(), " and does not fit in place into shape ", self.sizes());
  copy_(batch.value(self), batch.raised(value, self.dim()), false);
}

void become_batched_view(const Tensor& self, const Tensor& view) {
  TensorImpl* impl = self.impl();
  TensorImpl* before = impl->base;
  impl->base = view.impl()->base;
  retain(impl->base);
  release(before);
  impl->data = view.impl()->data;
  set_sizes(impl, view.sizes(), view.strides());
}

void report_batched_out(const char* op) {
  throw_error(ErrorKind::Runtime, op, ": out= is not supported inside vmap, got an argument that stands for a batch");
}

// ---- arguments

void Batch::see(const Tensor& t) {
  if (!t.defined()) return;
  if (first_rank_ < 0) first_rank_ = t.dim();
  rank_ = std::max(rank_, t.dim());
  promoted_.add(t.dtype(), t.dim());
  if (!is_batched(t) || batch_level(t) < level_) return;
  int64_t count = batch_behind(t).size(0);
  FACULA_CHECK(batch_level(t) > level_ || count == size_, ErrorKind::Runtime, "vmap: ", op_,
               ": batches of different sizes meet, got ", size_, " and ", count);
  level_ = batch_level(t);
  size_ = count;
  device_ = t.device();
}

Tensor Batch::raised(const Tensor& t, int64_t rank) const {
  if (!has(t) || t.dim() >= rank) return value(t);
  Tensor batch = batch_behind(t);
  Dims shape{size_};
  shape.resize(static_cast<size_t>(1 + rank - t.dim()), 1);
  for (int64_t d = 1; d < batch.dim(); ++d) shape.push_back(batch.size(d));
  return reshape(batch, shape);
}

Tensor Batch::aligned(const Tensor& t) const {
  Tensor made = raised(t, rank_);
  // Behind the batch a number of an example looks like a vector, which would outrank other dtypes.
  DType wanted = promoted_.get();
  bool outranks =
      has(t) && t.dim() == 0 && rank_ > 0 && t.dtype() != DType::Bool && wanted != DType::Bool && t.dtype() != wanted;
  return outranks ? to_dtype(made, wanted) : made;
}
Batch::Argument Batch::aligned(const Operand& o) const {
  return {o.is_tensor() ? aligned(o.tensor()) : Tensor(), o.scalar()};
}

Tensor Batch::spread(const Tensor& t) const {
  if (!t.defined() || has(t)) return value(t);
  Dims shape{size_};
  for (int64_t s : t.sizes()) shape.push_back(s);
  return expand(unsqueeze(t, 0), shape, false);
}
std::vector<Tensor> Batch::spread(TensorList list) const {
  std::vector<Tensor> made;
  for (const Tensor& t : list) made.push_back(spread(t));
  return made;
}
Tensor Batch::full(const Tensor& t) const {
  Tensor made = spread(t);
  return made.defined() && t.dim() == 0 ? unsqueeze(made, 1) : made;
}
std::vector<Tensor> Batch::full(TensorList list) const {
  std::vector<Tensor> made;
  for (const Tensor& t : list) made.push_back(full(t));
  return made;
}

int64_t Batch::dim(int64_t d, int64_t extra) const {
  return wrap_dim(d, std::max<int64_t>(first_rank_ + extra, 1), op_) + 1;
}
Dims Batch::dims(IntList list) const {
  Dims made;
  for (int64_t d : list) made.push_back(dim(d));
  return made;
}
Dims Batch::dims_or_all(std::optional<IntList> list) const {
  if (list && !list->empty()) return dims(*list);
  Dims made;
  for (int64_t d = 1; d <= std::max<int64_t>(first_rank_, 1); ++d) made.push_back(d);
  return made;
}
Dims Batch::with_front(int64_t front, IntList list) const {
  Dims made{front};
  for (int64_t s : list) made.push_back(s);
  return made;
}

// ---- results

// A result without the batch in front is the empty tensor of something not asked for: the same for all examples.
Tensor Batch::wrap(const Tensor& result) const {
  bool batched = result.defined() && result.dim() > 0 && result.size(0) == size_;
  return batched ? make_batched(result, level_) : result;
}
std::vector<Tensor> Batch::wrap(const std::vector<Tensor>& results) const {
  std::vector<Tensor> made;
  for (const Tensor& t : results) made.push_back(wrap(t));
  return made;
}
Tensor Batch::wrap_full(const Tensor& result) const {
  return wrap(first_rank_ == 0 && result.defined() && result.dim() == 2 ? squeeze(result, 1) : result);
}

// An example without a batch of its own (of `rank` dimensions): the vmap's batch takes that place.
Tensor Batch::folded(const Tensor& t, int64_t rank) const {
  if (!t.defined()) return t;
  Tensor made = spread(t);
  if (t.dim() <= rank) return made;
  Dims shape{made.size(0) * made.size(1)};
  for (int64_t d = 2; d < made.dim(); ++d) shape.push_back(made.size(d));
  return reshape(made, shape);
}
Tensor Batch::unfolded(const Tensor& t, int64_t rank) const {
  if (!t.defined() || first_rank_ <= rank) return wrap(t);
  Dims shape{size_, size_ ? t.size(0) / size_ : 0};
  for (int64_t d = 1; d < t.dim(); ++d) shape.push_back(t.size(d));
  return wrap(reshape(t, shape));
}

// ---- example by example

Tensor Batch::Example::operator()(const Tensor& t) const {
  return batch_.has(t) ? select(batch_behind(t), 0, index_) : t;
}
std::vector<Tensor> Batch::Example::operator()(TensorList list) const {
  std::vector<Tensor> made;
  for (const Tensor& t : list) made.push_back((*this)(t));
  return made;
}

void Batch::start_loop(bool warn) const {
  FACULA_CHECK(size_ > 0, ErrorKind::Runtime, "vmap: ", op_, " needs at least one example, got a batch of size 0");
  if (warn && host.warn_example_by_example) host.warn_example_by_example(op_);
}

Tensor Batch::stacked(const std::vector<Tensor>& results) const {
  if (!results[0].defined()) return results[0];
  for (const Tensor& t : results) {
    FACULA_CHECK(t.sizes() == results[0].sizes(), ErrorKind::Runtime, "vmap: ", op_,
                 ": the shape of the result depends on the values, got ", results[0].sizes(), " and ", t.sizes(),
                 " for two examples of one batch");
  }
  return wrap(stack(results, 0));
}
std::vector<Tensor> Batch::stacked(const std::vector<std::vector<Tensor>>& results) const {
  std::vector<Tensor> made;
  for (size_t k = 0; k < results[0].size(); ++k) {
    std::vector<Tensor> column;
    for (const auto& row : results) column.push_back(row.at(k));
    made.push_back(stacked(column));
  }
  return made;
}

// ---- random numbers

Randomness Batch::randomness() const {
  // an op's batch may belong to an outer vmap; a factory has none and belongs to the innermost
  size_t level = level_ ? level_ : vmap_levels().size();
  FACULA_CHECK(level >= 1 && level <= vmap_levels().size(), ErrorKind::Runtime, "vmap: ", op_,
               ": the vmap that made an argument has ended");
  Randomness mode = vmap_levels()[level - 1].randomness;
  FACULA_CHECK(
      mode != Randomness::Error, ErrorKind::Runtime, "vmap: called random operation ", op_,
      " while in randomness error mode. Please "
      "either use the 'same' or 'different' randomness flags on vmap or perform the randomness operation out of vmap");
  return mode;
}

SameDraws::SameDraws(Generator* generator, Device device)
    : generator_(generator ? generator : &default_generator(device)), state_(generator_->state_bytes()) {
  std::lock_guard<std::mutex> guard(generator_->mutex);
  generator_->get_state(state_.data());
}
void SameDraws::again() {
  std::lock_guard<std::mutex> guard(generator_->mutex);
  if (!std::exchange(first_, false)) generator_->set_state(state_.data(), state_.size());
}

// ---- rules by hand

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

Tensor batched_linear(const Tensor& self, const Tensor& weight, const Tensor& bias) {
  Batch batch("linear", self, weight, bias);
  if (!batch.has(weight) && !batch.has(bias)) return batch.wrap(linear(batch.value(self), weight, bias));
  Tensor product = weight.dim() == 1 ? matmul(self, weight) : matmul(self, t(weight));
  return bias.defined() ? add(product, bias, Scalar(1)) : product;
}

namespace {

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

// A statistic per row, of all examples one after the other.
Tensor join_rows(const Batch& batch, const Tensor& t) { return t.defined() ? join_front(batch.spread(t)) : t; }

}  // namespace

Tensor batched_convolution(const Tensor& input, const Tensor& weight, const Tensor& bias, IntList stride,
                           IntList padding, IntList dilation, bool transposed, IntList output_padding, int64_t groups) {
  Batch batch("convolution", input, weight, bias);
  if (batch.has(bias)) {
    Dims shape(static_cast<size_t>(input.dim()), 1);
    shape[1] = bias.size(0);
    return add(convolution(input, weight, Tensor(), stride, padding, dilation, transposed, output_padding, groups),
               reshape(bias, shape), Scalar(1));
  }
  if (!batch.has(weight)) {
    return batch.unfolded(convolution(batch.folded(input, -1), weight, bias, stride, padding, dilation, transposed,
                                      output_padding, groups),
                          -1);
  }
  Tensor biases = bias.defined() ? repeat(bias, {batch.size()}) : bias;
  Tensor made = convolution(into_channels(batch.spread(input)), join_front(batch.value(weight)), biases, stride,
                            padding, dilation, transposed, output_padding, groups * batch.size());
  return batch.wrap(out_of_channels(made, batch.size()));
}

Tensor batched_convolution_weight(const Tensor& output, const Tensor& input, IntList weight_size, IntList stride,
                                  IntList padding, IntList dilation, int64_t groups) {
  Batch batch("convolution_weight", output, input);
  Dims sizes(weight_size);
  sizes[0] *= batch.size();
  Tensor made = convolution_weight(into_channels(batch.spread(output)), into_channels(batch.spread(input)), sizes,
                                   stride, padding, dilation, groups * batch.size());
  return batch.wrap(split_front(made, batch.size()));
}

namespace {}  // namespace

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

// Rows: (batch * rows) runs; a weight of each example's own is applied afterwards.
std::tuple<Tensor, Tensor, Tensor> batched_row_norm(const Tensor& self, const Tensor& weight, const Tensor& bias,
                                                    int64_t rows, int64_t groups, int64_t channels, double eps,
                                                    bool center) {
  Batch batch("layer_norm", self, weight, bias);
  if (batch.has(weight) || batch.has(bias)) {
    auto [made, mean, rstd] = _row_norm(self, Tensor(), Tensor(), rows, groups, channels, eps, center);
    Tensor runs = reshape(made, {rows / groups, groups, channels, -1});
    if (weight.defined()) runs = mul(runs, reshape(weight, {1, groups, channels, 1}));
    if (bias.defined()) runs = add(runs, reshape(bias, {1, groups, channels, 1}), Scalar(1));
    return {reshape(runs, self.sizes()), mean, rstd};
  }
  auto [made, mean, rstd] =
      _row_norm(batch.value(self), weight, bias, rows * batch.size(), groups, channels, eps, center);
  return {batch.wrap(made), batch.wrap(split_front(mean, batch.size())), batch.wrap(split_front(rstd, batch.size()))};
}

Tensor batched_row_norm_backward(const Tensor& grad, const Tensor& self, const Tensor& weight, const Tensor& mean,
                                 const Tensor& rstd, int64_t groups, int64_t channels, bool center) {
  Batch batch("layer_norm", grad, self, weight, mean, rstd);
  if (batch.has(weight)) {
    Tensor runs =
        mul(reshape(grad, {rstd.numel() / groups, groups, channels, -1}), reshape(weight, {1, groups, channels, 1}));
    return _row_norm_backward(reshape(runs, self.sizes()), self, Tensor(), mean, rstd, groups, channels, center);
  }
  return batch.wrap(_row_norm_backward(batch.spread(grad), batch.spread(self), weight, join_rows(batch, mean),
                                       join_rows(batch, rstd), groups, channels, center));
}

Tensor batched_row_norm_backward_weight(const Tensor& grad, const Tensor& self, const Tensor& mean, const Tensor& rstd,
                                        int64_t groups, int64_t channels) {
  int64_t rows = rstd.numel();
  Dims runs{rows / groups, groups, channels, -1}, row{rows / groups, groups, 1, 1};
  Tensor x = mul(sub(reshape(self, runs), reshape(mean, row), Scalar(1)), reshape(rstd, row));
  Tensor product = mul(reshape(grad, runs), x);
  return reshape(sum(product, std::optional<IntList>(IntList{0, 3}), false, std::optional<DType>()),
                 {groups * channels});
}

// Channels: (batch * C) of them.
std::tuple<Tensor, Tensor, Tensor> batched_channel_norm(const Tensor& self, const Tensor& weight, const Tensor& bias,
                                                        const Tensor& running_mean, const Tensor& running_var,
                                                        bool training, double momentum, double eps) {
  Batch batch("batch_norm", self, weight, bias, running_mean, running_var);
  auto moved = [&](const Tensor& running) {
    if (!running.defined()) return running;
    FACULA_CHECK(!training || batch.has(running), ErrorKind::Runtime,
                 "vmap: batch_norm: running statistics that all examples share cannot be "
                 "moved by each (use functional_call with batched buffers, or no running statistics), got shape ",
                 running.sizes());
    return batch.has(running) ? contiguous(join_front(batch.value(running)), MemoryFormat::Contiguous)
                              : join_front(batch.spread(running));
  };
  auto joined = [&](const Tensor& t) { return t.defined() ? join_front(batch.spread(t)) : t; };
  Tensor means = moved(running_mean), variances = moved(running_var);
  auto [made, mean, rstd] = _channel_norm(into_channels(batch.spread(self)), joined(weight), joined(bias), means,
                                          variances, training, momentum, eps);
  if (training && running_mean.defined()) copy_(batch.value(running_mean), split_front(means, batch.size()), false);
  if (training && running_var.defined()) copy_(batch.value(running_var), split_front(variances, batch.size()), false);
  return {batch.wrap(out_of_channels(made, batch.size())), batch.wrap(split_front(mean, batch.size())),
          batch.wrap(split_front(rstd, batch.size()))};
}

Tensor batched_channel_norm_backward(const Tensor& grad, const Tensor& self, const Tensor& weight, const Tensor& mean,
                                     const Tensor& rstd, bool training) {
  Batch batch("batch_norm", grad, self, weight, mean, rstd);
  auto joined = [&](const Tensor& t) { return t.defined() ? join_front(batch.spread(t)) : t; };
  return batch.wrap(
      out_of_channels(_channel_norm_backward(into_channels(batch.spread(grad)), into_channels(batch.spread(self)),
                                             joined(weight), joined(mean), joined(rstd), training),
                      batch.size()));
}

Tensor batched_channel_norm_backward_weight(const Tensor& grad, const Tensor& self, const Tensor& mean,
                                            const Tensor& rstd) {
  Batch batch("batch_norm", grad, self, mean, rstd);
  return batch.wrap(
      split_front(_channel_norm_backward_weight(into_channels(batch.spread(grad)), into_channels(batch.spread(self)),
                                                join_front(batch.spread(mean)), join_front(batch.spread(rstd))),
                  batch.size()));
}

// The losses over classes, from the factor that every class's score has.
namespace {

Tensor over_classes(const Tensor& t) {
  return sum(t, std::optional<IntList>(IntList{1}), false, std::optional<DType>());
}
Tensor reduced_loss(const Tensor& losses, const Tensor& total, int64_t reduction) {
  if (reduction == 0) return losses;
  Tensor all = sum(losses, std::optional<DType>());
  return reduction == 1 ? div(all, total) : all;
}
Tensor spread_gradient(const Tensor& grad, const Tensor& total, int64_t reduction) {
  return reduction == 1 ? div(grad, total) : reduction == 0 ? unsqueeze(grad, 1) : grad;
}
Tensor class_factors(const Tensor& self, const Tensor& target, const Tensor& weight, int64_t classes,
                     int64_t ignore_index, double smoothing) {
  return _class_weights(target, weight, classes, ignore_index, smoothing, self.dtype());
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> batched_cross_entropy(const Tensor& self, const Tensor& target, const Tensor& weight,
                                                         int64_t reduction, int64_t ignore_index,
                                                         double label_smoothing) {
  Tensor factors = class_factors(self, target, weight, self.size(1), ignore_index, label_smoothing);
  Tensor log_sum = _class_logsumexp(self);
  Tensor losses = over_classes(mul(factors, sub(unsqueeze(log_sum, 1), self, Scalar(1))));
  // the weights of the classes themselves, which the mean divides by, know nothing of smoothing
  Tensor total = sum(class_factors(self, target, weight, self.size(1), ignore_index, 0.0), std::optional<DType>());
  return {reduced_loss(losses, total, reduction), total, log_sum};
}

Tensor batched_cross_entropy_backward(const Tensor& grad, const Tensor& self, const Tensor& target,
                                      const Tensor& weight, const Tensor& total_weight, const Tensor& log_sum,
                                      int64_t reduction, int64_t ignore_index, double label_smoothing) {
  Tensor factors = class_factors(self, target, weight, self.size(1), ignore_index, label_smoothing);
  Tensor softmax = exp(sub(self, unsqueeze(log_sum, 1), Scalar(1)));
  Tensor all = sum(factors, std::optional<IntList>(IntList{1}), true, std::optional<DType>());
  return mul(spread_gradient(grad, total_weight, reduction), sub(mul(softmax, all), factors, Scalar(1)));
}

std::tuple<Tensor, Tensor> batched_nll(const Tensor& self, const Tensor& target, const Tensor& weight,
                                       int64_t reduction, int64_t ignore_index) {
  Tensor factors = class_factors(self, target, weight, self.size(1), ignore_index, 0.0);
  Tensor total = sum(factors, std::optional<DType>());
  // a class that does not count may have any score: its factor is 0, but 0 * -inf is not
  Tensor losses = neg(over_classes(mul(factors, where(eq(factors, Scalar(0)), Scalar(0), self))));
  return {reduced_loss(losses, total, reduction), total};
}

Tensor batched_nll_backward(const Tensor& grad, IntList sizes, const Tensor& target, const Tensor& weight,
                            const Tensor& total_weight, int64_t reduction, int64_t ignore_index) {
  Tensor factors = class_factors(grad, target, weight, sizes[1], ignore_index, 0.0);
  return neg(mul(factors, spread_gradient(grad, total_weight, reduction)));
}

}  // namespace facula
