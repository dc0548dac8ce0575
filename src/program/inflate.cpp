#include "program/inflate.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "core/error.h"

namespace facula {
namespace {

[[noreturn, gnu::cold]] void fail(const char* why) { throw_error(ErrorKind::Value, "does not decompress: ", why); }

constexpr int kLongest = 15;    // bits of a code
constexpr int kLiterals = 288;  // literals, the end, lengths
constexpr int kDistances = 30;
constexpr int kEndOfBlock = 256;

/// Bits of a stream, lowest first. Beyond the end come zeros, and the reader counts how many of them were consumed.
class Bits {
 public:
  explicit Bits(std::string_view bytes) : bytes_(bytes) {}

  uint32_t peek(int count) {
    while (held_ < count) {
      bits_ |= static_cast<uint64_t>(at_ < bytes_.size() ? static_cast<uint8_t>(bytes_[at_]) : 0) << held_;
      ++at_;
      held_ += 8;
    }
    return static_cast<uint32_t>(bits_ & ((uint64_t{1} << count) - 1));
  }
  void skip(int count) {
    bits_ >>= count;
    held_ -= count;
    if (at_ > bytes_.size() && (at_ - bytes_.size()) * 8 > static_cast<size_t>(held_)) fail("it ends early");
  }
  uint32_t consume(int count) {
    const uint32_t found = peek(count);
    skip(count);
    return found;
  }
  /// The bytes from the next whole one on.
  std::string_view whole(size_t count) {
    skip(held_ % 8);
    const size_t begin = at_ - static_cast<size_t>(held_ / 8);
    if (begin > bytes_.size() || count > bytes_.size() - begin) fail("it ends early");
    bits_ = 0;
    held_ = 0;
    at_ = begin + count;
    return bytes_.substr(begin, count);
  }

 private:
  std::string_view bytes_;
  size_t at_ = 0;
  uint64_t bits_ = 0;
  int held_ = 0;
};

/// A Huffman code, by the lengths of its symbols: a table that every fifteen bits find their symbol in.
class Code {
 public:
  Code() : table_(size_t{1} << kLongest) {}

  void make(std::span<const uint8_t> lengths) {
    std::array<uint32_t, kLongest + 1> count{}, next{};
    for (uint8_t length : lengths) ++count[length];
    count[0] = 0;
    uint32_t code = 0;
    for (size_t length = 1; length <= kLongest; ++length) {
      code = (code + count[length - 1]) << 1;
      next[length] = code;
      if (code + count[length] > (1u << length)) fail("more codes than there can be");
    }
    std::fill(table_.begin(), table_.end(), uint16_t{0});
    for (size_t symbol = 0; symbol < lengths.size(); ++symbol) {
      if (const unsigned length = lengths[symbol]) put(next[length]++, length, symbol);
    }
  }
  unsigned read(Bits& bits) const {
    const uint16_t found = table_[bits.peek(kLongest)];
    if (found == 0) fail("a code that stands for nothing");
    bits.skip(found & 15);
    return found >> 4;
  }

 private:
  void put(uint32_t code, unsigned length, size_t symbol) {
    uint32_t reversed = 0;
    for (unsigned i = 0; i < length; ++i) reversed |= (code >> i & 1) << (length - 1 - i);
    for (size_t at = reversed; at < table_.size(); at += size_t{1} << length)
      table_[at] = static_cast<uint16_t>(symbol << 4 | length);
  }

  std::vector<uint16_t> table_;  // symbol * 16 + length; 0: none
};

class Inflater {
 public:
  Inflater(std::string_view packed, std::span<char> out) : bits_(packed), out_(out) {}

  void run() {
    bool last = false;
    while (!last) {
      last = bits_.consume(1) != 0;
      switch (bits_.consume(2)) {
        case 0: stored(); break;
        case 1: fixed_codes(), compressed(); break;
        case 2: own_codes(), compressed(); break;
        default: fail("a block of no known kind");
      }
    }
    if (at_ != out_.size()) fail("it is shorter than it should be");
  }

