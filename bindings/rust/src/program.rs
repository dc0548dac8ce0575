use crate::call::run_program;
use crate::error::{c_text, check, Result};
use crate::sys;
use crate::tensor::Tensor;
use crate::types::AsOperand;
use std::ffi::CStr;
use std::ptr;

/// A program as data: ops in their order, without Python.
pub struct Program(sys::fc_program);

// SAFETY: a program does not change, and any number of threads may run it
unsafe impl Send for Program {}
unsafe impl Sync for Program {}

impl Program {
    /// From a `.pt2` file of Facula or PyTorch, which must stay as it is while the program or a tensor of it lives.
    pub fn load(path: &str) -> Result<Self> {
        let mut made = ptr::null_mut();
        let path = c_text(path)?;
        check(unsafe { sys::fc_program_load(path.as_ptr(), &mut made) })?;
        Ok(Self(made))
    }
    /// The parameters, buffers and constants that it holds, by their paths. Those that require gradients get them.
    pub fn tensors(&self) -> Result<Vec<(String, Tensor)>> {
        let count = unsafe { sys::fc_program_tensor_count(self.0) };
        let one = |i| {
            let name = unsafe { CStr::from_ptr(sys::fc_program_tensor_name(self.0, i)) };
            let mut made = ptr::null_mut();
            check(unsafe { sys::fc_program_tensor(self.0, name.as_ptr(), &mut made) })?;
            Ok((name.to_string_lossy().into_owned(), unsafe { Tensor::adopt(made) }))
        };
        (0..count).map(one).collect()
    }
    /// From its text form.
    pub fn parse(text: &str) -> Result<Self> {
        let mut made = ptr::null_mut();
        let text = c_text(text)?;
        check(unsafe { sys::fc_program_parse(text.as_ptr(), &mut made) })?;
        Ok(Self(made))
    }
    /// Its text form.
    pub fn text(&self) -> Result<String> {
        let mut needed = 0;
        check(unsafe { sys::fc_program_text(self.0, ptr::null_mut(), 0, &mut needed) })?;
        let mut room = vec![0u8; needed];
        check(unsafe { sys::fc_program_text(self.0, room.as_mut_ptr().cast(), needed, ptr::null_mut()) })?;
        room.pop();
        Ok(String::from_utf8_lossy(&room).into_owned())
    }
    /// What its inputs are called.
    pub fn inputs(&self) -> Vec<String> {
        let count = unsafe { sys::fc_program_input_count(self.0) };
        let name = |i| unsafe { CStr::from_ptr(sys::fc_program_input_name(self.0, i)) };
        (0..count).map(|i| name(i).to_string_lossy().into_owned()).collect()
    }
    /// Runs it with tensors and numbers; the results are tensors.
    pub fn run(&self, inputs: &[&dyn AsOperand]) -> Result<Vec<Tensor>> {
        let count = unsafe { sys::fc_program_output_count(self.0) };
        run_program(self.0, inputs, count as usize)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        unsafe { sys::fc_program_release(self.0) }
    }
}
