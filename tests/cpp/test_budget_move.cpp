// The file that bytes are moved to against a model: random transfers from several threads, full disks, folders that
// cannot be used, fork(), signals and the end of the process.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <random>
#include <thread>

#include "budget/move.h"
#include "child.h"
#include "core/error.h"

using facula::Error;
using facula::ErrorKind;
using facula::budget::MoveFile;

namespace {

std::string folder;

/// Memory that begins `shift` bytes behind a page.
class Memory {
 public:
  Memory(size_t bytes, size_t shift) : bytes_(bytes), whole_(bytes + shift + 1) {
    void* made = mmap(nullptr, whole_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(made != MAP_FAILED);
    begin_ = static_cast<unsigned char*>(made);
    data_ = begin_ + shift;
  }
  ~Memory() { munmap(begin_, whole_); }
  Memory(const Memory&) = delete;

  unsigned char* data() { return data_; }
  size_t size() const { return bytes_; }
  void fill(uint64_t seed) {
    for (size_t i = 0; i < bytes_; ++i) data_[i] = value(seed, i);
  }
  bool holds(uint64_t seed) const {
    for (size_t i = 0; i < bytes_; ++i)
      if (data_[i] != value(seed, i)) return false;
    return true;
  }

 private:
  static unsigned char value(uint64_t seed, size_t i) {
    return static_cast<unsigned char>((i * 0x9e3779b97f4a7c15u + seed * 0xbf58476d1ce4e5b9u) >> 40);
  }
  size_t bytes_, whole_;
  unsigned char *begin_, *data_;
};

struct Moved {
  MoveFile::Ticket* ticket;
  std::unique_ptr<Memory> memory;  // until it is written
  size_t bytes;
  uint64_t seed;
};

template <class F>
std::string refusal(F f) {
  try {
    f();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Runtime);
    return error.what();
  }
  return "";
}
bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

/// Random moves, there and back, of which some are given up.
void play(MoveFile& file, unsigned seed, int moves) {
  std::mt19937 random(seed);
  std::vector<Moved> live;
  uint64_t last = uint64_t{seed} << 32;
  const auto take_back = [&](size_t i) {
    Moved& m = live[i];
    if (!m.memory) {
      Memory back(m.bytes, random() % 3 ? 0 : 64 * (1 + random() % 8));
      file.read(*m.ticket, back.data());
      CHECK(back.holds(m.seed));
      CHECK(back.data()[back.size()] == 0);  // nothing was written behind the end
    }
    file.drop(m.ticket);
    if (m.memory) m.memory->fill(0);  // nobody reads it any more
    std::swap(m, live.back());
    live.pop_back();
  };
  for (int i = 0; i < moves; ++i) {
    constexpr size_t kMost[] = {5000, 100 << 10, 2 << 20, 20 << 20};
    const size_t bytes = 1 + random() % kMost[random() % 32 == 0 ? 3 : random() % 3], shift = random() % 3 ? 0 : 64;
    auto memory = std::make_unique<Memory>(bytes, shift);
    memory->fill(++last);
    MoveFile::Ticket* ticket = file.write(memory->data(), bytes);
    live.push_back({ticket, std::move(memory), bytes, last});
    for (Moved& m : live) {
      if (!m.memory) continue;
      if (random() % 4 == 0) file.wait(*m.ticket);
      CHECK(!file.failed(*m.ticket));
      if (file.is_written(*m.ticket)) m.memory.reset();
    }
    while (live.size() > 12 || (!live.empty() && random() % 3 == 0)) take_back(random() % live.size());
  }
  while (!live.empty()) take_back(live.size() - 1);
}

void test_random_moves(MoveFile& file, int moves) {
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t) threads.emplace_back([&file, t, moves] { play(file, t, moves); });
  for (std::thread& t : threads) t.join();
  CHECK(file.used() == 0 && file.length() == 0);
  CHECK(file.write_rate() > 0 && file.read_rate() > 0);
  file.trim();
  play(file, 9, 20);
}

/// The same sizes find the same places again; a gap between two places is joined from its parts.
void test_places_are_used_again(MoveFile& file) {
  constexpr size_t kPage = 4096;
  Memory memory(64 * kPage, 0);
  memory.fill(1);
  const auto write = [&](size_t pages) {
    MoveFile::Ticket* ticket = file.write(memory.data(), pages * kPage);
    file.wait(*ticket);
    CHECK(file.is_written(*ticket) && !file.failed(*ticket));
    return ticket;
  };
  std::vector<MoveFile::Ticket*> tickets;
  for (const size_t pages : {8u, 3u, 5u, 2u, 6u, 1u}) tickets.push_back(write(pages));
  CHECK(file.length() == 25 * kPage && file.used() == 25 * kPage);
  for (const size_t i : {1u, 3u, 2u}) file.drop(tickets[i]);  // a gap of 10
  CHECK(file.length() == 25 * kPage && file.used() == 15 * kPage);
  file.drop(tickets[0]);  // one of 18
  MoveFile::Ticket *a = write(12), *b = write(6);
  CHECK(file.length() == 25 * kPage && file.used() == 25 * kPage);
  file.drop(a);  // gaps of 12 and, behind, of 6: the smaller is taken
  file.drop(tickets[4]);
  MoveFile::Ticket *c = write(6), *d = write(12);
  CHECK(file.length() == 25 * kPage && file.used() == 25 * kPage);
  for (MoveFile::Ticket* t : {b, c, d, tickets[5]}) file.drop(t);
  file.drop(nullptr);
  CHECK(file.length() == 0 && file.used() == 0);
}

