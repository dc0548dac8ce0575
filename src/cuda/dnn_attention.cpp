// Attention as graphs of matrix products, pointwise operations and reductions, from which the library makes one kernel.
// It knows such graphs by their form: they are written as NVIDIA's own front end writes them. Plans of a form are
// cached; whether there is one says whether the library can compute it.
#include "cuda/dnn_attention.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <optional>
#include <string>

#include "cuda/device.h"
#include "cuda/dnn_graph.h"
#include "cuda/flags.h"
#include "cuda/plan_cache.h"
#include "ops/contiguous.h"

namespace facula::cuda {
namespace {

using dnn::Descriptor;
using Four = std::array<int64_t, 4>;

constexpr const char* kOp = "scaled_dot_product_attention";
constexpr size_t kOldest = 90100;   // the library's version
constexpr int64_t kAlignment = 16;  // of everything, in bytes
constexpr float kMasked = -std::numeric_limits<float>::infinity();
constexpr size_t kInfinitySince = 91000;  // earlier versions take the lowest number for masked scores
constexpr size_t kOwnZerosSince = 90600;  // earlier versions add to what is in the sums for the query's gradient

enum Id : int64_t {
  kQuery = 1,
  kKey,
  kValue,
  kOut,
  kStats,
  kScale,
  kBias,
  kMaskedScore,
  kSeed,
  kOffset,
  kKeptScale,  // forwards
  kGradOut,
  kGradQuery,
  kGradKey,
  kGradValue,
  kDelta,
  kQuerySums,
  kKeptInverse,
  kFirstVirtual = 1000,
};

/// A matrix for each head of each batch, by sizes and strides.
struct Lie {
  int64_t sizes[4], strides[4];
};
/// What a plan depends on; compared byte by byte, so nothing lies between the members.
struct AttentionKey {
  int64_t backwards, device, dtype, is_causal, has_bias, deterministic;
  double dropout;
  Lie query, key, value, out, bias;
};
static_assert(sizeof(AttentionKey) == (6 + 1 + 5 * 8) * sizeof(int64_t));

Lie lie_of(const Tensor& t) {
  Lie l{};
  for (size_t d = 0; d < 4; ++d) {
    l.sizes[d] = t.sizes()[d];
    l.strides[d] = t.strides()[d];
  }
  return l;
}
/// Of a mask, what is the same for all batches or heads is there once.
Lie lie_of_bias(const Tensor& t) {
  Lie l{};
  for (size_t d = 4; d-- > 0;) {
    const bool once = t.strides()[d] == 0;
    l.sizes[d] = once ? 1 : t.sizes()[d];
    l.strides[d] = once ? l.sizes[d + 1] * l.strides[d + 1] : t.strides()[d];
  }
  return l;
}
/// The layout of results: (batch, length, heads, size).
Lie joined(int64_t batch, int64_t heads, int64_t length, int64_t size) {
  return {{batch, heads, length, size}, {length * heads * size, size, heads * size, 1}};
}

// ---- graphs

/// A tensor of a graph that is being written.
struct Node {
  Four sizes, strides;
  cudnnDataType_t type;
  cudnnBackendDescriptor_t is;
};

class Writer {
 public:
  explicit Writer(cudnnDataType_t narrow) : narrow_(narrow) {}

