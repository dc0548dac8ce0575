// What all kernels of attention share: where the matrices of a head lie, and what dropout keeps.
#pragma once

#include "attention_args.h"
#include "block.cuh"

namespace facula::cuda {

template <class T>
struct Head {
  T* data;
  Int64 row, column;
  FACULA_FN T& at(Int64 r, Int64 c) const { return data[r * row + c * column]; }
};

/// Index is 32 bits where there are so few heads: then divisions are short.
template <class T, class Index>
FACULA_FN Head<T> head_of(const AttentionMatrix& m, const AttentionArgs& p, Index head) {
  if (!m.data) return {nullptr, m.row, m.column};
  Int64 offset = 0;
  for (int d = p.batch_dims - 1; d > 0; --d) {
    const Index size = Index(p.batch_sizes[d]), next = head / size;
    offset += Int64(head - next * size) * m.batch[d];
    head = next;
  }
  offset += Int64(head) * m.batch[0];  // of the outermost dimension; without any the only head is the first
  return {static_cast<T*>(m.data) + offset, m.row, m.column};
}

template <class A>
FACULA_FN A never() {
  return -kernels::Float<A>::infinity;
}

/// The hash of a row of weights, from the seed and the row's number among all scores.
struct DropoutHash {
  UInt32 first, second;
};
FACULA_FN DropoutHash dropout_hash(UInt64 seed, Int64 row) {
  UInt64 x = seed + UInt64(row + 1) * 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  x ^= x >> 31;
  return {UInt32(x), UInt32(x >> 32)};
}
/// Hashes of columns from here on are stored.
FACULA_FN UInt32 dropout_threshold(double p) {
  const double most = 4294967295.0, at = p * 4294967296.0;
  return UInt32(at < most ? at : most);
}
FACULA_FN bool dropout_keeps(const DropoutHash& row, UInt32 column, UInt32 threshold) {
  UInt32 x = column * 0x9e3779b9u + row.first;
  x = ((x ^ x >> 16) * 0x85ebca6bu) ^ row.second;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return (x ^ x >> 16) >= threshold;
}

/// What dropout keeps of a row, as on the CPU.
struct DropoutRow {
  DropoutHash hash;
  UInt32 threshold;

  FACULA_FN DropoutRow(UInt64 seed, Int64 row, double p)
      : hash(dropout_hash(seed, row)), threshold(dropout_threshold(p)) {}
  FACULA_FN bool keeps(UInt32 column) const { return dropout_keeps(hash, column, threshold); }
};

}  // namespace facula::cuda
