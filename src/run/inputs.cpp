#include "run/inputs.h"

#include <algorithm>

#include "run/arrays.h"
#include "run/list.h"

namespace facula {
namespace {

/// Of an input that is a number: what an array of one element says.
Value as_number(const ProgramInput& input, Value::Kind kind, const Tensor& t) {
  FACULA_CHECK(t.numel() == 1, ErrorKind::Value, "input '", input.path, "': expected one number, got ", t.numel());
  const Scalar number = t.item();
  if (kind == Value::Kind::Int) return number.to<int64_t>();
  if (kind == Value::Kind::Bool) return number.to<bool>();
  return number.to<double>();
}

}  // namespace

RunInputs::RunInputs(const Program& program) : program_(program) {
  for (const ProgramInput& input : program.inputs)
    if (input.kind == ProgramInput::Kind::User) wanted_.push_back(&input);
  given_.resize(wanted_.size());
}

void RunInputs::read(const RunOptions::Input& from) {
  std::vector<NamedTensor> arrays = read_arrays(from.path);
  if (!from.name.empty()) {
    FACULA_CHECK(arrays.size() == 1, ErrorKind::Value, "'", from.path, "': expected one array for input '", from.name,
                 "', got ", arrays.size());
    put(place_of(from.name, from.path), std::move(arrays[0].tensor));
    return;
  }
  for (NamedTensor& array : arrays) {
    const bool by_order =
        array.name.empty() || (find(array.name) < 0 && array.name.starts_with("arr_"));  // NumPy's names
    put(by_order ? next(from.path) : place_of(array.name, from.path), std::move(array.tensor));
  }
}

std::vector<Value> RunInputs::values() const {
  std::vector<Value> all;
  for (size_t i = 0; i < wanted_.size(); ++i) {
    const ProgramInput& input = *wanted_[i];
    const ProgramValue& info = program_.values[static_cast<size_t>(input.value)];
    if (!input.constant.is_none()) {
      all.push_back(input.constant);
      continue;
    }
    FACULA_CHECK(given_[i].defined(), ErrorKind::Value, "input '", input.path, "' (", described(info),
                 ") is missing: --input ", input.path, "=FILE");
    const bool tensor = info.kind == Value::Kind::Tensor;
    all.push_back(tensor ? Value(given_[i]) : as_number(input, info.kind, given_[i]));
  }
  return all;
}

int RunInputs::find(std::string_view name) const {
  for (size_t i = 0; i < wanted_.size(); ++i)
    if (wanted_[i]->path == name) return static_cast<int>(i);
  return -1;
}

size_t RunInputs::place_of(const std::string& name, const std::string& path) const {
  const int place = find(name);
  std::string names;
  for (const ProgramInput* input : wanted_) names += (names.empty() ? "" : ", ") + input->path;
  FACULA_CHECK(place >= 0, ErrorKind::Value, "'", path, "': the program has no input '", name, "'; it has ", names);
  return static_cast<size_t>(place);
}

size_t RunInputs::next(const std::string& path) const {
  for (size_t i = 0; i < given_.size(); ++i)
    if (!given_[i].defined() && wanted_[i]->constant.is_none()) return i;
  throw_error(ErrorKind::Value, "'", path, "': the program has ", wanted_.size(), " inputs, and all are given");
}

void RunInputs::put(size_t place, Tensor t) {
  FACULA_CHECK(!given_[place].defined(), ErrorKind::Value, "input '", wanted_[place]->path, "' is given twice");
  given_[place] = std::move(t);
}

}  // namespace facula
