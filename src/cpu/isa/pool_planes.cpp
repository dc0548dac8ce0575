// Values at positions in planes: unpooling, and the derivatives of maxima. Elements of a plane lie `vector` apart, in
// both formats.
#include <atomic>

#include "cpu/isa/by_size.h"
#include "cpu/isa/combine.h"
#include "cpu/isa/grain.h"
#include "cpu/isa/pool_windows.h"
#include "ops/pool.h"

namespace facula::cpu::FACULA_ISA {
namespace {

// Calls f(offset among the small planes, offset among the large ones), and none(offset among the small ones) for -1,
// where that may stand for no element; throws, as `op`, where an index lies outside.
template <class F, class None = std::nullptr_t>
void for_each_index(const Tensor& large, const Tensor& indices, const char* op, F&& f, None none = nullptr) {
  int64_t batch = indices.size(0), channels = indices.size(1), few = spatial_count(indices),
          many = spatial_count(large);
  bool last = channels_last(large, indices);
  int64_t vector = last ? channels : 1, images = last ? batch : batch * channels;
  std::atomic<bool> failed{false};
  std::atomic<int64_t> bad{0};
  const int64_t* where = indices.data<int64_t>();
  parallel_for(0, images, grain_of(few * vector), [&](int64_t from, int64_t to) {
    for (int64_t image = from; image < to; ++image) {
      int64_t small = image * few * vector, base = image * many * vector;
      for (int64_t i = 0; i < few; ++i) {
        for (int64_t c = 0; c < vector; ++c, ++small) {
          int64_t at = where[small];
          if constexpr (!std::is_null_pointer_v<None>) {
            if (at == -1) {
              none(small);
              continue;
            }
          }
          if (at < 0 || at >= many) {
            bad = at;
            failed = true;
            return;
          }
          f(small, base + at * vector + c);
        }
      }
    }
  });
  FACULA_CHECK(!failed, ErrorKind::Runtime, op, ": indices must lie in planes of size ", spatial_part(large), ", got ",
               bad.load());
}

void scatter_planes_cpu(const Tensor& out, const Tensor& values, const Tensor& indices, bool accumulate,
                        const char* op) {
  const auto nothing = [](int64_t) {};
  if (accumulate) {
    return visit_types(Numbers(), out.dtype(), [&]<class T>(TypeTag<T>) {
      T* to = out.data<T>();
      const T* from = values.data<T>();
      for_each_index(
          out, indices, op,
          [&](int64_t small, int64_t large) { to[large] = combine<Combine::Add>(to[large], from[small]); }, nothing);
    });
  }
  visit_size(item_size(out.dtype()), [&]<class T>(TypeTag<T>) {
    T* to = out.data<T>();
    const T* from = values.data<T>();
    for_each_index(out, indices, op, [&](int64_t small, int64_t large) { to[large] = from[small]; });
  });
}

void gather_planes_cpu(const Tensor& out, const Tensor& in, const Tensor& indices, const char* op) {
  visit_size(item_size(out.dtype()), [&]<class T>(TypeTag<T>) {
    T* to = out.data<T>();
    const T* from = in.data<T>();
    for_each_index(
        in, indices, op, [&](int64_t small, int64_t large) { to[small] = from[large]; },
        [&](int64_t small) { to[small] = T(); });
  });
}

}  // namespace

void register_pool_planes() {
  scatter_planes_kernel.set(DeviceType::CPU, scatter_planes_cpu);
  gather_planes_kernel.set(DeviceType::CPU, gather_planes_cpu);
}

}  // namespace facula::cpu::FACULA_ISA
