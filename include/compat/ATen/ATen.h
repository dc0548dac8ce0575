// libtorch's other name of the same.
#pragma once

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <c10/macros/Macros.h>
#include <c10/util/irange.h>
#include <torch/autograd.h>
#include <torch/types.h>

// What sources take for granted.
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <iostream>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
