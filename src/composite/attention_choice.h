// Chooses the implementation that computes scaled_dot_product_attention; attention_choice.cpp opens with the policy.
#pragma once

#include <array>
#include <atomic>
#include <optional>
#include <string>

#include "core/tensor.h"

namespace facula {

/// PyTorch's names and numbers.
enum class AttentionBackend : int8_t { None = -1, Math = 0, Flash = 1, Efficient = 2, Library = 3, Other = 4 };
constexpr int kAttentionBackends = 5;

struct AttentionCall {
  const Tensor &query, &key, &value, &mask;
  double dropout;
  bool is_causal, enable_gqa;
  std::optional<double> scale;

  double factor() const;
};

/// What a program allows. It may be set while other threads compute: each part by itself.
struct AttentionSettings {
  std::array<std::atomic<bool>, kAttentionBackends> allowed;
  std::array<std::atomic<AttentionBackend>, kAttentionBackends> order;
  std::atomic<bool> is_ordered = false;  // whether the program gave the order

  AttentionSettings();
};
AttentionSettings& attention_settings();

/// Throws where nothing that is allowed can compute the call, with the reasons.
AttentionBackend attention_backend(const AttentionCall& call);
/// Why a backend is not used for the call; empty where it can be.
std::string why_not_attention(AttentionBackend backend, const AttentionCall& call);

}  // namespace facula
