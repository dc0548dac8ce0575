// The C++ interface of PyTorch, for programs that were written for libtorch: see docs/cxx.md.
#pragma once

#include <torch/autograd.h>
#include <torch/data.h>
#include <torch/detail/indexing.h>
#include <torch/nn/modules.h>
#include <torch/optim.h>
#include <torch/serialize.h>
