// Includes what the declarations of the generated functions need.
#pragma once

#include <cmath>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "autograd/operators.h"
#include "core/generator.h"
#include "ops/operand.h"
