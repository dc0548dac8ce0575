// What programs include that run a saved model.
#pragma once

#include <torch/autograd.h>
#include <torch/jit.h>
#include <torch/types.h>
