// How a fold goes through memory: the dimensions of a tensor ordered, merged, and divided into those that are reduced
// and those that results have.
#pragma once

#include "cpu/isa/fold.h"

namespace facula::cpu::FACULA_ISA {

/// All dimensions of one kind but the innermost of the tensor, seen as one list of `count` places.
struct OuterDims {
  Dims sizes, in, out;  // innermost first; strides of memory in bytes, and of results in elements
  int64_t count = 1;

  void add(int64_t size, int64_t in_stride, int64_t out_stride) {
    sizes.push_back(size);
    in.push_back(in_stride);
    out.push_back(out_stride);
    count *= size;
  }
  int64_t in_offset(int64_t place) const { return offset(place, in); }
  int64_t out_offset(int64_t place) const { return offset(place, out); }
  /// From one place to the next along the innermost dimension.
  int64_t in_step() const { return sizes.empty() ? 0 : in[0]; }
  int64_t out_step() const { return sizes.empty() ? 1 : out[0]; }
  /// How many of the places [place, to) lie evenly: along the innermost dimension.
  int64_t evenly(int64_t place, int64_t to) const {
    return sizes.empty() ? 1 : std::min(to - place, sizes[0] - place % sizes[0]);
  }

 private:
  int64_t offset(int64_t place, const Dims& strides) const {
    if (sizes.size() <= 1) return sizes.empty() ? 0 : place * strides[0];
    int64_t sum = 0;
    for (size_t d = 0; d < sizes.size(); ++d) {
      sum += place % sizes[d] * strides[d];
      place /= sizes[d];
    }
    return sum;
  }
};

struct FoldPlan {
  const char* in = nullptr;
  DType dtype = DType::Float32;  // of memory
  DType compute = DType::Float32;
  bool columns = false;
  int64_t inner = 1, inner_stride = 0;  // the innermost dimension: reduced (rows) or of results (columns); in bytes
  int64_t inner_out = 0;                // columns: elements between neighboring results
  OuterDims results, reduced;

  bool direct() const { return dtype == compute && inner_stride == item_size(dtype); }
  /// Folds of narrow floats as they lie; null where nothing does.
  NarrowFolder narrow(const Folder& f) const {
    if (inner_stride != item_size(dtype) || compute != DType::Float32) return {};
    return dtype == DType::BFloat16 ? f.bfloats : dtype == DType::Float16 ? f.halves : NarrowFolder{};
  }
};

struct FoldDimension {
  int64_t size, in, out;
  bool reduced;
};

/// Dimensions of more than one element, innermost first, neighbors of one kind that lie evenly merged.
struct FoldDimensions {
  static constexpr int kMost = 64;
  FoldDimension dims[kMost];
  int count = 0;

  FoldDimensions(const Tensor& out, const Tensor& in) {
    const IntList sizes = in.sizes(), steps = in.strides(), results = out.sizes(), result_steps = out.strides();
    const int64_t item = in.item_size();
    for (size_t d = sizes.size(); d-- > 0;) {
      if (sizes[d] == 1) continue;
      const bool reduced = results[d] == 1;
      place({sizes[d], steps[d] * item, reduced ? 0 : result_steps[d], reduced});
    }
    merge();
  }

 private:
  // a stride of zero brings nothing new into the cache line: outermost
  static int64_t distance(const FoldDimension& d) { return d.in == 0 ? INT64_MAX : std::abs(d.in); }
  void place(const FoldDimension& d) {
    int at = count++;
    for (; at > 0 && distance(d) < distance(dims[at - 1]); --at) dims[at] = dims[at - 1];
    dims[at] = d;
  }
  void merge() {
    int merged = 0;
    for (int i = 0; i < count; ++i) {
      const FoldDimension& d = dims[i];
      FoldDimension* last = merged ? &dims[merged - 1] : nullptr;
      if (last && last->reduced == d.reduced && d.in == last->in * last->size &&
          (d.reduced || d.out == last->out * last->size))
        last->size *= d.size;
      else dims[merged++] = d;
    }
    count = merged;
  }
};

inline FoldPlan plan_fold(const Tensor& out, const Tensor& in, DType compute) {
  FoldPlan plan;
  plan.in = in.data<char>();
  plan.dtype = in.dtype();
  plan.compute = compute;
  plan.inner_stride = in.item_size();
  const FoldDimensions all(out, in);
  if (all.count == 0) return plan;
  const FoldDimension& innermost = all.dims[0];
  plan.columns = !innermost.reduced;
  plan.inner = innermost.size;
  plan.inner_stride = innermost.in;
  plan.inner_out = innermost.out;
  for (int i = 1; i < all.count; ++i) {
    const FoldDimension& d = all.dims[i];
    (d.reduced ? plan.reduced : plan.results).add(d.size, d.in, d.out);
  }
  return plan;
}

}  // namespace facula::cpu::FACULA_ISA
