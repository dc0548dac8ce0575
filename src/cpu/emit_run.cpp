#include "cpu/emit_run.h"

#include <algorithm>

namespace facula::cpu::emit {

bool can_load(DType dtype, DType compute) {
  if (compute == DType::Float64)
    return dtype == DType::Float64 || dtype == DType::Float32 || dtype == DType::Bool || dtype == DType::Int32;
  switch (dtype) {
    case DType::Bool:
    case DType::UInt8:
    case DType::Int8:
    case DType::Int16:
    case DType::Int32:
    case DType::Float16:
    case DType::BFloat16:
    case DType::Float32: return true;
    default: return false;
  }
}

bool can_store(DType dtype, DType compute) {
  if (dtype == DType::Bool || dtype == compute) return true;
  return compute == DType::Float64 ? dtype == DType::Float32 : is_half(dtype);
}

namespace {

constexpr int kNone = -1;
constexpr uint8_t kTest = 1, kTail = 7;  // mask registers: of a comparison, and of the lanes of the last vector
constexpr Gpr kSpare = Rdx;
constexpr Gpr kBases[] = {Rcx, R8, R9, R10, R11, Rbx, Rbp, R12, R13, R14, R15};
constexpr size_t kFree = 5;  // of these need not be preserved for the caller

/// A node in registers.
struct Placed {
  NodeId node;
  int dst = kNone;
  std::array<int, 4> in = {kNone, kNone, kNone, kNone};
};

/// Gives registers to the values of a graph. What is the same for all elements is made before the loop as far as
/// registers suffice; elements are read at their first use, and again where their register was given away.
class Registers {
 public:
  Registers(const StepGraph& graph, int count, size_t most_resident)
      : nodes_(graph.nodes()), where_(nodes_.size(), kNone), resident_(nodes_.size()), uses_(nodes_.size()) {
    holds_.assign(static_cast<size_t>(count), kNone);
    for (size_t i = 0; i < nodes_.size(); ++i)
      for (size_t k = 0; k < nodes_[i].inputs; ++k) uses_[nodes_[i].in[k]].push_back(static_cast<NodeId>(i));
    choose_resident(most_resident);
    for (size_t i = 0; i < nodes_.size() && fits_; ++i)
      if (resident_[i]) place(static_cast<NodeId>(i), before);
    for (size_t i = 0; i < nodes_.size() && fits_; ++i)
      if (!resident_[i] && (!is_leaf(i) || nodes_[i].what == Do::Store)) place(static_cast<NodeId>(i), body);
  }
  bool fits() const { return fits_; }
  std::vector<Placed> before, body;

 private:
  bool is_leaf(size_t i) const { return nodes_[i].inputs == 0; }

  /// Constants that only resident values are made of are resident, too: they are few.
  void choose_resident(size_t most) {
    std::vector<size_t> fixed;
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (nodes_[i].fixed && !uses_[i].empty()) fixed.push_back(i);
    std::ranges::stable_sort(fixed, [&](size_t a, size_t b) { return uses_[a].size() > uses_[b].size(); });
    if (fixed.size() > most) fixed.resize(most);
    for (const size_t i : fixed) resident_[i] = true;
    for (size_t i = 0; i < nodes_.size(); ++i)  // what is resident is made of what is resident
      for (size_t k = 0; k < nodes_[i].inputs; ++k) resident_[i] = resident_[i] && resident_[nodes_[i].in[k]];
  }

  size_t next_use(size_t value, size_t after) const {
    const auto& uses = uses_[value];
    const auto next = std::ranges::upper_bound(uses, after);
    return next == uses.end() ? nodes_.size() : *next;
  }
  bool dies(NodeId value, size_t at) const { return !resident_[value] && next_use(value, at) == nodes_.size(); }

