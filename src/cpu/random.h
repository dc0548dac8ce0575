// Fills contiguous memory with random numbers from one generator, equal bit for bit to PyTorch's CPU fills for the same
// seed.
//
// A fill draws element after element, whatever the number of threads. Callers hold Generator::mutex, have
// checked the distribution's parameters, and hand tensors that are not contiguous a contiguous copy in memory
// order. T is a real element type: the floating ones, and where a comment says so the integers and bool.
//
// Where PyTorch itself gives different numbers on different processors (bernoulli with one probability,
// dropout and exponential use a library generator on Intel), the portable stream is the one followed.
#pragma once

#include <complex>
#include <cstdint>

#include "cpu/generator.h"

namespace facula::cpu {

constexpr int64_t kOneDraw = 8;  // element operations, about

// [from, to), from 24 (float and narrower) or 53 bits (double).
template <class T>
void fill_uniform(T* out, int64_t count, double from, double to, Mt19937& generator);

// Box-Muller, in blocks of 16 from 16 elements on, and below that as fill_normal_serial.
template <class T>
void fill_normal(T* out, int64_t count, double mean, double std, Mt19937& generator);

// One element after the other in double, the second of each pair cached in the generator. PyTorch's choice
// for tensors that are not contiguous.
template <class T>
void fill_normal_serial(T* out, int64_t count, double mean, double std, Mt19937& generator);

// Real and imaginary parts are independent with variance std^2 / 2 each.
template <class T>
void fill_complex_normal(std::complex<T>* out, int64_t count, double std, Mt19937& generator);

// base + a draw below `range` (modulo; 32-bit draws below a range of 2^28). Any type; range > 0.
template <class T>
void fill_random_range(T* out, int64_t count, uint64_t range, int64_t base, Mt19937& generator);

// Any of the 2^64 values, for int64, uint64 and the floating types.
template <class T>
void fill_random_full(T* out, int64_t count, Mt19937& generator);

// 0 up to the type's largest value, or the largest up to which a floating type holds every integer. Any type.
template <class T>
void fill_random_default(T* out, int64_t count, Mt19937& generator);

// For a floating type, moves the ends of an integer range [from, to) inwards to values that T can represent.
template <class T>
void fit_random_range(int64_t& from, int64_t& to);

// 1 with probability p, else 0. Any type.
template <class T>
void fill_bernoulli(T* out, int64_t count, double p, Mt19937& generator);

// The same with a probability (float or double) per element. Any T.
template <class T, class P>
void fill_bernoulli_each(T* out, const P* p, int64_t count, Mt19937& generator);

template <class T>
void fill_exponential(T* out, int64_t count, double rate, Mt19937& generator);
template <class T>
void fill_cauchy(T* out, int64_t count, double median, double sigma, Mt19937& generator);
template <class T>
void fill_log_normal(T* out, int64_t count, double mean, double std, Mt19937& generator);

// Number of trials until the first success, at least 1 unless a draw is 0. Any type; wraps around in narrow
// ones.
template <class T>
void fill_geometric(T* out, int64_t count, double p, Mt19937& generator);

// A permutation of 0 .. count - 1. Integers and floating types.
template <class T>
void fill_permutation(T* out, int64_t count, Mt19937& generator);

// `samples` categories for each of `rows` rows of `categories` weights, which need not sum to 1. Throws on a
// negative or not finite weight, a row without a positive sum and, without replacement, more samples than
// categories.
template <class T>
void fill_multinomial(int64_t* out, const T* weights, int64_t rows, int64_t categories, int64_t samples,
                      bool replacement, Mt19937& generator);

namespace detail {

// One standard normal value in double, the second of each pair cached in the generator.
double next_normal(Mt19937& generator);

// Turns blocks of 16 uniform draws into normal values, in place. In random_normal.cpp.
void normal_blocks(float* values, int64_t blocks, float mean, float std);

// values[i] = fma(values[i], scale, offset), rounded once on every machine.
void scale_offset(float* values, int64_t count, float scale, float offset);
void scale_offset(double* values, int64_t count, double scale, double offset);

}  // namespace detail
}  // namespace facula::cpu
