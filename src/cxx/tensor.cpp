// torch::Tensor: what the op schema does not state.
#include "autograd/batching.h"
#include "autograd/inplace.h"
#include "core/backend.h"
#include "functions.h"
#include "ops/pinned.h"
#include "torch/detail/operators.h"

namespace torch {

using facula::ErrorKind;

namespace detail {

Tensor finish(facula::Tensor fresh, const TensorOptions& options) {
  if (options.pinned_memory()) fresh = facula::ops::pinned_copy(fresh);
  if (options.requires_grad()) facula::set_requires_grad(fresh, true);
  return Tensor(std::move(fresh));
}

}  // namespace detail

void Tensor::refuse_undefined() {
  facula::throw_error(ErrorKind::Runtime, "Tensor: a defined tensor is expected, got an undefined one");
}

// ---- what it is

IntArrayRef Tensor::strides() const {
  facula::materialize(known());
  return core_.strides();
}
int64_t Tensor::size(int64_t dim) const { return known().size(facula::wrap_dim(dim, known().dim(), "size")); }
int64_t Tensor::stride(int64_t dim) const {
  const int64_t d = facula::wrap_dim(dim, known().dim(), "stride");
  return strides()[static_cast<size_t>(d)];
}
int64_t Tensor::storage_offset() const {
  facula::materialize(known());
  return core_.storage_offset();
}
bool Tensor::is_contiguous(MemoryFormat format) const {
  facula::materialize(known());
  return core_.is_contiguous(detail::format_of(format));
}
MemoryFormat Tensor::suggest_memory_format() const {
  facula::materialize(known());
  const auto format = core_.suggest_memory_format();
  return format == facula::MemoryFormat::ChannelsLast     ? MemoryFormat::ChannelsLast
         : format == facula::MemoryFormat::ChannelsLast3d ? MemoryFormat::ChannelsLast3d
                                                          : MemoryFormat::Contiguous;
}
std::string Tensor::toString() const { return defined() ? type().toString() : "UndefinedType"; }
std::string DeprecatedTypeProperties::toString() const {
  return DeviceTypeName(device_.type()) + torch::toString(type_) + "Type";
}

// ---- its elements

// Whoever has the address may write without being counted.
void* Tensor::data_ptr() const {
  facula::check_not_batched(known(), "data_ptr");
  facula::materialize(core_);
  facula::expose_address(core_.storage());
  return core_.data();
}
void Tensor::check_type(ScalarType type) const {
  FACULA_CHECK(scalar_type() == type, ErrorKind::Runtime, "data_ptr: expected scalar type ", torch::toString(type),
               ", got ", torch::toString(scalar_type()));
}
void Tensor::check_dims(int64_t dims) const {
  FACULA_CHECK(dim() == dims, ErrorKind::Runtime, "accessor: expected ", dims, " dimensions, got ", dim());
}
void Tensor::check_short() const {
  FACULA_CHECK(numel() <= INT32_MAX, ErrorKind::Runtime, "packed_accessor32: at most ", INT32_MAX,
               " elements are expected, got ", numel());
}

// ---- elsewhere, or in another dtype

namespace {

facula::Tensor moved(const facula::Tensor& t, facula::DType dtype, facula::Device device) {
  FACULA_CHECK(!t.is_meta(), ErrorKind::NotImplemented, "to: a meta tensor has no values to copy to ", device,
               ", got shape ", t.sizes());
  if (!device.is_meta() && !facula::has_backend(device.type)) facula::report_no_backend(device, "to");
  return facula::_to_device(t, device, dtype);
}

Tensor converted(const facula::Tensor& t, const TensorOptions& options, bool non_blocking, bool copy,
                 optional<MemoryFormat> format) {
  FACULA_CHECK(!options.requires_grad(), ErrorKind::Runtime,
               "to: options without requires_grad are expected, got requires_grad set");
  const facula::NonBlocking mode(non_blocking);
  const auto dtype = options.given_dtype().value_or(t.dtype());
  facula::Tensor result = t;
  if (const auto device = options.given_device(); device && facula::concrete(*device) != t.device())
    result = moved(t, dtype, facula::concrete(*device));
  else if (dtype != t.dtype()) result = facula::to_dtype(t, dtype);
  else if (copy) result = facula::clone(t);
  if (format && *format != MemoryFormat::Preserve) result = facula::contiguous(result, detail::format_of(*format));
  return Tensor(std::move(result));
}

}  // namespace

Tensor Tensor::to(const TensorOptions& options, bool non_blocking, bool copy, optional<MemoryFormat> format) const {
  return converted(known(), options, non_blocking, copy, options.pick(format));
}
Tensor Tensor::to(Device device, ScalarType dtype, bool non_blocking, bool copy, optional<MemoryFormat> format) const {
  return converted(known(), TensorOptions(device).dtype(dtype), non_blocking, copy, format);
}
Tensor Tensor::to(ScalarType dtype, bool non_blocking, bool copy, optional<MemoryFormat> format) const {
  return converted(known(), TensorOptions(dtype), non_blocking, copy, format);
}
Tensor Tensor::to(const Tensor& other, bool non_blocking, bool copy, optional<MemoryFormat> format) const {
  return converted(known(), other.options(), non_blocking, copy, format);
}
Tensor Tensor::pin_memory() const { return is_pinned() ? *this : Tensor(facula::ops::pinned_copy(known())); }
bool Tensor::is_pinned() const { return facula::ops::is_pinned(known().storage()); }

// ---- functions with other arguments than the schema's

Tensor Tensor::norm(const Scalar& p) const { return Tensor(facula::norm(known(), p.number())); }
Tensor Tensor::norm(const optional<Scalar>& p, IntArrayRef dim, bool keepdim) const {
  return Tensor(facula::norm(known(), detail::in(p), detail::in(dim), keepdim));
}
Tensor Tensor::norm(const optional<Scalar>& p, IntArrayRef dim, bool keepdim, ScalarType dtype) const {
  return Tensor(facula::norm(known(), detail::in(p), detail::in(dim), keepdim, detail::in(dtype)));
}
Tensor Tensor::norm(const optional<Scalar>& p, ScalarType dtype) const {
  return Tensor(facula::norm(known(), detail::in(p), nullopt, false, detail::in(dtype)));
}
bool Tensor::equal(const Tensor& other) const { return facula::equal(known(), detail::in(other)); }
Tensor Tensor::numpy_T() const {
  std::vector<int64_t> dims;
  for (int64_t d = dim(); d-- > 0;) dims.push_back(d);
  return permute(dims);
}

std::vector<Tensor> where(const Tensor& condition) { return detail::out(facula::where(detail::in(condition))); }
namespace {

Unique unique_rows(const Tensor& self, int64_t dim, bool consecutive, bool with_inverse, bool with_counts) {
  auto [first, inverse, counts] = facula::_unique_rows(detail::in(self), dim, consecutive);
  const Tensor none = torch::empty({0}, torch::dtype(kLong).device(self.device()));
  return {self.index_select(dim, Tensor(first)), with_inverse ? Tensor(inverse) : none,
          with_counts ? Tensor(counts) : none};
}

}  // namespace

std::tuple<Tensor, Tensor> _unique(const Tensor& self, bool sorted, bool return_inverse) {
  auto [values, inverse, counts] = _unique2(self, sorted, return_inverse);
  return {values, inverse};
}
Unique _unique2(const Tensor& self, bool, bool return_inverse, bool return_counts) {
  return detail::out(facula::_unique(detail::in(self), return_inverse, return_counts));
}
Unique unique_dim(const Tensor& self, int64_t dim, bool, bool return_inverse, bool return_counts) {
  return unique_rows(self, dim, false, return_inverse, return_counts);
}
Unique unique_dim_consecutive(const Tensor& self, int64_t dim, bool return_inverse, bool return_counts) {
  return unique_rows(self, dim, true, return_inverse, return_counts);
}
Unique unique_consecutive(const Tensor& self, bool return_inverse, bool return_counts, optional<int64_t> dim) {
  if (dim) return unique_rows(self, *dim, true, return_inverse, return_counts);
  return detail::out(facula::_unique_consecutive(detail::in(self), return_inverse, return_counts));
}

Tensor linspace(const Scalar& start, const Scalar& end, int64_t steps, const TensorOptions& options) {
  return detail::made(
      facula::linspace(detail::in(start), detail::in(end), steps, options.given_dtype(), options.given_device()),
      options);
}
Tensor logspace(const Scalar& start, const Scalar& end, int64_t steps, double base, const TensorOptions& options) {
  return detail::made(
      facula::logspace(detail::in(start), detail::in(end), steps, base, options.given_dtype(), options.given_device()),
      options);
}
Tensor einsum(std::string_view equation, TensorList operands) {
  return Tensor(facula::_einsum(equation, detail::in(operands)));
}
Tensor tensordot(const Tensor& self, const Tensor& other, IntArrayRef dims_self, IntArrayRef dims_other) {
  return Tensor(facula::_tensordot(detail::in(self), detail::in(other), detail::in(dims_self), detail::in(dims_other)));
}

// ---- losses that Python writes with ops

Tensor nll_loss(const Tensor& self, const Tensor& target, const optional<Tensor>& weight, int64_t reduction,
                int64_t ignore_index) {
  return Tensor(facula::nll_loss_nd(detail::in(self), detail::in(target), detail::in(weight), reduction, ignore_index));
}
Tensor nll_loss2d(const Tensor& self, const Tensor& target, const optional<Tensor>& weight, int64_t reduction,
                  int64_t ignore_index) {
  return nll_loss(self, target, weight, reduction, ignore_index);
}
Tensor cross_entropy_loss(const Tensor& self, const Tensor& target, const optional<Tensor>& weight, int64_t reduction,
                          int64_t ignore_index, double label_smoothing) {
  return Tensor(facula::cross_entropy_loss(detail::in(self), detail::in(target), detail::in(weight), reduction,
                                           ignore_index, label_smoothing));
}

namespace {

Tensor reduced(const Tensor& losses, int64_t reduction) {
  return reduction == Reduction::Mean ? losses.mean() : reduction == Reduction::Sum ? losses.sum() : losses;
}

}  // namespace

Tensor hinge_embedding_loss(const Tensor& self, const Tensor& target, double margin, int64_t reduction) {
  const Tensor zero = torch::zeros_like(self);
  const Tensor apart = torch::where(target != 1, (margin - self).clamp_min(0), zero);
  return reduced(apart + torch::where(target != -1, self, zero), reduction);
}
Tensor margin_ranking_loss(const Tensor& input1, const Tensor& input2, const Tensor& target, double margin,
                           int64_t reduction) {
  return reduced((-target * (input1 - input2) + margin).clamp_min(0), reduction);
}
Tensor cosine_embedding_loss(const Tensor& input1, const Tensor& input2, const Tensor& target, double margin,
                             int64_t reduction) {
  constexpr double kTiny = 1e-12;
  const Tensor product = (input1 * input2).sum(-1);
  const Tensor size1 = (input1 * input1).sum(-1) + kTiny, size2 = (input2 * input2).sum(-1) + kTiny;
  const Tensor cosine = product / (size1 * size2).sqrt(), zero = torch::zeros_like(cosine);
  const Tensor alike = torch::where(target == 1, 1 - cosine, zero);
  return reduced(alike + torch::where(target == -1, (cosine - margin).clamp_min(0), zero), reduction);
}
Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive, const Tensor& negative, double margin,
                           double p, double eps, bool swap, int64_t reduction) {
  const Tensor near = pairwise_distance(anchor, positive, p, eps);
  Tensor far = pairwise_distance(anchor, negative, p, eps);
  if (swap) far = torch::min(far, pairwise_distance(positive, negative, p, eps));
  return reduced((margin + near - far).clamp_min(0), reduction);
}
Tensor poisson_nll_loss(const Tensor& input, const Tensor& target, bool log_input, bool full, double eps,
                        int64_t reduction) {
  Tensor loss = log_input ? input.exp() - target * input : input - target * (input + eps).log();
  if (full) {
    const Tensor stirling = target * target.log() - target + 0.5 * (2 * M_PI * target).log();
    loss = loss + stirling.masked_fill(target <= 1, 0);
  }
  return reduced(loss, reduction);
}

