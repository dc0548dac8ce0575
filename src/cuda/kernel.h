// Defines kernels of the device: templates in the files of src/cuda/kernels, compiled for the arguments and the device
// that they are first used with, and cached on disk (kernel_cache.h).
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "cuda/driver.h"
#include "cuda/family.h"

namespace facula::cuda {

/// A template argument: a dtype, which becomes its type on the device, or a number from 0 to 127.
class TemplateArgument {
 public:
  constexpr TemplateArgument(DType dtype) : code_(static_cast<uint8_t>(0x80 | static_cast<int>(dtype))) {}
  constexpr TemplateArgument(int number) : code_(static_cast<uint8_t>(number)) {
    if (__builtin_expect(number < 0 || number > kMostNumber, 0)) refuse_number(number);
  }
  constexpr TemplateArgument(bool truth) : code_(truth) {}
  uint8_t code() const { return code_; }
  std::string text() const;

 private:
  static constexpr int kMostNumber = 127;
  [[noreturn]] static void refuse_number(int number);
  uint8_t code_;
};
using TemplateArguments = std::initializer_list<TemplateArgument>;
constexpr size_t kMostTemplateArguments = 7;
[[noreturn]] void refuse_arguments(size_t count);
/// All of them as one number, which says how many they are, too.
inline uint64_t packed(TemplateArguments arguments) {
  if (__builtin_expect(arguments.size() > kMostTemplateArguments, 0)) refuse_arguments(arguments.size());
  uint64_t all = 1;
  for (const TemplateArgument& argument : arguments) all = all << 8 | argument.code();
  return all;
}

/// A part of the kernels' sources that goes into the package.
struct DeviceSource {
  const char *name, *text;
};
extern const DeviceSource device_sources[];
extern const int device_source_count;

/// How an element-wise loop is written, by loop id; made by codegen.
struct DeviceLoop {
  const char *header, *body;  // null where there is no such id
};
extern const DeviceLoop device_loops[];

/// Compiles `expression` (a kernel's name with its template arguments) of the program `source` for the device,
/// unless that was done before. How it is first launched goes into the log of kernels (compile.h), for who checks it.
/// Where no process has compiled it yet, its `family` is requested (family.h).
CUfunction compiled(int device, const std::string& source, const std::string& expression,
                    const std::vector<int>& argument_bytes, unsigned threads, const Family& family = {});

/// The number of threads and blocks, and the dynamic shared memory of each block.
struct Grid {
  unsigned threads;
  int64_t x, y = 1, z = 1;
  unsigned shared_bytes = 0;
};

void launch(CUfunction function, int device, const Grid& grid, void** arguments);

/// What a kernel's instance is found by: the place of its description, and its template arguments.
struct FunctionKey {
  const void* kernel;
  uint64_t types;
  int device;
  bool operator==(const FunctionKey&) const = default;
};
/// The instance that was last stored under a key with the same low bits by this thread: no lock, no search. Else null.
CUfunction recent_function(const FunctionKey& key);
/// One that any thread has stored, or null.
CUfunction known_function(const FunctionKey& key);
CUfunction keep_function(const FunctionKey& key, CUfunction function);

/// A kernel template: `static const DeviceKernel fill{"fill.cuh", "fill"};`.
class DeviceKernel {
 public:
  constexpr DeviceKernel(const char* file, const char* name) : file_(file), name_(name) {}

  /// Queues it on the device's current stream. The arguments have exactly the types of the kernel's parameters.
  template <class... A>
  void operator()(int device, TemplateArguments types, const Grid& grid, const A&... arguments) const {
    void* addresses[] = {const_cast<void*>(static_cast<const void*>(&arguments))..., nullptr};
    static constexpr int bytes[] = {static_cast<int>(sizeof(A))..., 0};
    launch(function(device, types, {bytes, sizeof...(A)}, grid.threads), device, grid, addresses);
  }
  CUfunction function(int device, TemplateArguments types, std::span<const int> argument_bytes, unsigned threads) const;

 private:
  const char *file_, *name_;
};

/// The type as which elements of 1, 2, 4, 8 or 16 bytes are moved.
DType bits_of(int64_t bytes);

/// Blocks of `threads` for `count` elements, one of each thread; more elements are left to grid-stride loops.
Grid grid_for(int device, int64_t count, unsigned threads = 256);

/// How many elements are in the 16 bytes that a thread reads at once, if all tensors begin at multiples; else 1.
int aligned_width(DType dtype, std::span<const void* const> tensors);

}  // namespace facula::cuda
