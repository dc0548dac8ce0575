#include "cuda/group_text.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "cuda/kernel.h"
#include "cuda/kernels/group_args.h"
#include "cuda/kernels/reduce_args.h"

namespace facula::cuda {
namespace {

using Kind = GroupValue::Kind;
constexpr int kVectorBytes = 16, kMostWide = 8;

bool lies_in_order(const Group& group, const GroupValue& v) {
  int64_t expected = item_size(v.dtype);
  for (size_t d = 0; d < group.shape.size(); ++d) {
    if (v.strides[d] != expected && group.shape[d] != 1) return false;
    expected *= group.shape[d];
  }
  return true;
}

/// Whether vectors of `bytes` in the innermost dimension all lie at multiples of that.
bool is_aligned(const Group& group, const GroupValue& v, int64_t bytes) {
  if (reinterpret_cast<uintptr_t>(v.data) % static_cast<uintptr_t>(bytes) != 0) return false;
  for (size_t d = 1; d < group.shape.size(); ++d)
    if (group.shape[d] != 1 && v.strides[d] % bytes != 0) return false;
  return true;
}

Reading reading_of(const Group& group, const GroupValue& v, int wide) {
  const int64_t item = item_size(v.dtype);
  const bool aligned = is_aligned(group, v, item * wide);
  if (aligned && lies_in_order(group, v)) return Reading::InOrder;
  if (wide == 1) return lies_in_order(group, v) ? Reading::InOrder : Reading::Apart;
  if (v.strides[0] == 0) return Reading::Repeated;
  return aligned && v.strides[0] == item ? Reading::Row : Reading::Apart;
}

int most_wide(const Group& group) {
  int64_t widest = 1;
  for (const GroupValue& v : group.values)
    if (v.kind == Kind::Stream || v.data) widest = std::max(widest, item_size(v.dtype));
  return static_cast<int>(std::clamp<int64_t>(kVectorBytes / widest, 1, kMostWide));
}

/// How inputs are read by vectors of `wide` elements; false where a vector would end in another row than it begins.
bool read_by(const Group& group, int wide, GroupForm& form) {
  form.wide = wide;
  form.in_order = true;
  form.inputs.clear();
  form.readings.clear();
  for (const bool in_order : {false, true}) {
    for (size_t i = 0; i < group.values.size(); ++i) {
      const GroupValue& v = group.values[i];
      if (v.kind != Kind::Stream) continue;
      const Reading reading = reading_of(group, v, wide);
      if ((reading == Reading::InOrder) != in_order) continue;
      form.inputs.push_back(static_cast<uint16_t>(i));
      form.readings.push_back(reading);
      form.in_order = form.in_order && in_order;
    }
  }
  return form.in_order || wide == 1 || group.shape[0] % wide == 0;
}

/// How many numbers a loop takes: its text reads p[0] to p[count - 1].
int parameters_of(std::string_view body) {
  int count = 0;
  for (size_t at = body.find("p["); at != body.npos; at = body.find("p[", at + 1))
    count = std::max(count, body[at + 2] - '0' + 1);
  return count;
}

/// How many numbers a step on rows takes.
int numbers_of(const GroupStep& s) { return s.work == RowWork::Norm ? 2 : s.divisor != 1 ? 1 : 0; }

/// Gives every number its place among the values.
bool place_numbers(const Group& group, GroupForm& form) {
  int64_t used = 0;
  const auto place = [&](DType dtype, int64_t count) {
    const int64_t item = item_size(dtype), at = (used + item - 1) / item * item;
    used = at + item * count;
    return static_cast<int>(at);
  };
  form.offsets.assign(group.values.size(), 0);
  for (size_t i = 0; i < group.values.size(); ++i)
    if (group.values[i].kind == Kind::Number) form.offsets[i] = place(group.values[i].dtype, 1);
  for (const GroupStep& s : group.steps)
    form.parameters.push_back(s.rows ? place(group.values[s.in[0]].dtype, numbers_of(s))
                                     : place(s.compute, parameters_of(device_loops[s.loop].body)));
  form.used = static_cast<int>(used);
  return used <= kGroupValueBytes;
}

std::string type(DType dtype) {
  return TemplateArgument(dtype).text().substr(std::string_view("facula::cuda::").size());
}
std::string number(int64_t n) { return std::to_string(n); }

/// Prints a group.
class Printer {
 public:
  Printer(const Group& group, const GroupForm& form) : group_(group), form_(form), readers_(group.values.size()) {
    for (const GroupStep& s : group.steps) {
      std::set<uint16_t> read(s.in.begin(), s.in.begin() + s.inputs);
      for (const uint16_t v : read) ++readers_[v];
    }
  }

