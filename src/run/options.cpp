#include "run/options.h"

#include <charconv>
#include <limits>

#include "core/error.h"

namespace facula {

const char* const kRunUsage =
    R"(facula-run PROGRAM.pt2 [options]: runs an exported program, without Python

  --input FILE         arrays for the inputs, in order, or by the names in an .npz or .safetensors file
  --input NAME=FILE    the array for one input
  --output FILE        where the results go; else their shapes are printed
  --library FILE       a library with operators that the program names
  --repeat N           runs N times and prints how long that took
  --threads N          of the processor; as many as there are, if it is left out
  --list               prints inputs, outputs, ops and sizes, and runs nothing
  --help               this text

Files are .npy, .npz or .safetensors.
)";

namespace {

int number_of(std::string_view option, std::string_view text) {
  int number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  FACULA_CHECK(error == std::errc() && end == text.data() + text.size() && number > 0, ErrorKind::Value, option,
               " must be a positive number, got '", text, "'");
  return number;
}

/// "x=file.npy" names an input, "file.npy" does not. A path with '=' is written "./a=b.npy".
RunOptions::Input input_of(std::string_view text) {
  const size_t equals = text.find('='), slash = text.find('/');
  if (equals == std::string_view::npos || slash < equals) return {"", std::string(text)};
  return {std::string(text.substr(0, equals)), std::string(text.substr(equals + 1))};
}

struct Option {
  std::string_view name;
  bool takes_value;
  void (*set)(RunOptions& options, std::string_view value);
};
constexpr Option kOptions[] = {
    {"--input", true, [](RunOptions& o, std::string_view v) { o.inputs.push_back(input_of(v)); }},
    {"--library", true, [](RunOptions& o, std::string_view v) { o.libraries.emplace_back(v); }},
    {"--output", true, [](RunOptions& o, std::string_view v) { o.output = v; }},
    {"--repeat", true, [](RunOptions& o, std::string_view v) { o.repeat = number_of("--repeat", v); }},
    {"--threads", true, [](RunOptions& o, std::string_view v) { o.threads = number_of("--threads", v); }},
    {"--list", false, [](RunOptions& o, std::string_view) { o.list = true; }},
    {"--help", false, [](RunOptions& o, std::string_view) { o.help = true; }},
    {"-h", false, [](RunOptions& o, std::string_view) { o.help = true; }},
};

const Option& option_of(std::string_view name) {
  for (const Option& option : kOptions)
    if (option.name == name) return option;
  throw Error(ErrorKind::Value, "option: there is no such one, got " + std::string(name));
}

}  // namespace

RunOptions parse_run_options(const std::vector<std::string_view>& arguments) {
  RunOptions options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view argument = arguments[i];
    if (!argument.starts_with("-")) {
      FACULA_CHECK(options.program.empty(), ErrorKind::Value, "expected one program, got '", options.program, "' and '",
                   argument, "'");
      options.program = argument;
      continue;
    }
    const size_t equals = argument.starts_with("--") ? argument.find('=') : std::string_view::npos;
    const Option& option = option_of(argument.substr(0, equals));
    std::string_view value;
    if (option.takes_value && equals != std::string_view::npos) {
      value = argument.substr(equals + 1);
    } else if (option.takes_value) {
      FACULA_CHECK(i + 1 < arguments.size(), ErrorKind::Value, argument, " must be followed by a value");
      value = arguments[++i];
    } else {
      FACULA_CHECK(equals == std::string_view::npos, ErrorKind::Value, option.name, " takes no value");
    }
    option.set(options, value);
  }
  FACULA_CHECK(options.help || !options.program.empty(), ErrorKind::Value,
               "a program is expected, a file in .pt2, got none");
  return options;
}

}  // namespace facula
