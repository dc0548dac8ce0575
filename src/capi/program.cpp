// Programs of the C interface.
#include <algorithm>

#include "capi/capi.h"

using namespace facula;
using namespace facula::capi;

extern "C" {

fc_status fc_program_parse(const char* text, fc_program* out) {
  return guarded([&] {
    FACULA_CHECK(text, ErrorKind::Value, "fc_program_parse: the text is NULL");
    fc_program& place = there(out, "fc_program_parse");
    auto program = std::make_shared<const Program>(Program::parse(text));
    auto made = std::unique_ptr<fc_program_s>(new fc_program_s{Runner(program), {}});
    for (const ProgramInput& input : program->inputs)
      if (input.kind == ProgramInput::Kind::User) made->inputs.push_back(&input);
    place = made.release();
  });
}
void fc_program_release(fc_program program) { delete program; }

fc_status fc_program_text(fc_program program, char* text, size_t room, size_t* needed) {
  return guarded([&] {
    FACULA_CHECK(program, ErrorKind::Value, "fc_program_text: the program is NULL");
    const std::string all = program->runner.program().text();
    if (needed) *needed = all.size() + 1;
    if (text && room > all.size()) std::copy_n(all.c_str(), all.size() + 1, text);
  });
}
int32_t fc_program_input_count(fc_program program) {
  return program ? static_cast<int32_t>(program->inputs.size()) : 0;
}
const char* fc_program_input_name(fc_program program, int32_t index) {
  const bool there = index >= 0 && index < fc_program_input_count(program);
  return there ? program->inputs[static_cast<size_t>(index)]->path.c_str() : nullptr;
}
int32_t fc_program_output_count(fc_program program) {
  return program ? static_cast<int32_t>(program->runner.program().outputs.size()) : 0;
}
fc_status fc_program_run(fc_program program, const fc_value* inputs, size_t count, fc_value* results, size_t room) {
  return guarded([&] {
    FACULA_CHECK(program, ErrorKind::Value, "fc_program_run: the program is NULL");
    check_room(program->runner.program().outputs.size(), results, room, "fc_program_run");
    listed(inputs, static_cast<int64_t>(count), "fc_program_run");
    std::vector<Value> values;
    for (size_t i = 0; i < count; ++i) {
      const char* input = fc_program_input_name(program, static_cast<int32_t>(i));
      values.push_back(from_c(inputs[i], input ? input : "fc_program_run"));
    }
    const std::vector<Value> made = program->runner(values);
    hand_over(made, results);
  });
}

}  // extern "C"
