// Tables of rows, bags of rows, adaptive soft-max.
#include <algorithm>
#include <cmath>

#include "torch/nn/embedding.h"

namespace torch::nn {

using facula::ErrorKind;

namespace {

/// The number of a row, -1 for none.
int64_t row_of(const optional<int64_t>& index, int64_t rows) {
  if (!index) return -1;
  FACULA_CHECK(*index >= -rows && *index < rows, ErrorKind::Runtime, "Embedding: padding_idx must be within ", rows,
               " rows, got ", *index);
  return *index < 0 ? *index + rows : *index;
}

}  // namespace

namespace functional {
namespace {

/// Rows that are used and longer than `most` are scaled down in place.
void renorm_rows(const Tensor& weight, const Tensor& indices, double most, double p) {
  NoGradGuard off;
  constexpr double kTiny = 1e-7;
  const Tensor sorted = std::get<0>(indices.reshape({-1}).sort());
  const Tensor first = torch::cat({torch::ones({std::min<int64_t>(sorted.numel(), 1)}, sorted.options().dtype(kBool)),
                                   sorted.slice(0, 1) != sorted.slice(0, 0, -1)});
  const Tensor rows = sorted.masked_select(first);
  const Tensor values = weight.index_select(0, rows);
  // in float64, where the small number is not lost beside a norm above 1: the new norm, rounded, is not above `most`
  // again
  const Tensor sizes = values.abs(), norms = sizes.to(kDouble).norm(Scalar(p), {1}, true);
  const Tensor scaled = (values * (most / (norms + kTiny))).to(values.scalar_type());
  weight.index_copy_(0, rows, torch::where(norms.to(sizes.scalar_type()) > most, scaled, values));
}
int64_t number_of(Word mode) {
  constexpr Word kModes[] = {kSum, kMean, kMax};
  const auto found = std::find(std::begin(kModes), std::end(kModes), mode);
  FACULA_CHECK(found != std::end(kModes), ErrorKind::Value, "embedding_bag: mode must be kSum, kMean or kMax, got ",
               mode.name);
  return found - std::begin(kModes);
}

}  // namespace

Tensor embedding(const Tensor& input, const Tensor& weight, const EmbeddingFuncOptions& o) {
  const int64_t padding = row_of(o.padding_idx(), weight.size(0));
  if (o.max_norm()) renorm_rows(weight, input, *o.max_norm(), o.norm_type());
  return torch::embedding(weight, input, padding, o.scale_grad_by_freq());
}

Tensor embedding_bag(const Tensor& given, const Tensor& weight, const EmbeddingBagFuncOptions& o) {
  Tensor input = given, offsets = o.offsets(), factors = o.per_sample_weights();
  bool last = o.include_last_offset();
  FACULA_CHECK(weight.dim() == 2, ErrorKind::Value, "embedding_bag: weight must have 2 dimensions, got ", weight.dim());
  FACULA_CHECK(!factors.defined() || factors.sizes() == input.sizes(), ErrorKind::Value,
               "embedding_bag: per_sample_weights must have the shape of input ", input.sizes(), ", got ",
               factors.sizes());
  FACULA_CHECK(!factors.defined() || o.mode() == kSum, ErrorKind::NotImplemented,
               "embedding_bag: per_sample_weights goes with kSum, got ", o.mode().name);
  if (input.dim() == 2) {
    FACULA_CHECK(!offsets.defined(), ErrorKind::Value, "embedding_bag: an input of 2 dimensions takes no offsets, got ",
                 offsets.sizes());
    const int64_t length = input.size(1);
    offsets = torch::arange(input.size(0), input.options()) * length;
    input = input.reshape({-1});
    if (factors.defined()) factors = factors.reshape({-1});
    last = false;
  } else {
    FACULA_CHECK(input.dim() == 1, ErrorKind::Value, "embedding_bag: input must have 1 or 2 dimensions, got ",
                 input.dim());
    FACULA_CHECK(offsets.defined() && offsets.dim() == 1, ErrorKind::Value,
                 "embedding_bag: an input of 1 dimension needs offsets of 1, got ",
                 offsets.defined() ? std::to_string(offsets.dim()) : "none");
  }
  if (o.max_norm()) renorm_rows(weight, input, *o.max_norm(), o.norm_type());
  return std::get<0>(torch::embedding_bag(weight, input, offsets, o.scale_grad_by_freq(), number_of(o.mode()), false,
                                          factors.defined() ? optional<Tensor>(factors) : nullopt, last,
                                          o.padding_idx()));
}

}  // namespace functional

namespace {

template <class Options>
Tensor table_of(const Options& o) {
  const Tensor& own = o._weight();
  const std::vector<int64_t> sizes{o.num_embeddings(), o.embedding_dim()};
  if (!own.defined()) return torch::empty(sizes);
  FACULA_CHECK(own.sizes() == sizes, ErrorKind::Runtime, "Embedding: _weight must be (num_embeddings, embedding_dim), ",
               IntArrayRef(sizes), ", got ", own.sizes());
  return own;
}
void draw_table(const Tensor& weight, const optional<int64_t>& padding) {
  init::normal_(weight);
  NoGradGuard off;
  if (padding) weight[*padding].fill_(0);
}
template <class Options>
void print_table(std::ostream& stream, const char* name, const Options& o) {
  stream << "torch::nn::" << name << "(num_embeddings=" << o.num_embeddings()
         << ", embedding_dim=" << o.embedding_dim();
  if (o.padding_idx()) stream << ", padding_idx=" << *o.padding_idx();
  if (o.max_norm()) stream << ", max_norm=" << *o.max_norm();
  if (o.norm_type() != 2) stream << ", norm_type=" << o.norm_type();
  if (o.scale_grad_by_freq()) stream << ", scale_grad_by_freq=true";
  if (o.sparse()) stream << ", sparse=true";
}
template <class Impl, class Options, class Pretrained>
std::shared_ptr<Impl> made_of(const Tensor& table, const Pretrained& given, Options o) {
  FACULA_CHECK(table.dim() == 2, ErrorKind::Runtime, "from_pretrained: embeddings must have 2 dimensions, got ",
               table.dim());
  o._weight(table).max_norm(given.max_norm()).norm_type(given.norm_type()).padding_idx(given.padding_idx());
  o.scale_grad_by_freq(given.scale_grad_by_freq()).sparse(given.sparse());
  auto made = std::make_shared<Impl>(std::move(o));
  made->weight.set_requires_grad(!given.freeze());
  return made;
}

}  // namespace

EmbeddingImpl::EmbeddingImpl(EmbeddingOptions o) : options(std::move(o)) { EmbeddingImpl::reset(); }
void EmbeddingImpl::reset() {
  if (options.padding_idx()) options.padding_idx(row_of(options.padding_idx(), options.num_embeddings()));
  weight = register_parameter("weight", table_of(options));
  if (!options._weight().defined()) reset_parameters();
}
void EmbeddingImpl::reset_parameters() { draw_table(weight, options.padding_idx()); }
Tensor EmbeddingImpl::forward(const Tensor& indices) {
  functional::EmbeddingFuncOptions o;
  o.padding_idx(options.padding_idx()).max_norm(options.max_norm()).norm_type(options.norm_type());
  o.scale_grad_by_freq(options.scale_grad_by_freq());
  return functional::embedding(indices, weight, o);
}
void EmbeddingImpl::pretty_print(std::ostream& stream) const {
  print_table(stream, "Embedding", options);
  stream << ")";
}
Embedding Embedding::from_pretrained(const Tensor& embeddings, const EmbeddingFromPretrainedOptions& o) {
  FACULA_CHECK(embeddings.dim() == 2, ErrorKind::Runtime, "from_pretrained: embeddings must have 2 dimensions, got ",
               embeddings.dim());
  return made_of<EmbeddingImpl>(embeddings, o, EmbeddingOptions(embeddings.size(0), embeddings.size(1)));
}

EmbeddingBagImpl::EmbeddingBagImpl(EmbeddingBagOptions o) : options(std::move(o)) { EmbeddingBagImpl::reset(); }
void EmbeddingBagImpl::reset() {
  if (options.padding_idx()) options.padding_idx(row_of(options.padding_idx(), options.num_embeddings()));
  weight = register_parameter("weight", table_of(options));
  if (!options._weight().defined()) reset_parameters();
}
void EmbeddingBagImpl::reset_parameters() { draw_table(weight, options.padding_idx()); }
Tensor EmbeddingBagImpl::forward(const Tensor& input, const Tensor& offsets, const Tensor& per_sample_weights) {
  functional::EmbeddingBagFuncOptions o;
  o.offsets(offsets).per_sample_weights(per_sample_weights).mode(options.mode());
  o.max_norm(options.max_norm()).norm_type(options.norm_type()).scale_grad_by_freq(options.scale_grad_by_freq());
  o.include_last_offset(options.include_last_offset()).padding_idx(options.padding_idx());
  return functional::embedding_bag(input, weight, o);
}
void EmbeddingBagImpl::pretty_print(std::ostream& stream) const {
  print_table(stream, "EmbeddingBag", options);
  stream << ", mode=k" << static_cast<char>(options.mode().name[0] - 'a' + 'A') << options.mode().name + 1 << ")";
}
EmbeddingBag EmbeddingBag::from_pretrained(const Tensor& embeddings, const EmbeddingBagFromPretrainedOptions& given) {
  FACULA_CHECK(embeddings.dim() == 2, ErrorKind::Runtime, "from_pretrained: embeddings must have 2 dimensions, got ",
               embeddings.dim());
  EmbeddingBagOptions o(embeddings.size(0), embeddings.size(1));
  o.mode(given.mode()).include_last_offset(given.include_last_offset());
  return made_of<EmbeddingBagImpl>(embeddings, given, o);
}

// ---- adaptive soft-max: the head has the frequent classes and one for each cluster of others

AdaptiveLogSoftmaxWithLossImpl::AdaptiveLogSoftmaxWithLossImpl(AdaptiveLogSoftmaxWithLossOptions o)
    : options(std::move(o)) {
  AdaptiveLogSoftmaxWithLossImpl::reset();
}
void AdaptiveLogSoftmaxWithLossImpl::reset() {
  cutoffs = options.cutoffs();
  const int64_t classes = options.n_classes();
  const bool rising = std::is_sorted(cutoffs.begin(), cutoffs.end(), std::less_equal<>());
  FACULA_CHECK(!cutoffs.empty() && rising && cutoffs.front() > 0 && cutoffs.back() < classes, ErrorKind::Value,
               "AdaptiveLogSoftmaxWithLoss: cutoffs must be positive and rise, below ", classes, ", got ",
               IntArrayRef(cutoffs));
  cutoffs.push_back(classes);
  shortlist_size = cutoffs[0];
  n_clusters = static_cast<int64_t>(cutoffs.size()) - 1;
  head_size = shortlist_size + n_clusters;
  head = register_module("head", Linear(LinearOptions(options.in_features(), head_size).bias(options.head_bias())));
  tail = register_module("tail", ModuleList());
  for (int64_t i = 0; i < n_clusters; ++i) {
    const auto at = static_cast<size_t>(i);
    const auto width = static_cast<int64_t>(static_cast<double>(options.in_features()) /
                                            std::pow(options.div_value(), static_cast<double>(i + 1)));
    tail->push_back(Sequential(Linear(LinearOptions(options.in_features(), width).bias(false)),
                               Linear(LinearOptions(width, cutoffs[at + 1] - cutoffs[at]).bias(false))));
  }
}
void AdaptiveLogSoftmaxWithLossImpl::reset_parameters() {
  head->reset_parameters();
  for (const auto& cluster : *tail)
    for (const auto& map : cluster->children()) map->as<Linear>()->reset_parameters();
}
ASMoutput AdaptiveLogSoftmaxWithLossImpl::forward(const Tensor& given, const Tensor& given_target) {
  const bool alone = given_target.dim() == 0;
  FACULA_CHECK(given_target.dim() <= 1 && given.dim() == given_target.dim() + 1 &&
                   (alone || given.size(0) == given_target.size(0)),
               ErrorKind::Runtime,
               "AdaptiveLogSoftmaxWithLoss: it takes input (N, F) with target (N), or (F) with (), ", "got ",
               given.sizes(), " and ", given_target.sizes());
  const Tensor input = alone ? given.unsqueeze(0) : given, target = alone ? given_target.unsqueeze(0) : given_target;
  const bool within = ((target >= 0) & (target < options.n_classes())).all().item<bool>();
  FACULA_CHECK(within, ErrorKind::Runtime, "AdaptiveLogSoftmaxWithLoss: targets must be from 0 to ",
               options.n_classes() - 1, ", got ", target.min().item<int64_t>(), " to ", target.max().item<int64_t>());
  Tensor output = torch::zeros({target.size(0)}, input.options());
  Tensor place = target.clone();  // in the head: the class, or the cluster that has it
  for (int64_t i = 0; i < n_clusters; ++i) {
    const int64_t low = cutoffs[static_cast<size_t>(i)], high = cutoffs[static_cast<size_t>(i) + 1];
    const Tensor rows = ((target >= low) & (target < high)).nonzero().squeeze(1);
    if (rows.numel() == 0) continue;
    place.index_fill_(0, rows, shortlist_size + i);
    const Tensor within_cluster = tail[static_cast<size_t>(i)]->as<Sequential>()->forward(input.index_select(0, rows));
    const Tensor relative = (target.index_select(0, rows) - low).unsqueeze(1);
    output = output.index_copy(0, rows, within_cluster.log_softmax(1).gather(1, relative).squeeze(1));
  }
  output = output + head(input).log_softmax(1).gather(1, place.unsqueeze(1)).squeeze(1);
  const double loss = (-output).mean().item<double>();
  return {alone ? output.squeeze(0) : output, loss};
}
Tensor AdaptiveLogSoftmaxWithLossImpl::_get_full_log_prob(const Tensor& input, const Tensor& head_output) {
  const Tensor chances = head_output.log_softmax(1);
  std::vector<Tensor> parts{chances.narrow(1, 0, shortlist_size)};
  for (int64_t i = 0; i < n_clusters; ++i) {
    const Tensor within = tail[static_cast<size_t>(i)]->as<Sequential>()->forward(input).log_softmax(1);
    parts.push_back(within + chances.narrow(1, shortlist_size + i, 1));
  }
  return torch::cat(parts, 1);
}
Tensor AdaptiveLogSoftmaxWithLossImpl::log_prob(const Tensor& input) { return _get_full_log_prob(input, head(input)); }
Tensor AdaptiveLogSoftmaxWithLossImpl::predict(const Tensor& input) {
  const Tensor chances = head(input), best = chances.argmax(1);
  const Tensor in_tail = (best >= shortlist_size).nonzero().squeeze(1);
  if (in_tail.numel() == 0) return best;
  const Tensor all = _get_full_log_prob(input.index_select(0, in_tail), chances.index_select(0, in_tail));
  return best.index_copy(0, in_tail, all.argmax(1));
}
void AdaptiveLogSoftmaxWithLossImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::AdaptiveLogSoftmaxWithLoss";
}

}  // namespace torch::nn
