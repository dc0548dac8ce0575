// Attention of several heads, with the steps in front, and the transformer.
#include <cmath>
#include <limits>

#include "torch/nn/attention.h"

namespace torch::nn {

using facula::ErrorKind;

namespace functional {

MultiheadAttentionForwardFuncOptions::MultiheadAttentionForwardFuncOptions(int64_t embed, int64_t heads,
                                                                           Tensor in_weight, Tensor in_bias,
                                                                           Tensor bias_k, Tensor bias_v,
                                                                           bool add_zero_attn, double dropout_p,
                                                                           Tensor out_weight, Tensor out_bias)
    : embed_dim_to_check_(embed),
      num_heads_(heads),
      in_proj_weight_(std::move(in_weight)),
      in_proj_bias_(std::move(in_bias)),
      bias_k_(std::move(bias_k)),
      bias_v_(std::move(bias_v)),
      add_zero_attn_(add_zero_attn),
      dropout_p_(dropout_p),
      out_proj_weight_(std::move(out_weight)),
      out_proj_bias_(std::move(out_bias)) {}

namespace {

using AttentionOptions = MultiheadAttentionForwardFuncOptions;

optional<Tensor> maybe(const Tensor& t) { return t.defined() ? optional<Tensor>(t) : nullopt; }

struct Projected {
  Tensor q, k, v;
};

/// Rows of the common weight are those of the query, the key and the value, one third each.
Projected project(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& o) {
  const Tensor &weight = o.in_proj_weight(), &bias = o.in_proj_bias();
  const int64_t embed = query.size(-1);
  const auto third = [&](const Tensor& t, int64_t i) { return t.defined() ? t.narrow(0, i * embed, embed) : Tensor(); };
  const auto map = [&](const Tensor& input, const Tensor& own, int64_t i) {
    return torch::linear(input, own.defined() ? own : third(weight, i), maybe(third(bias, i)));
  };
  if (o.use_separate_proj_weight())
    return {map(query, o.q_proj_weight(), 0), map(key, o.k_proj_weight(), 1), map(value, o.v_proj_weight(), 2)};
  if (!key.is_same(value)) return {map(query, {}, 0), map(key, {}, 1), map(value, {}, 2)};
  if (query.is_same(key)) {
    const auto parts = torch::linear(query, weight, maybe(bias)).chunk(3, -1);
    return {parts[0], parts[1], parts[2]};
  }
  const auto rest = [&](const Tensor& t) { return t.defined() ? t.narrow(0, embed, 2 * embed) : Tensor(); };
  const auto parts = torch::linear(key, rest(weight), maybe(rest(bias))).chunk(2, -1);
  return {map(query, {}, 0), parts[0], parts[1]};
}

void check_mask(const Tensor& mask, int64_t batch_heads, int64_t steps, int64_t sources) {
  const int64_t rows = mask.dim() == 3 ? batch_heads : 1;
  FACULA_CHECK(mask.is_floating_point() || mask.scalar_type() == kBool || mask.scalar_type() == kByte, ErrorKind::Type,
               "multi_head_attention_forward: attn_mask must be floating-point or bool, got ", mask.scalar_type());
  FACULA_CHECK((mask.dim() == 2 || mask.dim() == 3) && mask.size(-2) == steps && mask.size(-1) == sources &&
                   (mask.dim() == 2 || mask.size(0) == rows),
               ErrorKind::Value, "multi_head_attention_forward: attn_mask must be (", steps, ", ", sources, ") or (",
               batch_heads, ", ", steps, ", ", sources, "), got ", mask.sizes());
}

/// What masks take away: minus infinity where they say so.
Tensor masked(Tensor scores, Tensor mask, const Tensor& padding, int64_t batch) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  if (mask.defined()) {
    if (mask.dim() == 2) mask = mask.unsqueeze(0);
    scores = mask.is_floating_point() ? scores + mask : scores.masked_fill(mask.to(kBool), kNever);
  }
  if (!padding.defined()) return scores;
  const Tensor hidden = padding.unsqueeze(1).unsqueeze(2);
  const Tensor by_head = scores.view({batch, scores.size(0) / batch, scores.size(1), scores.size(2)});
  const Tensor left = padding.is_floating_point() ? by_head + hidden : by_head.masked_fill(hidden.to(kBool), kNever);
  return left.view(scores.sizes());
}

void check_sizes(const Tensor& query, const Tensor& key, const Tensor& value, const AttentionOptions& o) {
  FACULA_CHECK(
      query.dim() == 3 && key.dim() == 3 && value.dim() == 3, ErrorKind::Value,
      "multi_head_attention_forward: query, key and value must have 3 dimensions (steps, batch, features), got ",
      query.sizes(), ", ", key.sizes(), " and ", value.sizes());
  FACULA_CHECK(query.size(2) == o.embed_dim_to_check(), ErrorKind::Value, "multi_head_attention_forward: a query of ",
               o.embed_dim_to_check(), " features is expected, got ", query.size(2));
  FACULA_CHECK(key.size(0) == value.size(0) && key.size(1) == value.size(1) && key.size(1) == query.size(1),
               ErrorKind::Value,
               "multi_head_attention_forward: key and value must have as many steps, and all the same ", "batch, got ",
               query.sizes(), ", ", key.sizes(), " and ", value.sizes());
  FACULA_CHECK(o.num_heads() > 0 && query.size(2) % o.num_heads() == 0, ErrorKind::Value,
               "multi_head_attention_forward: ", query.size(2), " features cannot be divided among ", o.num_heads(),
               " heads");
}

}  // namespace

std::tuple<Tensor, Tensor> multi_head_attention_forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                                        const AttentionOptions& o) {
  check_sizes(query, key, value, o);
  const int64_t steps = query.size(0), batch = query.size(1), embed = query.size(2), heads = o.num_heads();
  const int64_t width = embed / heads;
  auto [q, k, v] = project(query, key, value, o);
  q = q * (1 / std::sqrt(static_cast<double>(width)));
  Tensor mask = o.attn_mask(), padding = o.key_padding_mask();
  // one more source, which no mask hides
  const auto seen = [](const Tensor& m) { return m.defined() ? torch::pad(m, {0, 1}) : m; };
  if (o.bias_k().defined() && o.bias_v().defined()) {
    k = torch::cat({k, o.bias_k().repeat({1, batch, 1})});
    v = torch::cat({v, o.bias_v().repeat({1, batch, 1})});
    mask = seen(mask), padding = seen(padding);
  }
  const auto by_head = [&](const Tensor& t) { return t.contiguous().view({-1, batch * heads, width}).transpose(0, 1); };
  q = by_head(q);
  k = o.static_k().defined() ? o.static_k() : by_head(k);
  v = o.static_v().defined() ? o.static_v() : by_head(v);
  if (o.add_zero_attn()) {
    const Tensor nothing = torch::zeros({batch * heads, 1, width}, k.options());
    k = torch::cat({k, nothing}, 1), v = torch::cat({v, nothing}, 1);
    mask = seen(mask), padding = seen(padding);
  }
  const int64_t sources = k.size(1);
  if (mask.defined()) check_mask(mask, batch * heads, steps, sources);
  FACULA_CHECK(!padding.defined() || padding.sizes() == IntArrayRef({batch, sources}), ErrorKind::Value,
               "multi_head_attention_forward: key_padding_mask must be (", batch, ", ", sources, "), got ",
               padding.sizes());
  Tensor weights = masked(torch::bmm(q, k.transpose(1, 2)), mask, padding, batch).softmax(-1);
  weights = torch::dropout(weights, o.dropout_p(), o.training());
  const Tensor mixed = torch::bmm(weights, v).transpose(0, 1).contiguous().view({steps, batch, embed});
  const Tensor output = torch::linear(mixed, o.out_proj_weight(), maybe(o.out_proj_bias()));
  if (!o.need_weights()) return {output, Tensor()};
  weights = weights.view({batch, heads, steps, sources});
  return {output, o.average_attn_weights() ? weights.sum(1) / heads : weights};
}

}  // namespace functional

