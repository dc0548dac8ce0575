// Translates the words by which programs choose how a loss is reduced to the numbers that the functions take.
#pragma once

#include "torch/nn/functional.h"

namespace torch::nn {

/// Of kNone, kMean or kSum.
int64_t reduction_of(Word word);

}  // namespace torch::nn
