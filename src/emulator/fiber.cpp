#include "emulator/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <new>

namespace facula::emulator {
namespace {

constexpr size_t kStack = 256 << 10;

size_t page() {
  static const auto bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

/// The lowest page is inaccessible: a stack that overflows is a fault, not another fiber's memory.
char* make_stack() {
  void* memory =
      mmap(nullptr, kStack + page(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, page(), PROT_NONE);
  return static_cast<char*>(memory);
}

}  // namespace

Fiber::~Fiber() {
  if (stack_) munmap(stack_, kStack + page());
}

#if defined(__x86_64__)

Fiber::Fiber(void (*run)()) : stack_(make_stack()) {
  // Tops of stacks lie in different sets of the first-level cache.
  static std::atomic<size_t> made{0};
  const size_t offset = made++ % 61 * 64;
  auto* top = reinterpret_cast<void**>(stack_ + page() + kStack - offset);
  *--top = nullptr;  // where a return address would be: functions begin with the stack at 16 n + 8
  *--top = nullptr;  // rbp
  *--top = reinterpret_cast<void*>(run);
  top_ = top;
}

// Everything but the stack pointer and rbp is named as changed, so that the compiler keeps what it needs; the 128
// bytes below the stack pointer may be in use (the red zone).
__attribute__((noinline)) void Fiber::resume(Fiber& from) {
  void **save = &from.top_, *load = top_;
  asm volatile(
      "leaq -128(%%rsp), %%rsp\n\t"
      "pushq %%rbp\n\t"
      "leaq 1f(%%rip), %%rax\n\t"
      "pushq %%rax\n\t"
      "movq %%rsp, (%0)\n\t"
      "movq %1, %%rsp\n\t"
      "popq %%rax\n\t"
      "popq %%rbp\n\t"
      "jmp *%%rax\n\t"
      "1:\n\t"
      "leaq 128(%%rsp), %%rsp\n\t"
      : "+D"(save), "+S"(load)
      :
      : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "memory", "cc", "xmm0",
        "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13",
        "xmm14", "xmm15");
}

#else

Fiber::Fiber(void (*run)()) : stack_(make_stack()) {
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_ + page();
  context_.uc_stack.ss_size = kStack;
  makecontext(&context_, run, 0);
}

void Fiber::resume(Fiber& from) { swapcontext(&from.context_, &context_); }

#endif

}  // namespace facula::emulator
