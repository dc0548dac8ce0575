// A recurrent network computed by a library of its device, as one node.
#pragma once

#include <optional>

#include "ops/rnn.h"

namespace facula {

/// Nothing where no library computes it; else the output, and the final states.
std::optional<RnnNetworkResults> rnn_by_library(RnnNetwork network, const RnnNetworkInputs& inputs);
/// Copies of the weights in one block of memory, where a library reads them so; else none. No history.
std::vector<Tensor> rnn_weights_in_one(const RnnNetwork& network, const std::vector<Tensor>& weights);

}  // namespace facula
