#include "core/storage.h"

#include <algorithm>
#include <cstring>

#include "core/allocator.h"
#include "core/error.h"

namespace facula {
namespace {

void release_allocated(Storage* s) {
  if (s->data) allocators[static_cast<int>(s->device.type)].release(s->data, s->nbytes);
}

void release_nothing(Storage*) {}

}  // namespace

Storage* make_large_storage(size_t nbytes, Device device) {
  char* data = nullptr;
  if (!device.is_meta() && nbytes) {
    const Allocator& allocator = allocators[static_cast<int>(device.type)];
    FACULA_CHECK(allocator.allocate, ErrorKind::Assertion,
                 "empty: this facula was built without a backend for the device, got ", device);
    data = static_cast<char*>(allocator.allocate(nbytes));
  }
  auto* s = static_cast<Storage*>(small_allocate(kStorageHeader));
  init_storage(s, nbytes, device);
  s->header_bytes = kStorageHeader;
  s->data = data;
  s->release_data = device.is_meta() ? release_nothing : release_allocated;
  note_storage_change(s, static_cast<int64_t>(nbytes));
  return s;
}

void destroy_storage(Storage* s) {
  note_storage_change(s, -static_cast<int64_t>(s->nbytes));
  s->release_data(s);
  small_release(s, s->header_bytes);
}

Storage* borrow_storage(void* data, size_t nbytes, Device device, void (*release)(Storage*), void* context) {
  auto* s = static_cast<Storage*>(small_allocate(kStorageHeader));
  init_storage(s, nbytes, device);
  s->header_bytes = kStorageHeader;
  s->data = static_cast<char*>(data);
  s->release_data = release;
  s->context = context;
  s->resizable = false;
  return s;
}

void replace_storage_data(Storage* s, void* data, void (*release)(Storage*), void* context) {
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
  if (s->device.is_meta()) {
    s->nbytes = nbytes;
    return;
  }
  const Allocator& allocator = allocators[static_cast<int>(s->device.type)];
  char* fresh = nbytes ? static_cast<char*>(allocator.allocate(nbytes)) : nullptr;
  if (fresh && s->data) std::memcpy(fresh, s->data, std::min(nbytes, s->nbytes));
  replace_storage_data(s, fresh, release_allocated, nullptr);
  note_storage_change(s, static_cast<int64_t>(nbytes) - static_cast<int64_t>(s->nbytes));
  s->nbytes = nbytes;
}

}  // namespace facula
