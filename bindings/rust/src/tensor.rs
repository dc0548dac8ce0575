use crate::error::{c_text, check, Error, ErrorKind, Result};
use crate::sys;
use crate::types::{DType, Device, Element};
use std::fmt;
use std::os::raw::c_void;
use std::ptr;

/// A tensor. A clone is the same tensor once more, as an assignment is in Python: both see what is written to either.
///
/// A tensor can be given to another thread. Elements are no Rust memory: two threads that write to one place, or write
/// and read, get some of the values, as in every library of this kind.
pub struct Tensor(sys::fc_tensor);

// SAFETY: owners are counted atomically, and nothing of a tensor belongs to a thread
unsafe impl Send for Tensor {}

impl Clone for Tensor {
    fn clone(&self) -> Self {
        unsafe { Self::share(self.0) }
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        unsafe { sys::fc_tensor_release(self.0) }
    }
}

fn dims_of(sizes: &[i64]) -> i32 {
    i32::try_from(sizes.len()).unwrap_or(i32::MAX) // refused by the library
}

/// Lets the elements of a Vec go that was given to a tensor.
unsafe extern "C" fn release<T>(context: *mut c_void) {
    drop(Box::from_raw(context as *mut Vec<T>));
}

impl Tensor {
    /// Takes an owner over.
    pub(crate) unsafe fn adopt(handle: sys::fc_tensor) -> Self {
        Self(handle)
    }
    /// Becomes one more owner.
    pub(crate) unsafe fn share(handle: sys::fc_tensor) -> Self {
        Self(sys::fc_tensor_retain(handle))
    }
    #[inline]
    pub(crate) fn handle(&self) -> sys::fc_tensor {
        self.0
    }
    fn made(make: impl FnOnce(*mut sys::fc_tensor) -> sys::fc_status) -> Result<Self> {
        let mut handle = ptr::null_mut();
        check(make(&mut handle))?;
        Ok(Self(handle))
    }

    /// A copy of `data`, row by row.
    pub fn from_slice<T: Element>(data: &[T], sizes: &[i64]) -> Result<Self> {
        let bytes = std::mem::size_of_val(data);
        Self::made(|out| unsafe {
            sys::fc_tensor_copy_of(data.as_ptr().cast(), bytes, sizes.as_ptr(), dims_of(sizes), T::DTYPE as i32, out)
        })
    }

    /// A tensor over the memory of `data`, which it keeps.
    pub fn from_vec<T: Element>(data: Vec<T>, sizes: &[i64]) -> Result<Self> {
        let bytes = std::mem::size_of_val(data.as_slice());
        let owned = Box::into_raw(Box::new(data));
        let made = Self::made(|out| unsafe {
            let start = (*owned).as_mut_ptr().cast();
            sys::fc_tensor_wrap(start, bytes, sizes.as_ptr(), ptr::null(), dims_of(sizes), T::DTYPE as i32, Some(release::<T>), owned.cast(), out)
        });
        if made.is_err() {
            unsafe { release::<T>(owned.cast()) } // the library calls it for tensors only
        }
        made
    }

    /// One number.
    pub fn from_number<T: Element>(number: T) -> Result<Self> {
        Self::from_slice(&[number], &[])
    }

    pub fn dim(&self) -> usize {
        unsafe { sys::fc_tensor_dims(self.0) as usize }
    }
    pub fn numel(&self) -> usize {
        unsafe { sys::fc_tensor_numel(self.0) as usize }
    }
    pub fn sizes(&self) -> Vec<i64> {
        let mut sizes = vec![0; self.dim()];
        check(unsafe { sys::fc_tensor_sizes(self.0, sizes.as_mut_ptr(), dims_of(&sizes)) }).expect("sizes of a tensor");
        sizes
    }
    pub fn strides(&self) -> Result<Vec<i64>> {
        let mut strides = vec![0; self.dim()];
        check(unsafe { sys::fc_tensor_strides(self.0, strides.as_mut_ptr(), dims_of(&strides)) })?;
        Ok(strides)
    }
    pub fn dtype(&self) -> DType {
        DType::from_number(unsafe { sys::fc_tensor_dtype(self.0) })
    }
    pub fn device(&self) -> Result<Device> {
        let mut room = [0u8; 32];
        check(unsafe { sys::fc_tensor_device(self.0, room.as_mut_ptr().cast(), room.len()) })?;
        let end = room.iter().position(|c| *c == 0).unwrap_or(room.len());
        String::from_utf8_lossy(&room[..end]).parse()
    }
    pub fn is_contiguous(&self) -> bool {
        unsafe { sys::fc_tensor_is_contiguous(self.0) }
    }
    /// Whether both are over one piece of memory.
    pub fn shares_memory(&self, other: &Tensor) -> bool {
        unsafe { sys::fc_tensor_shares_memory(self.0, other.0) }
    }

