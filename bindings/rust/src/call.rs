//! Ops by name: what the generated functions are made of.

use crate::error::{c_text, check, Error, ErrorKind, Result};
use crate::generator::Generator;
use crate::sys::{self, fc_value};
use crate::tensor::Tensor;
use crate::types::{AsOperand, DType, Device, Layout, MemoryFormat, Operand, Scalar};
use std::borrow::Borrow;
use std::ffi::CString;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// An op, looked up when it is first called.
pub(crate) struct Op {
    name: &'static str, // with a zero at its end
    found: AtomicPtr<sys::fc_op_s>,
}

impl Op {
    pub(crate) const fn new(name: &'static str) -> Self {
        Self { name, found: AtomicPtr::new(ptr::null_mut()) }
    }
    fn handle(&self) -> sys::fc_op {
        let mut op = self.found.load(Ordering::Relaxed);
        if op.is_null() {
            op = unsafe { sys::fc_op_find(self.name.as_ptr().cast()) } as *mut _;
            self.found.store(op, Ordering::Relaxed);
        }
        op
    }
}

/// The arguments of a call, and what they point to meanwhile.
pub(crate) struct Call {
    values: Vec<fc_value>,
    texts: Vec<CString>,
    lists: Vec<Vec<sys::fc_tensor>>,
    wrong: Option<Error>,
}

impl Call {
    pub(crate) fn new(count: usize) -> Self {
        Self { values: Vec::with_capacity(count), texts: Vec::new(), lists: Vec::new(), wrong: None }
    }

    /// What `argument` borrows has to live until the call has run: the generated functions see to that.
    #[inline]
    pub(crate) fn put(&mut self, argument: impl Argument) {
        let value = argument.value(self);
        self.values.push(value);
    }

    pub(crate) fn put_tensors(&mut self, tensors: &[impl Borrow<Tensor>]) {
        let list: Vec<_> = tensors.iter().map(|t| t.borrow().handle()).collect();
        let mut value = of(sys::FC_TENSORS_VALUE);
        value.count = self.count(list.len());
        value.as_.tensors = list.as_ptr();
        self.lists.push(list);
        self.values.push(value);
    }

    fn count(&mut self, length: usize) -> i32 {
        i32::try_from(length).unwrap_or_else(|_| {
            self.wrong = Some(Error::new(ErrorKind::Value, format!("a list of {length} items")));
            0
        })
    }

    fn text(&mut self, kind: i32, text: &str) -> fc_value {
        let mut value = of(kind);
        match c_text(text) {
            Ok(made) => {
                value.as_.text = made.as_ptr(); // stays where it is when the CString moves
                self.texts.push(made);
            }
            Err(error) => self.wrong = Some(error),
        }
        value
    }

    pub(crate) fn run(self, op: &Op, count: usize) -> Result<Results> {
        self.run_handle(op.handle(), count)
    }

    fn run_handle(self, op: sys::fc_op, count: usize) -> Result<Results> {
        if let Some(error) = self.wrong {
            return Err(error);
        }
        let mut results = Results { values: [fc_value::NONE; MOST_RESULTS], next: 0 };
        assert!(count <= MOST_RESULTS);
        let given = self.values.len();
        check(unsafe { sys::fc_call(op, self.values.as_ptr(), given, results.values.as_mut_ptr(), count) })?;
        Ok(results)
    }
}

const MOST_RESULTS: usize = 8;

/// What a call gave; what is not taken is let go.
pub(crate) struct Results {
    values: [fc_value; MOST_RESULTS],
    next: usize,
}

impl Results {
    #[inline]
    pub(crate) fn take<T: Taken>(&mut self) -> Result<T> {
        self.next += 1;
        T::taken(&mut self.values[self.next - 1])
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        for value in self.values.iter_mut().filter(|v| v.kind != sys::FC_NONE) {
            unsafe { sys::fc_value_release(value) }
        }
    }
}

fn of(kind: i32) -> fc_value {
    fc_value { kind, ..fc_value::NONE }
}

/// What an argument can be.
pub(crate) trait Argument {
    fn value(self, call: &mut Call) -> fc_value;
}

macro_rules! plain {
    ($($from:ty => $kind:ident, $field:ident, $to:ty);*) => {$(
        impl Argument for $from {
            #[inline]
            fn value(self, _: &mut Call) -> fc_value {
                let mut value = of(sys::$kind);
                value.as_.$field = self as $to;
                value
            }
        }
    )*};
}
plain!(i64 => FC_INT_VALUE, integer, i64; f64 => FC_FLOAT_VALUE, number, f64; bool => FC_BOOL_VALUE, integer, i64;
       DType => FC_DTYPE_VALUE, integer, i64; MemoryFormat => FC_FORMAT_VALUE, integer, i64;
       Layout => FC_LAYOUT_VALUE, integer, i64);

