/* Facula from C, and from whatever calls C.
 *
 * - Handles are pointers to things that count their owners. What a function gives through `out` belongs to the caller,
 *   who gives it back by fc_*_release; arguments are borrowed for the call. Releasing NULL does nothing.
 * - Functions return FC_OK or the kind of an error, whose text fc_error_text() gives until this thread's next error.
 *   After an error nothing was written through `out` and `results`. Pointers, counts, kinds and numbers are checked; a
 *   handle that was released, or never given, is not.
 * - Questions that cannot fail give their answer as it is: of a NULL handle 0, false or NULL.
 * - Ops are called by name through one function, fc_call, with values in the order of the op's arguments; fc_op_* tell
 *   what they are, for those who generate functions in their own language.
 * - Any thread may call any function. Owners are counted atomically. A tensor or a program may be used by several
 *   threads at once; who writes to a tensor sees to it that nobody else uses its elements meanwhile. Generators have
 *   locks. The error text and whether gradients are recorded belong to the thread.
 * - The library runs no Python. A new version may add functions and fields at the end of enumerations, and takes none
 *   away.
 */
#ifndef FACULA_H
#define FACULA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(_WIN32)
#define FC_API __declspec(dllimport)
#else
#define FC_API __attribute__((visibility("default")))
#endif

#define FC_ABI_VERSION 1

typedef enum fc_status {
  FC_OK = 0,
  FC_RUNTIME = 1,
  FC_VALUE = 2, /* an argument's value */
  FC_TYPE = 3,  /* an argument's kind or dtype */
  FC_INDEX = 4,
  FC_NOT_IMPLEMENTED = 5,
  FC_OUT_OF_MEMORY = 6,
  FC_ATTRIBUTE = 7,
  FC_ASSERTION = 8,
  FC_LINALG = 9, /* a matrix is singular, or an iteration does not end */
  FC_BUFFER = 10,
  FC_INTERNAL = 100 /* a fault of the library */
} fc_status;

typedef enum fc_dtype {
  FC_BOOL = 0,
  FC_UINT8,
  FC_INT8,
  FC_INT16,
  FC_INT32,
  FC_INT64,
  FC_UINT16,
  FC_UINT32,
  FC_UINT64,
  FC_FLOAT16,
  FC_BFLOAT16,
  FC_FLOAT32,
  FC_FLOAT64,
  FC_COMPLEX32,
  FC_COMPLEX64,
  FC_COMPLEX128,
  FC_FLOAT8_E4M3FN,
  FC_FLOAT8_E5M2,
  FC_FLOAT8_E4M3FNUZ,
  FC_FLOAT8_E5M2FNUZ
} fc_dtype;

typedef enum fc_memory_format {
  FC_CONTIGUOUS = 0,
  FC_PRESERVE,
  FC_CHANNELS_LAST,
  FC_CHANNELS_LAST_3D
} fc_memory_format;

typedef enum fc_layout {
  FC_STRIDED = 0,
  FC_SPARSE_COO,
  FC_SPARSE_CSR,
  FC_SPARSE_CSC,
  FC_SPARSE_BSR,
  FC_SPARSE_BSC
} fc_layout;

typedef struct fc_tensor_s* fc_tensor;
typedef struct fc_generator_s* fc_generator;
typedef struct fc_program_s* fc_program;
typedef const struct fc_op_s* fc_op; /* lives as long as the library: never released */

/* ---- values: what an op takes and gives ---- */

typedef enum fc_kind {
  FC_NONE = 0, /* an argument that is left out or has no value; results: nothing */
  FC_INT_VALUE,
  FC_FLOAT_VALUE,
  FC_BOOL_VALUE,
  FC_COMPLEX_VALUE,
  FC_STRING_VALUE,
  FC_DTYPE_VALUE,
  FC_DEVICE_VALUE, /* as text, "cpu" or "cuda:1" */
  FC_FORMAT_VALUE,
  FC_GENERATOR_VALUE,
  FC_TENSOR_VALUE,
  FC_TENSORS_VALUE, /* a list; NULL in it stands for none */
  FC_INTS_VALUE,
  FC_FLOATS_VALUE,
  FC_BOOLS_VALUE,
  FC_LAYOUT_VALUE,
  FC_DEFAULT = 99 /* the argument's own default */
} fc_kind;

typedef struct fc_value {
  int32_t kind;  /* fc_kind */
  int32_t count; /* of a list */
  union {
    int64_t integer; /* int, bool, dtype, memory format */
    double number;
    struct {
      double real, imaginary;
    } complex;
    const char* text;
    fc_tensor tensor;
    fc_generator generator;
    const fc_tensor* tensors;
    const int64_t* integers;
    const double* numbers;
    const bool* bools;
  } as;
} fc_value;

/* Gives back what a result holds: a tensor, a list, a text. Not for values that the caller made. */
FC_API void fc_value_release(fc_value* value);

/* ---- errors, version, threads ---- */

