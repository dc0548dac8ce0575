// What losses do with their elements, as the functions take it.
#pragma once

#include "torch/nn/functional.h"

namespace torch::nn {

/// Of kNone, kMean or kSum.
int64_t reduction_of(Word word);

}  // namespace torch::nn
