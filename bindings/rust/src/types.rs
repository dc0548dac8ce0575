use crate::error::{Error, ErrorKind, Result};
use crate::sys;
use crate::tensor::Tensor;
use std::fmt;
use std::str::FromStr;

/// What elements are. The numbers are those of the C interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum DType {
    Bool,
    UInt8,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt16,
    UInt32,
    UInt64,
    Float16,
    BFloat16,
    Float32,
    Float64,
    Complex32,
    Complex64,
    Complex128,
    Float8E4M3Fn,
    Float8E5M2,
    Float8E4M3FnUz,
    Float8E5M2FnUz,
}

impl DType {
    pub const ALL: [DType; 20] = {
        use DType::*;
        [
            Bool, UInt8, Int8, Int16, Int32, Int64, UInt16, UInt32, UInt64, Float16, BFloat16, Float32, Float64, Complex32, Complex64,
            Complex128, Float8E4M3Fn, Float8E5M2, Float8E4M3FnUz, Float8E5M2FnUz,
        ]
    };
    pub(crate) fn from_number(number: i32) -> Self {
        Self::ALL[number as usize] // the library has no others of this ABI version
    }
    /// Bytes of an element.
    pub fn size(self) -> usize {
        unsafe { sys::fc_dtype_size(self as i32) }
    }
}

/// Where a tensor lies: `cpu`, `cuda:1`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Device {
    Cpu,
    /// The current one where there is no number.
    Cuda(Option<u8>),
    /// Shapes without elements.
    Meta,
}

impl Device {
    /// How many of this type there are.
    pub fn count(self) -> usize {
        let kind: &[u8] = match self {
            Device::Cpu => b"cpu\0",
            Device::Cuda(_) => b"cuda\0",
            Device::Meta => b"meta\0",
        };
        unsafe { sys::fc_device_count(kind.as_ptr().cast()) as usize }
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Device::Cpu => f.write_str("cpu"),
            Device::Cuda(None) => f.write_str("cuda"),
            Device::Cuda(Some(index)) => write!(f, "cuda:{index}"),
            Device::Meta => f.write_str("meta"),
        }
    }
}

impl FromStr for Device {
    type Err = Error;
    fn from_str(text: &str) -> Result<Self> {
        match (text, text.strip_prefix("cuda:").map(str::parse)) {
            ("cpu", _) => Ok(Device::Cpu),
            ("meta", _) => Ok(Device::Meta),
            ("cuda", _) => Ok(Device::Cuda(None)),
            (_, Some(Ok(index))) => Ok(Device::Cuda(Some(index))),
            _ => Err(Error::new(ErrorKind::Value, format!("expected cpu, cuda, cuda:0 or meta, got {text:?}"))),
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum MemoryFormat {
    Contiguous,
    Preserve,
    ChannelsLast,
    ChannelsLast3d,
}

/// How a tensor holds its elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(i32)]
pub enum Layout {
    Strided,
    SparseCoo,
    SparseCsr,
    SparseCsc,
    SparseBsr,
    SparseBsc,
}

/// A number on its way into an op; its kind decides to which dtype it promotes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scalar {
    Int(i64),
    Float(f64),
    Bool(bool),
    Complex(f64, f64),
}

/// A tensor or a number.
#[derive(Clone, Copy)]
pub enum Operand<'a> {
    Tensor(&'a Tensor),
    Number(Scalar),
}

/// What stands for an operand: a tensor, a reference to one, a number.
pub trait AsOperand {
    fn as_operand(&self) -> Operand<'_>;
}

impl AsOperand for Tensor {
    fn as_operand(&self) -> Operand<'_> {
        Operand::Tensor(self)
    }
}
impl<T: AsOperand + ?Sized> AsOperand for &T {
    fn as_operand(&self) -> Operand<'_> {
        (**self).as_operand()
    }
}
impl AsOperand for Operand<'_> {
    fn as_operand(&self) -> Operand<'_> {
        *self
    }
}
impl AsOperand for Scalar {
    fn as_operand(&self) -> Operand<'_> {
        Operand::Number(*self)
    }
}

macro_rules! numbers {
    ($($from:ty => $kind:ident($to:ty)),*) => {$(
        impl AsOperand for $from {
            fn as_operand(&self) -> Operand<'_> {
                Operand::Number((*self).into())
            }
        }
        impl From<$from> for Scalar {
            fn from(number: $from) -> Self {
                Scalar::$kind(<$to>::from(number))
            }
        }
    )*};
}
numbers!(i32 => Int(i64), i64 => Int(i64), u8 => Int(i64), u32 => Int(i64), f32 => Float(f64), f64 => Float(f64), bool => Bool(bool));

/// A Rust type that is one of the dtypes.
///
/// # Safety
/// Every value of the type is one of the dtype's elements, with the same bytes; every element that the library makes is
/// a value of the type.
pub unsafe trait Element: Copy + Send + 'static {
    const DTYPE: DType;
}
macro_rules! elements {
    ($($own:ty => $dtype:ident),*) => {$(unsafe impl Element for $own { const DTYPE: DType = DType::$dtype; })*};
}
elements!(bool => Bool, u8 => UInt8, i8 => Int8, i16 => Int16, i32 => Int32, i64 => Int64, u16 => UInt16, u32 => UInt32,
          u64 => UInt64, f32 => Float32, f64 => Float64);