// ---- attention

MultiheadAttentionImpl::MultiheadAttentionImpl(const MultiheadAttentionOptions& o) : options(o) {
  MultiheadAttentionImpl::reset();
}
void MultiheadAttentionImpl::reset() {
  const int64_t embed = options.embed_dim(), heads = options.num_heads();
  FACULA_CHECK(heads > 0 && embed % heads == 0, ErrorKind::Runtime,
               "multi_head_attention_forward: embed_dim must be divisible by num_heads, got ", embed, " and ", heads);
  head_dim = embed / heads;
  _qkv_same_embed_dim = options.kdim() == embed && options.vdim() == embed;
  const auto weight = [&](const char* name, bool wanted, int64_t rows, int64_t columns) {
    return register_parameter(name, wanted ? torch::empty({rows, columns}) : Tensor(), wanted);
  };
  q_proj_weight = weight("q_proj_weight", !_qkv_same_embed_dim, embed, embed);
  k_proj_weight = weight("k_proj_weight", !_qkv_same_embed_dim, embed, options.kdim());
  v_proj_weight = weight("v_proj_weight", !_qkv_same_embed_dim, embed, options.vdim());
  in_proj_weight = weight("in_proj_weight", _qkv_same_embed_dim, 3 * embed, embed);
  const auto vector = [&](const char* name, bool wanted, std::vector<int64_t> sizes) {
    return register_parameter(name, wanted ? torch::empty(sizes) : Tensor(), wanted);
  };
  in_proj_bias = vector("in_proj_bias", options.bias(), {3 * embed});
  out_proj = register_module("out_proj", Linear(LinearOptions(embed, embed).bias(options.bias())));
  bias_k = vector("bias_k", options.add_bias_kv(), {1, 1, embed});
  bias_v = vector("bias_v", options.add_bias_kv(), {1, 1, embed});
  _reset_parameters();
}
void MultiheadAttentionImpl::_reset_parameters() {
  for (const Tensor& weight : {in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight})
    if (weight.defined()) init::xavier_uniform_(weight);
  if (options.bias()) {
    init::zeros_(in_proj_bias);
    init::zeros_(out_proj->bias);
  }
  for (const Tensor& bias : {bias_k, bias_v})
    if (bias.defined()) init::xavier_normal_(bias);
}
std::tuple<Tensor, Tensor> MultiheadAttentionImpl::forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                                           const Tensor& key_padding_mask, bool need_weights,
                                                           const Tensor& attn_mask, bool average_attn_weights) {
  functional::MultiheadAttentionForwardFuncOptions o(options.embed_dim(), options.num_heads(), in_proj_weight,
                                                     in_proj_bias, bias_k, bias_v, options.add_zero_attn(),
                                                     options.dropout(), out_proj->weight, out_proj->bias);
  o.training(is_training()).key_padding_mask(key_padding_mask).need_weights(need_weights).attn_mask(attn_mask);
  o.average_attn_weights(average_attn_weights).use_separate_proj_weight(!_qkv_same_embed_dim);
  o.q_proj_weight(q_proj_weight).k_proj_weight(k_proj_weight).v_proj_weight(v_proj_weight);
  return functional::multi_head_attention_forward(query, key, value, o);
}

