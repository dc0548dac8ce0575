// Declares what Facula uses of MPI's standard ABI (MPI 5.0, chapter 20, ABI version 1.0). The numbers and layouts are
// the standard's. No MPI is needed to build; mpi.cpp opens one when several processes come together.
#pragma once

#include <cstdint>

namespace facula::distributed::mpi {

enum class Comm : uintptr_t { Null = 0x100 };
enum class Group : uintptr_t { Null = 0x108 };
enum class Session : uintptr_t { Null = 0x120 };
enum class Info : uintptr_t { Null = 0x130 };
enum class Errors : uintptr_t { Return = 0x143 };
enum class Request : uintptr_t { Null = 0x180 };
enum class Op : uintptr_t { Sum = 0x21, Min, Max, Prod, BAnd = 0x28, BOr, BXor };
enum class Type : uintptr_t {
  Float = 0x210,
  Double = 0x214,
  Int8 = 0x240,
  UInt8 = 0x241,
  Byte = 0x247,
  Int16 = 0x248,
  UInt16 = 0x249,
  Int32 = 0x250,
  UInt32 = 0x251,
  Int64 = 0x258,
  UInt64 = 0x259,
};
using Count = int64_t;
using Aint = intptr_t;

struct Status {
  int source, tag, error, internal[5];
};
static_assert(sizeof(Status) == 32);

inline void* const kInPlace = reinterpret_cast<void*>(1);
constexpr int kSuccess = 0, kErrUnknown = 14, kErrTruncate = 15, kAnySource = -1, kAnyTag = -2;
constexpr int kLongestError = 512;

using UserFunction = void(void* in, void* inout, int* count, Type* type);

// X(name, arguments): every function returns an error code.
#define FACULA_MPI_FUNCTIONS(X)                                                                                        \
  X(Abi_get_version, int* major, int* minor)                                                                           \
  X(Session_init, Info info, Errors errors, Session* session)                                                          \
  X(Session_finalize, Session* session)                                                                                \
  X(Group_from_session_pset, Session session, const char* name, Group* group)                                          \
  X(Group_incl, Group group, int n, const int* ranks, Group* made)                                                     \
  X(Group_free, Group* group)                                                                                          \
  X(Comm_create_from_group, Group group, const char* tag, Info info, Errors errors, Comm* made)                        \
  X(Comm_create_group, Comm comm, Group group, int tag, Comm* made)                                                    \
  X(Comm_group, Comm comm, Group* group)                                                                               \
  X(Comm_rank, Comm comm, int* rank)                                                                                   \
  X(Comm_free, Comm* comm)                                                                                             \
  X(Comm_set_errhandler, Comm comm, Errors errors)                                                                     \
  X(Error_class, int error, int* kind)                                                                                 \
  X(Error_string, int error, char* text, int* length)                                                                  \
  X(Type_contiguous, int count, Type type, Type* made)                                                                 \
  X(Type_commit, Type* type)                                                                                           \
  X(Op_create, UserFunction* f, int commutes, Op* op)                                                                  \
  X(Test, Request* request, int* flag, Status* status)                                                                 \
  X(Iprobe, int source, int tag, Comm comm, int* flag, Status* status)                                                 \
  X(Get_count_c, const Status* status, Type type, Count* count)                                                        \
  X(Iallreduce_c, const void* in, void* out, Count n, Type type, Op op, Comm comm, Request* request)                   \
  X(Ireduce_c, const void* in, void* out, Count n, Type type, Op op, int root, Comm comm, Request* request)            \
  X(Ibcast_c, void* data, Count n, Type type, int root, Comm comm, Request* request)                                   \
  X(Iallgather_c, const void* in, Count n, Type type, void* out, Count m, Type to, Comm comm, Request* request)        \
  X(Igather_c, const void* in, Count n, Type type, void* out, Count m, Type to, int root, Comm comm, Request* request) \
  X(Iscatter_c, const void* in, Count n, Type type, void* out, Count m, Type to, int root, Comm comm,                  \
    Request* request)                                                                                                  \
  X(Ireduce_scatter_block_c, const void* in, void* out, Count n, Type type, Op op, Comm comm, Request* request)        \
  X(Ialltoallv_c, const void* in, const Count* n, const Aint* at, Type type, void* out, const Count* m,                \
    const Aint* to_at, Type to, Comm comm, Request* request)                                                           \
  X(Isend_c, const void* data, Count n, Type type, int peer, int tag, Comm comm, Request* request)                     \
  X(Irecv_c, void* data, Count n, Type type, int peer, int tag, Comm comm, Request* request)

}  // namespace facula::distributed::mpi
