// What the C++ tests state: CHECK ends the process where it fails, EXPECT counts and goes on.
#pragma once

#include <atomic>
#include <cstdio>
#include <cstdlib>

inline std::atomic<int> failures = 0;

#define CHECK(condition)                                                                 \
  do {                                                                                   \
    if (!(condition)) {                                                                  \
      std::fprintf(stderr, "%s:%d: CHECK(%s) failed\n", __FILE__, __LINE__, #condition); \
      std::_Exit(1);                                                                     \
    }                                                                                    \
  } while (false)

#define EXPECT(condition)                                                \
  do {                                                                   \
    if (!(condition)) {                                                  \
      ++failures;                                                        \
      std::printf("FAILED %s:%d: %s\n", __FILE__, __LINE__, #condition); \
    }                                                                    \
  } while (false)
