// Results that are larger than the caches are written around them: a store that goes through a cache reads the line
// first, and puts out what the next op may want. Results are made in a small block, which stays in the first-level
// cache, and whole lines of it are sent to memory. Measured with 150 MB on two threads: a third less time where one
// tensor is read, a fifth where two are.
#pragma once

#include <algorithm>
#include <cstring>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "cpu/isa.h"

namespace facula::cpu::FACULA_ISA {

constexpr int64_t kStreamedBytes = int64_t{16} << 20;  // results from here on; half of what cores share at most
constexpr int64_t kStreamBlock = 2048;                 // bytes

inline void store_around([[maybe_unused]] char* to, [[maybe_unused]] const char* from) {
#if defined(__AVX512F__)
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
#elif defined(__AVX__)
  _mm256_stream_si256(reinterpret_cast<__m256i*>(to), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__x86_64__)
  _mm_stream_si128(reinterpret_cast<__m128i*>(to), _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
  std::memcpy(to, from, kVectorBytes);
#endif
}

/// Copies a block to memory. Lines of which it is only a part go through the caches.
inline void send_block(char* to, const char* from, int64_t bytes) {
  constexpr int64_t kLine = 64;
  const int64_t head = std::min(bytes, -static_cast<int64_t>(reinterpret_cast<uintptr_t>(to)) & (kLine - 1));
  const int64_t lines = (bytes - head) / kLine * kLine;
  std::memcpy(to, from, static_cast<size_t>(head));
  to += head, from += head;
  for (int64_t i = 0; i < lines; i += kVectorBytes) store_around(to + i, from + i);
  std::memcpy(to + lines, from + lines, static_cast<size_t>(bytes - head - lines));
}

/// Where a thread writes elements that follow each other in memory: there, or in a block that is sent there.
template <class T>
class BlockWriter {
 public:
  static constexpr int64_t kElements = kStreamBlock / static_cast<int64_t>(sizeof(T));
  /// Whether a result of so many elements, of whose memory nothing is read, is better sent.
  static constexpr bool is_worth(int64_t elements) {
    return elements >= kStreamedBytes / static_cast<int64_t>(sizeof(T));
  }

  BlockWriter(T* out, bool around) : out_(out), around_(around) {}
  BlockWriter(const BlockWriter&) = delete;
  ~BlockWriter() {
    if (!around_) return;
    send();
#if defined(__x86_64__)
    _mm_sfence();  // other threads see the stores in order
#endif
  }

  /// Room for the next `count` elements: kElements at most where they are sent.
  T* next(int64_t count) {
    if (!around_) return std::exchange(out_, out_ + count);
    if (filled_ + count > kElements) send();
    return block_ + std::exchange(filled_, filled_ + count);
  }

 private:
  void send() {
    send_block(reinterpret_cast<char*>(out_), reinterpret_cast<const char*>(block_),
               filled_ * static_cast<int64_t>(sizeof(T)));
    out_ += filled_;
    filled_ = 0;
  }

  T* out_;
  int64_t filled_ = 0;
  bool around_;
  alignas(64) T block_[kElements];
};

}  // namespace facula::cpu::FACULA_ISA
