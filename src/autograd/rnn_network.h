// Declares what the nodes of recurrent networks share, and the node that a library of the device computes.
#pragma once

#include <optional>

#include "ops/rnn.h"

namespace facula {

class Node;

/// Where gradients of a recurrent node stand for batches (vmap): applies it to one example after the other, true.
bool rnn_apply_to_each(Node& node, const Tensor* grads, const Tensor& cell, Tensor* results);

/// Nothing where no library computes it; else the output, and the final states.
std::optional<RnnNetworkResults> rnn_by_library(RnnNetwork network, const RnnNetworkInputs& inputs);
/// Copies of the weights in one block of memory, where a library reads them so; else none. No history.
std::vector<Tensor> rnn_weights_in_one(const RnnNetwork& network, const std::vector<Tensor>& weights);

}  // namespace facula
