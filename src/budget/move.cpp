#include "budget/move.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <shared_mutex>
#include <system_error>
#include <vector>

#include "core/error.h"

namespace facula::budget {
namespace {

constexpr size_t kPiece = size_t{16} << 20;    // read or written at once, from and to memory that direct I/O takes
constexpr size_t kBounce = size_t{4} << 20;    // the same, of other memory
constexpr size_t kMeasured = size_t{1} << 18;  // smaller transfers say nothing about the rate

enum class State : uint8_t { Waiting, Writing, Written, Failed };

/// What direct I/O reads into memory must not meet a fork(): the pages could be the child's by then. Whoever forks
/// takes it alone. Never destroyed.
std::shared_mutex& fork_gate() {
  static auto* gate = new std::shared_mutex;
  return *gate;
}

std::string in_words(int error) { return std::system_category().message(error); }

std::string size_in_words(size_t bytes) {
  if (bytes < size_t{1} << 20) return std::to_string(bytes) + " bytes";
  const size_t tenths = (bytes * 10) >> 20;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " MiB";
}

bool fits(const void* memory, size_t unit) { return reinterpret_cast<uintptr_t>(memory) % unit == 0; }

/// A file of a folder that is listed nowhere, or -1 and errno.
int open_without_name(const std::string& folder) {
  const int file = open(folder.c_str(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
  if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR)) return file;
  std::string path = folder + "/.budget-XXXXXX";  // a file system without such files
  const int named = mkostemp(path.data(), O_CLOEXEC);
  if (named >= 0) unlink(path.c_str());
  return named;
}

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Counts a transfer into a rate: the first is it, later ones move it by a quarter.
void count(std::atomic<double>& rate, std::atomic<bool>& known, size_t bytes, double seconds) {
  if (bytes < kMeasured || seconds <= 0) return;
  const double now = static_cast<double>(bytes) / seconds;
  rate = known.exchange(true) ? 0.75 * rate + 0.25 * now : now;
}

}  // namespace

struct MoveFile::Ticket {
  Ticket *before = nullptr, *after = nullptr;  // by place
  Ticket* next = nullptr;                      // to be written
  const char* data;
  size_t bytes, room = 0;  // a place is a whole number of the file's units
  uint64_t at = 0;
  unsigned life = 0;
  std::atomic<State> state{State::Waiting};
  int error = 0;  // of one that has failed

  Ticket(const void* data, size_t bytes) : data(static_cast<const char*>(data)), bytes(bytes) {}
  /// One that has failed.
  explicit Ticket(int why) : Ticket(nullptr, 0) { fail(why); }
  bool is_over() const { return state == State::Written || state == State::Failed; }
  void fail(int why) {
    error = why;
    state = State::Failed;
  }
};

// ---- all files

struct MoveFile::Files {
  std::mutex mutex;
  std::vector<MoveFile*> all;  // they live until the end

