// As libtorch calls it.
#pragma once

#include <torch/autograd.h>
