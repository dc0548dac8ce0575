// Operators of PyTorch's that are functions of Python here, or private ops: losses, cells, bags of embeddings.
#include <algorithm>

#include "functions.h"
#include "program/boxing.h"
#include "program/recurrent.h"

namespace facula {
namespace {

using OptTensor = const Tensor&;
constexpr double kPi = 3.14159265358979323846;

Tensor reduced(const Tensor& loss, int64_t reduction) {
  FACULA_CHECK(reduction >= 0 && reduction <= 2, ErrorKind::Value,
               "loss: the reduction is 0 (none), 1 (mean) or 2 (sum), got ", reduction);
  return reduction == 0 ? loss : reduction == 1 ? mean(loss) : sum(loss);
}
Tensor positive_part(const Tensor& t) { return clamp_min(t, Scalar(0)); }

Tensor threshold_of(const Tensor& self, const Scalar& threshold, const Scalar& value) {
  return where(le(self, threshold), value, self);
}

Tensor poisson_nll(const Tensor& input, const Tensor& target, bool log_input, bool full, double eps,
                   int64_t reduction) {
  Tensor loss = log_input ? exp(input) - target * input : input - target * log(input + eps);
  if (full) {
    const Tensor stirling = target * log(target) - target + 0.5 * log(target * (2 * kPi));
    loss = loss + masked_fill(stirling, le(target, Scalar(1)), Scalar(0));
  }
  return reduced(loss, reduction);
}
Tensor hinge_embedding(const Tensor& self, const Tensor& target, double margin, int64_t reduction) {
  const Tensor none = zeros_like(self);
  const Tensor far = where(ne(target, Scalar(1)), positive_part(margin - self), none);
  return reduced(far + where(ne(target, Scalar(-1)), self, none), reduction);
}
Tensor margin_ranking(const Tensor& input1, const Tensor& input2, const Tensor& target, double margin,
                      int64_t reduction) {
  return reduced(positive_part(neg(target) * (input1 - input2) + margin), reduction);
}
Tensor cosine_embedding(const Tensor& input1, const Tensor& input2, const Tensor& target, double margin,
                        int64_t reduction) {
  constexpr double kEpsilon = 1e-12;
  const auto dot = [](const Tensor& a, const Tensor& b) { return sum(a * b, IntList{-1}); };
  const Tensor cosine = dot(input1, input2) / sqrt((dot(input1, input1) + kEpsilon) * (dot(input2, input2) + kEpsilon));
  const Tensor none = zeros_like(cosine);
  return reduced(where(eq(target, Scalar(1)), 1.0 - cosine, none) +
                     where(eq(target, Scalar(-1)), positive_part(cosine - margin), none),
                 reduction);
}
Tensor distance(const Tensor& a, const Tensor& b, double p, double eps) {
  return linalg_vector_norm(a - b + eps, Scalar(p), IntList{-1}, false, std::nullopt);
}
Tensor triplet_margin(const Tensor& anchor, const Tensor& positive, const Tensor& negative, double margin, double p,
                      double eps, bool swap, int64_t reduction) {
  Tensor far = distance(anchor, negative, p, eps);
  if (swap) far = minimum(far, distance(positive, negative, p, eps));
  return reduced(positive_part(distance(anchor, positive, p, eps) - far + margin), reduction);
}

/// Scores as (N, C), whatever a loss of classes is given.
Tensor rows_of(const char* op, const Tensor& self) {
  FACULA_CHECK(self.dim() >= 1 && self.dim() <= 2 && self.size(-1) > 0, ErrorKind::Runtime, op,
               ": scores (N, C) or (C,) are expected, got ", self.sizes());
  return self.dim() == 2 ? self : unsqueeze(self, 0);
}
Tensor multi_margin(const Tensor& self, const Tensor& target, const Scalar& p, const Scalar& margin, OptTensor weight,
                    int64_t reduction) {
  const Tensor scores = rows_of("multi_margin_loss", self);
  const double power = p.to_double();
  FACULA_CHECK(power == 1 || power == 2, ErrorKind::Value, "multi_margin_loss: p must be 1 or 2, got ", power);
  FACULA_CHECK(target.numel() == scores.size(0), ErrorKind::Runtime, "multi_margin_loss: a class for each of ",
               scores.size(0), " rows is expected, got ", target.sizes());
  const Tensor index = reshape(target, {-1, 1});
  Tensor terms = positive_part(scores - gather(scores, 1, index) + margin.to_double());
  if (power == 2) terms = terms * terms;
  if (weight.defined()) terms = terms * unsqueeze(index_select(weight, 0, reshape(target, {-1})), 1);
  const Tensor loss = sum(scatter(terms, 1, index, Scalar(0)), IntList{1}) / static_cast<double>(scores.size(1));
  return reduced(self.dim() < 2 && target.dim() == 0 ? reshape(loss, {}) : loss, reduction);
}
Tensor multilabel_margin(const Tensor& self, const Tensor& target, int64_t reduction) {
  const Tensor scores = rows_of("multilabel_margin_loss", self);
  FACULA_CHECK(target.sizes() == self.sizes(), ErrorKind::Runtime, "multilabel_margin_loss: labels of shape ",
               self.sizes(), " are expected, got ", target.sizes());
  const Tensor labels = reshape(target, scores.sizes());
  const Tensor before = cumprod(to_dtype(ne(labels, Scalar(-1)), DType::Int64), 1);
  const Tensor valid = to_dtype(before, DType::Bool), index = labels * before;
  const Tensor counts = scatter_add(zeros_like(before), 1, index, before);
  const Tensor differences = 1.0 - unsqueeze(gather(scores, 1, index), 2) + unsqueeze(scores, 1);
  const Tensor counted = logical_and(unsqueeze(valid, 2), unsqueeze(eq(counts, Scalar(0)), 1));
  const Tensor terms = masked_fill(positive_part(differences), logical_not(counted), Scalar(0));
  const Tensor loss = sum(terms, IntList{1, 2}) / static_cast<double>(scores.size(1));
  return reduced(self.dim() < 2 ? reshape(loss, {}) : loss, reduction);
}

// ---- cells

template <size_t mode>
Tensor cell(const Tensor& input, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh, OptTensor b_ih,
            OptTensor b_hh) {
  constexpr const char* kModes[] = {"RNN_TANH", "RNN_RELU", "GRU"};
  if (input.dim() == 1 && hx.dim() == 1)
    return squeeze(cell<mode>(unsqueeze(input, 0), unsqueeze(hx, 0), w_ih, w_hh, b_ih, b_hh), IntList{0});
  return std::get<0>(_rnn_step(input, hx, {}, w_ih, w_hh, b_ih, b_hh, kModes[mode]));
}
using Two = std::tuple<Tensor, Tensor>;
Two lstm_cell(const Tensor& input, TensorList hx, const Tensor& w_ih, const Tensor& w_hh, OptTensor b_ih,
              OptTensor b_hh) {
  FACULA_CHECK(hx.size() == 2 && hx[0].defined() && hx[1].defined(), ErrorKind::Runtime,
               "lstm_cell: two states are expected, got ", hx.size());
  if (input.dim() == 1 && hx[0].dim() == 1 && hx[1].dim() == 1) {
    auto [h, c] =
        _rnn_step(unsqueeze(input, 0), unsqueeze(hx[0], 0), unsqueeze(hx[1], 0), w_ih, w_hh, b_ih, b_hh, "LSTM");
    return {squeeze(h, IntList{0}), squeeze(c, IntList{0})};
  }
  return _rnn_step(input, hx[0], hx[1], w_ih, w_hh, b_ih, b_hh, "LSTM");
}

// ---- embeddings

/// The rows that are named, scaled down where they are longer than `max_norm`.
Tensor embedding_renormed(const Tensor& self, const Tensor& indices, double max_norm, double norm_type) {
  FACULA_CHECK(self.dim() == 2, ErrorKind::Runtime, "embedding_renorm: a matrix is expected, got ", self.sizes());
  const GradMode off(false);
  const Tensor rows = reshape(indices, {-1}), values = index_select(self, 0, rows);
  // in float64, where the small number is not lost beside a norm above 1: the new norm, rounded, is not above
  // max_norm again
  const DType wide = values.is_complex() ? DType::Complex128 : DType::Float64;
  const Tensor norms = linalg_vector_norm(values, Scalar(norm_type), IntList{1}, true, wide);
  const Tensor scaled = to_dtype(values * (max_norm / (norms + 1e-7)), values.dtype());
  const Tensor made = where(gt(to_dtype(norms, real_dtype(values.dtype())), Scalar(max_norm)), scaled, values);
  return index_copy(self, 0, rows, made);  // rows that are named twice are the same twice
}
Tensor embedding_renorm_(const Tensor& self, const Tensor& indices, double max_norm, double norm_type) {
  const GradMode off(false);
  copy_(self, embedding_renormed(self, indices, max_norm, norm_type));
  return self;
}
using Four = std::tuple<Tensor, Tensor, Tensor, Tensor>;
Four bag(const Tensor& weight, const Tensor& indices, const Tensor& offsets, bool by_freq, int64_t mode, bool sparse,
         OptTensor per_sample_weights, bool include_last_offset, int64_t padding_idx) {
  return embedding_bag(weight, indices, offsets, by_freq, mode, sparse, per_sample_weights, include_last_offset,
                       padding_idx < 0 ? std::nullopt : std::optional(padding_idx));
}

// ---- others

/// The sum over some dimensions of the product of three tensors, which get dimensions of size 1 where `expand` says.
Tensor trilinear(const Tensor& i1, const Tensor& i2, const Tensor& i3, IntList expand1, IntList expand2,
                 IntList expand3, IntList sumdim, int64_t) {
  const auto expanded = [](Tensor t, IntList dims) {
    std::vector<int64_t> order = dims.vec();
    std::sort(order.begin(), order.end());
    for (const int64_t d : order) t = unsqueeze(t, d);
    return t;
  };
  const Tensor product = expanded(i1, expand1) * expanded(i2, expand2) * expanded(i3, expand3);
  return sumdim.empty() ? product : sum(product, sumdim);
}
/// Leaky ReLU whose slopes are drawn; the noise is 1 where an element is positive.
Two rrelu_with_noise(const Tensor& self, const Tensor& noise, const Scalar& lower, const Scalar& upper, bool training,
                     Generator* generator) {
  const Tensor result = facula::rrelu(self, lower, upper, training, generator);
  if (!training) return {result, noise};
  return {result, where(lt(self, Scalar(0)), result / self, ones_like(self))};
}

using boxing::box;
#define FACULA_REDUCED "int reduction=1"
constexpr const char* kCell = "Tensor input, Tensor hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None";
constexpr const char* kRenorm = "Tensor self, Tensor indices, float max_norm, float norm_type";
using Cell = Tensor(const Tensor&, const Tensor&, const Tensor&, const Tensor&, OptTensor, OptTensor);
using Renorm = Tensor(const Tensor&, const Tensor&, double, double);

const BuiltinRow kNnRows[] = {
    {"threshold", "", "Tensor self, Scalar threshold, Scalar value", "Tensor", "threshold.default",
     box<Tensor(const Tensor&, const Scalar&, const Scalar&)>(threshold_of)},
    {"poisson_nll_loss", "", "Tensor input, Tensor target, bool log_input, bool full, float eps, int reduction",
     "Tensor", "poisson_nll_loss.default",
     box<Tensor(const Tensor&, const Tensor&, bool, bool, double, int64_t)>(poisson_nll)},
    {"hinge_embedding_loss", "", "Tensor self, Tensor target, float margin=1.0, " FACULA_REDUCED, "Tensor",
     "hinge_embedding_loss.default", box<Tensor(const Tensor&, const Tensor&, double, int64_t)>(hinge_embedding)},
    {"margin_ranking_loss", "", "Tensor input1, Tensor input2, Tensor target, float margin=0.0, " FACULA_REDUCED,
     "Tensor", "margin_ranking_loss.default",
     box<Tensor(const Tensor&, const Tensor&, const Tensor&, double, int64_t)>(margin_ranking)},
    {"cosine_embedding_loss", "", "Tensor input1, Tensor input2, Tensor target, float margin=0.0, " FACULA_REDUCED,
     "Tensor", "cosine_embedding_loss.default",
     box<Tensor(const Tensor&, const Tensor&, const Tensor&, double, int64_t)>(cosine_embedding)},
    {"triplet_margin_loss", "",
     "Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2.0, float eps=1e-06, "
     "bool swap=False, " FACULA_REDUCED,
     "Tensor", "triplet_margin_loss.default",
     box<Tensor(const Tensor&, const Tensor&, const Tensor&, double, double, double, bool, int64_t)>(triplet_margin)},
    {"multi_margin_loss", "",
     "Tensor self, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, " FACULA_REDUCED, "Tensor",
     "multi_margin_loss.default",
     box<Tensor(const Tensor&, const Tensor&, const Scalar&, const Scalar&, OptTensor, int64_t)>(multi_margin)},
    {"multilabel_margin_loss", "", "Tensor self, Tensor target, " FACULA_REDUCED, "Tensor",
     "multilabel_margin_loss.default", box<Tensor(const Tensor&, const Tensor&, int64_t)>(multilabel_margin)},
    {"rnn_tanh_cell", "", kCell, "Tensor", "rnn_tanh_cell.default", box<Cell>(cell<0>)},
    {"rnn_relu_cell", "", kCell, "Tensor", "rnn_relu_cell.default", box<Cell>(cell<1>)},
    {"gru_cell", "", kCell, "Tensor", "gru_cell.default", box<Cell>(cell<2>)},
    {"lstm_cell", "", "Tensor input, Tensor[] hx, Tensor w_ih, Tensor w_hh, Tensor? b_ih=None, Tensor? b_hh=None",
     "Tensor h, Tensor c", "lstm_cell.default",
     box<Two(const Tensor&, TensorList, const Tensor&, const Tensor&, OptTensor, OptTensor)>(lstm_cell)},
    {"embedding_renorm", "", kRenorm, "Tensor", "embedding_renorm.default", box<Renorm>(embedding_renormed)},
    {"embedding_renorm_", "", "Tensor self, Tensor indices, float max_norm, float norm_type", "Tensor",
     "embedding_renorm_.default", box<Renorm>(embedding_renorm_)},
    {"_core_embedding_bag", "",
     "Tensor weight, Tensor indices, Tensor offsets, bool scale_grad_by_freq=False, int mode=0, bool sparse=False, "
     "Tensor? per_sample_weights=None, bool include_last_offset=False, int padding_idx=-1",
     "Tensor output, Tensor offset2bag, Tensor bag_size, Tensor max_indices",
     "_embedding_bag.default _embedding_bag_forward_only.default",
     box<Four(const Tensor&, const Tensor&, const Tensor&, bool, int64_t, bool, OptTensor, bool, int64_t)>(bag)},
    {"_trilinear", "",
     "Tensor i1, Tensor i2, Tensor i3, int[] expand1, int[] expand2, int[] expand3, int[] sumdim, int unroll_dim=1",
     "Tensor", "_trilinear.default",
     box<Tensor(const Tensor&, const Tensor&, const Tensor&, IntList, IntList, IntList, IntList, int64_t)>(trilinear)},
    {"rrelu_with_noise_functional", "",
     "Tensor self, Tensor noise, Scalar lower=0.125, Scalar upper=0.3333333333333333, bool training=False, "
     "Generator? generator=None",
     "Tensor result, Tensor noise_out", "rrelu_with_noise_functional.default",
     box<Two(const Tensor&, const Tensor&, const Scalar&, const Scalar&, bool, Generator*)>(rrelu_with_noise)},
};

}  // namespace

std::span<const BuiltinRow> nn_rows() { return kNnRows; }

}  // namespace facula
