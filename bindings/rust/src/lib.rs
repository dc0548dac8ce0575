//! Tensors and automatic differentiation: Facula's library from Rust.
//!
//! Every op of the library is a function of [`ops`], and those of a tensor are methods of [`Tensor`] as well; they are
//! generated from the library's schema. Arguments with a default are fields of a struct that the function whose name
//! ends in `_with` takes.
//!
//! ```
//! use facula::{manual_seed, ops, no_grad, Tensor};
//!
//! # fn main() -> facula::Result<()> {
//! manual_seed(0)?;
//! let x = Tensor::from_slice(&[0.0f32, 1.0, 2.0, 3.0], &[4, 1])?;
//! let y = &x * 2.0 + 1.0;
//! let w = ops::zeros(&[1, 1])?;
//! let b = ops::zeros(&[1])?;
//! for p in [&w, &b] {
//!     p.set_requires_grad(true)?;
//! }
//! for _ in 0..500 {
//!     let loss = ops::mse_loss(&(x.mm(&w)? + &b), &y)?;
//!     loss.backward()?;
//!     no_grad(|| -> facula::Result<()> {
//!         for p in [&w, &b] {
//!             p.sub_(&(p.grad().unwrap() * 0.1))?;
//!             p.set_grad(None)?;
//!         }
//!         Ok(())
//!     })?;
//! }
//! assert!((w.item()? - 2.0).abs() < 1e-2 && (b.item()? - 1.0).abs() < 1e-2);
//! # Ok(())
//! # }
//! ```

mod autograd;
mod call;
mod error;
mod generator;
mod operators;
mod program;
#[allow(dead_code)]
mod sys;
mod tensor;
mod types;

pub use autograd::{enable_grad, grad, is_grad_enabled, no_grad};
pub use error::{Error, ErrorKind, Result};
pub use generator::{manual_seed, Generator};
pub use program::Program;
pub use tensor::Tensor;
pub use types::{AsOperand, DType, Device, Element, Layout, MemoryFormat, Operand, Scalar};

/// A function for every op, generated from the library's schema.
#[allow(clippy::all, unused_parens, unused_mut, non_snake_case, rustdoc::broken_intra_doc_links, rustdoc::invalid_html_tags, rustdoc::bare_urls)]
pub mod ops {
    use crate::call::{Call, Op};
    use crate::error::Result;
    use crate::generator::Generator;
    use crate::tensor::Tensor;
    use crate::types::{AsOperand, DType, Device, Layout, MemoryFormat, Scalar};
    use std::borrow::Borrow;

    include!(concat!(env!("OUT_DIR"), "/ops.rs"));
}

/// The library's version, and that of its C interface.
pub fn version() -> (String, i32) {
    let text = unsafe { std::ffi::CStr::from_ptr(sys::fc_version()) };
    (text.to_string_lossy().into_owned(), unsafe { sys::fc_abi_version() })
}

/// How many threads an op may use.
pub fn num_threads() -> i32 {
    unsafe { sys::fc_num_threads() }
}
pub fn set_num_threads(count: i32) -> Result<()> {
    error::check(unsafe { sys::fc_set_num_threads(count) })
}
