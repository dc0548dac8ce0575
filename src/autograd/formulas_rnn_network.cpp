// A recurrent network of a library, as one node: what the library keeps in training goes from one pass to the other.
#include "autograd/function_support.h"
#include "autograd/rnn_network.h"

namespace facula {
namespace {

/// Stands for the derivative of the derivative, which the library has not.
class NoSecondDerivative final : public Node {
 public:
  std::string name() const override { return "CudnnRnnBackwardBackward0"; }
  void apply(const Tensor*, Tensor*) override {
    throw_error(ErrorKind::NotImplemented,
                "rnn: cuDNN has no derivative of its derivative; compute the network forwards inside "
                "`with backends.cudnn.flags(enabled=False)`");
  }
};

class CudnnRnnBackward final : public Node {
 public:
  explicit CudnnRnnBackward(RnnNetwork network) : network_(std::move(network)) {}
  std::string name() const override { return "CudnnRnnBackward0"; }

  void apply(const Tensor* grads, Tensor* results) override {
    if (rnn_apply_to_each(*this, grads, cell(grads), results)) return;
    RnnNetworkInputs in{input_.unpack(*this), h_.unpack(*this), c_.unpack(*this), {}}, found;
    for (SavedTensor& w : weights_) in.weights.push_back(w.unpack(*this));
    bool weights_wanted = false;
    for (size_t i = kWeights; i < edge_count(); ++i) weights_wanted |= wants(i);
    rnn_network_backward_kernel(in.input.device(), network_, in,
                                RnnNetworkResults{output_.unpack(*this), {}, {}, reserve_.unpack(*this)},
                                RnnNetworkResults{grads[0], grads[1], cell(grads), {}}, weights_wanted, found);
    const Tensor* first[] = {&found.input, &found.h, &found.c};
    for (size_t i = 0; i < edge_count(); ++i)
      if (wants(i)) results[i] = i < kWeights ? *first[i] : found.weights[i - kWeights];
    if (GradMode::enabled()) refuse_second(grads, in, results);
  }
  void release_saved() override {
    for (SavedTensor* s : {&input_, &h_, &c_, &output_, &reserve_}) s->reset();
    for (SavedTensor& w : weights_) w.reset();
  }

  SavedTensor input_, h_, c_, output_, reserve_;
  std::vector<SavedTensor> weights_;

 private:
  static constexpr size_t kWeights = 3;  // the edge of the first

  Tensor cell(const Tensor* grads) const { return network_.mode == RnnMode::Lstm ? grads[2] : Tensor(); }

  void refuse_second(const Tensor* grads, const RnnNetworkInputs& in, Tensor* results) {
    const Tensor given[] = {grads[0], grads[1], cell(grads), in.input, in.h, in.c};
    uint32_t recorded_flags = recorded_flags_of(TensorList(in.weights));
    for (const Tensor& t : given) recorded_flags |= recorded_flags_of(t);
    if (!recorded_flags) return;
    auto node = Ref<NoSecondDerivative>::adopt(new NoSecondDerivative);
    node->flags = recorded_flags;
    for (const Tensor& t : given) add_edges(*node, t);
    add_edges(*node, TensorList(in.weights));
    for (size_t i = 0; i < edge_count(); ++i)
      if (results[i].defined()) set_history(results[i], node.get());
  }

  RnnNetwork network_;
};

uint32_t flags_of_all(const RnnNetworkInputs& in) {
  return flags_of(in.input) | flags_of(in.h) | flags_of(in.c) | flags_of(TensorList(in.weights));
}

}  // namespace

bool rnn_apply_to_each(Node& node, const Tensor* grads, const Tensor& cell, Tensor* results) {
  if (!is_batched(grads[0]) && !is_batched(grads[1]) && !is_batched(cell)) return false;
  Batch batch("rnn", grads[0], grads[1], cell);
  std::vector<Tensor> found = batch.loop([&](const Batch::Example& e) {
    Tensor own[] = {e(grads[0]), e(grads[1]), e(cell)};
    std::vector<Tensor> made(node.edge_count());
    node.apply(own, made.data());
    return made;
  });
  std::copy(found.begin(), found.end(), results);
  return true;
}

std::optional<RnnNetworkResults> rnn_by_library(RnnNetwork network, const RnnNetworkInputs& given) {
  const Device device = given.input.device();
  if (!library_takes_rnn || !device.is_cuda() || (flags_of_all(given) & (kBatched | kPythonDispatch))) return {};
  ops::check_rnn_network(network, given);
  uint32_t recorded_flags = recorded_flags_of(given.input) | recorded_flags_of(given.h) | recorded_flags_of(given.c) |
                            recorded_flags_of(TensorList(given.weights));
  network.training = network.dropout > 0 || recorded_flags;
  if (!library_takes_rnn(network, given.input.dtype(), device)) return {};
  RnnNetworkResults r;
  rnn_network_kernel(device, network, given, r);
  if (recorded_flags) {
    auto node = Ref<CudnnRnnBackward>::adopt(new CudnnRnnBackward(network));
    node->flags = recorded_flags;
    for (const Tensor* t : {&given.input, &given.h, &given.c}) add_edges(*node, *t);
    add_edges(*node, TensorList(given.weights));
    node->input_ = SavedTensor(given.input, false);
    node->h_ = SavedTensor(given.h, false);
    node->c_ = SavedTensor(given.c, false);
    for (const Tensor& w : given.weights) node->weights_.emplace_back(w, false);
    node->reserve_ = SavedTensor(r.reserve, false);
    set_history(r.output, node.get());
    set_history(r.h, node.get());
    if (network.mode == RnnMode::Lstm) set_history(r.c, node.get());
    node->output_ = SavedTensor(r.output, true);
  }
  return r;
}

std::vector<Tensor> rnn_weights_in_one(const RnnNetwork& network, const std::vector<Tensor>& weights) {
  std::vector<Tensor> copies;
  const Tensor& first = weights.at(0);
  for (const Tensor& w : weights)
    if (!w.device().is_cuda() || w.device() != first.device() || w.dtype() != first.dtype() ||
        (flags_of(w) & (kBatched | kPythonDispatch)))
      return copies;
  if (!library_takes_rnn || !library_takes_rnn(network, first.dtype(), first.device())) return copies;
  ops::check_rnn_weights(network, weights);
  rnn_flatten_kernel(first.device(), network, RnnNetworkInputs{first, {}, {}, weights}, copies);
  return copies;
}

}  // namespace facula