  int take(NodeId value, size_t at) {
    size_t best = holds_.size(), furthest = 0;
    for (size_t r = 0; r < holds_.size(); ++r) {
      if (holds_[r] == kNone) return give(r, value);
      const auto held = static_cast<size_t>(holds_[r]);
      if (resident_[held] || !is_leaf(held) || is_pinned(r)) continue;
      const size_t next = next_use(held, at);
      if (next >= furthest) best = r, furthest = next;
    }
    if (best == holds_.size()) {
      fits_ = false;
      return 0;
    }
    where_[static_cast<size_t>(holds_[best])] = kNone;
    return give(best, value);
  }
  int give(size_t reg, NodeId value) {
    holds_[reg] = value;
    return where_[value] = static_cast<int>(reg);
  }
  bool is_pinned(size_t reg) const { return std::ranges::find(pinned_, static_cast<int>(reg)) != pinned_.end(); }
  void leave(NodeId value) {
    if (where_[value] == kNone) return;
    holds_[static_cast<size_t>(where_[value])] = kNone;
    where_[value] = kNone;
  }

  /// The register of an input that ends here and may become that of the result; kNone where there is none.
  int inherited(const Node& n, size_t at) const {
    const auto ends = [&](size_t k) { return dies(n.in[k], at); };
    if (n.what == Do::Choose) return ends(0) && n.in[0] != n.in[1] && n.in[0] != n.in[2] ? where_[n.in[0]] : kNone;
    if (n.what == Do::MulAdd || n.what == Do::MulSub) {
      if (ends(2)) return where_[n.in[2]];
      if (ends(0)) return where_[n.in[0]];
      return ends(1) ? where_[n.in[1]] : kNone;
    }
    return kNone;
  }
  static bool is_apart(Do what) {  // the result is written before all inputs are read
    return what == Do::Choose || what == Do::ChooseBy || what == Do::MulAdd || what == Do::MulSub || what == Do::Store;
  }

  void place(NodeId i, std::vector<Placed>& list) {
    const Node& n = nodes_[i];
    pinned_.clear();
    Placed placed{i};
    for (size_t k = 0; k < n.inputs; ++k) {
      const NodeId v = n.in[k];
      if (where_[v] == kNone) {
        if (!is_leaf(v)) fits_ = false;  // resident values come first
        if (!fits_) return;
        const int reg = take(v, i);
        list.push_back({v, reg});
      }
      placed.in[k] = where_[v];
      pinned_.push_back(where_[v]);
    }
    const int own = inherited(n, i);
    if (own != kNone) {
      placed.dst = own;
      end_inputs(n, i);
      give(static_cast<size_t>(own), i);
    } else if (is_apart(n.what)) {
      placed.dst = take(i, i);
      end_inputs(n, i);
    } else {
      end_inputs(n, i);
      placed.dst = take(i, i);
    }
    if (n.what == Do::Store || (!resident_[i] && uses_[i].empty())) leave(i);
    list.push_back(placed);
  }
  void end_inputs(const Node& n, size_t at) {
    for (size_t k = 0; k < n.inputs; ++k)
      if (dies(n.in[k], at)) leave(n.in[k]);
  }

  const std::vector<Node>& nodes_;
  std::vector<int> where_;  // by value
  std::vector<int> holds_;  // by register
  std::vector<bool> resident_;
  std::vector<std::vector<NodeId>> uses_;
  std::vector<int> pinned_;
  bool fits_ = true;
};

/// Writes the instructions of placed nodes.
class Writer {
 public:
  Writer(const StepGraph& graph, Level level) : graph_(graph), as_(level), wide_(graph.is_double()) {
    for (const Node& n : graph.nodes())
      if (n.what == Do::Load || n.what == Do::Store) base_of(n.argument);
  }

