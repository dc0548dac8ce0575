// Defines storages: bytes, the function that frees them, and the version counter that all views of them share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device.h"
#include "core/mode.h"
#include "core/ref.h"
#include "core/small_block.h"

namespace facula {

/// Where the bytes of a deferred storage seem to lie (core/recipe.h): no process maps memory there unless it asks for
/// that address, neither on x86-64 nor on arm64, and in the region of 2^55 bytes around it neither.
inline char* const kNowhere = reinterpret_cast<char*>(uintptr_t{1} << 55);
inline bool is_nowhere(const char* address) {
  return reinterpret_cast<uintptr_t>(address) - (uintptr_t{1} << 54) < (uintptr_t{1} << 55);
}

/// Why memory asks before it changes: see will_write().
enum Asks : uint8_t {
  kReadOnly = 1,  // borrowed from a buffer that must not be written
  kReadLate = 2,  // recipes have yet to read it
};

struct Storage {
  RefCount refs;
  std::atomic<uint32_t> version;  // +1 per in-place write; saved values remember it
  char* data;
  size_t nbytes;
  void (*release_data)(Storage*);  // null: the data lies behind this header in the same small block
  void* context;                   // whatever release_data needs
  Device device;
  std::atomic<uint16_t> writer;  // id of the op that wrote last, for error messages
  bool resizable;
  std::atomic<uint8_t> asks;  // reasons of Asks
  bool address_known;         // a program knows where the bytes lie: exposed for good
  uint32_t header_bytes;      // size of the small block this header is in; only set with release_data
  // Writes that `version` does not count: who may make them, and a number that stands for the bytes as long as nobody
  // could. See expose().
  std::atomic<uint32_t> exposures;
  std::atomic<uint32_t> identity;  // 0: none

  bool asks_first() const { return asks.load(std::memory_order_relaxed) != 0; }
  bool is_read_only() const { return asks.load(std::memory_order_relaxed) & kReadOnly; }
  bool is_deferred() const { return data == kNowhere; }
  uint32_t current_version() const { return version.load(std::memory_order_acquire); }
  uint16_t last_writer() const { return writer.load(std::memory_order_relaxed); }
  /// After a write: who reads the new version sees what was written. Threads may write to parts of a storage at once.
  void bump_version(uint16_t op) {
    version.fetch_add(1, std::memory_order_release);
    writer.store(op, std::memory_order_relaxed);
  }
};

constexpr size_t kStorageHeader = 64;
static_assert(sizeof(Storage) <= kStorageHeader);

/// Installed by observers: called when threads with kWatchMemory make storages or let them go.
extern void (*on_storage_change)(Storage* storage, int64_t bytes);
inline void note_storage_change(Storage* storage, int64_t bytes) {
  if (__builtin_expect((watching() & kWatchMemory) != 0, 0)) on_storage_change(storage, bytes);
}

Storage* make_large_storage(size_t nbytes, Device device);
void destroy_storage(Storage* storage);

inline void init_storage(Storage* s, size_t nbytes, Device device) {
  new (&s->refs) RefCount(1);
  s->version.store(0, std::memory_order_relaxed);
  s->nbytes = nbytes;
  s->release_data = nullptr;
  s->context = nullptr;
  s->device = device;
  s->writer.store(0, std::memory_order_relaxed);
  s->resizable = true;
  s->asks.store(0, std::memory_order_relaxed);
  s->address_known = false;
  s->exposures.store(0, std::memory_order_relaxed);
  s->identity.store(0, std::memory_order_relaxed);
}

/// Fresh uninitialized bytes; header and data share one block when small.
inline Storage* make_storage(size_t nbytes, Device device) {
  bool large = nbytes + kStorageHeader > kSmallBlock || device.type != DeviceType::CPU;
  if (__builtin_expect(large || (watching() & kWatchMemory), 0)) {
    return make_large_storage(nbytes, device);
  }
  auto* s = static_cast<Storage*>(small_allocate(kStorageHeader + nbytes));
  init_storage(s, nbytes, device);
  s->data = reinterpret_cast<char*>(s) + kStorageHeader;
  return s;
}

/// A storage over bytes owned by somebody else; `release` is called with it when the last reference goes.
Storage* borrow_storage(void* data, size_t nbytes, Device device, void (*release)(Storage*), void* context);

/// Who can write to the bytes without counting it in `version` (`.data`, NumPy, DLPack, buffers) exposes the storage
/// for as long as it can. What is cached of the bytes (cpu/packed_weights.h) is neither made nor used meanwhile, and
/// what was cached before is forgotten.
void expose(Storage* storage);
void conceal(Storage* storage);
/// The same for good: an address has no end.
void expose_address(Storage* storage);
/// A number that no other storage has or had, and that ends when the bytes are exposed, moved or given back; 0 where
/// they are exposed or another library's.
uint32_t identity_of(Storage* storage);
/// Installed by who keeps something under an identity.
extern void (*on_identity_end)(uint32_t identity);

/// Makes `data` (of the same size) the storage's bytes and gives the old ones back. Tensors keep the address of their
/// first element: the caller moves them.
void replace_storage_data(Storage* storage, void* data, void (*release)(Storage*), void* context);

/// Grows or shrinks in place, keeping the common bytes; throws when the bytes are borrowed.
void resize_storage(Storage* storage, size_t nbytes);

inline void retain(Storage* s) { s->refs.increment(); }
inline void release(Storage* s) {
  if (!s->refs.decrement()) return;
  if (__builtin_expect(s->release_data == nullptr, 1)) {
    small_release(s, kStorageHeader + s->nbytes);
  } else {
    destroy_storage(s);
  }
}

/// Exposes a storage for as long as it lives, and keeps it.
class Exposure {
 public:
  explicit Exposure(Storage* storage) : storage_(storage) {
    retain(storage);
    expose(storage);
  }
  ~Exposure() {
    conceal(storage_);
    release(storage_);
  }
  Exposure(const Exposure&) = delete;

 private:
  Storage* storage_;
};

}  // namespace facula
