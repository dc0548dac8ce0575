// libtorch has the classes in files of their own.
#pragma once
#include <torch/data/datasets.h>