// ---- memory of others

namespace {

int64_t last_byte(IntArrayRef sizes, IntArrayRef strides, int64_t item) {
  int64_t last = 0;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (sizes[d] == 0) return 0;
    last += (sizes[d] - 1) * strides[d];
  }
  return (last + 1) * item;
}

Tensor borrowed(void* data, IntArrayRef sizes, IntArrayRef strides, const std::function<void(void*)>& deleter,
                const TensorOptions& options) {
  const auto dtype = options.given_dtype().value_or(facula::default_dtype());
  const int64_t bytes = last_byte(sizes, strides, facula::item_size(dtype));
  FACULA_CHECK(data || bytes == 0, ErrorKind::Value, "from_blob: memory is expected, got a null pointer");
  using Deleter = std::pair<std::function<void(void*)>, void*>;
  auto* context = new Deleter(deleter, data);
  facula::Storage* storage = facula::borrow_storage(
      data, static_cast<size_t>(bytes), facula::concrete(detail::device_of(options.device())),
      [](facula::Storage* s) {
        auto* mine = static_cast<Deleter*>(s->context);
        if (mine->first) mine->first(mine->second);
        delete mine;
      },
      context);
  facula::expose_address(storage);
  auto made = facula::tensor_on_storage(storage, dtype, 0, detail::in(sizes), detail::in(strides), "from_blob");
  facula::release(storage);
  return detail::made(std::move(made), options);
}

}  // namespace

Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const std::function<void(void*)>& deleter,
                 const TensorOptions& options) {
  FACULA_CHECK(sizes.size() == strides.size(), ErrorKind::Runtime, "from_blob: as many strides as sizes are expected, ",
               "got ", strides, " for ", sizes);
  return borrowed(data, sizes, strides, deleter, options);
}
Tensor from_blob(void* data, IntArrayRef sizes, const std::function<void(void*)>& deleter,
                 const TensorOptions& options) {
  const facula::Dims strides = facula::contiguous_strides(detail::in(sizes));
  return borrowed(data, sizes, facula::IntList(strides), deleter, options);
}
Tensor from_blob(void* data, IntArrayRef sizes, const TensorOptions& options) {
  return from_blob(data, sizes, std::function<void(void*)>(), options);
}
Tensor from_blob(void* data, IntArrayRef sizes, IntArrayRef strides, const TensorOptions& options) {
  return from_blob(data, sizes, strides, std::function<void(void*)>(), options);
}

