// TORCH_CHECK and its relatives.
#pragma once

#include <c10/macros/Macros.h>
#include <torch/detail/types.h>
