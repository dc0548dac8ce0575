//! Trains a convolutional network on handwritten digits, as examples/digits.py does: 98 % of the test images right.
//!
//!     cargo run --release --example digits -- [epochs] [../../examples/data/digits.csv.gz]
//!
//! The layers and the optimizer are written here, with ops, to show how.

use facula::ops::{self, ArgmaxOptions, Conv2dOptions, LinearOptions, UniformOptions};
use facula::{manual_seed, no_grad, Result, Tensor};
use std::process::Command;
use std::time::Instant;

/// A parameter as PyTorch begins it: uniform within 1 / sqrt(fan in).
fn parameter(sizes: &[i64], fan_in: i64) -> Result<Tensor> {
    let bound = 1.0 / (fan_in as f64).sqrt();
    let p = ops::empty(sizes)?;
    p.uniform_with_(UniformOptions { from: -bound, to: bound, ..Default::default() })?;
    p.set_requires_grad(true)?;
    Ok(p)
}

struct Linear {
    weight: Tensor,
    bias: Tensor,
}

impl Linear {
    fn new(inputs: i64, outputs: i64) -> Result<Self> {
        Ok(Self { weight: parameter(&[outputs, inputs], inputs)?, bias: parameter(&[outputs], inputs)? })
    }
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        ops::linear_with(x, &self.weight, LinearOptions { bias: Some(&self.bias) })
    }
}

struct Conv {
    weight: Tensor,
    bias: Tensor,
}

impl Conv {
    fn new(inputs: i64, outputs: i64) -> Result<Self> {
        let fan_in = inputs * 9;
        Ok(Self { weight: parameter(&[outputs, inputs, 3, 3], fan_in)?, bias: parameter(&[outputs], fan_in)? })
    }
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let options = Conv2dOptions { bias: Some(&self.bias), padding: &[1, 1], ..Default::default() };
        ops::conv2d_with(x, &self.weight, options)
    }
}

/// Two convolutions and two linear layers over 8x8 grey images.
struct Net {
    conv1: Conv,
    conv2: Conv,
    hidden: Linear,
    output: Linear,
}

impl Net {
    fn new() -> Result<Self> {
        Ok(Self { conv1: Conv::new(1, 32)?, conv2: Conv::new(32, 64)?, hidden: Linear::new(64 * 4 * 4, 128)?, output: Linear::new(128, 10)? })
    }
    fn forward(&self, x: &Tensor, training: bool) -> Result<Tensor> {
        let x = self.conv1.forward(x)?.relu()?;
        let x = ops::max_pool2d(&self.conv2.forward(&x)?.relu()?, &[2, 2])?;
        let x = self.hidden.forward(&x.reshape(&[-1, 64 * 4 * 4])?)?.relu()?;
        self.output.forward(&ops::dropout(&x, 0.25, training)?)
    }
    fn parameters(&self) -> Vec<Tensor> {
        let layers = [
            (&self.conv1.weight, &self.conv1.bias),
            (&self.conv2.weight, &self.conv2.bias),
            (&self.hidden.weight, &self.hidden.bias),
            (&self.output.weight, &self.output.bias),
        ];
        layers.iter().flat_map(|(weight, bias)| [(*weight).clone(), (*bias).clone()]).collect()
    }
}

struct Adam {
    parameters: Vec<Tensor>,
    means: Vec<Tensor>,
    squares: Vec<Tensor>,
    step: i32,
}

impl Adam {
    const RATE: f64 = 1e-3;
    const BETAS: (f64, f64) = (0.9, 0.999);

    fn new(parameters: Vec<Tensor>) -> Result<Self> {
        let zeros = || parameters.iter().map(ops::zeros_like).collect::<Result<Vec<_>>>();
        Ok(Self { means: zeros()?, squares: zeros()?, parameters, step: 0 })
    }
    fn zero_grad(&self) -> Result<()> {
        self.parameters.iter().try_for_each(|p| p.set_grad(None))
    }
    fn step(&mut self) -> Result<()> {
        self.step += 1;
        let (b1, b2) = Self::BETAS;
        let size = Self::RATE / (1.0 - b1.powi(self.step));
        let scale = (1.0 - b2.powi(self.step)).sqrt();
        no_grad(|| {
            for ((p, mean), square) in self.parameters.iter().zip(&self.means).zip(&self.squares) {
                let grad = match p.grad() {
                    Some(grad) => grad,
                    None => continue,
                };
                mean.lerp_(&grad, 1.0 - b1)?;
                square.mul_(b2)?;
                square.add_(&grad * &grad * (1.0 - b2))?;
                p.sub_(mean * size / (square.sqrt()? / scale + 1e-8))?;
            }
            Ok(())
        })
    }
}

/// Images (N, 1, 8, 8) with values from 0 to 1, and their digits.
fn load(path: &str) -> Result<(Tensor, Tensor)> {
    let unpacked = Command::new("gzip").args(["-dc", path]).output().expect("gzip, to unpack the digits");
    assert!(unpacked.status.success(), "{}", String::from_utf8_lossy(&unpacked.stderr));
    let text = String::from_utf8_lossy(&unpacked.stdout).into_owned();
    let (mut pixels, mut digits) = (Vec::new(), Vec::new());
    for line in text.lines() {
        let numbers: Vec<f32> = line.split(',').map(|n| n.trim().parse().expect("a number")).collect();
        pixels.extend(numbers[..64].iter().map(|n| n / 16.0));
        digits.push(numbers[64] as i64);
    }
    let count = digits.len() as i64;
    Ok((Tensor::from_vec(pixels, &[count, 1, 8, 8])?, Tensor::from_vec(digits, &[count])?))
}

fn accuracy(net: &Net, images: &Tensor, digits: &Tensor) -> Result<f64> {
    no_grad(|| {
        let predicted = net.forward(images, false)?.argmax_with(ArgmaxOptions { dim: Some(1), ..Default::default() })?;
        predicted.eq(digits)?.to_dtype(facula::DType::Float32)?.mean()?.item()
    })
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let epochs: usize = arguments.next().map_or(15, |n| n.parse().expect("a number of epochs"));
    let data = arguments.next().unwrap_or_else(|| concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/data/digits.csv.gz").into());
    manual_seed(0)?;
    let (images, digits) = load(&data)?;
    let order = ops::randperm(digits.numel() as i64)?;
    let parts = order.split_with_sizes(&[1437, 360])?;
    let of = |t: &Tensor, rows: &Tensor| t.index_select(0, rows);
    let (test_images, test_digits) = (of(&images, &parts[1])?, of(&digits, &parts[1])?);
    let net = Net::new()?;
    let mut optimizer = Adam::new(net.parameters())?;
    let started = Instant::now();
    for epoch in 1..=epochs {
        let shuffled = of(&parts[0], &ops::randperm(1437)?)?;
        let (mut sum, mut steps) = (0.0, 0);
        for batch in shuffled.split_tensor(32)? {
            optimizer.zero_grad()?;
            let loss = ops::cross_entropy_loss(&net.forward(&of(&images, &batch)?, true)?, &of(&digits, &batch)?)?;
            loss.backward()?;
            optimizer.step()?;
            sum += loss.item()?;
            steps += 1;
        }
        let right = 100.0 * accuracy(&net, &test_images, &test_digits)?;
        println!("epoch {epoch:2}  loss {:.4}  test accuracy {right:.2}%", sum / steps as f64);
    }
    println!("{:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}
