// einsum: operands are contracted from left to right, each step one batched matrix product.
#include <algorithm>
#include <cctype>
#include <string>

#include "functions.h"

namespace facula {
namespace {

constexpr int kEllipsis = 256;  // labels from here on are dimensions of the ellipsis, the last dimension lowest

using Labels = Dims;  // few, and without memory of their own

size_t place_of(const Labels& labels, int64_t label) {
  return static_cast<size_t>(std::find(labels.begin(), labels.end(), label) - labels.begin());
}
bool contains(const Labels& labels, int64_t label) { return place_of(labels, label) < labels.size(); }
void append(Labels& labels, const Labels& more) {
  for (int64_t label : more) labels.push_back(label);
}

std::string label_text(int64_t label) {
  return label < kEllipsis ? std::string("'") + static_cast<char>(label) + "'" : "a dimension of '...'";
}

/// A tensor whose dimensions carry labels, each at most once.
struct Labeled {
  Tensor tensor;
  Labels labels;
  bool has(int64_t label) const { return contains(labels, label); }
  size_t at(int64_t label) const { return place_of(labels, label); }
};

/// A number for each label that was met.
class Numbers {
 public:
  /// The number of a label, which is `first` where it was not met before.
  int64_t& of(int64_t label, int64_t first) {
    const size_t k = place_of(labels_, label);
    if (k == labels_.size()) {
      labels_.push_back(label);
      numbers_.push_back(first);
    }
    return numbers_[k];
  }
  int64_t at(int64_t label) const { return numbers_[place_of(labels_, label)]; }
  bool has(int64_t label) const { return contains(labels_, label); }
  const Labels& labels() const { return labels_; }

 private:
  Labels labels_;
  Dims numbers_;
};

/// Labels of one term; `ellipsis` is how many dimensions its dots stand for.
Labels term_labels(std::string_view term, int64_t ellipsis, std::string_view equation) {
  Labels labels;
  bool seen = false;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term[i] == '.') {
      FACULA_CHECK(term.compare(i, 3, "...") == 0 && !seen, ErrorKind::Runtime,
                   "einsum: dots come as one ellipsis '...' per term, got '", equation, "'");
      seen = true;
      for (int64_t d = ellipsis; d-- > 0;) labels.push_back(kEllipsis + d);
      i += 2;
    } else {
      FACULA_CHECK(std::isalpha(static_cast<unsigned char>(term[i])), ErrorKind::Runtime,
                   "einsum: subscripts are letters, got '", equation, "'");
      labels.push_back(term[i]);
    }
  }
  return labels;
}

/// Repeated labels become diagonals.
Labeled with_diagonals(Tensor t, Labels labels) {
  for (size_t i = 0; i < labels.size();) {
    const auto again = std::find(labels.begin() + i + 1, labels.end(), labels[i]);
    if (again == labels.end()) {
      ++i;
      continue;
    }
    const int64_t j = again - labels.begin();
    FACULA_CHECK(t.size(static_cast<int64_t>(i)) == t.size(j), ErrorKind::Runtime,
                 "einsum: a subscript repeated within an operand needs equal sizes, got ", t.sizes());
    t = movedim(diagonal(t, 0, static_cast<int64_t>(i), j), -1, static_cast<int64_t>(i));
    labels.erase(static_cast<size_t>(j));
  }
  return {t, labels};
}

/// The sum over `drop`; in the dtype that sum chooses unless one is given.
Labeled summed(const Labeled& x, const Labels& drop, std::optional<DType> dtype) {
  if (drop.empty()) return x;
  Dims dims;
  Labeled rest{x.tensor, {}};
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (contains(drop, x.labels[i])) dims.push_back(static_cast<int64_t>(i));
    else rest.labels.push_back(x.labels[i]);
  }
  if (!dims.empty()) rest.tensor = sum(x.tensor, std::optional<IntList>(dims), false, dtype);
  return rest;
}

