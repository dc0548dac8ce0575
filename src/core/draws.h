// Notes what an op has drawn: the states of generators before each draw. They are used in the same order when the op
// runs again, so that the program's own streams do not move.
#pragma once

#include <memory>
#include <vector>

#include "core/generator.h"
#include "core/tensor.h"

namespace facula {

/// The state of a generator before a draw.
struct DrawState {
  Device device;
  std::vector<uint8_t> bytes;
  Tensor library = {};  // what a library that draws keeps on the device besides, if it does
};
using DrawStates = std::vector<DrawState>;

/// While one lives, draws of this thread are noted in `states`.
class NotedDraws {
 public:
  explicit NotedDraws(DrawStates& states);
  ~NotedDraws();
  NotedDraws(const NotedDraws&) = delete;

 private:
  DrawStates* const before_;
};

/// While one lives, draws of this thread are made from `states`, one after the other, whatever generator is requested.
class RepeatedDraws {
 public:
  explicit RepeatedDraws(const DrawStates& states);
  ~RepeatedDraws();
  RepeatedDraws(const RepeatedDraws&) = delete;
  /// A generator in the next state; throws where none is left.
  Generator& next(Device device);
  /// The state that next() gave last.
  const DrawState& last() const { return states_[given_ - 1]; }

 private:
  RepeatedDraws* const before_;
  const DrawStates& states_;
  size_t given_ = 0;
  std::unique_ptr<Generator> generator_;
};

namespace detail {
extern thread_local constinit DrawStates* noted_draws;
extern thread_local constinit RepeatedDraws* repeated_draws;
void note_draw_now(const Generator& generator);
}  // namespace detail

/// The generator that a draw is to be made from in the place of this one, null for itself. Asked before the draw, and
/// before `generator` is locked.
inline Generator* repeated_generator(const Generator& generator) {
  RepeatedDraws* repeated = detail::repeated_draws;
  return __builtin_expect(repeated != nullptr, 0) ? &repeated->next(generator.device()) : nullptr;
}
/// Called by who draws, under the generator's mutex, before it does.
inline void note_draw(const Generator& generator) {
  if (__builtin_expect(detail::noted_draws != nullptr, 0)) detail::note_draw_now(generator);
}

/// For a library's draws, after note_draw(): whether states that it keeps on the device are noted, too, and by which
/// copy.
inline bool notes_draws() { return detail::noted_draws != nullptr; }
void note_library_states(Tensor copy);
/// The same of the draw for which repeated_generator() was called last; undefined where none were noted.
const Tensor& repeated_library_states();

}  // namespace facula
