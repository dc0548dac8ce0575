#include "cuda/expandable.h"

#include "cuda/device.h"

namespace facula::cuda {
namespace {

/// Whether memory of the device can go to other processes.
bool exports_files(int device) {
  int can = 0;
  FACULA_CUDA_CALL(cuDeviceGetAttribute, &can, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device);
  return can;
}

CUmemAllocationProp memory_of(int device) {
  CUmemAllocationProp properties{};
  if (exports_files(device)) properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return properties;
}

size_t whole(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

/// Segments are multiples of 2 MiB, which is what devices need; a larger need of a device wins.
size_t granule_of(int device, size_t wanted) {
  const CUmemAllocationProp properties = memory_of(device);
  size_t least = 1;
  FACULA_CUDA_CALL(cuMemGetAllocationGranularity, &least, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  return whole(wanted, least);
}

}  // namespace

ExpandableRange::ExpandableRange(int device, size_t bytes, size_t granule)
    : device_(device), bytes_(whole(bytes, granule_of(device, granule))), granule_(granule_of(device, granule)) {
  FACULA_CUDA_CALL(cuMemAddressReserve, &base_, bytes_, size_t{0}, CUdeviceptr{0}, 0ull);
}

ExpandableRange::~ExpandableRange() { driver().cuMemAddressFree(base_, bytes_); }

// The mapping keeps the memory, so that its handle need not be.
bool ExpandableRange::map_one(CUdeviceptr at) {
  const CUmemAllocationProp properties = memory_of(device_);
  CUmemGenericAllocationHandle memory = 0;
  const CUresult result = driver().cuMemCreate(&memory, granule_, &properties, 0);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return false;
  check(result, "cuMemCreate");
  const CUresult mapped = driver().cuMemMap(at, granule_, 0, memory, 0);
  FACULA_CUDA_CALL(cuMemRelease, memory);
  check(mapped, "cuMemMap");
  return true;
}

int ExpandableRange::export_granule(CUdeviceptr at) const {
  FACULA_CHECK(exports_files(device_), ErrorKind::NotImplemented,
               "multiprocessing: a device whose memory can be exported as files, or FACULA_CUDA_ALLOC_CONF with "
               "expandable_segments:False, got a tensor in an expandable segment of cuda:",
               device_);
  CUmemGenericAllocationHandle memory = 0;
  FACULA_CUDA_CALL(cuMemRetainAllocationHandle, &memory, reinterpret_cast<void*>(at));
  int file = -1;
  const CUresult result =
      driver().cuMemExportToShareableHandle(&file, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
  FACULA_CUDA_CALL(cuMemRelease, memory);
  check(result, "cuMemExportToShareableHandle (of a tensor in an expandable segment)");
  return file;
}

bool ExpandableRange::map(CUdeviceptr at, size_t bytes) {
  for (size_t done = 0; done < bytes; done += granule_) {
    if (map_one(at + done)) continue;
    if (done) unmap(at, done);
    return false;
  }
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device_}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  FACULA_CUDA_CALL(cuMemSetAccess, at, bytes, &access, size_t{1});
  return true;
}

void ExpandableRange::unmap(CUdeviceptr at, size_t bytes) {
  for (size_t done = 0; done < bytes; done += granule_) FACULA_CUDA_CALL(cuMemUnmap, at + done, granule_);
}

ImportedGranules::ImportedGranules(int device, const std::vector<int>& files, size_t granule)
    : device_(device), granule_(granule), bytes_(files.size() * granule) {
  FACULA_CUDA_CALL(cuMemAddressReserve, &base_, bytes_, size_t{0}, CUdeviceptr{0}, 0ull);
  try {
    for (const int file : files) map(file);
    const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, device_}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    FACULA_CUDA_CALL(cuMemSetAccess, base_, bytes_, &access, size_t{1});
  } catch (...) {
    release();
    throw;
  }
}

ImportedGranules::~ImportedGranules() { release(); }

void ImportedGranules::map(int file) {
  CUmemGenericAllocationHandle memory = 0;
  FACULA_CUDA_CALL(cuMemImportFromShareableHandle, &memory, reinterpret_cast<void*>(static_cast<intptr_t>(file)),
                   CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  const CUresult result = driver().cuMemMap(base_ + mapped_, granule_, 0, memory, 0);
  FACULA_CUDA_CALL(cuMemRelease, memory);
  check(result, "cuMemMap");
  mapped_ += granule_;
}

// Called where tensors die: the next call of the driver gives an error again.
void ImportedGranules::release() {
  for (size_t done = 0; done < mapped_; done += granule_) driver().cuMemUnmap(base_ + done, granule_);
  driver().cuMemAddressFree(base_, bytes_);
}

}  // namespace facula::cuda
