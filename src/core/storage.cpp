#include "core/storage.h"

#include <algorithm>
#include <cstring>

#include "core/backend.h"
#include "core/budget_hooks.h"
#include "core/error.h"
#include "core/kernel.h"
#include "core/may_wait.h"
#include "core/os_memory.h"
#include "core/recipe.h"
#include "core/storage_bytes.h"
#include "core/storage_owner.h"
#include "core/storage_room.h"

namespace facula {

void release_allocated(Storage* s) {
  if (s->data) backend_of(s->device.type).allocator.release(s->data, s->nbytes, s->device);
}

void release_in_cell(Storage* s) {
  budget_hooks.storage_ends(s);
  release_allocated(s);
}

void leave_cell(Storage* s) {
  if (is_in_cell(s)) budget_hooks.storage_leaves(s);
}

namespace {

void release_nothing(Storage*) {}

// Of storages that shrank in place: `context` says how many bytes there are.
void release_room(Storage* s) {
  if (s->data == reinterpret_cast<char*>(s) + kStorageHeader) return;  // in the block of the header
  backend_of(s->device.type).allocator.release(s->data, reinterpret_cast<size_t>(s->context), s->device);
}

void end_identity(Storage* s) {
  const uint32_t identity = s->identity.exchange(0);
  if (identity) on_identity_end(identity);
}

// A tensor lies on a device that is there, also a tensor of no bytes.
char* allocate(size_t nbytes, Device device) {
  if (!has_backend(device.type)) report_no_backend(device, "empty");
  const Allocator& allocator = backend_of(device.type).allocator;
  if (!nbytes) return nullptr;
  return static_cast<char*>(allocator.allocate(nbytes, device, current_stream(device)));
}

// The bytes of a storage as a tensor, for kernels.
Tensor as_bytes(Storage* s, size_t count) {
  return tensor_on_storage(s, DType::UInt8, 0, {static_cast<int64_t>(count)}, {1}, "resize_");
}

// Bytes move by a kernel: only the device can read its memory.
void move_bytes(Storage* s, char* fresh, size_t count) {
  if (s->device.is_cpu()) {
    std::memcpy(fresh, s->data, count);
    return;
  }
  Storage* target = borrow_storage(fresh, count, s->device, release_nothing, nullptr);
  copy_elements(as_bytes(target, count), as_bytes(s, count));
  release(target);
}

}  // namespace

bool can_be_read_late(const Storage* s) {
  const auto release = __atomic_load_n(&s->release_data, __ATOMIC_RELAXED);  // another thread may just give it bytes
  const bool ours = !release || release == release_allocated || release == release_room || release == release_in_cell;
  const bool waits = s->is_deferred() || (s->asks.load(std::memory_order_relaxed) & kMadeAgain);
  return (ours || waits) && s->resizable && (s->device.is_cpu() || s->device.is_cuda()) && s->exposures.load() == 0;
}

Storage* make_large_storage(size_t nbytes, Device device) {
  char* data = nullptr;
  device = concrete(device);
  if (!device.is_meta()) data = allocate(nbytes, device);
  auto* s = static_cast<Storage*>(small_allocate(kStorageHeader));
  init_storage(s, nbytes, device);
  s->header_bytes = kStorageHeader;
  s->data = data;
  s->release_data = device.is_meta() ? release_nothing : release_allocated;
  note_storage_change(s, static_cast<int64_t>(nbytes));
  return s;
}

char* take_bytes(Storage* s) {
  leave_cell(s);
  end_identity(s);
  if (s->release_data == release_allocated) return std::exchange(s->data, nullptr);
  char* fresh = allocate(s->nbytes, s->device);
  std::memcpy(fresh, s->data, s->nbytes);
  return fresh;
}

void expose(Storage* s) {
  s->exposures.fetch_add(1);
  materialize_storage(s);  // nothing reads it late from here on
  end_identity(s);
}

void conceal(Storage* s) {
  end_identity(s);  // one that was given while expose() ran
  s->exposures.fetch_sub(1);
}

void expose_address(Storage* s) {
  if (s->address_known) return;
  s->address_known = true;
  expose(s);
}

uint32_t identity_of(Storage* s) {
  static std::atomic<uint32_t> last{0};
  const bool ours = s->resizable && s->release_data && s->device.is_cpu();
  if (!ours || !on_identity_end || s->exposures.load() != 0) return 0;
  uint32_t identity = s->identity.load();
  if (identity) return identity;
  uint32_t fresh = 0;
  while (fresh == 0) fresh = last.fetch_add(1) + 1;
  return s->identity.compare_exchange_strong(identity, fresh) ? fresh : identity;
}

std::atomic<int64_t> storages_with_objects{0};
bool (*release_storage_object)(Storage* storage) = nullptr;

void watch_end(Storage* s) {
  if (s->release_data) return;  // large: destroy_storage() is called anyway
  s->header_bytes = static_cast<uint32_t>(kStorageHeader + s->nbytes);
  s->context = reinterpret_cast<void*>(s->nbytes);
  s->release_data = release_room;
}

void destroy_storage(Storage* s) {
  if (storages_with_objects.load() > 0 && !release_storage_object(s)) return;
  end_identity(s);
  if (!s->is_deferred()) note_storage_change(s, -static_cast<int64_t>(s->nbytes));
  s->release_data(s);
  small_release(s, s->header_bytes);
}

Storage* borrow_storage(void* data, size_t nbytes, Device device, void (*release)(Storage*), void* context) {
  auto* s = static_cast<Storage*>(small_allocate(kStorageHeader));
  init_storage(s, nbytes, concrete(device));
  s->header_bytes = kStorageHeader;
  s->data = static_cast<char*>(data);
  s->release_data = release;
  s->context = context;
  s->resizable = false;
  return s;
}

void replace_storage_data(Storage* s, void* data, void (*release)(Storage*), void* context) {
  materialize_storage(s);
  end_identity(s);
  if (s->release_data == nullptr) {
    s->header_bytes = static_cast<uint32_t>(kStorageHeader + s->nbytes);
  } else {
    s->release_data(s);
  }
  s->data = static_cast<char*>(data);
  s->release_data = release;
  s->context = context;
}

void resize_storage(Storage* s, size_t nbytes) {
  if (nbytes == s->nbytes) return;
  FACULA_CHECK(s->resizable, ErrorKind::Runtime,
               "resize_: the storage belongs to another library and cannot grow from ", s->nbytes, " to ", nbytes,
               " bytes");
  materialize_storage(s);
  if (s->device.is_meta()) {
    s->nbytes = nbytes;
    return;
  }
  char* fresh = allocate(nbytes, s->device);
  if (fresh && s->data) move_bytes(s, fresh, std::min(nbytes, s->nbytes));
  replace_storage_data(s, fresh, release_allocated, nullptr);
  note_storage_change(s, static_cast<int64_t>(nbytes) - static_cast<int64_t>(s->nbytes));
  s->nbytes = nbytes;
}

bool resize_storage_in_place(Storage* s, size_t nbytes) {
  materialize_storage(s);
  const bool small = s->release_data == nullptr, shrank = s->release_data == release_room;
  const bool ours = small || shrank || s->release_data == release_allocated;
  const size_t room = shrank ? reinterpret_cast<size_t>(s->context) : s->nbytes;
  if (!ours || !s->resizable || !s->data || nbytes > room) return false;
  end_identity(s);
  if (small) s->header_bytes = static_cast<uint32_t>(kStorageHeader + room);
  s->release_data = release_room;
  s->context = reinterpret_cast<void*>(room);
  if (nbytes < s->nbytes && s->device.is_cpu()) os::discard(s->data + nbytes, s->nbytes - nbytes);
  note_storage_change(s, static_cast<int64_t>(nbytes) - static_cast<int64_t>(s->nbytes));
  s->nbytes = nbytes;
  return true;
}

}  // namespace facula
