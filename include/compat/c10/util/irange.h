// Integers in order, for loops: irange(n), irange(begin, end).
#pragma once

#include <iterator>
#include <type_traits>

namespace torch {

template <class T>
class IntegerRange {
 public:
  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = T;
    using difference_type = std::ptrdiff_t;
    using pointer = const T*;
    using reference = T;
    explicit constexpr iterator(T at) : at_(at) {}
    constexpr T operator*() const { return at_; }
    constexpr iterator& operator++() {
      ++at_;
      return *this;
    }
    constexpr bool operator==(const iterator&) const = default;

   private:
    T at_;
  };
  constexpr IntegerRange(T begin, T end) : begin_(begin), end_(begin < end ? end : begin) {}
  constexpr iterator begin() const { return iterator(begin_); }
  constexpr iterator end() const { return iterator(end_); }

 private:
  T begin_, end_;
};

template <class End>
  requires std::is_integral_v<End>
constexpr IntegerRange<End> irange(End end) {
  return {End(), end};
}
template <class Begin, class End>
  requires(std::is_integral_v<Begin> && std::is_integral_v<End>)
constexpr IntegerRange<End> irange(Begin begin, End end) {
  return {static_cast<End>(begin), end};
}

}  // namespace torch
namespace c10 = torch;  // NOLINT
