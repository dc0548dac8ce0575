// What the files of the C interface share. The handles are the core's own objects, counted as they are.
#pragma once

#include <facula.h>

#include <memory>
#include <string>

#include "core/error.h"
#include "core/generator.h"
#include "core/tensor.h"
#include "cxx/load.h"
#include "program/boxed.h"
#include "program/run.h"
#include "program/value.h"

struct fc_generator_s {
  std::unique_ptr<facula::Generator> generator;
};

struct fc_program_s {
  facula::Runner runner;
  std::vector<const facula::ProgramInput*> inputs;
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

Value from_c(const fc_value& value, const char* what);
/// Hands a result over; what it holds is released by fc_value_release.
void to_c(const Value& value, fc_value& out);

}  // namespace facula::capi
