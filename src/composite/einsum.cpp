// einsum: operands are contracted from left to right, each step one batched matrix product.
#include <cctype>
#include <map>
#include <string>

#include "functions.h"

namespace facula {
namespace {

constexpr int kEllipsis = 256;  // labels from here on are dimensions of the ellipsis, the last dimension lowest

/// A tensor whose dimensions carry labels, each at most once.
struct Labelled {
  Tensor tensor;
  std::vector<int> labels;
  bool has(int label) const { return std::find(labels.begin(), labels.end(), label) != labels.end(); }
  size_t at(int label) const {
    return static_cast<size_t>(std::find(labels.begin(), labels.end(), label) - labels.begin());
  }
};

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator) parts.emplace_back();
    else parts.back() += c;
  }
  return parts;
}

/// Labels of one term; `ellipsis` is how many dimensions its dots stand for.
std::vector<int> term_labels(const std::string& term, int64_t ellipsis, std::string_view equation) {
  std::vector<int> labels;
  bool seen = false;
  for (size_t i = 0; i < term.size(); ++i) {
    if (term[i] == '.') {
      FACULA_CHECK(term.compare(i, 3, "...") == 0 && !seen, ErrorKind::Runtime,
                   "einsum: dots come as one ellipsis '...' per term, got '", equation, "'");
      seen = true;
      for (int64_t d = ellipsis; d-- > 0;) labels.push_back(kEllipsis + static_cast<int>(d));
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
Labelled with_diagonals(Tensor t, std::vector<int> labels) {
  for (size_t i = 0; i < labels.size();) {
    const auto again = std::find(labels.begin() + static_cast<long>(i) + 1, labels.end(), labels[i]);
    if (again == labels.end()) {
      ++i;
      continue;
    }
    const int64_t j = again - labels.begin();
    FACULA_CHECK(t.size(static_cast<int64_t>(i)) == t.size(j), ErrorKind::Runtime,
                 "einsum: a subscript repeated within an operand needs equal sizes, got ", t.sizes());
    t = movedim(diagonal(t, 0, static_cast<int64_t>(i), j), -1, static_cast<int64_t>(i));
    labels.erase(again);
  }
  return {t, labels};
}

/// The sum over `drop`; in the dtype that sum chooses unless one is given.
Labelled summed(const Labelled& x, const std::vector<int>& drop, std::optional<DType> dtype) {
  Dims dims;
  Labelled rest{x.tensor, {}};
  for (size_t i = 0; i < x.labels.size(); ++i) {
    if (std::find(drop.begin(), drop.end(), x.labels[i]) != drop.end()) dims.push_back(static_cast<int64_t>(i));
    else rest.labels.push_back(x.labels[i]);
  }
  if (!dims.empty()) rest.tensor = sum(x.tensor, std::optional<IntList>(dims), false, dtype);
  return rest;
}

/// Dimensions of size one that others broadcast are dropped.
Labelled without_ones(Labelled x, const std::map<int, int64_t>& sizes) {
  for (size_t i = x.labels.size(); i-- > 0;) {
    if (x.tensor.size(static_cast<int64_t>(i)) == 1 && sizes.at(x.labels[i]) != 1) {
      x.tensor = squeeze(x.tensor, static_cast<int64_t>(i));
      x.labels.erase(x.labels.begin() + static_cast<long>(i));
    }
  }
  return x;
}

/// How ops that would change nothing are left out: not where somebody sees them, in calls or in a graph, and expects
/// what PyTorch shows.
struct Shortcuts {
  bool taken = false;
  Shortcuts() = default;
  explicit Shortcuts(TensorList operands) : taken(watching() == 0) {
    for (const Tensor& t : operands) taken = taken && !(t.flags() & (kPythonDispatch | kRequiresGrad));
  }
  /// The dimensions in the order of `labels`, all of which it has.
  Tensor ordered(const Labelled& x, const std::vector<int>& labels) const {
    if (taken && x.labels == labels) return x.tensor;
    Dims order;
    for (int label : labels) order.push_back(static_cast<int64_t>(x.at(label)));
    return permute(x.tensor, order);
  }
  Tensor in_shape(const Tensor& t, IntList shape) const { return taken && t.sizes() == shape ? t : reshape(t, shape); }
};

/// Contracts two operands over the labels that nothing after them needs.
Labelled contract(Labelled a, Labelled b, const std::vector<int>& needed, const std::map<int, int64_t>& sizes,
                  const Shortcuts& shortcuts) {
  auto is_needed = [&](int label) { return std::find(needed.begin(), needed.end(), label) != needed.end(); };
  std::vector<int> batch, left, right, inner, alone_a, alone_b;
  for (int label : a.labels) {
    if (b.has(label)) (is_needed(label) ? batch : inner).push_back(label);
    else (is_needed(label) ? left : alone_a).push_back(label);
  }
  for (int label : b.labels) {
    if (!a.has(label)) (is_needed(label) ? right : alone_b).push_back(label);
  }
  // a sum of truth values beside numbers is a number
  const bool alike = a.tensor.dtype() == b.tensor.dtype();
  a = summed(a, alone_a, alike ? std::optional(a.tensor.dtype()) : std::nullopt);
  b = summed(b, alone_b, alike ? std::optional(b.tensor.dtype()) : std::nullopt);
  auto joined = [](std::vector<int> x, const std::vector<int>& y, const std::vector<int>& z) {
    x.insert(x.end(), y.begin(), y.end());
    x.insert(x.end(), z.begin(), z.end());
    return x;
  };
  auto count = [&](const std::vector<int>& labels) {
    int64_t n = 1;
    for (int label : labels) n *= sizes.at(label);
    return n;
  };
  std::vector<int> result = joined(batch, left, right);
  if (inner.empty()) {  // nothing to sum: an element-wise product
    Tensor x = shortcuts.ordered(a, joined(batch, left, {})), y = shortcuts.ordered(b, joined(batch, right, {}));
    for (size_t i = 0; i < right.size(); ++i) x = unsqueeze(x, -1);
    for (size_t i = 0; i < left.size(); ++i) y = unsqueeze(y, static_cast<int64_t>(batch.size()));
    return {mul(x, y), result};
  }
  const bool flat = shortcuts.taken && batch.empty();  // PyTorch multiplies a batch of one then
  const auto matrices = [&](const Labelled& t, const std::vector<int>& labels, int64_t rows, int64_t columns) {
    const Tensor made = shortcuts.ordered(t, labels);
    return flat ? shortcuts.in_shape(made, {rows, columns}) : shortcuts.in_shape(made, {count(batch), rows, columns});
  };
  const Tensor x = matrices(a, joined(batch, left, inner), count(left), count(inner));
  const Tensor y = matrices(b, joined(batch, inner, right), count(inner), count(right));
  const Tensor product = flat ? mm(x, y) : batch.empty() ? mm(squeeze(x, 0), squeeze(y, 0)) : bmm(x, y);
  Dims shape;
  for (int label : result) shape.push_back(sizes.at(label));
  return {shortcuts.in_shape(product, shape), result};
}

struct Equation {
  std::vector<std::vector<int>> inputs;
  std::vector<int> output;
};

Equation parse(std::string_view text, TensorList operands) {
  std::string compact;
  for (char c : text)
    if (c != ' ') compact += c;
  size_t arrow = compact.find("->");
  std::vector<std::string> terms = split(compact.substr(0, arrow), ',');
  FACULA_CHECK(terms.size() == operands.size(), ErrorKind::Runtime, "einsum: one operand per term of '", text,
               "', got ", operands.size());
  Equation e;
  int64_t widest = 0;
  std::map<int, int> uses;
  for (size_t i = 0; i < terms.size(); ++i) {
    int64_t letters = 0;
    bool dots = terms[i].find('.') != std::string::npos;
    for (char c : terms[i]) letters += c != '.';
    int64_t rest = operands[i].dim() - letters;
    FACULA_CHECK(dots ? rest >= 0 : rest == 0, ErrorKind::Runtime, "einsum: the subscripts '", terms[i],
                 "' do not fit operand ", i, ", got shape ", operands[i].sizes());
    e.inputs.push_back(term_labels(terms[i], dots ? rest : 0, text));
    if (dots) widest = std::max(widest, rest);
    for (int label : e.inputs.back()) ++uses[label];
  }
  if (arrow != std::string::npos) {
    e.output = term_labels(compact.substr(arrow + 2), widest, text);
    for (size_t i = 0; i < e.output.size(); ++i) {
      FACULA_CHECK(uses.count(e.output[i]), ErrorKind::Runtime,
                   "einsum: every output subscript must appear in an input, got '", text, "'");
      FACULA_CHECK(
          std::find(e.output.begin() + static_cast<long>(i) + 1, e.output.end(), e.output[i]) == e.output.end(),
          ErrorKind::Runtime, "einsum: output subscripts appear once, got '", text, "'");
    }
  } else {
    for (int64_t d = widest; d-- > 0;) e.output.push_back(kEllipsis + static_cast<int>(d));
    for (auto [label, count] : uses)
      if (label < kEllipsis && count == 1) e.output.push_back(label);
  }
  return e;
}

}  // namespace

Tensor _einsum_uncast(std::string_view equation, TensorList operands) {
  FACULA_CHECK(!operands.empty(), ErrorKind::Runtime, "einsum: at least one operand, got none");
  Equation e = parse(equation, operands);
  std::vector<Labelled> inputs;
  std::map<int, int64_t> sizes;
  for (size_t i = 0; i < operands.size(); ++i) {
    inputs.push_back(with_diagonals(operands[i], e.inputs[i]));
    for (size_t d = 0; d < inputs[i].labels.size(); ++d) {
      int64_t size = inputs[i].tensor.size(static_cast<int64_t>(d));
      auto [known, fresh] = sizes.emplace(inputs[i].labels[d], size);
      if (fresh || known->second == size || size == 1) continue;
      FACULA_CHECK(known->second == 1, ErrorKind::Runtime, "einsum: operands do not broadcast in '", equation,
                   "', got sizes ", known->second, " and ", size);
      known->second = size;
    }
  }
  for (Labelled& x : inputs) x = without_ones(x, sizes);
  const Shortcuts shortcuts(operands);
  Labelled result = inputs[0];
  for (size_t i = 1; i < inputs.size(); ++i) {
    std::vector<int> needed = e.output;
    for (size_t j = i + 1; j < inputs.size(); ++j)
      needed.insert(needed.end(), inputs[j].labels.begin(), inputs[j].labels.end());
    result = contract(result, inputs[i], needed, sizes, shortcuts);
  }
  std::vector<int> extra;
  for (int label : result.labels)
    if (std::find(e.output.begin(), e.output.end(), label) == e.output.end()) extra.push_back(label);
  const bool alone = operands.size() == 1;
  const Labelled made = summed(result, extra, alone ? std::optional<DType>() : result.tensor.dtype());
  // the result is a view, not the operand itself
  return made.tensor.is_same(operands[0]) ? Shortcuts().ordered(made, e.output) : shortcuts.ordered(made, e.output);
}

}  // namespace facula