  Node tensor(Id id, const Four& sizes, const Four& strides, cudnnDataType_t type, bool by_value = false) {
    return made(id, sizes, strides, type, false, by_value);
  }
  Node tensor(Id id, const Lie& l) { return made(id, four(l.sizes), four(l.strides), narrow_, false, false); }
  Node transposed(Id id, const Lie& l) {
    Four sizes = four(l.sizes), strides = four(l.strides);
    std::swap(sizes[2], sizes[3]);
    std::swap(strides[2], strides[3]);
    return made(id, sizes, strides, narrow_, false, false);
  }
  Node number(Id id) { return tensor(id, {1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_FLOAT, true); }
  /// What exists inside of the graph only.
  Node inner(const Four& sizes, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return inner(sizes, {sizes[1] * sizes[2] * sizes[3], sizes[2] * sizes[3], sizes[3], 1}, type);
  }
  Node inner(const Four& sizes, const Four& strides, cudnnDataType_t type = CUDNN_DATA_FLOAT) {
    return made(next_++, sizes, strides, type, true, false);
  }
  cudnnDataType_t narrow() const { return narrow_; }

  Node pointwise(cudnnPointwiseMode_t mode, const Node& x, const Node* b, Node y, const Node* t = nullptr,
                 int64_t axis = -1, cudnnDataType_t computed = CUDNN_DATA_FLOAT) {
    Descriptor how(CUDNN_BACKEND_POINTWISE_DESCRIPTOR), operation(CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
    how.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, &mode);
    how.set(CUDNN_ATTR_POINTWISE_MATH_PREC, computed);
    if (axis >= 0) how.set(CUDNN_ATTR_POINTWISE_AXIS, axis);
    how.finish();
    operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, how);
    put(operation, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, x);
    if (b) put(operation, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, *b);
    if (t) put(operation, CUDNN_ATTR_OPERATION_POINTWISE_TDESC, *t);
    put(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y);
    return finish(std::move(operation), std::move(how), y);
  }
  Node binary(cudnnPointwiseMode_t mode, const Node& x, const Node& b) {
    return pointwise(mode, x, &b, inner(x.sizes, x.strides));
  }
  Node unary(cudnnPointwiseMode_t mode, const Node& x) {
    return pointwise(mode, x, nullptr, inner(x.sizes, x.strides));
  }

  Node product(const Node& a, const Node& b, Node c) {
    Descriptor how(CUDNN_BACKEND_MATMUL_DESCRIPTOR), operation(CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
    how.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_DATA_FLOAT).finish();
    operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, how);
    put(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC, a);
    put(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC, b);
    put(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC, c);
    return finish(std::move(operation), std::move(how), c);
  }
  Node reduction(cudnnReduceTensorOp_t kind, const Node& x, Node y) {
    Descriptor how(CUDNN_BACKEND_REDUCTION_DESCRIPTOR), operation(CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
    how.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, &kind);
    how.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_DATA_FLOAT).finish();
    operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, how);
    put(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x);
    put(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y);
    return finish(std::move(operation), std::move(how), y);
  }
  /// The same values under other sizes and strides.
  Node reshape(const Node& x, Node y) {
    Descriptor operation(CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
    put(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x);
    put(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y);
    return finish(std::move(operation), {}, y);
  }
  /// Ones and zeros, ones with the probability.
  Node bernoulli(const Node& seed, const Node& offset, double probability, Node y) {
    constexpr cudnnRngDistribution_t kind = CUDNN_RNG_DISTRIBUTION_BERNOULLI;
    Descriptor how(CUDNN_BACKEND_RNG_DESCRIPTOR), operation(CUDNN_BACKEND_OPERATION_RNG_DESCRIPTOR);
    how.set(CUDNN_ATTR_RNG_DISTRIBUTION, CUDNN_TYPE_RNG_DISTRIBUTION, &kind);
    how.set(CUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, CUDNN_TYPE_DOUBLE, &probability).finish();
    operation.set(CUDNN_ATTR_OPERATION_RNG_DESC, how);
    put(operation, CUDNN_ATTR_OPERATION_RNG_SEED, seed);
    put(operation, CUDNN_ATTR_OPERATION_RNG_OFFSET_DESC, offset);
    put(operation, CUDNN_ATTR_OPERATION_RNG_YDESC, y);
    return finish(std::move(operation), std::move(how), y);
  }

  /// Nothing where the library does not know an operation.
  std::optional<dnn::EnginePlans> plans(int device, const dnn::Wishes& wishes) const {
    if (!known_) return {};
    std::vector<cudnnBackendDescriptor_t> all;
    for (const Descriptor& each : operations_) all.push_back(each.get());
    return dnn::EnginePlans(all, device, wishes);
  }

 private:
  static Four four(const int64_t* list) { return {list[0], list[1], list[2], list[3]}; }
  static void put(Descriptor& operation, cudnnBackendAttributeName_t name, const Node& node) {
    operation.set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, &node.is);
  }
  Node made(int64_t id, const Four& sizes, const Four& strides, cudnnDataType_t type, bool is_virtual, bool by_value) {
    for (const auto& [known, node] : named_)
      if (known == id) return node;
    Descriptor t(CUDNN_BACKEND_TENSOR_DESCRIPTOR);
    t.set(CUDNN_ATTR_TENSOR_DATA_TYPE, type);
    t.set(CUDNN_ATTR_TENSOR_DIMENSIONS, std::span<const int64_t>(sizes));
    t.set(CUDNN_ATTR_TENSOR_STRIDES, std::span<const int64_t>(strides));
    t.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, id);
    t.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, kAlignment);
    if (is_virtual) t.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, &is_virtual);
    if (by_value) t.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, &by_value);
    t.finish();
    const Node node{sizes, strides, type, t.get()};
    kept_.push_back(std::move(t));
    named_.emplace_back(id, node);
    return node;
  }
  Node finish(Descriptor operation, std::optional<Descriptor> how, const Node& result) {
    known_ = known_ && operation.try_finish();
    operations_.push_back(std::move(operation));
    if (how) kept_.push_back(std::move(*how));
    return result;
  }

  cudnnDataType_t narrow_;
  int64_t next_ = kFirstVirtual;
  bool known_ = true;
  std::vector<std::pair<int64_t, Node>> named_;
  std::vector<Descriptor> kept_, operations_;
};

