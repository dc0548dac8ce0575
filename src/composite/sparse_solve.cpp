// Systems whose matrix is triangular and sparse: one row of the solution after another.
#include "composite/sparse_solve.h"

#include "autograd/node.h"
#include "core/asking.h"
#include "core/sparse.h"
#include "functions.h"

namespace facula {
namespace {

constexpr const char* kSolve = "triangular_solve";

void check_system(const Tensor& A, const Tensor& B) {
  FACULA_CHECK(!is_sparse(B), ErrorKind::NotImplemented, kSolve,
               ": a strided right side is expected (to_dense() makes one), got layout ", layout_of(B));
  FACULA_CHECK(is_compressed(A), ErrorKind::NotImplemented, kSolve,
               ": sparse matrices of layout torch.sparse_csr or torch.sparse_bsr are expected, got ", layout_of(A));
  FACULA_CHECK(compresses_rows(layout_of(A)), ErrorKind::Value, kSolve,
               ": sparse matrices of layout torch.sparse_csr or torch.sparse_bsr are expected, got ", layout_of(A));
  FACULA_CHECK(A.is_cpu(), ErrorKind::NotImplemented, kSolve, ": sparse matrices on the CPU are expected, got one on ",
               A.device());
  const SparseParts& parts = sparse_parts(A);
  FACULA_CHECK(A.dim() == 2 && parts.dense_dim == 0, ErrorKind::Runtime, kSolve,
               ": a sparse matrix without batch and dense dimensions is expected, got shape ", A.sizes());
  FACULA_CHECK(!is_blocked(parts.layout) || parts.values.size(1) == parts.values.size(2), ErrorKind::Runtime, kSolve,
               ": blocks must be square, got ", parts.values.size(1), " x ", parts.values.size(2));
  FACULA_CHECK(B.size(-2) == A.size(0), ErrorKind::Runtime, kSolve, ": the shapes do not fit, got ", B.sizes(), " and ",
               A.sizes());
  FACULA_CHECK(!recorded(live_flags(A.impl()) | live_flags(B.impl())), ErrorKind::NotImplemented, kSolve,
               ": derivatives of sparse systems are not recorded (detach the tensors, or to_dense() the matrix), got "
               "layout ",
               layout_of(A));
}

/// The entries of one triangle, ordered by row, and where each row begins among them.
struct Triangle {
  Tensor columns, values, bounds;
};

Triangle strict_triangle(const Tensor& rows, const Tensor& columns, const Tensor& values, int64_t n, bool upper) {
  const Tensor inside = select(nonzero(upper ? gt(columns, rows) : lt(columns, rows)), 1, 0);
  const Tensor own = index_select(rows, 0, inside);
  const Tensor lines = arange(Scalar(n + 1), DType::Int64, rows.device());
  return {index_select(columns, 0, inside), index_select(values, 0, inside), searchsorted(own, lines)};
}

}  // namespace

Tensor solve_sparse_triangular(const Tensor& A, const Tensor& B, bool upper, bool transposed, bool unitriangular) {
  check_system(A, B);
  const GradMode off(false);
  const int64_t n = A.size(0), count = n ? B.numel() / n : 0;
  const Tensor coo = coalesce(to_sparse(transposed ? transpose(A, 0, 1) : A));
  const SparseParts& entries = sparse_parts(coo);
  const Tensor rows = select(entries.indices, 0, 0), columns = select(entries.indices, 0, 1);
  const Triangle rest = strict_triangle(rows, columns, entries.values, n, upper != transposed);
  const Tensor on_diagonal = select(nonzero(eq(rows, columns)), 1, 0);
  const Tensor diagonal = index_add(zeros({n}, A.dtype(), A.device()), 0, index_select(rows, 0, on_diagonal),
                                    index_select(entries.values, 0, on_diagonal), Scalar(1));
  const Tensor x = clone(reshape(movedim(B, -2, 0), {n, count}), MemoryFormat::Contiguous);
  materialize_bytes(rest.bounds);
  const int64_t* bounds = rest.bounds.data<int64_t>();
  LongWork solved;
  for (int64_t step = 0; step < n; ++step) {
    const int64_t i = upper != transposed ? n - 1 - step : step, entry = bounds[i], many = bounds[i + 1] - entry;
    const Tensor row = narrow(x, 0, i, 1);
    Tensor left = row;
    if (many) {
      const Tensor known = index_select(x, 0, narrow(rest.columns, 0, entry, many));
      left = sub(row, mm(unsqueeze(narrow(rest.values, 0, entry, many), 0), known));
    }
    copy_(row, unitriangular ? left : div(left, select(diagonal, 0, i)), false);
    solved.did((many + 1) * count + 1000);  // an op takes as long as so many elements
  }
  Dims shape{n};
  for (int64_t d = 0; d < B.dim(); ++d)
    if (d != B.dim() - 2) shape.push_back(B.size(d));
  return clone(movedim(reshape(x, shape), 0, -2), MemoryFormat::Contiguous);
}

}  // namespace facula
