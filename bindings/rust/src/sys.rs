//! include/facula.h, as far as this crate calls it. `tests/test_rust.py` of the repository compares the two.
#![allow(non_camel_case_types)]

use std::os::raw::{c_char, c_void};

pub enum fc_tensor_s {}
pub enum fc_generator_s {}
pub enum fc_program_s {}
pub enum fc_op_s {}
pub type fc_tensor = *mut fc_tensor_s;
pub type fc_generator = *mut fc_generator_s;
pub type fc_program = *mut fc_program_s;
pub type fc_op = *const fc_op_s;
pub type fc_status = i32;
pub type fc_dtype = i32;

pub const FC_ABI_VERSION: i32 = 1;
pub const FC_NONE: i32 = 0;
pub const FC_INT_VALUE: i32 = 1;
pub const FC_FLOAT_VALUE: i32 = 2;
pub const FC_BOOL_VALUE: i32 = 3;
pub const FC_COMPLEX_VALUE: i32 = 4;
pub const FC_STRING_VALUE: i32 = 5;
pub const FC_DTYPE_VALUE: i32 = 6;
pub const FC_DEVICE_VALUE: i32 = 7;
pub const FC_FORMAT_VALUE: i32 = 8;
pub const FC_GENERATOR_VALUE: i32 = 9;
pub const FC_TENSOR_VALUE: i32 = 10;
pub const FC_TENSORS_VALUE: i32 = 11;
pub const FC_INTS_VALUE: i32 = 12;
pub const FC_FLOATS_VALUE: i32 = 13;
pub const FC_LAYOUT_VALUE: i32 = 15;

