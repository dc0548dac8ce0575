// Starts a program and waits for it. The emulated device uses this too, and is compiled from sources in the package, so
// only the standard library and POSIX are included.
#pragma once

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

extern char** environ;

namespace facula::cuda {

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::vector<std::string> words(const char* text) {
  std::istringstream in(text ? text : "");
  std::vector<std::string> found;
  for (std::string word; in >> word;) found.push_back(word);
  return found;
}

/// The host's C++ compiler: the words of $CXX, or g++.
inline std::vector<std::string> host_compiler() {
  std::vector<std::string> command = words(std::getenv("CXX"));
  if (command.empty()) command = {"g++"};
  return command;
}

/// Starts a program whose output goes to `log`; its process, or -1 when it did not start.
inline pid_t start(const std::vector<std::string>& command, const std::filesystem::path& log) {
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, log.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child;
  const int failed = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  return failed ? -1 : child;
}

/// Waits for a process; its exit status, or -1 when it did not start or did not exit by itself.
inline int finish(pid_t child) {
  int status = 0;
  if (child < 0) return -1;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace facula::cuda
