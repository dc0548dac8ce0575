// What programs include that run a saved model, and sources of operators.
#pragma once

#include <ATen/ATen.h>
#include <torch/jit.h>
#include <torch/library.h>
