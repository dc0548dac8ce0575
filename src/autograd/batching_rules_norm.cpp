// vmap rules of normalization.
#include "autograd/batching_rules.h"
#include "functions.h"

namespace facula {

namespace {

// A statistic per row, of all examples one after the other.
Tensor join_rows(const Batch& batch, const Tensor& t) { return t.defined() ? join_front(batch.spread(t)) : t; }

}  // namespace

// Rows: (batch * rows) runs; a weight of each example's own is applied afterwards.
std::tuple<Tensor, Tensor, Tensor> batched_row_norm(const Tensor& self, const Tensor& weight, const Tensor& bias,
                                                    int64_t rows, int64_t groups, int64_t channels, double eps,
                                                    bool center) {
  Batch batch("layer_norm", self, weight, bias);
  if (batch.has(weight) || batch.has(bias)) {
    auto [made, mean, rstd] = _row_norm(self, Tensor(), Tensor(), rows, groups, channels, eps, center);
    Tensor runs = reshape(made, {rows / groups, groups, channels, -1});
    if (weight.defined()) runs = mul(runs, reshape(weight, {1, groups, channels, 1}));
    if (bias.defined()) runs = add(runs, reshape(bias, {1, groups, channels, 1}), Scalar(1));
    return {reshape(runs, self.sizes()), mean, rstd};
  }
  auto [made, mean, rstd] =
      _row_norm(batch.value(self), weight, bias, rows * batch.size(), groups, channels, eps, center);
  return {batch.wrap(made), batch.wrap(split_front(mean, batch.size())), batch.wrap(split_front(rstd, batch.size()))};
}

std::tuple<Tensor, Tensor, Tensor> batched_row_norm_backward(const Tensor& grad, const Tensor& self,
                                                             const Tensor& weight, const Tensor& mean,
                                                             const Tensor& rstd, int64_t groups, int64_t channels,
                                                             bool center, bool of_self, bool of_weight, bool of_bias) {
  Batch batch("layer_norm", grad, self, weight, mean, rstd);
  const Dims runs{rstd.numel() / groups, groups, channels, -1}, row{rstd.numel() / groups, groups, 1, 1};
  auto per_channel = [&](const Tensor& t) {
    return reshape(sum(t, std::optional<IntList>(IntList{0, 3}), false, std::optional<DType>()), {groups * channels});
  };
  Tensor gs, gw, gb, g = reshape(grad, runs), none = new_empty(grad, {0});
  gw = gb = gs = none;
  if (of_bias) gb = per_channel(g);
  if (of_weight)
    gw = per_channel(mul(g, mul(sub(reshape(self, runs), reshape(mean, row), Scalar(1)), reshape(rstd, row))));
  if (!of_self) return {gs, gw, gb};
  if (batch.has(weight)) {
    g = reshape(mul(g, reshape(weight, {1, groups, channels, 1})), self.sizes());
    gs = std::get<0>(_row_norm_backward(g, self, Tensor(), mean, rstd, groups, channels, center, true, false, false));
  } else {
    gs = batch.wrap(
        std::get<0>(_row_norm_backward(batch.spread(grad), batch.spread(self), weight, join_rows(batch, mean),
                                       join_rows(batch, rstd), groups, channels, center, true, false, false)));
  }
  return {gs, gw, gb};
}

// Channels: (batch * C) of them.
std::tuple<Tensor, Tensor, Tensor> batched_channel_norm(const Tensor& self, const Tensor& weight, const Tensor& bias,
                                                        const Tensor& running_mean, const Tensor& running_var,
                                                        bool training, double momentum, double eps) {
  Batch batch("batch_norm", self, weight, bias, running_mean, running_var);
  auto moved = [&](const Tensor& running) {
    if (!running.defined()) return running;
    FACULA_CHECK(!training || batch.has(running), ErrorKind::Runtime,
                 "vmap: batch_norm: running statistics that all examples share cannot be "
                 "moved by each (use functional_call with batched buffers, or no running statistics), got shape ",
                 running.sizes());
    return batch.has(running) ? contiguous(join_front(batch.value(running)), MemoryFormat::Contiguous)
                              : join_front(batch.spread(running));
  };
  auto joined = [&](const Tensor& t) { return t.defined() ? join_front(batch.spread(t)) : t; };
  Tensor means = moved(running_mean), variances = moved(running_var);
  auto [made, mean, rstd] = _channel_norm(into_channels(batch.spread(self)), joined(weight), joined(bias), means,
                                          variances, training, momentum, eps);
  if (training && running_mean.defined()) copy_(batch.value(running_mean), split_front(means, batch.size()), false);
  if (training && running_var.defined()) copy_(batch.value(running_var), split_front(variances, batch.size()), false);
  return {batch.wrap(out_of_channels(made, batch.size())), batch.wrap(split_front(mean, batch.size())),
          batch.wrap(split_front(rstd, batch.size()))};
}

std::tuple<Tensor, Tensor, Tensor> batched_channel_norm_backward(const Tensor& grad, const Tensor& self,
                                                                 const Tensor& weight, const Tensor& mean,
                                                                 const Tensor& rstd, bool training, bool of_self,
                                                                 bool of_weight, bool of_bias) {
  Batch batch("batch_norm", grad, self, weight, mean, rstd);
  auto joined = [&](const Tensor& t) { return t.defined() ? join_front(batch.spread(t)) : t; };
  Tensor gs, gw, gb;
  std::tie(gs, gw, gb) =
      _channel_norm_backward(into_channels(batch.spread(grad)), into_channels(batch.spread(self)), joined(weight),
                             joined(mean), joined(rstd), training, of_self, of_weight, of_bias);
  auto split = [&](const Tensor& t, bool requested) {
    return requested ? batch.wrap(split_front(t, batch.size())) : t;
  };
  if (of_self) gs = batch.wrap(out_of_channels(gs, batch.size()));
  return {gs, split(gw, of_weight), split(gb, of_bias)};
}

}  // namespace facula
