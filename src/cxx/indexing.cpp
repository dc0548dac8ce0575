// x.index({...}) and x.index_put_({...}, v): basic indices become views, tensors go to `index` and `index_put_`.
#include "torch/detail/indexing.h"

#include <algorithm>
#include <cstring>

#include "functions.h"

namespace torch {

using facula::ErrorKind;
using indexing::TensorIndex;
using indexing::TensorIndexType;

namespace {

bool is_mask(const facula::Tensor& t) { return t.dtype() == facula::DType::Bool || t.dtype() == facula::DType::UInt8; }

/// Bounds as Python has them: negative ones count from the end, and all are cut to the dimension.
facula::Tensor sliced(const facula::Tensor& t, int64_t dim, optional<int64_t> start, optional<int64_t> stop,
                      int64_t step) {
  FACULA_CHECK(step > 0, ErrorKind::Value, "slice: step must be greater than zero, got ", step);
  const int64_t size = t.size(dim);
  const auto cut = [&](int64_t bound) { return std::clamp<int64_t>(bound < 0 ? bound + size : bound, 0, size); };
  const int64_t from = cut(start.value_or(0)), to = std::max(from, cut(stop.value_or(size)));
  return facula::slice(t, dim, from, to, step);
}

facula::Tensor on_device(const facula::Tensor& t, facula::Device device) {
  return t.device().is_cpu() && !device.is_cpu() ? facula::_to_device(t, device, t.dtype()) : t;
}

/// One pass over the indices: views are taken as they come, tensors collected by the dimension that they stand for.
class Reader {
 public:
  explicit Reader(const facula::Tensor& t) : view(t) {}

  void read(ArrayRef<TensorIndex> indices) {
    int64_t consumed = 0;
    for (const TensorIndex& index : indices) consumed += dims_of(index);
    FACULA_CHECK(consumed <= view.dim(), ErrorKind::Index, "index: too many indices for tensor of dimension ",
                 view.dim(), ", got ", consumed);
    rest_ = view.dim() - consumed;
    for (const TensorIndex& index : indices) add(index);
  }

  facula::Tensor view;
  std::vector<facula::Tensor> tensors;  // undefined where a dimension is taken whole
  bool advanced = false;

 private:
  static int64_t dims_of(const TensorIndex& index) {
    switch (index.type()) {
      case TensorIndexType::Integer:
      case TensorIndexType::Slice: return 1;
      case TensorIndexType::Tensor: return is_mask(detail::in(index.tensor())) ? index.tensor().dim() : 1;
      default: return 0;
    }
  }

  void add(const TensorIndex& index) {
    switch (index.type()) {
      case TensorIndexType::None: view = facula::unsqueeze(view, at_++); break;
      case TensorIndexType::Ellipsis: at_ += rest_; break;
      case TensorIndexType::Integer: take_integer(index.integer()); break;
      case TensorIndexType::Slice: {
        const auto& s = index.slice();
        view = sliced(view, at_++, s.start(), s.stop(), s.step());
        break;
      }
      case TensorIndexType::Boolean:
        take_tensor(facula::full({}, facula::Scalar(index.boolean()), facula::DType::Bool));
        break;
      case TensorIndexType::Tensor: take_tensor(index.tensor().core()); break;
    }
  }

  void take_integer(int64_t i) {
    FACULA_CHECK(at_ < view.dim(), ErrorKind::Index, "index: a 0-d tensor cannot be indexed (use .item()), got ", i);
    const int64_t size = view.size(at_);
    FACULA_CHECK(i >= -size && i < size, ErrorKind::Index, "index: ", i, " is out of bounds for dimension ", at_,
                 " with size ", size);
    view = facula::select(view, at_, i);
  }

  void take_tensor(const facula::Tensor& t) {
    FACULA_CHECK(facula::is_bits(t.dtype()), ErrorKind::Index,
                 "index: tensors used as indices must be int32, int64, uint8 or bool, got ", t.dtype());
    if (t.dim() == 0 && !is_mask(t) && !t.is_meta()) return take_integer(t.item().to_int());
    advanced = true;
    if (t.dim() == 0) {
      view = facula::unsqueeze(view, at_);
      return put_mask(facula::unsqueeze(t, 0));
    }
    if (is_mask(t)) return put_mask(t);
    tensors.resize(static_cast<size_t>(at_++));
    tensors.push_back(t);
  }

