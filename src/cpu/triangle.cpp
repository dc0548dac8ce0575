// tril and triu on the CPU: rows of bytes set to zero, which is zero in every dtype.
#include "ops/triangle.h"

#include <cstring>

#include "core/parallel.h"

namespace facula::cpu {
namespace {

void clear_triangle(const Tensor& out, int64_t diagonal, bool upper) {
  int64_t rows = out.size(-2), columns = out.size(-1), item = out.item_size();
  if (out.numel() == 0) return;
  const LockRelease release(out.numel() > kGrain);
  char* data = out.data<char>();
  parallel_for(0, out.numel() / columns, std::max<int64_t>(1, kGrain / columns), [&](int64_t from, int64_t to) {
    for (int64_t line = from; line < to; ++line) {
      // the first column that tril clears, and that triu keeps
      int64_t edge = upper ? line % rows + diagonal : line % rows + diagonal + 1;
      edge = std::clamp<int64_t>(edge, 0, columns);
      int64_t first = upper ? 0 : edge, last = upper ? edge : columns;
      std::memset(data + (line * columns + first) * item, 0, static_cast<size_t>((last - first) * item));
    }
  });
}

}  // namespace

void register_triangle() { clear_triangle_kernel.set(DeviceType::CPU, clear_triangle); }

}  // namespace facula::cpu
