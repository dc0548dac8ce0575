//! `+ - * / %` and `-` of tensors and numbers, and `+= -= *= /=`, which write in place. Like all operators of Rust they
//! give no `Result`: an error, such as sizes that do not fit, is a panic with its text. The methods (`a.add(&b)?`)
//! return it.

use crate::ops;
use crate::tensor::Tensor;
use std::ops as std_ops;

#[track_caller]
fn must<T>(made: crate::Result<T>) -> T {
    match made {
        Ok(made) => made,
        Err(error) => panic!("{error}"), // where the caller stands, as a closure would not say
    }
}

macro_rules! binary {
    ($($trait:ident, $method:ident, $function:path;)*) => {$(
        binary!(@one $trait, $method, $function, &Tensor, &Tensor, |a: &Tensor, b: &Tensor| $function(a, b));
        binary!(@one $trait, $method, $function, Tensor, &Tensor, |a: Tensor, b: &Tensor| $function(&a, b));
        binary!(@one $trait, $method, $function, &Tensor, Tensor, |a: &Tensor, b: Tensor| $function(a, &b));
        binary!(@one $trait, $method, $function, Tensor, Tensor, |a: Tensor, b: Tensor| $function(&a, &b));
        binary!(@numbers $trait, $method, $function, f64, i64);
    )*};
    (@numbers $trait:ident, $method:ident, $function:path, $($number:ty),*) => {$(
        binary!(@one $trait, $method, $function, &Tensor, $number, |a: &Tensor, b: $number| $function(a, b));
        binary!(@one $trait, $method, $function, Tensor, $number, |a: Tensor, b: $number| $function(&a, b));
        binary!(@one $trait, $method, $function, $number, &Tensor, |a: $number, b: &Tensor| $function(a, b));
        binary!(@one $trait, $method, $function, $number, Tensor, |a: $number, b: Tensor| $function(a, &b));
    )*};
    (@one $trait:ident, $method:ident, $function:path, $left:ty, $right:ty, $body:expr) => {
        impl std_ops::$trait<$right> for $left {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: $right) -> Tensor {
                must(($body)(self, other))
            }
        }
    };
}
binary! {
    Add, add, ops::add;
    Sub, sub, ops::sub;
    Mul, mul, ops::mul;
    Div, div, ops::div;
    Rem, rem, ops::remainder;
}

macro_rules! assign {
    ($($trait:ident, $method:ident, $function:path;)*) => {$(
        impl std_ops::$trait<&Tensor> for Tensor {
            #[track_caller]
            fn $method(&mut self, other: &Tensor) {
                must($function(&*self, other))
            }
        }
        impl std_ops::$trait<f64> for Tensor {
            #[track_caller]
            fn $method(&mut self, other: f64) {
                must($function(&*self, other))
            }
        }
    )*};
}
assign! {
    AddAssign, add_assign, ops::add_;
    SubAssign, sub_assign, ops::sub_;
    MulAssign, mul_assign, ops::mul_;
    DivAssign, div_assign, ops::div_;
}

impl std_ops::Neg for &Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        must(ops::neg(self))
    }
}
impl std_ops::Neg for Tensor {
    type Output = Tensor;
    #[track_caller]
    fn neg(self) -> Tensor {
        must(ops::neg(&self))
    }
}
