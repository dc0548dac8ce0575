// Tensors and what they are made of.
#pragma once

#include <torch/detail/indexing.h>
#include <torch/detail/operators.h>
