// Attention as one node: forwards in one pass, all gradients in another. When gradients must themselves be
// differentiable, attention is written out in ops and differentiated by the engine.
#include "autograd/engine.h"
#include "autograd/function_support.h"
#include "functions.h"

namespace facula {
namespace {

class AttentionBackward final : public Node {
 public:
  AttentionBackward(double dropout, bool is_causal, double scale, bool by_library)
      : dropout_(dropout), scale_(scale), is_causal_(is_causal), by_library_(by_library) {}
  std::string name() const override {
    return by_library_ ? "ScaledDotProductCudnnAttentionBackward0" : "ScaledDotProductAttentionBackward0";
  }

  void apply(const Tensor* grads, Tensor* results) override {
    const Tensor& grad = grads[0];
    if (!grad.defined()) return;
    const Tensor inputs[] = {query_.unpack(*this), key_.unpack(*this), value_.unpack(*this)};
    const Tensor mask = mask_.unpack(*this), seed = seed_.unpack(*this);
    if (GradMode::enabled() || is_batched(grad)) return apply_differentiably(grad, inputs, mask, seed, results);
    auto [query, key, value] =
        _attention_backward(grad, inputs[0], inputs[1], inputs[2], mask, seed, result_.unpack(*this),
                            logsumexp_.unpack(*this), dropout_, is_causal_, scale_, by_library_);
    const Tensor* found[] = {&query, &key, &value};
    for (size_t i = 0; i < 3; ++i)
      if (wants(i)) results[i] = *found[i];
  }
  void release_saved() override {
    for (SavedTensor* s : {&query_, &key_, &value_, &mask_, &seed_, &result_, &logsumexp_}) s->reset();
  }

  SavedTensor query_, key_, value_, mask_, seed_, result_, logsumexp_;

 private:
  void apply_differentiably(const Tensor& grad, const Tensor* inputs, const Tensor& mask, const Tensor& seed,
                            Tensor* results) {
    FACULA_CHECK(!by_library_ || (dropout_ == 0 && inputs[1].sizes() == inputs[2].sizes() &&
                                  inputs[0].size(1) == inputs[1].size(1)),
                 ErrorKind::NotImplemented,
                 "scaled_dot_product_attention: cuDNN has no derivative of its derivative; choose another "
                 "implementation with nn.attention.sdpa_kernel");
    // Stand-ins for the inputs: the gradients are taken with respect to them, and reach the inputs through them.
    Tensor given[3];
    std::vector<Edge> wanted;
    std::vector<size_t> places;
    GradMode recording(true);
    for (size_t i = 0; i < 3; ++i) {
      given[i] = alias_view(inputs[i]);
      if (!wants(i)) continue;
      wanted.push_back(gradient_edge(given[i].impl()));
      places.push_back(i);
    }
    Tensor out = _attention_in_ops(given[0], given[1], given[2], mask, seed, dropout_, is_causal_, scale_);
    std::vector<Tensor> found =
        run_backward({gradient_edge(out.impl())}, {grad}, wanted,
                     {.keep_graph = true, .create_graph = true, .accumulate = false, .follows = kRecorded});
    for (size_t k = 0; k < places.size(); ++k) results[places[k]] = found[k];
  }

  double dropout_, scale_;
  bool is_causal_, by_library_;
};

}  // namespace

Tensor _attention_in_one(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask,
                         const Tensor& seed, double dropout_p, bool is_causal, double scale, bool by_library) {
  auto [result, logsumexp] = _attention(query, key, value, mask, seed, dropout_p, is_causal, scale, by_library);
  if (uint32_t recorded_flags = recorded_flags_of(query) | recorded_flags_of(key) | recorded_flags_of(value)) {
    auto node = Ref<AttentionBackward>::adopt(new AttentionBackward(dropout_p, is_causal, scale, by_library));
    node->flags = recorded_flags;
    for (const Tensor* t : {&query, &key, &value}) add_edges(*node, *t);
    node->query_ = SavedTensor(query, false);
    node->key_ = SavedTensor(key, false);
    node->value_ = SavedTensor(value, false);
    node->mask_ = SavedTensor(mask, false);
    node->seed_ = SavedTensor(seed, false);
    node->logsumexp_ = SavedTensor(logsumexp, false);
    set_history(result, node.get());
    node->result_ = SavedTensor(result, true);
  }
  return result;
}

}  // namespace facula