/// Dimensions of size one that others broadcast are dropped.
Labeled without_ones(Labeled x, const Numbers& sizes) {
  for (size_t i = x.labels.size(); i-- > 0;) {
    if (x.tensor.size(static_cast<int64_t>(i)) == 1 && sizes.at(x.labels[i]) != 1) {
      x.tensor = squeeze(x.tensor, static_cast<int64_t>(i));
      x.labels.erase(i);
    }
  }
  return x;
}

/// How ops that would change nothing are left out: not where somebody sees them, in calls or in a graph, and expects
/// what PyTorch shows.
struct Shortcuts {
  bool taken = false;
  Shortcuts() = default;
  explicit Shortcuts(TensorList operands) : taken(!are_ops_seen()) {
    for (const Tensor& t : operands) taken = taken && !(t.flags() & (kPythonDispatch | kRequiresGrad));
  }
  /// The dimensions in the order of `labels`, all of which it has.
  Tensor ordered(const Labeled& x, const Labels& labels) const {
    if (taken && IntList(x.labels) == IntList(labels)) return x.tensor;
    Dims order;
    for (int64_t label : labels) order.push_back(static_cast<int64_t>(x.at(label)));
    return permute(x.tensor, order);
  }
  Tensor in_shape(const Tensor& t, IntList shape) const { return taken && t.sizes() == shape ? t : reshape(t, shape); }
};

/// Contracts two operands over the labels that nothing after them needs.
Labeled contract(Labeled a, Labeled b, const Labels& needed, const Numbers& sizes, const Shortcuts& shortcuts) {
  auto is_needed = [&](int64_t label) { return contains(needed, label); };
  Labels batch, left, right, inner, alone_a, alone_b;
  for (int64_t label : a.labels) {
    if (b.has(label)) (is_needed(label) ? batch : inner).push_back(label);
    else (is_needed(label) ? left : alone_a).push_back(label);
  }
  for (int64_t label : b.labels) {
    if (!a.has(label)) (is_needed(label) ? right : alone_b).push_back(label);
  }
  // a sum of truth values beside numbers is a number
  const bool alike = a.tensor.dtype() == b.tensor.dtype();
  a = summed(a, alone_a, alike ? std::optional(a.tensor.dtype()) : std::nullopt);
  b = summed(b, alone_b, alike ? std::optional(b.tensor.dtype()) : std::nullopt);
  auto joined = [](Labels x, const Labels& y, const Labels& z) {
    append(x, y);
    append(x, z);
    return x;
  };
  auto count = [&](const Labels& labels) {
    int64_t n = 1;
    for (int64_t label : labels) n *= sizes.at(label);
    return n;
  };
  Labels result = joined(batch, left, right);
  if (inner.empty()) {  // nothing to sum: an element-wise product
    Tensor x = shortcuts.ordered(a, joined(batch, left, {})), y = shortcuts.ordered(b, joined(batch, right, {}));
    for (size_t i = 0; i < right.size(); ++i) x = unsqueeze(x, -1);
    for (size_t i = 0; i < left.size(); ++i) y = unsqueeze(y, static_cast<int64_t>(batch.size()));
    return {mul(x, y), result};
  }
  const bool flat = shortcuts.taken && batch.empty();  // PyTorch multiplies a batch of one then
  const auto matrices = [&](const Labeled& t, const Labels& labels, int64_t rows, int64_t columns) {
    const Tensor made = shortcuts.ordered(t, labels);
    return flat ? shortcuts.in_shape(made, {rows, columns}) : shortcuts.in_shape(made, {count(batch), rows, columns});
  };
  const Tensor x = matrices(a, joined(batch, left, inner), count(left), count(inner));
  const Tensor y = matrices(b, joined(batch, inner, right), count(inner), count(right));
  const Tensor product = flat ? mm(x, y) : batch.empty() ? mm(squeeze(x, 0), squeeze(y, 0)) : bmm(x, y);
  Dims shape;
  for (int64_t label : result) shape.push_back(sizes.at(label));
  return {shortcuts.in_shape(product, shape), result};
}

struct Equation {
  std::vector<Labels> inputs;
  Labels output;
};

