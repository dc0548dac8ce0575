// A norm of channels with known factors, and ops that write to its result in place, in one pass over memory: what a
// memory budget runs again. Elements get the same bits as from the ops one after the other.
#include "core/parallel.h"
#include "cpu/isa.h"
#include "cpu/isa/norm_affine.h"
#include "cpu/isa/stream.h"
#include "ops/norm.h"

namespace facula::cpu::FACULA_ISA {
namespace {

constexpr int64_t kTogether = 2048;  // elements that go through all loops while they are in the first-level cache
constexpr int64_t kLongWork = 1 << 15;

template <class T>
struct Affine {
  const T *self, *scale, *shift;
  ChannelLayout layout;

  /// Elements `at` on, of one channel or of whole rows of all channels.
  void write(T* to, int64_t at, int64_t count) const {
    const T* x = self + at;
    if (layout.inner == 1) {
      for (int64_t done = 0; done < count; done += layout.channels)
        affine_row(layout.channels, to + done, x + done, scale, shift);
      return;
    }
    const int64_t channel = at / layout.inner % layout.channels;
    affine_run(count, to, x, scale[channel], shift[channel]);
  }
};

template <class T>
void affine_then(const Affine<T>& affine, T* out, const FollowingLoops& following) {
  const ChannelLayout& layout = affine.layout;
  const bool rows = layout.inner == 1;
  const int64_t run = rows ? layout.channels : layout.inner, runs = layout.outer * layout.channels * layout.inner / run;
  const bool around = BlockWriter<T>::is_worth(runs * run) && (!rows || run <= kTogether);
  const int64_t together = rows ? std::max<int64_t>(kTogether / run, 1) : 1;  // runs in one go
  parallel_for(0, runs, std::max<int64_t>(1, kGrain / run), [&](int64_t from, int64_t to) {
    alignas(64) T block[kTogether];
    const auto piece = [&](int64_t at, int64_t count) {
      T* const made = around ? block : out + at;
      affine.write(made, at, count);
      for (const FollowingLoop& f : following.loops) {
        const LoopInput in[] = {{made}, {f.other ? static_cast<const T*>(f.other) + at : nullptr}};
        f.loop(count, made, in, f.params);
      }
      if (around)
        send_block(reinterpret_cast<char*>(out + at), reinterpret_cast<const char*>(block),
                   count * static_cast<int64_t>(sizeof(T)));
    };
    for (int64_t r = from; r < to; r += together) {
      const int64_t count = std::min(together, to - r) * run, most = rows ? count : kTogether;
      for (int64_t done = 0; done < count; done += most) piece(r * run + done, std::min(most, count - done));
    }
#if defined(__x86_64__)
    if (around) _mm_sfence();  // other threads see the stores in order
#endif
  });
}

void channel_affine_then_cpu(const Tensor& out, const Tensor& self, const Tensor& scale, const Tensor& shift,
                             const ChannelLayout& layout, const FollowingLoops& following) {
  if (self.numel() == 0) return;
  LockRelease unlocked(self.numel() > kLongWork);
  const auto run = [&]<class T>(T) {
    affine_then<T>({self.data<T>(), scale.data<T>(), shift.data<T>(), layout}, out.data<T>(), following);
  };
  self.dtype() == DType::Float64 ? run(double{}) : run(float{});
}

}  // namespace

void register_norm_again() { channel_affine_then_kernel.set(DeviceType::CPU, channel_affine_then_cpu); }

}  // namespace facula::cpu::FACULA_ISA
