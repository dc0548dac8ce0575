// As libtorch calls it.
#pragma once

#include <torch/python.h>
