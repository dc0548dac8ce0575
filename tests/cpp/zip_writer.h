// Zip archives for tests: stored records, their bytes at multiples of 64.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "program/inflate.h"

class ZipWriter {
 public:
  /// `deflated`: `data` is packed already, and has `size` bytes and the checksum `crc` unpacked.
  void add(std::string_view name, std::string_view data, bool deflated = false, uint64_t size = 0, uint32_t crc = 0) {
    if (!deflated) size = data.size(), crc = facula::crc32(data);
    const size_t offset = bytes_.size();
    const size_t padding = (64 - (offset + 30 + name.size() + 4) % 64) % 64;
    std::string shared = number(deflated ? 8 : 0, 2) + number(0, 4) + number(crc, 4) + number(data.size(), 4) +
                         number(size, 4) + number(name.size(), 2);
    bytes_ += "PK\3\4" + number(20, 2) + number(0, 2) + shared + number(padding + 4, 2) + std::string(name);
    bytes_ += "FB" + number(padding, 2) + std::string(padding, 'Z');
    bytes_ += data;
    directory_ += "PK\1\2" + number(20, 2) + number(20, 2) + number(0, 2) + shared + number(0, 12) + number(offset, 4);
    directory_ += name;
    ++count_;
  }
  std::string bytes() const {
    return bytes_ + directory_ + "PK\5\6" + number(0, 4) + number(count_, 2) + number(count_, 2) +
           number(directory_.size(), 4) + number(bytes_.size(), 4) + number(0, 2);
  }

 private:
  static std::string number(uint64_t value, int bytes) {
    std::string text;
    for (int i = 0; i < bytes; ++i) text += static_cast<char>(i < 8 ? value >> 8 * i & 0xff : 0);
    return text;
  }

  std::string bytes_, directory_;
  size_t count_ = 0;
};
