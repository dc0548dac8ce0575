#include "core/new_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace facula {
namespace {

std::string followed(const std::string& path) {
  char* whole = realpath(path.c_str(), nullptr);
  std::string made = whole ? whole : path;
  free(whole);
  return made;
}

}  // namespace

NewFile::NewFile(const char* op, const std::string& path) : op_(op), path_(followed(path)) {
  struct stat old{};
  const bool there = stat(path_.c_str(), &old) == 0;
  if (there && !S_ISREG(old.st_mode)) {
    file_ = open(path_.c_str(), O_WRONLY | O_CLOEXEC);
    if (file_ < 0) fail();
    return;
  }
  open_beside();
  if (there) fchmod(file_, old.st_mode & 07777);
}

// The name begins with a point and ends with what no other process or thread has; those are counted up.
void NewFile::open_beside() {
  static std::atomic<unsigned> last{0};
  const size_t slash = path_.rfind('/') + 1;
  for (int attempt = 0; attempt < 100 && file_ < 0; ++attempt) {
    const std::string own = std::to_string(getpid()) + "-" + std::to_string(last++);
    beside_ = path_.substr(0, slash) + "." + path_.substr(slash, 100) + "-" + own;
    file_ = open(beside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (file_ < 0 && errno != EEXIST) break;
  }
  if (file_ < 0) beside_.clear(), fail();
}

NewFile::~NewFile() {
  if (file_ >= 0) close(file_);
  if (!beside_.empty()) unlink(beside_.c_str());
}

void NewFile::write(const void* data, size_t size) {
  const char* from = static_cast<const char*>(data);
  while (size > 0) {
    const ssize_t done = ::write(file_, from, size);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail();
    from += done;
    size -= static_cast<size_t>(done);
  }
}

void NewFile::finish() {
  const int file = std::exchange(file_, -1);
  if (close(file) != 0) fail();
  if (beside_.empty()) return;
  if (rename(beside_.c_str(), path_.c_str()) != 0) fail();
  beside_.clear();
}

void NewFile::fail() { throw_error(ErrorKind::Runtime, op_, ": cannot write '", path_, "': ", std::strerror(errno)); }

}  // namespace facula
