#include "sparse/support.h"

#include "core/checked.h"
#include "core/kernel.h"
#include "functions.h"
#include "sparse/matrix_lines.h"

namespace facula::sparse {

IntList leading_sizes(const Tensor& self) {
  return self.sizes().slice(0, static_cast<size_t>(self.dim() - dense_dim_of(self)));
}

int64_t count_of(IntList sizes) { return count_elements(sizes, "sparse tensor"); }

Dims block_of(const Tensor& self) {
  const SparseParts& p = sparse_parts(self);
  if (!is_blocked(p.layout)) return {1, 1};
  const int64_t at = p.plain.dim();
  return {p.values.size(at), p.values.size(at + 1)};
}

const SparseParts& coo_parts(const char* op, const Tensor& self) {
  FACULA_CHECK(is_coo(self), ErrorKind::Runtime, op, ": a tensor of layout torch.sparse_coo is expected, got ",
               layout_of(self));
  return sparse_parts(self);
}

Tensor make_coo(Tensor indices, Tensor values, IntList sizes, bool coalesced) {
  SparseParts parts;
  parts.sparse_dim = indices.size(0);
  parts.dense_dim = static_cast<int64_t>(sizes.size()) - parts.sparse_dim;
  parts.coalesced = coalesced || indices.size(1) < 2;
  parts.indices = std::move(indices);
  parts.values = std::move(values);
  return make_sparse(std::move(parts), sizes);
}

Tensor with_values(const Tensor& self, const Tensor& values) {
  SparseParts parts = sparse_parts(self);
  FACULA_CHECK(values.sizes() == parts.values.sizes(), ErrorKind::Runtime, "sparse tensor: values of shape ",
               parts.values.sizes(), " are expected, got ", values.sizes());
  parts.values = values;
  return make_sparse(std::move(parts), self.sizes());
}

Tensor flatten_indices(const Tensor& indices, IntList sizes) {
  if (sizes.empty()) return zeros({indices.size(1)}, DType::Int64, indices.device());
  Tensor places = select(indices, 0, 0);
  for (size_t d = 1; d < sizes.size(); ++d)
    places = add(mul(places, sizes[d]), select(indices, 0, static_cast<int64_t>(d)));
  return places;
}

Tensor unflatten_places(const Tensor& places, IntList sizes) {
  if (sizes.empty()) return zeros({0, places.size(0)}, DType::Int64, places.device());
  std::vector<Tensor> rows(sizes.size());
  Tensor rest = places;
  for (size_t d = sizes.size(); d-- > 1;) {
    const int64_t size = std::max<int64_t>(sizes[d], 1);
    rows[d] = remainder(rest, size);
    rest = div(rest, size, "floor");
  }
  rows[0] = rest;
  return stack(rows, 0);
}

namespace {

/// How many entries every row has that is compressed.
Tensor run_lengths(const Tensor& bounds) {
  const int64_t n = bounds.size(-1) - 1;
  return sub(narrow(bounds, -1, 1, n), narrow(bounds, -1, 0, n));
}

Tensor compressed_places(const Tensor& self) {
  const SparseParts& p = sparse_parts(self);
  const IntList sizes = leading_sizes(self);
  const int64_t rows = sizes[sizes.size() - 2], columns = sizes[sizes.size() - 1];
  const int64_t entries = p.plain.size(-1);
  const Dims block = block_of(self);
  const Tensor plain = flatten(to_dtype(p.plain, DType::Int64)), across = expanded_bounds(p);
  const bool by_row = compresses_rows(p.layout);
  Tensor row = by_row ? across : plain, column = by_row ? plain : across;
  if (is_blocked(p.layout)) {
    const Tensor in_row = view(arange(Scalar(block[0]), DType::Int64, self.device()), {1, block[0], 1});
    const Tensor in_column = view(arange(Scalar(block[1]), DType::Int64, self.device()), {1, 1, block[1]});
    row = add(mul(view(row, {-1, 1, 1}), block[0]), in_row);
    column = add(mul(view(column, {-1, 1, 1}), block[1]), in_column);
  }
  Tensor places = add(mul(row, columns), column);
  const int64_t batches = plain.numel() && entries ? plain.numel() / entries : 1;
  if (batches > 1) {
    const Tensor batch = repeat_interleave(arange(Scalar(batches), DType::Int64, self.device()), entries);
    Dims shape{-1};
    if (places.dim() == 3) shape = {-1, 1, 1};
    places = add(places, mul(view(batch, shape), rows * columns));
  }
  return flatten(places);
}

/// The values with one row for each place.
Tensor rows_of_values(const Tensor& self, int64_t count) {
  Dims shape{count};
  const IntList sizes = self.sizes();
  for (int64_t d = self.dim() - dense_dim_of(self); d < self.dim(); ++d) shape.push_back(sizes[d]);
  return reshape(sparse_parts(self).values, shape);
}

}  // namespace

Tensor expanded_bounds(const SparseParts& parts) {
  const Tensor bounds = to_dtype(parts.indices, DType::Int64);
  const int64_t n = bounds.size(-1) - 1, batches = count_of(bounds.sizes().slice(0, bounds.sizes().size() - 1));
  const Tensor rows = repeat_interleave(flatten(run_lengths(bounds)), std::nullopt);
  FACULA_CHECK(rows.numel() == parts.plain.numel(), ErrorKind::Runtime,
               "sparse tensor: compressed indices that count as many entries as there are plain indices, got ",
               rows.numel(), " and ", parts.plain.numel());
  return n > 0 && batches > 1 ? remainder(rows, n) : rows;
}

Entries entries_of(const Tensor& self) {
  const SparseParts& p = sparse_parts(self);
  Tensor places =
      p.layout == Layout::SparseCoo ? flatten_indices(p.indices, leading_sizes(self)) : compressed_places(self);
  const int64_t count = places.size(0);
  return {std::move(places), rows_of_values(self, count)};
}

Entries nonzero_entries(const Tensor& self, int64_t dense_dim) {
  const size_t leading = static_cast<size_t>(self.dim() - dense_dim);
  const IntList sizes = self.sizes();
  Dims rows{count_of(sizes.slice(0, leading))};
  for (size_t d = leading; d < sizes.size(); ++d) rows.push_back(sizes[d]);
  const Tensor values = reshape(resolve_conj(self), rows);
  Tensor there = ne(values, 0);
  if (dense_dim > 0) there = any(reshape(there, {rows[0], values.numel() / std::max<int64_t>(rows[0], 1)}), 1, false);
  const Tensor places = select(nonzero(there), 1, 0);
  return {places, index_select(values, 0, places)};
}

Tensor added_at(int64_t count, const Tensor& places, const Tensor& values) {
  Dims shape(values.sizes());
  shape[0] = count;
  if (values.dtype() != DType::Bool)
    return index_add(zeros(shape, values.dtype(), values.device()), 0, places, values, Scalar(1));
  return ne(added_at(count, places, to_dtype(values, DType::Int32)), 0);
}

Entries merged(const Entries& entries) {
  if (entries.places.is_meta()) return entries;
  auto [ordered, order] = sort(entries.places, 0, false);
  auto [unique, inverse, counts] = _unique_consecutive(ordered, true, false);
  const Tensor values = index_select(entries.values, 0, order);
  if (unique.size(0) == values.size(0)) return {unique, values};
  return {unique, added_at(unique.size(0), inverse, values)};
}

Tensor coo_of_entries(const Entries& entries, IntList sizes, int64_t dense_dim, bool coalesced) {
  const IntList leading = sizes.slice(0, sizes.size() - static_cast<size_t>(dense_dim));
  return make_coo(unflatten_places(entries.places, leading), entries.values, sizes, coalesced);
}

Tensor coalesced_of(const Tensor& self) {
  const SparseParts& p = sparse_parts(self);
  if (p.layout != Layout::SparseCoo || p.coalesced) return self;
  if (p.indices.size(1) < 2 || self.is_meta()) return make_coo(p.indices, p.values, self.sizes(), true);
  return coo_of_entries(merged(entries_of(self)), self.sizes(), p.dense_dim, true);
}

Tensor coo_of(const Tensor& self) {
  if (is_coo(self)) return self;
  const Layout layout = layout_of(self);
  if (layout == Layout::SparseCsc && is_counted(self, Layout::SparseCsr))
    return coo_of(counted(self, Layout::SparseCsr));
  Entries entries = entries_of(self);
  if (layout != Layout::SparseCsr) entries = merged(entries);
  return coo_of_entries(entries, self.sizes(), dense_dim_of(self), true);
}

Tensor dense_of(const Tensor& self) {
  if (!is_sparse(self)) return self;
  if (self.is_meta()) return empty(self.sizes(), self.dtype(), self.device());
  const Entries entries = entries_of(self);
  return view(added_at(count_of(leading_sizes(self)), entries.places, entries.values), self.sizes());
}

namespace {

/// A compressed layout: which blocks there may be, and how the layout counts them. A block of 1 x 1 is an element.
struct BlockGrid {
  int64_t batches, rows, columns;  // rows and columns of one matrix, in elements
  int64_t height, width;           // of a block
  bool by_row;                     // lines are rows of blocks, else columns of blocks
  IntList batch, dense;            // sizes before the matrix, and after it