// ---- layers

Tensor activation_t::operator()(const Tensor& input) const {
  if (function_) return function_(input);
  if (word_ == kGELU) return torch::gelu(input);
  FACULA_CHECK(word_ == kReLU, ErrorKind::Value, "Transformer: activation must be kReLU, kGELU or a function, got ",
               word_.name);
  return input.relu();
}

namespace {

template <class Layer>
void reset_feed_forward(Layer& layer) {
  layer.linear1->reset_parameters();
  layer.linear2->reset_parameters();
  layer.norm1->reset_parameters();
  layer.norm2->reset_parameters();
}
MultiheadAttention attention_of(int64_t model, int64_t heads, double dropout) {
  return MultiheadAttention(MultiheadAttentionOptions(model, heads).dropout(dropout));
}

}  // namespace

TransformerEncoderLayerImpl::TransformerEncoderLayerImpl(TransformerEncoderLayerOptions o) : options(std::move(o)) {
  TransformerEncoderLayerImpl::reset();
}
void TransformerEncoderLayerImpl::reset() {
  const int64_t model = options.d_model(), wide = options.dim_feedforward();
  const double p = options.dropout();
  self_attn = register_module("self_attn", attention_of(model, options.nhead(), p));
  linear1 = register_module("linear1", Linear(model, wide));
  dropout = register_module("dropout", Dropout(p));
  linear2 = register_module("linear2", Linear(wide, model));
  norm1 = register_module("norm1", LayerNorm(LayerNormOptions({model})));
  norm2 = register_module("norm2", LayerNorm(LayerNormOptions({model})));
  dropout1 = register_module("dropout1", Dropout(p));
  dropout2 = register_module("dropout2", Dropout(p));
}
void TransformerEncoderLayerImpl::reset_parameters() {
  self_attn->_reset_parameters();
  reset_feed_forward(*this);
}
Tensor TransformerEncoderLayerImpl::forward(const Tensor& src, const Tensor& src_mask,
                                            const Tensor& src_key_padding_mask) {
  const Tensor attended = std::get<0>(self_attn(src, src, src, src_key_padding_mask, false, src_mask));
  const Tensor x = norm1(src + dropout1(attended));
  return norm2(x + dropout2(linear2(dropout(options.activation()(linear1(x))))));
}

