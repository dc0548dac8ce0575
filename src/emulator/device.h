// Defines what a kernel sees of a GPU when the host's compiler compiles it: CUDA's names over the emulator's functions.
// It is included before the kernel's source, which is otherwise what NVRTC compiles. It includes no standard header, so
// that a kernel takes a twentieth of a second to compile.
#pragma once

struct Index3 {
  unsigned x, y, z;
};
/// What threads of a block know of it.
struct BlockView {
  Index3 index, size, grid;
  char* dynamic_shared;
};
struct FaculaEmulated {
  const Index3* thread;
  const BlockView* block;
  const void* views;  // null where fences do not count
};
/// How a kernel is called: with an array of the addresses of its arguments.
struct FaculaEmulatedKernel {
  const char* name;
  void (*call)(void** arguments);
  int arguments;
  const unsigned* sizes;
};

extern "C" {
/// Of the calling thread of the host: a kernel stays on it.
__attribute__((const)) FaculaEmulated* facula_emulated_state();
int facula_emulated_synchronize(int predicate, int line);
void facula_emulated_collective(unsigned mask, void* data, void (*run)(void** lanes));
void* facula_emulated_shared(const void* key, unsigned long bytes);
unsigned facula_emulated_lane();
void facula_emulated_fence();
void facula_emulated_atomic(void* word, unsigned long bytes, bool is_done);
void facula_emulated_trap(const char* what);

/// d += a b of a warp; each lane gives its words of a (4) and b (2), and its sums (4).
enum FaculaEmulatedElements { FaculaEmulatedBrain, FaculaEmulatedHalf, FaculaEmulatedTf32 };
void facula_emulated_multiply(FaculaEmulatedElements elements, float* d, const unsigned* a, unsigned b0, unsigned b1);
/// Each lane gives the address of a row of 16 bytes in shared memory and gets a word of each of four matrices.
void facula_emulated_load_matrices(unsigned* words, const void* row, int transposed);
/// A copy that is done only when its thread waits for its group: until then its target holds no numbers.
void facula_emulated_copy(void* to, const void* from, unsigned bytes);
void facula_emulated_commit_copies();
void facula_emulated_wait_for_copies(unsigned groups_left);
/// Stops the kernel unless 16 bytes at `p` are in shared memory, and p is a multiple of 16.
void facula_emulated_check_shared(const void* p);
}

#ifdef FACULA_EMULATED_KERNEL

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define threadIdx (*facula_emulated_state()->thread)
#define blockIdx (facula_emulated_state()->block->index)
#define blockDim (facula_emulated_state()->block->size)
#define gridDim (facula_emulated_state()->block->grid)

#define __syncthreads() ((void)facula_emulated_synchronize(0, __LINE__))
#define __syncthreads_count(predicate) facula_emulated_synchronize((predicate) != 0, __LINE__)
#define __syncthreads_or(predicate) (facula_emulated_synchronize((predicate) != 0, __LINE__) != 0)

namespace facula_device {

// ---- lanes of a warp: the last one to come computes for all

template <class T>
struct Shuffle {
  T value;
  unsigned from;
  T result;
};
template <class T>
void run_shuffle(void** lanes) {
  for (int l = 0; l < 32; ++l) {
    if (!lanes[l]) continue;
    auto* mine = static_cast<Shuffle<T>*>(lanes[l]);
    auto* other = static_cast<Shuffle<T>*>(lanes[mine->from & 31]);
    mine->result = other ? other->value : mine->value;
  }
}
template <class T>
inline T shuffle(unsigned mask, T value, unsigned from) {
  Shuffle<T> s{value, from, value};
  facula_emulated_collective(mask, &s, &run_shuffle<T>);
  return s.result;
}

struct Vote {
  int holds;
  unsigned result;
};
inline void run_vote(void** lanes) {
  unsigned all = 0;
  for (int l = 0; l < 32; ++l)
    if (lanes[l] && static_cast<Vote*>(lanes[l])->holds) all |= 1u << l;
  for (int l = 0; l < 32; ++l)
    if (lanes[l]) static_cast<Vote*>(lanes[l])->result = all;
}
inline void run_nothing(void**) {}

}  // namespace facula_device

// Lanes outside the segment of `width` give the caller's own value back.
template <class T>
inline T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  const unsigned w = static_cast<unsigned>(width), base = facula_emulated_lane() & ~(w - 1);
  return facula_device::shuffle(mask, value, base + (static_cast<unsigned>(from) & (w - 1)));
}
template <class T>
inline T __shfl_down_sync(unsigned mask, T value, unsigned by, int width = 32) {
  const unsigned w = static_cast<unsigned>(width), lane = facula_emulated_lane();
  return facula_device::shuffle(mask, value, (lane & (w - 1)) + by < w ? lane + by : lane);
}
template <class T>
inline T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32) {
  const unsigned w = static_cast<unsigned>(width), lane = facula_emulated_lane();
  return facula_device::shuffle(mask, value, (lane & (w - 1)) >= by ? lane - by : lane);
}
template <class T>
inline T __shfl_xor_sync(unsigned mask, T value, int by, int width = 32) {
  const unsigned w = static_cast<unsigned>(width), lane = facula_emulated_lane(),
                 other = lane ^ static_cast<unsigned>(by);
  return facula_device::shuffle(mask, value, (other & ~(w - 1)) == (lane & ~(w - 1)) ? other : lane);
}
inline unsigned __ballot_sync(unsigned mask, int holds) {
  facula_device::Vote vote{holds, 0};
  facula_emulated_collective(mask, &vote, &facula_device::run_vote);
  return vote.result;
}
inline int __any_sync(unsigned mask, int holds) { return __ballot_sync(mask, holds) != 0; }
inline int __all_sync(unsigned mask, int holds) { return __ballot_sync(mask, holds) == mask; }
inline void __syncwarp(unsigned mask = 0xffffffffu) {
  int nothing = 0;
  facula_emulated_collective(mask, &nothing, &facula_device::run_nothing);
}

