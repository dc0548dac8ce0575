// Programs of the C interface.
#include <algorithm>

#include "capi/capi.h"

using namespace facula;
using namespace facula::capi;

fc_program_s::fc_program_s(LoadedProgram loaded) : program(std::move(loaded)) {
  for (const ProgramInput& input : program.program().inputs)
    (input.kind == ProgramInput::Kind::User ? inputs : tensors).push_back(&input);
}

namespace {

const LoadedProgram& borrow(fc_program program, const char* what) {
  FACULA_CHECK(program, ErrorKind::Value, what, ": the program is NULL");
  return program->program;
}

const ProgramInput* at(const std::vector<const ProgramInput*>& all, int32_t index) {
  return index >= 0 && static_cast<size_t>(index) < all.size() ? all[static_cast<size_t>(index)] : nullptr;
}

}  // namespace

extern "C" {

fc_status fc_program_load(const char* path, fc_program* out) {
  return guarded([&] {
    FACULA_CHECK(path, ErrorKind::Value, "fc_program_load: the path is NULL");
    fc_program& place = there(out, "fc_program_load");
    place = new fc_program_s(LoadedProgram(path));
  });
}
fc_status fc_program_parse(const char* text, fc_program* out) {
  return guarded([&] {
    FACULA_CHECK(text, ErrorKind::Value, "fc_program_parse: the text is NULL");
    fc_program& place = there(out, "fc_program_parse");
    place = new fc_program_s(LoadedProgram(std::make_shared<Program>(Program::parse(text))));
  });
}
void fc_program_release(fc_program program) { delete program; }

fc_status fc_program_text(fc_program program, char* text, size_t room, size_t* needed) {
  return guarded([&] {
    const std::string all = borrow(program, "fc_program_text").text();
    if (needed) *needed = all.size() + 1;
    if (text && room > all.size()) std::copy_n(all.c_str(), all.size() + 1, text);
  });
}

int32_t fc_program_input_count(fc_program program) {
  return program ? static_cast<int32_t>(program->inputs.size()) : 0;
}
const char* fc_program_input_name(fc_program program, int32_t index) {
  const ProgramInput* input = program ? at(program->inputs, index) : nullptr;
  return input ? input->path.c_str() : nullptr;
}
int32_t fc_program_output_count(fc_program program) {
  return program ? static_cast<int32_t>(program->program.program().outputs.size()) : 0;
}

int32_t fc_program_tensor_count(fc_program program) {
  return program ? static_cast<int32_t>(program->tensors.size()) : 0;
}
const char* fc_program_tensor_name(fc_program program, int32_t index) {
  const ProgramInput* held = program ? at(program->tensors, index) : nullptr;
  return held ? held->path.c_str() : nullptr;
}
const char* fc_program_tensor_role(fc_program program, int32_t index) {
  const ProgramInput* held = program ? at(program->tensors, index) : nullptr;
  return held ? name(held->kind) : nullptr;
}
fc_status fc_program_tensor(fc_program program, const char* path, fc_tensor* out) {
  return guarded([&] {
    const LoadedProgram& p = borrow(program, "fc_program_tensor");
    FACULA_CHECK(path, ErrorKind::Value, "fc_program_tensor: the name is NULL");
    fc_tensor& place = there(out, "fc_program_tensor");
    place = give(p.at(path));
  });
}

fc_status fc_program_run(fc_program program, const fc_value* inputs, size_t count, fc_value* results, size_t room) {
  return guarded([&] {
    const LoadedProgram& p = borrow(program, "fc_program_run");
    check_room(p.program().outputs.size(), results, room, "fc_program_run");
    listed(inputs, static_cast<int64_t>(count), "fc_program_run");
    std::vector<Value> values;
    for (size_t i = 0; i < count; ++i) {
      const char* input = fc_program_input_name(program, static_cast<int32_t>(i));
      values.push_back(from_c(inputs[i], input ? input : "fc_program_run"));
    }
    hand_over(p.run(values), results);
  });
}

}  // extern "C"
