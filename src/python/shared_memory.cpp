#include "python/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "core/host.h"
#include "core/recipe.h"

namespace facula::python {
namespace {

struct Shared {
  int fd;
  size_t bytes;
};

void release_shared(Storage* s) {
  auto* shared = static_cast<Shared*>(s->context);
  munmap(s->data, shared->bytes);
  close(shared->fd);
  delete shared;
}

[[noreturn]] void fail(const char* op, const char* call, size_t bytes) {
  throw_error(ErrorKind::Runtime, op, ": ", call, " failed (", std::strerror(errno), ") for ", bytes, " bytes");
}

int make_memory(size_t bytes, const char* op) {
  int fd = memfd_create("facula", MFD_CLOEXEC);
  if (fd < 0) fail(op, "memfd_create", bytes);
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    close(fd);
    fail(op, "ftruncate", bytes);
  }
  return fd;
}

void* map_memory(int fd, size_t bytes, const char* op) {
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) {
    close(fd);
    fail(op, "mmap", bytes);
  }
  return data;
}

bool has_descriptor(const Storage* s) { return s->release_data == release_shared; }

}  // namespace

std::optional<std::vector<TensorImpl*>> all_holders(Storage* s, const Tensor& origin) {
  materialize_storage(s);  // recipes that read it hold it, too
  std::vector<TensorImpl*> impls;
  for (TensorImpl* impl : {origin.impl(), origin.defined() ? origin.impl()->base : nullptr}) {
    if (impl && impl->storage == s && (impls.empty() || impls[0] != impl)) impls.push_back(impl);
  }
  size_t known = impls.size() + host.storage_objects(s);
  return static_cast<size_t>(s->refs.load()) == known ? std::optional(impls) : std::nullopt;
}

bool all_fit(const std::vector<TensorImpl*>& impls, const Storage* s, size_t bytes) {
  return std::all_of(impls.begin(), impls.end(), [&](TensorImpl* impl) {
    const int64_t end = impl->data - s->data + byte_extent(Tensor::share(impl)).high;
    return impl->numel == 0 || end <= static_cast<int64_t>(bytes);
  });
}

void move_holders(const std::vector<TensorImpl*>& impls, const char* before, char* after) {
  for (TensorImpl* impl : impls) impl->data = after + (impl->data - before);
}

bool is_shared(const Storage* s) { return has_descriptor(s) || is_on_shared_buffer(s); }

bool share(Storage* s, const Tensor& origin, const char* op) {
  if (has_descriptor(s) || s->nbytes == 0) return true;
  FACULA_CHECK(s->device.is_cpu(), ErrorKind::Runtime, op, ": only memory of the CPU can be shared, got device ",
               s->device);
  auto impls = all_holders(s, origin);
  if (!impls) return false;
  FACULA_CHECK(all_fit(*impls, s, s->nbytes), ErrorKind::Runtime, op,
               ": the storage has shrunk, and a tensor on it needs more, got ", s->nbytes, " bytes");
  int fd = make_memory(s->nbytes, op);
  auto* data = static_cast<char*>(map_memory(fd, s->nbytes, op));
  std::memcpy(data, s->data, s->nbytes);
  char* before = s->data;
  replace_storage_data(s, data, release_shared, new Shared{fd, s->nbytes});
  s->resizable = false;
  move_holders(*impls, before, data);
  return true;
}

void share_or_throw(Storage* s, const Tensor& origin, const char* op) {
  FACULA_CHECK(share(s, origin, op), ErrorKind::Runtime, op,
               ": other tensors on the same memory cannot follow it into shared memory (share before making detached "
               "views, or clone), got ",
               s->nbytes, " bytes");
}

int shared_descriptor(const Storage* s) { return static_cast<Shared*>(s->context)->fd; }

int shared_copy(const Storage* s, const char* op) {
  const int fd = make_memory(s->nbytes, op);
  void* data = map_memory(fd, s->nbytes, op);
  std::memcpy(data, s->data, s->nbytes);
  munmap(data, s->nbytes);
  return fd;
}

Storage* storage_on_shared(int descriptor, int64_t bytes, const char* op) {
  FACULA_CHECK(bytes > 0, ErrorKind::Value, op, ": nbytes must be positive, got ", bytes);
  const size_t size = static_cast<size_t>(bytes);
  const int fd = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) fail(op, "dup", size);
  if (lseek(fd, 0, SEEK_END) < bytes) {
    close(fd);
    throw_error(ErrorKind::Value, op, ": the shared memory is smaller than nbytes, got ", bytes);
  }
  void* data = map_memory(fd, size, op);
  return borrow_storage(data, size, kCPU, release_shared, new Shared{fd, size});
}

}  // namespace facula::python
