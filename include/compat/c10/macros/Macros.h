// Words that libtorch's sources put around declarations.
#pragma once

#define C10_EXPORT __attribute__((__visibility__("default")))
#define C10_HIDDEN __attribute__((__visibility__("hidden")))
#define C10_IMPORT C10_EXPORT
#define C10_API C10_EXPORT
#define TORCH_API C10_EXPORT
#define TORCH_CUDA_CU_API C10_EXPORT
#define TORCH_CUDA_CPP_API C10_EXPORT
#define TORCH_PYTHON_API C10_EXPORT
#if defined(__CUDACC__)
#define C10_HOST_DEVICE __host__ __device__
#define C10_DEVICE __device__
#define C10_HOST __host__
#else
#define C10_HOST_DEVICE
#define C10_DEVICE
#define C10_HOST
#endif
#define C10_ALWAYS_INLINE __attribute__((__always_inline__)) inline
#define C10_NOINLINE __attribute__((noinline))
#define C10_UNUSED [[maybe_unused]]
#define C10_NODISCARD [[nodiscard]]
#define C10_LIKELY(condition) (__builtin_expect(static_cast<bool>(condition), 1))
#define C10_UNLIKELY(condition) (__builtin_expect(static_cast<bool>(condition), 0))
#define C10_RESTRICT __restrict
#define C10_LOG_API_USAGE_ONCE(what) ((void)0)