FC_API const char* fc_error_text(void);              /* of this thread's last error; "" before the first */
FC_API const char* fc_status_name(fc_status status); /* "FC_VALUE"; NULL for a number that is none */
FC_API const char* fc_version(void);                 /* "0.1.0" */
FC_API int32_t fc_abi_version(void);                 /* FC_ABI_VERSION of the library */
FC_API int32_t fc_num_threads(void);
FC_API fc_status fc_set_num_threads(int32_t count); /* 1 to 1024 */
FC_API int32_t fc_device_count(const char* type);   /* "cpu": 1, "cuda"; 0 where the type has none or is unknown */
FC_API const char* fc_dtype_name(fc_dtype dtype);   /* "float32"; NULL for a number that is none */
FC_API size_t fc_dtype_size(fc_dtype dtype);        /* bytes of an element; 0 for a number that is none */

/* ---- tensors ---- */

/* Elements are not set. `device` NULL: the CPU. */
FC_API fc_status fc_tensor_empty(const int64_t* sizes, int32_t dims, fc_dtype dtype, const char* device,
                                 fc_tensor* out);
/* A copy of contiguous elements; `bytes` must be what shape and dtype need. */
FC_API fc_status fc_tensor_copy_of(const void* data, size_t bytes, const int64_t* sizes, int32_t dims, fc_dtype dtype,
                                   fc_tensor* out);
/* A tensor over memory of the caller, which must stay until `release` (may be NULL) is called with `context`, by the
 * thread that lets the last tensor over it go. After an error it is not called. `strides` count elements; NULL:
 * contiguous. */
FC_API fc_status fc_tensor_wrap(void* data, size_t bytes, const int64_t* sizes, const int64_t* strides, int32_t dims,
                                fc_dtype dtype, void (*release)(void* context), void* context, fc_tensor* out);
FC_API fc_tensor fc_tensor_retain(fc_tensor tensor); /* one more owner; the same handle */
FC_API void fc_tensor_release(fc_tensor tensor);

FC_API int32_t fc_tensor_dims(fc_tensor tensor);
FC_API int64_t fc_tensor_size(fc_tensor tensor, int32_t dim); /* dim may be negative; -1 where there is none */
FC_API int64_t fc_tensor_stride(fc_tensor tensor, int32_t dim);
/* All of them; `room` is how many fit, at least fc_tensor_dims(tensor). */
FC_API fc_status fc_tensor_sizes(fc_tensor tensor, int64_t* sizes, int32_t room);
FC_API fc_status fc_tensor_strides(fc_tensor tensor, int64_t* strides, int32_t room);
FC_API int64_t fc_tensor_numel(fc_tensor tensor);
FC_API fc_dtype fc_tensor_dtype(fc_tensor tensor);
FC_API fc_status fc_tensor_device(fc_tensor tensor, char* text, size_t room); /* "cuda:0" and an ending zero */
FC_API bool fc_tensor_is_contiguous(fc_tensor tensor);
FC_API bool fc_tensor_shares_memory(fc_tensor a, fc_tensor b); /* whether they are over one piece of memory */
/* The first element, on the CPU; who writes there is not seen by the gradients. Until the tensor is released or
 * resized. */
FC_API fc_status fc_tensor_data(fc_tensor tensor, void** out);
/* All elements, row by row, from any device; `bytes` must be numel times the size of an element. */
FC_API fc_status fc_tensor_read(fc_tensor tensor, void* to, size_t bytes);
FC_API fc_status fc_tensor_write(fc_tensor tensor, const void* from, size_t bytes);
/* Of a tensor with one element, of any dtype; a complex number has to be real. */
FC_API fc_status fc_tensor_item_int(fc_tensor tensor, int64_t* out);
FC_API fc_status fc_tensor_item_float(fc_tensor tensor, double* out);
/* A tensor with the elements on another device (NULL: where they are) and in another dtype (negative: as they are); the
 * same one, once more, where nothing changes. Gradients go back through it. */
FC_API fc_status fc_tensor_to(fc_tensor tensor, const char* device, int32_t dtype, fc_tensor* out);

/* ---- ops ---- */

FC_API size_t fc_op_count(void);
FC_API fc_op fc_op_at(size_t index); /* NULL past the end */
/* "max.dim", "add" (or "add.default"), "relu_", "add.default.out"; also PyTorch's name where it differs. NULL:
 * there is none. */
