// FileStore: processes that share a directory. The file is a log of the requests that change something; who asks takes
// a lock, repeats what others have added, and adds its own. A file that was there before, such as a temporary file of
// the program, is emptied at the end instead of removed: whoever made it expects to find it.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "distributed/store.h"
#include "distributed/wire.h"

namespace facula::distributed {
namespace {

constexpr std::string_view kHead = "facula file store 1\n";
constexpr const char* kGone = "\1left";  // counts those that let go of the file; the last one removes it
constexpr const char* kMade = "\1made";  // there if a store made the file

class LockedFile {
 public:
  LockedFile(const std::string& path, const Deadline& deadline) : path_(path) {
    fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    made_ = fd_ >= 0;
    if (!made_) fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd_ < 0) fail(Trouble::Store, "FileStore: cannot open '", path, "': ", std::strerror(errno));
    while (::flock(fd_, LOCK_EX | LOCK_NB) != 0) {
      if (deadline.passed()) give_up("the lock is held by another process");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  ~LockedFile() { ::close(fd_); }
  LockedFile(const LockedFile&) = delete;

  bool made() const { return made_; }
  size_t size() const {
    struct stat s{};
    ::fstat(fd_, &s);
    return static_cast<size_t>(s.st_size);
  }
  std::string read(size_t from, size_t count) const {
    std::string bytes(count, '\0');
    for (size_t done = 0; done < count;) {
      const ssize_t n = ::pread(fd_, bytes.data() + done, count - done, static_cast<off_t>(from + done));
      if (n <= 0) give_up("it ends before it should");
      done += static_cast<size_t>(n);
    }
    return bytes;
  }
  void write(size_t at, std::string_view bytes) const {
    for (size_t done = 0; done < bytes.size();) {
      const ssize_t n = ::pwrite(fd_, bytes.data() + done, bytes.size() - done, static_cast<off_t>(at + done));
      if (n <= 0) give_up(std::strerror(errno));
      done += static_cast<size_t>(n);
    }
  }
  /// What a process that died while it wrote has left.
  void cut(size_t size) const {
    if (::ftruncate(fd_, static_cast<off_t>(size)) != 0) give_up(std::strerror(errno));
  }

 private:
  [[noreturn]] void give_up(const char* why) const { fail(Trouble::Store, "FileStore: '", path_, "': ", why); }
  const std::string& path_;
  int fd_;
  bool made_;
};

class FileStore final : public Store {
 public:
  FileStore(std::string path, int64_t world_size) : Store(300), path_(std::move(path)), world_size_(world_size) {}
  ~FileStore() override {
    if (world_size_ <= 0) return;
    try {
      if (call({StoreOp::Add, {kGone}, {}, 1}, 1).number < world_size_) return;
      if (has(kMade)) ::unlink(path_.c_str());
      else LockedFile(path_, Deadline::after(1)).cut(0);
    } catch (...) {  // then the file stays
    }
  }
  std::shared_ptr<Store> clone() override {
    auto copy = std::make_shared<FileStore>(path_, 0);
    copy->set_timeout(timeout());
    return copy;
  }

  Reply call(const Request& request, double timeout) override {
    std::scoped_lock own(mutex_);
    const Deadline deadline = Deadline::after(timeout);
    for (auto pause = std::chrono::milliseconds(1);; pause = std::min(pause * 2, std::chrono::milliseconds(20))) {
      Reply reply = once(request, deadline.seconds_left() < 1 ? Deadline::after(1) : deadline);
      if (reply.answer != Answer::Waiting) return reply;
      if (deadline.passed()) return reply.answer = Answer::Timeout, reply;
      std::this_thread::sleep_for(pause);
      Interruptible::check();
    }
  }

 private:
  Reply once(const Request& request, const Deadline& deadline) {
    const LockedFile file(path_, deadline);
    catch_up(file);
    if (file.made()) carry_out({StoreOp::Add, {kMade}, {}, 1}, file);
    Reply reply = carry_out(request, file);
    if (request.op == StoreOp::NumKeys) reply.number -= has(kGone) + has(kMade);
    if (request.op == StoreOp::ListKeys)
      std::erase_if(reply.values, [](auto& key) { return key == kGone || key == kMade; });
    return reply;
  }

  Reply carry_out(const Request& request, const LockedFile& file) {
    Reply reply = table_.apply(request);
    if (reply.answer == Answer::Done && changes(request)) {
      Writer w;
      w.text(encode(request));
      const std::string record = w.take();
      file.write(at_, record);
      at_ += record.size();
    }
    return reply;
  }

  bool has(const char* key) { return table_.apply({StoreOp::Check, {key}}).number != 0; }

  void catch_up(const LockedFile& file) {
    const size_t size = file.size();
    if (at_ == 0) {
      if (size < kHead.size()) file.write(0, kHead);
      else if (file.read(0, kHead.size()) != kHead)
        fail(Trouble::Store, "FileStore: '", path_, "' exists and is no file of a store: remove it or name another");
      at_ = kHead.size();
    }
    while (at_ + sizeof(uint32_t) <= size) {
      const auto length = Reader(file.read(at_, sizeof(uint32_t))).number<uint32_t>();
      if (length > size - at_ - sizeof(uint32_t)) break;
      table_.apply(decode_request(file.read(at_ + sizeof(uint32_t), length)));
      at_ += sizeof(uint32_t) + length;
    }
    if (at_ < size) file.cut(at_);
  }

  std::string path_;
  int64_t world_size_;
  std::mutex mutex_;
  StoreTable table_;
  size_t at_ = 0;  // how far the log was read
};

}  // namespace

std::shared_ptr<Store> make_file_store(const std::string& path, int64_t world_size) {
  return std::make_shared<FileStore>(path, world_size);
}

}  // namespace facula::distributed
