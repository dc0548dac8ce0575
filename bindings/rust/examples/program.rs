//! Runs an exported program: no Python, and the model's code is not needed.
//!
//!     cargo run --example program -- model.pt2 "2,3" 1 2 3 4 5 6
//!
//! with the sizes of the input and its elements.

use facula::{Program, Result, Tensor};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (path, sizes, elements) = match &arguments[..] {
        [path, sizes, elements @ ..] => (path, sizes, elements),
        _ => panic!("expected a file, sizes and elements"),
    };
    let sizes: Vec<i64> = sizes.split(',').map(|n| n.parse().expect("a size")).collect();
    let elements: Vec<f32> = elements.iter().map(|n| n.parse().expect("an element")).collect();
    let program = Program::load(path)?;
    for (name, tensor) in program.tensors()? {
        println!("{name} {:?} {}", tensor.sizes(), if tensor.requires_grad() { "trained" } else { "" });
    }
    for result in program.run(&[&Tensor::from_slice(&elements, &sizes)?])? {
        println!("{result}");
    }
    Ok(())
}
