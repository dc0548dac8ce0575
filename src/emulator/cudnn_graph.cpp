// Operations of a graph, one after the other, in double precision; results are rounded to their tensor's type.
#include "emulator/cudnn_graph.h"

#include <algorithm>
#include <cmath>

namespace facula::emulator {
namespace {

constexpr int64_t kMostSize = 128, kSizeStep = 8;  // of the heads of attention

bool is_half(cudnnDataType_t type) { return type == CUDNN_DATA_HALF || type == CUDNN_DATA_BFLOAT16; }
bool is_number(const GraphTensor& t) {
  return std::all_of(t.sizes.begin(), t.sizes.end(), [](int64_t n) { return n == 1; });
}

using Place = std::array<int64_t, 4>;
int64_t count_of(const GraphTensor& t) { return t.sizes[0] * t.sizes[1] * t.sizes[2] * t.sizes[3]; }
int64_t offset_of(const GraphTensor& t, const Place& at) {
  int64_t offset = 0;
  for (size_t d = 0; d < 4; ++d) offset += at[d] * t.strides[d];
  return offset;
}
template <class Visit>
void each(const std::vector<int64_t>& n, Visit visit) {
  Place at{};
  for (at[0] = 0; at[0] < n[0]; ++at[0])
    for (at[1] = 0; at[1] < n[1]; ++at[1])
      for (at[2] = 0; at[2] < n[2]; ++at[2])
        for (at[3] = 0; at[3] < n[3]; ++at[3]) visit(at);
}

/// Values by offset, as they lie in memory.
using Values = std::vector<double>;
Values room(const GraphTensor& t, double value = 0) {
  Place last{};
  for (size_t d = 0; d < 4; ++d) last[d] = t.sizes[d] - 1;
  return Values(static_cast<size_t>(offset_of(t, last) + 1), value);
}
double& at_place(Values& values, const GraphTensor& t, const Place& at) {
  return values.at(static_cast<size_t>(offset_of(t, at)));
}
double at_place(const Values& values, const GraphTensor& t, const Place& at) {
  return values.at(static_cast<size_t>(offset_of(t, at)));
}
/// The value for a place of a larger tensor: sizes of one stand for all, and of fewer heads each for several.
double value_at(const GraphTensor& t, const Values& values, const GraphTensor& larger, Place at) {
  for (size_t d = 0; d < 4; ++d) at[d] = t.sizes[d] == 1 ? 0 : at[d] / (larger.sizes[d] / t.sizes[d]);
  return at_place(values, t, at);
}

double rounded(cudnnDataType_t type, double x) {
  switch (type) {
    case CUDNN_DATA_HALF: return from_half(to_half(static_cast<float>(x)));
    case CUDNN_DATA_BFLOAT16: return from_brain(to_brain(static_cast<float>(x)));
    case CUDNN_DATA_FLOAT: return static_cast<double>(static_cast<float>(x));
    default: return x;
  }
}

bool keeps(double seed, double offset, int64_t i, double probability) {
  uint64_t x = static_cast<uint64_t>(static_cast<int64_t>(seed)) * 0x9e3779b97f4a7c15ULL +
               static_cast<uint64_t>(static_cast<int64_t>(offset)) + static_cast<uint64_t>(i);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<double>((x ^ (x >> 31)) >> 11) / 9007199254740992.0 < probability;
}

double pointwise(int mode, double x, double b, double t) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD: return x + b;
    case CUDNN_POINTWISE_MUL: return x * b;
    case CUDNN_POINTWISE_DIV: return x / b;
    case CUDNN_POINTWISE_SUB: return x - b;
    case CUDNN_POINTWISE_EXP: return std::exp(x);
    case CUDNN_POINTWISE_LOG: return std::log(x);
    case CUDNN_POINTWISE_CMP_GE: return x >= b ? 1 : 0;
    case CUDNN_POINTWISE_BINARY_SELECT: return t != 0 ? x : b;
    default: return x;
  }
}
size_t inputs_of(int mode) {
  switch (mode) {
    case CUDNN_POINTWISE_BINARY_SELECT: return 3;
    case CUDNN_POINTWISE_EXP:
    case CUDNN_POINTWISE_LOG:
    case CUDNN_POINTWISE_IDENTITY:
    case CUDNN_POINTWISE_GEN_INDEX: return 1;
    default: return 2;
  }
}

