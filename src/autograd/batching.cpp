#include "autograd/batching.h"

#include "autograd/inplace.h"
#include "core/generator_looks.h"
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
  FACULA_CHECK(
      batch.has(self), ErrorKind::Runtime, "vmap: ", op,
      ": the examples share this tensor, so it cannot hold a result of each (make it from a batched one), got shape ",
      self.sizes());
  if (!cast) check_castable(value, self, op);
  FACULA_CHECK(broadcasts_to(value.sizes(), self.sizes()), ErrorKind::Runtime, op,
               ": the result must fit in place into shape ", self.sizes(), ", got ", value.sizes());
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
  // A number that all examples share has the say of the numbers of the examples.
  if (rank_ == 0 && made.defined() && made.dim() == 0) return unsqueeze(made, 0);
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

// A result without the batch in front is the empty tensor of something not requested: the same for all examples.
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
      mode != Randomness::Error, ErrorKind::Runtime, "vmap: ", op_,
      " draws random numbers, which randomness='error' refuses: say 'same' or 'different', or draw outside of vmap");
  return mode;
}

SameDraws::SameDraws(Generator* generator, Device device)
    : generator_(generator ? generator : &default_generator(device)), state_(generator_->state_bytes()) {
  std::lock_guard<std::mutex> guard(generator_->mutex);
  generator_->get_state(state_.data());
  note_look(*generator_);
}
void SameDraws::again() {
  std::lock_guard<std::mutex> guard(generator_->mutex);
  if (!std::exchange(first_, false)) generator_->set_state(state_.data(), state_.size());
}

}  // namespace facula
