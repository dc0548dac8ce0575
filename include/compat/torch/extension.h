// What a source of an extension of Python includes: all of torch, and conversions between it and Python.
#pragma once

#include <torch/all.h>
#include <torch/python.h>
