//! What a program in Rust relies on: values, errors, ownership, gradients, threads. The ops themselves are tested in Python.

use facula::ops::{self, AddOptions, Conv2dOptions, SumDimOptions};
use facula::*;

fn floats(values: &[f32], sizes: &[i64]) -> Tensor {
    Tensor::from_slice(values, sizes).unwrap()
}

#[test]
fn tensors_hold_what_they_are_given() {
    let t = floats(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3]);
    assert_eq!((t.dim(), t.numel(), t.sizes(), t.dtype()), (2, 6, vec![2, 3], DType::Float32));
    assert_eq!((t.device().unwrap(), t.strides().unwrap()), (Device::Cpu, vec![3, 1]));
    let turned = t.transpose(0, 1).unwrap();
    assert!(!turned.is_contiguous() && turned.shares_memory(&t));
    assert_eq!(turned.to_vec::<f32>().unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    turned.write(&[0.0f32; 6]).unwrap();
    assert_eq!(t.to_vec::<f32>().unwrap(), [0.0; 6]);
    assert_eq!(Tensor::from_number(7i64).unwrap().item_int().unwrap(), 7);
    assert_eq!(floats(&[], &[0, 3]).to_vec::<f32>().unwrap(), []);
    let again = t.to_dtype(DType::Int16).unwrap();
    assert_eq!((again.dtype(), again.to_vec::<i16>().unwrap()), (DType::Int16, vec![0; 6]));
    assert_eq!(t.to_device(Device::Cpu).unwrap().to_vec::<f32>().unwrap(), [0.0; 6]);
}

#[test]
fn every_dtype_has_its_number_and_name() {
    for dtype in DType::ALL {
        let t = ops::empty_with(&[3], ops::EmptyOptions { dtype: Some(dtype), ..Default::default() }).unwrap();
        assert_eq!(t.dtype(), dtype);
        assert!(dtype.size() >= 1);
    }
    assert_eq!(Tensor::from_slice(&[true, false], &[2]).unwrap().to_vec::<bool>().unwrap(), [true, false]);
    assert_eq!(Tensor::from_slice(&[u64::MAX], &[1]).unwrap().to_vec::<u64>().unwrap(), [u64::MAX]);
}

#[test]
fn a_vec_becomes_the_memory_of_a_tensor_and_goes_with_it() {
    #[derive(Clone, Copy)]
    #[repr(transparent)]
    struct Counted(f64);
    // SAFETY: it is an f64
    unsafe impl Element for Counted {
        const DTYPE: DType = DType::Float64;
    }
    let data = vec![Counted(1.5), Counted(2.5)];
    let at = data.as_ptr() as usize;
    let t = Tensor::from_vec(data, &[2]).unwrap();
    assert_eq!(t.data_ptr().unwrap() as usize, at);
    let part = t.select(0, 1).unwrap();
    drop(t);
    assert_eq!(part.item().unwrap(), 2.5);
    let error = Tensor::from_vec(vec![1.0f64; 3], &[4]).unwrap_err();
    assert!(!error.to_string().is_empty());
}

#[test]
fn a_clone_is_the_same_tensor_and_a_copy_is_not() {
    let t = floats(&[1.0, 2.0], &[2]);
    let same = t.clone();
    let copy = t.copied().unwrap();
    t.add_(1.0).unwrap();
    assert_eq!(same.to_vec::<f32>().unwrap(), [2.0, 3.0]);
    assert_eq!(copy.to_vec::<f32>().unwrap(), [1.0, 2.0]);
}

