// As libtorch calls it.
#pragma once

#include <torch/library.h>
