// Reads the command line of facula-run.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace facula {

struct RunOptions {
  struct Input {
    std::string name;  // empty: the next one, or those that the file names
    std::string path;
  };
  std::string program;
  std::vector<Input> inputs;
  std::vector<std::string> libraries;
  std::string output;  // empty: what came out is described on the screen
  int repeat = 1;
  int threads = 0;  // 0: as many as the machine has
  bool list = false;
  bool help = false;
};

extern const char* const kRunUsage;

/// Throws a ValueError that says what is wrong.
RunOptions parse_run_options(const std::vector<std::string_view>& arguments);

}  // namespace facula
