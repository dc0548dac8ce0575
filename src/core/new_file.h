// Writes a file that replaces an old one when it is complete. Whoever maps or reads the old one still has its contents.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace facula {

/// Bytes go to a file beside `path`, which finish() renames; without it, the old file stays as it was. What is no
/// ordinary file, such as a pipe, is written to directly. Errors are RuntimeErrors: "<op>: cannot write ...".
class NewFile {
 public:
  NewFile(const char* op, const std::string& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  void write(const void* data, size_t size);
  void write(std::string_view bytes) { write(bytes.data(), bytes.size()); }
  void finish();

 private:
  void open_beside();
  [[noreturn]] void fail();
  const char* op_;
  std::string path_;  // of the file that is replaced, symbolic links followed
  std::string beside_;
  int file_ = -1;
};

}  // namespace facula
