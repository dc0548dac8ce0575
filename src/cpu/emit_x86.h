// Assembles the vector instructions of which runs of element-wise steps are made, and holds memory for code. AVX2 (with
// FMA and F16C) and AVX-512 are written from the same table: encodings differ, opcodes hardly do.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace facula::cpu::emit {

enum class Level : uint8_t { None, Avx2, Avx512 };

/// Bytes of a vector, also where registers hold twice as many: such code waits for memory (cpu/loops.h, kLight). What
/// AVX-512 brings are 32 registers, and masks.
constexpr int kCodeBytes = 32;

/// Bytes of code that can be run, and no longer be written. Null where the system gives no such memory.
class Code {
 public:
  static std::shared_ptr<const Code> make(const std::vector<uint8_t>& bytes);
  Code(const Code&) = delete;
  ~Code();
  const uint8_t* at(size_t offset) const { return static_cast<const uint8_t*>(memory_) + offset; }

 private:
  Code(void* memory, size_t size) : memory_(memory), size_(size) {}
  void* memory_;
  size_t size_;
};

/// Opcode maps and prefixes as the processor's manual numbers them; `wide` is the bit W.
enum class Map : uint8_t { M0F = 1, M0F38 = 2, M0F3A = 3 };
enum class Prefix : uint8_t { None = 0, P66 = 1, PF3 = 2, PF2 = 3 };
struct Insn {
  Map map;
  Prefix prefix;
  uint8_t opcode;
  bool wide = false;
};

enum Gpr : uint8_t { Rax, Rcx, Rdx, Rbx, Rsp, Rbp, Rsi, Rdi, R8, R9, R10, R11, R12, R13, R14, R15 };

/// [base + rax * scale + offset]; without the index where scale is 0.
struct Address {
  Gpr base;
  uint8_t scale = 0;
  int32_t offset = 0;
};

/// Lanes that take part: all (0), or as a mask register has it; the others become zero when read. `half` are the lower
/// 16 bytes.
struct Lanes {
  uint8_t mask = 0;
  bool zeroed = false;
  bool half = false;
};

class Assembler {
 public:
  explicit Assembler(Level level) : wide_(level == Level::Avx512) {}
  bool has_masks() const { return wide_; }

  /// dst = f(a, b): `a` is 0 where the instruction reads one register.
  void vector(Insn, int dst, int a, int b, Lanes lanes = {});
  void vector(Insn, int dst, int a, Address b, Lanes lanes = {});
  void vector(Insn, int dst, int a, int b, uint8_t immediate, Lanes lanes = {});
  void vector(Insn, int dst, int a, Address b, uint8_t immediate, Lanes lanes = {});
  /// The same on the lower 16 bytes, in the encoding of AVX.
  void low(Insn insn, int dst, int a, int b) { vex(insn, dst, a, b, false); }
  void low(Insn insn, int dst, int a, Address b) { vex(insn, dst, a, b, false); }

  void load(Gpr to, Gpr base, int32_t offset);  // of 8 bytes
  void set(Gpr to, uint64_t value);
  void set32(Gpr to, uint32_t value);
  void push(Gpr);
  void pop(Gpr);
  void bytes(std::initializer_list<uint8_t> list) { code_.insert(code_.end(), list); }
  void word(uint32_t value);
  size_t here() const { return code_.size(); }
  /// A jump to a place that is set later, and one to a place that is known; `condition` is the second opcode byte.
  size_t jump_later(uint8_t condition);
  void lands_here(size_t jump);
  void jump(uint8_t condition, size_t to);
  void align();

  std::vector<uint8_t> take() { return std::move(code_); }

 private:
  void vex(Insn, int reg, int v, int rm, bool full);
  void vex(Insn, int reg, int v, Address, bool full);
  void vex_prefix(Insn, int reg, int v, bool x, bool b, bool full);
  void evex(Insn, int reg, int v, int rm, Lanes lanes);
  void evex(Insn, int reg, int v, Address, Lanes lanes);
  void evex_prefix(Insn, int reg, int v, bool x, bool b, Lanes lanes);
  void byte(unsigned value) { code_.push_back(static_cast<uint8_t>(value)); }
  void registers(int reg, int rm) {
    byte(0xc0u | (static_cast<unsigned>(reg) & 7) << 3 | (static_cast<unsigned>(rm) & 7));
  }
  void memory(int reg, Address at);

  bool wide_;
  std::vector<uint8_t> code_;
};

}  // namespace facula::cpu::emit