/// What is dropped before it is written, or while it is, harms nobody else.
void test_given_up(MoveFile& file) {
  constexpr size_t kLarge = 40 << 20;
  Memory first(kLarge, 0), second(1 << 20, 0), third(1 << 20, 0);
  first.fill(1), second.fill(2), third.fill(3);
  MoveFile::Ticket *a = file.write(first.data(), first.size()), *b = file.write(second.data(), second.size()),
                   *c = file.write(third.data(), third.size());
  file.drop(b);
  second.fill(0);
  file.drop(a);
  first.fill(0);
  Memory back(third.size(), 0);
  file.read(*c, back.data());
  CHECK(back.holds(3));
  file.drop(c);
  MoveFile::Ticket* d = file.write(second.data(), second.size());
  file.wait(*d);
  CHECK(file.is_written(*d));
  file.drop(d);
  CHECK(file.used() == 0);
}

/// A disk that is full: the limit of a process for the sizes of files stands for it.
void test_full_disk() {
  expect_good("a full disk", in_child({}, [] {
                signal(SIGXFSZ, SIG_IGN);
                MoveFile& file = *MoveFile::of_folder(folder);
                const rlimit limit{4 << 20, 4 << 20};
                CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
                Memory small(1 << 20, 0), large(8 << 20, 0), back(1 << 20, 0);
                small.fill(1), large.fill(2);
                MoveFile::Ticket *a = file.write(small.data(), small.size()),
                                 *b = file.write(large.data(), large.size()),
                                 *c = file.write(small.data(), small.size());
                file.wait(*b);
                CHECK(file.failed(*b) && !file.is_written(*b));
                const std::string text = refusal([&] { file.read(*b, large.data()); });
                CHECK(contains(text, "memory_budget: cannot bring 8.0 MiB back from the folder '"));
                CHECK(contains(text, folder.c_str()) && contains(text, "were not written: File too large"));
                for (MoveFile::Ticket* t : {a, c}) {
                  back.fill(0);
                  file.read(*t, back.data());
                  CHECK(back.holds(1));
                }
                file.drop(b);
                MoveFile::Ticket* d = file.write(small.data(), small.size());
                file.wait(*d);
                CHECK(file.is_written(*d));
                for (MoveFile::Ticket* t : {a, c, d}) file.drop(t);
                CHECK(file.used() == 0);
              }));
}

void test_folders() {
  const std::string none = folder + "/none", plain = folder + "/plain";
  close(open(plain.c_str(), O_CREAT | O_WRONLY, 0600));
  for (const auto& [given, why] : {std::pair{none, "No such file or directory"},
                                   {plain, "Not a directory"},
                                   {std::string("/proc"), ""},
                                   {std::string(), "No such file or directory"}}) {
    const std::string text = refusal([&] { MoveFile::of_folder(given); });
    CHECK(contains(text, "memory_budget: a folder in which a file can be made and written, got '"));
    CHECK(contains(text, why) && contains(text, given.c_str()));
  }
  unlink(plain.c_str());
  MoveFile* file = MoveFile::of_folder(folder);
  CHECK(MoveFile::of_folder(folder + "/../" + std::filesystem::path(folder).filename().string()) == file);
  CHECK(std::filesystem::is_empty(folder));
  unsetenv("FACULA_BUDGET_DIR");
  CHECK(MoveFile::of_environment() == nullptr);
  setenv("FACULA_BUDGET_DIR", folder.c_str(), 1);
  CHECK(MoveFile::of_environment() == file);
}

