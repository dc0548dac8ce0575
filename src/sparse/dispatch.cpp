// Policy: a call with a sparse argument arrives here below autograd. What the table has for the op runs in place of its
// kernel, with gradients off; in-place and out= forms are the function, whose result takes the place of the old value.
#include <algorithm>
#include <array>

#include "core/mode.h"
#include "core/write.h"
#include "functions.h"
#include "observe/observer.h"
#include "op_ids_shape.h"
#include "ops/kernel_table.h"
#include "ops/out.h"
#include "sparse/adapter.h"
#include "sparse/support.h"

namespace facula::sparse {
namespace {

constexpr size_t kOps = 1 << 16;

const Row* find_row(uint16_t op) {
  static const std::vector<const Row*> table = [] {
    std::vector<const Row*> by_op(kOps);
    for (size_t i = 0; i < row_count; ++i) by_op[rows[i].op] = &rows[i];
    return by_op;
  }();
  return table[op];
}

[[noreturn]] void refuse(const OpCall& call) {
  std::ostringstream layouts;
  constexpr int kShown = 16;  // of a list that may be long
  int count = 0;
  for (const Argument& argument : call.arguments) {
    argument.each_tensor([&](const Tensor& t) {
      if (count < kShown) layouts << (count ? ", " : "") << layout_of(t);
      if (count++ == kShown) layouts << ", ...";
    });
  }
  const char* name = call.info().name;
  throw_error(call.op == op_id::expand ? ErrorKind::Runtime : ErrorKind::NotImplemented, name,
              ": not implemented for sparse tensors (to_dense() gives what every op takes), got layouts ",
              layouts.str());
}

Tensor tensor_of(const Argument& argument) {
  return argument.kind() == Argument::Kind::Operand ? argument.as<Operand>().tensor() : argument.as<Tensor>();
}

// Puts what the function gave into a tensor of the program.
void write(const char* op, const Tensor& target, const Tensor& made) {
  if (made.is_same(target)) return;
  FACULA_CHECK(can_cast(made.dtype(), target.dtype()), ErrorKind::Runtime, op,
               "_: the result cannot be written into the tensor, since result type ", made.dtype(),
               " can't be cast to ", target.dtype());
  FACULA_CHECK(made.sizes() == target.sizes() || is_sparse(target), ErrorKind::Runtime, op,
               "_: the result must fit in place into shape ", target.sizes(), ", got ", made.sizes());
  check_written(target, op);
  put_into(target, made);
}

void run_in_place(const Row& row, const OpCall& call) {
  if (row.in_place) return row.in_place(call, {});
  Tensor made;
  const ResultSlot slot(&made);
  row.function(call, List<ResultSlot>(&slot, 1));
  const Tensor self = tensor_of(call.arguments[0]);
  FACULA_CHECK(made.sizes() == self.sizes(), ErrorKind::Runtime, call.info().name,
               "_: the result must fit in place into shape ", self.sizes(), ", got ", made.sizes());
  write(call.info().name, self, made);
}

void run_out(const Row& row, const OpCall& call) {
  std::array<Tensor, 4> made;
  std::array<ResultSlot, 4> slots = {&made[0], &made[1], &made[2], &made[3]};
  const size_t count = call.arguments.size() - row.arity;
  row.function(call, List<ResultSlot>(slots.data(), count));
  for (size_t i = 0; i < count; ++i) {
    const Tensor& target = call.arguments[row.arity + i].as<Tensor>();
    check_writes_to(target, made[i].sizes(), call.info().name);
    if (!is_sparse(target) && !is_sparse(made[i])) resize_output(target, made[i].sizes(), call.info().name);
    write(call.info().name, target, made[i]);
  }
}

// What the program is given has no base but one of its own tensors: those that the function worked on are let go.
void let_go_of_bases(const OpCall& call) {
  std::vector<const Storage*> given;
  for (const Argument& argument : call.arguments)
    argument.each_tensor([&](const Tensor& t) {
      if (!is_sparse(t)) given.push_back(t.storage());
    });
  for (const ResultSlot& slot : call.results) {
    if (slot.kind() != ResultSlot::Kind::Tensor || !slot.as<Tensor>().defined()) continue;
    Tensor& result = slot.as<Tensor>();
    if (std::find(given.begin(), given.end(), result.storage()) == given.end()) result = without_base(result);
  }
}

bool run(const OpCall& call) {
  const Row* row = find_row(call.op);
  if (!row) refuse(call);
  if (!row->function && !row->in_place) return false;
  const WithoutGradients off;
  if (call.form == OpForm::InPlace) run_in_place(*row, call);
  else if (!row->function) refuse(call);
  else if (call.form == OpForm::Out) run_out(*row, call);
  else {
    row->function(call, call.results);
    let_go_of_bases(call);
  }
  return true;
}

[[maybe_unused]] const bool installed = [] {
  run_sparse = run;
  return true;
}();

}  // namespace

Tensor operand_for_values(const OpCall& call, bool coalesced) {
  const Tensor self = tensor_of(call.arguments[0]);
  const size_t inputs = call.form == OpForm::Out ? find_row(call.op)->arity : call.arguments.size();
  for (size_t i = 1; i < inputs; ++i)  // behind them what is written
    if (call.arguments[i].flags() & kSparse) refuse(call);
  if (!is_sparse(self)) refuse(call);
  return coalesced ? coalesced_of(self) : self;
}

}  // namespace facula::sparse
