// As libtorch calls it.
#pragma once

#include <torch/types.h>
