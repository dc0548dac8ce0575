// As libtorch calls it.
#pragma once

#include <torch/detail/boxing.h>
