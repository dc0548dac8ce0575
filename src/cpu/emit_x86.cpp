#include "cpu/emit_x86.h"

#include <cstring>

#if defined(__x86_64__) && defined(__unix__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace facula::cpu::emit {

#if defined(__x86_64__) && defined(__unix__)

std::shared_ptr<const Code> Code::make(const std::vector<uint8_t>& bytes) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), size = (bytes.size() + page - 1) / page * page;
  void* memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  std::memcpy(memory, bytes.data(), bytes.size());
  if (mprotect(memory, size, PROT_READ | PROT_EXEC) == 0) return std::shared_ptr<const Code>(new Code(memory, size));
  munmap(memory, size);
  return nullptr;
}

Code::~Code() { munmap(memory_, size_); }

#else  // other processors run loops

std::shared_ptr<const Code> Code::make(const std::vector<uint8_t>&) { return nullptr; }
Code::~Code() = default;

#endif

// ---- Prefixes. Bits of register numbers are stored turned around.

void Assembler::vex_prefix(Insn insn, int reg, int v, bool x, bool b, bool full) {
  byte(0xc4);
  byte((reg & 8 ? 0u : 0x80u) | (x ? 0u : 0x40u) | (b ? 0u : 0x20u) | static_cast<unsigned>(insn.map));
  byte((insn.wide ? 0x80u : 0u) | (~static_cast<unsigned>(v) & 15) << 3 | (full ? 4u : 0u) |
       static_cast<unsigned>(insn.prefix));
  byte(insn.opcode);
}
void Assembler::vex(Insn insn, int reg, int v, int rm, bool full) {
  vex_prefix(insn, reg, v, false, rm & 8, full);
  registers(reg, rm);
}
void Assembler::vex(Insn insn, int reg, int v, Address at, bool full) {
  vex_prefix(insn, reg, v, false, at.base & 8, full);
  memory(reg, at);
}

void Assembler::evex_prefix(Insn insn, int reg, int v, bool x, bool b, Lanes lanes) {
  byte(0x62);
  byte((reg & 8 ? 0u : 0x80u) | (x ? 0u : 0x40u) | (b ? 0u : 0x20u) | (reg & 16 ? 0u : 0x10u) |
       static_cast<unsigned>(insn.map));
  byte((insn.wide ? 0x80u : 0u) | (~static_cast<unsigned>(v) & 15) << 3 | 4u | static_cast<unsigned>(insn.prefix));
  byte((lanes.zeroed ? 0x80u : 0u) | (lanes.half ? 0u : 0x20u) | (v & 16 ? 0u : 8u) | lanes.mask);
  byte(insn.opcode);
}
void Assembler::evex(Insn insn, int reg, int v, int rm, Lanes lanes) {
  evex_prefix(insn, reg, v, rm & 16, rm & 8, lanes);
  registers(reg, rm);
}
void Assembler::evex(Insn insn, int reg, int v, Address at, Lanes lanes) {
  evex_prefix(insn, reg, v, false, at.base & 8, lanes);
  memory(reg, at);
}

/// With an offset of four bytes, which no encoding counts in units.
void Assembler::memory(int reg, Address at) {
  unsigned scale = 0;
  while (1u << scale < at.scale) ++scale;
  const unsigned index = at.scale ? Rax : Rsp;  // which stands for none
  byte(0x84u | (static_cast<unsigned>(reg) & 7) << 3);
  byte(scale << 6 | index << 3 | (at.base & 7));
  word(static_cast<uint32_t>(at.offset));
}

void Assembler::vector(Insn insn, int dst, int a, int b, Lanes lanes) {
  if (wide_) evex(insn, dst, a, b, lanes);
  else vex(insn, dst, a, b, true);
}
void Assembler::vector(Insn insn, int dst, int a, Address b, Lanes lanes) {
  if (wide_) evex(insn, dst, a, b, lanes);
  else vex(insn, dst, a, b, true);
}
void Assembler::vector(Insn insn, int dst, int a, int b, uint8_t immediate, Lanes lanes) {
  vector(insn, dst, a, b, lanes);
  byte(immediate);
}
void Assembler::vector(Insn insn, int dst, int a, Address b, uint8_t immediate, Lanes lanes) {
  vector(insn, dst, a, b, lanes);
  byte(immediate);
}

// ---- General registers

void Assembler::word(uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) byte(value >> shift & 255);
}
void Assembler::load(Gpr to, Gpr base, int32_t offset) {
  byte(0x48u | (to & 8 ? 4u : 0u) | (base & 8 ? 1u : 0u));
  byte(0x8b);
  memory(to, {base, 0, offset});
}
void Assembler::set(Gpr to, uint64_t value) {
  byte(0x48u | (to & 8 ? 1u : 0u));
  byte(0xb8u | (to & 7));
  word(static_cast<uint32_t>(value));
  word(static_cast<uint32_t>(value >> 32));
}
void Assembler::set32(Gpr to, uint32_t value) {
  if (to & 8) byte(0x41);
  byte(0xb8u | (to & 7));
  word(value);
}
void Assembler::push(Gpr r) {
  if (r & 8) byte(0x41);
  byte(0x50u | (r & 7));
}
void Assembler::pop(Gpr r) {
  if (r & 8) byte(0x41);
  byte(0x58u | (r & 7));
}

size_t Assembler::jump_later(uint8_t condition) {
  bytes({0x0f, condition});
  word(0);
  return here();
}
void Assembler::lands_here(size_t jump) {
  const auto distance = static_cast<uint32_t>(here() - jump);
  for (size_t i = 0; i < 4; ++i) code_[jump - 4 + i] = static_cast<uint8_t>(distance >> 8 * i);
}
void Assembler::jump(uint8_t condition, size_t to) {
  bytes({0x0f, condition});
  word(static_cast<uint32_t>(to - here() - 4));
}
void Assembler::align() {
  while (here() % 32) byte(0x90);
}

}  // namespace facula::cpu::emit