FC_API fc_op fc_op_find(const char* name);
FC_API const char* fc_op_name(fc_op op);
/* "add.default(Operand self, Operand other, *, Scalar alpha) -> Tensor" */
FC_API const char* fc_op_signature(fc_op op);
FC_API const char* fc_op_aten_name(fc_op op); /* "add.Tensor"; several by operands; "" for none */
FC_API bool fc_op_draws(fc_op op);            /* it may draw random numbers */
FC_API int32_t fc_op_argument_count(fc_op op);
FC_API const char* fc_op_argument_name(fc_op op, int32_t index);
FC_API const char* fc_op_argument_type(fc_op op, int32_t index); /* "Tensor", "int[2]", "Scalar?" */
FC_API bool fc_op_argument_required(fc_op op, int32_t index);
FC_API bool fc_op_argument_written(fc_op op, int32_t index); /* the op writes to this tensor */
/* Of an argument that has one; given back by fc_value_release. */
FC_API fc_status fc_op_argument_default(fc_op op, int32_t index, fc_value* out);
FC_API int32_t fc_op_result_count(fc_op op);
/* "Tensor", "Tensor[]", "bool", "int", "float" or "Scalar" */
FC_API const char* fc_op_result_type(fc_op op, int32_t index);
FC_API const char* fc_op_result_name(fc_op op, int32_t index); /* "" for a single one */
/* Calls an op. Arguments that are missing at the end, or of kind FC_DEFAULT, are the op's defaults. An int may stand
 * for a float or a Scalar, and for all numbers of an int[2]. `results` has room for `room` values, which must be
 * fc_op_result_count(op); the caller gives them back by fc_value_release. */
FC_API fc_status fc_call(fc_op op, const fc_value* arguments, size_t count, fc_value* results, size_t room);

/* ---- gradients ---- */

FC_API bool fc_grad_enabled(void);
FC_API void fc_set_grad_enabled(bool enabled); /* of this thread */
FC_API bool fc_tensor_requires_grad(fc_tensor tensor);
FC_API fc_status fc_tensor_set_requires_grad(fc_tensor tensor, bool requires_grad);
FC_API bool fc_tensor_is_leaf(fc_tensor tensor);                       /* no recorded op made it */
FC_API fc_status fc_tensor_retain_grad(fc_tensor tensor);              /* backward passes leave its gradient there */
FC_API fc_status fc_tensor_detach(fc_tensor tensor, fc_tensor* out);   /* the same memory without history */
FC_API fc_status fc_tensor_grad(fc_tensor tensor, fc_tensor* out);     /* NULL where there is none */
FC_API fc_status fc_tensor_set_grad(fc_tensor tensor, fc_tensor grad); /* NULL: none */
/* `grad` NULL: one, of a tensor with one element. Gradients are added to those of the leaves. */
FC_API fc_status fc_tensor_backward(fc_tensor tensor, fc_tensor grad, bool keep_graph, bool create_graph);
/* Gradients of `outputs` with respect to `inputs`; `grads` as many as outputs, or NULL. NULL in `out` where none
 * arrives. */
FC_API fc_status fc_grad(const fc_tensor* outputs, const fc_tensor* grads, size_t output_count, const fc_tensor* inputs,
                         size_t input_count, bool keep_graph, bool create_graph, fc_tensor* out);

/* ---- random numbers ---- */

FC_API fc_status fc_manual_seed(uint64_t seed); /* of all devices' default generators */
FC_API fc_status fc_generator_new(const char* device, uint64_t seed, fc_generator* out);
FC_API fc_status fc_generator_default(const char* device, fc_generator* out); /* the one of calls without a generator */
FC_API fc_status fc_generator_seed(fc_generator generator, uint64_t seed);
/* The state, as uint8 of the CPU. */
FC_API fc_status fc_generator_state(fc_generator generator, fc_tensor* out);
FC_API fc_status fc_generator_set_state(fc_generator generator, fc_tensor state);
FC_API void fc_generator_release(fc_generator generator);

/* ---- programs ---- */

/* A program that was exported, as ".pt2" of Facula or PyTorch; a file is data, nothing in it is run. The file must stay
 * as it is while the program or a tensor of it lives. */
FC_API fc_status fc_program_load(const char* path, fc_program* out);
/* A program in its text form, without parameters. */
FC_API fc_status fc_program_parse(const char* text, fc_program* out);
FC_API void fc_program_release(fc_program program);
/* `needed` (may be NULL) becomes the bytes of the text with its ending zero; the text is written where `room` suffices,
 * and is not where `text` is NULL. */
FC_API fc_status fc_program_text(fc_program program, char* text, size_t room, size_t* needed);
FC_API int32_t fc_program_input_count(fc_program program); /* of the user */
FC_API const char* fc_program_input_name(fc_program program, int32_t index);
FC_API int32_t fc_program_output_count(fc_program program);
/* The tensors that it holds: parameters, buffers, constants. Results have a history where they require gradients, so a
 * program trains. */
FC_API int32_t fc_program_tensor_count(fc_program program);
FC_API const char* fc_program_tensor_name(fc_program program, int32_t index); /* "layers.0.weight" */
FC_API const char* fc_program_tensor_role(fc_program program, int32_t index); /* "parameter", "buffer" or "constant" */
FC_API fc_status fc_program_tensor(fc_program program, const char* name, fc_tensor* out);
/* Runs it; `room` of `results` must be fc_program_output_count(program). */
FC_API fc_status fc_program_run(fc_program program, const fc_value* inputs, size_t count, fc_value* results,
                                size_t room);

#ifdef __cplusplus
}
#endif

#endif
