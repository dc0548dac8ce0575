// Defines what files in cpu/isa/ share. They are compiled once per instruction-set level, each time in a namespace of
// its own (v2, v3, v4 on x86-64, base elsewhere); at load every level that the processor has registers its kernels, the
// best one last.
#pragma once

#ifndef FACULA_ISA
#error "FACULA_ISA names the instruction-set level this file is compiled for"
#endif

namespace facula::cpu::FACULA_ISA {

/// The widest vector register of the level: what loops written with vectors are made for. A vector type wider than
/// that compiles too, to loads and stores of its parts.
#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX2__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

}  // namespace facula::cpu::FACULA_ISA

// Loops over contiguous elements: iterations are independent, also when output and input are the same memory.
#define FACULA_SIMD _Pragma("omp simd")
