// Attention of several heads, and the transformer that is made of it.
#pragma once

#include <torch/nn/modules.h>

namespace torch::nn {

// ---- options

struct MultiheadAttentionOptions {
  MultiheadAttentionOptions(int64_t embed, int64_t heads)
      : embed_dim_(embed), num_heads_(heads), kdim_(embed), vdim_(embed) {}
  TORCH_ARG(int64_t, embed_dim);
  TORCH_ARG(int64_t, num_heads);
  TORCH_ARG(double, dropout) = 0.0;
  TORCH_ARG(bool, bias) = true;
  TORCH_ARG(bool, add_bias_kv) = false;
  TORCH_ARG(bool, add_zero_attn) = false;
  TORCH_ARG(int64_t, kdim);
  TORCH_ARG(int64_t, vdim);
};

/// What stands between the two linear maps of a layer: kReLU, kGELU or a function.
class activation_t {
 public:
  activation_t(Word word) : word_(word) {}
  template <class F>
    requires std::is_invocable_r_v<Tensor, F, const Tensor&>
  activation_t(F function) : function_(std::move(function)) {}
  Tensor operator()(const Tensor& input) const;

 private:
  Word word_ = kReLU;
  std::function<Tensor(const Tensor&)> function_;
};

#define TORCH_LAYER_OPTIONS(Name)                                          \
  struct Name##Options {                                                   \
    Name##Options(int64_t model, int64_t heads) : d_model_(model), nhead_(heads) {} \
    TORCH_ARG(int64_t, d_model);                                           \
    TORCH_ARG(int64_t, nhead);                                             \
    TORCH_ARG(int64_t, dim_feedforward) = 2048;                            \
    TORCH_ARG(double, dropout) = 0.1;                                      \
    TORCH_ARG(activation_t, activation) = kReLU;                           \
  }
TORCH_LAYER_OPTIONS(TransformerEncoderLayer);
TORCH_LAYER_OPTIONS(TransformerDecoderLayer);
#undef TORCH_LAYER_OPTIONS

struct TransformerOptions {
  TransformerOptions() = default;
  TransformerOptions(int64_t model, int64_t heads) : d_model_(model), nhead_(heads) {}
  TransformerOptions(int64_t model, int64_t heads, int64_t encoder_layers, int64_t decoder_layers)
      : d_model_(model), nhead_(heads), num_encoder_layers_(encoder_layers), num_decoder_layers_(decoder_layers) {}
  TORCH_ARG(int64_t, d_model) = 512;
  TORCH_ARG(int64_t, nhead) = 8;
  TORCH_ARG(int64_t, num_encoder_layers) = 6;
  TORCH_ARG(int64_t, num_decoder_layers) = 6;
  TORCH_ARG(int64_t, dim_feedforward) = 2048;
  TORCH_ARG(double, dropout) = 0.1;
  TORCH_ARG(activation_t, activation) = kReLU;
  TORCH_ARG(AnyModule, custom_encoder);
  TORCH_ARG(AnyModule, custom_decoder);
};

// ---- attention

namespace functional {

struct MultiheadAttentionForwardFuncOptions {
  MultiheadAttentionForwardFuncOptions(int64_t embed, int64_t heads, Tensor in_weight, Tensor in_bias, Tensor bias_k,
                                       Tensor bias_v, bool add_zero_attn, double dropout_p, Tensor out_weight,
                                       Tensor out_bias);
  TORCH_ARG(int64_t, embed_dim_to_check);
  TORCH_ARG(int64_t, num_heads);
  TORCH_ARG(Tensor, in_proj_weight);
  TORCH_ARG(Tensor, in_proj_bias);
  TORCH_ARG(Tensor, bias_k);
  TORCH_ARG(Tensor, bias_v);
  TORCH_ARG(bool, add_zero_attn);
  TORCH_ARG(double, dropout_p);
  TORCH_ARG(Tensor, out_proj_weight);
  TORCH_ARG(Tensor, out_proj_bias);
  TORCH_ARG(bool, training) = true;
  TORCH_ARG(Tensor, key_padding_mask);
  TORCH_ARG(bool, need_weights) = true;
  TORCH_ARG(Tensor, attn_mask);
  TORCH_ARG(bool, use_separate_proj_weight) = false;
  TORCH_ARG(Tensor, q_proj_weight);
  TORCH_ARG(Tensor, k_proj_weight);
  TORCH_ARG(Tensor, v_proj_weight);
  TORCH_ARG(Tensor, static_k);
  TORCH_ARG(Tensor, static_v);
  TORCH_ARG(bool, average_attn_weights) = true;
};
/// Of (steps, batch, features): the same of the query's steps, and the weights (batch, steps, sources) where they are
/// needed.
std::tuple<Tensor, Tensor> multi_head_attention_forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                                        const MultiheadAttentionForwardFuncOptions& options);

}  // namespace functional

class MultiheadAttentionImpl : public Cloneable<MultiheadAttentionImpl> {
 public:
  MultiheadAttentionImpl(int64_t embed, int64_t heads)
      : MultiheadAttentionImpl(MultiheadAttentionOptions(embed, heads)) {}
  explicit MultiheadAttentionImpl(const MultiheadAttentionOptions& o);
  void reset() override;
  void _reset_parameters();
  std::tuple<Tensor, Tensor> forward(const Tensor& query, const Tensor& key, const Tensor& value,
                                     const Tensor& key_padding_mask = {}, bool need_weights = true,
                                     const Tensor& attn_mask = {}, bool average_attn_weights = true);
  MultiheadAttentionOptions options;
  bool _qkv_same_embed_dim = true;
  Tensor in_proj_weight, in_proj_bias, bias_k, bias_v;
  Linear out_proj = nullptr;
  Tensor q_proj_weight, k_proj_weight, v_proj_weight;
  int64_t head_dim = 0;
};
TORCH_MODULE(MultiheadAttention);

