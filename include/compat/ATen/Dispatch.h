// A switch over the dtypes that a kernel is compiled for: within it `scalar_t` is the C++ type.
#pragma once

#include <torch/detail/limits.h>
#include <torch/types.h>

namespace torch::detail {

/// The C++ type of a dtype.
template <ScalarType>
struct CppTypeOf;
#define FACULA_CPP_TYPE(name, type)    \
  template <>                          \
  struct CppTypeOf<ScalarType::name> { \
    using T = type;                    \
  };
FACULA_CPP_TYPE(Byte, uint8_t)
FACULA_CPP_TYPE(Char, int8_t)
FACULA_CPP_TYPE(Short, int16_t)
FACULA_CPP_TYPE(Int, int32_t)
FACULA_CPP_TYPE(Long, int64_t)
FACULA_CPP_TYPE(Half, facula::Half)
FACULA_CPP_TYPE(Float, float)
FACULA_CPP_TYPE(Double, double)
FACULA_CPP_TYPE(ComplexFloat, std::complex<float>)
FACULA_CPP_TYPE(ComplexDouble, std::complex<double>)
FACULA_CPP_TYPE(Bool, bool)
FACULA_CPP_TYPE(BFloat16, facula::BFloat16)
FACULA_CPP_TYPE(UInt16, uint16_t)
FACULA_CPP_TYPE(UInt32, uint32_t)
FACULA_CPP_TYPE(UInt64, uint64_t)
#undef FACULA_CPP_TYPE

inline ScalarType scalar_type(ScalarType type) { return type; }
inline ScalarType scalar_type(TypeMeta type) { return type.toScalarType(); }
inline ScalarType scalar_type(const DeprecatedTypeProperties& type) { return type.scalarType(); }

}  // namespace torch::detail

namespace torch::impl {
/// The C++ type of a dtype that is known when compiling.
template <ScalarType type>
using ScalarTypeToCPPTypeT = typename detail::CppTypeOf<type>::T;
template <ScalarType type>
struct ScalarTypeToCPPType {
  using type_t = ScalarTypeToCPPTypeT<type>;
};
}  // namespace torch::impl

#define AT_PRIVATE_CASE_TYPE_USING_HINT(enum_type, hint, ...)                     \
  case enum_type: {                                                               \
    using hint [[maybe_unused]] = ::torch::impl::ScalarTypeToCPPTypeT<enum_type>; \
    return __VA_ARGS__();                                                         \
  }
#define AT_DISPATCH_CASE(enum_type, ...) AT_PRIVATE_CASE_TYPE_USING_HINT(enum_type, scalar_t, __VA_ARGS__)
#define AT_DISPATCH_SWITCH(TYPE, NAME, ...)                                                                \
  [&] {                                                                                                    \
    const auto& the_type = TYPE;                                                                           \
    [[maybe_unused]] constexpr const char* at_dispatch_name = NAME;                                        \
    const ::torch::ScalarType _st = ::torch::detail::scalar_type(the_type);                                \
    switch (_st) {                                                                                         \
      __VA_ARGS__                                                                                          \
      default:                                                                                             \
        throw ::torch::Error(                                                                              \
            ::facula::ErrorKind::NotImplemented,                                                           \
            ::torch::str('"', at_dispatch_name, "\" not implemented for '", ::torch::toString(_st), "'")); \
    }                                                                                                      \
  }()

// Sets of dtypes, each as the cases of such a switch. The dtypes that are added come first.

#define FACULA_CASE(name, ...) AT_DISPATCH_CASE(::torch::ScalarType::name, __VA_ARGS__)
#define FACULA_ADD_1(A, ...) AT_DISPATCH_CASE(A, __VA_ARGS__)
#define FACULA_ADD_2(A, B, ...) AT_DISPATCH_CASE(A, __VA_ARGS__) AT_DISPATCH_CASE(B, __VA_ARGS__)
#define FACULA_ADD_3(A, B, C, ...) FACULA_ADD_2(A, B, __VA_ARGS__) AT_DISPATCH_CASE(C, __VA_ARGS__)
#define FACULA_ADD_4(A, B, C, D, ...) FACULA_ADD_3(A, B, C, __VA_ARGS__) AT_DISPATCH_CASE(D, __VA_ARGS__)

#define AT_DISPATCH_CASE_FLOATING_TYPES(...) FACULA_CASE(Double, __VA_ARGS__) FACULA_CASE(Float, __VA_ARGS__)
#define AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(...) \
  FACULA_CASE(Half, __VA_ARGS__)                     \
  FACULA_CASE(BFloat16, __VA_ARGS__)
#define AT_DISPATCH_CASE_COMPLEX_TYPES(...) \
  FACULA_CASE(ComplexDouble, __VA_ARGS__)   \
  FACULA_CASE(ComplexFloat, __VA_ARGS__)
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(...) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)           \
  AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_INTEGRAL_TYPES(...)                                                  \
  FACULA_CASE(Byte, __VA_ARGS__)                                                              \
  FACULA_CASE(Char, __VA_ARGS__) FACULA_CASE(Int, __VA_ARGS__) FACULA_CASE(Long, __VA_ARGS__) \
      FACULA_CASE(Short, __VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES(...)        \
  AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__) \
  AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(...) \
  AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__)           \
  AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__)
