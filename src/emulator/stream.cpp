#include "emulator/stream.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

namespace facula::emulator {
namespace {

std::string_view variable(const char* name, std::string_view otherwise) {
  const char* text = std::getenv(name);
  return text && *text ? text : otherwise;
}

Settings read_settings() {
  const std::string_view mode = variable("FACULA_EMULATED_MODE", "async"),
                         order = variable("FACULA_EMULATED_ORDER", "forward");
  Settings s{};
  s.mode = mode == "eager" ? Mode::Eager : mode == "lazy" ? Mode::Lazy : Mode::Async;
  if (variable("FACULA_CUDA", "") == "null") s.mode = Mode::Null;
  s.order = order == "reverse" ? Order::Reverse : order == "random" ? Order::Random : Order::Forward;
  s.jitter_us = static_cast<unsigned>(std::atoi(variable("FACULA_EMULATED_JITTER", "0").data()));
  s.guard = variable("FACULA_EMULATED_GUARD", "0") != "0" && s.mode != Mode::Null;
  s.fences = variable("FACULA_EMULATED_FENCES", "0") != "0" && s.mode != Mode::Null;
  if (s.fences && s.mode == Mode::Async) s.mode = Mode::Eager;  // nobody else may look while a kernel runs
  s.devices = std::max(1, std::atoi(variable("FACULA_EMULATED_DEVICES", "1").data()));
  s.memory = static_cast<size_t>(std::max(1, std::atoi(variable("FACULA_EMULATED_MEMORY_MIB", "8192").data()))) << 20;
  const double capability = std::atof(variable("FACULA_EMULATED_CAPABILITY", "9.0").data());
  s.capability = static_cast<int>(capability * 10 + 0.5);
  return s;
}

struct Streams {
  std::mutex mutex;
  std::vector<StreamPointer> defaults;
  Handles<CUstream, Stream> made;
};
Streams& streams() {
  static Streams& all = *new Streams;  // never dies: their threads may outlive main
  return all;
}

std::minstd_rand& chance() {
  static thread_local std::minstd_rand random(7);
  return random;
}
bool comes_first() { return settings().order == Order::Reverse || chance()() % 2; }

/// The oldest first, or as the order of threads says: streams that do not wait for each other are done in any order.
std::vector<StreamPointer> all_streams() {
  std::vector<StreamPointer> each;
  std::lock_guard<std::mutex> guard(streams().mutex);
  each = streams().defaults;
  streams().made.each([&](const StreamPointer& stream) { each.push_back(stream); });
  if (settings().order == Order::Reverse) std::reverse(each.begin(), each.end());
  if (settings().order == Order::Random) std::shuffle(each.begin(), each.end(), chance());
  return each;
}

}  // namespace

const Settings& settings() {
  static const Settings s = read_settings();
  return s;
}

Stream::Stream(int device, bool) : device_(device), runner_(settings().order, settings().fences) {
  if (settings().mode == Mode::Async) thread_ = std::thread([this] { loop(); });
}

Stream::~Stream() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Stream::loop() {
  uint64_t random = 7;
  for (;;) {
    Work work;
    {
      std::unique_lock<std::mutex> lock(mutex_);
      changed_.wait(lock, [&] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
    }
    if (const unsigned most = settings().jitter_us) {
      random = random * 6364136223846793005 + 1442695040888963407;
      std::this_thread::sleep_for(std::chrono::microseconds((random >> 33) % most));
    }
    work(runner_);
    work = nullptr;
    std::lock_guard<std::mutex> guard(mutex_);
    busy_ = false;
    if (queue_.empty()) changed_.notify_all();
  }
}

void Stream::push(Work work, const What& what) {
  if (captured(*this, work, what)) return;
  if (const uint32_t call = note_call(what)) work = recorded_work(std::move(work), what, *this, call, 0);
  if (settings().mode == Mode::Null) return work(runner_);
  if (settings().mode == Mode::Eager) {
    std::lock_guard<std::mutex> guard(running_);
    Opened opened;
    return work(runner_);
  }
  {
    std::lock_guard<std::mutex> guard(mutex_);
    queue_.push_back(std::move(work));
  }
  changed_.notify_all();
}

// Work that waits for another stream does that stream's work from here. Two threads that do work of two streams, each
// of which waits for the other's, would hold what the other needs: so only the outermost one waits for its turn, and
// the others look again.
bool Stream::step() {
  static thread_local int depth = 0;
  std::unique_lock<std::mutex> turn(running_, std::defer_lock);
  if (depth == 0) {
    turn.lock();
  } else if (!turn.try_lock()) {
    std::this_thread::yield();
    return true;
  }
  Work work;
  {
    std::lock_guard<std::mutex> guard(mutex_);
    if (queue_.empty()) return false;
    work = std::move(queue_.front());
    queue_.pop_front();
  }
  Opened opened;
  ++depth;
  work(runner_);
  --depth;
  return true;
}

void Stream::synchronize() {
  if (settings().mode == Mode::Lazy) {
    // others may be faster than this one, where nothing makes them wait
    if (settings().order != Order::Forward)
      for (const StreamPointer& other : all_streams())
        if (other.get() != this && comes_first()) other->drain();
    drain();
  } else if (settings().mode == Mode::Async) {
    std::unique_lock<std::mutex> lock(mutex_);
    changed_.wait(lock, [&] { return queue_.empty() && !busy_; });
  }
}

void Stream::drain() {
  while (step()) {
  }
}

bool Stream::is_idle() {
  std::lock_guard<std::mutex> guard(mutex_);
  return queue_.empty() && !busy_;
}

StreamPointer stream_of(CUstream handle, int device) {
  constexpr uintptr_t kLegacy = 1, kPerThread = 2;
  Streams& all = streams();
  const auto number = reinterpret_cast<uintptr_t>(handle);
  if (number && number != kLegacy && number != kPerThread) return all.made.find(handle);
  std::lock_guard<std::mutex> guard(all.mutex);
  while (all.defaults.size() <= static_cast<size_t>(device))
    all.defaults.push_back(std::make_shared<Stream>(static_cast<int>(all.defaults.size()), true));
  return all.defaults[static_cast<size_t>(device)];
}

CUresult make_stream(CUstream* handle, int device) {
  *handle = streams().made.add(std::make_shared<Stream>(device, false));
  return CUDA_SUCCESS;
}

CUresult destroy_stream(CUstream handle) {
  const StreamPointer stream = streams().made.remove(handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  stream->synchronize();
  return CUDA_SUCCESS;
}

void synchronize_all() {
  for (const StreamPointer& s : all_streams())
    if (settings().mode == Mode::Lazy) s->drain();
    else s->synchronize();
}

}  // namespace facula::emulator