  KernelSource print() {
    std::string body = group_.row ? rows() : vectors();
    body = loops() + "struct Group {\n" + body + "};\n";
    char sum[20];
    std::snprintf(sum, sizeof sum, "%016llx", static_cast<unsigned long long>(checksum(body, 0)));
    const std::string room = std::string("group_") + sum, here = "facula::cuda::";
    std::string source;
    for (const std::string& h : headers_) source += "#include \"" + h + "\"\n";
    source += std::string("#include \"") + (group_.row ? "group_rows.cuh" : "group.cuh") + "\"\nnamespace " + here +
              room + " {\n" + body + "}\n";
    const std::string sizes = group_.row ? number(form_.warps) + ", " + number(form_.held) + ", " + number(form_.wide) +
                                               (form_.whole ? ", true" : ", false")
                                         : number(form_.wide);
    return {source, here + (group_.row ? "group_rows<" : "group<") + here + room + "::Group, " + sizes + ", " + here +
                        (form_.small ? "UInt32" : "Int64") + ">"};
  }

 private:
  const GroupValue& value(uint16_t v) const { return group_.values[v]; }
  /// Inputs that are not read in order.
  int64_t strided() const {
    return std::count_if(form_.readings.begin(), form_.readings.end(), [](Reading r) { return r != Reading::InOrder; });
  }

  /// The loops of the steps, each once, by the numbers of loops_.
  std::string loops() {
    std::string text;
    for (size_t k = 0; k < loops_.size(); ++k) {
      std::string_view body = device_loops[loops_[k]].body;
      constexpr std::string_view kName = "struct Loop ";
      text += "struct Loop" + number(static_cast<int64_t>(k)) + " " + std::string(body.substr(kName.size())) + "\n";
    }
    return text;
  }
  std::string loop(uint16_t id) {
    headers_.insert(device_loops[id].header);
    auto at = std::find(loops_.begin(), loops_.end(), id);
    if (at == loops_.end()) at = loops_.insert(loops_.end(), id);
    return "Loop" + number(at - loops_.begin());
  }

  /// `at`: what stands behind the name of a value of which there is one for each element.
  std::string operand(const GroupStep& s, size_t step, int k, const char* at = "") const {
    const std::string c = type(s.compute);
    if (k >= s.inputs) return c + "{}";
    const uint16_t v = s.in[static_cast<size_t>(k)];
    if (value(v).kind == Kind::Number) return "*values_at<" + c + ">(p, " + number(form_.offsets[v]) + ")";
    const std::string converted = "convert<" + c + ">(v" + number(v) + (value(v).per_row ? "" : at) + ")";
    if (value(v).kind == Kind::Stream && readers_[v] < 2) return converted;
    return "apart(" + converted + ", " + zero(step) + ")";
  }
  static std::string zero(size_t step) { return "p.zero[" + number(static_cast<int64_t>(step)) + "]"; }

  /// The call that a step is; what it gives becomes an `o`.
  std::string call(size_t i, const std::string& o, const char* at = "") {
    const GroupStep& s = group_.steps[i];
    const std::string c = type(s.compute);
    std::string text = "step<" + loop(s.loop) + ", " + c + ", " + type(s.loop_result) + ", " + o + ">(";
    for (int k = 0; k < kMaxInputs; ++k) text += operand(s, i, k, at) + ", ";
    return text + "values_at<" + c + ">(p, " + number(form_.parameters[i]) + "))";
  }

  /// The type of an output while its vector is made: where no step reads it, it is narrowed with its neighbors.
  std::string made_as(uint16_t v) const {
    const std::string o = type(value(v).dtype);
    return readers_[v] ? o : "Compute<" + o + ">";
  }

