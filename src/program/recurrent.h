// Declares recurrent networks as PyTorch's files call them: all layers in one operator.
#pragma once

#include <tuple>

#include "core/tensor.h"

namespace facula::recurrent {

using Two = std::tuple<Tensor, Tensor>;  // (T, B, features) or (B, T, features), and the last states
using Three = std::tuple<Tensor, Tensor, Tensor>;

Three lstm(const Tensor& input, TensorList hx, TensorList params, bool has_biases, int64_t num_layers, double dropout,
           bool train, bool bidirectional, bool batch_first);
Two gru(const Tensor& input, const Tensor& hx, TensorList params, bool has_biases, int64_t num_layers, double dropout,
        bool train, bool bidirectional, bool batch_first);
Two rnn_tanh(const Tensor& input, const Tensor& hx, TensorList params, bool has_biases, int64_t num_layers,
             double dropout, bool train, bool bidirectional, bool batch_first);
Two rnn_relu(const Tensor& input, const Tensor& hx, TensorList params, bool has_biases, int64_t num_layers,
             double dropout, bool train, bool bidirectional, bool batch_first);

}  // namespace facula::recurrent
