// Declares the threads that help a calling thread with the pieces of a loop (core/parallel.h is what kernels use).
//
//   caller:  opens a job -> takes pieces ------------> none left -> waits for those that others have -> closes it
//   worker:  waits -------> takes pieces of open jobs -> none left -> waits
//
// Nobody waits for a worker that has not begun. On a machine where other programs run, a worker may come late or not at
// all, and the caller then does its pieces as well. A worker that waits first spins, then yields to other programs,
// then sleeps.
#pragma once

namespace facula::thread_pool {

using Piece = void (*)(void* context, int piece);

/// Calls piece(context, i) once for each i below `pieces`, on this thread and at most `threads` - 1 others, and returns
/// when all are done. A call must not throw. When too many callers are there at once, it runs on this thread alone.
void run(int threads, int pieces, Piece piece, void* context);

/// Returns whether this thread is in a piece now.
bool in_piece();
/// Returns which worker of the pool this thread is, from 1 on; 0 for all other threads.
int thread_number();

}  // namespace facula::thread_pool
