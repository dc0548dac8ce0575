#include "core/draws.h"

#include <utility>

#include "core/error.h"

namespace facula {
namespace detail {

thread_local constinit DrawStates* noted_draws = nullptr;
thread_local constinit RepeatedDraws* repeated_draws = nullptr;

void note_draw_now(const Generator& generator) {
  DrawState& state = noted_draws->emplace_back(DrawState{generator.device(), {}});
  state.bytes.resize(generator.state_bytes());
  generator.get_state(state.bytes.data());
}

}  // namespace detail

NotedDraws::NotedDraws(DrawStates& states) : before_(std::exchange(detail::noted_draws, &states)) {}
NotedDraws::~NotedDraws() { detail::noted_draws = before_; }

RepeatedDraws::RepeatedDraws(const DrawStates& states)
    : before_(std::exchange(detail::repeated_draws, this)), states_(states) {}
RepeatedDraws::~RepeatedDraws() { detail::repeated_draws = before_; }

Generator& RepeatedDraws::next(Device device) {
  FACULA_CHECK(given_ < states_.size() && states_[given_].device == device, ErrorKind::Runtime,
               "memory budget: an op that runs again draws where it had drawn ", given_, " times, got device ", device);
  const DrawState& state = states_[given_++];
  generator_ = make_generator(device);
  generator_->set_state(state.bytes.data(), state.bytes.size());
  return *generator_;
}

void note_library_states(Tensor copy) { detail::noted_draws->back().library = std::move(copy); }
const Tensor& repeated_library_states() { return detail::repeated_draws->last().library; }

}  // namespace facula
