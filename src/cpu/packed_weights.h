// Caches copies of weights in the order in which kernels read them (policy: packed_weights.cpp).
#pragma once

#include "core/tensor.h"

namespace facula::cpu {

enum class PackedAs : int64_t { Columns, Windows, Tiles, OneDnn, Int8, HalfColumns, WideColumns };

/// What a copy is of, and how it lies. Two copies of the same bytes with the same words are the same.
struct PackedKey {
  Storage* storage;
  const char* data;  // of the first element
  IntList words;     // a PackedAs, then sizes, strides and whatever else decides the copy
};

/// How to pack: writes all `bytes` of the copy.
struct Packing {
  int64_t bytes;
  void (*pack)(const void* context, char* to);
  const void* context;
};

/// The cached copy, packed now where the weight is seen again unchanged; undefined where none is cached: the first
/// time, where others can write to the bytes unseen, where there is no room. `data()` lies on a cache line's boundary.
Tensor packed_weight(const PackedKey& key, const Packing& packing);

template <class F>
Tensor packed_weight(const PackedKey& key, int64_t bytes, const F& pack) {
  auto call = [](const void* context, char* to) { (*static_cast<const F*>(context))(to); };
  return packed_weight(key, Packing{bytes, call, &pack});
}

struct PackedStats {
  int64_t bytes, copies, limit, hits;
};
PackedStats packed_stats();
/// Bound on the bytes of all copies; 0 keeps none. Returns the bound before.
int64_t set_packed_limit(int64_t bytes);
/// Gives the copies back; returns whether there were any.
bool drop_packed_weights();

}  // namespace facula::cpu
