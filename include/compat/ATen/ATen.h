// libtorch's other name of the same.
#pragma once

#include <torch/types.h>