  /// The steps on one element.
  std::string element() {
    std::string text = "  static FACULA_FN void element(const GroupArgs& p";
    for (const uint16_t v : form_.inputs) text += ", const Compute<" + type(value(v).dtype) + ">& v" + number(v);
    for (const uint16_t v : form_.outputs) text += ", " + made_as(v) + "& w" + number(v);
    text += ") {\n";
    for (size_t i = 0; i < group_.steps.size(); ++i) {
      const uint16_t out = group_.steps[i].out[0];
      text += "    const " + made_as(out) + " v" + number(out) + " = " + call(i, made_as(out)) + ";\n";
    }
    for (const uint16_t v : form_.outputs) text += "    w" + number(v) + " = v" + number(v) + ";\n";
    return text + "  }\n";
  }

  std::string read(size_t k, int64_t& from) const {
    const std::string m = type(value(form_.inputs[k]).dtype), in = "(p.in[" + number(static_cast<int64_t>(k)) + "], ";
    const std::string types = "<" + m + ", kWide>";
    if (form_.readings[k] == Reading::InOrder) return "read_in_order" + types + in + "v)";
    const char* name = form_.readings[k] == Reading::Row        ? "read_row"
                       : form_.readings[k] == Reading::Repeated ? "read_repeated"
                                                                : "read_apart";
    return name + types + in + "offsets.from[" + number(from++) + "])";
  }

  /// A vector of elements.
  std::string vector() const {
    std::string text =
        "  template <int kWide, class Index>\n  static FACULA_FN void at(const GroupArgs& p, Int64 v) {\n";
    if (!form_.in_order)
      text += "    const GroupOffsets<" + number(static_cast<int64_t>(group_.shape.size())) + ", " + number(strided()) +
              ", Index> offsets(p, v * kWide);\n";
    std::string call;
    int64_t from = 0;
    for (size_t k = 0; k < form_.inputs.size(); ++k) {
      const std::string name = number(form_.inputs[k]);
      text += "    const auto r" + name + " = widen_all(" + read(k, from) + ");\n";
      call += ", r" + name + ".at[j]";
    }
    for (const uint16_t v : form_.outputs) {
      text += "    Vector<" + made_as(v) + ", kWide> w" + number(v) + ";\n";
      call += ", w" + number(v) + ".at[j]";
    }
    text += "#pragma unroll\n    for (int j = 0; j < kWide; ++j) element(p" + call + ");\n";
    for (size_t k = 0; k < form_.outputs.size(); ++k) {
      const uint16_t v = form_.outputs[k];
      const std::string made = "w" + number(v);
      text += "    write(p.out[" + number(static_cast<int64_t>(k)) + "], v, " +
              (readers_[v] ? made : "narrow_all<" + type(value(v).dtype) + ">(" + made + ")") + ");\n";
    }
    return text + "  }\n";
  }

  std::string vectors() {
    return "  static constexpr bool kIsInOrder = " + std::string(form_.in_order ? "true" : "false") + ";\n" +
           element() + vector();
  }

  // ---- of groups that look at rows

  std::string take(size_t k, int64_t& from) const {
    const GroupValue& v = value(form_.inputs[k]);
    const std::string name = "v" + number(form_.inputs[k]), m = type(v.dtype);
    const std::string in = "p.in[" + number(static_cast<int64_t>(k)) + "]";
    if (form_.readings[k] == Reading::InOrder)
      return "    " + m + " " + name + "[kHeld];\n    take_in_order(" + name + ", " + in + ", part);\n";
    const std::string place = "offsets.from[" + number(from++) + "], part);\n";
    if (v.per_row) return "    const " + m + " " + name + " = take_of_row<" + m + ">(" + in + ", " + place;
    return "    " + m + " " + name + "[kHeld];\n    take_apart(" + name + ", " + in + ", " + place;
  }

  std::string element_step(size_t i) {
    const uint16_t out = group_.steps[i].out[0];
    const std::string o = type(value(out).dtype), name = "v" + number(out);
    if (group_.steps[i].per_row)
      return "    " + o + " " + name + "{};\n    if (part.has) " + name + " = " + call(i, o) + ";\n";
    return "    " + o + " " + name + "[kHeld];\n    part.each([&](int j, Int64) { " + name +
           "[j] = " + call(i, o, "[j]") + "; });\n";
  }

  /// The address of an input, or none.
  std::string address(const GroupStep& s, bool is_there, size_t at) const {
    if (!is_there) return "nullptr";
    const auto k = std::find(form_.inputs.begin(), form_.inputs.end(), s.in[at]) - form_.inputs.begin();
    return "p.in[" + number(k) + "].data";
  }