Equation parse(std::string_view text, TensorList operands) {
  std::string compact;
  for (char c : text)
    if (c != ' ') compact += c;
  const std::string_view all = compact;
  const size_t arrow = std::min(all.find("->"), all.size());
  const auto terms = static_cast<size_t>(std::count(all.begin(), all.begin() + static_cast<long>(arrow), ',')) + 1;
  FACULA_CHECK(terms == operands.size(), ErrorKind::Runtime, "einsum: expected one operand per term of '", text,
               "', got ", operands.size());
  Equation e;
  int64_t widest = 0;
  Numbers uses;
  for (size_t i = 0, from = 0; i < terms; ++i) {
    const std::string_view term = all.substr(from, std::min(all.find(',', from), arrow) - from);
    from += term.size() + 1;
    const bool dots = term.find('.') != std::string_view::npos;
    const int64_t rest = operands[i].dim() - (std::ssize(term) - std::count(term.begin(), term.end(), '.'));
    FACULA_CHECK(dots ? rest >= 0 : rest == 0, ErrorKind::Runtime, "einsum: the subscripts '", term,
                 "' do not fit operand ", i, ", got shape ", operands[i].sizes());
    e.inputs.push_back(term_labels(term, dots ? rest : 0, text));
    if (dots) widest = std::max(widest, rest);
    for (int64_t label : e.inputs.back()) ++uses.of(label, 0);
  }
  if (arrow < all.size()) {
    e.output = term_labels(all.substr(arrow + 2), widest, text);
    for (size_t i = 0; i < e.output.size(); ++i) {
      FACULA_CHECK(uses.has(e.output[i]), ErrorKind::Runtime,
                   "einsum: every output subscript must appear in an input, got '", text, "'");
      FACULA_CHECK(std::find(e.output.begin() + i + 1, e.output.end(), e.output[i]) == e.output.end(),
                   ErrorKind::Runtime, "einsum: output subscripts appear once, got '", text, "'");
    }
  } else {
    for (int64_t d = widest; d-- > 0;) e.output.push_back(kEllipsis + d);
    const size_t letters = e.output.size();
    for (int64_t label : uses.labels())
      if (label < kEllipsis && uses.at(label) == 1) e.output.push_back(label);
    std::sort(e.output.begin() + letters, e.output.end());
  }
  return e;
}

}  // namespace

Tensor _einsum_uncast(std::string_view equation, TensorList operands) {
  FACULA_CHECK(!operands.empty(), ErrorKind::Runtime, "einsum: expected at least one operand, got none");
  Equation e = parse(equation, operands);
  std::vector<Labeled> inputs;
  Numbers sizes;
  for (size_t i = 0; i < operands.size(); ++i) {
    inputs.push_back(with_diagonals(operands[i], e.inputs[i]));
    for (size_t d = 0; d < inputs[i].labels.size(); ++d) {
      int64_t size = inputs[i].tensor.size(static_cast<int64_t>(d));
      int64_t& known = sizes.of(inputs[i].labels[d], size);
      if (known == size || size == 1) continue;
      FACULA_CHECK(known == 1, ErrorKind::Runtime, "einsum: a subscript must have one size in all operands of '",
                   equation, "', got ", known, " and ", size, " for ", label_text(inputs[i].labels[d]));
      known = size;
    }
  }
  for (Labeled& x : inputs) x = without_ones(x, sizes);
  const Shortcuts shortcuts(operands);
  Labeled result = inputs[0];
  for (size_t i = 1; i < inputs.size(); ++i) {
    Labels needed = e.output;
    for (size_t j = i + 1; j < inputs.size(); ++j) append(needed, inputs[j].labels);
    result = contract(result, inputs[i], needed, sizes, shortcuts);
  }
  Labels extra;
  for (int64_t label : result.labels)
    if (!contains(e.output, label)) extra.push_back(label);
  const bool alone = operands.size() == 1;
  const Labeled made = summed(result, extra, alone ? std::optional<DType>() : result.tensor.dtype());
  // the result is a view, not the operand itself
  return made.tensor.is_same(operands[0]) ? Shortcuts().ordered(made, e.output) : shortcuts.ordered(made, e.output);
}

}  // namespace facula