/// Sizes of a call.
struct Sizes {
  int64_t batch, heads, queries, keys, size, value_size;
  explicit Sizes(const AttentionKey& p)
      : batch(p.query.sizes[0]),
        heads(p.query.sizes[1]),
        queries(p.query.sizes[2]),
        keys(p.key.sizes[2]),
        size(p.query.sizes[3]),
        value_size(p.value.sizes[3]) {}
  Four scores() const { return {batch, heads, queries, keys}; }
  Four rows() const { return {batch, heads, queries, 1}; }
};

/// The scores under a bias and the causal mask, and with what both passes begin: query key^T * scale.
Node scores(Writer& w, const AttentionKey& p, const Node& query, const Node& key) {
  const Sizes n(p);
  Node s = w.product(query, key, w.inner(n.scores()));
  s = w.binary(CUDNN_POINTWISE_MUL, s, w.number(kScale));
  if (p.has_bias) s = w.binary(CUDNN_POINTWISE_ADD, s, w.tensor(kBias, p.bias));
  return s;
}
Node under_causal_mask(Writer& w, const AttentionKey& p, const Node& s) {
  if (!p.is_causal) return s;
  const Node row = w.pointwise(CUDNN_POINTWISE_GEN_INDEX, s, nullptr, w.inner(s.sizes, CUDNN_DATA_INT32), nullptr, 2),
             column =
                 w.pointwise(CUDNN_POINTWISE_GEN_INDEX, s, nullptr, w.inner(s.sizes, CUDNN_DATA_INT32), nullptr, 3),
             shown = w.pointwise(CUDNN_POINTWISE_CMP_GE, row, &column, w.inner(s.sizes, CUDNN_DATA_BOOLEAN), nullptr,
                                 -1, CUDNN_DATA_BOOLEAN),
             masked = w.number(kMaskedScore);
  return w.pointwise(CUDNN_POINTWISE_BINARY_SELECT, s, &masked, w.inner(s.sizes), &shown);
}
Node dropout_mask(Writer& w, const AttentionKey& p) {
  const Node seed = w.tensor(kSeed, {1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_INT64),
             offset = w.tensor(kOffset, {1, 1, 1, 1}, {1, 1, 1, 1}, CUDNN_DATA_INT64);
  return w.bernoulli(seed, offset, 1 - p.dropout, w.inner(Sizes(p).scores()));
}

void write_forwards(Writer& w, const AttentionKey& p) {
  const Sizes n(p);
  const Four row_strides{n.heads * n.queries, n.queries, 1, 1};
  const auto rows = [&] { return w.inner(n.rows(), row_strides); };
  const Node s = under_causal_mask(w, p, scores(w, p, w.tensor(kQuery, p.query), w.transposed(kKey, p.key)));
  const Node most = w.reduction(CUDNN_REDUCE_TENSOR_MAX, s, rows());
  const Node e = w.unary(CUDNN_POINTWISE_EXP, w.binary(CUDNN_POINTWISE_SUB, s, most));
  const Node sum = w.reduction(CUDNN_REDUCE_TENSOR_ADD, e, rows());
  const Node log = w.unary(CUDNN_POINTWISE_LOG, sum);
  w.pointwise(CUDNN_POINTWISE_ADD, most, &log, w.tensor(kStats, n.rows(), row_strides, CUDNN_DATA_FLOAT));
  const bool drops = p.dropout > 0;
  Node weights = w.pointwise(CUDNN_POINTWISE_DIV, e, &sum, w.inner(n.scores(), drops ? CUDNN_DATA_FLOAT : w.narrow()));
  if (drops) {
    weights = w.binary(CUDNN_POINTWISE_MUL, weights, dropout_mask(w, p));
    const Node factor = w.number(kKeptScale);
    weights = w.pointwise(CUDNN_POINTWISE_MUL, weights, &factor, w.inner(n.scores(), w.narrow()));
  }
  w.product(weights, w.tensor(kValue, p.value), w.tensor(kOut, p.out));
}

/// The gradient of keys or values: where several heads share them, their sum.
void write_shared(Writer& w, const Sizes& n, const Node& left, const Node& right, Id id, const Lie& given) {
  const int64_t heads = given.sizes[1], size = given.sizes[3];
  const Node result = w.tensor(id, joined(n.batch, heads, n.keys, size));
  if (heads == n.heads) {
    w.product(left, right, result);
    return;
  }
  const Node all = w.product(left, right, w.inner({n.batch, n.heads, n.keys, size}, w.narrow()));
  w.reduction(CUDNN_REDUCE_TENSOR_ADD, all, result);
}

/// The graph of the gradients. Steps have the order in which the library looks for them:
///
///     delta   = sum over the row of grad * out                     (what the softmax takes from each row)
///     weights = exp(scores - stats)                                (again; `used` are those that dropout leaves)
///     grad_value  = used^T grad
///     grad_scores = (grad value^T - delta) * weights * scale
///     grad_key    = grad_scores^T query,  grad_query = grad_scores key
class BackwardsGraph {
 public:
  BackwardsGraph(Writer& writer, const AttentionKey& key) : w(writer), p(key), n(key) {}

  void write() {
    const Node query = w.tensor(kQuery, p.query), key = w.transposed(kKey, p.key),
               value = w.transposed(kValue, p.value), grad = w.tensor(kGradOut, p.out), out = w.tensor(kOut, p.out),
               stats = w.tensor(kStats, n.rows(), row_strides(), CUDNN_DATA_FLOAT), inverse = w.number(kKeptInverse);
    if (p.dropout > 0) {
      mask = dropout_mask(w, p);
      mask_scale = w.number(kKeptScale);
    }
    const Node delta = row_products(grad, out, inverse);
    const Node s = w.binary(CUDNN_POINTWISE_SUB, scores(w, p, query, key), stats);
    const Node weights = w.unary(CUDNN_POINTWISE_EXP, under_causal_mask(w, p, s));
    Node used = weights;
    if (mask) used = w.binary(CUDNN_POINTWISE_MUL, w.binary(CUDNN_POINTWISE_MUL, used, *mask), *mask_scale);
    write_shared(w, n, turned(used), grad, kGradValue, p.value);
    const Node grad_scores = scores_gradient(w.product(grad, value, w.inner(n.scores())), delta, weights);
    write_shared(w, n, turned(grad_scores), query, kGradKey, p.key);
    write_query_gradient(grad_scores, key);
  }

 private:
  Four row_strides() const { return {n.heads * n.queries, n.queries, 1, 1}; }

  Node row_products(const Node& grad, const Node& out, const Node& inverse) {
    const Node both =
        w.pointwise(CUDNN_POINTWISE_MUL, grad, &out, w.inner({n.batch, n.heads, n.queries, n.value_size}));
    const Node sums = w.reduction(CUDNN_REDUCE_TENSOR_ADD, both, w.inner(n.rows(), row_strides()));
    return w.pointwise(CUDNN_POINTWISE_MUL, sums, &inverse,
                       w.tensor(kDelta, n.rows(), row_strides(), CUDNN_DATA_FLOAT));
  }

  /// Of a matrix of queries by keys, the transposed one.
  Node turned(const Node& matrix) {
    const Four sizes{n.batch, n.heads, n.keys, n.queries},
        strides{n.heads * n.queries * n.keys, n.queries * n.keys, 1, n.keys};
    return w.reshape(matrix, w.inner(sizes, strides, w.narrow()));
  }

  Node scores_gradient(Node d, const Node& delta, const Node& weights) {
    if (mask) d = w.binary(CUDNN_POINTWISE_MUL, d, *mask);
    d = w.binary(CUDNN_POINTWISE_MUL, w.binary(CUDNN_POINTWISE_SUB, d, delta), weights);
    if (mask) d = w.binary(CUDNN_POINTWISE_MUL, d, *mask_scale);
    return w.binary(CUDNN_POINTWISE_MUL, d, w.number(kScale));
  }

  /// Several blocks of keys add to a query: into sums of float32, unless the order must be one.
  void write_query_gradient(const Node& grad_scores, const Node& key) {
    const Node straight = w.reshape(key, w.inner(std::to_array(p.key.sizes), std::to_array(p.key.strides), w.narrow()));
    const Node result = w.tensor(kGradQuery, joined(n.batch, n.heads, n.queries, n.size));
    if (p.deterministic) {
      w.product(grad_scores, straight, result);
      return;
    }
    const Four sizes{n.batch, n.heads, n.queries, n.size},
        strides{n.heads * n.queries * n.size, n.queries * n.size, n.size, 1};
    const Node sums = w.product(grad_scores, straight, w.tensor(kQuerySums, sizes, strides, CUDNN_DATA_FLOAT));
    w.pointwise(CUDNN_POINTWISE_IDENTITY, sums, nullptr, result);
  }

  Writer& w;
  const AttentionKey& p;
  const Sizes n;
  std::optional<Node> mask, mask_scale;  // of dropout
};

// ---- keys

AttentionKey key_of(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& bias, double dropout,
                    bool is_causal, bool backwards) {
  AttentionKey p{};
  p.backwards = backwards;
  p.device = query.device().index;
  p.dtype = static_cast<int64_t>(query.dtype());
  p.is_causal = is_causal;
  p.has_bias = bias.defined();
  p.deterministic = backwards && (flags()[Flag::Deterministic] || flags()[Flag::DeterministicAlgorithms]);
  p.dropout = dropout;
  p.query = lie_of(query), p.key = lie_of(key), p.value = lie_of(value);
  p.out = joined(query.size(0), query.size(1), query.size(2), value.size(3));
  if (bias.defined()) p.bias = lie_of_bias(bias);
  return p;
}

struct Known {
  std::optional<dnn::EnginePlans> plans;
  std::string why;  // there are none
};
Known make_plans(const AttentionKey& p) {
  Known known;
  try {
    Writer w(dnn::type_of(static_cast<DType>(p.dtype)));
    p.backwards ? BackwardsGraph(w, p).write() : write_forwards(w, p);
    known.plans = w.plans(static_cast<int>(p.device), {false, p.deterministic != 0});
    if (!known.plans || !known.plans->any()) {
      known.why = "the library has no way to compute it";
      if (known.plans && !known.plans->why_none().empty()) known.why += ": " + known.plans->why_none();
    }
  } catch (const Error& error) {  // a version of the library that wants such graphs in another form
    known.why = std::string("the library refuses it: ") + error.what();
  }
  if (!known.why.empty() && p.backwards) known.why += " (backwards)";
  return known;
}
template <class Use>
auto with_plans(const AttentionKey& p, Use&& use) {
  static auto& all = *new PlanCache<AttentionKey, Known>;
  return all.with(p, [&] { return make_plans(p); }, use);
}

bool is_aligned(const Tensor& t) { return reinterpret_cast<uintptr_t>(t.data()) % kAlignment == 0; }

std::string why_not_tensors(const LibraryAttention& c) {
  if (!is_half(c.query.dtype())) return "it computes float16 and bfloat16";
  for (const Tensor* t : {&c.query, &c.key, &c.value}) {
    if (t->dim() != 4) return "it takes tensors of 4 dimensions (batch, heads, length, size)";
    if (!t->numel()) return "a tensor has no elements";
    if (t->size(-1) % 8) return "sizes of heads must be multiples of 8, got " + std::to_string(t->size(-1));
    if (t->stride(-1) != 1 || !is_aligned(*t)) return "heads must be contiguous, and aligned to 16 bytes";
    if (t->size(0) != c.query.size(0) ||
        std::any_of(t->strides().begin(), t->strides().end(), [](int64_t s) { return s < 1; }))
      return "batches must not be broadcast";
  }
  const int64_t heads = c.query.size(1), key_heads = c.key.size(1), value_heads = c.value.size(1);
  if (c.enable_gqa ? heads % key_heads || heads % value_heads : heads != key_heads || heads != value_heads)
    return "heads must not be broadcast but with enable_gqa";
  if (c.key.size(2) != c.value.size(2) || c.query.size(3) != c.key.size(3)) return "sizes do not fit";
  return {};
}

std::string why_not_mask(const LibraryAttention& c) {
  if (!c.mask.defined()) return {};
  if (c.mask.dtype() != c.query.dtype())
    return "it takes masks that are added, of the query's dtype: with others rows without any position are not zero";
  if (c.mask.dim() != 4 || c.mask.size(2) != c.query.size(2) || c.mask.size(3) != c.key.size(2))
    return "a mask must have 4 dimensions, and the lengths of query and key";
  if (c.mask.stride(3) != 1 || c.mask.stride(2) < 1 || !is_aligned(c.mask)) return "a mask's rows must be contiguous";
  return {};
}

/// The mask, or nothing, with the scores' sizes by its strides.
Tensor spread(const Tensor& mask, const Tensor& query, const Tensor& key) {
  if (!mask.defined()) return mask;
  const Dims sizes{query.size(0), query.size(1), query.size(2), key.size(2)};
  Dims strides(mask.strides());
  for (size_t d = 0; d < 2; ++d)
    if (mask.sizes()[d] == 1) strides[d] = 0;
  return make_view(mask, sizes, strides, 0, false);
}

/// What a call gives to the graph.
class Given {
 public:
  void add(Id id, const Tensor& t) { put(id, t.data()); }
  void add(Id id, float& number) { put(id, &number); }
  std::span<const int64_t> ids() const { return ids_; }
  std::span<void* const> addresses() const { return addresses_; }

 private:
  void put(Id id, void* at) {
    ids_.push_back(id);
    addresses_.push_back(at);
  }
  std::vector<int64_t> ids_;
  std::vector<void*> addresses_;
};

/// Numbers, and what both passes are given.
struct Call {
  float scale, masked, kept_scale, kept_inverse;
  Tensor offset;
  Given given;

  Call(const AttentionKey& p, const AttentionInputs& in, const AttentionOptions& options)
      : scale(static_cast<float>(options.scale)),
        masked(dnn::functions().cudnnGetVersion() < kInfinitySince ? std::numeric_limits<float>::lowest() : kMasked),
        kept_scale(static_cast<float>(1 / (1 - options.dropout))),
        kept_inverse(static_cast<float>(1 - options.dropout)) {
    given.add(kQuery, in.query);
    given.add(kKey, in.key);
    given.add(kValue, in.value);
    given.add(kScale, scale);
    if (p.has_bias) given.add(kBias, in.mask);
    if (p.is_causal) given.add(kMaskedScore, masked);
    if (options.dropout > 0) {
      offset = facula::empty({1}, DType::Int64, in.query.device());
      fill_kernel(offset.device(), offset, Scalar(int64_t{0}));
      given.add(kSeed, in.seed);
      given.add(kOffset, offset);
      given.add(kKeptScale, kept_scale);
    }
  }
  Call(const Call&) = delete;
};

void run(const AttentionKey& p, const Given& given) {
  const Stream stream = current_stream(static_cast<int>(p.device));
  with_plans(p, [&](Known& known) {
    const bool done = known.why.empty() && known.plans->run(stream, given.ids(), given.addresses());
    FACULA_CHECK(done, ErrorKind::Runtime, kOp, ": cuDNN has no way to compute it",
                 p.deterministic ? " that gives the same result each time" : "", p.backwards ? " backwards" : "",
                 "; nn.attention.sdpa_kernel chooses another implementation. ", known.why);
  });
}

}  // namespace

