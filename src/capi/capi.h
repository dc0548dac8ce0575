// Declares what the files of the C interface share. Handles are the core's own objects, with their own reference
// counts.
#pragma once

#include <facula.h>

#include <memory>
#include <span>
#include <string>

#include "core/error.h"
#include "core/generator.h"
#include "core/tensor.h"
#include "cxx/load.h"
#include "program/boxed.h"
#include "program/loaded.h"
#include "program/value.h"

struct fc_generator_s {
  std::shared_ptr<facula::Generator> generator;
};

struct fc_program_s {
  facula::LoadedProgram program;
  std::vector<const facula::ProgramInput*> inputs{};   // of the user
  std::vector<const facula::ProgramInput*> tensors{};  // what it holds

  explicit fc_program_s(facula::LoadedProgram loaded);
};

namespace facula::capi {

/// Notes the text of the exception that is in flight and gives its kind.
fc_status caught() noexcept;

/// Runs `body`; an exception becomes a status, and nothing leaves through C.
template <class F>
fc_status guarded(F&& body) noexcept {
  try {
    load();
    body();
    return FC_OK;
  } catch (...) {
    return caught();
  }
}

inline TensorImpl* impl(fc_tensor t) { return reinterpret_cast<TensorImpl*>(t); }
/// The caller's tensor; `what` says which it is if it is NULL.
Tensor borrow(fc_tensor t, const char* what);
inline fc_tensor give(Tensor t) { return reinterpret_cast<fc_tensor>(t.detach_impl()); }
IntList sizes_of(const int64_t* sizes, int32_t dims, const char* what);
DType dtype_of(int64_t number, const char* what);
Device device_of(const char* text);

/// What a caller's pointer points to, where a result is written; `what` is the function in the error about NULL.
template <class T>
T& there(T* out, const char* what) {
  FACULA_CHECK(out, ErrorKind::Value, what, ": there is no place for the result (NULL)");
  return *out;
}
/// A list of the caller's.
template <class T>
List<T> listed(const T* items, int64_t count, const char* what) {
  FACULA_CHECK(count >= 0 && (items || count == 0), ErrorKind::Value, what, ": a list of ", count, " items at ",
               items ? "an address" : "NULL");
  return List<T>(items, static_cast<size_t>(count));
}

Value from_c(const fc_value& value, const char* what);
/// Hands a result over; what it holds is released by fc_value_release.
void to_c(const Value& value, fc_value& out);
/// Whether the caller has room for as many results as there are.
void check_room(size_t wanted, const fc_value* results, size_t room, const char* what);
/// All results, or none.
void hand_over(std::span<const Value> made, fc_value* results);

}  // namespace facula::capi
