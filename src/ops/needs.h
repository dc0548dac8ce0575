// Checks arguments that have to belong together, for the rules of ops. An op that only derivatives call is reached by
// name as well (the boxed table, files of programs), so that a rule checks again what a forward pass has checked: here,
// once for a call, and not in the loops of kernels. Texts are "<op>: <argument> must ..., got ...".
#pragma once

#include <initializer_list>

#include "core/error.h"
#include "core/shape.h"
#include "core/tensor.h"

namespace facula::ops {

inline void need_shape(const char* op, const char* what, const Tensor& t, IntList sizes) {
  FACULA_CHECK(t.sizes() == sizes, ErrorKind::Runtime, op, ": ", what, " must have shape ", sizes, ", got ", t.sizes());
}
inline void need_rank(const char* op, const char* what, const Tensor& t, int64_t least, int64_t most) {
  FACULA_CHECK(t.dim() >= least && t.dim() <= most, ErrorKind::Runtime, op, ": ", what, " must have ", least, " to ",
               most, " dimensions, got shape ", t.sizes());
}
inline void need_rank(const char* op, const char* what, const Tensor& t, int64_t rank) {
  FACULA_CHECK(t.dim() == rank, ErrorKind::Runtime, op, ": ", what, " must have ", rank, " dimensions, got shape ",
               t.sizes());
}
inline void need_dimensions(const char* op, const char* what, const Tensor& t, int64_t least = 1) {
  FACULA_CHECK(t.dim() >= least, ErrorKind::Runtime, op, ": ", what, " must have at least ", least,
               " dimensions, got shape ", t.sizes());
}
/// As many elements, in whatever shape.
inline void need_count(const char* op, const char* what, const Tensor& t, int64_t count) {
  FACULA_CHECK(t.numel() == count, ErrorKind::Runtime, op, ": ", what, " must have ", count, " elements, got shape ",
               t.sizes());
}
inline void need_dtype(const char* op, const char* what, const Tensor& t, DType dtype) {
  FACULA_CHECK(t.dtype() == dtype, ErrorKind::Runtime, op, ": ", what, " must be ", dtype, ", got ", t.dtype());
}
inline void need_floating(const char* op, const char* what, const Tensor& t) {
  FACULA_CHECK(is_floating(t.dtype()) && !is_float8(t.dtype()), ErrorKind::NotImplemented, op, ": ", what,
               " must be floating-point, got ", t.dtype());
}
inline void need_integers(const char* op, const char* what, const Tensor& t) {
  FACULA_CHECK(t.dtype() == DType::Int64 || t.dtype() == DType::Int32, ErrorKind::Runtime, op, ": ", what,
               " must be int64 or int32, got ", t.dtype());
}
inline void need_at_least(const char* op, const char* what, int64_t number, int64_t least) {
  FACULA_CHECK(number >= least, ErrorKind::Runtime, op, ": ", what, " must be at least ", least, ", got ", number);
}
inline void need_between(const char* op, const char* what, int64_t number, int64_t least, int64_t most) {
  FACULA_CHECK(number >= least && number <= most, ErrorKind::Runtime, op, ": ", what, " must be between ", least,
               " and ", most, ", got ", number);
}
/// Another shape and dtype than another argument has is an error that names both.
inline void need_alike(const char* op, const char* what, const Tensor& t, const char* other_name, const Tensor& other) {
  FACULA_CHECK(t.sizes() == other.sizes() && t.dtype() == other.dtype(), ErrorKind::Runtime, op, ": ", what,
               " must have the shape and dtype of ", other_name, ", ", other.sizes(), " of ", other.dtype(), ", got ",
               t.sizes(), " of ", t.dtype());
}

}  // namespace facula::ops
