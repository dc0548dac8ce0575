// Declares the settings of convolution on the CPU.
#pragma once

#include <cstdint>

namespace facula::cpu {

/// Where a level's own convolutions of channels-last images take less time than oneDNN's, as measured. Each level
/// registers its row (isa/winograd.cpp); the lowest has none, and without oneDNN all rows are like AVX2's.
struct ConvPolicy {
  bool tiles = false;              // windows of 3x3 in tiles
  int64_t weight_channels = -1;    // fewest channels of images that pay for products where a weight's gradient is made;
                                   // -1: never
  int64_t pointwise_percent = 0;   // most that results of one-pixel windows may take of their tiles of registers, in
                                   // percent of the results; 0: never
  int64_t pointwise_results = 0;   // or so few results
  int64_t heavy_weights = -1;      // fewest elements of their weights that take the library longer to put in order than
                                   // it saves, where there are few positions; -1: never
  int64_t gathered_channels = -1;  // fewest channels on both sides that pay for gathering other windows; -1: never
  int64_t gathered_step = -1;      // or the shortest step between windows; -1: never
  bool spread = false;             // windows that lie apart, spread over an image
};
inline ConvPolicy conv_policy;

/// Whether images stay channels-last inside while programs see plain strides (core/tensor.h). Returns what held before.
bool set_private_layouts(bool wanted);

}  // namespace facula::cpu
