#include "distributed/port_holder.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace facula::distributed {
namespace {

constexpr const char* kListening = "0A";  // of the state column of /proc/net/tcp

/// The inode of the socket that listens on the port, from one table of the kernel; empty if none does.
std::string listener_inode(const char* table, int port) {
  std::ifstream file(table);
  std::string line;
  std::getline(file, line);  // titles
  while (std::getline(file, line)) {
    std::istringstream columns(line);
    std::string number, local, remote, state, skipped, inode;
    columns >> number >> local >> remote >> state;
    for (int i = 0; i < 5; ++i) columns >> skipped;
    columns >> inode;
    const size_t colon = local.rfind(':');
    if (state == kListening && colon != std::string::npos &&
        std::strtol(local.c_str() + colon + 1, nullptr, 16) == port)
      return inode;
  }
  return {};
}

bool has_socket(const std::filesystem::path& process, const std::string& name) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(process / "fd", error)) {
    if (std::filesystem::read_symlink(entry.path(), error) == name) return true;
  }
  return false;
}

}  // namespace

std::string command_of(int pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/cmdline", std::ios::binary);
  std::string command((std::istreambuf_iterator<char>(file)), {});
  std::replace(command.begin(), command.end(), '\0', ' ');
  while (!command.empty() && command.back() == ' ') command.pop_back();
  if (command.size() > 100) command = command.substr(0, 97) + "...";
  return command;
}

std::string holder_of_port(int port) {
  std::string inode = listener_inode("/proc/net/tcp", port);
  if (inode.empty()) inode = listener_inode("/proc/net/tcp6", port);
  std::error_code error;
  if (!inode.empty()) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
      const int pid = std::atoi(entry.path().filename().c_str());
      if (pid > 0 && has_socket(entry.path(), "socket:[" + inode + "]"))
        return "process " + std::to_string(pid) + " (" + command_of(pid) + ")";
    }
  }
  return "a process that the system does not name";
}

}  // namespace facula::distributed
