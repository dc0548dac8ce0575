// Eigenvalues and eigenvectors of real matrices that stay in the near caches: a library's calls and workspaces cost
// more there than the work, and its rows are updated element by element.
#pragma once

#include <cstdint>

namespace facula::cpu {

/// Rows up to which this takes less time than the library, measured on Zen 5.
constexpr int64_t kOwnEigen = 128;

/// As geev, one function for each type and level: real and imaginary parts of the eigenvalues of a column-major matrix
/// of finite elements, conjugate pairs next to each other; and where `vectors` is not null the vectors of length one,
/// of a pair as the real and the imaginary part of the first, whose largest element is real. False where the iteration
/// does not end; then what was written is nothing.
template <class T>
inline bool (*own_eigen)(int64_t n, const T* a, T* real, T* imaginary, T* vectors) = nullptr;

}  // namespace facula::cpu