  BlockGrid(IntList sizes, int64_t dense_dim, Layout layout, IntList block) {
    const size_t leading = sizes.size() - static_cast<size_t>(dense_dim);
    FACULA_CHECK(leading >= 2, ErrorKind::Runtime,
                 "to_sparse: compressed layouts have two sparse dimensions, got shape ", sizes, " with ", dense_dim,
                 " dense ones");
    FACULA_CHECK(block.size() == 2, ErrorKind::Runtime, "to_sparse: blocksize has two numbers, got ", block);
    rows = sizes[leading - 2], columns = sizes[leading - 1], height = block[0], width = block[1];
    FACULA_CHECK(height > 0 && width > 0 && rows % height == 0 && columns % width == 0, ErrorKind::Runtime,
                 "to_sparse: blocksize must be above 0 and divide the sizes ", sizes, ", got ", block);
    (Checked(height) * width).get("to_sparse", "the elements of a block", block);
    by_row = compresses_rows(layout);
    batch = sizes.slice(0, leading - 2);
    dense = sizes.slice(leading, static_cast<size_t>(dense_dim));
    batches = count_of(batch);
  }
  /// Lines of a matrix, and the blocks that a line may have.
  int64_t lines() const { return by_row ? rows / height : columns / width; }
  int64_t blocks_of_line() const { return by_row ? columns / width : rows / height; }
  int64_t area() const { return height * width; }
};

/// The blocks that have entries, in the order of the layout.
struct FilledBlocks {
  Tensor numbers;  // of the blocks: (batch * lines + line) * blocks_of_line + place in the line
  Tensor values;   // all elements of the blocks, row by row
};

FilledBlocks filled_blocks(const Entries& entries, const BlockGrid& g) {
  const Tensor index = unflatten_places(entries.places, {g.batches, g.rows, g.columns});
  const Tensor batch = select(index, 0, 0), row = select(index, 0, 1), column = select(index, 0, 2);
  const Tensor down = div(row, g.height, "floor"), across = div(column, g.width, "floor");
  const Tensor line = add(mul(batch, g.lines()), g.by_row ? down : across);
  const Tensor block = add(mul(line, g.blocks_of_line()), g.by_row ? across : down);
  auto [ordered, order] = sort(block, 0, false);
  auto [numbers, inverse, counts] = _unique_consecutive(ordered, true, false);
  const Tensor inside = add(mul(remainder(row, g.height), g.width), remainder(column, g.width));
  const Tensor target = add(mul(inverse, g.area()), index_select(inside, 0, order));
  return {numbers, added_at(numbers.size(0) * g.area(), target, index_select(entries.values, 0, order))};
}

/// How many blocks every line of every matrix has.
Tensor line_lengths(const FilledBlocks& blocks, const BlockGrid& g) {
  const int64_t lines =
      (Checked(g.batches) * g.lines()).get("to_sparse", "the number of rows of blocks", g.batches, " * ", g.lines());
  const Tensor line = div(blocks.numbers, std::max<int64_t>(g.blocks_of_line(), 1), "floor");
  return view(bincount(line, Tensor(), lines), {g.batches, g.lines()});
}

Dims joined(IntList first, std::initializer_list<int64_t> middle, IntList last = {}) {
  Dims shape(first);
  for (const int64_t size : middle) shape.push_back(size);
  for (const int64_t size : last) shape.push_back(size);
  return shape;
}

}  // namespace

Tensor compressed_of_entries(const Entries& entries, IntList sizes, int64_t dense_dim, Layout layout, IntList block) {
  const BlockGrid g(sizes, dense_dim, layout, block);
  const FilledBlocks blocks = filled_blocks(entries, g);
  const Tensor lengths = line_lengths(blocks, g);
  const int64_t each = g.batches ? blocks.numbers.size(0) / g.batches : 0;
  FACULA_CHECK(g.batches < 2 || all(eq(sum(lengths, Dims{1}, false, std::nullopt), each)).item().to_bool(),
               ErrorKind::Runtime, "to_sparse: each matrix of a batch must have as many entries, got shape ", sizes);
  const Tensor first = zeros({g.batches, 1}, DType::Int64, blocks.numbers.device());
  const Tensor bounds[] = {first, cumsum(lengths, 1, DType::Int64)};
  const Tensor places = remainder(blocks.numbers, std::max<int64_t>(g.blocks_of_line(), 1));
  SparseParts parts;
  parts.layout = layout;
  parts.sparse_dim = 2;
  parts.dense_dim = dense_dim;
  parts.indices = reshape(cat(TensorList(bounds, 2), 1), joined(g.batch, {g.lines() + 1}));
  parts.plain = reshape(places, joined(g.batch, {each}));
  parts.values = reshape(blocks.values, is_blocked(layout) ? joined(g.batch, {each, g.height, g.width}, g.dense)
                                                           : joined(g.batch, {each}, g.dense));
  return make_sparse(std::move(parts), sizes);
}

Tensor in_layout_of(const Tensor& self, Layout layout, IntList block) {
  if (layout == Layout::Strided) return dense_of(self);
  if (layout == Layout::SparseCoo) return coo_of(self);
  const Dims wanted = is_blocked(layout) ? Dims(block) : Dims{1, 1};
  if (layout_of(self) == layout && IntList(wanted) == IntList(block_of(self))) return self;
  if (is_counted(self, layout)) return counted(self, layout);
  return compressed_of_entries(entries_of(self), self.sizes(), dense_dim_of(self), layout, wanted);
}

void put_into(const Tensor& target, const Tensor& made) {
  if (!is_sparse(made)) return copy_elements(target, made);
  if (!is_sparse(target)) return copy_elements(target, dense_of(made));
  const Tensor fitting = in_layout_of(made, layout_of(target), block_of(target));
  if (fitting.dtype() == target.dtype()) return take_parts(target, fitting);
  take_parts(target, with_values(fitting, to_dtype(sparse_parts(fitting).values, target.dtype())));
}

}  // namespace facula::sparse
