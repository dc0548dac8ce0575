// Copies, fills and arrangements of given tensors, written with ops.
#include <algorithm>

#include "autograd/copy_and_notify.h"
#include "autograd/function_support.h"
#include "core/checked.h"
#include "core/near_name.h"
#include "core/region_copies.h"
#include "core/sparse.h"
#include "functions.h"
#include "op_ids_create.h"
#include "ops/contiguous.h"
#include "ops/kernel_table.h"
#include "ops/pinned.h"

namespace facula {

Tensor contiguous(const Tensor& self, MemoryFormat format) {
  if (format == MemoryFormat::Preserve) format = MemoryFormat::Contiguous;
  if (self.flags() & kSparse) return self;
  if (self.flags() & kPrivateLayout) {
    if (format == MemoryFormat::Contiguous) return self;  // as the program sees it
    materialize_layout(self);
  }
  return self.is_contiguous(format) && !self.is_conj() ? self : clone(self, format);
}

// Whether some element is read where another one is written: the order of the two would decide what it is.
static bool reads_what_it_writes(const Tensor& self, const Tensor& src) {
  if (!share_bytes(self.storage(), src.storage()) || self.numel() == 0 || is_sparse(self) || is_sparse(src))
    return false;
  const TensorImpl *to = self.impl(), *from = src.impl();
  if (to->data == from->data && to->dtype == from->dtype && self.sizes() == src.sizes() &&
      self.strides() == src.strides())
    return false;
  const Extent a = byte_extent(self), b = byte_extent(src);
  return to->data + a.low < from->data + b.high && from->data + b.low < to->data + a.high;
}

// A sparse source is a copy: its parts become those of `self`.
static const Tensor& copy_values(const Tensor& self, const Tensor& src, bool non_blocking) {
  FACULA_CHECK(broadcasts_to(src.sizes(), self.sizes()), ErrorKind::Runtime,
               "copy_: the source must broadcast to shape ", self.sizes(), ", got ", src.sizes());
  check_no_internal_overlap(self, "copy_");
  const uint16_t id = op_id::copy_;
  check_not_inference(self, "copy_");
  check_has_values(src, self.device(), "copy_");
  if (src.numel()) ops::warn_of_lost_parts(src.dtype(), self.dtype());
  const NonBlocking scope(non_blocking);
  if (is_inexact(self.dtype()) && (recorded_flags_of(src) | written_flags_of(self))) {
    check_writable(self, "copy_");
    assign(self, src.is_complex() && !self.is_complex() ? real(src) : src, id);
  } else if (copied_by_region(self, src)) {
    count_write(self, id);
  } else {
    const WriteScope write(self, "copy_", id);
    copy_and_notify(write.target(), hold(src));
  }
  note_write(self);
  return self;
}

const Tensor& copy_(const Tensor& self, const Tensor& src, bool non_blocking) {
  if ((self.flags() | src.flags()) & kBatched) {
    write_batched(self, src, "copy_", true);
    return self;
  }
  if (!((self.flags() | src.flags()) & kSparse)) check_no_partial_overlap(self, src, "copy_");
  const bool first =
      is_sparse(src) || reads_what_it_writes(self, src);  // views whose elements lie between each other's
  return copy_values(self, first ? clone(src) : src, non_blocking);
}

// clone() calls this for conjugated tensors, so it must not call clone().
Tensor resolve_conj(const Tensor& self) { return self.is_conj() ? _conj_physical(conj(self)) : self; }

Tensor resolve_neg(const Tensor& self) { return self; }

const Tensor& fill_(const Tensor& self, const Tensor& value) {
  FACULA_CHECK(value.dim() == 0, ErrorKind::Runtime, "fill_: value must be a number or a 0-d tensor, got shape ",
               value.sizes());
  const bool plain = !((self.flags() | value.flags()) & (kSparse | kBatched));
  return copy_(self, plain && share_bytes(self.storage(), value.storage()) ? clone(value) : value);  // x.fill_(x[0])
}

// ---- diagonals

Tensor diag(const Tensor& self, int64_t diagonal) {
  FACULA_CHECK(self.dim() == 1 || self.dim() == 2, ErrorKind::Runtime, "diag: expected a 1D or 2D tensor, got shape ",
               self.sizes());
  if (self.dim() == 1) return diag_embed(self, diagonal, 0, 1);
  return clone(facula::diagonal(self, diagonal, 0, 1), MemoryFormat::Contiguous);
}

Tensor diagflat(const Tensor& self, int64_t offset) { return diag_embed(reshape(self, {-1}), offset, 0, 1); }

namespace {

/// Whether blocks may be written into the result one by one: nothing records that, and they need no conversion.
bool writes_blocks(TensorList tensors) {
  if (recorded_flags_of(tensors) || (flags_of(tensors) & (kBatched | kPythonDispatch))) return false;
  return std::all_of(tensors.begin(), tensors.end(), [&](const Tensor& t) {
    return t.dtype() == tensors[0].dtype() && t.device() == tensors[0].device();
  });
}

Tensor written_blocks(const std::vector<Tensor>& blocks, const Dims& shape) {
  Tensor result = zeros(shape, blocks[0].dtype(), blocks[0].device());
  int64_t row = 0, column = 0;
  for (const Tensor& block : blocks) {
    const int64_t rows = block.size(0), columns = block.size(1);
    if (block.numel()) copy_(narrow(narrow(result, 0, row, rows), 1, column, columns), block);
    row += rows, column += columns;
  }
  return result;
}

}  // namespace

Tensor block_diag(TensorList tensors) {
  if (tensors.empty()) return zeros({1, 0});
  std::vector<Tensor> blocks;
  Checked rows = 0, columns = 0;
  for (const Tensor& t : tensors) {
    FACULA_CHECK(t.dim() <= 2, ErrorKind::Runtime, "block_diag: tensors of at most two dimensions, got shape ",
                 t.sizes());
    blocks.push_back(atleast_2d(t));
    rows += blocks.back().size(0);
    columns += blocks.back().size(1);
  }
  const Dims shape{rows.get("block_diag", "the number of rows", tensors.size(), " tensors"),
                   columns.get("block_diag", "the number of columns", tensors.size(), " tensors")};
  count_elements(shape, "block_diag");
  if (writes_blocks(tensors)) return written_blocks(blocks, shape);
  ResultType type;  // of the tensors as they are: one without dimensions gives way to others
  for (const Tensor& t : tensors) type.add(t.dtype(), t.dim());
  for (Tensor& block : blocks) {
    if (block.dtype() != type.get()) block = to_dtype(block, type.get());
  }
  int64_t before = 0;
  for (Tensor& block : blocks) {
    const int64_t width = block.size(1);
    block = constant_pad_nd(block, {before, shape[1] - before - width}, Scalar(0));
    before += width;
  }
  return cat(blocks, 0);
}

// ---- grids and combinations

namespace {

void check_vectors(const char* op, TensorList tensors) {
  for (const Tensor& t : tensors) {
    FACULA_CHECK(t.dim() <= 1, ErrorKind::Runtime, op, ": expected vectors or 0-d tensors, got shape ", t.sizes());
    FACULA_CHECK(t.dtype() == tensors[0].dtype(), ErrorKind::Runtime, op, ": tensors of one dtype, got ",
                 tensors[0].dtype(), " and ", t.dtype());
    FACULA_CHECK(t.device() == tensors[0].device(), ErrorKind::Runtime, op, ": expected tensors on one device, got ",
                 tensors[0].device(), " and ", t.device());
  }
}

}  // namespace

std::vector<Tensor> meshgrid(TensorList tensors, std::optional<std::string_view> indexing) {
  FACULA_CHECK(!tensors.empty(), ErrorKind::Runtime, "meshgrid: expects a non-empty TensorList, got none");
  check_vectors("meshgrid", tensors);
  if (!indexing && host.warn)
    host.warn("meshgrid: give indexing='ij' (what is used now) or 'xy'; the default may change");
  std::string_view order = indexing.value_or("ij");
  FACULA_CHECK(order == "ij" || order == "xy", ErrorKind::Runtime, "meshgrid: indexing must be ",
               one_of({"xy", "ij"}, order));
  Dims shape;
  for (const Tensor& t : tensors) shape.push_back(t.numel());
  std::vector<Tensor> grids;
  for (size_t i = 0; i < tensors.size(); ++i) {
    Dims own(shape.size(), 1);
    own[i] = shape[i];
    grids.push_back(expand(view(tensors[i], own), shape));
    if (order == "xy" && tensors.size() > 1) grids.back() = transpose(grids.back(), 0, 1);
  }
  return grids;
}

Tensor cartesian_prod(TensorList tensors) {
  FACULA_CHECK(!tensors.empty(), ErrorKind::Runtime, "cartesian_prod: expected at least one vector, got none");
  for (const Tensor& t : tensors)
    FACULA_CHECK(t.dim() == 1, ErrorKind::Runtime, "cartesian_prod: expected vectors, got shape ", t.sizes());
  check_vectors("cartesian_prod", tensors);
  if (tensors.size() == 1) return tensors[0];
  std::vector<Tensor> columns;
  for (const Tensor& grid : meshgrid(tensors, "ij")) columns.push_back(reshape(grid, {-1}));
  return stack(columns, 1);
}

namespace {

// How many ways there are to choose r out of n.
int64_t count_choices(int64_t n, int64_t r) {
  if (r > n) return 0;
  __int128 count = 1;
  for (int64_t k = 0; k < std::min(r, n - r); ++k) {
    count = count * (n - k) / (k + 1);
    FACULA_CHECK(count <= std::numeric_limits<int64_t>::max(), ErrorKind::Runtime,
                 "combinations: their number does not fit 64 bits, got ", r, " of ", n);
  }
  return static_cast<int64_t>(count);
}

// All ascending choices of `r` out of `n` positions, one row each.
Tensor choices(int64_t n, int64_t r, bool with_replacement, Device device) {
  int64_t step = with_replacement ? 0 : 1, pool = n;
  if (with_replacement) pool = (Checked(n) + r - 1).get("combinations", "the number of choices", "r = ", r);
  Tensor table = empty({n ? count_choices(pool, r) : 0, r}, std::optional<MemoryFormat>(), DType::Int64,
                       device.is_meta() ? device : kCPU);
  if (device.is_meta()) return table;
  if (table.numel() == 0) return _to_device(table, device, table.dtype());  // whatever r is
  std::vector<int64_t> at(static_cast<size_t>(r));
  for (int64_t k = 0; k < r; ++k) at[k] = k * step;
  int64_t* row = table.data<int64_t>();
  for (int64_t i = 0; i < table.size(0); ++i) {
    row = std::copy(at.begin(), at.end(), row);
    int64_t k = r - 1;
    while (k >= 0 && at[k] == n - 1 - (r - 1 - k) * step) --k;
    if (k < 0) break;
    ++at[k];
    for (int64_t j = k + 1; j < r; ++j) at[j] = at[j - 1] + step;
  }
  return _to_device(table, device, table.dtype());
}

}  // namespace

Tensor combinations(const Tensor& self, int64_t r, bool with_replacement) {
  FACULA_CHECK(self.dim() == 1, ErrorKind::Runtime, "combinations: expected a vector, got shape ", self.sizes());
  FACULA_CHECK(r >= 0, ErrorKind::Runtime, "combinations: r must not be negative, got ", r);
  if (r == 0) return empty({0}, self.dtype(), self.device());
  Tensor table = choices(self.numel(), r, with_replacement, self.device());
  if (self.is_meta()) return empty(table.sizes(), self.dtype(), self.device());
  return index(self, {table});
}

Tensor vander(const Tensor& x, std::optional<int64_t> N, bool increasing) {
  FACULA_CHECK(x.dim() == 1, ErrorKind::Runtime, "vander: x must be a vector, got shape ", x.sizes());
  int64_t count = N.value_or(x.size(0));
  FACULA_CHECK(count >= 0, ErrorKind::Runtime, "vander: N must not be negative, got ", count);
  Tensor base = is_bits(x.dtype()) ? to_dtype(x, DType::Int64) : x, column = unsqueeze(base, 1);
  if (count == 0) return empty({x.size(0), 0}, base.dtype(), base.device());
  Tensor powers = cumprod(expand(column, {x.size(0), count - 1}), 1, std::optional<DType>());
  Tensor result = cat(std::vector<Tensor>{ones_like(column), powers}, 1);
  return increasing ? result : flip(result, {1});
}

}  // namespace facula