  static Files& known() {
    static auto* files = [] {
      fork_gate();
      pthread_atfork(before_fork, in_parent, in_child);
      std::atexit(end);
      return new Files;
    }();
    return *files;
  }
  static void before_fork() {
    fork_gate().lock();
    known().mutex.lock();
    for (MoveFile* file : known().all) file->mutex_.lock();
  }
  static void in_parent() {
    for (MoveFile* file : known().all) file->mutex_.unlock();
    known().mutex.unlock();
    fork_gate().unlock();
  }
  static void in_child() {
    std::construct_at(&fork_gate());  // counts threads that wait for it, and those do not live here
    std::construct_at(&known().mutex);
    for (MoveFile* file : known().all) file->become_child();
  }
  /// What waits to be written when the process ends is not.
  static void end() {
    const std::lock_guard lock(known().mutex);
    for (MoveFile* file : known().all) {
      {
        const std::lock_guard guard(file->mutex_);
        file->ends_ = file->cancelled_ = true;
      }
      file->changed_.notify_all();
      if (file->thread_.joinable()) file->thread_.join();
    }
  }
};

MoveFile* MoveFile::of_folder(const std::string& folder, bool direct) {
  char* whole = realpath(folder.c_str(), nullptr);
  const std::string path = whole ? whole : folder;
  free(whole);
  Files& files = Files::known();
  const std::lock_guard lock(files.mutex);
  for (MoveFile* file : files.all)
    if (file->folder_ == path && file->wants_direct_ == direct) return file;
  auto file = std::unique_ptr<MoveFile>(new MoveFile(path, direct));
  const int error = file->open_file();
  FACULA_CHECK(error == 0, ErrorKind::Runtime, "memory_budget: a folder in which a file can be made and written, got '",
               folder, "': ", in_words(error));
  files.all.push_back(file.get());
  return file.release();
}

MoveFile* MoveFile::of_environment() {
  const char* folder = std::getenv("FACULA_BUDGET_DIR");
  return folder && *folder ? of_folder(folder) : nullptr;
}

// ---- the file

int MoveFile::open_file() {
  file_ = open_without_name(folder_);
  if (file_ < 0) return errno;
  const int flags = fcntl(file_, F_GETFL);
  direct_ = wants_direct_ && fcntl(file_, F_SETFL, flags | O_DIRECT) == 0;
  unit_ = memory_unit_ = 4096;
#ifdef STATX_DIOALIGN
  struct statx known{};
  if (statx(file_, "", AT_EMPTY_PATH, STATX_DIOALIGN, &known) == 0 && (known.stx_mask & STATX_DIOALIGN)) {
    direct_ &= known.stx_dio_mem_align != 0;
    unit_ = std::max<size_t>(unit_, known.stx_dio_offset_align);
    if (direct_) memory_unit_ = known.stx_dio_mem_align;
  }
#endif
  // Whether it can be written at all shows here, and not in the midst of a program.
  char* memory = writes_.memory();
  int error = memory ? 0 : ENOMEM;
  if (!error) {
    std::memset(memory, 0, unit_);
    error = write_piece(memory, unit_, 0, true);
  }
  if (error == EINVAL && direct_) {
    direct_ = false;
    error = write_piece(memory, unit_, 0, true);
  }
  if (!direct_) fcntl(file_, F_SETFL, flags & ~O_DIRECT);
  if (!error && ftruncate(file_, 0) != 0) error = errno;
  if (error) close(std::exchange(file_, -1));
  return error;
}

/// In a forked child, before anything else runs there: the thread, and who waited, do not live here.
void MoveFile::become_child() {
  close(std::exchange(file_, -1));
  std::construct_at(&mutex_);
  std::construct_at(&changed_);
  std::construct_at(&done_);
  std::construct_at(&thread_);
  writes_.forget();
  reads_.forget();
  first_placed_ = last_placed_ = first_waiting_ = last_waiting_ = writing_ = nullptr;
  used_ = reserved_ = 0;
  cancelled_ = false;
  ++life_;
}

char* MoveFile::Bounce::memory() {
  if (!memory_) {
    void* made = mmap(nullptr, kBounce, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made != MAP_FAILED) memory_ = static_cast<char*>(made);
  }
  return memory_;
}
/// The memory may have been caught in the midst of a transfer: a child takes other.
void MoveFile::Bounce::forget() {
  std::construct_at(&mutex);
  if (memory_) munmap(std::exchange(memory_, nullptr), kBounce);
}

/// Without direct I/O: what is in the cache goes to the disk and leaves the cache.
int MoveFile::leave_cache(uint64_t at, size_t bytes, bool written) {
  if (direct_) return 0;
  const auto from = static_cast<off_t>(at), size = static_cast<off_t>(bytes);
  constexpr unsigned kAll = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;
  if (written && sync_file_range(file_, from, size, kAll) != 0 && errno != ENOSYS && errno != ESPIPE && errno != EINVAL)
    return errno;
  posix_fadvise(file_, from, size, POSIX_FADV_DONTNEED);
  return 0;
}

/// Writes up to kPiece bytes; `aligned`: memory and size are what direct I/O takes. 0 or an error of the system.
int MoveFile::write_piece(const char* data, size_t bytes, uint64_t at, bool aligned) {
  std::unique_lock<std::mutex> held(writes_.mutex, std::defer_lock);
  if (!aligned) {
    held.lock();
    char* bounce = writes_.memory();
    if (!bounce) return ENOMEM;
    std::memcpy(bounce, data, bytes);
    const size_t whole = rounded(bytes);
    std::memset(bounce + bytes, 0, whole - bytes);
    data = bounce;
    bytes = whole;
  }
  for (size_t done = 0; done < bytes;) {
    const ssize_t n = pwrite(file_, data + done, bytes - done, static_cast<off_t>(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    done += static_cast<size_t>(n);
  }
  return leave_cache(at, bytes, true);
}

int MoveFile::read_piece(char* to, size_t bytes, uint64_t at, bool aligned) {
  const std::shared_lock gate(fork_gate());
  std::unique_lock<std::mutex> held(reads_.mutex, std::defer_lock);
  char* target = to;
  const size_t whole = aligned ? bytes : rounded(bytes);
  if (!aligned) {
    held.lock();
    target = reads_.memory();
    if (!target) return ENOMEM;
  }
  for (size_t done = 0; done < whole;) {
    const ssize_t n = pread(file_, target + done, whole - done, static_cast<off_t>(at + done));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    done += static_cast<size_t>(n);
  }
  if (!aligned) std::memcpy(to, target, bytes);
  return leave_cache(at, whole, false);
}

namespace {

/// Calls piece(offset, bytes, aligned) for parts of a transfer until one gives an error.
template <class F>
int in_pieces(const void* memory, size_t bytes, size_t memory_unit, size_t unit, F piece) {
  const bool takes = fits(memory, memory_unit);
  for (size_t done = 0; done < bytes;) {
    size_t now = std::min(bytes - done, takes ? kPiece : kBounce);
    if (takes && now >= unit) now -= now % unit;
    const bool aligned = takes && now % unit == 0;
    if (const int error = piece(done, now, aligned)) return error;
    done += now;
  }
  return 0;
}

}  // namespace

// ---- places

/// Into the smallest gap that is large enough, or behind the last.
void MoveFile::place(Ticket* ticket) {
  ticket->room = rounded(std::max<size_t>(ticket->bytes, 1));
  Ticket* best = nullptr;  // the gap before it
  uint64_t best_gap = UINT64_MAX, free_from = 0;
  for (Ticket* t = first_placed_; t; t = t->after) {
    const uint64_t gap = t->at - free_from;
    if (gap >= ticket->room && gap < best_gap) {
      best = t;
      best_gap = gap;
      if (gap == ticket->room) break;
    }
    free_from = t->at + t->room;
  }
  ticket->after = best;
  ticket->before = best ? best->before : last_placed_;
  ticket->at = ticket->before ? ticket->before->at + ticket->before->room : 0;
  (ticket->before ? ticket->before->after : first_placed_) = ticket;
  (ticket->after ? ticket->after->before : last_placed_) = ticket;
  used_ += ticket->room;
}

void MoveFile::unplace(Ticket* ticket) {
  (ticket->before ? ticket->before->after : first_placed_) = ticket->after;
  (ticket->after ? ticket->after->before : last_placed_) = ticket->before;
  used_ -= std::exchange(ticket->room, 0);
}

uint64_t MoveFile::length() const {
  const std::lock_guard lock(mutex_);
  return last_placed_ ? last_placed_->at + last_placed_->room : 0;
}
uint64_t MoveFile::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

void MoveFile::trim() {
  const std::lock_guard lock(mutex_);
  const uint64_t end = last_placed_ ? last_placed_->at + last_placed_->room : 0;
  if (file_ >= 0 && end < reserved_ && ftruncate(file_, static_cast<off_t>(end)) == 0) reserved_ = end;
}

// ---- writing

/// The file of a child, and the thread, are made when they are first needed. With the mutex held.
bool MoveFile::start() {
  if (ends_ || (file_ < 0 && open_file() != 0)) return false;
  if (thread_.joinable()) return true;
  sigset_t all, before;  // a program's handlers run in its own threads
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    thread_ = std::thread([this] { work_off(); });
  } catch (const std::system_error&) {
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return thread_.joinable();
}

/// What stands for a ticket that there was no memory for.
MoveFile::Ticket& MoveFile::no_memory() {
  static Ticket ticket(ENOMEM);
  return ticket;
}

MoveFile::Ticket* MoveFile::write(const void* data, size_t bytes) {
  auto* ticket = new (std::nothrow) Ticket(data, bytes);
  if (!ticket) return &no_memory();
  {
    const std::lock_guard lock(mutex_);
    ticket->life = life_;
    if (!start()) {
      ticket->fail(ends_ ? ECANCELED : EAGAIN);
      return ticket;
    }
    (last_waiting_ ? last_waiting_->next : first_waiting_) = ticket;
    last_waiting_ = ticket;
  }
  changed_.notify_all();
  return ticket;
}

void MoveFile::work_off() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return ends_ || first_waiting_; });
    if (ends_) break;
    Ticket* ticket = std::exchange(first_waiting_, first_waiting_->next);
    if (!first_waiting_) last_waiting_ = nullptr;
    place(ticket);  // only now: what was dropped meanwhile has left room
    ticket->state = State::Writing;
    writing_ = ticket;
    lock.unlock();
    const int error = write_out(*ticket);
    lock.lock();
    writing_ = nullptr;
    cancelled_ = ends_;
    if (error) {
      unplace(ticket);
      ticket->fail(error);
    } else {
      ticket->state = State::Written;
    }
    done_.notify_all();
  }
  for (Ticket* ticket = std::exchange(first_waiting_, nullptr); ticket; ticket = ticket->next) ticket->fail(ECANCELED);
  last_waiting_ = nullptr;
  done_.notify_all();
}