#define AT_DISPATCH_CASE_INDEX_TYPES(...)                                         \
  AT_PRIVATE_CASE_TYPE_USING_HINT(::torch::ScalarType::Int, index_t, __VA_ARGS__) \
  AT_PRIVATE_CASE_TYPE_USING_HINT(::torch::ScalarType::Long, index_t, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_REDUCED_FLOATING_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_REDUCED_FLOATING_TYPES(__VA_ARGS__))
#define AT_DISPATCH_COMPLEX_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__))
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__))
#define AT_DISPATCH_INTEGRAL_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES(TYPE, NAME, ...) AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__))
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__))
#define AT_DISPATCH_INDEX_TYPES(TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INDEX_TYPES(__VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND(A, ...) \
  FACULA_ADD_1(A, __VA_ARGS__) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND(A, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND(A, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND2(A, B, ...) \
  FACULA_ADD_2(A, B, __VA_ARGS__) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND2(A, B, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND2(A, B, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND3(A, B, C, ...) \
  FACULA_ADD_3(A, B, C, __VA_ARGS__) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND3(A, B, C, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND3(A, B, C, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_TYPES_AND4(A, B, C, D, ...) \
  FACULA_ADD_4(A, B, C, D, __VA_ARGS__) AT_DISPATCH_CASE_FLOATING_TYPES(__VA_ARGS__)
#define AT_DISPATCH_FLOATING_TYPES_AND4(A, B, C, D, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_TYPES_AND4(A, B, C, D, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND(A, ...) \
  FACULA_ADD_1(A, __VA_ARGS__) AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND(A, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND(A, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND2(A, B, ...) \
  FACULA_ADD_2(A, B, __VA_ARGS__) AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND2(A, B, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND2(A, B, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND3(A, B, C, ...) \
  FACULA_ADD_3(A, B, C, __VA_ARGS__) AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND3(A, B, C, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND3(A, B, C, __VA_ARGS__))
#define AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND4(A, B, C, D, ...) \
  FACULA_ADD_4(A, B, C, D, __VA_ARGS__) AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES(__VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND4(A, B, C, D, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_FLOATING_AND_COMPLEX_TYPES_AND4(A, B, C, D, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND(A, ...) FACULA_ADD_1(A, __VA_ARGS__) AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND(A, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND(A, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND2(A, B, ...) \
  FACULA_ADD_2(A, B, __VA_ARGS__) AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND2(A, B, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND2(A, B, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND3(A, B, C, ...) \
  FACULA_ADD_3(A, B, C, __VA_ARGS__) AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND3(A, B, C, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND3(A, B, C, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND4(A, B, C, D, ...) \
  FACULA_ADD_4(A, B, C, D, __VA_ARGS__) AT_DISPATCH_CASE_ALL_TYPES(__VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND4(A, B, C, D, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND4(A, B, C, D, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND(A, ...) \
  FACULA_ADD_1(A, __VA_ARGS__) AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND(A, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND(A, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND2(A, B, ...) \
  FACULA_ADD_2(A, B, __VA_ARGS__) AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND2(A, B, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND2(A, B, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND3(A, B, C, ...) \
  FACULA_ADD_3(A, B, C, __VA_ARGS__) AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND3(A, B, C, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND3(A, B, C, __VA_ARGS__))
#define AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND4(A, B, C, D, ...) \
  FACULA_ADD_4(A, B, C, D, __VA_ARGS__) AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX(__VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_COMPLEX_AND4(A, B, C, D, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_ALL_TYPES_AND_COMPLEX_AND4(A, B, C, D, __VA_ARGS__))
#define AT_DISPATCH_CASE_INTEGRAL_TYPES_AND(A, ...) \
  FACULA_ADD_1(A, __VA_ARGS__) AT_DISPATCH_CASE_INTEGRAL_TYPES(__VA_ARGS__)
#define AT_DISPATCH_INTEGRAL_TYPES_AND(A, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_INTEGRAL_TYPES_AND(A, __VA_ARGS__))
#define AT_DISPATCH_CASE_COMPLEX_TYPES_AND(A, ...) \
  FACULA_ADD_1(A, __VA_ARGS__) AT_DISPATCH_CASE_COMPLEX_TYPES(__VA_ARGS__)
#define AT_DISPATCH_COMPLEX_TYPES_AND(A, TYPE, NAME, ...) \
  AT_DISPATCH_SWITCH(TYPE, NAME, AT_DISPATCH_CASE_COMPLEX_TYPES_AND(A, __VA_ARGS__))
#define AT_DISPATCH_FLOATING_TYPES_AND_HALF(TYPE, NAME, ...) \
  AT_DISPATCH_FLOATING_TYPES_AND(::torch::ScalarType::Half, TYPE, NAME, __VA_ARGS__)
#define AT_DISPATCH_ALL_TYPES_AND_HALF(TYPE, NAME, ...) \
  AT_DISPATCH_ALL_TYPES_AND(::torch::ScalarType::Half, TYPE, NAME, __VA_ARGS__)
#define AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND_HALF(TYPE, NAME, ...) \
  AT_DISPATCH_FLOATING_AND_COMPLEX_TYPES_AND(::torch::ScalarType::Half, TYPE, NAME, __VA_ARGS__)
