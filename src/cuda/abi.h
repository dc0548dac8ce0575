// Declares the part of NVIDIA's driver and run-time compiler that Facula calls, from their documentation, so that a
// build needs no toolkit. The lists of functions are read by the loader (driver.cpp, compiler.cpp) and by the emulated
// device, whose functions must therefore have the same types.
#pragma once

#include <cstddef>
#include <cstdint>

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUgraph = struct CUgraph_st*;
using CUgraphExec = struct CUgraphExec_st*;
using CUgraphNode = struct CUgraphNode_st*;
using CUmemGenericAllocationHandle = unsigned long long;
using CUhostFn = void (*)(void* data);
using nvrtcProgram = struct _nvrtcProgram*;
struct CUuuid {
  char bytes[16];
};

enum CUresult : int {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_INVALID_PTX = 218,
  CUDA_ERROR_UNSUPPORTED_PTX_VERSION = 222,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
  CUDA_ERROR_STREAM_CAPTURE_MERGE = 902,
  CUDA_ERROR_STREAM_CAPTURE_UNMATCHED = 903,
  CUDA_ERROR_STREAM_CAPTURE_UNJOINED = 904,
  CUDA_ERROR_STREAM_CAPTURE_ISOLATION = 905,
  CUDA_ERROR_STREAM_CAPTURE_IMPLICIT = 906,
  CUDA_ERROR_CAPTURED_EVENT = 907,
  CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
};

enum CUdevice_attribute : int {
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK = 1,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK = 8,
  CU_DEVICE_ATTRIBUTE_WARP_SIZE = 10,
  CU_DEVICE_ATTRIBUTE_CLOCK_RATE = 13,
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_INTEGRATED = 18,
  CU_DEVICE_ATTRIBUTE_PCI_BUS_ID = 33,
  CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID = 34,
  CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE = 36,
  CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37,
  CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE = 38,
  CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR = 39,
  CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID = 50,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81,
  CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR = 82,
  CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD = 84,
  CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS = 88,
  CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN = 97,
  CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED = 103,
};

enum CUjit_option : int { CU_JIT_ERROR_LOG_BUFFER = 5, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES = 6 };
enum CUpointer_attribute : int { CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9 };
enum CUfunction_attribute : int { CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8 };
enum : unsigned { CU_STREAM_DEFAULT = 0, CU_STREAM_NON_BLOCKING = 1 };
enum : unsigned {
  CU_EVENT_DEFAULT = 0,
  CU_EVENT_BLOCKING_SYNC = 1,
  CU_EVENT_DISABLE_TIMING = 2,
  CU_EVENT_INTERPROCESS = 4
};
enum : unsigned { CU_MEMHOSTALLOC_PORTABLE = 1 };

// ---- graphs
enum CUstreamCaptureMode : int {
  CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2
};
enum CUstreamCaptureStatus : int {
  CU_STREAM_CAPTURE_STATUS_NONE = 0,
  CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
  CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2
};
enum : unsigned { CU_GRAPH_DEBUG_DOT_FLAGS_VERBOSE = 1 };

// ---- virtual memory
enum CUmemLocationType : int { CU_MEM_LOCATION_TYPE_DEVICE = 1 };
struct CUmemLocation {
  CUmemLocationType type;
  int id;
};
enum CUmemAllocationType : int { CU_MEM_ALLOCATION_TYPE_PINNED = 1 };
enum CUmemAllocationHandleType : int { CU_MEM_HANDLE_TYPE_NONE = 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR = 1 };
struct CUmemAllocationProp {
  CUmemAllocationType type;
  CUmemAllocationHandleType requestedHandleTypes;
  CUmemLocation location;
  void* win32HandleMetaData;
  struct {
    unsigned char compressionType, gpuDirectRDMACapable;
    unsigned short usage;
    unsigned char reserved[4];
  } allocFlags;
};
enum CUmemAccess_flags : int { CU_MEM_ACCESS_FLAGS_PROT_READWRITE = 3 };
struct CUmemAccessDesc {
  CUmemLocation location;
  CUmemAccess_flags flags;
};
enum CUmemAllocationGranularity_flags : int { CU_MEM_ALLOC_GRANULARITY_MINIMUM = 0 };

// ---- other processes
struct CUipcMemHandle {
  char reserved[64];
};
struct CUipcEventHandle {
  char reserved[64];
};
enum : unsigned { CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS = 1 };

