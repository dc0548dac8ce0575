// Shape and dtype rules of the normalizations.
#include "ops/norm.h"

#include "core/checked.h"
#include "core/findings.h"
#include "core/write.h"
#include "ops/contiguous.h"
#include "ops/needs.h"
#include "raw_ops.h"

namespace facula::ops {
namespace {

/// Weights and statistics as the kernels want them.
Tensor parameter(const Tensor& t, DType compute) { return as_contiguous(t, compute); }

void check_floating(const Tensor& self, const char* op) {
  FACULA_CHECK(is_floating(self.dtype()) && !is_float8(self.dtype()), ErrorKind::NotImplemented, op,
               ": expected a floating-point tensor, got ", self.dtype());
}

// The kernels read as many elements as the layout says, so all that comes with a tensor is held against it first.

/// A parameter, statistic or gradient, if there is one, has `count` elements.
void check_size(const char* op, const char* what, const Tensor& t, int64_t count) {
  FACULA_CHECK(!t.defined() || t.numel() == count, ErrorKind::Runtime, op, ": ", what, " of ", count,
               " elements, got shape ", t.sizes());
}

const char* row_op(bool center) { return center ? "layer_norm" : "rms_norm"; }

RowLayout row_layout(const char* op, const Tensor& self, int64_t rows, int64_t groups, int64_t channels) {
  int64_t length = rows > 0 ? self.numel() / rows : 0;
  FACULA_CHECK(rows >= 0 && groups > 0 && rows % groups == 0 && channels >= 0 && length * rows == self.numel() &&
                   (channels ? length % channels : length) == 0,
               ErrorKind::Runtime, op, ": rows of whole channels, got ", rows, " rows, ", groups, " groups and ",
               channels, " channels of shape ", self.sizes());
  return {rows, groups, channels, channels ? length / channels : 0};
}

/// A copy in the order that the kernels walk: that of `like`, channels last or contiguous.
Tensor in_order_of(const Tensor& like, const Tensor& t) { return as_contiguous(t, like.suggest_memory_format()); }

void check_channels(const Tensor& self, std::initializer_list<const Tensor*> parameters) {
  FACULA_CHECK(self.dim() >= 2, ErrorKind::Runtime, "batch_norm: expected at least two dimensions, got shape ",
               self.sizes());
  for (const Tensor* t : parameters) check_size("batch_norm", "parameters and statistics", *t, self.size(1));
}

/// One number for each channel, as the kernels and broadcasting want it.
Tensor per_channel(const Tensor& t, DType compute) {
  const Tensor plain = parameter(t, compute);
  return !plain.defined() || plain.dim() == 1 ? plain : make_view(plain, {plain.numel()}, {1}, 0, false);
}

/// Scale and shift of every channel; fills rstd.
std::pair<Tensor, Tensor> channel_factors(Tensor& rstd, const Tensor& mean, const Tensor& variance,
                                          const Tensor& weight, const Tensor& bias, double eps) {
  const Device device = rstd.device();
  if (channel_factors_kernel.table[static_cast<size_t>(device.type)]) {
    const Tensor scale = weight.defined() ? facula::empty(rstd.sizes(), rstd.dtype(), device) : rstd;
    const Tensor shift = facula::empty(rstd.sizes(), rstd.dtype(), device);
    channel_factors_kernel(device, rstd, scale, shift, mean, variance, weight, bias, eps);
    return {scale, shift};
  }
  rstd = rsqrt(add(variance, Scalar(eps), Scalar(1)));
  const Tensor scale = weight.defined() ? mul(rstd, weight) : rstd, shift = neg(mul(mean, scale));
  return {scale, bias.defined() ? add(shift, bias, Scalar(1)) : shift};
}

/// In channels-last memory every element of a channel is a run by itself.
ChannelLayout channel_layout(const Tensor& self) {
  int64_t outer = self.size(0), channels = self.size(1);
  int64_t inner = 1;
  for (int64_t d = 2; d < self.dim(); ++d) inner *= self.size(d);
  if (self.suggest_memory_format() != MemoryFormat::Contiguous) return {outer * inner, channels, 1};
  return {outer, channels, inner};
}

/// Groups of the channels of channels-last images, which are no runs of memory: their rows are computed by channels.
bool are_groups_of_images(const Tensor& self, const RowLayout& layout) {
  return self.dim() == 4 && layout.rows == self.size(0) * layout.groups &&
         self.size(1) == layout.groups * layout.channels && self.numel() > 0 &&
         self.suggest_memory_format() == MemoryFormat::ChannelsLast && self.is_contiguous(MemoryFormat::ChannelsLast);
}

/// Statistics of images by samples, groups and channels of a group, which also stand for the elements in memory.
struct ImageGroups {
  int64_t samples;
  const RowLayout& layout;

