// torch::nn.
#pragma once

#include <torch/nn/attention.h>
#include <torch/nn/embedding.h>
#include <torch/nn/modules.h>
