// The C++ interface of PyTorch, for programs that were written for libtorch: see docs/cxx.md.
#pragma once

#include <ATen/ATen.h>
#include <torch/autograd.h>
#include <torch/data.h>
#include <torch/detail/indexing.h>
#include <torch/jit.h>
#include <torch/nn.h>
#include <torch/optim.h>
#include <torch/serialize.h>
