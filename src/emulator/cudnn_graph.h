// Runs graphs of several operations, such as attention, for cuDNN's stand-in.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "emulator/cudnn.h"

namespace facula::emulator {

struct GraphTensor {
  cudnnDataType_t type;
  std::vector<int64_t> sizes, strides;
  int64_t id, alignment;
  bool is_virtual = false, is_by_value = false;
};

/// One operation; of `inputs` those that it has, in the order of its formula.
struct Step {
  cudnnBackendDescriptorType_t type;
  int mode = 0;  // of pointwise operations and reductions
  int64_t axis = -1;
  double probability = 0;
  std::vector<GraphTensor> inputs;
  GraphTensor output;
};
struct Graph {
  std::vector<Step> steps;
  /// Tensors with memory, by id; what is written is in `written`.
  std::map<int64_t, GraphTensor> tensors;
  std::map<int64_t, bool> written;
  bool adds_in_any_order = false;
};

/// Why an operation is wrong, or nothing.
std::string check_step(const Step& step);
/// The graph of the operations; `why` says why it is wrong. Null with an empty `why`: it is not supported.
std::shared_ptr<const Graph> graph_of(std::vector<Step> steps, std::string& why);
/// Numbers given by value are read at the call, the rest when it runs.
using Numbers = std::map<int64_t, double>;
void run_graph(const Graph& graph, const std::map<int64_t, void*>& memory, const Numbers& numbers);

}  // namespace facula::emulator
