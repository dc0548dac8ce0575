#include "budget/together.h"

#include <list>

#include "core/held.h"
#include "op_ids_norm.h"
#include "ops/norm.h"
#include "ops/semantics.h"

namespace facula::budget {
namespace {

bool same_places(const Geometry& a, const Geometry& b) {
  return a.sizes == b.sizes && a.strides == b.strides && a.offset == b.offset && a.dtype == b.dtype &&
         a.flags == b.flags;
}

/// The second operand as the step will find it.
Geometry geometry_of(const Input& input) { return input.cell ? input.geometry : Geometry(input.held); }

LoopFn loop_of(const Step& step, DType dtype) {
  const ops::ElementwiseOp* op = op_semantics(step.op->id).element;
  const bool wide = dtype == DType::Float32 || dtype == DType::Float64;  // loops read others after a conversion
  return op && wide && op->result == ops::ResultRule::Same ? loop_table[op->loop][index(dtype)] : nullptr;
}

std::vector<Scalar> numbers_of(const Step& step) {
  std::vector<Scalar> numbers;
  for (size_t i = step.inputs.size(); i < step.arguments.size(); ++i) numbers.push_back(step.arguments[i].to_scalar());
  return numbers;
}

}  // namespace

bool finds_out(uint16_t op) { return op == op_id::_channel_norm; }
bool begins_together(const Step& step) { return finds_out(step.op->id) && !step.found.empty(); }

// A norm in training reads its operand twice, and again once; what follows costs no access to memory.
void expect_shorter(Step& step, const Cell* before) {
  constexpr uint32_t kOfNorm = 60, kOfFollower = 15;
  if (begins_together(step)) step.percent = kOfNorm;
  else if (before && before->step->percent < 100 && can_follow(step, *before)) step.percent = kOfFollower;
  step.ns = step.ns * step.percent / 100;
}

bool can_follow(const Step& step, const Cell& before) {
  if (!step.writes || !before.device.is_cpu() || !loop_of(step, before.result.dtype) || !step.drawn.empty())
    return false;
  const size_t operands = op_semantics(step.op->id).operands;
  if (step.op->form != OpForm::InPlace || step.inputs.size() != operands || operands > 2) return false;
  for (size_t k = 0; k < operands; ++k)
    if (step.places[k].argument != k || step.places[k].element >= 0 || step.inputs[k].scratch) return false;
  for (size_t i = operands; i < step.arguments.size(); ++i)
    if (!step.arguments[i].is_number() || step.arguments[i].kind() == Value::Kind::Complex) return false;
  if (!same_places(step.inputs[0].geometry, before.result) || before.result.flags & kConjugate) return false;
  if (operands == 1) return true;
  Geometry other = geometry_of(step.inputs[1]);
  other.offset = before.result.offset;  // may lie anywhere in its own memory
  return step.inputs[1].cell != step.inputs[0].cell && same_places(other, before.result);
}

std::vector<Tensor> run_together(const std::vector<Value>& given, const Step& step,
                                 const std::vector<Follower>& followers) {
  FollowingLoops following;
  std::list<ops::Params> params;
  const DType dtype = given[0].tensor().dtype();
  for (const Follower& f : followers) {
    const std::vector<Scalar> numbers = numbers_of(*f.step);
    params.emplace_back(dtype, numbers.data(), static_cast<int>(numbers.size()));
    following.loops.push_back(
        {loop_of(*f.step, dtype), params.back().bytes, f.other.defined() ? f.other.data() : nullptr});
  }
  auto [out, mean, rstd] = ops::channel_norm_again(hold(given[0].tensor()), given[1].tensor(), given[2].tensor(),
                                                   step.found, given[7].to_float(), following);
  return {std::move(out), std::move(mean), std::move(rstd)};
}

}  // namespace facula::budget