#define FACULA_VIRTUAL_MEMORY_FUNCTIONS(X)                                                                             \
  X(cuMemAddressReserve, CUdeviceptr* range, size_t bytes, size_t alignment, CUdeviceptr at, unsigned long long flags) \
  X(cuMemAddressFree, CUdeviceptr range, size_t bytes)                                                                 \
  X(cuMemCreate, CUmemGenericAllocationHandle* memory, size_t bytes, const CUmemAllocationProp* properties,            \
    unsigned long long flags)                                                                                          \
  X(cuMemRelease, CUmemGenericAllocationHandle memory)                                                                 \
  X(cuMemRetainAllocationHandle, CUmemGenericAllocationHandle* memory, void* at)                                       \
  X(cuMemMap, CUdeviceptr at, size_t bytes, size_t offset, CUmemGenericAllocationHandle memory,                        \
    unsigned long long flags)                                                                                          \
  X(cuMemUnmap, CUdeviceptr at, size_t bytes)                                                                          \
  X(cuMemSetAccess, CUdeviceptr at, size_t bytes, const CUmemAccessDesc* who, size_t count)                            \
  X(cuMemExportToShareableHandle, void* shared, CUmemGenericAllocationHandle memory, CUmemAllocationHandleType type,   \
    unsigned long long flags)                                                                                          \
  X(cuMemImportFromShareableHandle, CUmemGenericAllocationHandle* memory, void* shared,                                \
    CUmemAllocationHandleType type)                                                                                    \
  X(cuMemGetAllocationGranularity, size_t* bytes, const CUmemAllocationProp* properties,                               \
    CUmemAllocationGranularity_flags which)

#define FACULA_GRAPH_FUNCTIONS(X)                                                                                      \
  X(cuStreamBeginCapture_v2, CUstream stream, CUstreamCaptureMode mode)                                                \
  X(cuStreamEndCapture, CUstream stream, CUgraph* graph)                                                               \
  X(cuStreamIsCapturing, CUstream stream, CUstreamCaptureStatus* status)                                               \
  X(cuStreamGetCaptureInfo_v2, CUstream stream, CUstreamCaptureStatus* status, unsigned long long* id, CUgraph* graph, \
    const CUgraphNode** last, size_t* last_count)                                                                      \
  X(cuThreadExchangeStreamCaptureMode, CUstreamCaptureMode* mode)                                                      \
  X(cuGraphInstantiateWithFlags, CUgraphExec* made, CUgraph graph, unsigned long long flags)                           \
  X(cuGraphLaunch, CUgraphExec graph, CUstream stream)                                                                 \
  X(cuGraphGetNodes, CUgraph graph, CUgraphNode* nodes, size_t* count)                                                 \
  X(cuGraphDebugDotPrint, CUgraph graph, const char* path, unsigned flags)                                             \
  X(cuGraphExecDestroy, CUgraphExec graph)                                                                             \
  X(cuGraphDestroy, CUgraph graph)

#define FACULA_PROCESS_FUNCTIONS(X)                                                    \
  X(cuIpcGetMemHandle, CUipcMemHandle* handle, CUdeviceptr memory)                     \
  X(cuIpcOpenMemHandle_v2, CUdeviceptr* memory, CUipcMemHandle handle, unsigned flags) \
  X(cuIpcCloseMemHandle, CUdeviceptr memory)                                           \
  X(cuIpcGetEventHandle, CUipcEventHandle* handle, CUevent event)                      \
  X(cuIpcOpenEventHandle, CUevent* event, CUipcEventHandle handle)

