// Implements vmap. Policy:
//   - Inside vmap a batch appears as one example. Its wrapper has the flag kBatched, the sizes of an example, the batch
//     (examples in its first dimension) as its base, and the number of the vmap that made it. It has no history of its
//     own.
//   - An op on wrappers runs once, on the batches of the innermost vmap among its arguments, by the rule that ops/
//     states or that follows from its kind (codegen/batching.py). These batches may be wrappers of outer vmaps, and
//     autograd records the op as always.
//   - Ops without a rule run example by example, with one warning per op.
//   - Composites and derivative formulas are written with ops and need no rules.
#pragma once

#include "autograd/saved.h"
#include "core/generator.h"
#include "ops/operand.h"

namespace facula {

enum class Randomness { Error, Same, Different };
/// The vmaps that run on this thread, outermost first. A level is a position in it, counted from 1.
struct VmapLevel {
  int64_t size;
  Randomness randomness;
};
std::vector<VmapLevel>& vmap_levels();

inline bool is_batched(const Tensor& t) { return t.defined() && (t.flags() & kBatched); }
/// Which vmap made a wrapper.
inline uint32_t batch_level(const Tensor& t) { return t.impl()->batch_level; }
/// The batch behind a wrapper.
inline Tensor batch_behind(const Tensor& t) { return Tensor::share(t.impl()->base); }
/// The values of all examples, for checks that hold for each of them.
inline Tensor all_examples(Tensor t) {
  while (is_batched(t)) t = batch_behind(t);
  return t;
}
/// Throws: `op` needs the values themselves.
void check_not_batched(const Tensor& t, const char* op);
/// Writes `value` into `self`, where at least one is a wrapper.
/// `cast`: also into a dtype that it does not promote to.
void write_batched(const Tensor& self, const Tensor& value, const char* op, bool cast);
/// The shape of a wrapper becomes that of a view of it.
void become_batched_view(const Tensor& self, const Tensor& view);
[[noreturn]] void report_batched_out(const char* op);

/// One op's call: the innermost vmap among its arguments, and their batches.
class Batch {
 public:
  template <class... Args>
  explicit Batch(const char* op, const Args&... args) : op_(op) {
    (see(args), ...);
  }

  int64_t size() const { return size_; }
  uint32_t level() const { return level_; }
  bool has(const Tensor& t) const { return is_batched(t) && batch_level(t) == level_; }
  bool has(TensorList list) const {
    for (const Tensor& t : list) {
      if (has(t)) return true;
    }
    return false;
  }

  /// The batch behind `t`, or a tensor that all examples share as it is.
  Tensor value(const Tensor& t) const { return has(t) ? batch_behind(t) : t; }
  /// A number or a tensor, while the call lasts.
  struct Argument {
    Tensor tensor;
    Scalar scalar;
    operator Operand() const { return tensor.defined() ? Operand(tensor) : Operand(scalar); }
  };
  /// For operands that broadcast: as many dimensions behind the batch as the largest example has, and the dtype that
  /// promotion of examples asks for.
  Tensor aligned(const Tensor& t) const;
  Argument aligned(const Operand& o) const;
  /// The same up to `rank` dimensions; shared tensors as they are.
  Tensor raised(const Tensor& t, int64_t rank) const;
  /// For operands that do not broadcast: always with the batch in front.
  Tensor spread(const Tensor& t) const;
  std::vector<Tensor> spread(TensorList list) const;
  /// As spread(), but examples without dimensions get one, which wrap_full() takes off again.
  Tensor full(const Tensor& t) const;
  std::vector<Tensor> full(TensorList list) const;
  /// A dimension of an example (of its first tensor; `extra`: of a result with so many more) in the batch.
  int64_t dim(int64_t d, int64_t extra = 0) const;
  std::optional<int64_t> dim(std::optional<int64_t> d) const { return d ? std::optional<int64_t>(dim(*d)) : d; }
  /// None named: none.
  Dims dims(IntList d) const;
  /// None named: all.
  Dims dims_or_all(std::optional<IntList> d) const;
  /// Sizes of an example with the batch in front; a permutation of its dimensions, likewise; repetitions.
  Dims sizes(IntList s) const { return with_front(size_, s); }
  Dims permutation(IntList d) const { return with_front(0, dims(d)); }
  Dims repeats(IntList r) const { return with_front(1, r); }
  /// Strides in the memory of an example of `t`, with that from example to example in front.
  Dims strides(const Tensor& t, IntList s) const { return with_front(value(t).stride(0), s); }
  /// Whether all tensors given have as many dimensions.
  template <class... T>
  bool same_rank(const T&... tensors) const {
    return ((!tensors.defined() || tensors.dim() == first_rank_) && ...);
  }