#[test]
fn functions_are_made_of_the_schema() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    assert_eq!(ops::add_with(&x, &x, AddOptions { alpha: 10.into() }).unwrap().to_vec::<f32>().unwrap(), [11.0, 22.0, 33.0, 44.0]);
    assert_eq!(x.sum().unwrap().item().unwrap(), 10.0);
    let rows = x.sum_dim_with(Some(&[1]), SumDimOptions { keepdim: true, ..Default::default() });
    assert_eq!(rows.unwrap().sizes(), [2, 1]);
    let (values, indices) = x.max_dim(1).unwrap();
    assert_eq!((values.to_vec::<f32>().unwrap(), indices.to_vec::<i64>().unwrap()), (vec![2.0, 4.0], vec![1, 1]));
    let parts = x.split_with_sizes(&[1, 1]).unwrap();
    assert_eq!(parts.len(), 2);
    assert_eq!(ops::cat(&parts).unwrap().sizes(), [2, 2]);
    assert_eq!(ops::stack(&[&x, &x]).unwrap().sizes(), [2, 2, 2]);
    assert!(x.equal(&x.copied().unwrap()).unwrap());
    assert_eq!(x.div_mode(2, Some("floor")).unwrap().to_vec::<f32>().unwrap(), [0.0, 1.0, 1.0, 2.0]);
    let chosen = ops::r#where(&x.gt(2).unwrap(), &x, 0).unwrap();
    assert_eq!(chosen.to_vec::<f32>().unwrap(), [0.0, 0.0, 3.0, 4.0]);
    let out = ops::empty(&[2, 2]).unwrap();
    ops::mul_out(&out, &x, &x).unwrap();
    assert_eq!(out.to_vec::<f32>().unwrap(), [1.0, 4.0, 9.0, 16.0]);
    let image = ops::ones(&[1, 1, 4, 4]).unwrap();
    let kernel = ops::ones(&[1, 1, 2, 2]).unwrap();
    let options = Conv2dOptions { stride: &[2, 2], bias: Some(&Tensor::from_slice(&[0.5f32], &[1]).unwrap()), ..Default::default() };
    assert_eq!(ops::conv2d_with(&image, &kernel, options).unwrap().to_vec::<f32>().unwrap(), [4.5; 4]);
    let half = ops::full_with(&[2], 0.5, ops::FullOptions { dtype: Some(DType::Float64), device: Some(Device::Cpu) });
    assert_eq!(half.unwrap().to_vec::<f64>().unwrap(), [0.5, 0.5]);
}

#[test]
fn operators_work_between_tensors_and_numbers() {
    let x = floats(&[1.0, 2.0], &[2]);
    assert_eq!((&x + 1.0).to_vec::<f32>().unwrap(), [2.0, 3.0]);
    assert_eq!((2.0 - &x).to_vec::<f32>().unwrap(), [1.0, 0.0]);
    assert_eq!((-(&x * &x) / 2 % 3.0).to_vec::<f32>().unwrap(), [2.5, 1.0]);
    assert_eq!((1 - x.clone()).to_vec::<f32>().unwrap(), [0.0, -1.0]);
    let mut y = x.copied().unwrap();
    y += 1.0;
    y *= &x;
    assert_eq!(y.to_vec::<f32>().unwrap(), [2.0, 6.0]);
    let whole = Tensor::from_slice(&[4i32, 5], &[2]).unwrap();
    assert_eq!((whole * 2).dtype(), DType::Int32);
}

#[test]
#[should_panic(expected = "shapes must broadcast")]
fn an_operator_panics_with_the_text_of_the_error() {
    let _ = floats(&[1.0, 2.0], &[2]) + floats(&[1.0, 2.0, 3.0], &[3]);
}

#[test]
fn errors_say_what_and_which() {
    let x = floats(&[1.0, 2.0], &[2]);
    let error = x.mm(&x).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Runtime);
    assert!(error.to_string().contains("mm"), "{error}");
    assert_eq!(x.to_vec::<f64>().unwrap_err().kind(), ErrorKind::Type);
    assert_eq!(x.item().unwrap_err().kind(), ErrorKind::Runtime);
    assert_eq!(x.div_mode(2, Some("flo\0or")).unwrap_err().kind(), ErrorKind::Value);
    assert!(x.div_mode(2, Some("nonsense")).is_err());
    assert!(x.select(0, 99).is_err() && x.reshape(&[-1, -1]).is_err());
    assert!(ops::empty(&[-1]).is_err() && ops::empty(&[1 << 40, 1 << 40]).is_err());
    assert!(Tensor::from_slice(&[1.0f32], &[2]).is_err());
    assert!(ops::cat(&[] as &[Tensor]).is_err());
    assert!("quantum".parse::<Device>().is_err());
    assert!(set_num_threads(0).is_err());
    let gone: std::result::Result<Tensor, Box<dyn std::error::Error>> = x.mm(&x).map_err(Into::into);
    assert!(gone.is_err());
}

#[test]
fn gradients_reach_the_leaves() {
    let x = floats(&[1.0, 2.0, 3.0], &[3]);
    x.set_requires_grad(true).unwrap();
    assert!(x.grad().is_none() && x.is_leaf());
    let y = x.pow(2).unwrap();
    y.retain_grad().unwrap();
    y.sum().unwrap().backward().unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0, 6.0]);
    assert_eq!(y.grad().unwrap().to_vec::<f32>().unwrap(), [1.0; 3]);
    assert!(y.sum().unwrap().backward().is_err()); // what the first pass used is gone
    x.set_grad(None).unwrap();
    x.exp().unwrap().backward_from(Some(&floats(&[1.0, 0.0, 0.0], &[3])), false).unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap()[1..], [0.0, 0.0]);
    let cube = x.pow(3).unwrap().sum().unwrap();
    let first = grad(&[&cube], &[&x], true).unwrap().remove(0).unwrap();
    let second = grad(&[&first.sum().unwrap()], &[&x], false).unwrap().remove(0).unwrap();
    assert_eq!(second.to_vec::<f32>().unwrap(), [6.0, 12.0, 18.0]);
    assert!(!x.detach().unwrap().requires_grad());
}