// X(name, parameters...): a function of libcuda.so.1
#define FACULA_DRIVER_FUNCTIONS(X)                                                                                   \
  X(cuInit, unsigned flags)                                                                                          \
  X(cuDriverGetVersion, int* version)                                                                                \
  X(cuGetErrorName, CUresult error, const char** text)                                                               \
  X(cuGetErrorString, CUresult error, const char** text)                                                             \
  X(cuDeviceGetCount, int* count)                                                                                    \
  X(cuDeviceGet, CUdevice* device, int ordinal)                                                                      \
  X(cuDeviceGetName, char* name, int length, CUdevice device)                                                        \
  X(cuDeviceGetUuid, CUuuid* uuid, CUdevice device)                                                                  \
  X(cuDeviceTotalMem_v2, size_t* bytes, CUdevice device)                                                             \
  X(cuDeviceGetAttribute, int* value, CUdevice_attribute attribute, CUdevice device)                                 \
  X(cuDeviceCanAccessPeer, int* can, CUdevice device, CUdevice peer)                                                 \
  X(cuDevicePrimaryCtxRetain, CUcontext* context, CUdevice device)                                                   \
  X(cuCtxSetCurrent, CUcontext context)                                                                              \
  X(cuCtxGetCurrent, CUcontext* context)                                                                             \
  X(cuCtxSynchronize)                                                                                                \
  X(cuCtxGetStreamPriorityRange, int* least, int* greatest)                                                          \
  X(cuMemAlloc_v2, CUdeviceptr* memory, size_t bytes)                                                                \
  X(cuMemFree_v2, CUdeviceptr memory)                                                                                \
  X(cuMemGetInfo_v2, size_t* free, size_t* total)                                                                    \
  X(cuPointerGetAttribute, void* value, CUpointer_attribute attribute, CUdeviceptr memory)                           \
  X(cuMemHostAlloc, void** memory, size_t bytes, unsigned flags)                                                     \
  X(cuMemFreeHost, void* memory)                                                                                     \
  X(cuMemcpyHtoDAsync_v2, CUdeviceptr to, const void* from, size_t bytes, CUstream stream)                           \
  X(cuMemcpyDtoHAsync_v2, void* to, CUdeviceptr from, size_t bytes, CUstream stream)                                 \
  X(cuMemcpyDtoDAsync_v2, CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)                           \
  X(cuMemcpyPeerAsync, CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context, size_t bytes, \
    CUstream stream)                                                                                                 \
  X(cuMemsetD8Async, CUdeviceptr memory, unsigned char value, size_t bytes, CUstream stream)                         \
  X(cuStreamCreateWithPriority, CUstream* stream, unsigned flags, int priority)                                      \
  X(cuStreamDestroy_v2, CUstream stream)                                                                             \
  X(cuStreamQuery, CUstream stream)                                                                                  \
  X(cuStreamSynchronize, CUstream stream)                                                                            \
  X(cuStreamWaitEvent, CUstream stream, CUevent event, unsigned flags)                                               \
  X(cuEventCreate, CUevent* event, unsigned flags)                                                                   \
  X(cuEventDestroy_v2, CUevent event)                                                                                \
  X(cuEventRecord, CUevent event, CUstream stream)                                                                   \
  X(cuEventQuery, CUevent event)                                                                                     \
  X(cuEventSynchronize, CUevent event)                                                                               \
  X(cuEventElapsedTime, float* milliseconds, CUevent from, CUevent to)                                               \
  X(cuProfilerStart)                                                                                                 \
  X(cuProfilerStop)                                                                                                  \
  X(cuLaunchHostFunc, CUstream stream, CUhostFn function, void* data)                                                \
  X(cuModuleLoadData, CUmodule* module, const void* image)                                                           \
  X(cuModuleLoadDataEx, CUmodule* module, const void* image, unsigned options, CUjit_option* names, void** values)   \
  X(cuModuleUnload, CUmodule module)                                                                                 \
  X(cuModuleGetFunction, CUfunction* function, CUmodule module, const char* name)                                    \
  X(cuFuncSetAttribute, CUfunction function, CUfunction_attribute attribute, int value)                              \
  X(cuLaunchKernel, CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,        \
    unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream, void** arguments, void** extra)      \
  FACULA_VIRTUAL_MEMORY_FUNCTIONS(X)                                                                                 \
  FACULA_GRAPH_FUNCTIONS(X)                                                                                          \
  FACULA_PROCESS_FUNCTIONS(X)

enum nvrtcResult : int {
  NVRTC_SUCCESS = 0,
  NVRTC_ERROR_INVALID_OPTION = 5,
  NVRTC_ERROR_COMPILATION = 6,
  NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID = 10
};

// X(name, parameters...): a function of libnvrtc
#define FACULA_COMPILER_FUNCTIONS(X)                                                              \
  X(nvrtcVersion, int* major, int* minor)                                                         \
  X(nvrtcCreateProgram, nvrtcProgram* program, const char* source, const char* name, int headers, \
    const char* const* texts, const char* const* names)                                           \
  X(nvrtcDestroyProgram, nvrtcProgram* program)                                                   \
  X(nvrtcAddNameExpression, nvrtcProgram program, const char* expression)                         \
  X(nvrtcCompileProgram, nvrtcProgram program, int count, const char* const* options)             \
  X(nvrtcGetProgramLogSize, nvrtcProgram program, size_t* bytes)                                  \
  X(nvrtcGetProgramLog, nvrtcProgram program, char* log)                                          \
  X(nvrtcGetLoweredName, nvrtcProgram program, const char* expression, const char** name)         \
  X(nvrtcGetCUBINSize, nvrtcProgram program, size_t* bytes)                                       \
  X(nvrtcGetCUBIN, nvrtcProgram program, char* cubin)                                             \
  X(nvrtcGetPTXSize, nvrtcProgram program, size_t* bytes)                                         \
  X(nvrtcGetPTX, nvrtcProgram program, char* ptx)                                                 \
  X(nvrtcGetNumSupportedArchs, int* count)                                                        \
  X(nvrtcGetSupportedArchs, int* architectures)