  std::vector<uint8_t> write(const Registers& registers) {
    constexpr int64_t kUnrolled = 2;
    const auto lanes = static_cast<int32_t>(lanes_of(graph_.compute()));
    enter();
    for (const Placed& p : registers.before) put(p);
    as_.bytes({0x31, 0xc0});        // xor eax, eax
    as_.bytes({0x48, 0x81, 0xef});  // sub rdi, lanes of a round
    as_.word(static_cast<uint32_t>(kUnrolled * lanes));
    as_.bytes({0x48, 0x39, 0xf8});            // cmp rax, rdi
    const size_t few = as_.jump_later(0x8f);  // jg
    as_.align();
    const size_t rounds = as_.here();
    for (int u = 0; u < kUnrolled; ++u) vector_of(registers, u * lanes);
    advance(kUnrolled * lanes);
    as_.bytes({0x48, 0x39, 0xf8});
    as_.jump(0x8e, rounds);  // jle
    as_.lands_here(few);
    as_.bytes({0x48, 0x81, 0xc7});  // add rdi, what was subtracted
    as_.word(static_cast<uint32_t>(kUnrolled * lanes));
    const size_t singles = as_.here();
    as_.bytes({0x48, 0x8d, 0x90});  // lea rdx, [rax + lanes]
    as_.word(static_cast<uint32_t>(lanes));
    as_.bytes({0x48, 0x39, 0xfa});  // cmp rdx, rdi
    const size_t no_more = as_.jump_later(0x8f);
    vector_of(registers, 0);
    advance(lanes);
    as_.jump(0x8d, singles);  // jge: the sum of two counts is not negative
    as_.lands_here(no_more);
    if (as_.has_masks()) tail(registers);
    leave();
    return as_.take();
  }

 private:
  void advance(int32_t lanes) {
    as_.bytes({0x48, 0x05});  // add rax, lanes
    as_.word(static_cast<uint32_t>(lanes));
  }
  void vector_of(const Registers& registers, int32_t first) {
    first_ = first;
    for (const Placed& p : registers.body) put(p);
  }
  /// The rest of the elements, fewer than a vector has.
  void tail(const Registers& registers) {
    as_.bytes({0x29, 0xc7});                   // sub edi, eax
    const size_t none = as_.jump_later(0x84);  // jz
    as_.set32(Rdx, ~0u);
    as_.bytes({0xc4, 0xe2, 0x40, 0xf5, 0xd2});  // bzhi edx, edx, edi
    as_.bytes({0xc5, 0xf8, 0x92, 0xfa});        // kmovw k7, edx
    tail_ = true;
    vector_of(registers, 0);
    as_.lands_here(none);
  }

  void enter() {
    as_.bytes({0xf3, 0x0f, 0x1e, 0xfa});  // endbr64
    for (size_t k = kFree; k < bases_.size() && k < std::size(kBases); ++k) as_.push(kBases[k]);
    for (size_t k = 0; k < bases_.size() && k < std::size(kBases); ++k) as_.load(kBases[k], Rsi, bases_[k] * 8);
  }
  void leave() {
    for (size_t k = std::min(bases_.size(), std::size(kBases)); k-- > kFree;) as_.pop(kBases[k]);
    as_.bytes({0xc5, 0xf8, 0x77, 0xc3});  // vzeroupper, ret
  }

  size_t base_of(uint16_t argument) {
    const auto found = std::ranges::find(bases_, argument);
    if (found == bases_.end()) bases_.push_back(argument);
    return static_cast<size_t>(std::ranges::find(bases_, argument) - bases_.begin());
  }
  Address elements(const Node& n) {
    const size_t base = base_of(n.argument);
    const auto item = static_cast<uint8_t>(item_size(n.dtype));
    const bool held = base < std::size(kBases);
    if (!held) as_.load(kSpare, Rsi, n.argument * 8);
    return {held ? kBases[base] : kSpare, item, first_ * item};
  }
  Lanes reading() const { return tail_ ? Lanes{kTail, true} : Lanes{}; }
  Lanes writing() const { return tail_ ? Lanes{kTail} : Lanes{}; }

  // Instructions by opcode: of floating numbers, of the same in the second map, and of bits.
  Insn number(uint8_t opcode) const { return {Map::M0F, wide_ ? Prefix::P66 : Prefix::None, opcode, wide_}; }
  Insn fused(uint8_t opcode) const { return {Map::M0F38, Prefix::P66, opcode, wide_}; }
  Insn lane_bits(uint8_t opcode) const { return {Map::M0F, Prefix::P66, opcode, wide_}; }
  Insn choice(uint8_t opcode) const { return {Map::M0F3A, Prefix::P66, opcode, wide_}; }