TransformerDecoderLayerImpl::TransformerDecoderLayerImpl(TransformerDecoderLayerOptions o) : options(std::move(o)) {
  TransformerDecoderLayerImpl::reset();
}
void TransformerDecoderLayerImpl::reset() {
  const int64_t model = options.d_model(), wide = options.dim_feedforward();
  const double p = options.dropout();
  self_attn = register_module("self_attn", attention_of(model, options.nhead(), p));
  dropout1 = register_module("dropout1", Dropout(p));
  norm1 = register_module("norm1", LayerNorm(LayerNormOptions({model})));
  multihead_attn = register_module("multihead_attn", attention_of(model, options.nhead(), p));
  dropout2 = register_module("dropout2", Dropout(p));
  norm2 = register_module("norm2", LayerNorm(LayerNormOptions({model})));
  linear1 = register_module("linear1", Linear(model, wide));
  dropout = register_module("dropout", Dropout(p));
  linear2 = register_module("linear2", Linear(wide, model));
  dropout3 = register_module("dropout3", Dropout(p));
  norm3 = register_module("norm3", LayerNorm(LayerNormOptions({model})));
}
void TransformerDecoderLayerImpl::reset_parameters() {
  self_attn->_reset_parameters();
  multihead_attn->_reset_parameters();
  reset_feed_forward(*this);
  norm3->reset_parameters();
}
Tensor TransformerDecoderLayerImpl::forward(Tensor tgt, const Tensor& memory, const Tensor& tgt_mask,
                                            const Tensor& memory_mask, const Tensor& tgt_key_padding_mask,
                                            const Tensor& memory_key_padding_mask) {
  const Tensor own = std::get<0>(self_attn(tgt, tgt, tgt, tgt_key_padding_mask, false, tgt_mask));
  tgt = norm1(tgt + dropout1(own));
  const Tensor other = std::get<0>(multihead_attn(tgt, memory, memory, memory_key_padding_mask, false, memory_mask));
  tgt = norm2(tgt + dropout2(other));
  return norm3(tgt + dropout3(linear2(dropout(options.activation()(linear1(tgt))))));
}

// ---- stacks

TransformerEncoderImpl::TransformerEncoderImpl(TransformerEncoderOptions o) : options(std::move(o)) {
  TransformerEncoderImpl::reset();
}
void TransformerEncoderImpl::reset() {
  layers = register_module("layers", ModuleList());
  for (int64_t i = 0; i < options.num_layers(); ++i) layers->push_back(options.encoder_layer()->clone());
  if (options.norm().is_empty()) return;
  norm = options.norm().clone();
  register_module("norm", norm.ptr());
}
void TransformerEncoderImpl::reset_parameters() {
  for (const auto& layer : *layers) layer->as<TransformerEncoderLayer>()->reset_parameters();
}
Tensor TransformerEncoderImpl::forward(const Tensor& src, const Tensor& src_mask, const Tensor& src_key_padding_mask) {
  Tensor x = src;
  for (const auto& layer : *layers)
    x = layer->as<TransformerEncoderLayer>()->forward(x, src_mask, src_key_padding_mask);
  return norm.is_empty() ? x : norm.forward<Tensor>(x);
}

