// Declares the part of CUPTI that Facula calls, from NVIDIA's documentation (.ci/check_abi.py compares it with NVIDIA's
// headers). Records grow with CUPTI's versions, at their ends: a `...Record` is the part that those of CUDA 12 and 13
// have in common.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/abi.h"

using CUpti_SubscriberHandle = struct CUpti_Subscriber_st*;

enum CUptiResult : int {
  CUPTI_SUCCESS = 0,
  CUPTI_ERROR_INVALID_PARAMETER = 1,
  CUPTI_ERROR_INVALID_OPERATION = 7,
  CUPTI_ERROR_MAX_LIMIT_REACHED = 12,
  CUPTI_ERROR_QUEUE_EMPTY = 18,
  CUPTI_ERROR_INVALID_KIND = 21,
  CUPTI_ERROR_INSUFFICIENT_PRIVILEGES = 35,
  CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED = 39,
};
enum CUpti_ActivityKind : int {
  CUPTI_ACTIVITY_KIND_MEMCPY = 1,
  CUPTI_ACTIVITY_KIND_MEMSET = 2,
  CUPTI_ACTIVITY_KIND_DRIVER = 4,
  CUPTI_ACTIVITY_KIND_RUNTIME = 5,
  CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL = 10,
  CUPTI_ACTIVITY_KIND_MEMCPY2 = 22,  // between devices
  CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION = 39,
};
enum CUpti_ActivityFlag : uint32_t { CUPTI_ACTIVITY_FLAG_FLUSH_FORCED = 1 };
enum CUpti_ExternalCorrelationKind : int { CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2 = 5 };
enum CUpti_CallbackDomain : int { CUPTI_CB_DOMAIN_DRIVER_API = 1, CUPTI_CB_DOMAIN_RUNTIME_API = 2 };
enum CUpti_ActivityThreadIdType : int { CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM = 1 };
enum CUpti_ActivityMemcpyKind : int {
  CUPTI_ACTIVITY_MEMCPY_KIND_HTOD = 1,
  CUPTI_ACTIVITY_MEMCPY_KIND_DTOH = 2,
  CUPTI_ACTIVITY_MEMCPY_KIND_DTOD = 8,
  CUPTI_ACTIVITY_MEMCPY_KIND_HTOH = 9,
  CUPTI_ACTIVITY_MEMCPY_KIND_PTOP = 10,
};
enum CUpti_ActivityMemoryKind : int {
  CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE = 1,
  CUPTI_ACTIVITY_MEMORY_KIND_PINNED = 2,
  CUPTI_ACTIVITY_MEMORY_KIND_DEVICE = 3,
  CUPTI_ACTIVITY_MEMORY_KIND_ARRAY = 4,
  CUPTI_ACTIVITY_MEMORY_KIND_MANAGED = 5,
};
/// Of the driver's calls that queue work.
enum CUpti_driver_api_trace_cbid : int {
  CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async = 216,
  CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2 = 277,
  CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2 = 279,
  CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2 = 281,
  CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel = 307,
  CUPTI_DRIVER_TRACE_CBID_cuMemcpyPeerAsync = 319,
  CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch = 514,
};