  std::string norm_step(size_t i) const {
    const GroupStep& s = group_.steps[i];
    const std::string c = type(value(s.in[0]).dtype), out = "v" + number(s.out[0]), made = "s" + number(s.out[0]);
    const auto statistic = [&](size_t k, const char* name) {
      return "    const " + c + " v" + number(s.out[k]) + " = " + made + "." + name + ";\n";
    };
    return "    " + c + " " + out + "[kHeld];\n    const RowStatistics<" + c + "> " + made + " = norm_part(" + out +
           ", v" + number(s.in[0]) + ", " + address(s, s.has_weight, 1) + ", " +
           address(s, s.has_bias, s.has_weight ? 2 : 1) + ", values_at<" + c + ">(p, " + number(form_.parameters[i]) +
           "), p.shape[0], " + zero(i) + ", part);\n" + statistic(1, "mean") + statistic(2, "rstd");
  }

  std::string row_step(size_t i) const {
    const GroupStep& s = group_.steps[i];
    const std::string c = type(value(s.in[0]).dtype), out = "v" + number(s.out[0]);
    const std::string with = "v" + number(s.in[0]) + ", " + zero(i) + ", part)";
    const auto fold = [&](const char* op) {
      const std::string divided =
          s.divisor != 1 ? " / *values_at<" + c + ">(p, " + number(form_.parameters[i]) + ")" : "";
      return "    const " + c + " " + out + " = fold_part<" + op + ">(" + with + divided + ";\n";
    };
    const auto best = [&](const char* largest) {
      const std::string both = "b" + number(s.out[0]);
      return "    const Best<" + c + "> " + both + " = best_part<" + largest + ">(" + with + ";\n    const " + c + " " +
             out + " = " + both + ".value;\n    const Int64 v" + number(s.out[1]) + " = " + both + ".at;\n";
    };
    const auto softmax = [&](const char* log) {
      return "    " + c + " " + out + "[kHeld];\n    softmax_part<" + log + ">(" + out + ", " + with + ";\n";
    };
    switch (s.work) {
      case RowWork::Sum: return fold("Add");
      case RowWork::Max: return fold("Max");
      case RowWork::Min: return fold("Min");
      case RowWork::FirstMax: return best("true");
      case RowWork::FirstMin: return best("false");
      case RowWork::Softmax: return softmax("false");
      case RowWork::Norm: return norm_step(i);
      default: return softmax("true");
    }
  }

  std::string rows() {
    std::string text =
        "  template <class Index, class Part>\n  static FACULA_FN void row(const GroupArgs& p, const Part& part, Int64 "
        "row) {\n    constexpr int kHeld = Part::kHeld;\n";
    if (strided())
      text += "    const RowOffsets<" + number(static_cast<int64_t>(group_.shape.size())) + ", " + number(strided()) +
              ", Index> offsets(p, row);\n";
    int64_t from = 0;
    for (size_t k = 0; k < form_.inputs.size(); ++k) text += take(k, from);
    for (size_t i = 0; i < group_.steps.size(); ++i) text += group_.steps[i].rows ? row_step(i) : element_step(i);
    for (size_t k = 0; k < form_.outputs.size(); ++k) {
      const uint16_t v = form_.outputs[k];
      text += std::string("    ") + (value(v).per_row ? "give_of_row" : "give") + "(p.out[" +
              number(static_cast<int64_t>(k)) + "], v" + number(v) + ", part);\n";
    }
    return text + "  }\n";
  }

