use crate::error::{check, Result};
use crate::sys;
use crate::tensor::Tensor;
use std::borrow::Borrow;
use std::ptr;

/// What ops record while it lives; put back when it goes, also when a panic passes.
struct Recording {
    before: bool,
}

impl Recording {
    fn set(enabled: bool) -> Self {
        let before = is_grad_enabled();
        unsafe { sys::fc_set_grad_enabled(enabled) }
        Self { before }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        unsafe { sys::fc_set_grad_enabled(self.before) }
    }
}

/// Whether ops of this thread are recorded for gradients.
pub fn is_grad_enabled() -> bool {
    unsafe { sys::fc_grad_enabled() }
}

/// Runs `body` without recording what this thread computes.
pub fn no_grad<T>(body: impl FnOnce() -> T) -> T {
    let _recording = Recording::set(false);
    body()
}

/// Runs `body` with recording, inside [`no_grad`].
pub fn enable_grad<T>(body: impl FnOnce() -> T) -> T {
    let _recording = Recording::set(true);
    body()
}

/// The gradients of the sum of `outputs` (each of one element) for `inputs`; `None` where none arrives. With
/// `create_graph` they can be differentiated again.
pub fn grad(outputs: &[impl Borrow<Tensor>], inputs: &[impl Borrow<Tensor>], create_graph: bool) -> Result<Vec<Option<Tensor>>> {
    let handles = |list: &[sys::fc_tensor]| (list.as_ptr(), list.len());
    let ends: Vec<_> = outputs.iter().map(|t| t.borrow().handle()).collect();
    let begins: Vec<_> = inputs.iter().map(|t| t.borrow().handle()).collect();
    let mut made = vec![ptr::null_mut(); begins.len()];
    let ((out, outs), (inn, ins)) = (handles(&ends), handles(&begins));
    check(unsafe { sys::fc_grad(out, ptr::null(), outs, inn, ins, false, create_graph, made.as_mut_ptr()) })?;
    Ok(made.into_iter().map(|h| if h.is_null() { None } else { Some(unsafe { Tensor::adopt(h) }) }).collect())
}
