#include "cpu/emit_steps.h"

#include <bit>

#include "op_ids_activation.h"
#include "op_ids_elementwise.h"

namespace facula::cpu::emit {

NodeId StepGraph::node(Do what, std::initializer_list<NodeId> in, uint8_t how) {
  Node n{what, how, static_cast<uint8_t>(in.size()), true};
  size_t k = 0;
  for (const NodeId v : in) {
    n.fixed = n.fixed && nodes_[v].fixed;
    n.in[k++] = v;
  }
  nodes_.push_back(n);
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId StepGraph::load(uint16_t argument, DType dtype) {
  Node n{Do::Load};
  n.argument = argument;
  n.dtype = dtype;
  nodes_.push_back(n);
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId StepGraph::number(uint16_t argument, uint16_t offset) {
  Node n{Do::Number, 0, 0, true};
  n.argument = argument;
  n.offset = offset;
  nodes_.push_back(n);
  return static_cast<NodeId>(nodes_.size() - 1);
}

void StepGraph::store(uint16_t argument, DType dtype, NodeId value) {
  Node n{Do::Store, 0, 1};
  n.argument = argument;
  n.dtype = dtype;
  n.in[0] = value;
  nodes_.push_back(n);
}

NodeId StepGraph::bits(uint64_t pattern) {
  if (!is_double()) pattern &= 0xffffffff;
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].what == Do::Constant && nodes_[i].bits == pattern) return static_cast<NodeId>(i);
  Node n{Do::Constant, 0, 0, true};
  n.bits = pattern;
  nodes_.push_back(n);
  return static_cast<NodeId>(nodes_.size() - 1);
}

NodeId StepGraph::constant(double value) {
  return bits(is_double() ? std::bit_cast<uint64_t>(value) : std::bit_cast<uint32_t>(static_cast<float>(value)));
}

NodeId StepGraph::truth_of_bytes(NodeId bytes) { return node(Do::IsAbove, {bytes, bits(0)}); }

/// To nearest, as float_lanes.h has it: NaN becomes the one that is quiet.
NodeId StepGraph::bfloat(NodeId a) {
  const NodeId odd = both(node(Do::ShiftBits, {a}, 16), bits(1));
  const NodeId rounded = node(Do::AddBits, {node(Do::AddBits, {a, odd}), bits(0x7fff)});
  return both(choose_by(Test::Unordered, a, a, bits(0x7fc00000), rounded), bits(0xffff0000));
}

NodeId StepGraph::narrowed(DType to, NodeId a) {
  if (to == compute_) return a;
  if (to == DType::BFloat16) return bfloat(a);
  const NodeId result = node(Do::Narrow, {a});
  nodes_[result].dtype = to;
  return result;
}

namespace {

using P = StepGraph;
using V = const NodeId*;
using Form = Rule::Form;

NodeId limited(P& p, NodeId x, NodeId low, NodeId high) { return p.larger(low, p.smaller(high, x)); }
NodeId relu6(P& p, NodeId x) { return limited(p, p.add(x, p.constant(3)), p.constant(0), p.constant(6)); }
NodeId zero_where(P& p, NodeId truth, NodeId otherwise) { return p.both(p.negated(truth), otherwise); }

template <bool larger>
NodeId extremum(P& p, V in, V) {
  const NodeId best = larger ? p.larger(in[1], in[0]) : p.smaller(in[1], in[0]);
  return p.choose_by(Test::Unordered, in[0], in[1], p.add(in[0], in[1]), best);
}
template <bool larger>
NodeId extremum_of_numbers(P& p, V in, V) {
  const NodeId best = larger ? p.larger(in[1], in[0]) : p.smaller(in[1], in[0]);
  return p.choose_by(Test::Unordered, in[0], in[0], in[1], best);
}
template <Rounding how>
NodeId rounded(P& p, V in, V) {
  return p.round(how, in[0]);
}
template <Test test, bool turned = false>
NodeId compared(P& p, V in, V) {
  return p.compare(test, in[turned ? 1 : 0], in[turned ? 0 : 1]);
}

NodeId clamp_between(P& p, V in, V) {
  const NodeId between = p.smaller(in[2], p.larger(in[1], in[0]));
  return p.choose(p.compare(Test::Unordered, in[1], in[2]), p.add(in[1], in[2]), between);
}
NodeId lerp(P& p, V in, V) {
  const NodeId step = p.sub(in[1], in[0]), from_self = p.mul_add(in[2], step, in[0]);
  const NodeId from_end = p.mul_sub(step, p.sub(p.constant(1), in[2]), in[1]);
  return p.choose_by(Test::Less, p.magnitude(in[2]), p.constant(0.5), from_self, from_end);
}
NodeId sign(P& p, V in, V) {
  const NodeId zero = p.constant(0);
  return p.sub(p.number_of(p.compare(Test::Less, zero, in[0])), p.number_of(p.compare(Test::Less, in[0], zero)));
}
NodeId hardswish_backward(P& p, V in, V) {
  const NodeId three = p.constant(3), low = p.constant(-3);
  const NodeId inside = p.mul(in[0], p.add(p.div(in[1], three), p.constant(0.5)));
  const NodeId below = p.choose_by(Test::LessEqual, in[1], low, p.constant(0), inside);
  return p.choose_by(Test::LessEqual, three, in[1], in[0], below);
}

constexpr double kPi = 3.14159265358979323846;

// As in kernels/elementwise.h, kernels/math.h and kernels/activation.h. A product that is added to or subtracted from
// is rounded together with the sum, which compilers do with those functions.
using namespace loop_id;
const Rule kRules[] = {
    {abs_unary_real, Form::Number, 0, [](P& p, V in, V) { return p.magnitude(in[0]); }, nullptr, true},
    {neg_unary, Form::Number, 0, [](P& p, V in, V) { return p.opposite(in[0]); }, nullptr, true},
    {sign_unary, Form::Number, 0, sign},
    {reciprocal_unary, Form::Number, 0, [](P& p, V in, V) { return p.div(p.constant(1), in[0]); }},
    {floor_unary, Form::Number, 0, rounded<Rounding::Down>},
    {ceil_unary, Form::Number, 0, rounded<Rounding::Up>},
    {trunc_unary, Form::Number, 0, rounded<Rounding::ToZero>},
    {round_half_even_unary, Form::Number, 0, rounded<Rounding::Even>},
    {frac_unary, Form::Number, 0, [](P& p, V in, V) { return p.sub(in[0], p.round(Rounding::ToZero, in[0])); }},
    {sqrt_unary, Form::Number, 0, [](P& p, V in, V) { return p.root(in[0]); }},
    {rsqrt_unary, Form::Number, 0, [](P& p, V in, V) { return p.div(p.constant(1), p.root(in[0])); }},
    {square_unary, Form::Number, 0, [](P& p, V in, V) { return p.mul(in[0], in[0]); }},
    {cube_unary, Form::Number, 0, [](P& p, V in, V) { return p.mul(p.mul(in[0], in[0]), in[0]); }},
    {deg2rad_unary, Form::Number, 0, [](P& p, V in, V) { return p.mul(in[0], p.constant(kPi / 180)); }},
    {rad2deg_unary, Form::Number, 0, [](P& p, V in, V) { return p.mul(in[0], p.constant(180 / kPi)); }},
    {add_binary, Form::Number, 1, [](P& p, V in, V n) { return p.mul_add(n[0], in[1], in[0]); },
     [](P& p, V in) { return p.add(in[0], in[1]); }, false, 2},
    {sub_binary, Form::Number, 1, [](P& p, V in, V n) { return p.mul_sub(n[0], in[1], in[0]); },
     [](P& p, V in) { return p.sub(in[0], in[1]); }, false, 2},
    {rsub_binary, Form::Number, 1, [](P& p, V in, V n) { return p.mul_sub(n[0], in[0], in[1]); },
     [](P& p, V in) { return p.sub(in[1], in[0]); }, false, 1},
    {mul_binary, Form::Number, 0, [](P& p, V in, V) { return p.mul(in[0], in[1]); }},
    {div_binary, Form::Number, 0, [](P& p, V in, V) { return p.div(in[0], in[1]); }},
    {maximum_binary, Form::Number, 0, extremum<true>},
    {minimum_binary, Form::Number, 0, extremum<false>},
    {fmax_binary, Form::Number, 0, extremum_of_numbers<true>},
    {fmin_binary, Form::Number, 0, extremum_of_numbers<false>},
    {clamp_between_ternary, Form::Number, 0, clamp_between},
    {lerp_ternary, Form::Number, 0, lerp},
    {addcmul_ternary, Form::Number, 1, [](P& p, V in, V n) { return p.mul_add(p.mul(n[0], in[1]), in[2], in[0]); },
     [](P& p, V in) { return p.mul_add(in[1], in[2], in[0]); }, false, 6},
    {addcdiv_ternary, Form::Number, 1, [](P& p, V in, V n) { return p.add(in[0], p.div(p.mul(n[0], in[1]), in[2])); },
     [](P& p, V in) { return p.add(in[0], p.div(in[1], in[2])); }},
    {tanh_backward_binary, Form::Number, 0,
     [](P& p, V in, V) { return p.mul(in[0], p.mul_sub(in[1], in[1], p.constant(1))); }, nullptr, false, 2},
    {sigmoid_backward_binary, Form::Number, 0,
     [](P& p, V in, V) { return p.mul(p.mul(in[0], p.sub(p.constant(1), in[1])), in[1]); }},
    {relu_unary, Form::Number, 0,
     [](P& p, V in, V) { return p.choose_by(Test::LessEqual, in[0], p.constant(0), p.constant(0), in[0]); }},
    {threshold_unary, Form::Number, 2,
     [](P& p, V in, V n) { return p.choose_by(Test::LessEqual, in[0], n[0], n[1], in[0]); }},
    {threshold_backward_binary, Form::Number, 1,
     [](P& p, V in, V n) { return p.choose_by(Test::LessEqual, in[1], n[0], p.constant(0), in[0]); }},
    {hardtanh_unary, Form::Number, 2, [](P& p, V in, V n) { return limited(p, in[0], n[0], n[1]); }},
    {hardtanh_backward_binary, Form::Number, 2,
     [](P& p, V in, V n) {
       const NodeId low = p.compare(Test::LessEqual, in[1], n[0]), high = p.compare(Test::LessEqual, n[1], in[1]);
       return zero_where(p, p.either(low, high), in[0]);
     }},
    {hardsigmoid_unary, Form::Number, 0, [](P& p, V in, V) { return p.div(relu6(p, in[0]), p.constant(6)); }},
    {hardsigmoid_backward_binary, Form::Number, 0,
     [](P& p, V in, V) {
       const NodeId above = p.compare(Test::Less, p.constant(-3), in[1]);
       return p.both(p.both(above, p.compare(Test::Less, in[1], p.constant(3))), p.div(in[0], p.constant(6)));
     }},
    {hardswish_unary, Form::Number, 0,
     [](P& p, V in, V) { return p.div(p.mul(in[0], relu6(p, in[0])), p.constant(6)); }},
    {hardswish_backward_binary, Form::Number, 0, hardswish_backward},
    {leaky_relu_unary, Form::Number, 1,
     [](P& p, V in, V n) { return p.choose_by(Test::Less, p.constant(0), in[0], in[0], p.mul(in[0], n[0])); }},
    {leaky_relu_backward_binary, Form::Number, 1,
     [](P& p, V in, V n) { return p.choose_by(Test::Less, p.constant(0), in[1], in[0], p.mul(in[0], n[0])); }},
    {prelu_binary, Form::Number, 0,
     [](P& p, V in, V) { return p.choose_by(Test::Less, p.constant(0), in[0], in[0], p.mul(in[0], in[1])); }},
    {hardshrink_unary, Form::Number, 1,
     [](P& p, V in, V n) {
       const NodeId above = p.compare(Test::LessEqual, p.opposite(n[0]), in[0]);
       return zero_where(p, p.both(above, p.compare(Test::LessEqual, in[0], n[0])), in[0]);
     }},
    {shrink_backward_binary, Form::Number, 1,
     [](P& p, V in, V n) {
       const NodeId below = p.compare(Test::Less, in[1], p.opposite(n[0]));
       return p.both(p.either(below, p.compare(Test::Less, n[0], in[1])), in[0]);
     }},
    {isnan_unary_bool, Form::Test, 0, [](P& p, V in, V) { return p.compare(Test::Unordered, in[0], in[0]); }},
    {isinf_unary_bool, Form::Test, 0,
     [](P& p, V in, V) { return p.compare(Test::Equal, p.magnitude(in[0]), p.constant(__builtin_inf())); }},
    {isfinite_unary_bool, Form::Test, 0,
     [](P& p, V in, V) { return p.compare(Test::Less, p.magnitude(in[0]), p.constant(__builtin_inf())); }},
    {eq_binary_bool, Form::Test, 0, compared<Test::Equal>},
    {ne_binary_bool, Form::Test, 0, compared<Test::NotEqual>},
    {lt_binary_bool, Form::Test, 0, compared<Test::Less>},
    {le_binary_bool, Form::Test, 0, compared<Test::LessEqual>},
    {gt_binary_bool, Form::Test, 0, compared<Test::Less, true>},
    {ge_binary_bool, Form::Test, 0, compared<Test::LessEqual, true>},
    {logical_not_unary_bool, Form::Logic, 0, [](P& p, V in, V) { return p.negated(in[0]); }},
    {logical_and_binary_bool, Form::Logic, 0, [](P& p, V in, V) { return p.both(in[0], in[1]); }},
    {logical_or_binary_bool, Form::Logic, 0, [](P& p, V in, V) { return p.either(in[0], in[1]); }},
    {logical_xor_binary_bool, Form::Logic, 0, [](P& p, V in, V) { return p.differ(in[0], in[1]); }},
    {bitwise_not_unary, Form::Logic, 0, [](P& p, V in, V) { return p.negated(in[0]); }},
    {bitwise_and_binary, Form::Logic, 0, [](P& p, V in, V) { return p.both(in[0], in[1]); }},
    {bitwise_or_binary, Form::Logic, 0, [](P& p, V in, V) { return p.either(in[0], in[1]); }},
    {bitwise_xor_binary, Form::Logic, 0, [](P& p, V in, V) { return p.differ(in[0], in[1]); }},
    {where_ternary, Form::Where, 0, [](P& p, V in, V) { return p.choose(in[0], in[1], in[2]); }},
};

constexpr size_t kLoops = 256;
using Numbers = std::array<const Rule*, kLoops>;

Numbers by_loop() {
  Numbers table = {};
  for (const Rule& r : kRules) table.at(r.loop) = &r;
  return table;
}

}  // namespace

const Rule* rule_of(uint16_t loop, DType compute) {
  static const Numbers table = by_loop();
  const Rule* rule = loop < kLoops ? table[loop] : nullptr;
  if (!rule || compute == DType::Float32 || compute == DType::Float64) return rule;
  return compute == DType::Bool && rule->form == Form::Logic ? rule : nullptr;
}

}  // namespace facula::cpu::emit