    /// All elements, row by row, from any device. `T` must be what the dtype is: see [`Tensor::to_dtype`].
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.expect(T::DTYPE)?;
        let mut data = Vec::<T>::with_capacity(self.numel());
        // SAFETY: the library writes all elements, whose number it checks
        unsafe {
            check(sys::fc_tensor_read(self.0, data.as_mut_ptr().cast(), self.numel() * std::mem::size_of::<T>()))?;
            data.set_len(self.numel());
        }
        Ok(data)
    }
    /// Writes all elements, row by row.
    pub fn write<T: Element>(&self, data: &[T]) -> Result<()> {
        self.expect(T::DTYPE)?;
        check(unsafe { sys::fc_tensor_write(self.0, data.as_ptr().cast(), std::mem::size_of_val(data)) })
    }
    fn expect(&self, dtype: DType) -> Result<()> {
        if self.dtype() == dtype {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Type, format!("expected elements of {dtype:?}, the tensor has {:?}", self.dtype())))
    }
    /// The address of the first element, for other libraries; until the tensor is released or resized.
    pub fn data_ptr(&self) -> Result<*mut c_void> {
        let mut at = ptr::null_mut();
        check(unsafe { sys::fc_tensor_data(self.0, &mut at) })?;
        Ok(at)
    }
    /// The value of a tensor with one element.
    pub fn item(&self) -> Result<f64> {
        let mut value = 0.0;
        check(unsafe { sys::fc_tensor_item_float(self.0, &mut value) })?;
        Ok(value)
    }
    pub fn item_int(&self) -> Result<i64> {
        let mut value = 0;
        check(unsafe { sys::fc_tensor_item_int(self.0, &mut value) })?;
        Ok(value)
    }

    pub fn to_dtype(&self, dtype: DType) -> Result<Self> {
        Self::made(|out| unsafe { sys::fc_tensor_to(self.0, ptr::null(), dtype as i32, out) })
    }
    pub fn to_device(&self, device: Device) -> Result<Self> {
        let name = c_text(&device.to_string())?;
        Self::made(|out| unsafe { sys::fc_tensor_to(self.0, name.as_ptr(), -1, out) })
    }

    pub fn requires_grad(&self) -> bool {
        unsafe { sys::fc_tensor_requires_grad(self.0) }
    }
    pub fn set_requires_grad(&self, requires_grad: bool) -> Result<()> {
        check(unsafe { sys::fc_tensor_set_requires_grad(self.0, requires_grad) })
    }
    pub fn is_leaf(&self) -> bool {
        unsafe { sys::fc_tensor_is_leaf(self.0) }
    }
    /// Backward passes leave the gradient of a tensor that is no leaf.
    pub fn retain_grad(&self) -> Result<()> {
        check(unsafe { sys::fc_tensor_retain_grad(self.0) })
    }
    /// The same memory without history.
    pub fn detach(&self) -> Result<Self> {
        Self::made(|out| unsafe { sys::fc_tensor_detach(self.0, out) })
    }
    /// What backward passes have added up.
    pub fn grad(&self) -> Option<Tensor> {
        let mut grad = ptr::null_mut();
        check(unsafe { sys::fc_tensor_grad(self.0, &mut grad) }).expect("the gradient of a tensor");
        if grad.is_null() {
            None
        } else {
            Some(Self(grad))
        }
    }
    pub fn set_grad(&self, grad: Option<&Tensor>) -> Result<()> {
        check(unsafe { sys::fc_tensor_set_grad(self.0, grad.map_or(ptr::null_mut(), Tensor::handle)) })
    }
    /// Adds the gradients of this tensor, of one element, to those of the leaves.
    pub fn backward(&self) -> Result<()> {
        self.backward_from(None, false)
    }
    /// The same from a gradient of this tensor (`None`: one). The graph can be used again if it is retained.
    pub fn backward_from(&self, grad: Option<&Tensor>, keep_graph: bool) -> Result<()> {
        let grad = grad.map_or(ptr::null_mut(), Tensor::handle);
        check(unsafe { sys::fc_tensor_backward(self.0, grad, keep_graph, false) })
    }

    /// A copy with memory of its own.
    pub fn copied(&self) -> Result<Self> {
        crate::ops::clone(self)
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "Tensor({:?}, {:?})", self.dtype(), self.sizes())
    }
}

const MOST_SHOWN: usize = 1000;

/// All values where there are a thousand at most, in brackets.
impl fmt::Display for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let real = !matches!(self.dtype(), DType::Complex32 | DType::Complex64 | DType::Complex128);
        let detached = self.detach().and_then(|t| t.to_dtype(DType::Float64));
        match detached.and_then(|t| t.to_vec::<f64>()) {
            Ok(values) if real && values.len() <= MOST_SHOWN => show(f, &values, &self.sizes()),
            _ => fmt::Debug::fmt(self, f),
        }
    }
}

fn show(f: &mut fmt::Formatter, values: &[f64], sizes: &[i64]) -> fmt::Result {
    let (count, rest) = match sizes.split_first() {
        None => return write!(f, "{}", values[0]),
        Some((count, rest)) => (*count as usize, rest),
    };
    let step = values.len() / count.max(1);
    f.write_str("[")?;
    for i in 0..count {
        if i > 0 {
            f.write_str(", ")?;
        }
        show(f, &values[i * step..(i + 1) * step], rest)?;
    }
    f.write_str("]")
}
