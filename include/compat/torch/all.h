// All of it.
#pragma once

#include <ATen/OpMathType.h>
#include <torch/library.h>
#include <torch/torch.h>