  void put_mask(const facula::Tensor& given) {
    const facula::Tensor mask = on_device(given, view.device());
    for (int64_t d = 0; d < mask.dim(); ++d)
      FACULA_CHECK(mask.size(d) == view.size(at_ + d), ErrorKind::Index, "index: the mask's shape ", mask.sizes(),
                   " does not match the indexed tensor of shape ", view.sizes(), " at dimension ", d);
    tensors.resize(static_cast<size_t>(at_));
    for (facula::Tensor& positions : facula::unbind(facula::nonzero(mask), 1)) tensors.push_back(std::move(positions));
    at_ += mask.dim();
  }

  int64_t at_ = 0, rest_ = 0;
};

facula::Tensor without_leading_ones(const facula::Tensor& value, int64_t ndim) {
  size_t drop = 0;
  while (value.dim() - static_cast<int64_t>(drop) > ndim && value.sizes()[drop] == 1) ++drop;
  return drop ? facula::reshape(value, value.sizes().slice(drop, value.sizes().size() - drop)) : value;
}

void assign(const facula::Tensor& self, ArrayRef<TensorIndex> indices, const facula::Tensor& given) {
  Reader reader(self);
  reader.read(indices);
  const facula::Tensor value = given.dim() == 0 ? on_device(given, self.device()) : given;
  if (!reader.advanced) facula::copy_(reader.view, without_leading_ones(value, reader.view.dim()));
  else facula::index_put_(reader.view, reader.tensors, without_leading_ones(value, 0), false);
}

std::vector<facula::Tensor> positions_of(const facula::Tensor& self, const std::vector<optional<Tensor>>& indices) {
  std::vector<facula::Tensor> tensors;
  for (const auto& index : indices) {
    if (!index || !index->defined()) tensors.emplace_back();
    else if (!is_mask(index->core())) tensors.push_back(index->core());
    else
      for (facula::Tensor& t : facula::unbind(facula::nonzero(on_device(index->core(), self.device())), 1))
        tensors.push_back(std::move(t));
  }
  return tensors;
}

}  // namespace

indexing::TensorIndex::TensorIndex(const char* text) : type_(TensorIndexType::Ellipsis) {
  FACULA_CHECK(std::strcmp(text, "...") == 0, ErrorKind::Value, "index: the text of an index must be \"...\", got \"",
               text, "\"");
}

Tensor Tensor::index(ArrayRef<TensorIndex> indices) const {
  Reader reader(known());
  reader.read(indices);
  if (reader.advanced) return Tensor(facula::index(reader.view, reader.tensors));
  return Tensor(reader.view.is_same(core_) ? facula::alias_view(core_) : reader.view);
}
Tensor Tensor::index(const std::vector<optional<Tensor>>& indices) const {
  return Tensor(facula::index(known(), positions_of(known(), indices)));
}
Tensor index(const Tensor& self, const std::vector<optional<Tensor>>& indices) { return self.index(indices); }

Tensor& Tensor::index_put_(ArrayRef<TensorIndex> indices, const Tensor& values) const {
  assign(known(), indices, detail::in(values));
  return const_cast<Tensor&>(*this);
}
Tensor& Tensor::index_put_(ArrayRef<TensorIndex> indices, const Scalar& value) const {
  assign(known(), indices, facula::scalar_tensor(value.number(), core_.dtype(), core_.device()));
  return const_cast<Tensor&>(*this);
}
Tensor& Tensor::index_put_(const std::vector<optional<Tensor>>& indices, const Tensor& values, bool accumulate) const {
  facula::index_put_(known(), positions_of(known(), indices), detail::in(values), accumulate);
  return const_cast<Tensor&>(*this);
}
Tensor Tensor::index_put(const std::vector<optional<Tensor>>& indices, const Tensor& values, bool accumulate) const {
  return Tensor(facula::index_put(known(), positions_of(known(), indices), detail::in(values), accumulate));
}

Tensor Tensor::operator[](int64_t index) const {
  Reader reader(known());
  reader.read({TensorIndex(index)});
  return Tensor(std::move(reader.view));
}
Tensor Tensor::operator[](const Scalar& index) const {
  FACULA_CHECK(index.isIntegral(false), ErrorKind::Index, "index: a number that indexes must be an integer, got ",
               index);
  return (*this)[index.toLong()];
}
Tensor Tensor::operator[](const Tensor& index) const { return this->index({TensorIndex(index)}); }

Tensor Tensor::slice(int64_t dim, optional<int64_t> start, optional<int64_t> end, int64_t step) const {
  return Tensor(sliced(known(), facula::wrap_dim(dim, core_.dim(), "slice"), start, end, step));
}
Tensor slice(const Tensor& self, int64_t dim, optional<int64_t> start, optional<int64_t> end, int64_t step) {
  return self.slice(dim, start, end, step);
}

}  // namespace torch
