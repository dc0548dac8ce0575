// Declares NCCL as the engine and the collectives within one process call it: its functions, its errors, and streams
// for communicators.
#pragma once

#include "core/dtype.h"
#include "cuda/abi_nccl.h"
#include "cuda/stream.h"
#include "distributed/engine.h"

namespace facula::distributed::nccl_library {

struct Functions {
#define X(name, ...) ncclResult_t (*name)(__VA_ARGS__) = nullptr;
  FACULA_NCCL_FUNCTIONS(X)
#undef X
#define X(name, ...) const char* (*name)(__VA_ARGS__) = nullptr;
  FACULA_NCCL_TEXTS(X)
#undef X
};
/// Of the library, which the first call opens.
const Functions& nccl();
/// Empty, or why it could not be opened.
const std::string& why_not_opened();

/// Throws what NCCL reports; what is still in progress is no error.
void check(ncclResult_t result, const char* call, ncclComm_t comm = nullptr);
/// Whether the communicator may be called again; throws what went wrong with `call`.
bool is_ready(ncclComm_t comm, const char* call);

inline ncclConfigBegin config() { return {kNcclConfigSize, kNcclConfigMagic, kNcclConfigVersion, 0}; }

struct Number {  // how NCCL sees a dtype
  ncclDataType_t type;
  size_t each = 1;
};
Number number_of(DType dtype);
/// Of bytes that are 0 or 1 sums are "any", products "all".
ncclRedOp_t op_of(DType dtype, Reduction reduction);

/// Streams for communicators are few and stay: those of failed ones may never end.
Stream take_stream(int device);
void give_back(Stream stream);

}  // namespace facula::distributed::nccl_library
