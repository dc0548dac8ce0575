#include "emulator/views.h"

#include <algorithm>
#include <cstring>

#include "emulator/stream.h"

namespace facula::emulator {
namespace {

/// Calls act(offset, bytes) for every run of bytes that differ.
template <class F>
void each_difference(const char* a, const char* b, size_t bytes, F act) {
  constexpr size_t kStep = 64;
  for (size_t at = 0; at < bytes;) {
    const size_t step = std::min(kStep, bytes - at);
    if (std::memcmp(a + at, b + at, step) == 0) {
      at += step;
      continue;
    }
    while (a[at] == b[at]) ++at;
    size_t end = at;
    while (end < bytes && a[end] != b[end]) ++end;
    act(at, end - at);
    at = end;
  }
}

}  // namespace

void Views::begin_kernel() {
  static std::mutex one_at_a_time;
  turn_ = std::unique_lock(one_at_a_time);
  for (const Piece& piece : pieces_of_memory()) {
    std::vector<char> now(piece.memory, piece.memory + piece.bytes);
    views_.push_back({piece, now, now, now});
  }
}

void Views::begin_block() {
  has_looked_ = false;
  for (View& v : views_) {
    std::memcpy(v.memory, v.before.data(), v.bytes);
    v.seen = v.before;
  }
}

void Views::fence() {
  for (View& v : views_) {
    each_difference(v.memory, v.seen.data(), v.bytes,
                    [&](size_t at, size_t bytes) { std::memcpy(v.given.data() + at, v.memory + at, bytes); });
    if (has_looked_) std::memcpy(v.memory, v.given.data(), v.bytes);
    std::memcpy(v.seen.data(), v.memory, v.bytes);
  }
}

Views::View* Views::view_of(const void* word) {
  const auto* at = static_cast<const char*>(word);
  const auto found = std::find_if(views_.begin(), views_.end(),
                                  [&](const View& v) { return at >= v.memory && at < v.memory + v.bytes; });
  return found == views_.end() ? nullptr : &*found;  // none: shared memory
}

void Views::begin_atomic(void* word, size_t bytes) {
  View* v = view_of(word);
  if (!v) return;
  const auto at = static_cast<size_t>(static_cast<char*>(word) - v->memory);
  const bool is_mine = std::memcmp(word, v->seen.data() + at, bytes) != 0;  // the block wrote it itself
  if (!is_mine) std::memcpy(word, v->given.data() + at, bytes);
}

void Views::end_atomic(void* word, size_t bytes) {
  View* v = view_of(word);
  if (!v) return;
  const auto at = static_cast<size_t>(static_cast<char*>(word) - v->memory);
  std::memcpy(v->given.data() + at, word, bytes);
  std::memcpy(v->seen.data() + at, word, bytes);
  has_looked_ = true;
}

void Views::end_block() {
  for (View& v : views_)
    each_difference(v.memory, v.seen.data(), v.bytes, [&](size_t at, size_t bytes) {
      orphans_.push_back({v.memory + at, {v.memory + at, v.memory + at + bytes}});
    });
}

void Views::end_kernel() {
  for (View& v : views_) std::memcpy(v.memory, v.given.data(), v.bytes);
  for (const Orphan& orphan : orphans_) std::copy(orphan.bytes.begin(), orphan.bytes.end(), orphan.to);
  views_.clear();
  orphans_.clear();
  turn_.unlock();
}

}  // namespace facula::emulator