Values computed(const Step& s, const std::vector<const Values*>& in) {
  const GraphTensor& y = s.output;
  const auto get = [&](size_t i, const Place& at) { return value_at(s.inputs[i], *in[i], y, at); };
  const bool most = s.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR && s.mode == CUDNN_REDUCE_TENSOR_MAX;
  Values out = room(y, most ? -INFINITY : 0.0);
  switch (s.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      each(y.sizes, [&](const Place& at) {
        const bool index = s.mode == CUDNN_POINTWISE_GEN_INDEX;
        const double x = index ? static_cast<double>(at[static_cast<size_t>(s.axis)]) : get(0, at);
        at_place(out, y, at) = pointwise(s.mode, x, in.size() > 1 ? get(1, at) : 0, in.size() > 2 ? get(2, at) : 0);
      });
      break;
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
      each(y.sizes, [&](const Place& at) {
        const GraphTensor &a = s.inputs[0], &b = s.inputs[1];
        double sum = 0;
        for (int64_t k = 0; k < a.sizes[3]; ++k) {
          const Place left{a.sizes[0] == 1 ? 0 : at[0], at[1] / (y.sizes[1] / a.sizes[1]), at[2], k};
          const Place right{b.sizes[0] == 1 ? 0 : at[0], at[1] / (y.sizes[1] / b.sizes[1]), k, at[3]};
          sum += at_place(*in[0], a, left) * at_place(*in[1], b, right);
        }
        at_place(out, y, at) = sum;
      });
      break;
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR: {
      const GraphTensor& x = s.inputs[0];
      each(x.sizes, [&](const Place& at) {
        Place to = at;
        for (size_t d = 0; d < 4; ++d) to[d] /= x.sizes[d] / y.sizes[d];
        const double value = at_place(*in[0], x, at);
        double& sum = at_place(out, y, to);
        sum = most ? std::max(sum, value) : sum + value;
      });
      break;
    }
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR: return *in[0];  // the same memory, by other strides
    default: {
      int64_t i = 0;
      each(y.sizes, [&](const Place& at) {
        at_place(out, y, at) = keeps(in[0]->front(), in[1]->front(), i++, s.probability) ? 1 : 0;
      });
    }
  }
  for (double& value : out) value = rounded(y.type, value);
  return out;
}

Values loaded(const GraphTensor& t, const void* data) {
  Values values = room(t);
  each(t.sizes, [&](const Place& at) {
    const int64_t i = offset_of(t, at);
    values[static_cast<size_t>(i)] =
        t.type == CUDNN_DATA_INT64 ? static_cast<double>(static_cast<const int64_t*>(data)[i]) : load(t.type, data, i);
  });
  return values;
}

std::string check_matmul(const Step& s) {
  const GraphTensor &a = s.inputs[0], &b = s.inputs[1], &c = s.output;
  if (a.sizes[3] != b.sizes[2] || a.sizes[2] != c.sizes[2] || b.sizes[3] != c.sizes[3]) return "sizes of a product";
  for (const GraphTensor* t : {&a, &b})
    for (size_t d = 0; d < 2; ++d)
      if (c.sizes[d] % t->sizes[d]) return "batches of a product";
  if (!is_half(a.type) && !(a.is_virtual && a.type == CUDNN_DATA_FLOAT)) return "the first factor's type";
  return is_half(b.type) ? "" : "the second factor's type";
}

}  // namespace