#if !defined(__SANITIZE_THREAD__)  // which does not know children with threads
/// Children that are forked in the midst of everything have files of their own.
void test_fork(MoveFile& file, int children) {
  Memory memory(3 << 20, 0);
  memory.fill(5);
  MoveFile::Ticket* ticket = file.write(memory.data(), memory.size());
  file.wait(*ticket);
  const auto use_and_exit = [&] { play(file, 8, 10), std::exit(0); };
  expect_good("a child that ends", in_child({}, use_and_exit));
  std::atomic<bool> on{true};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 2; ++t)
    threads.emplace_back([&, t] {
      for (unsigned i = 0; on; ++i) play(file, 100 * t + i, 10);
    });
  for (int i = 0; i < children; ++i) {
    MoveFile::Ticket* queued = file.write(memory.data(), memory.size());
    const Outcome outcome = in_child({}, [&] {
      Memory back(memory.size(), 0);
      const std::string text = refusal([&] { file.read(*ticket, back.data()); });
      CHECK(contains(text, "they were moved by the process that this one was forked from"));
      file.wait(*queued);  // does not wait for who is not there
      CHECK(file.is_written(*queued) || file.failed(*queued));
      MoveFile::Ticket* own = file.write(memory.data(), memory.size());
      file.read(*own, back.data());
      CHECK(back.holds(5));
      for (MoveFile::Ticket* t : {queued, ticket, own}) file.drop(t);
      CHECK(file.used() == 0);
      play(file, 7, 10);
    });
    expect_good("a forked child", outcome);
    file.drop(queued);
  }
  on = false;
  for (std::thread& t : threads) t.join();
  Memory back(memory.size(), 0);
  file.read(*ticket, back.data());
  CHECK(back.holds(5));
  file.drop(ticket);
  CHECK(file.used() == 0);
}

#endif

MoveFile* file_at_end;
Memory* memory_at_end;
std::vector<MoveFile::Ticket*> tickets_at_end;

void after_the_writer() {
  MoveFile& file = *file_at_end;
  Memory &memory = *memory_at_end, back(memory.size(), 0);
  MoveFile::Ticket* late = file.write(memory.data(), memory.size());
  CHECK(file.failed(*late) && !file.is_written(*late));
  file.drop(late);
  for (MoveFile::Ticket* t : tickets_at_end) {
    file.wait(*t);
    CHECK(file.is_written(*t) != file.failed(*t));
    if (file.is_written(*t)) file.read(*t, back.data());
  }
  CHECK(file.is_written(*tickets_at_end.front()) && back.holds(1));
  CHECK(file.failed(*tickets_at_end.back()));
  std::fprintf(stderr, "the end");
}

/// A process may end while there is much to write; what comes later fails.
void test_end_of_process() {
  const Outcome outcome = in_child({}, [] {
    std::atexit(after_the_writer);  // what is registered first runs last
    file_at_end = MoveFile::of_folder(folder);
    memory_at_end = new Memory(24 << 20, 0);
    memory_at_end->fill(1);
    for (int i = 0; i < 400; ++i)  // more than any disk takes before the end
      tickets_at_end.push_back(file_at_end->write(memory_at_end->data(), memory_at_end->size()));
    file_at_end->wait(*tickets_at_end[0]);
    std::exit(0);
  });
  expect_report("the end of a process", outcome, "the end");
}

std::atomic<int> signals{0}, elsewhere{0};
pid_t main_thread;
void on_signal(int) {
  ++signals;
  if (syscall(SYS_gettid) != main_thread) ++elsewhere;
}

/// A program's handlers run in its own threads, and interrupt no transfer.
void test_signals() {
  expect_good("signals", in_child({}, [] {
                MoveFile& file = *MoveFile::of_folder(folder);
                main_thread = static_cast<pid_t>(syscall(SYS_gettid));
                struct sigaction action{};
                action.sa_handler = on_signal;  // without SA_RESTART
                CHECK(sigaction(SIGALRM, &action, nullptr) == 0);
                const itimerval often{{0, 500}, {0, 500}};
                CHECK(setitimer(ITIMER_REAL, &often, nullptr) == 0);
                for (unsigned i = 0; signals < 200; ++i) play(file, i, 10);
                CHECK(elsewhere == 0);
              }));
}

}  // namespace

int main() {
  std::string pattern = (std::filesystem::temp_directory_path() / "facula-move-XXXXXX").string();
  CHECK(mkdtemp(pattern.data()));
  folder = pattern;
  test_end_of_process();
  test_full_disk();
  test_signals();
  MoveFile& file = *MoveFile::of_folder(folder);
  MoveFile& cached = *MoveFile::of_folder(folder, false);
  CHECK(&file != &cached && !cached.is_direct());
  test_folders();
  for (MoveFile* each : {&file, &cached}) {
    const bool few = each == &cached;  // which waits for the disk more often
    test_random_moves(*each, few ? 30 : 70);
    test_places_are_used_again(*each);
    test_given_up(*each);
#if !defined(__SANITIZE_THREAD__)
    test_fork(*each, few ? 3 : 8);
#endif
  }
  CHECK(std::filesystem::is_empty(folder));
  std::printf("moved with %s: %.0f MB/s written, %.0f MB/s read; cached: %.0f and %.0f\n",
              file.is_direct() ? "direct I/O" : "cached I/O", file.write_rate() / 1e6, file.read_rate() / 1e6,
              cached.write_rate() / 1e6, cached.read_rate() / 1e6);
  CHECK(rmdir(folder.c_str()) == 0);
}
