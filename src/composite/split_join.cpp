// Splitting, stacking, turning, repeating and padding written with views, cat and flip.
#include "ops/split_join.h"

#include <algorithm>

#include "autograd/batching.h"
#include "composite/parts.h"
#include "core/checked.h"
#include "core/near_name.h"
#include "core/several.h"
#include "functions.h"
#include "ops/contiguous.h"
#include "ops/kernel_table.h"

namespace facula {

// ---- splitting

namespace {

std::vector<Tensor> parts_of(const Tensor& self, int64_t split_size, int64_t dim) {
  FACULA_CHECK(self.dim() > 0, ErrorKind::Runtime, "split: expected a tensor with dimensions, got a 0-d one");
  FACULA_CHECK(split_size >= 0, ErrorKind::Runtime, "split: split_size must not be negative, got ", split_size);
  int64_t d = wrap_dim(dim, self.dim(), "split"), size = self.size(d);
  FACULA_CHECK(split_size > 0 || size == 0, ErrorKind::Runtime,
               "split: split_size 0 only fits a dimension of size 0, got size ", size);
  if (split_size == 0) return {slice(self, d, 0, 0, 1)};
  check_parts("split", size / split_size);
  std::vector<Tensor> parts;
  parts.reserve(static_cast<size_t>(size / split_size + 1));
  if (size == 0) return {slice(self, d, 0, 0, 1)};
  for (int64_t at = 0; at < size; at += std::min(split_size, size - at))
    parts.push_back(slice(self, d, at, at + std::min(split_size, size - at), 1));
  return parts;
}

std::vector<Tensor> parts_of(const Tensor& self, IntList split_sizes, int64_t dim) {
  FACULA_CHECK(self.dim() > 0, ErrorKind::Runtime,
               "split_with_sizes: expected a tensor with dimensions, got a 0-d one");
  int64_t d = wrap_dim(dim, self.dim(), "split_with_sizes"), at = 0;
  Checked total = 0;
  for (int64_t s : split_sizes) {
    FACULA_CHECK(s >= 0, ErrorKind::Runtime, "split_with_sizes: sizes must not be negative, got ", split_sizes);
    total += s;
  }
  FACULA_CHECK(total.value_or(-1) == self.size(d), ErrorKind::Runtime, "split_with_sizes: the sizes must sum to ",
               self.size(d), ", the size of dimension ", d, ", got ", split_sizes);
  std::vector<Tensor> parts;
  for (int64_t s : split_sizes) {
    parts.push_back(slice(self, d, at, at + s, 1));
    at += s;
  }
  return parts;
}

}  // namespace

std::vector<Tensor> split(const Tensor& self, int64_t split_size, int64_t dim) {
  return one_of_several(parts_of(self, split_size, dim));
}
std::vector<Tensor> split_with_sizes(const Tensor& self, IntList split_sizes, int64_t dim) {
  return one_of_several(parts_of(self, split_sizes, dim));
}
std::vector<Tensor> split(const Tensor& self, IntList split_size, int64_t dim) {
  return split_with_sizes(self, split_size, dim);
}

namespace {

// Parts that are written one by one: a write to one is no write to what others saved of their part.
std::vector<Tensor> copied(std::vector<Tensor> parts) {
  for (Tensor& part : parts) part = clone(part);
  return parts;
}

}  // namespace

std::vector<Tensor> unsafe_split(const Tensor& self, int64_t split_size, int64_t dim) {
  return copied(parts_of(self, split_size, dim));
}
std::vector<Tensor> unsafe_split_with_sizes(const Tensor& self, IntList split_sizes, int64_t dim) {
  return copied(parts_of(self, split_sizes, dim));
}

namespace {

std::vector<Tensor> chunks_of(const Tensor& self, int64_t chunks, int64_t dim) {
  FACULA_CHECK(self.dim() > 0, ErrorKind::Runtime, "chunk: expected a tensor with dimensions, got a 0-d one");
  FACULA_CHECK(chunks > 0, ErrorKind::Runtime, "chunk: chunks must be positive, got ", chunks);
  int64_t d = wrap_dim(dim, self.dim(), "chunk"), size = self.size(d), each = size / chunks + (size % chunks != 0);
  if (size > 0) return parts_of(self, each, d);
  check_parts("chunk", chunks);
  return parts_of(self, IntList(Dims(static_cast<size_t>(chunks), 0)), d);
}

}  // namespace

std::vector<Tensor> chunk(const Tensor& self, int64_t chunks, int64_t dim) {
  return one_of_several(chunks_of(self, chunks, dim));
}

std::vector<Tensor> unsafe_chunk(const Tensor& self, int64_t chunks, int64_t dim) {
  return copied(chunks_of(self, chunks, dim));
}

std::vector<Tensor> tensor_split(const Tensor& self, int64_t sections, int64_t dim) {
  FACULA_CHECK(self.dim() > 0, ErrorKind::Runtime, "tensor_split: expected a tensor with dimensions, got a 0-d one");
  FACULA_CHECK(sections > 0, ErrorKind::Runtime, "tensor_split: the number of sections must be greater than zero, got ",
               sections);
  check_parts("tensor_split", sections);
  int64_t d = wrap_dim(dim, self.dim(), "tensor_split"), each = self.size(d) / sections,
          longer = self.size(d) % sections;
  Dims sizes;
  for (int64_t k = 0; k < sections; ++k) sizes.push_back(each + (k < longer));
  return parts_of(self, IntList(sizes), d);
}

std::vector<Tensor> tensor_split(const Tensor& self, IntList indices, int64_t dim) {
  FACULA_CHECK(self.dim() > 0, ErrorKind::Runtime, "tensor_split: expected a tensor with dimensions, got a 0-d one");
  int64_t d = wrap_dim(dim, self.dim(), "tensor_split"), at = 0;
  std::vector<Tensor> parts;
  for (int64_t next : indices) {
    parts.push_back(slice(self, d, at, next, 1));
    at = next;
  }
  parts.push_back(slice(self, d, at, self.size(d), 1));
  return parts;
}

std::vector<Tensor> tensor_split(const Tensor& self, const Tensor& where, int64_t dim) {
  FACULA_CHECK(where.dtype() == DType::Int64 && where.dim() <= 1 && where.is_cpu(), ErrorKind::Runtime,
               "tensor_split: tensor_indices_or_sections must be a 0-d or 1-d int64 tensor on the CPU, got ",
               where.dtype(), " of shape ", where.sizes());
  if (where.dim() == 0) return tensor_split(self, where.item().to_int(), dim);
  check_not_batched(where, "tensor_split");
  Tensor plain = ops::on_host(where);
  return tensor_split(self, IntList(plain.data<int64_t>(), static_cast<size_t>(plain.numel())), dim);
}

namespace {

void check_sections(const char* op, const Tensor& self, int64_t sections, int64_t d) {
  FACULA_CHECK(sections > 0 && self.size(d) % sections == 0, ErrorKind::Runtime, op, ": the size ", self.size(d),
               " of dimension ", d, " must be divisible by the number of sections, got ", sections);
}

void check_dims(const char* op, const Tensor& self, int64_t least) {
  FACULA_CHECK(self.dim() >= least, ErrorKind::Runtime, op, ": expected a tensor of at least ", least,
               " dimensions, got shape ", self.sizes());
}

}  // namespace

std::vector<Tensor> hsplit(const Tensor& self, int64_t sections) {
  check_dims("hsplit", self, 1);
  int64_t d = self.dim() == 1 ? 0 : 1;
  check_sections("hsplit", self, sections, d);
  return tensor_split(self, sections, d);
}
std::vector<Tensor> hsplit(const Tensor& self, IntList indices) {
  check_dims("hsplit", self, 1);
  return tensor_split(self, indices, self.dim() == 1 ? 0 : 1);
}
std::vector<Tensor> vsplit(const Tensor& self, int64_t sections) {
  check_dims("vsplit", self, 2);
  check_sections("vsplit", self, sections, 0);
  return tensor_split(self, sections, 0);
}
std::vector<Tensor> vsplit(const Tensor& self, IntList indices) {
  check_dims("vsplit", self, 2);
  return tensor_split(self, indices, 0);
}
std::vector<Tensor> dsplit(const Tensor& self, int64_t sections) {
  check_dims("dsplit", self, 3);
  check_sections("dsplit", self, sections, 2);
  return tensor_split(self, sections, 2);
}
std::vector<Tensor> dsplit(const Tensor& self, IntList indices) {
  check_dims("dsplit", self, 3);
  return tensor_split(self, indices, 2);
}

// ---- stacking

namespace {

void check_some(const char* op, TensorList tensors) {
  FACULA_CHECK(!tensors.empty(), ErrorKind::Runtime, op, ": expected a non-empty list of tensors, got an empty one");
}

}  // namespace

Tensor hstack(TensorList tensors) {
  check_some("hstack", tensors);
  std::vector<Tensor> parts = atleast_1d(tensors);
  return cat(parts, parts[0].dim() == 1 ? 0 : 1);
}

Tensor vstack(TensorList tensors) {
  check_some("vstack", tensors);
  return cat(atleast_2d(tensors), 0);
}

Tensor dstack(TensorList tensors) {
  check_some("dstack", tensors);
  return cat(atleast_3d(tensors), 2);
}

Tensor column_stack(TensorList tensors) {
  check_some("column_stack", tensors);
  std::vector<Tensor> columns;
  for (const Tensor& t : tensors) columns.push_back(t.dim() <= 1 ? reshape(t, {t.numel(), 1}) : t);
  return cat(columns, 1);
}

// ---- turning

Tensor fliplr(const Tensor& self) {
  FACULA_CHECK(self.dim() >= 2, ErrorKind::Runtime, "fliplr: Input must be >= 2-d, got shape ", self.sizes());
  return flip(self, {1});
}

Tensor flipud(const Tensor& self) {
  FACULA_CHECK(self.dim() >= 1, ErrorKind::Runtime, "flipud: Input must be >= 1-d, got shape ", self.sizes());
  return flip(self, {0});
}

Tensor rot90(const Tensor& self, int64_t k, IntList dims) {
  FACULA_CHECK(dims.size() == 2, ErrorKind::Runtime, "rot90: two dimensions span the plane, got ", dims);
  check_dims("rot90", self, 2);
  int64_t a = wrap_dim(dims[0], self.dim(), "rot90"), b = wrap_dim(dims[1], self.dim(), "rot90");
  FACULA_CHECK(a != b, ErrorKind::Runtime, "rot90: two different dimensions span the plane, got ", dims);
  switch (((k % 4) + 4) % 4) {
    case 1: return transpose(flip(self, {b}), a, b);
    case 2: return flip(self, dims);
    case 3: return transpose(flip(self, {a}), a, b);
    default: return clone(self, MemoryFormat::Contiguous);
  }
}

// ---- repeating

Tensor tile(const Tensor& self, IntList dims) {
  Dims repeats(dims);
  while (static_cast<int64_t>(repeats.size()) < self.dim()) repeats.insert(0, 1);
  return repeat(self, repeats);
}

Tensor repeat_interleave(const Tensor& repeats, std::optional<int64_t> output_size) {
  FACULA_CHECK(repeats.dim() == 1, ErrorKind::Runtime, "repeat_interleave: repeats must be a vector, got shape ",
               repeats.sizes());
  FACULA_CHECK(repeats.dtype() == DType::Int64 || repeats.dtype() == DType::Int32, ErrorKind::NotImplemented,
               "repeat_interleave: repeats must be int32 or int64, got ", repeats.dtype());
  if (repeats.is_meta()) {
    FACULA_CHECK(output_size, ErrorKind::NotImplemented,
                 "repeat_interleave: on meta tensors output_size must be given, got None");
    return empty({*output_size}, repeats.dtype(), repeats.device());
  }
  if (is_batched(repeats)) {  // values of each example's own
    Batch batch("repeat_interleave", repeats);
    return batch.loop([&](const Batch::Example& e) { return repeat_interleave(e(repeats), output_size); });
  }
  materialize_bytes(repeats);
  Tensor counts = ops::as_contiguous(repeats, DType::Int64);
  const int64_t total = output_size ? *output_size : repeat_total_kernel(counts.device(), counts);
  FACULA_CHECK(total >= 0, ErrorKind::Runtime, "repeat_interleave: output_size must not be negative, got ", total);
  Tensor positions = empty({total}, DType::Int64, repeats.device());
  repeat_positions_kernel(counts.device(), positions, counts);
  return to_dtype(positions, repeats.dtype());
}

static void check_has_dimension(const Tensor& self, std::optional<int64_t> dim) {
  FACULA_CHECK(!dim || self.dim() > 0, ErrorKind::Index,
               "repeat_interleave: dimension out of range, for a tensor without dimensions, got ", dim.value_or(0));
}

Tensor repeat_interleave(const Tensor& self, const Tensor& repeats, std::optional<int64_t> dim,
                         std::optional<int64_t> output_size) {
  check_has_dimension(self, dim);
  Tensor input = dim ? self : reshape(self, {-1});
  int64_t d = wrap_dim(dim.value_or(0), input.dim(), "repeat_interleave");
  Tensor counts = repeats;
  if (counts.dim() == 0 || (counts.dim() == 1 && counts.size(0) == 1))
    counts = expand(reshape(counts, {1}), {input.size(d)});
  FACULA_CHECK(counts.dim() == 1, ErrorKind::Runtime,
               "repeat_interleave: repeats must be a number or a vector, got shape ", repeats.sizes());
  FACULA_CHECK(counts.size(0) == input.size(d), ErrorKind::Runtime,
               "repeat_interleave: repeats must have one entry for each of the ", input.size(d),
               " positions of dimension ", d, ", got ", counts.size(0));
  Tensor positions = repeat_interleave(counts, output_size);
  Dims sizes(input.sizes());
  sizes[d] = positions.numel();
  if (input.is_meta()) return expand(constant_pad_nd(slice(input, d, 0, 0, 1), {}), sizes);
  std::vector<Tensor> indices(static_cast<size_t>(d));
  indices.push_back(to_dtype(positions, DType::Int64));
  return index(input, indices);
}

Tensor repeat_interleave(const Tensor& self, int64_t repeats, std::optional<int64_t> dim,
                         std::optional<int64_t> output_size) {
  FACULA_CHECK(repeats >= 0, ErrorKind::Runtime, "repeat_interleave: repeats must not be negative, got ", repeats);
  check_has_dimension(self, dim);
  Tensor input = dim ? self : reshape(self, {-1});
  int64_t d = wrap_dim(dim.value_or(0), input.dim(), "repeat_interleave");
  Dims expanded(input.sizes()), merged(input.sizes());
  expanded.insert(static_cast<size_t>(d + 1), repeats);
  merged[d] = (Checked(merged[d]) * repeats).get("repeat_interleave", "the repeated size", repeats, " of ", merged[d]);
  FACULA_CHECK(!output_size || *output_size == merged[d], ErrorKind::Runtime, "repeat_interleave: output_size must be ",
               merged[d], ", got ", output_size.value_or(0));
  return view(clone(expand(unsqueeze(input, d + 1), expanded), MemoryFormat::Contiguous), merged);
}

// ---- padding

Tensor pad(const Tensor& self, IntList pad, std::string_view mode, std::optional<double> value) {
  FACULA_CHECK(pad.size() % 2 == 0, ErrorKind::Runtime, "pad: expected an even number of counts, got ", pad);
  int64_t padded = static_cast<int64_t>(pad.size() / 2), n = self.dim();
  FACULA_CHECK(padded <= n, ErrorKind::Runtime,
               "pad: expected at most two counts per dimension of the tensor of shape ", self.sizes(), ", got ", pad);
  if (mode == "constant") return constant_pad_nd(self, pad, Scalar(value.value_or(0.0)));
  FACULA_CHECK(!value || *value == 0, ErrorKind::Runtime, "pad: mode ", mode, " takes no value, got ",
               value.value_or(0));
  FACULA_CHECK(mode == "reflect" || mode == "replicate" || mode == "circular", ErrorKind::NotImplemented,
               "pad: mode must be ", one_of({"constant", "reflect", "replicate", "circular"}, mode));
  FACULA_CHECK(padded >= 1 && padded <= 3 && (n == padded + 1 || n == padded + 2), ErrorKind::NotImplemented,
               "pad: mode ", mode, " pads the last 1 to 3 dimensions of a tensor with one or two more, got shape ",
               self.sizes(), " and ", pad);
  for (int64_t d = n == padded + 2; d < n && mode != "circular"; ++d) {
    FACULA_CHECK(self.size(d) > 0, ErrorKind::Runtime, "pad: mode ", mode, " expects a ", padded + 1, "D or ",
                 padded + 2, "D tensor that is empty in no dimension but the batch, got shape ", self.sizes());
  }
  const bool nothing = std::all_of(pad.begin(), pad.end(), [](int64_t count) { return count == 0; });
  return nothing ? clone(self) : _pad_edges(self, pad, mode);
}

}  // namespace facula
