// Holds what an op has found out that makes it cheaper to run again, such as the statistics of a norm. The op notes it
// while a memory budget records the op; src/budget/together.cpp passes it to what runs in its place.
#pragma once

#include <utility>
#include <vector>

#include "core/tensor.h"

namespace facula {

/// Small tensors that nobody else holds or writes to.
using Findings = std::vector<Tensor>;

namespace detail {
inline thread_local constinit Findings* noted_findings = nullptr;
}  // namespace detail

/// While one lives, ops of this thread note what they find out in `findings`.
class NotedFindings {
 public:
  explicit NotedFindings(Findings& findings) : before_(std::exchange(detail::noted_findings, &findings)) {}
  ~NotedFindings() { detail::noted_findings = before_; }
  NotedFindings(const NotedFindings&) = delete;

 private:
  Findings* const before_;
};

/// Where an op is to note what it finds out; null where nobody wants it, or an op inside the same one has noted.
inline Findings* wanted_findings() {
  Findings* findings = detail::noted_findings;
  return __builtin_expect(findings != nullptr, 0) && findings->empty() ? findings : nullptr;
}
}  // namespace facula
