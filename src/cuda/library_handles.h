// Manages handles of libraries, each of which one thread at a time uses, and which work on one stream. A thread has one
// for each of the streams that it uses, so that nothing is locked and no stream is set again. Those of threads that
// have ended are used by others.
#pragma once

#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "cuda/stream.h"

namespace facula::cuda {

/// `Library` has Handle, `static Handle make()` and `static void set_stream(Handle&, CUstream)`.
template <class Library>
class LibraryHandles {
 public:
  using Handle = typename Library::Handle;

  /// This thread's, with the stream. It must not be stored: another call may give it another stream.
  static Handle of(Stream stream) {
    static thread_local constinit LibraryHandles* mine = nullptr;
    struct Owner {
      ~Owner() { delete std::exchange(mine, nullptr); }
    };
    if (__builtin_expect(!mine, 0)) {
      static thread_local Owner owner;
      static_cast<void>(owner);
      mine = new LibraryHandles;
    }
    return mine->for_stream(stream);
  }

  ~LibraryHandles() {
    std::lock_guard lock(unused().mutex);
    for (const Own& own : own_) unused().by_device[own.stream.device.index].push_back(own.handle);
  }
  LibraryHandles(const LibraryHandles&) = delete;

 private:
  LibraryHandles() = default;

  /// What a handle has on the device is not little: of many streams, those that were used first share.
  static constexpr size_t kMostOfDevice = 4;

  struct Own {
    Stream stream;
    Handle handle;
  };
  struct Unused {
    std::mutex mutex;
    std::map<int, std::vector<Handle>> by_device;
  };
  static Unused& unused() {
    static Unused& all = *new Unused;
    return all;
  }

  Handle for_stream(Stream stream) {
    size_t of_device = 0;
    Own* oldest = nullptr;
    for (Own& own : own_) {
      if (own.stream == stream) return own.handle;
      if (own.stream.device != stream.device) continue;
      if (!oldest) oldest = &own;
      ++of_device;
    }
    if (of_device == kMostOfDevice) {
      Own again = *oldest;
      Library::set_stream(again.handle, handle(stream));
      own_.erase(own_.begin() + (oldest - own_.data()));
      again.stream = stream;
      own_.push_back(again);
    } else {
      Own fresh{stream, unused_or_new(stream.device.index)};
      Library::set_stream(fresh.handle, handle(stream));
      own_.push_back(fresh);
    }
    return own_.back().handle;
  }

  static Handle unused_or_new(int device) {
    {
      std::lock_guard lock(unused().mutex);
      auto& left = unused().by_device[device];
      if (!left.empty()) {
        const Handle found = left.back();
        left.pop_back();
        return found;
      }
    }
    const DeviceGuard guard(device);
    const RelaxedCapture relaxed;
    return Library::make();
  }

  std::vector<Own> own_;
};

}  // namespace facula::cuda
