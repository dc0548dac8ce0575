// As libtorch calls it.
#pragma once

#include <torch/detail/ivalue.h>
