// Handles matrices as entries with a row and a column each, and orders them by lines (rows or columns) by counting.
#pragma once

#include "sparse/support.h"

namespace facula::sparse {

struct Triples {
  Tensor row, column, values;
};
/// Entries of a sparse matrix by row and column, as they lie.
Triples triples_of(const Tensor& self);

struct Lines {
  Tensor bounds, across, values;  // where the entries of every line begin, their places in it, and what they are
};
/// Entries, a number for each, by line, those of one as they were; `count` lines. All on the CPU.
Lines lines_of(const Tensor& line, const Tensor& across, const Tensor& values, int64_t count);
/// A matrix by rows, whatever its layout.
Lines rows_of(const Tensor& self);

/// Whether counting makes this layout of the tensor: CSR and CSC of matrices without dense dimensions, on the CPU.
bool is_counted(const Tensor& self, Layout layout);
Tensor counted(const Tensor& self, Layout layout);

}  // namespace facula::sparse