std::string check_step(const Step& s) {
  for (const GraphTensor& t : s.inputs)
    if (t.sizes.size() != 4) return "tensors of four dimensions";
  if (s.output.sizes.size() != 4 || s.output.is_by_value) return "a result of four dimensions";
  const auto fits = [&](const GraphTensor& t) {
    for (size_t d = 0; d < 4; ++d)
      if (t.sizes[d] != 1 && t.sizes[d] != s.output.sizes[d]) return false;
    return true;
  };
  switch (s.type) {
    case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
      if (s.inputs.size() != inputs_of(s.mode)) return "the number of inputs of a pointwise operation";
      if (!std::all_of(s.inputs.begin(), s.inputs.end(), fits)) return "sizes of a pointwise operation";
      if (s.mode == CUDNN_POINTWISE_GEN_INDEX && (s.axis < 0 || s.axis > 3 || s.output.type != CUDNN_DATA_INT32))
        return "an index along an axis, of type int32";
      if (s.mode == CUDNN_POINTWISE_CMP_GE && s.output.type != CUDNN_DATA_BOOLEAN) return "a comparison's type";
      return s.mode == CUDNN_POINTWISE_BINARY_SELECT && s.inputs[2].type != CUDNN_DATA_BOOLEAN ? "a choice's type" : "";
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: return check_matmul(s);
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      for (size_t d = 0; d < 4; ++d)
        if (s.inputs[0].sizes[d] % s.output.sizes[d]) return "sizes of a reduction";
      return {};
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return count_of(s.inputs[0]) == count_of(s.output) ? "" : "sizes of a reshape";
    default:
      if (!(s.probability > 0 && s.probability < 1)) return "a probability";
      for (const GraphTensor& t : s.inputs)
        if (!is_number(t) || t.type != CUDNN_DATA_INT64) return "a seed or offset of type int64";
      return {};
  }
}

std::shared_ptr<const Graph> graph_of(std::vector<Step> steps, std::string& why) {
  auto graph = std::make_shared<Graph>();
  std::map<int64_t, bool> made;  // virtual tensors
  int products = 0;
  bool wide = false;
  for (const Step& s : steps) {
    for (const GraphTensor& t : s.inputs) {
      if (t.is_virtual && !made.count(t.id))
        return why = "a virtual tensor that nothing makes before it is used", nullptr;
      if (!t.is_virtual) graph->tensors.emplace(t.id, t);
    }
    const GraphTensor& y = s.output;
    if (made.count(y.id) || graph->written.count(y.id)) return why = "a tensor that is made twice", nullptr;
    if (y.is_virtual) made[y.id] = true;
    else graph->tensors.emplace(y.id, y), graph->written[y.id] = true;
    if (s.type != CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) continue;
    ++products;
    graph->adds_in_any_order |= !y.is_virtual && y.type == CUDNN_DATA_FLOAT;  // sums that several blocks add to
    for (const GraphTensor* t : {&s.inputs[0], &s.inputs[1], &y})
      if (!t->is_virtual)
        for (size_t d = 2; d < 4; ++d)
          wide |= t->strides[d] == 1 && (t->sizes[d] > kMostSize || t->sizes[d] % kSizeStep);
  }
  graph->steps = std::move(steps);
  // the library has engines for attention, forwards and backwards
  return (products == 2 || products == 5) && !wide ? graph : nullptr;
}

void run_graph(const Graph& graph, const std::map<int64_t, void*>& memory, const Numbers& numbers) {
  std::map<int64_t, Values> values;
  const auto of = [&](const GraphTensor& t) -> const Values& {
    const auto [found, fresh] = values.try_emplace(t.id);
    if (fresh) found->second = t.is_by_value ? Values{numbers.at(t.id)} : loaded(t, memory.at(t.id));
    return found->second;
  };
  for (const Step& s : graph.steps) {
    std::vector<const Values*> in;
    for (const GraphTensor& t : s.inputs) in.push_back(&of(t));
    values[s.output.id] = computed(s, in);
    const Values& made = values[s.output.id];
    if (!s.output.is_virtual)
      each(s.output.sizes, [&](const Place& at) {
        store(s.output.type, memory.at(s.output.id), offset_of(s.output, at), at_place(made, s.output, at));
      });
  }
}

}  // namespace facula::emulator
