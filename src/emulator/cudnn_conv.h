// Computes convolutions of cuDNN's stand-in, by loops on the host.
#pragma once

#include <string>
#include <vector>

#include "emulator/cudnn_graph.h"

namespace facula::emulator {

constexpr int64_t kWorkspace = 2048;  // bytes that an engine with a workspace spoils

enum class Map : uint8_t { Output, Input, Weight };

struct Convolution {
  Map map;
  GraphTensor x, w, y;
  std::vector<int64_t> stride, padding, dilation;
  double alpha, beta;
  bool channels_last;
};

struct Addresses {
  const void *x, *w, *y;
  void* workspace;
};

/// Elements from the first one to the last one in memory.
int64_t extent(const GraphTensor& t);
/// Whether the tensor lies densely, with channels first or last. Where a size is one, its stride says nothing.
bool lies(const GraphTensor& t, bool channels_last);
/// Why sizes do not fit, or nothing.
std::string check_sizes(const Convolution& p);
/// Whether all three tensors lie in the layout of the convolution.
bool in_one_layout(const Convolution& p);
void run(const Convolution& p, const Addresses& at);

}  // namespace facula::emulator