  Dims sizes() const { return {samples, layout.groups, layout.channels}; }
  ChannelLayout columns() const { return {layout.inner, layout.groups * layout.channels, 1, samples}; }
  Tensor per_group(const Tensor& t) const { return view_as(t, {samples, layout.groups, 1}); }
  Tensor parameter(const Tensor& t) const { return view_as(t, {1, layout.groups, layout.channels}); }
  Tensor empty(const Tensor& like) const { return facula::empty(sizes(), like.dtype(), like.device()); }
  /// The sum over the channels of each group.
  Tensor sum_of_groups(const Tensor& t) const {
    return ops::sum(t, std::optional<IntList>(IntList{2}), true, std::optional<DType>());
  }
  static Tensor view_as(const Tensor& t, IntList sizes) {
    return make_view(t, sizes, strides_of(sizes, MemoryFormat::Contiguous, "group_norm"), 0, false);
  }
};

/// out = (self - mean) * rstd * weight + bias for the groups of each sample.
void image_groups_norm(const Tensor& out, const Tensor& mean, const Tensor& rstd, const Tensor& self,
                       const Tensor& weight, const Tensor& bias, const RowLayout& layout, double eps) {
  const ImageGroups groups{self.size(0), layout};
  const Scalar share(1.0 / static_cast<double>(layout.channels));
  Tensor means = groups.empty(mean), variances = groups.empty(mean);
  channel_moments_kernel(self.device(), means, variances, self, groups.columns());
  const Tensor center = mul(groups.sum_of_groups(means), share), apart = sub(means, center, Scalar(1));
  const Tensor variance = mul(groups.sum_of_groups(add(variances, mul(apart, apart), Scalar(1))), share);
  const Tensor deviation = rsqrt(add(variance, Scalar(eps), Scalar(1)));
  copy_elements(groups.per_group(mean), center);
  copy_elements(groups.per_group(rstd), deviation);
  const Tensor whole = zeros(groups.sizes(), mean.dtype(), mean.device());
  const Tensor scale = add(whole, weight.defined() ? mul(deviation, groups.parameter(weight)) : deviation, Scalar(1));
  Tensor shift = neg(mul(center, scale));
  if (bias.defined()) shift = add(shift, groups.parameter(bias), Scalar(1));
  channel_affine_kernel(self.device(), out, self, scale, shift, groups.columns());
}

/// The gradients; g stands for grad * weight: rstd * (g - mean(g) - (x - mean) * rstd^2 * mean(g * (x - mean))).
void image_groups_backward(const RowGradients& made, const Tensor& grad, const Tensor& self, const Tensor& weight,
                           const Tensor& row_mean, const Tensor& row_rstd, const RowLayout& layout) {
  const ImageGroups groups{self.size(0), layout};
  const Tensor whole = zeros(groups.sizes(), row_mean.dtype(), row_mean.device());
  const Tensor mean = groups.per_group(row_mean), rstd = groups.per_group(row_rstd);
  Tensor total = groups.empty(row_mean), centered = groups.empty(row_mean);
  channel_sums_kernel(self.device(), total, centered, grad, self, add(whole, mean, Scalar(1)), groups.columns());
  auto over_samples = [&](const Tensor& t, const Tensor& out) {
    if (!out.defined()) return;
    const Tensor added = ops::sum(t, std::optional<IntList>(IntList{0}), true, std::optional<DType>());
    copy_elements(groups.parameter(out), added);
  };
  over_samples(mul(centered, rstd), made.weight);
  over_samples(total, made.bias);
  if (!made.self.defined()) return;
  if (weight.defined()) {
    total = mul(total, groups.parameter(weight));
    centered = mul(centered, groups.parameter(weight));
  }
  const Scalar share(1.0 / static_cast<double>(layout.length()));
  const Tensor a = add(whole, weight.defined() ? mul(rstd, groups.parameter(weight)) : rstd, Scalar(1));
  const Tensor cubed = mul(rstd, mul(rstd, rstd));
  const Tensor b = neg(mul(cubed, mul(groups.sum_of_groups(centered), share)));
  const Tensor c = neg(add(mul(rstd, mul(groups.sum_of_groups(total), share)), mul(b, mean), Scalar(1)));
  channel_combine_kernel(self.device(), made.self, grad, self, a, add(whole, b, Scalar(1)), add(whole, c, Scalar(1)),
                         groups.columns());
}

/// running <- running + momentum * (batch - running), keeping the running tensor's dtype.
void move_running(const Tensor& running, const Tensor& batch, double momentum, double scale) {
  if (!running.defined()) return;
  DType compute = batch.dtype();
  Tensor old = to_dtype(running, compute);
  Tensor moved = add(mul(old, Scalar(1.0 - momentum)), mul(batch, Scalar(momentum * scale)), Scalar(1));
  const WriteScope write(running, "batch_norm", op_id::_channel_norm);
  copy_elements(write.target(), moved);
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> _row_norm(const Tensor& self, const Tensor& weight, const Tensor& bias, int64_t rows,
                                             int64_t groups, int64_t channels, double eps, bool center) {
  const char* op = row_op(center);
  check_floating(self, op);
  const RowLayout layout = row_layout(op, self, rows, groups, channels);
  const int64_t parameters = (Checked(groups) * channels).get(op, "groups times channels", "shape ", self.sizes());
  for (const Tensor* t : {&weight, &bias}) check_size(op, "parameters", *t, parameters);
  DType compute = compute_dtype(self.dtype());
  const bool images = center && are_groups_of_images(self, layout);
  Tensor out =
      images ? facula::empty_like(self, self.dtype()) : facula::empty(self.sizes(), self.dtype(), self.device());
  Tensor mean = facula::empty({rows}, compute, self.device()), rstd = facula::empty({rows}, compute, self.device());
  if (self.is_meta()) return {std::move(out), std::move(mean), std::move(rstd)};
  if (images) {
    image_groups_norm(out, mean, rstd, self, parameter(weight, compute), parameter(bias, compute), layout, eps);
  } else {
    const Contiguous rows_of(self), scale(weight, compute), shift(bias, compute);
    row_norm_kernel(self.device(), out, mean, rstd, rows_of.get(), scale.get(), shift.get(), layout, eps, center);
  }
  return {std::move(out), std::move(mean), std::move(rstd)};
}

std::tuple<Tensor, Tensor, Tensor> _row_norm_backward(const Tensor& grad, const Tensor& self, const Tensor& weight,
                                                      const Tensor& mean, const Tensor& rstd, int64_t groups,
                                                      int64_t channels, bool center, bool of_self, bool of_weight,
                                                      bool of_bias) {
  const char* op = row_op(center);
  check_floating(self, op);
  const RowLayout layout = row_layout(op, self, rstd.numel(), groups, channels);
  const int64_t parameters = (Checked(groups) * channels).get(op, "groups times channels", "shape ", self.sizes());
  check_size(op, "gradients", grad, self.numel());
  check_size(op, "parameters", weight, parameters);
  check_size(op, "means", mean, rstd.numel());
  const DType compute = compute_dtype(self.dtype());
  const Device device = self.device();
  auto made = [&](bool requested) { return facula::empty({requested ? parameters : 0}, compute, device); };
  const bool images = center && are_groups_of_images(self, layout);
  Tensor gs = !of_self ? facula::empty({0}, self.dtype(), device)
              : images ? facula::empty_like(self, self.dtype())
                       : facula::empty(self.sizes(), self.dtype(), device);
  Tensor gw = made(of_weight), gb = made(of_bias);
  if (self.is_meta() || (rstd.numel() == 0 && !of_weight && !of_bias))
    return {std::move(gs), std::move(gw), std::move(gb)};
  const RowGradients requested{of_self ? gs : Tensor(), of_weight ? gw : Tensor(), of_bias ? gb : Tensor()};
  if (images) {
    image_groups_backward(requested, in_order_of(self, to_dtype(grad, self.dtype())), self, parameter(weight, compute),
                          parameter(mean, compute), parameter(rstd, compute), layout);
  } else {
    row_norm_backward_kernel(device, requested, as_contiguous(to_dtype(grad, self.dtype())), as_contiguous(self),
                             parameter(weight, compute), parameter(mean, compute), parameter(rstd, compute), layout,
                             center);
  }
  return {std::move(gs), std::move(gw), std::move(gb)};
}

std::tuple<Tensor, Tensor, Tensor> _channel_norm(const Tensor& self, const Tensor& weight, const Tensor& bias,
                                                 const Tensor& running_mean, const Tensor& running_var, bool training,
                                                 double momentum, double eps) {
  check_floating(self, "batch_norm");
  check_channels(self, {&weight, &bias, &running_mean, &running_var});
  for (const Tensor* t : {&running_mean, &running_var})
    if (t->defined()) need_rank("batch_norm", "running statistics", *t, 1);
  FACULA_CHECK(training || (running_mean.defined() && running_var.defined()), ErrorKind::Runtime,
               "batch_norm: running_mean and running_var outside of training, got none");
  DType compute = compute_dtype(self.dtype());
  Tensor input = in_order_of(self, self);
  Tensor out = facula::empty_like(input, self.dtype());
  int64_t channels = self.size(1);
  Tensor mean = facula::empty({channels}, compute, self.device()),
         rstd = facula::empty({channels}, compute, self.device());
  if (self.is_meta()) return {std::move(out), std::move(mean), std::move(rstd)};
  ChannelLayout layout = channel_layout(self);
  Tensor variance = facula::empty({channels}, compute, self.device());
  if (training) {
    for (const Tensor* running : {&running_mean, &running_var})
      if (running->defined()) check_written(*running, "batch_norm");
    channel_moments_kernel(self.device(), mean, variance, input, layout);
    double count = static_cast<double>(layout.count());
    if (count > 0) {
      move_running(running_mean, mean, momentum, 1.0);
      move_running(running_var, variance, momentum, count / (count - 1.0));
    }
    if (Findings* found = wanted_findings()) *found = {clone(mean, std::nullopt), variance};
  } else {
    mean = parameter(running_mean, compute);
    variance = parameter(running_var, compute);
  }
  const auto [scale, shift] =
      channel_factors(rstd, mean, variance, per_channel(weight, compute), per_channel(bias, compute), eps);
  channel_affine_kernel(self.device(), out, input, scale, shift, layout);
  return {out, mean.is_same(running_mean) ? clone(mean, std::nullopt) : mean, rstd};
}

std::tuple<Tensor, Tensor, Tensor> channel_norm_again(const Tensor& self, const Tensor& weight, const Tensor& bias,
                                                      const Findings& found, double eps,
                                                      const FollowingLoops& following) {
  const DType compute = compute_dtype(self.dtype());
  const Tensor input = in_order_of(self, self), mean = clone(found[0], std::nullopt);
  Tensor out = facula::empty_like(input, self.dtype()), rstd = facula::empty(mean.sizes(), compute, self.device());
  const auto [scale, shift] =
      channel_factors(rstd, mean, found[1], per_channel(weight, compute), per_channel(bias, compute), eps);
  if (following.loops.empty()) channel_affine_kernel(self.device(), out, input, scale, shift, channel_layout(self));
  else channel_affine_then_kernel(self.device(), out, input, scale, shift, channel_layout(self), following);
  return {std::move(out), mean, std::move(rstd)};
}

std::tuple<Tensor, Tensor, Tensor> _channel_norm_backward(const Tensor& grad_output, const Tensor& self,
                                                          const Tensor& weight, const Tensor& batch_mean,
                                                          const Tensor& batch_rstd, bool training, bool of_self,
                                                          bool of_weight, bool of_bias) {
  check_floating(self, "batch_norm");
  check_channels(self, {&weight, &batch_mean, &batch_rstd});
  need_shape("batch_norm", "the gradient", grad_output, self.sizes());
  const DType compute = compute_dtype(self.dtype());
  const Device device = self.device();
  const Tensor input = in_order_of(self, self), none = facula::empty({0}, compute, device);
  Tensor gs = of_self ? facula::empty_like(input, self.dtype()) : facula::empty({0}, self.dtype(), device);
  const bool sums = of_weight || of_bias || (training && of_self);
  Tensor total = sums ? facula::empty({self.size(1)}, compute, device) : none;
  Tensor centered = sums ? facula::empty({self.size(1)}, compute, device) : none;
  if (self.is_meta()) return {gs, of_weight ? centered : none, of_bias ? total : none};
  if (self.numel() == 0) {  // the statistics of no elements are NaN, the gradients that come of none are zero
    for (const Tensor* t : {&total, &centered}) fill_(*t, Scalar(0));
    return {gs, of_weight ? centered : none, of_bias ? total : none};
  }
  const ChannelLayout layout = channel_layout(self);
  const Tensor grad = in_order_of(self, to_dtype(grad_output, self.dtype()));
  const Tensor mean = per_channel(batch_mean, compute), rstd = per_channel(batch_rstd, compute);
  if (sums) channel_sums_kernel(device, total, centered, grad, input, mean, layout);
  if (of_self) {
    Tensor a = weight.defined() ? mul(rstd, per_channel(weight, compute)) : rstd;
    if (training) {
      // a * (g - mean(g) - (x - mean) * rstd^2 * mean(g * (x - mean)))
      const Scalar per_element(1.0 / static_cast<double>(layout.count()));
      Tensor b = neg(mul(mul(a, mul(rstd, rstd)), mul(centered, per_element)));
      Tensor c = neg(add(mul(a, mul(total, per_element)), mul(b, mean), Scalar(1)));
      channel_combine_kernel(device, gs, grad, input, a, b, c, layout);
    } else {
      channel_affine_kernel(device, gs, grad, a, zeros(rstd.sizes(), compute, device), layout);
    }
  }
  return {gs, of_weight ? mul(centered, rstd) : none, of_bias ? total : none};
}

}  // namespace facula::ops