  void put(const Placed& p) {
    const Node& n = graph_.nodes()[p.node];
    switch (n.what) {
      case Do::Load: return load(n, p.dst);
      case Do::Store: return store(n, p.in[0], p.dst);
      case Do::Number: {
        as_.load(kSpare, Rsi, n.argument * 8);
        return as_.vector(broadcast(), p.dst, 0, Address{kSpare, 0, n.offset});
      }
      case Do::Constant: return constant(n.bits, p.dst);
      case Do::Add: return as_.vector(number(0x58), p.dst, p.in[0], p.in[1]);
      case Do::Sub: return as_.vector(number(0x5c), p.dst, p.in[0], p.in[1]);
      case Do::Mul: return as_.vector(number(0x59), p.dst, p.in[0], p.in[1]);
      case Do::Div: return as_.vector(number(0x5e), p.dst, p.in[0], p.in[1]);
      case Do::Smaller: return as_.vector(number(0x5d), p.dst, p.in[0], p.in[1]);
      case Do::Larger: return as_.vector(number(0x5f), p.dst, p.in[0], p.in[1]);
      case Do::Root: return as_.vector(number(0x51), p.dst, 0, p.in[0]);
      case Do::Round: return as_.vector(choice(wide_ ? 0x09 : 0x08), p.dst, 0, p.in[0], n.how);
      case Do::MulAdd: return mul_add(p, 0xb8, 0xa8);
      case Do::MulSub: return mul_add(p, 0xbc, 0xac);
      case Do::And: return as_.vector(lane_bits(0xdb), p.dst, p.in[0], p.in[1]);
      case Do::Or: return as_.vector(lane_bits(0xeb), p.dst, p.in[0], p.in[1]);
      case Do::Xor: return as_.vector(lane_bits(0xef), p.dst, p.in[0], p.in[1]);
      case Do::AddBits: return as_.vector({Map::M0F, Prefix::P66, 0xfe}, p.dst, p.in[0], p.in[1]);
      case Do::ShiftBits: return shift(p.dst, p.in[0], 2, n.how);
      case Do::IsAbove: return truth(p, above(), kNone);
      case Do::Compare: return truth(p, number(0xc2), n.how);
      case Do::Choose: return choose(p);
      case Do::ChooseBy: return choose_by(p, n.how);
      case Do::Narrow: return narrow(n.dtype, p.dst, p.in[0]);
    }
  }

  Insn broadcast() const {
    return {Map::M0F38, Prefix::P66, static_cast<uint8_t>(wide_ ? 0x19 : 0x18), wide_ && as_.has_masks()};
  }
  Insn above() const { return wide_ ? Insn{Map::M0F38, Prefix::P66, 0x37, true} : Insn{Map::M0F, Prefix::P66, 0x66}; }
  /// Of the bits of every lane; `way` is the instruction's number: 2 to the right, 6 to the left.
  void shift(int dst, int a, int way, uint8_t count) { as_.vector(lane_bits(wide_ ? 0x73 : 0x72), way, dst, a, count); }
  void copy(int dst, int a) { as_.vector(lane_bits(0xeb), dst, a, a); }

  void constant(uint64_t bits, int dst) {
    if (bits == 0) return as_.vector(lane_bits(0xef), dst, dst, dst);
    if (wide_) as_.set(kSpare, bits);
    else as_.set32(kSpare, static_cast<uint32_t>(bits));
    if (as_.has_masks()) return as_.vector({Map::M0F38, Prefix::P66, 0x7c, wide_}, dst, 0, kSpare);
    as_.low({Map::M0F, Prefix::P66, 0x6e, wide_}, dst, 0, kSpare);
    as_.vector(broadcast(), dst, 0, dst);
  }