int MoveFile::write_out(Ticket& ticket) {
  const Stopwatch watch;
  uint64_t reserved;
  {
    const std::lock_guard lock(mutex_);
    reserved = reserved_;
  }
  const uint64_t end = ticket.at + ticket.room;
  if (end > reserved) {  // a full disk shows before anything is written
    const int result = fallocate(file_, 0, static_cast<off_t>(reserved), static_cast<off_t>(end - reserved));
    if (result != 0 && errno != EOPNOTSUPP && errno != ENOSYS) return errno;
    const std::lock_guard lock(mutex_);
    reserved_ = end;
  }
  const int error = in_pieces(ticket.data, ticket.bytes, memory_unit_, unit_, [&](size_t from, size_t n, bool aligned) {
    {
      const std::lock_guard lock(mutex_);
      if (cancelled_) return ECANCELED;
    }
    return write_piece(ticket.data + from, n, ticket.at + from, aligned);
  });
  if (!error) count(write_rate_, write_rate_known_, ticket.bytes, watch.seconds());
  return error;
}

bool MoveFile::is_written(const Ticket& ticket) const { return ticket.state == State::Written; }

bool MoveFile::can_read(const Ticket& ticket) const {
  return ticket.state == State::Written && ticket.life == life_;  // a forked child counts its life while it is alone
}