  /// A result with the batch in front as an example.
  Tensor wrap(const Tensor& result) const;
  std::vector<Tensor> wrap(const std::vector<Tensor>& results) const;
  template <class... T>
  std::tuple<T...> wrap(const std::tuple<T...>& results) const {
    return std::apply([this](const T&... each) { return std::tuple<T...>(wrap(each)...); }, results);
  }

  Tensor wrap_full(const Tensor& result) const;
  template <class... T>
  std::tuple<T...> wrap_full(const std::tuple<T...>& results) const {
    return std::apply([this](const T&... each) { return std::tuple<T...>(wrap_full(each)...); }, results);
  }

  /// Batch and first dimension of the examples as one, and back: for ops whose examples carry a batch of their own,
  /// unless they have `rank` dimensions only.
  Tensor folded(const Tensor& t, int64_t rank) const;
  Tensor unfolded(const Tensor& t, int64_t rank) const;
  template <class... T>
  std::tuple<T...> unfolded(const std::tuple<T...>& results, int64_t rank) const {
    return std::apply([this, rank](const T&... each) { return std::tuple<T...>(unfolded(each, rank)...); }, results);
  }

  /// Example `index` of the arguments.
  class Example {
   public:
    Example(const Batch& batch, int64_t index) : batch_(batch), index_(index) {}
    Tensor operator()(const Tensor& t) const;
    Argument operator()(const Operand& o) const { return {o.is_tensor() ? (*this)(o.tensor()) : Tensor(), o.scalar()}; }
    std::vector<Tensor> operator()(TensorList list) const;

   private:
    const Batch& batch_;
    int64_t index_;
  };
  /// `body(example)` for every example, its results stacked.
  template <class Body>
  auto loop(Body&& body, bool warn = true) const {
    start_loop(warn);
    std::vector<decltype(body(Example(*this, 0)))> results;
    for (int64_t i = 0; i < size_; ++i) results.push_back(body(Example(*this, i)));
    return stacked(results);
  }

  /// Whether examples draw different numbers or the same; throws in mode "error".
  Randomness randomness() const;
  Device device() const { return device_; }

 private:
  void see(const Tensor& t);
  void see(const Operand& o) {
    if (o.is_tensor()) see(o.tensor());
  }
  void see(TensorList list) {
    for (const Tensor& t : list) see(t);
  }
  Dims with_front(int64_t front, IntList list) const;
  void start_loop(bool warn) const;
  Tensor stacked(const std::vector<Tensor>& results) const;
  std::vector<Tensor> stacked(const std::vector<std::vector<Tensor>>& results) const;
  template <class... T>
  std::tuple<T...> stacked(const std::vector<std::tuple<T...>>& results) const {
    return stacked_columns(results, std::index_sequence_for<T...>());
  }
  template <class Tuple, size_t... I>
  Tuple stacked_columns(const std::vector<Tuple>& results, std::index_sequence<I...>) const {
    return Tuple(stacked(column<I>(results))...);
  }
  template <size_t I, class Tuple>
  static auto column(const std::vector<Tuple>& results) {
    std::vector<std::tuple_element_t<I, Tuple>> found;
    for (const Tuple& r : results) found.push_back(std::get<I>(r));
    return found;
  }

  const char* op_;
  uint32_t level_ = 0;
  int64_t size_ = 0, rank_ = 0, first_rank_ = -1;
  ResultType promoted_;
  Device device_;
};

/// Lets every example draw the same numbers.
class SameDraws {
 public:
  SameDraws(Generator* generator, Device device);
  /// Before each example.
  void again();

 private:
  Generator* generator_;
  std::vector<uint8_t> state_;
  bool first_ = true;
};

/// A factory of random numbers inside vmap: with the batch in front in mode "different", plain in mode "same", an error
/// else.
template <class Make>
Tensor random_in_vmap(const char* op, IntList size, Make&& make) {
  Randomness mode = Batch(op).randomness();
  if (mode == Randomness::Same) return make(size);
  Dims sizes{vmap_levels().back().size};
  for (int64_t s : size) sizes.push_back(s);
  return make_batched(make(sizes), static_cast<uint32_t>(vmap_levels().size()));
}

}  // namespace facula