  /// `onto` adds a product to the third input, `by` multiplies the first.
  void mul_add(const Placed& p, uint8_t onto, uint8_t by) {
    if (p.dst == p.in[2]) return as_.vector(fused(onto), p.dst, p.in[0], p.in[1]);
    if (p.dst == p.in[0]) return as_.vector(fused(by), p.dst, p.in[1], p.in[2]);
    if (p.dst == p.in[1]) return as_.vector(fused(by), p.dst, p.in[0], p.in[2]);
    copy(p.dst, p.in[2]);
    as_.vector(fused(onto), p.dst, p.in[0], p.in[1]);
  }

  /// A comparison, with the number of the test or none.
  void test(Insn insn, int dst, const Placed& p, int how) {
    if (how == kNone) as_.vector(insn, dst, p.in[0], p.in[1]);
    else as_.vector(insn, dst, p.in[0], p.in[1], static_cast<uint8_t>(how));
  }
  void truth(const Placed& p, Insn insn, int how) {
    if (!as_.has_masks()) return test(insn, p.dst, p, how);
    test(insn, kTest, p, how);
    as_.vector({Map::M0F38, Prefix::PF3, 0x38, wide_}, p.dst, 0, kTest);
  }
  void choose(const Placed& p) {
    if (!as_.has_masks()) return blend(p.dst, p.in[0], p.in[1], p.in[2]);
    if (p.dst != p.in[0]) copy(p.dst, p.in[0]);
    constexpr uint8_t kFirstChooses = 0xca;
    as_.vector(choice(0x25), p.dst, p.in[1], p.in[2], kFirstChooses);
  }
  void blend(int dst, int truth, int yes, int no) {
    as_.vector({Map::M0F3A, Prefix::P66, 0x4a}, dst, no, yes, static_cast<uint8_t>(truth << 4));
  }
  void choose_by(const Placed& p, uint8_t how) {
    if (as_.has_masks()) {
      test(number(0xc2), kTest, p, how);
      return as_.vector(fused(0x65), p.dst, p.in[3], p.in[2], Lanes{kTest});
    }
    test(number(0xc2), p.dst, p, how);
    blend(p.dst, p.dst, p.in[2], p.in[3]);
  }

  static constexpr Insn kToHalf{Map::M0F3A, Prefix::P66, 0x1d}, kFromHalf{Map::M0F38, Prefix::P66, 0x13};
  static constexpr Insn kToFloat{Map::M0F, Prefix::P66, 0x5a, true}, kFromFloat{Map::M0F, Prefix::None, 0x5a};
  static constexpr Insn kWholeToFloat{Map::M0F, Prefix::None, 0x5b};

  void narrow(DType to, int dst, int a) {
    if (to == DType::Float32) {
      as_.vector(kToFloat, dst, 0, a);
      return as_.vector(kFromFloat, dst, 0, dst);
    }
    as_.vector(kToHalf, a, 0, dst, 0);
    as_.vector(kFromHalf, dst, 0, dst);
  }

  /// The instruction that reads elements, widened to lanes.
  Insn reader(DType dtype) const {
    switch (dtype) {
      case DType::Bool:
      case DType::UInt8: return {Map::M0F38, Prefix::P66, static_cast<uint8_t>(wide_ ? 0x32 : 0x31)};
      case DType::Int8: return {Map::M0F38, Prefix::P66, 0x21};
      case DType::Int16: return {Map::M0F38, Prefix::P66, 0x23};
      case DType::BFloat16: return {Map::M0F38, Prefix::P66, 0x33};
      case DType::Int32: return wide_ ? Insn{Map::M0F, Prefix::PF3, 0xe6} : kWholeToFloat;
      case DType::Float16: return kFromHalf;
      case DType::Float32: return wide_ ? kFromFloat : Insn{Map::M0F, Prefix::None, 0x10};
      default: return {Map::M0F, Prefix::P66, 0x10, true};
    }
  }
  void load(const Node& n, int dst) {
    as_.vector(reader(n.dtype), dst, 0, elements(n), reading());
    if (n.dtype == DType::BFloat16) shift(dst, dst, 6, 16);
    if (n.dtype == DType::UInt8 || n.dtype == DType::Int8 || n.dtype == DType::Int16)
      as_.vector(kWholeToFloat, dst, 0, dst);
  }

