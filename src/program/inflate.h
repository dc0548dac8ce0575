// Decompresses the deflate format of RFC 1951 and computes checksums, for zip archives.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace facula {

/// Fills `out` with what `packed` decompresses to; a ValueError where that is damaged, or has another length.
void inflate(std::string_view packed, std::span<char> out);
/// More than this cannot come of so many bytes.
constexpr uint64_t most_inflated(uint64_t packed) {
  return packed > UINT64_MAX / 2048 ? UINT64_MAX : packed * 1032 + 64;
}

/// The CRC-32 of zip archives.
uint32_t crc32(std::string_view bytes);

}  // namespace facula
