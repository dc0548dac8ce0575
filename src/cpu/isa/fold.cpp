// The layout of a fold: which dimensions are reduced, which kept, and in what order they are walked.
#include "cpu/isa/fold.h"

namespace facula::cpu::FACULA_ISA {
namespace {

struct Dimension {
  int64_t size, in, out;
  bool reduced;
};

// Dimensions of more than one element, innermost first, neighbours of one kind that lie evenly merged.
std::vector<Dimension> dimensions(const Tensor& out, const Tensor& in) {
  std::vector<Dimension> dims;
  for (int64_t d = 0; d < in.dim(); ++d) {
    bool reduced = out.size(d) == 1;
    if (in.size(d) != 1)
      dims.push_back({in.size(d), in.stride(d) * in.item_size(), reduced ? 0 : out.stride(d), reduced});
  }
  // a stride of zero brings nothing new into the cache line: outermost
  auto distance = [](const Dimension& d) { return d.in == 0 ? INT64_MAX : std::abs(d.in); };
  std::reverse(dims.begin(), dims.end());
  std::stable_sort(dims.begin(), dims.end(),
                   [&](const Dimension& a, const Dimension& b) { return distance(a) < distance(b); });
  std::vector<Dimension> merged;
  for (const Dimension& d : dims) {
    if (!merged.empty()) {
      Dimension& last = merged.back();
      if (last.reduced == d.reduced && d.in == last.in * last.size && (d.reduced || d.out == last.out * last.size)) {
        last.size *= d.size;
        continue;
      }
    }
    merged.push_back(d);
  }
  return merged;
}

}  // namespace

FoldPlan plan_fold(const Tensor& out, const Tensor& in, DType compute) {
  FoldPlan plan;
  plan.in = in.data<char>();
  plan.dtype = in.dtype();
  plan.compute = compute;
  plan.inner_stride = in.item_size();
  bool first = true;
  for (const Dimension& d : dimensions(out, in)) {
    if (first) {
      plan.columns = !d.reduced;
      plan.inner = d.size;
      plan.inner_stride = d.in;
      plan.inner_out = d.out;
      first = false;
      continue;
    }
    (d.reduced ? plan.reduced : plan.kept).push_back(d.size);
    (d.reduced ? plan.reduced_in : plan.kept_in).push_back(d.in);
    if (!d.reduced) plan.kept_out.push_back(d.out);
    (d.reduced ? plan.reduced_count : plan.kept_count) *= d.size;
  }
  return plan;
}

const void* load_elements(const FoldPlan& plan, const char* at, int64_t n, void* buffer, void* packed) {
  int64_t item = item_size(plan.dtype);
  const void* source = at;
  if (plan.inner_stride != item) {
    void* target = plan.dtype == plan.compute ? buffer : packed;
    gather(item, {1, n, 0, plan.inner_stride}, target, at);
    source = target;
  }
  if (plan.dtype == plan.compute) return source;
  cast(plan.compute, plan.dtype, n, buffer, source);
  return buffer;
}

}  // namespace facula::cpu::FACULA_ISA