  void store(const Node& n, int a, int spare) {
    const Address to = elements(n);
    if (n.dtype == graph_.compute()) return as_.vector(number(0x11), a, 0, to, writing());
    if (n.dtype == DType::Float16 && as_.has_masks()) return as_.vector(kToHalf, a, 0, to, 0, writing());
    as_.has_masks() ? store_narrow(n.dtype, to, a, spare) : store_packed(n.dtype, to, a, spare);
  }
  void store_narrow(DType dtype, Address to, int a, int spare) {
    if (dtype == DType::Float32) {
      Lanes lanes = writing();
      lanes.half = true;
      as_.vector(kToFloat, spare, 0, a);
      return as_.vector({Map::M0F, Prefix::None, 0x11}, spare, 0, to, lanes);
    }
    const bool bytes = dtype == DType::Bool;
    shift(spare, a, 2, bytes ? (wide_ ? 63 : 31) : 16);
    const uint8_t opcode = bytes ? (wide_ ? 0x32 : 0x31) : 0x33;
    as_.vector({Map::M0F38, Prefix::PF3, opcode}, spare, 0, to, writing());
  }

  static constexpr Insn kPackSigned{Map::M0F, Prefix::P66, 0x6b}, kPackBytes{Map::M0F, Prefix::P66, 0x63};
  static constexpr Insn kPackUnsigned{Map::M0F38, Prefix::P66, 0x2b}, kQuarters{Map::M0F3A, Prefix::P66, 0x00, true};
  static constexpr Insn kStoreLow{Map::M0F, Prefix::None, 0x11};
  static constexpr uint8_t kFirstAndThird = 0x08;

  void store_packed(DType dtype, Address to, int a, int spare) {
    if (dtype == DType::Float32) {
      as_.vector(kToFloat, spare, 0, a);
      return as_.low(kStoreLow, spare, 0, to);
    }
    if (dtype == DType::Float16) {
      as_.vector(kToHalf, a, 0, spare, 0);
      return as_.low(kStoreLow, spare, 0, to);
    }
    if (dtype == DType::BFloat16) {
      shift(spare, a, 2, 16);
      as_.vector(kPackUnsigned, spare, spare, spare);
      as_.vector(kQuarters, spare, 0, spare, kFirstAndThird);
      return as_.low(kStoreLow, spare, 0, to);
    }
    as_.vector(kPackSigned, spare, a, a);
    as_.vector(kQuarters, spare, 0, spare, kFirstAndThird);
    if (wide_) as_.low(kPackSigned, spare, spare, spare);
    as_.low(kPackBytes, spare, spare, spare);
    as_.low({Map::M0F38, Prefix::P66, 0x1c}, spare, 0, spare);        // the magnitudes: 1
    if (wide_) as_.low({Map::M0F, Prefix::P66, 0x7e}, spare, 0, to);  // 4 bytes
    else as_.low({Map::M0F, Prefix::P66, 0xd6}, spare, 0, to);        // 8
  }

  const StepGraph& graph_;
  Assembler as_;
  bool wide_, tail_ = false;
  int32_t first_ = 0;
  std::vector<uint16_t> bases_;  // arguments that are memory
};

}  // namespace

bool translate(const StepGraph& graph, Level level, std::vector<uint8_t>& code) {
  const int count = level == Level::Avx512 ? 32 : 16;
  for (const size_t resident : {static_cast<size_t>(count) - 6, static_cast<size_t>(count) / 2, size_t{0}}) {
    const Registers registers(graph, count, resident);
    if (!registers.fits()) continue;
    const std::vector<uint8_t> bytes = Writer(graph, level).write(registers);
    code.insert(code.end(), bytes.begin(), bytes.end());
    return true;
  }
  return false;
}

}  // namespace facula::cpu::emit