bool MoveFile::failed(const Ticket& ticket) const {
  if (ticket.state == State::Failed) return true;
  const std::lock_guard lock(mutex_);
  return ticket.life != life_;
}

void MoveFile::wait(Ticket& ticket) {
  if (ticket.is_over()) return;
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return ticket.is_over() || ticket.life != life_; });
}

void MoveFile::read(Ticket& ticket, void* to) {
  wait(ticket);
  const std::string what =
      "memory_budget: cannot bring " + size_in_words(ticket.bytes) + " back from the folder '" + folder_ + "': ";
  {
    const std::lock_guard lock(mutex_);
    FACULA_CHECK(ticket.life == life_, ErrorKind::Runtime, what, "they were moved by the process that this one was ",
                 "forked from");
  }
  FACULA_CHECK(ticket.state == State::Written, ErrorKind::Runtime, what,
               "they were not written: ", in_words(ticket.error));
  const Stopwatch watch;
  char* into = static_cast<char*>(to);
  const int error = in_pieces(to, ticket.bytes, memory_unit_, unit_, [&](size_t from, size_t n, bool aligned) {
    return read_piece(into + from, n, ticket.at + from, aligned);
  });
  FACULA_CHECK(error == 0, ErrorKind::Runtime, what, in_words(error));
  count(read_rate_, read_rate_known_, ticket.bytes, watch.seconds());
}

void MoveFile::drop(Ticket* ticket) {
  if (!ticket || ticket == &no_memory()) return;
  {
    std::unique_lock lock(mutex_);
    if (ticket->life == life_ && ticket == writing_) {
      cancelled_ = true;
      done_.wait(lock, [&] { return ticket->is_over(); });
    } else if (ticket->life == life_ && ticket->state == State::Waiting) {
      Ticket* previous = nullptr;
      for (Ticket* t = first_waiting_; t != ticket; t = t->next) previous = t;
      (previous ? previous->next : first_waiting_) = ticket->next;
      if (last_waiting_ == ticket) last_waiting_ = previous;
    }
    if (ticket->life == life_ && ticket->room) unplace(ticket);
  }
  delete ticket;
}

double MoveFile::write_rate() const { return write_rate_; }
double MoveFile::read_rate() const { return read_rate_; }

}  // namespace facula::budget
