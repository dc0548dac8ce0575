// Facula from C++: tensors, the functions of the op schema, gradients.
#pragma once

#include "autograd/engine.h"
#include "autograd/inplace.h"
#include "core/parallel.h"
#include "cxx/ready.h"
#include "functions.h"
