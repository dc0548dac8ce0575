#include "region/stretch.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <thread>

#include "core/kernel.h"
#include "program/inner.h"
#include "region/stretch_open.h"

namespace facula {
namespace {

constexpr size_t kMostWays = 64;  // that go on from an op
constexpr size_t kMostOps = 50000;

/// Ops whose results have no values: whoever makes them writes into them.
constexpr std::string_view kUnwritten[] = {"empty",          "empty_like", "empty_strided",
                                           "empty_permuted", "new_empty",  "new_empty_strided"};

/// How the names of factorizations begin: what fails by value does so at its line.
constexpr std::string_view kFactorizations[] = {"linalg_", "_linalg_",     "cholesky",        "lu_",
                                                "_lu_",    "ormqr",        "_ormqr",          "geqrf",
                                                "logdet",  "_householder", "triangular_solve"};

bool holds(std::span<const std::string_view> names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

bool may_fail(std::string_view name) {
  return name != "linalg_vector_norm" &&
         std::ranges::any_of(kFactorizations, [&](std::string_view begin) { return name.starts_with(begin); });
}

struct RowKind {
  const BoxedOp* row = nullptr;
  StretchOp::Kind kind = StretchOp::Kind::RunsAtOnce;
};

/// What becomes of calls of an op, as far as its row says it.
RowKind find_row(uint16_t id, OpForm form) {
  const BoxedOp* row = form == OpForm::Function || form == OpForm::InPlace ? find_boxed(id, form) : nullptr;
  if (!row || row->draws || holds(kUnwritten, row->name) || may_fail(row->name)) return {};
  const bool is_view = op_info(id).is_view;
  if (form == OpForm::InPlace) return is_view ? RowKind{} : RowKind{row, StretchOp::Kind::Writes};
  if (row->has_effects()) return {};
  if (is_view) return {row, StretchOp::Kind::Views};
  const bool plain = std::ranges::all_of(
      row->results, [](const BoxedType& r) { return r.base == BoxedType::Base::Tensor && !r.list; });
  return plain && !row->may_alias ? RowKind{row, StretchOp::Kind::Computes} : RowKind{};
}

const RowKind& row_kind(const OpCall& call) {
  static const RowKind at_once;
  static auto* rows = new std::array<std::array<std::atomic<const RowKind*>, 1 << 16>, 2>{};
  if (call.form != OpForm::Function && call.form != OpForm::InPlace) return at_once;
  std::atomic<const RowKind*>& slot = (*rows)[call.form == OpForm::InPlace][call.op];
  const RowKind* known = slot.load(std::memory_order_acquire);
  if (!known) slot.store(known = new RowKind(find_row(call.op, call.form)), std::memory_order_release);
  return *known;
}

/// Numbers that are the same bit by bit, which == does not ask of what is behind a pointer.
bool is_same_number(const Value& a, const Value& b) {
  if (a.kind() != b.kind()) return false;
  const auto same_bits = [](double x, double y) { return std::bit_cast<uint64_t>(x) == std::bit_cast<uint64_t>(y); };
  if (a.kind() == Value::Kind::Complex) {
    const auto x = a.to_scalar().to_complex(), y = b.to_scalar().to_complex();
    return same_bits(x.real(), y.real()) && same_bits(x.imag(), y.imag());
  }
  if (a.kind() == Value::Kind::Floats) {
    std::vector<double> x, y;
    return std::ranges::equal(a.floats(x), b.floats(y), same_bits);
  }
  return a == b;
}

}  // namespace

// ---- what is remembered

TensorForm TensorForm::of(const Tensor& t) {
  return {t.dtype(), t.device(), (t.flags() & kConjugate) != 0, Dims(t.sizes()), Dims(t.strides())};
}

bool TensorForm::operator==(const TensorForm& other) const {
  return dtype == other.dtype && device == other.device && conjugate == other.conjugate &&
         IntList(sizes) == IntList(other.sizes) && IntList(strides) == IntList(other.strides);
}

bool StretchArgument::operator==(const StretchArgument& other) const {
  return has_tensors == other.has_tensors && is_list == other.is_list && tensors == other.tensors &&
         is_same_number(number, other.number);
}

int StretchOp::end() const {
  const size_t given = kind == Kind::Views ? static_cast<size_t>(views) : results.size();
  return first_result() + (kind == Kind::RunsAtOnce ? 0 : static_cast<int>(given));
}

bool StretchOp::is_same_call(const StretchOp& other) const {
  return row == other.row && arguments == other.arguments && inputs == other.inputs;
}

std::vector<Tensor> StretchProgram::run(const std::vector<Tensor>& given) const {
  FACULA_CHECK(given.size() == inputs.size(), ErrorKind::Runtime, "stretch: ", inputs.size(),
               " inputs are expected, got ", given.size());
  std::vector<Tensor> known(static_cast<size_t>(values));
  for (size_t i = 0; i < inputs.size(); ++i) known[static_cast<size_t>(inputs[i])] = given[i];
  for (const StretchOp* op : ops) {
    const std::vector<Tensor> made = run_op(*op, [&](int number) { return known[static_cast<size_t>(number)]; });
    if (op->kind == StretchOp::Kind::Writes) continue;
    std::ranges::copy(made, known.begin() + op->first_result());
  }
  std::vector<Tensor> found;
  for (const int number : results) found.push_back(known[static_cast<size_t>(number)]);
  return found;
}

// ---- one call

StretchRun::StretchRun(std::shared_ptr<StretchTree> tree) : tree_(std::move(tree)) {}

StretchRun::~StretchRun() {
  if (open_) open_->leave();
}

bool StretchRun::ask() {
  if (!may_record_) may_record_ = tree_->host->may_record();
  return *may_record_;
}

void StretchRun::end(bool raised) {
  if (!open_) return;
  const Ref<Stretch> ended = std::move(open_);
  open_ = {};
  ended->end(raised);
  recorded_ = recorded_ || ended->has_recorded();
  ended->leave();
}

bool StretchRun::op_begins(const OpCall& call) {
  shows_ = nullptr;
  const RowKind& known = row_kind(call);
  if (!known.row || are_ops_seen() || call.arguments.size() != known.row->arguments.size()) return false;
  if (open_ && !open_->is_open()) end();  // somebody needed a value
  if (!open_) open_ = Ref<Stretch>::adopt(new Stretch(*this, tree_));
  StretchOp op;
  op.row = known.row;
  op.kind = known.kind;
  const bool waits = open_->read(call, op) && put_off(op, call);
  if (!waits && !shows_) open_->forget_call();
  return waits;
}

/// The op of the tree that the call is, or a new one.
bool StretchRun::put_off(StretchOp& op, const OpCall& call) {
  StretchNode* known = open_->find(op);
  if (!known) {
    if (open_->too_long(kMostOps) || !open_->has_room(kMostWays) || !ask()) return false;
    known = open_->record(std::move(op));
    if (!known) return false;
  }
  switch (known->op.kind) {
    case StretchOp::Kind::RunsAtOnce: return false;
    case StretchOp::Kind::Views: shows_ = known; return false;
    default: return open_->put_off(*known, call);
  }
}

void StretchRun::op_ends(const OpCall& call) {
  StretchNode* node = std::exchange(shows_, nullptr);
  if (node && open_ && open_->is_open()) open_->show(*node, call);
}

}  // namespace facula