 private:
  char* room(size_t count) {
    if (count > out_.size() - at_) fail("it is longer than it should be");
    char* const begin = out_.data() + at_;
    at_ += count;
    return begin;
  }
  void stored() {
    const std::string_view sizes = bits_.whole(4);
    const auto byte = [&](size_t i) { return static_cast<unsigned>(static_cast<uint8_t>(sizes[i])); };
    const unsigned count = byte(0) | byte(1) << 8, check = byte(2) | byte(3) << 8;
    if ((count ^ check) != 0xffff) fail("a length that contradicts itself");
    const std::string_view bytes = bits_.whole(count);
    if (count) std::memcpy(room(count), bytes.data(), count);
  }
  void fixed_codes() {
    std::array<uint8_t, kLiterals> lengths;
    for (size_t i = 0; i < lengths.size(); ++i) lengths[i] = i < 144 ? 8 : i < 256 ? 9 : i < 280 ? 7 : 8;
    literals_.make(lengths);
    std::array<uint8_t, 32> fives;
    fives.fill(5);
    distances_.make(fives);
  }
  // The lengths of the codes are themselves written in a code.
  void own_codes() {
    constexpr uint8_t kOrder[] = {16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15};
    const size_t literals = bits_.consume(5) + 257, distances = bits_.consume(5) + 1, count = bits_.consume(4) + 4;
    std::array<uint8_t, 19> first{};
    for (size_t i = 0; i < count; ++i) first[kOrder[i]] = static_cast<uint8_t>(bits_.consume(3));
    literals_.make(first);
    std::array<uint8_t, 320> lengths{};
    for (size_t i = 0; i < literals + distances;) {
      const unsigned symbol = literals_.read(bits_);
      if (symbol < 16) {
        lengths[i++] = static_cast<uint8_t>(symbol);
        continue;
      }
      if (symbol == 16 && i == 0) fail("a repetition of nothing");
      const uint8_t repeated = symbol == 16 ? lengths[i - 1] : 0;
      size_t times = symbol == 16 ? 3 + bits_.consume(2) : symbol == 17 ? 3 + bits_.consume(3) : 11 + bits_.consume(7);
      if (times > literals + distances - i) fail("more codes than it says");
      while (times--) lengths[i++] = repeated;
    }
    literals_.make({lengths.data(), literals});
    distances_.make({lengths.data() + literals, distances});
  }
  void compressed() {
    for (unsigned symbol; (symbol = literals_.read(bits_)) != kEndOfBlock;) {
      if (symbol < kEndOfBlock) *room(1) = static_cast<char>(symbol);
      else repeat(length_of(symbol - kEndOfBlock - 1));
    }
  }
  size_t length_of(unsigned i) {
    if (i > 28) fail("a length that there is not");
    if (i == 28) return 258;
    if (i < 8) return i + 3;
    const int extra = static_cast<int>(i / 4) - 1;
    return ((4 + i % 4) << extra) + 3 + bits_.consume(extra);
  }
  void repeat(size_t count) {
    const unsigned i = distances_.read(bits_);
    if (i >= kDistances) fail("a distance that there is not");
    size_t distance = i + 1;
    if (i >= 4) {
      const int extra = static_cast<int>(i / 2) - 1;
      distance = ((2 + i % 2) << extra) + 1 + bits_.consume(extra);
    }
    if (distance > at_) fail("a distance before the beginning");
    char* to = room(count);
    for (const char* from = to - distance; count > 0; --count) *to++ = *from++;
  }

  Bits bits_;
  std::span<char> out_;
  size_t at_ = 0;
  Code literals_, distances_;
};

// Eight bytes at a time, each with a table of its own.
using CrcTables = std::array<std::array<uint32_t, 256>, 8>;
CrcTables make_crc_tables() {
  CrcTables tables{};
  for (uint32_t i = 0; i < 256; ++i) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
    tables[0][i] = crc;
  }
  for (size_t k = 1; k < 8; ++k) {
    for (size_t i = 0; i < 256; ++i) tables[k][i] = tables[k - 1][i] >> 8 ^ tables[0][tables[k - 1][i] & 0xff];
  }
  return tables;
}

}  // namespace

void inflate(std::string_view packed, std::span<char> out) { Inflater(packed, out).run(); }

uint32_t crc32(std::string_view bytes) {
  static const CrcTables tables = make_crc_tables();
  uint32_t crc = ~0u;
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint32_t low, high;
    std::memcpy(&low, bytes.data() + at, 4);
    std::memcpy(&high, bytes.data() + at + 4, 4);
    low ^= crc;
    crc = tables[7][low & 0xff] ^ tables[6][low >> 8 & 0xff] ^ tables[5][low >> 16 & 0xff] ^ tables[4][low >> 24] ^
          tables[3][high & 0xff] ^ tables[2][high >> 8 & 0xff] ^ tables[1][high >> 16 & 0xff] ^ tables[0][high >> 24];
  }
  for (; at < bytes.size(); ++at) crc = crc >> 8 ^ tables[0][(crc ^ static_cast<uint8_t>(bytes[at])) & 0xff];
  return ~crc;
}

}  // namespace facula
