// Where the elements of a plan or a group lie, row by row, and how they are packed.
#pragma once

#include <cstring>

#include "cpu/isa/by_size.h"
#include "cpu/isa/cast.h"
#include "ops/iterator.h"

namespace facula::cpu::FACULA_ISA {

constexpr int64_t kChunk = 1024;  // elements that are packed at once, at most

/// What a loop reads of a number: copies of it in the compute dtype.
struct Repeated {
  alignas(64) char bytes[kRepeats * 16];

  void set(DType compute, DType from, const char* number) {
    char converted[16];
    if (compute != from) cast(compute, from, 1, converted, number);
    set(item_size(compute), compute != from ? converted : number);
  }
  void set(int64_t item, const char* number) {
    visit_size(item, [&]<class T>(TypeTag<T>) {
      T value;
      std::memcpy(&value, number, sizeof value);
      std::fill_n(reinterpret_cast<T*>(bytes), kRepeats, value);
    });
  }
};

/// Walks the multi-index of rows; position is the flat element number.
struct Position {
  Position(const Dims& shape, int64_t flat) : shape(shape), index(shape.size()) {
    for (size_t d = 0; d < shape.size(); ++d) {
      index[d] = flat % shape[d];
      flat /= shape[d];
    }
  }
  int64_t offset(const PlanOperand& operand) const {
    int64_t bytes = 0;
    for (size_t d = 0; d < index.size(); ++d) bytes += index[d] * operand.strides[d];
    return bytes;
  }
  int64_t left_in_row() const { return shape[0] - index[0]; }
  /// The next of at most `count` elements: the rest of a row, or as many whole rows as follow each other evenly.
  StridedRows next(int64_t count, const PlanOperand& operand) const {
    if (index[0] > 0 || index.size() == 1 || count < shape[0])
      return {1, std::min(count, left_in_row()), 0, operand.strides[0]};
    return {std::min(count / shape[0], shape[1] - index[1]), shape[0], operand.strides[1], operand.strides[0]};
  }
  void advance(const StridedRows& rows) {
    if (rows.count > 1) index[1] += rows.count - 1;
    advance(rows.length);
  }
  void advance(int64_t count) {  // at most to the end of the row
    index[0] += count;
    for (size_t d = 0; d + 1 < index.size() && index[d] == shape[d]; ++d) {
      index[d] = 0;
      ++index[d + 1];
    }
  }
  const Dims& shape;
  Dims index;
};

/// Packs `count` elements from flat element `from` on into `buffer` in dtype `compute`.
inline void pack(const PlanOperand& operand, Position at, int64_t count, DType compute, char* buffer) {
  int64_t item = item_size(operand.dtype);
  if (operand.strides[0] == item && count <= at.left_in_row())
    return cast(compute, operand.dtype, count, buffer, operand.data + at.offset(operand));
  alignas(64) char raw[kChunk * 16];
  char* packed = operand.dtype == compute ? buffer : raw;
  for (int64_t done = 0; done < count;) {
    const StridedRows rows = at.next(count - done, operand);
    gather(item, rows, packed + done * item, operand.data + at.offset(operand));
    done += rows.count * rows.length;
    at.advance(rows);
  }
  if (packed == raw) cast(compute, operand.dtype, count, buffer, raw);
}

}  // namespace facula::cpu::FACULA_ISA
