#include "cpu/allocator_region.h"

#include <sys/resource.h>

namespace facula::cpu::detail {

Block* Region::find(size_t size) {
  Block* block = bins_.best_fit(size, size / granule_);
  if (block == nullptr && policy.budget > 0) {
    merge_all();
    block = bins_.best_fit(size, size / granule_);
  }
  return block != nullptr ? block : grow(size);
}

char* Region::place(const Block* block, size_t size) const {
  char* const back = block->end() - size;
  const size_t at_front = overlap(block, block->begin, block->begin + size);
  const size_t at_back = overlap(block, back, block->end());
  char* const end = at_front >= at_back ? block->begin : back;
  if (policy.budget == 0 || std::max(at_front, at_back) == size) return end;
  const size_t cold = static_cast<size_t>(block->hot_begin - block->begin) & ~(granule_ - 1);
  char* const inside = std::min(block->begin + cold, back);
  return overlap(block, inside, inside + size) > std::max(at_front, at_back) ? inside : end;
}

Block* Region::hold(Block* block, size_t size, char* place) {
  take_out(block);
  if (block->begin < place) {
    Block* upper = split(block, static_cast<size_t>(place - block->begin));
    put_in(block);
    block = upper;
  }
  if (block->size > size) put_in(split(block, size));
  block->held = true;
  block->forks = forks;
  slot(block->begin) = block;
  return block;
}

Block* Region::held_at(const void* address) {
  const char* begin = static_cast<const char*>(address);
  if (begin < begin_ || begin >= begin_ + usable_ || static_cast<size_t>(begin - begin_) % granule_ != 0)
    return nullptr;
  return slot(begin);
}

void Region::free(Block* block) {
  slot(block->begin) = nullptr;
  block->held = false;
  block->hot_begin = block->begin;
  block->hot_end = block->end();
  if (block->forks != forks && block->size >= os::kHugePage) cool(block);
  put_in(merge_neighbors(block));
}

void Region::replace_left_out(Block* block, char* begin, size_t bytes) {
  take_out(block);
  meters.reserved.subtract(block->hot());
  block->hot_begin = block->hot_end = block->begin;
  put_in(block);
  if (!os::map_anew(begin, bytes)) hold(block, block->size, block->begin);  // nobody gets it any more
  else if (begin >= begin_ + small_pages_) os::prefer_huge_pages(begin, bytes, !policy.tight);
}

namespace {

char* up(char* at, size_t piece) { return at + (-reinterpret_cast<uintptr_t>(at) & (piece - 1)); }
char* down(char* at, size_t piece) { return at - (reinterpret_cast<uintptr_t>(at) & (piece - 1)); }

}  // namespace

Region& Region::other() const { return this == &large_region ? middle_region : large_region; }

size_t Region::piece() const {
  size_t piece = std::max(granule_, os::kPage);
  while (usable_ / piece > kMostPieces) piece *= 2;
  return piece;
}

size_t Region::bring_pages(const Block* block, char* place, size_t size, size_t wanted) {
  const size_t own = piece();
  char* const hot_begin = std::clamp(block->hot_begin, place, place + size);
  char* const hot_end = std::clamp(block->hot_end, place, place + size);
  size_t moved = 0;
  Block* from = hot_list.oldest();
  for (const auto& [begin, end] : {std::pair(place, hot_begin), std::pair(hot_end, place + size)}) {
    char* to = up(begin, own);
    while (from != nullptr && moved < wanted && to + own <= end) {
      Block* const next = from->newer;
      Region& source = contains(from) ? *this : other();
      const size_t part = source.piece(), both = std::max(part, own);
      char* const last = down(from->hot_end, part);
      char* const first = std::min(up(from->hot_begin, part), last);
      const size_t room = static_cast<size_t>(down(end, own) - to);
      const size_t most = std::min({room, static_cast<size_t>(last - first), wanted - moved + both - 1}) & ~(both - 1);
      const size_t went = from == block ? 0 : move_run(last - most, to, most, both);
      source.moved_ = source.moved_ || went > 0;
      moved += went;
      to += went;
      if (went > 0) {
        const auto rest = static_cast<size_t>(from->hot_end - last);
        os::discard(last, rest);
        meters.reserved.subtract(rest);
        hot_list.cut(from, last - went);
      }
      if (!policy.can_move) return moved;
      if (went == 0 || from->hot() == 0) from = next;
    }
  }
  return moved;
}

void Region::forget_pages(const Block* block, char* place, size_t size, size_t moved) {
  char* const hot_begin = std::clamp(block->hot_begin, place, place + size);
  char* const hot_end = std::clamp(block->hot_end, place, place + size);
  os::discard(place, static_cast<size_t>(hot_begin - place));
  os::discard(hot_end, static_cast<size_t>(place + size - hot_end));
  meters.reserved.subtract(moved);
}

void Region::renew() {
  if (!moved_) return;
  moved_ = false;
  for (const Block* block = last_; block != nullptr; block = block->before) {
    const bool is_cold = !block->held && block->hot() == 0;
    if (is_cold && os::map_anew(block->begin, block->size))
      advise_pages(static_cast<size_t>(block->begin - begin_), static_cast<size_t>(block->end() - begin_));
    else moved_ = true;
  }
}

void Region::merge_all() {
  for (Block* block = last_; block != nullptr; block = block->before) {
    while (!block->held && block->before != nullptr && !block->before->held && may_join(block->before, block)) {
      Block* before = block->before;
      take_out(before);
      take_out(block);
      put_in(block = join(before, block));
    }
  }
}

size_t Region::fresh_bytes(const Block* block, size_t size, char* place) {
  return size - overlap(block, place, place + size);
}

Block* Region::hottest(Block* block, size_t size) const {
  size_t least = fresh_bytes(block, size, place(block, size));
  int searched = 0;
  for (Block* other = hot_list.newest(); other != nullptr && searched < kBlocksSearched; other = other->older) {
    if (other->size < size || !contains(other)) continue;
    ++searched;
    const size_t fresh = fresh_bytes(other, size, place(other, size));
    if (fresh < least) {
      least = fresh;
      block = other;
    }
    if (least == 0) break;
  }
  return block;
}

size_t Region::move_run(char* from, char* to, size_t bytes, size_t piece) {
  if (bytes == 0) return 0;
  const os::Moved done = os::move_pages(from, to, bytes);
  policy.can_move = policy.can_move && done != os::Moved::No;
  moved_ = moved_ || done == os::Moved::Yes;
  if (done == os::Moved::Yes) return bytes;
  if (!policy.can_move || bytes <= piece) return 0;
  const size_t half = (bytes / 2 + piece - 1) & ~(piece - 1);
  const size_t upper = move_run(from + (bytes - half), to, half, piece);
  return upper < half ? upper : upper + move_run(from, to + half, bytes - half, piece);
}

size_t Region::overlap(const Block* block, const char* begin, const char* end) {
  const char* first = std::max<const char*>(block->hot_begin, begin);
  const char* last = std::min<const char*>(block->hot_end, end);
  return last > first ? static_cast<size_t>(last - first) : 0;
}

void Region::put_in(Block* block) {
  bins_.insert(block, block->size / granule_);
  if (block->hot() > 0) hot_list.append(block);
}

void Region::take_out(Block* block) {
  bins_.remove(block, block->size / granule_);
  if (block->hot() > 0) hot_list.remove(block);
}

Block* Region::split(Block* block, size_t size) {
  Block* upper = records.make(block->begin + size, block->size - size);
  upper->before = block;
  upper->after = block->after;
  (block->after != nullptr ? block->after->before : last_) = upper;
  block->after = upper;
  block->size = size;
  upper->hot_begin = std::clamp(block->hot_begin, upper->begin, upper->end());
  upper->hot_end = std::clamp(block->hot_end, upper->begin, upper->end());
  block->hot_begin = std::min(block->hot_begin, block->end());
  block->hot_end = std::min(block->hot_end, block->end());
  return upper;
}

Block* Region::merge_neighbors(Block* block) {
  if (Block* before = block->before; before != nullptr && !before->held && may_join(before, block)) {
    take_out(before);
    block = join(before, block);
  }
  if (Block* after = block->after; after != nullptr && !after->held && may_join(block, after)) {
    take_out(after);
    block = join(block, after);
  }
  return block;
}

bool Region::may_join(const Block* lower, const Block* upper) {
  return policy.budget == 0 || lower->hot() == 0 || upper->hot() == 0 || lower->hot_end == upper->hot_begin;
}

Block* Region::join(Block* lower, Block* upper) {
  join_hot(lower, upper);
  lower->size += upper->size;
  lower->after = upper->after;
  (upper->after != nullptr ? upper->after->before : last_) = lower;
  records.recycle(upper);
  return lower;
}

void Region::cool(Block* block) {
  os::discard(block->hot_begin, block->hot());
  meters.reserved.subtract(block->hot());
  block->hot_begin = block->hot_end = block->begin;
}

void Region::join_hot(Block* lower, Block* upper) {
  if (lower->hot() > 0 && upper->hot() > 0) {
    const size_t gap = static_cast<size_t>(upper->hot_begin - lower->hot_end);
    Block* smaller = lower->hot() < upper->hot() ? lower : upper;
    if (gap <= smaller->hot() && !passes_bound(gap)) {
      meters.reserved.add(gap);
      lower->hot_end = upper->hot_end;
      return;
    }
    cool(smaller);
  }
  if (upper->hot() > 0) {
    lower->hot_begin = upper->hot_begin;
    lower->hot_end = upper->hot_end;
  }
}

Block* Region::grow(size_t size) {
  if (begin_ == nullptr && !reserve()) return nullptr;
  const bool extend = last_ != nullptr && !last_->held;
  const size_t missing = size - (extend ? last_->size : 0);
  const size_t more = (missing + growth_ - 1) / growth_ * growth_;
  if (more > reserved_ - usable_ || !commit(usable_ + more)) return nullptr;
  Block* block = records.make(begin_ + usable_, more);
  usable_ += more;
  block->before = last_;
  if (last_ != nullptr) last_->after = block;
  last_ = block;
  block = merge_neighbors(block);
  put_in(block);
  return block;
}

bool Region::reserve() {
  size_t bytes = 4 * os::total_memory();
  rlimit address_space{};
  if (getrlimit(RLIMIT_AS, &address_space) == 0 && address_space.rlim_cur != RLIM_INFINITY)
    bytes = std::min<size_t>(bytes, address_space.rlim_cur / 4);
  bytes = (bytes + os::kHugePage - 1) & ~(os::kHugePage - 1);
  for (; bytes >= 64 * kMiB; bytes = bytes / 2 & ~(os::kHugePage - 1)) {
    begin_ = os::reserve(bytes);
    char* slots = begin_ != nullptr ? os::reserve(slot_bytes(bytes)) : nullptr;
    slots_ = reinterpret_cast<Block**>(slots);
    if (slots != nullptr) break;
    if (begin_ != nullptr) os::unreserve(begin_, bytes);
    begin_ = nullptr;
  }
  reserved_ = begin_ != nullptr ? bytes : 0;
  return begin_ != nullptr;
}

size_t Region::slot_bytes(size_t bytes) const {
  return (bytes / granule_ * sizeof(Block*) + os::kPage - 1) & ~(os::kPage - 1);
}

bool Region::commit(size_t usable) {
  char* slots = reinterpret_cast<char*>(slots_);
  const size_t had = slot_bytes(usable_), want = slot_bytes(usable);
  if (want > had && !os::commit(slots + had, want - had)) return false;
  if (!os::commit(begin_ + usable_, usable - usable_)) return false;
  advise_pages(usable_, usable);
  return true;
}

void Region::advise_pages(size_t from, size_t to) {
  from = std::max(from, small_pages_);
  if (to > from) os::prefer_huge_pages(begin_ + from, to - from, !policy.tight);
}

}  // namespace facula::cpu::detail