// Records begin at a multiple of 8 bytes.
struct CUpti_Activity {
  alignas(8) CUpti_ActivityKind kind;
};
struct KernelRecord {
  CUpti_ActivityKind kind;
  uint8_t cacheConfig, sharedMemoryConfig;
  uint16_t registersPerThread;
  int partitionedGlobalCacheRequested, partitionedGlobalCacheExecuted;
  uint64_t start, end, completed;
  uint32_t deviceId, contextId, streamId;
  int32_t gridX, gridY, gridZ, blockX, blockY, blockZ;
  int32_t staticSharedMemory, dynamicSharedMemory;
  uint32_t localMemoryPerThread, localMemoryTotal, correlationId;
  int64_t gridId;
  const char* name;
  void* reserved0;
  uint64_t queued, submitted;
  uint8_t launchType, isSharedMemoryCarveoutRequested, sharedMemoryCarveoutRequested, padding;
  uint32_t sharedMemoryExecuted;
  uint64_t graphNodeId;
  int shmemLimitConfig;
  uint32_t graphId;
};
struct MemcpyRecord {
  CUpti_ActivityKind kind;
  uint8_t copyKind, srcKind, dstKind, flags;
  uint64_t bytes, start, end;
  uint32_t deviceId, contextId, streamId, correlationId, runtimeCorrelationId, pad;
  void* reserved0;
  uint64_t graphNodeId;
};
struct MemcpyPtoPRecord {
  CUpti_ActivityKind kind;
  uint8_t copyKind, srcKind, dstKind, flags;
  uint64_t bytes, start, end;
  uint32_t deviceId, contextId, streamId, srcDeviceId, srcContextId, dstDeviceId, dstContextId, correlationId;
  void* reserved0;
  uint64_t graphNodeId;
};
struct MemsetRecord {
  CUpti_ActivityKind kind;
  uint32_t value;
  uint64_t bytes, start, end;
  uint32_t deviceId, contextId, streamId, correlationId;
  uint16_t flags, memoryKind;
  uint32_t pad;
  void* reserved0;
  uint64_t graphNodeId;
};
/// A call of the driver or of CUDA's runtime.
struct APIRecord {
  CUpti_ActivityKind kind;
  uint32_t cbid;
  uint64_t start, end;
  uint32_t processId, threadId, correlationId, returnValue;
};
struct ExternalCorrelationRecord {
  CUpti_ActivityKind kind;
  CUpti_ExternalCorrelationKind externalKind;
  uint64_t externalId;
  uint32_t correlationId, reserved;
};

using CUpti_BuffersCallbackRequestFunc = void (*)(uint8_t** buffer, size_t* bytes, size_t* most_records);
using CUpti_BuffersCallbackCompleteFunc = void (*)(CUcontext context, uint32_t stream, uint8_t* buffer, size_t bytes,
                                                   size_t valid_bytes);
using CUpti_CallbackFunc = void (*)(void* data, CUpti_CallbackDomain domain, uint32_t function, const void* call);

// X(name, parameters...): a function of libcupti that gives a CUptiResult
#define FACULA_PROFILER_FUNCTIONS(X)                                                              \
  X(cuptiGetVersion, uint32_t* version)                                                           \
  X(cuptiGetResultString, CUptiResult result, const char** text)                                  \
  X(cuptiGetTimestamp, uint64_t* nanoseconds)                                                     \
  X(cuptiSubscribe, CUpti_SubscriberHandle* handle, CUpti_CallbackFunc callback, void* data)      \
  X(cuptiUnsubscribe, CUpti_SubscriberHandle handle)                                              \
  X(cuptiSetThreadIdType, CUpti_ActivityThreadIdType type)                                        \
  X(cuptiGetCallbackName, CUpti_CallbackDomain domain, uint32_t function, const char** name)      \
  X(cuptiGetStreamIdEx, CUcontext context, CUstream stream, uint8_t per_thread, uint32_t* number) \
  X(cuptiActivityRegisterCallbacks, CUpti_BuffersCallbackRequestFunc requested,                   \
    CUpti_BuffersCallbackCompleteFunc completed)                                                  \
  X(cuptiActivityEnable, CUpti_ActivityKind kind)                                                 \
  X(cuptiActivityDisable, CUpti_ActivityKind kind)                                                \
  X(cuptiActivityFlushAll, uint32_t flag)                                                         \
  X(cuptiActivityGetNextRecord, uint8_t* buffer, size_t valid_bytes, CUpti_Activity** record)     \
  X(cuptiActivityGetNumDroppedRecords, CUcontext context, uint32_t stream, size_t* dropped)       \
  X(cuptiActivityPushExternalCorrelationId, CUpti_ExternalCorrelationKind kind, uint64_t number)  \
  X(cuptiActivityPopExternalCorrelationId, CUpti_ExternalCorrelationKind kind, uint64_t* last)