// ---- layers

class TransformerEncoderLayerImpl : public Cloneable<TransformerEncoderLayerImpl> {
 public:
  TransformerEncoderLayerImpl(int64_t model, int64_t heads)
      : TransformerEncoderLayerImpl(TransformerEncoderLayerOptions(model, heads)) {}
  explicit TransformerEncoderLayerImpl(TransformerEncoderLayerOptions o);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& src, const Tensor& src_mask = {}, const Tensor& src_key_padding_mask = {});
  TransformerEncoderLayerOptions options;
  MultiheadAttention self_attn = nullptr;
  Linear linear1 = nullptr, linear2 = nullptr;
  Dropout dropout = nullptr, dropout1 = nullptr, dropout2 = nullptr;
  LayerNorm norm1 = nullptr, norm2 = nullptr;
};
TORCH_MODULE(TransformerEncoderLayer);

class TransformerDecoderLayerImpl : public Cloneable<TransformerDecoderLayerImpl> {
 public:
  TransformerDecoderLayerImpl(int64_t model, int64_t heads)
      : TransformerDecoderLayerImpl(TransformerDecoderLayerOptions(model, heads)) {}
  explicit TransformerDecoderLayerImpl(TransformerDecoderLayerOptions o);
  void reset() override;
  void reset_parameters();
  Tensor forward(Tensor tgt, const Tensor& memory, const Tensor& tgt_mask = {}, const Tensor& memory_mask = {},
                 const Tensor& tgt_key_padding_mask = {}, const Tensor& memory_key_padding_mask = {});
  TransformerDecoderLayerOptions options;
  MultiheadAttention self_attn = nullptr, multihead_attn = nullptr;
  Linear linear1 = nullptr, linear2 = nullptr;
  Dropout dropout = nullptr, dropout1 = nullptr, dropout2 = nullptr, dropout3 = nullptr;
  LayerNorm norm1 = nullptr, norm2 = nullptr, norm3 = nullptr;
};
TORCH_MODULE(TransformerDecoderLayer);

// ---- stacks of layers, copies of one

#define TORCH_CODER_OPTIONS(Name, layer)                                                                       \
  struct Name##Options {                                                                                       \
    Name##Options(Name##Layer of, int64_t count) : layer##_(std::move(of)), num_layers_(count) {}              \
    Name##Options(const Name##LayerOptions& of, int64_t count) : layer##_(Name##Layer(of)), num_layers_(count) {} \
    TORCH_ARG(Name##Layer, layer) = nullptr;                                                                   \
    TORCH_ARG(int64_t, num_layers);                                                                            \
    TORCH_ARG(AnyModule, norm);                                                                                \
  }
TORCH_CODER_OPTIONS(TransformerEncoder, encoder_layer);
TORCH_CODER_OPTIONS(TransformerDecoder, decoder_layer);
#undef TORCH_CODER_OPTIONS

class TransformerEncoderImpl : public Cloneable<TransformerEncoderImpl> {
 public:
  TransformerEncoderImpl(TransformerEncoderLayer layer, int64_t count)
      : TransformerEncoderImpl(TransformerEncoderOptions(std::move(layer), count)) {}
  explicit TransformerEncoderImpl(TransformerEncoderOptions o);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& src, const Tensor& src_mask = {}, const Tensor& src_key_padding_mask = {});
  TransformerEncoderOptions options;
  ModuleList layers = nullptr;
  AnyModule norm;
};
TORCH_MODULE(TransformerEncoder);

class TransformerDecoderImpl : public Cloneable<TransformerDecoderImpl> {
 public:
  TransformerDecoderImpl(TransformerDecoderLayer layer, int64_t count)
      : TransformerDecoderImpl(TransformerDecoderOptions(std::move(layer), count)) {}
  explicit TransformerDecoderImpl(TransformerDecoderOptions o);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& tgt, const Tensor& memory, const Tensor& tgt_mask = {}, const Tensor& memory_mask = {},
                 const Tensor& tgt_key_padding_mask = {}, const Tensor& memory_key_padding_mask = {});
  TransformerDecoderOptions options;
  ModuleList layers = nullptr;
  AnyModule norm;
};
TORCH_MODULE(TransformerDecoder);

class TransformerImpl : public Cloneable<TransformerImpl> {
 public:
  TransformerImpl() : TransformerImpl(TransformerOptions()) {}
  TransformerImpl(int64_t model, int64_t heads) : TransformerImpl(TransformerOptions(model, heads)) {}
  explicit TransformerImpl(TransformerOptions o);
  void reset() override;
  void reset_parameters();
  Tensor forward(const Tensor& src, const Tensor& tgt, const Tensor& src_mask = {}, const Tensor& tgt_mask = {},
                 const Tensor& memory_mask = {}, const Tensor& src_key_padding_mask = {},
                 const Tensor& tgt_key_padding_mask = {}, const Tensor& memory_key_padding_mask = {});
  /// Minus infinity above the diagonal, so that no step sees a later one.
  static Tensor generate_square_subsequent_mask(int64_t size);
  TransformerOptions options;
  AnyModule encoder, decoder;
};
TORCH_MODULE(Transformer);

}  // namespace torch::nn