#[repr(C)]
#[derive(Clone, Copy)]
pub union fc_as {
    pub integer: i64,
    pub number: f64,
    pub complex: [f64; 2],
    pub text: *const c_char,
    pub tensor: fc_tensor,
    pub generator: fc_generator,
    pub tensors: *const fc_tensor,
    pub integers: *const i64,
    pub numbers: *const f64,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct fc_value {
    pub kind: i32,
    pub count: i32,
    pub as_: fc_as,
}

impl fc_value {
    pub const NONE: Self = Self { kind: FC_NONE, count: 0, as_: fc_as { complex: [0.0; 2] } };
}

extern "C" {
    pub fn fc_value_release(value: *mut fc_value);
    pub fn fc_error_text() -> *const c_char;
    pub fn fc_version() -> *const c_char;
    pub fn fc_abi_version() -> i32;
    pub fn fc_num_threads() -> i32;
    pub fn fc_set_num_threads(count: i32) -> fc_status;
    pub fn fc_device_count(kind: *const c_char) -> i32;
    pub fn fc_dtype_size(dtype: fc_dtype) -> usize;
    pub fn fc_tensor_empty(sizes: *const i64, dims: i32, dtype: fc_dtype, device: *const c_char, out: *mut fc_tensor) -> fc_status;
    pub fn fc_tensor_copy_of(data: *const c_void, bytes: usize, sizes: *const i64, dims: i32, dtype: fc_dtype, out: *mut fc_tensor) -> fc_status;
    pub fn fc_tensor_wrap(data: *mut c_void, bytes: usize, sizes: *const i64, strides: *const i64, dims: i32, dtype: fc_dtype,
                          release: Option<unsafe extern "C" fn(*mut c_void)>, context: *mut c_void, out: *mut fc_tensor) -> fc_status;
    pub fn fc_tensor_retain(tensor: fc_tensor) -> fc_tensor;
    pub fn fc_tensor_release(tensor: fc_tensor);
    pub fn fc_tensor_dims(tensor: fc_tensor) -> i32;
    pub fn fc_tensor_sizes(tensor: fc_tensor, sizes: *mut i64, room: i32) -> fc_status;
    pub fn fc_tensor_strides(tensor: fc_tensor, strides: *mut i64, room: i32) -> fc_status;
    pub fn fc_tensor_numel(tensor: fc_tensor) -> i64;
    pub fn fc_tensor_dtype(tensor: fc_tensor) -> fc_dtype;
    pub fn fc_tensor_device(tensor: fc_tensor, text: *mut c_char, room: usize) -> fc_status;
    pub fn fc_tensor_is_contiguous(tensor: fc_tensor) -> bool;
    pub fn fc_tensor_shares_memory(a: fc_tensor, b: fc_tensor) -> bool;
    pub fn fc_tensor_data(tensor: fc_tensor, out: *mut *mut c_void) -> fc_status;
    pub fn fc_tensor_read(tensor: fc_tensor, to: *mut c_void, bytes: usize) -> fc_status;
    pub fn fc_tensor_write(tensor: fc_tensor, from: *const c_void, bytes: usize) -> fc_status;
    pub fn fc_tensor_item_int(tensor: fc_tensor, out: *mut i64) -> fc_status;
    pub fn fc_tensor_item_float(tensor: fc_tensor, out: *mut f64) -> fc_status;
    pub fn fc_tensor_to(tensor: fc_tensor, device: *const c_char, dtype: i32, out: *mut fc_tensor) -> fc_status;
    pub fn fc_op_find(name: *const c_char) -> fc_op;
    pub fn fc_op_result_count(op: fc_op) -> i32;
    pub fn fc_call(op: fc_op, arguments: *const fc_value, count: usize, results: *mut fc_value, room: usize) -> fc_status;
    pub fn fc_grad_enabled() -> bool;
    pub fn fc_set_grad_enabled(enabled: bool);
    pub fn fc_tensor_requires_grad(tensor: fc_tensor) -> bool;
    pub fn fc_tensor_set_requires_grad(tensor: fc_tensor, requires_grad: bool) -> fc_status;
    pub fn fc_tensor_is_leaf(tensor: fc_tensor) -> bool;
    pub fn fc_tensor_retain_grad(tensor: fc_tensor) -> fc_status;
    pub fn fc_tensor_detach(tensor: fc_tensor, out: *mut fc_tensor) -> fc_status;
    pub fn fc_tensor_grad(tensor: fc_tensor, out: *mut fc_tensor) -> fc_status;
    pub fn fc_tensor_set_grad(tensor: fc_tensor, grad: fc_tensor) -> fc_status;
    pub fn fc_tensor_backward(tensor: fc_tensor, grad: fc_tensor, keep_graph: bool, create_graph: bool) -> fc_status;
    pub fn fc_grad(outputs: *const fc_tensor, grads: *const fc_tensor, output_count: usize, inputs: *const fc_tensor, input_count: usize,
                   keep_graph: bool, create_graph: bool, out: *mut fc_tensor) -> fc_status;
    pub fn fc_manual_seed(seed: u64) -> fc_status;
    pub fn fc_generator_new(device: *const c_char, seed: u64, out: *mut fc_generator) -> fc_status;
    pub fn fc_generator_seed(generator: fc_generator, seed: u64) -> fc_status;
    pub fn fc_generator_release(generator: fc_generator);
    pub fn fc_program_load(path: *const c_char, out: *mut fc_program) -> fc_status;
    pub fn fc_program_tensor_count(program: fc_program) -> i32;
    pub fn fc_program_tensor_name(program: fc_program, index: i32) -> *const c_char;
    pub fn fc_program_tensor(program: fc_program, name: *const c_char, out: *mut fc_tensor) -> fc_status;
    pub fn fc_program_parse(text: *const c_char, out: *mut fc_program) -> fc_status;
    pub fn fc_program_release(program: fc_program);
    pub fn fc_program_text(program: fc_program, text: *mut c_char, room: usize, needed: *mut usize) -> fc_status;
    pub fn fc_program_input_count(program: fc_program) -> i32;
    pub fn fc_program_input_name(program: fc_program, index: i32) -> *const c_char;
    pub fn fc_program_output_count(program: fc_program) -> i32;
    pub fn fc_program_run(program: fc_program, inputs: *const fc_value, count: usize, results: *mut fc_value, room: usize) -> fc_status;
}
