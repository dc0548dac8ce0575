#include "sparse/matrix_lines.h"

#include "functions.h"
#include "ops/sparse.h"

namespace facula::sparse {
namespace {

/// As kernels want it.
Tensor plain(const Tensor& t) {
  Tensor made = contiguous(t, MemoryFormat::Contiguous);
  materialize_bytes(made);
  return made;
}

}  // namespace

Triples triples_of(const Tensor& self) {
  const SparseParts& p = sparse_parts(self);
  if (p.layout == Layout::SparseCoo)
    return {facula::select(p.indices, 0, 0), facula::select(p.indices, 0, 1), p.values};
  if (!is_blocked(p.layout)) {
    const Tensor across = expanded_bounds(p), along = to_dtype(p.plain, DType::Int64);
    return compresses_rows(p.layout) ? Triples{across, along, p.values} : Triples{along, across, p.values};
  }
  const Entries entries = entries_of(self);
  const Tensor index = unflatten_places(entries.places, self.sizes());
  return {facula::select(index, 0, 0), facula::select(index, 0, 1), entries.values};
}

Lines lines_of(const Tensor& line, const Tensor& across, const Tensor& values, int64_t count) {
  const Tensor keys = plain(line), along = plain(across), elements = plain(values);
  const Tensor bounds = empty({count + 1}, DType::Int64, keys.device());
  if (row_bounds_kernel(keys.device(), bounds, keys)) return {bounds, along, elements};
  const Tensor to_along = empty(along.sizes(), DType::Int64, keys.device());
  const Tensor to_elements = empty(elements.sizes(), elements.dtype(), keys.device());
  order_entries_kernel(keys.device(), to_along, to_elements, bounds, keys, along, elements);
  return {bounds, to_along, to_elements};
}

Lines rows_of(const Tensor& self) {
  const SparseParts& p = sparse_parts(self);
  if (p.layout == Layout::SparseCsr)
    return {plain(to_dtype(p.indices, DType::Int64)), plain(to_dtype(p.plain, DType::Int64)), plain(p.values)};
  const Triples m = triples_of(self);
  return lines_of(m.row, m.column, m.values, self.size(0));
}

bool is_counted(const Tensor& self, Layout layout) {
  constexpr int64_t most = int64_t{1} << 40;  // lines for which bounds are worth their memory
  return (layout == Layout::SparseCsr || layout == Layout::SparseCsc) && self.is_cpu() && self.dim() == 2 &&
         !is_blocked(layout_of(self)) && dense_dim_of(self) == 0 && self.size(0) < most && self.size(1) < most;
}

Tensor counted(const Tensor& self, Layout layout) {
  const Triples m = triples_of(coalesced_of(self));
  const bool by_row = layout == Layout::SparseCsr;
  const Lines lines =
      by_row ? lines_of(m.row, m.column, m.values, self.size(0)) : lines_of(m.column, m.row, m.values, self.size(1));
  SparseParts parts;
  parts.layout = layout;
  parts.sparse_dim = 2;
  parts.indices = lines.bounds;
  parts.plain = lines.across;
  parts.values = lines.values;
  return make_sparse(std::move(parts), self.sizes());
}

}  // namespace facula::sparse
