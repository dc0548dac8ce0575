// Bags of embeddings. `bag_of` is in order: the rows of a bag lie one after the other.
#pragma once

#include "report.cuh"

namespace facula::cuda {

/// The first place of sorted values with one that is not below `value`.
FACULA_FN Int64 first_from(const Int64* sorted, Int64 count, Int64 value) {
  Int64 from = 0, to = count;
  while (from < to) {
    const Int64 middle = from + (to - from) / 2;
    if (sorted[middle] >= value) to = middle;
    else from = middle + 1;
  }
  return from;
}

/// Reports bags out of order or outside.
__global__ __launch_bounds__(256) void check_bags(const Int64* bag_of, Int64 count, Int64 bags, Reporter reporter) {
  for (Int64 i = thread_number(); i < count; i += thread_count()) {
    const Int64 bag = bag_of[i];
    if (bag < 0 || bag >= bags || (i > 0 && bag_of[i - 1] > bag)) report_value(reporter, double(bag));
  }
}

/// A thread for each bag and column.
template <class T>
__global__ __launch_bounds__(256) void bag_sum(void* out, const void* weight, Int64 row_step, Int64 table_rows,
                                               const Int64* rows, const Int64* bag_of, const void* factors, Int64 count,
                                               Int64 bags, Int64 width, Int64 padding, Reporter reporter) {
  for (Int64 at = thread_number(); at < bags * width; at += thread_count()) {
    const Int64 bag = at / width, column = at - bag * width;
    const T* table = static_cast<const T*>(weight) + column;
    Compute<T> sum{};
    for (Int64 i = first_from(bag_of, count, bag); i < count && bag_of[i] == bag; ++i) {
      const Int64 k = checked_index(reporter, rows[i], table_rows, false);
      if (k < 0 || k == padding) continue;
      const Compute<T> value = convert<Compute<T>>(table[k * row_step]);
      sum += factors ? value * convert<Compute<T>>(static_cast<const T*>(factors)[i]) : value;
    }
    static_cast<T*>(out)[at] = convert<T>(sum);
  }
}

template <class T>
__global__ __launch_bounds__(256) void bag_argmax(Int64* out, const void* weight, Int64 row_step, Int64 step,
                                                  Int64 table_rows, const Int64* rows, const Int64* bag_of, Int64 count,
                                                  Int64 bags, Int64 width, Int64 padding, Reporter reporter) {
  for (Int64 at = thread_number(); at < bags * width; at += thread_count()) {
    const Int64 bag = at / width, column = at - bag * width;
    const T* table = static_cast<const T*>(weight) + column * step;
    Int64 best = -1;
    Compute<T> largest{};
    for (Int64 i = first_from(bag_of, count, bag); i < count && bag_of[i] == bag; ++i) {
      const Int64 k = checked_index(reporter, rows[i], table_rows, false);
      if (k < 0 || k == padding) continue;
      const Compute<T> value = convert<Compute<T>>(table[k * row_step]);
      if (best < 0 || value > largest) best = k, largest = value;
    }
    if (best >= 0) out[at] = best;
  }
}

/// Reports offsets that do not begin with 0, that decrease or that are beyond the indices.
__global__ __launch_bounds__(256) void check_offsets(const Int64* offsets, Int64 places, Int64 count,
                                                     Reporter reporter) {
  for (Int64 i = thread_number(); i < places; i += thread_count())
    if (offsets[i] > count || offsets[i] < (i > 0 ? offsets[i - 1] : 0) || (i == 0 && offsets[i] != 0))
      report_value(reporter, double(offsets[i]));
}

/// The bag of every index: the last one that begins no later; what is past the last bag belongs to none.
__global__ __launch_bounds__(256) void bag_members(Int64* bag_of, const Int64* indices, Int64 count,
                                                   const Int64* offsets, Int64 places, Int64 bags, Int64 rows,
                                                   Reporter reporter) {
  for (Int64 i = thread_number(); i < count; i += thread_count()) {
    checked_index(reporter, indices[i], rows, false);
    const Int64 bag = first_from(offsets, places, i + 1) - 1;
    bag_of[i] = bag < 0 ? 0 : bag < bags ? bag : bags;
  }
}

/// How many of every bag's indices count.
__global__ __launch_bounds__(256) void bag_sizes(Int64* sizes, Int64 bags, const Int64* bag_of, const Int64* indices,
                                                 Int64 count, Int64 padding) {
  for (Int64 bag = thread_number(); bag < bags; bag += thread_count()) {
    Int64 found = 0;
    for (Int64 i = first_from(bag_of, count, bag); i < count && bag_of[i] == bag; ++i) found += indices[i] != padding;
    sizes[bag] = found;
  }
}

}  // namespace facula::cuda