// ---- memory

inline void __threadfence() {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  if (facula_emulated_state()->views) facula_emulated_fence();
}
inline void __threadfence_system() { __threadfence(); }
inline void __threadfence_block() { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
inline void __trap() { facula_emulated_trap("__trap()"); }

namespace facula_device {

/// While a word is changed: everybody sees it.
class Atomic {
 public:
  template <class T>
  explicit Atomic(T* word) : word_(word), bytes_(sizeof(T)) {
    notify(false);
  }
  ~Atomic() { notify(true); }

 private:
  void notify(bool is_done) const {
    if (facula_emulated_state()->views) facula_emulated_atomic(word_, bytes_, is_done);
  }
  void* word_;
  unsigned long bytes_;
};
template <class T>
inline T add(T* p, T v) {
  const Atomic atomic(p);
  return __atomic_fetch_add(p, v, __ATOMIC_RELAXED);
}
template <class T>
inline T add_floating(T* p, T v) {
  const Atomic atomic(p);
  T seen, made;
  __atomic_load(p, &seen, __ATOMIC_RELAXED);
  do made = seen + v;
  while (!__atomic_compare_exchange(p, &seen, &made, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  return seen;
}
template <class T>
inline T swap(T* p, T expected, T wanted) {
  const Atomic atomic(p);
  __atomic_compare_exchange_n(p, &expected, wanted, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
  return expected;
}
template <class T>
inline T exchange(T* p, T v) {
  const Atomic atomic(p);
  return __atomic_exchange_n(p, v, __ATOMIC_RELAXED);
}

}  // namespace facula_device

inline int atomicAdd(int* p, int v) { return facula_device::add(p, v); }
inline unsigned atomicAdd(unsigned* p, unsigned v) { return facula_device::add(p, v); }
inline unsigned long long atomicAdd(unsigned long long* p, unsigned long long v) { return facula_device::add(p, v); }
inline float atomicAdd(float* p, float v) { return facula_device::add_floating(p, v); }
inline double atomicAdd(double* p, double v) { return facula_device::add_floating(p, v); }
inline unsigned short atomicCAS(unsigned short* p, unsigned short e, unsigned short v) {
  return facula_device::swap(p, e, v);
}
inline int atomicCAS(int* p, int e, int v) { return facula_device::swap(p, e, v); }
inline unsigned atomicCAS(unsigned* p, unsigned e, unsigned v) { return facula_device::swap(p, e, v); }
inline unsigned long long atomicCAS(unsigned long long* p, unsigned long long e, unsigned long long v) {
  return facula_device::swap(p, e, v);
}
inline unsigned atomicExch(unsigned* p, unsigned v) { return facula_device::exchange(p, v); }
inline unsigned long long atomicExch(unsigned long long* p, unsigned long long v) {
  return facula_device::exchange(p, v);
}

// ---- bits

inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __popcll(unsigned long long v) { return __builtin_popcountll(v); }
inline int __clz(int v) { return v ? __builtin_clz(static_cast<unsigned>(v)) : 32; }
inline int __clzll(long long v) { return v ? __builtin_clzll(static_cast<unsigned long long>(v)) : 64; }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>(static_cast<unsigned long long>(a) * b >> 32);
}

// ---- the list of a module's kernels

namespace facula_device {

template <class F, F f>
struct Call;
template <class T>
struct Plain {
  using type = T;
};
template <class T>
struct Plain<const T> {
  using type = T;
};
template <class... A, void (*f)(A...)>
struct Call<void (*)(A...), f> {
  static constexpr int count = sizeof...(A);
  static constexpr unsigned sizes[count + 1] = {sizeof(A)..., 0};
  template <int... I>
  struct Places {};
  template <int N, int... I>
  struct Count : Count<N - 1, N - 1, I...> {};
  template <int... I>
  struct Count<0, I...> {
    using type = Places<I...>;
  };
  template <int... I>
  static void with(void** arguments, Places<I...>) {
    f(*static_cast<typename Plain<A>::type*>(arguments[I])...);
  }
  static void call(void** arguments) { with(arguments, typename Count<count>::type{}); }
};

}  // namespace facula_device

#define FACULA_EMULATED_ENTRY(name, ...)                                       \
  {name, &facula_device::Call<decltype(&(__VA_ARGS__)), &(__VA_ARGS__)>::call, \
   facula_device::Call<decltype(&(__VA_ARGS__)), &(__VA_ARGS__)>::count,       \
   facula_device::Call<decltype(&(__VA_ARGS__)), &(__VA_ARGS__)>::sizes},

#endif
