#include "cuda/strided.h"

#include <bit>
#include <cstring>

namespace facula::cuda {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 31;

/// Whether a vector may lie there: at a multiple of its bytes, or of 16. All of them are powers of two, for which the
/// host need not divide.
bool is_multiple(int64_t bytes, DType dtype, int64_t width) {
  return (bytes & (std::min<int64_t>(16, width * item_size(dtype)) - 1)) == 0;
}

}  // namespace

ItemBytes item_bytes(const Plan& plan, int skipped) {
  const auto size = static_cast<int>(item_size(plan.out.dtype));
  ItemBytes all{size, size};
  for (int i = 0; i < plan.inputs; ++i)
    if (plan.in[i].residency == Residency::Memory && !(skipped >> i & 1))
      all.see(static_cast<int>(item_size(plan.in[i].dtype)));
  return all;
}

bool is_aligned(const PlanOperand& operand, int width) {
  return is_multiple(static_cast<int64_t>(reinterpret_cast<uintptr_t>(operand.data)), operand.dtype, width);
}

std::pair<Plan, Plan> halves(const Plan& plan) {
  std::pair<Plan, Plan> both{plan, plan};
  auto& [first, second] = both;
  size_t d = plan.shape.size() - 1;
  while (d > 0 && plan.shape[d] == 1) --d;
  const int64_t size = plan.shape[d], half = size / 2;
  first.shape[d] = half;
  second.shape[d] = size - half;
  first.numel = plan.numel / size * half;
  second.numel = plan.numel - first.numel;
  second.out.data += half * plan.out.strides[d];
  for (int i = 0; i < plan.inputs; ++i)
    if (plan.in[i].residency == Residency::Memory) second.in[i].data += half * plan.in[i].strides[d];
  return both;
}

JoinedPlan::JoinedPlan(const Plan& plan) : plan_(plan) {
  const int operands = plan.inputs + 1;
  for (size_t d = 0; d < plan.shape.size(); ++d) {
    if (plan.shape[d] == 1) continue;
    bool joins = dims_ > 0;
    for (int k = 0; k < operands && joins; ++k)
      joins = is_number(k) || strides_[k][dims_ - 1] * shape_[dims_ - 1] == operand(k).strides[d];
    if (joins) {
      shape_[dims_ - 1] *= plan.shape[d];
      continue;
    }
    has_form_ = dims_ < kMostStridedDims;
    if (!has_form_) return;
    shape_[dims_] = plan.shape[d];
    for (int k = 0; k < operands; ++k) strides_[k][dims_] = is_number(k) ? 0 : operand(k).strides[d];
    ++dims_;
  }
  has_form_ = dims_ > 0;
  for (int k = 0; k < operands; ++k) {
    const auto item = static_cast<uint64_t>(item_size(operand(k).dtype));
    for (size_t d = 0; d < dims_; ++d) {
      has_form_ = has_form_ && (static_cast<uint64_t>(strides_[k][d]) & (item - 1)) == 0;
      strides_[k][d] >>= std::countr_zero(item);
    }
  }
}

bool JoinedPlan::is_small() const {
  if (plan_.numel >= kMostElements) return false;
  for (int k = 0; k <= plan_.inputs; ++k) {
    int64_t reach = 0;
    for (size_t d = 0; d < dims_; ++d) {
      const int64_t stride = std::abs(strides_[k][d]);
      if (stride >= kMostElements) return false;
      reach += stride * (shape_[d] - 1);
      if (reach >= kMostElements) return false;
    }
  }
  return true;
}

bool JoinedPlan::has_vectors(int k, int width) const {
  if (strides_[k][0] != 1 || !is_aligned(operand(k), width)) return false;
  const int64_t item = item_size(operand(k).dtype);
  for (size_t d = 1; d < dims_; ++d)
    if (!is_multiple(strides_[k][d] * item, operand(k).dtype, width)) return false;
  return true;
}

/// Elements of a vector of all operands that do not repeat; 1: there are no vectors.
int JoinedPlan::width_of(int repeats) const {
  const int width = item_bytes(plan_, repeats).vector_width();
  if (dims_ > 1 && (shape_[0] & (width - 1)) != 0) return 1;
  for (int k = 0; k <= plan_.inputs; ++k)
    if (!(k && repeats >> (k - 1) & 1) && !has_vectors(k, width)) return 1;
  return width;
}

void JoinedPlan::fill(StridedOperand& to, int k) const {
  to.data = operand(k).data;
  to.is_number = is_number(k);
  for (size_t d = 0; d < dims_; ++d) to.strides[d] = static_cast<unsigned>(strides_[k][d]);
}

StridedPlan JoinedPlan::strided() const {
  int numbers = 0, repeats = 0;
  for (int i = 0; i < plan_.inputs; ++i) {
    if (is_number(i + 1)) numbers |= 1 << i;
    if (strides_[i + 1][0] == 0) repeats |= 1 << i;
  }
  const int width = width_of(repeats);
  if (width == 1) repeats = numbers;  // what repeats in memory is read as anything else: fewer instances
  StridedPlan made;                   // what kernels read of it is set
  made.form = {static_cast<int>(dims_), width > 1, repeats};
  StridedArgs& a = made.arguments;
  a.numel = static_cast<unsigned>(plan_.numel);
  a.vectors = a.numel / static_cast<unsigned>(width);
  for (size_t d = 0; d + 1 < dims_; ++d)
    a.shape[d] = fast_division(static_cast<unsigned>(d ? shape_[d] : shape_[d] / width));
  fill(a.out, 0);
  for (int i = 0; i < plan_.inputs; ++i) fill(a.in[i], i + 1);
  std::memcpy(a.numbers, plan_.numbers, sizeof a.numbers);
  std::memcpy(a.parameters, plan_.params, sizeof a.parameters);
  const int64_t of_block = int64_t{kStridedThreads} * item_bytes(plan_, repeats).vectors_of_thread(width);
  made.blocks = std::max<int64_t>(1, (a.vectors + of_block - 1) / of_block);
  return made;
}

}  // namespace facula::cuda
