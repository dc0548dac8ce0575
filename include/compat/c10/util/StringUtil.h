// As libtorch calls it.
#pragma once

#include <torch/detail/types.h>