TransformerDecoderImpl::TransformerDecoderImpl(TransformerDecoderOptions o) : options(std::move(o)) {
  TransformerDecoderImpl::reset();
}
void TransformerDecoderImpl::reset() {
  layers = register_module("layers", ModuleList());
  for (int64_t i = 0; i < options.num_layers(); ++i) layers->push_back(options.decoder_layer()->clone());
  if (options.norm().is_empty()) return;
  norm = options.norm().clone();
  register_module("norm", norm.ptr());
}
void TransformerDecoderImpl::reset_parameters() {
  for (const auto& layer : *layers) layer->as<TransformerDecoderLayer>()->reset_parameters();
}
Tensor TransformerDecoderImpl::forward(const Tensor& tgt, const Tensor& memory, const Tensor& tgt_mask,
                                       const Tensor& memory_mask, const Tensor& tgt_key_padding_mask,
                                       const Tensor& memory_key_padding_mask) {
  Tensor x = tgt;
  for (const auto& layer : *layers)
    x = layer->as<TransformerDecoderLayer>()->forward(x, memory, tgt_mask, memory_mask, tgt_key_padding_mask,
                                                      memory_key_padding_mask);
  return norm.is_empty() ? x : norm.forward<Tensor>(x);
}

// ---- the whole

TransformerImpl::TransformerImpl(TransformerOptions o) : options(std::move(o)) { TransformerImpl::reset(); }

namespace {

/// A stack of layers as the options say, with a norm behind it; or the one that they have.
template <class Coder, class CoderOptions, class LayerOptions>
AnyModule coder_of(const TransformerOptions& o, const AnyModule& custom, int64_t count) {
  if (!custom.is_empty()) return custom.clone();
  const auto layer = LayerOptions(o.d_model(), o.nhead())
                         .dim_feedforward(o.dim_feedforward())
                         .dropout(o.dropout())
                         .activation(o.activation());
  const AnyModule norm{LayerNorm(LayerNormOptions({o.d_model()}))};
  return AnyModule(Coder(CoderOptions(layer, count).norm(norm)));
}

}  // namespace

void TransformerImpl::reset() {
  encoder = coder_of<TransformerEncoder, TransformerEncoderOptions, TransformerEncoderLayerOptions>(
      options, options.custom_encoder(), options.num_encoder_layers());
  register_module("encoder", encoder.ptr());
  decoder = coder_of<TransformerDecoder, TransformerDecoderOptions, TransformerDecoderLayerOptions>(
      options, options.custom_decoder(), options.num_decoder_layers());
  register_module("decoder", decoder.ptr());
  reset_parameters();
}
void TransformerImpl::reset_parameters() {
  for (const Tensor& parameter : parameters())
    if (parameter.dim() > 1) init::xavier_uniform_(parameter);
}
Tensor TransformerImpl::forward(const Tensor& src, const Tensor& tgt, const Tensor& src_mask, const Tensor& tgt_mask,
                                const Tensor& memory_mask, const Tensor& src_key_padding_mask,
                                const Tensor& tgt_key_padding_mask, const Tensor& memory_key_padding_mask) {
  FACULA_CHECK(src.dim() == 3 && tgt.dim() == 3 && src.size(1) == tgt.size(1) && src.size(2) == options.d_model() &&
                   tgt.size(2) == options.d_model(),
               ErrorKind::Runtime, "Transformer: src and tgt must be (steps, batch, ", options.d_model(),
               ") of the same batch, got ", src.sizes(), " and ", tgt.sizes());
  const Tensor memory = encoder.forward<Tensor>(src, src_mask, src_key_padding_mask);
  return decoder.forward<Tensor>(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask);
}
Tensor TransformerImpl::generate_square_subsequent_mask(int64_t size) {
  return torch::triu(torch::full({size, size}, -std::numeric_limits<float>::infinity()), 1);
}

}  // namespace torch::nn