  const Group& group_;
  const GroupForm& form_;
  std::vector<int> readers_;     // steps that read a value
  std::vector<uint16_t> loops_;  // by their number in the text
  std::set<std::string> headers_;
};

}  // namespace

namespace {

/// A power of two, enough for `count`.
int power_of_two(int64_t count) {
  int power = 1;
  while (power < count) power *= 2;
  return power;
}

/// The threads of a row, as lines.h and reduce.cpp choose them (can_take_rows() says where they agree), and their
/// vectors, which are those of the values that steps look at.
void share_rows(const Group& group, GroupForm& form) {
  const int64_t n = group.row;
  form.warps = n <= 8 ? 0 : n <= 1024 ? 1 : 8;
  for (const GroupStep& s : group.steps)
    if (s.rows) form.wide = fold_wide(static_cast<int>(item_size(group.values[s.in[0]].dtype)));
  const int64_t threads = form.warps ? 32 * form.warps : 1;
  form.held = power_of_two((n + threads * form.wide - 1) / (threads * form.wide)) * form.wide;
}

/// Whether all steps of a group on rows agree on their vectors.
bool rows_agree(const Group& group) {
  const GroupStep* first = nullptr;
  for (const GroupStep& s : group.steps) {
    if (!s.rows) continue;
    const auto item = [&](const GroupStep& step) { return item_size(group.values[step.in[0]].dtype); };
    if (first && item(*first) != item(s)) return false;
    first = &s;
  }
  return true;
}

/// Whether vectors of all rows that are read or written in order lie at multiples of their size.
bool are_whole(const Group& group, const GroupForm& form) {
  const auto is_whole = [&](const GroupValue& v) {
    const auto bytes = static_cast<uintptr_t>(std::min<int64_t>(form.wide * item_size(v.dtype), kVectorBytes));
    return v.per_row || reinterpret_cast<uintptr_t>(v.data) % bytes == 0;
  };
  bool whole = group.row % form.wide == 0;
  for (size_t k = 0; k < form.inputs.size(); ++k)
    if (form.readings[k] == Reading::InOrder) whole = whole && is_whole(group.values[form.inputs[k]]);
  for (const uint16_t v : form.outputs) whole = whole && is_whole(group.values[v]);
  return whole;
}

/// Inputs of a group that looks at rows: those that are not read in order come first.
void read_rows(const Group& group, GroupForm& form) {
  for (const bool in_order : {false, true}) {
    for (size_t i = 0; i < group.values.size(); ++i) {
      const GroupValue& v = group.values[i];
      if (v.kind != Kind::Stream || (!v.per_row && lies_in_order(group, v)) != in_order) continue;
      form.inputs.push_back(static_cast<uint16_t>(i));
      form.readings.push_back(in_order ? Reading::InOrder : Reading::Apart);
    }
  }
}

bool is_known(const Group& group, const GroupStep& s) {
  if (!s.rows) return s.outs == 1 && device_loops[s.loop].body;
  return can_take_rows(s.work, group.row);
}

}  // namespace

std::optional<GroupForm> form_of(const Group& group) {
  GroupForm form;
  for (const GroupStep& s : group.steps)
    if (!is_known(group, s)) return {};
  if (group.shape.size() > kMostGroupDims || group.steps.size() > kMostGroupSteps) return {};
  for (size_t i = 0; i < group.values.size(); ++i)
    if (group.values[i].kind == Kind::Result && group.values[i].data) form.outputs.push_back(static_cast<uint16_t>(i));
  if (form.outputs.size() > kMostGroupOutputs || !place_numbers(group, form)) return {};
  form.small = group.numel <= INT32_MAX;
  if (group.row) {
    if (!rows_agree(group)) return {};
    share_rows(group, form);
    read_rows(group, form);
    form.whole = are_whole(group, form);
  } else {
    for (int wide = most_wide(group); !read_by(group, wide, form);) wide /= 2;
  }
  if (form.inputs.size() > kMostGroupInputs) return {};
  return form;
}

std::string key_of(const Group& group, const GroupForm& form) {
  std::string key;
  const auto add = [&](auto... numbers) { (key.append(reinterpret_cast<const char*>(&numbers), sizeof numbers), ...); };
  add(static_cast<uint8_t>(form.wide), static_cast<uint8_t>(form.warps), static_cast<uint8_t>(form.held), form.whole,
      form.small, static_cast<uint8_t>(group.shape.size()), static_cast<uint16_t>(group.values.size()));
  for (const GroupValue& v : group.values) add(v.kind, v.dtype, v.per_row, v.kind == Kind::Result && v.data);
  for (const Reading r : form.readings) add(r);
  for (const uint16_t v : form.inputs) add(v);
  for (const GroupStep& s : group.steps) {
    add(s.inputs, s.work, s.has_weight, s.has_bias, s.rows && s.divisor != 1, s.per_row, s.loop, s.compute,
        s.loop_result, s.out[0]);
    for (size_t k = 0; k < s.inputs; ++k) add(s.in[k]);
  }
  return key;
}

KernelSource text_of(const Group& group, const GroupForm& form) { return Printer(group, form).print(); }

}  // namespace facula::cuda