// ---- tensors of given values

namespace detail {

TensorData::TensorData(std::initializer_list<TensorData> list) : is_list_(true), list_(list) {
  sizes_.push_back(static_cast<int64_t>(list_.size()));
  if (list_.empty()) {
    type_ = get_default_dtype().toScalarType();
    return;
  }
  const TensorData& first = list_[0];
  type_ = first.type_;
  for (const TensorData& item : list_) {
    FACULA_CHECK(item.sizes_ == first.sizes_, ErrorKind::Runtime,
                 "tensor: lists of the sizes of the first are expected, ", IntArrayRef(first.sizes_), ", got ",
                 IntArrayRef(item.sizes_));
    FACULA_CHECK(item.type_ == type_, ErrorKind::Runtime, "tensor: elements of the type of the first are expected, ",
                 torch::toString(type_), ", got ", torch::toString(item.type_));
  }
  sizes_.insert(sizes_.end(), first.sizes_.begin(), first.sizes_.end());
}

TensorData::TensorData(const void* values, size_t count, ScalarType type)
    : type_(type), sizes_{static_cast<int64_t>(count)}, values_(torch::empty(sizes_, type)) {
  if (count) std::memcpy(values_.core().data(), values, count * elementSize(type));
}

void TensorData::fill(const Tensor& part) const {
  if (values_.defined()) part.copy_(values_);
  else if (!is_list_) part.fill_(number_);
  else
    for (size_t i = 0; i < list_.size(); ++i) list_[i].fill(part[static_cast<int64_t>(i)]);
}

Tensor TensorData::made(TensorOptions options) const {
  if (!options.has_dtype()) {
    const bool is_float = type_ == kFloat || type_ == kDouble;
    options = options.dtype(type_ == kInt ? kLong : is_float ? get_default_dtype().toScalarType() : type_);
  }
  facula::GradMode off(false);
  Tensor host = torch::empty(sizes_, options.dtype().toScalarType());
  fill(host);
  Tensor placed = options.device().is_cpu() ? host : host.to(options.device());
  return detail::made(placed.core(), options);
}

}  // namespace detail

std::ostream& operator<<(std::ostream& out, const std::vector<Tensor>& list) {
  for (size_t i = 0; i < list.size(); ++i) out << list[i] << (i + 1 < list.size() ? " " : "");
  return out;
}

}  // namespace torch
