use crate::sys;
use std::ffi::{CStr, CString};
use std::fmt;

/// Describes an error in the words of the library.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    Runtime,
    /// The value of an argument.
    Value,
    /// The kind or the dtype of an argument.
    Type,
    Index,
    NotImplemented,
    OutOfMemory,
    Attribute,
    Assertion,
    /// A matrix is singular, or an iteration does not end.
    Linalg,
    Buffer,
    /// A fault of the library.
    Internal,
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, text: impl Into<String>) -> Self {
        Self { kind, text: text.into() }
    }
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Error {}

/// The result of a function of the library.
#[inline]
pub(crate) fn check(status: sys::fc_status) -> Result<()> {
    if status == 0 {
        Ok(())
    } else {
        Err(last(status))
    }
}

#[cold]
fn last(status: sys::fc_status) -> Error {
    use ErrorKind::*;
    const KINDS: [ErrorKind; 10] = [Runtime, Value, Type, Index, NotImplemented, OutOfMemory, Attribute, Assertion, Linalg, Buffer];
    let kind = KINDS.get(status as usize - 1).copied().unwrap_or(Internal);
    // SAFETY: the text is this thread's, and nothing is called before it is copied
    let text = unsafe { CStr::from_ptr(sys::fc_error_text()) };
    Error::new(kind, text.to_string_lossy())
}

pub(crate) fn c_text(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::new(ErrorKind::Value, format!("a text with a zero byte: {text:?}")))
}
