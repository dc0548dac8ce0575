// As libtorch calls it.
#pragma once

#include <ATen/OpMathType.h>