#[test]
fn recording_stops_and_goes_on_also_after_a_panic() {
    let x = floats(&[1.0], &[1]);
    x.set_requires_grad(true).unwrap();
    assert!(!no_grad(|| x.exp().unwrap().requires_grad()));
    assert!(no_grad(|| enable_grad(|| x.exp().unwrap().requires_grad())));
    let stopped = std::panic::catch_unwind(|| no_grad(|| panic!("on purpose")));
    assert!(stopped.is_err() && is_grad_enabled());
    let elsewhere = no_grad(|| std::thread::spawn(is_grad_enabled).join().unwrap());
    assert!(elsewhere);
}

#[test]
fn tensors_go_to_other_threads() {
    let x = ops::rand(&[1000]).unwrap();
    let sum = x.sum().unwrap().item().unwrap();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let mine = x.clone();
            std::thread::spawn(move || (0..100).map(|_| mine.sum().unwrap().item().unwrap()).collect::<Vec<_>>())
        })
        .collect();
    for thread in threads {
        assert!(thread.join().unwrap().iter().all(|s| *s == sum));
    }
}

#[test]
fn random_numbers_repeat() {
    let draw = |g: &Generator| ops::randn_with(&[4], ops::RandnOptions { generator: Some(g), ..Default::default() }).unwrap().to_vec::<f32>().unwrap();
    let g = Generator::new(Device::Cpu, 5).unwrap();
    let first = draw(&g);
    assert_ne!(draw(&g), first);
    g.seed(5).unwrap();
    assert_eq!(draw(&g), first);
    assert!(Generator::new(Device::Meta, 5).is_err());
}

#[test]
fn programs_run() {
    let text = "symbol s0 in [1, 1024] sample 2\ninput user \"x\" %x: float32[s0, 2]\n%y: float32[s0, 2] = relu.default(%x)\nreturn %y\n";
    let program = Program::parse(text).unwrap();
    assert_eq!(program.inputs(), ["x"]);
    assert!(program.text().unwrap().contains("relu"));
    let x = floats(&[1.0, -1.0, 2.0, -2.0], &[2, 2]);
    assert_eq!(program.run(&[&x]).unwrap()[0].to_vec::<f32>().unwrap(), [1.0, 0.0, 2.0, 0.0]);
    assert!(program.run(&[&3.0]).is_err() && program.run(&[]).is_err());
    assert!(Program::parse("nonsense").is_err());
}

#[test]
fn tensors_show_themselves() {
    let x = floats(&[1.0, 2.5, 3.0, 4.0], &[2, 2]);
    assert_eq!(x.to_string(), "[[1, 2.5], [3, 4]]");
    assert_eq!(format!("{x:?}"), "Tensor(Float32, [2, 2])");
    assert_eq!(Tensor::from_number(7i32).unwrap().to_string(), "7");
    assert_eq!(floats(&[], &[2, 0]).to_string(), "[[], []]");
    assert_eq!(ops::zeros(&[50, 50]).unwrap().to_string(), "Tensor(Float32, [50, 50])");
}

#[test]
fn layouts_go_both_ways() {
    let x = floats(&[0.0, 3.0, 4.0, 0.0], &[2, 2]);
    let sparse = ops::to_sparse_with(&x, ops::ToSparseOptions { layout: Some(Layout::SparseCsr), ..Default::default() }).unwrap();
    assert_eq!(ops::values(&sparse).unwrap().to_vec::<f32>().unwrap(), [3.0, 4.0]);
    assert!(sparse.to_vec::<f32>().is_err());
}

#[test]
fn numbers_promote_by_their_kind() {
    let whole = Tensor::from_slice(&[1i64, 2], &[2]).unwrap();
    assert_eq!(whole.add(1).unwrap().dtype(), DType::Int64);
    assert_eq!(whole.add(1.0).unwrap().dtype(), DType::Float32);
    assert_eq!(whole.add(Scalar::Complex(0.0, 1.0)).unwrap().dtype(), DType::Complex64);
    assert_eq!(whole.div_mode(2, Some("trunc")).unwrap().dtype(), DType::Int64);
}

#[test]
fn the_version_is_the_librarys() {
    let (text, abi) = version();
    assert!(text.starts_with("0.") && abi == 1 && num_threads() >= 1 && Device::Cpu.count() == 1);
}
