// Products of small matrices by the tensor cores, and what feeds them: copies into shared memory that no thread waits
// for, and loads of matrices from there. Each function is one instruction on devices of compute capability 8.0 and
// later (older ones stop: the host has other kernels for them), and on the emulated device a function of the emulator.
//
// Lane l has of a: rows l / 4 (words 0 and 2) and l / 4 + 8 (1 and 3), columns 2 (l % 4) + {0, 1} (words 0 and 1) and
// 8 more (2 and 3). Of b it has column l / 4, rows 2 (l % 4) + {0, 1} (b0) and 8 more (b1). Of d it has rows l / 4 (0
// and 1) and l / 4 + 8 (2 and 3), columns 2 (l % 4) + {0, 1}. So what a product leaves in two neighboring d, narrowed
// by pairs, is the a of another product.
#pragma once

#include "block.cuh"

namespace facula::cuda {

#if !defined(FACULA_EMULATED_KERNEL) && __CUDA_ARCH__ >= 800

FACULA_FN UInt32 shared_address(const void* p) { return static_cast<UInt32>(__cvta_generic_to_shared(p)); }

#define FACULA_MMA(kind)                                                                                       \
  asm volatile("mma.sync.aligned." kind ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
/// d += a b of 16 x 16 and 16 x 8 elements of 16 bits.
template <class T>
FACULA_FN void mma(float (&d)[4], const UInt32 (&a)[4], UInt32 b0, UInt32 b1) {
  static_assert(is_same_type<T, BFloat16> || is_same_type<T, Float16>);
  if constexpr (is_same_type<T, BFloat16>) FACULA_MMA("m16n8k16.row.col.f32.bf16.bf16");
  else FACULA_MMA("m16n8k16.row.col.f32.f16.f16");
}
/// d += a b of 16 x 8 and 8 x 8 elements of float32, of which 19 bits are read. Where `mma` has two neighboring
/// columns of a (rows of b) in a word, this has one: columns l % 4 and 4 more.
FACULA_FN void mma_tf32(float (&d)[4], const UInt32 (&a)[4], UInt32 b0, UInt32 b1) {
  FACULA_MMA("m16n8k8.row.col.f32.tf32.tf32");
}
#undef FACULA_MMA
/// The nearest number of 19 bits, of two the larger in magnitude.
FACULA_FN UInt32 to_tf32(float x) {
  UInt32 r;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
  return r;
}

#define FACULA_LOAD(kind)                                                                 \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4" kind ".shared.b16 {%0, %1, %2, %3}, [%4];" \
               : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])           \
               : "r"(shared_address(row))                                                 \
               : "memory")
/// Four matrices of 8 rows of 16 bytes; lanes 0 to 7, 8 to 15, ... give the rows' addresses. Lane l gets word l % 4 of
/// row l / 4 of each.
FACULA_FN void load_matrices(UInt32 (&words)[4], const void* row) { FACULA_LOAD(""); }
/// The same of the transposes, whose elements are of 16 bits.
FACULA_FN void load_transposed(UInt32 (&words)[4], const void* row) { FACULA_LOAD(".trans"); }
#undef FACULA_LOAD

/// 16 bytes from memory to shared memory, the first `bytes` of which are read and the others zero.
FACULA_FN void copy_async_part(void* to, const void* from, UInt32 bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from), "r"(bytes)
               : "memory");
}
/// Ends a group of this thread's copies, which may be empty.
FACULA_FN void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most the last kLeft groups of this thread's copies are under way.
template <int kLeft>
FACULA_FN void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
}
/// 2^x to two units of the last place; results that would be subnormal are zero.
FACULA_FN float exp2_of(float x) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
  return r;
}

#elif defined(FACULA_EMULATED_KERNEL)

template <class T>
FACULA_FN void mma(float (&d)[4], const UInt32 (&a)[4], UInt32 b0, UInt32 b1) {
  static_assert(is_same_type<T, BFloat16> || is_same_type<T, Float16>);
  facula_emulated_multiply(is_same_type<T, BFloat16> ? FaculaEmulatedBrain : FaculaEmulatedHalf, d, a, b0, b1);
}
FACULA_FN void mma_tf32(float (&d)[4], const UInt32 (&a)[4], UInt32 b0, UInt32 b1) {
  facula_emulated_multiply(FaculaEmulatedTf32, d, a, b0, b1);
}
FACULA_FN UInt32 to_tf32(float x) {
  const UInt32 all = kernels::bits(x), cut = (x - x == 0 ? all + 0x1000u : all) & 0xffffe000u;
  return x != x ? cut | 0x400000u : cut;
}
FACULA_FN void load_matrices(UInt32 (&words)[4], const void* row) { facula_emulated_load_matrices(words, row, false); }
FACULA_FN void load_transposed(UInt32 (&words)[4], const void* row) { facula_emulated_load_matrices(words, row, true); }
FACULA_FN void copy_async_part(void* to, const void* from, UInt32 bytes) { facula_emulated_copy(to, from, bytes); }
FACULA_FN void copies_commit() { facula_emulated_commit_copies(); }
template <int kLeft>
FACULA_FN void copies_wait() {
  facula_emulated_wait_for_copies(kLeft);
}
FACULA_FN float exp2_of(float x) { return x < -126 ? 0 : kernels::exp2(x); }

#else

template <class T>
FACULA_FN void mma(float (&)[4], const UInt32 (&)[4], UInt32, UInt32) {
  __trap();
}
FACULA_FN void mma_tf32(float (&)[4], const UInt32 (&)[4], UInt32, UInt32) { __trap(); }
FACULA_FN UInt32 to_tf32(float) {
  __trap();
  return 0;
}
FACULA_FN void load_matrices(UInt32 (&)[4], const void*) { __trap(); }
FACULA_FN void load_transposed(UInt32 (&)[4], const void*) { __trap(); }
FACULA_FN void copy_async_part(void*, const void*, UInt32) { __trap(); }
FACULA_FN void copies_commit() { __trap(); }
template <int>
FACULA_FN void copies_wait() {
  __trap();
}
FACULA_FN float exp2_of(float) {
  __trap();
  return 0;
}

#endif

/// 16 bytes from memory to shared memory, or zeros where there is nothing, and `from` is not read.
FACULA_FN void copy_async(void* to, const void* from, bool there) { copy_async_part(to, from, there ? 16u : 0u); }

/// Where the 16 bytes number `chunk` of row `row` lie among rows of kChunks: the same chunk of 8 rows that follow each
/// other is in different banks, and so are the chunks of a row.
template <int kChunks>
FACULA_FN int swizzled(int row, int chunk) {
  static_assert((kChunks & (kChunks - 1)) == 0);
  constexpr int kMask = kChunks >= 8 ? 7 : kChunks - 1;
  const int turn = kChunks >= 8 ? row : row / (8 / kChunks);
  return row * kChunks + (chunk ^ (turn & kMask));
}

}  // namespace facula::cuda