std::string why_no_dnn_attention(const LibraryAttention& call) {
  if (!flags()[Flag::Cudnn]) return "backends.cudnn.enabled is False";
  if (!dnn::is_there()) return opened(Library::Dnn).error;
  if (dnn::functions().cudnnGetVersion() < kOldest) return "the library is too old";
  if (std::string why = why_not_tensors(call); !why.empty()) return why;
  if (std::string why = why_not_mask(call); !why.empty()) return why;
  const Tensor bias = spread(call.mask, call.query, call.key);
  const auto why = [&](bool backwards) {
    return with_plans(key_of(call.query, call.key, call.value, bias, call.dropout, call.is_causal, backwards),
                      [](const Known& known) { return known.why; });
  };
  std::string forwards = why(false);
  return forwards.empty() && call.with_gradients ? why(true) : forwards;
}

void attention_by_library(const Tensor& out, const Tensor& sums, const AttentionInputs& in,
                          const AttentionOptions& options) {
  const AttentionKey p = key_of(in.query, in.key, in.value, in.mask, options.dropout, options.is_causal, false);
  Call call(p, in, options);
  call.given.add(kOut, out);
  call.given.add(kStats, sums);
  run(p, call.given);
}

void attention_backward_by_library(const AttentionGradients& gradients, const AttentionInputs& in,
                                   const AttentionResults& results, const AttentionOptions& options) {
  const AttentionKey p = key_of(in.query, in.key, in.value, in.mask, options.dropout, options.is_causal, true);
  const Device device = in.query.device();
  Call call(p, in, options);
  // Gradients in the layout of the results, which the key is made for.
  Tensor grad = results.grad;
  if (grad.strides() != results.out.strides() || !is_aligned(grad))
    copy_elements(grad = facula::empty_strided(results.out.sizes(), results.out.strides(), grad.dtype(), device),
                  results.grad);
  const Tensor delta = facula::empty(results.sums.sizes(), DType::Float32, device);
  call.given.add(kGradOut, grad);
  call.given.add(kOut, results.out);
  call.given.add(kStats, results.sums);
  call.given.add(kKeptInverse, call.kept_inverse);
  call.given.add(kDelta, delta);
  call.given.add(kGradQuery, gradients.query);
  call.given.add(kGradKey, gradients.key);
  call.given.add(kGradValue, gradients.value);
  Tensor query_sums;
  if (!p.deterministic) {
    query_sums = facula::empty(in.query.sizes(), DType::Float32, device);
    if (dnn::functions().cudnnGetVersion() < kOwnZerosSince) fill_kernel(device, query_sums, Scalar(0));
    call.given.add(kQuerySums, query_sums);
  }
  run(p, call.given);
}

}  // namespace facula::cuda