impl Argument for &Tensor {
    #[inline]
    fn value(self, _: &mut Call) -> fc_value {
        let mut value = of(sys::FC_TENSOR_VALUE);
        value.as_.tensor = self.handle();
        value
    }
}
impl Argument for &Generator {
    fn value(self, _: &mut Call) -> fc_value {
        let mut value = of(sys::FC_GENERATOR_VALUE);
        value.as_.generator = self.handle();
        value
    }
}
impl Argument for Scalar {
    #[inline]
    fn value(self, call: &mut Call) -> fc_value {
        match self {
            Scalar::Int(n) => n.value(call),
            Scalar::Float(n) => n.value(call),
            Scalar::Bool(b) => b.value(call),
            Scalar::Complex(real, imaginary) => {
                let mut value = of(sys::FC_COMPLEX_VALUE);
                value.as_.complex = [real, imaginary];
                value
            }
        }
    }
}
impl Argument for Operand<'_> {
    #[inline]
    fn value(self, call: &mut Call) -> fc_value {
        match self {
            Operand::Tensor(tensor) => tensor.value(call),
            Operand::Number(number) => number.value(call),
        }
    }
}
impl Argument for &[i64] {
    #[inline]
    fn value(self, call: &mut Call) -> fc_value {
        let mut value = of(sys::FC_INTS_VALUE);
        value.count = call.count(self.len());
        value.as_.integers = self.as_ptr();
        value
    }
}
impl Argument for &[f64] {
    fn value(self, call: &mut Call) -> fc_value {
        let mut value = of(sys::FC_FLOATS_VALUE);
        value.count = call.count(self.len());
        value.as_.numbers = self.as_ptr();
        value
    }
}
impl Argument for &str {
    fn value(self, call: &mut Call) -> fc_value {
        call.text(sys::FC_STRING_VALUE, self)
    }
}
impl Argument for Device {
    fn value(self, call: &mut Call) -> fc_value {
        call.text(sys::FC_DEVICE_VALUE, &self.to_string())
    }
}
impl<T: Argument> Argument for Option<T> {
    #[inline]
    fn value(self, call: &mut Call) -> fc_value {
        self.map_or(fc_value::NONE, |some| some.value(call))
    }
}

/// What a result can be.
pub(crate) trait Taken: Sized {
    fn taken(value: &mut fc_value) -> Result<Self>;
}

fn unexpected<T>(value: &fc_value, wanted: &str) -> Result<T> {
    Err(Error::new(ErrorKind::Type, format!("expected {wanted} as a result, got a value of kind {}", value.kind)))
}

impl Taken for Tensor {
    #[inline]
    fn taken(value: &mut fc_value) -> Result<Self> {
        if value.kind != sys::FC_TENSOR_VALUE {
            return unexpected(value, "a tensor");
        }
        value.kind = sys::FC_NONE;
        Ok(unsafe { Tensor::adopt(value.as_.tensor) })
    }
}
impl Taken for Vec<Tensor> {
    fn taken(value: &mut fc_value) -> Result<Self> {
        if value.kind != sys::FC_TENSORS_VALUE {
            return unexpected(value, "a list of tensors");
        }
        // SAFETY: the list has `count` handles, to each of which this is one more owner; the list itself goes with `value`
        let handles = unsafe { std::slice::from_raw_parts(value.as_.tensors, value.count as usize) };
        if handles.iter().any(|h| h.is_null()) {
            return unexpected(value, "a list without gaps");
        }
        Ok(handles.iter().map(|h| unsafe { Tensor::share(*h) }).collect())
    }
}
impl Taken for bool {
    fn taken(value: &mut fc_value) -> Result<Self> {
        match value.kind {
            sys::FC_BOOL_VALUE => Ok(unsafe { value.as_.integer } != 0),
            _ => unexpected(value, "a bool"),
        }
    }
}
impl Taken for i64 {
    fn taken(value: &mut fc_value) -> Result<Self> {
        match value.kind {
            sys::FC_INT_VALUE => Ok(unsafe { value.as_.integer }),
            _ => unexpected(value, "an integer"),
        }
    }
}
impl Taken for f64 {
    fn taken(value: &mut fc_value) -> Result<Self> {
        match value.kind {
            sys::FC_FLOAT_VALUE => Ok(unsafe { value.as_.number }),
            _ => unexpected(value, "a number"),
        }
    }
}
impl Taken for Scalar {
    fn taken(value: &mut fc_value) -> Result<Self> {
        let as_ = value.as_;
        // SAFETY: the kind says which
        unsafe {
            match value.kind {
                sys::FC_INT_VALUE => Ok(Scalar::Int(as_.integer)),
                sys::FC_FLOAT_VALUE => Ok(Scalar::Float(as_.number)),
                sys::FC_BOOL_VALUE => Ok(Scalar::Bool(as_.integer != 0)),
                sys::FC_COMPLEX_VALUE => Ok(Scalar::Complex(as_.complex[0], as_.complex[1])),
                _ => unexpected(value, "a number"),
            }
        }
    }
}

/// Programs run with the same arguments and results.
pub(crate) fn run_program(program: sys::fc_program, inputs: &[&dyn AsOperand], count: usize) -> Result<Vec<Tensor>> {
    let mut call = Call::new(inputs.len());
    for input in inputs {
        call.put(input.as_operand());
    }
    let mut values = vec![fc_value::NONE; count];
    let status = unsafe { sys::fc_program_run(program, call.values.as_ptr(), inputs.len(), values.as_mut_ptr(), count) };
    check(status)?;
    let taken = values.iter_mut().map(Tensor::taken).collect();
    for value in values.iter_mut() {
        unsafe { sys::fc_value_release(value) }
    }
    taken
}
