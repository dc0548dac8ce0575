// What a library's choices are kept by: a problem, which is a struct of int64 members only and is compared byte by
// byte.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <unordered_map>

namespace facula::cuda {

struct ProblemHash {
  template <class Problem>
  size_t operator()(const Problem& problem) const {
    constexpr size_t kWords = sizeof(Problem) / sizeof(uint64_t);
    static_assert(sizeof(Problem) % sizeof(uint64_t) == 0);
    uint64_t words[kWords], sum = 0;
    std::memcpy(words, &problem, sizeof problem);
    for (size_t i = 0; i < kWords; ++i) sum += (words[i] + i) * (0x9e3779b97f4a7c15 + 2 * i);
    return sum ^ sum >> 32;
  }
};
struct SameProblem {
  template <class Problem>
  bool operator()(const Problem& a, const Problem& b) const {
    return std::memcmp(&a, &b, sizeof a) == 0;
  }
};
template <class Problem, class Choice>
using ProblemMap = std::unordered_map<Problem, Choice, ProblemHash, SameProblem>;

}  // namespace facula::cuda
