// Derivative formulas too long for a line of YAML, and constants that formulas use.
#pragma once

#include <cmath>

#include "functions.h"
#include "autograd/saved.h"

namespace facula {

constexpr double pi = 3.14159265358979323846;
constexpr double sqrt_pi = 1.77245385090551602730;
constexpr double ln_2 = 0.69314718055994530942;
constexpr double ln_10 = 2.30258509299404568402;

}  // namespace facula
