// Declares the part of NCCL that Facula calls, from NVIDIA's documentation (.ci/check_abi.py compares it with NVIDIA's
// headers).
#pragma once

#include <cstddef>

#include "cuda/abi.h"

struct ncclComm;
using ncclComm_t = ncclComm*;

enum { NCCL_UNIQUE_ID_BYTES = 128, NCCL_SPLIT_NOCOLOR = -1 };
struct ncclUniqueId {
  char internal[NCCL_UNIQUE_ID_BYTES];
};

enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};
enum ncclDataType_t : int {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
};
enum ncclRedOp_t : int { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 };
enum ncclScalarResidence_t : int { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 };

/// What ncclConfig_t begins with in all versions: the library reads as much as `size` says, and takes the rest from
/// its defaults where `version` is older than a field.
struct ncclConfigBegin {
  size_t size;
  unsigned magic, version;
  int blocking;
};
constexpr unsigned kNcclConfigMagic = 0xcafebeef, kNcclConfigVersion = 21400;  // 2.14 brought `blocking`
constexpr size_t kNcclConfigSize = 24;

#define FACULA_NCCL_FUNCTIONS(X)                                                                                      \
  X(ncclGetVersion, int* version)                                                                                     \
  X(ncclGetUniqueId, ncclUniqueId* id)                                                                                \
  X(ncclCommInitRankConfig, ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfigBegin* config)           \
  X(ncclCommSplit, ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfigBegin* config)                    \
  X(ncclCommFinalize, ncclComm_t comm)                                                                                \
  X(ncclCommDestroy, ncclComm_t comm)                                                                                 \
  X(ncclCommAbort, ncclComm_t comm)                                                                                   \
  X(ncclCommGetAsyncError, ncclComm_t comm, ncclResult_t* error)                                                      \
  X(ncclRedOpCreatePreMulSum, ncclRedOp_t* op, void* scalar, ncclDataType_t type, ncclScalarResidence_t residence,    \
    ncclComm_t comm)                                                                                                  \
  X(ncclRedOpDestroy, ncclRedOp_t op, ncclComm_t comm)                                                                \
  X(ncclGroupStart)                                                                                                   \
  X(ncclGroupEnd)                                                                                                     \
  X(ncclAllReduce, const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,     \
    CUstream stream)                                                                                                  \
  X(ncclReduce, const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,               \
    ncclComm_t comm, CUstream stream)                                                                                 \
  X(ncclBroadcast, const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,           \
    CUstream stream)                                                                                                  \
  X(ncclAllGather, const void* in, void* out, size_t count, ncclDataType_t type, ncclComm_t comm, CUstream stream)    \
  X(ncclReduceScatter, const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm, \
    CUstream stream)                                                                                                  \
  X(ncclSend, const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, CUstream stream)          \
  X(ncclRecv, void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, CUstream stream)

// these give a text
#define FACULA_NCCL_TEXTS(X)                 \
  X(ncclGetErrorString, ncclResult_t result) \
  X(ncclGetLastError, ncclComm_t comm)
