#include "cpu/generator.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "core/error.h"

namespace facula::cpu {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the state's bytes are written as they lie in memory");

void Mt19937::seed(uint64_t seed) {
  seed_ = seed;
  state_[0] = static_cast<uint32_t>(seed);
  for (uint32_t j = 1; j < kWords; ++j) state_[j] = 1812433253u * (state_[j - 1] ^ (state_[j - 1] >> 30)) + j;
  left_ = 1;
  next_ = 0;
  next_double_normal.reset();
  next_float_normal.reset();
}

std::unique_ptr<Generator> Mt19937::clone() const {
  auto other = std::make_unique<Mt19937>(kDefaultSeed, device());
  uint8_t state[kStateBytes];
  get_state(state);
  other->set_state(state, sizeof state);
  return other;
}

// The two loops over whole blocks, built for the baseline and for AVX2, which halves their time.
namespace {

constexpr int kBlock = 624;
constexpr int kShift = 397;

[[gnu::always_inline]] inline uint32_t twist(uint32_t word, uint32_t following) {
  const uint32_t mixed = (word & 0x80000000u) | (following & 0x7fffffffu);
  return (mixed >> 1) ^ ((0u - (following & 1)) & 0x9908b0dfu);
}

// Every word depends on the one 397 further on, cyclically. Cut where that wraps, both loops vectorize: the
// first reads only words of the old block, the second words written at least 227 steps before.
[[gnu::always_inline]] inline void next_words_body(uint32_t* state) {
  constexpr int kWrap = kBlock - kShift;
  for (int i = 0; i < kWrap; ++i) state[i] = state[i + kShift] ^ twist(state[i], state[i + 1]);
  for (int i = kWrap; i < kBlock - 1; ++i) state[i] = state[i - kWrap] ^ twist(state[i], state[i + 1]);
  state[kBlock - 1] = state[kShift - 1] ^ twist(state[kBlock - 1], state[0]);
}

[[gnu::always_inline]] inline void temper_body(uint32_t* __restrict out, const uint32_t* __restrict words,
                                               size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint32_t word = words[i];
    word ^= word >> 11;
    word ^= (word << 7) & 0x9d2c5680;
    word ^= (word << 15) & 0xefc60000;
    out[i] = word ^ (word >> 18);
  }
}

#if defined(__x86_64__) && !defined(__AVX2__)
[[gnu::target("avx2")]] void next_words_avx2(uint32_t* state) { next_words_body(state); }
[[gnu::target("avx2")]] void temper_avx2(uint32_t* out, const uint32_t* words, size_t count) {
  temper_body(out, words, count);
}
bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}
void next_words(uint32_t* state) { has_avx2() ? next_words_avx2(state) : next_words_body(state); }
void temper(uint32_t* out, const uint32_t* words, size_t count) {
  has_avx2() ? temper_avx2(out, words, count) : temper_body(out, words, count);
}
#else
void next_words(uint32_t* state) { next_words_body(state); }
void temper(uint32_t* out, const uint32_t* words, size_t count) { temper_body(out, words, count); }
#endif

}  // namespace

void Mt19937::next_block() {
  static_assert(kWords == kBlock);
  next_words(state_);
  left_ = kWords;
  next_ = 0;
}

void Mt19937::fill32(uint32_t* out, size_t count) {
  while (count > 0) {
    if (left_ == 1) {
      next_block();
      ++left_;  // as if the first word were still to be counted
    }
    const size_t part = std::min(count, static_cast<size_t>(left_ - 1));
    temper(out, state_ + next_, part);
    out += part;
    count -= part;
    next_ += static_cast<uint32_t>(part);
    left_ -= static_cast<int32_t>(part);
  }
}

void Mt19937::fill64(uint64_t* out, size_t count) {
  constexpr size_t kChunk = 256;
  uint32_t draws[2 * kChunk];
  for (size_t done = 0; done < count; done += kChunk) {
    const size_t part = std::min(kChunk, count - done);
    fill32(draws, 2 * part);
    for (size_t i = 0; i < part; ++i) out[done + i] = uint64_t{draws[2 * i]} << 32 | draws[2 * i + 1];
  }
}

namespace {

struct StateBytes {
  uint64_t seed;
  int32_t left;
  int32_t seeded;
  uint64_t next;
  uint64_t words[624];
  double unused_x;
  double double_normal;
  double unused_rho;
  int32_t has_double_normal;
  int32_t padding;
  float float_normal;
  uint8_t has_float_normal;
  uint8_t end_padding[3];
};
static_assert(sizeof(StateBytes) == Mt19937::kStateBytes);

}  // namespace

void Mt19937::get_state(uint8_t* out) const {
  StateBytes bytes{};
  bytes.seed = seed_;
  bytes.left = left_;
  bytes.seeded = 1;
  bytes.next = next_;
  std::copy_n(state_, kWords, bytes.words);
  bytes.double_normal = next_double_normal.value_or(0.0);
  bytes.has_double_normal = next_double_normal.has_value();
  bytes.float_normal = next_float_normal.value_or(0.0f);
  bytes.has_float_normal = next_float_normal.has_value();
  std::memcpy(out, &bytes, sizeof bytes);
}

void Mt19937::set_state(const uint8_t* state, size_t size) {
  FACULA_CHECK(size == kStateBytes, ErrorKind::Runtime, "Generator.set_state: expected ", kStateBytes, " bytes, got ",
               size);
  StateBytes bytes;
  std::memcpy(&bytes, state, sizeof bytes);
  FACULA_CHECK(bytes.seeded == 1 && bytes.left >= 1 && bytes.left <= kWords && bytes.next <= kWords, ErrorKind::Runtime,
               "Generator.set_state: expected the state of an MT19937 generator, got seeded ", bytes.seeded, ", left ",
               bytes.left, ", next ", bytes.next);
  FACULA_CHECK(bytes.left == 1 || bytes.next + static_cast<uint64_t>(bytes.left) == kWords + 1, ErrorKind::Runtime,
               "Generator.set_state: expected left + next to be ", kWords + 1, ", got left ", bytes.left, ", next ",
               bytes.next);
  seed_ = bytes.seed;
  left_ = bytes.left;
  next_ = static_cast<uint32_t>(bytes.next);
  std::transform(bytes.words, bytes.words + kWords, state_, [](uint64_t word) { return static_cast<uint32_t>(word); });
  next_double_normal.reset();
  next_float_normal.reset();
  if (bytes.has_double_normal != 0) next_double_normal = bytes.double_normal;
  if (bytes.has_float_normal != 0) next_float_normal = bytes.float_normal;
}

}  // namespace facula::cpu
