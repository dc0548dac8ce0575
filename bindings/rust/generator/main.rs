//! Finds the library and writes a function for every op of its schema.json.
//!
//! `FACULA_DIR` names the folder of the installed package (`python3 -c "import facula; print(facula.__path__[0])"`) or a
//! build folder; without it the package of the `python3` on the path is taken.

mod generate;
mod json;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

const FIND: &str = "import importlib.util as u; s = u.find_spec('facula'); print(s.submodule_search_locations[0] if s else '')";

fn folder() -> PathBuf {
    if let Some(named) = env::var_os("FACULA_DIR") {
        return named.into();
    }
    let found = Command::new("python3").args(["-c", FIND]).output().ok().map(|o| String::from_utf8_lossy(&o.stdout).trim().to_string());
    match found {
        Some(path) if !path.is_empty() => path.into(),
        _ => panic!("where is Facula? Set FACULA_DIR to the folder of the installed package, or install it for python3 (pip install facula)"),
    }
}

fn schema_of(folder: &Path) -> PathBuf {
    // as it is installed, and as it is built
    let places = [folder.join("share/schema.json"), folder.join("gen/schema.json")];
    places.iter().find(|p| p.exists()).cloned().unwrap_or_else(|| panic!("there is no schema.json in {}", folder.display()))
}

fn main() {
    println!("cargo:rerun-if-env-changed=FACULA_DIR");
    println!("cargo:rerun-if-changed=generator");
    let folder = folder();
    let schema = schema_of(&folder);
    println!("cargo:rerun-if-changed={}", schema.display());
    let text = fs::read_to_string(&schema).unwrap_or_else(|e| panic!("{}: {e}", schema.display()));
    let read = json::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", schema.display()));
    let made = generate::functions(&read).unwrap_or_else(|e| panic!("{}: {e}", schema.display()));
    fs::write(Path::new(&env::var("OUT_DIR").unwrap()).join("ops.rs"), made).unwrap();
    let library = fs::canonicalize(folder.join("lib")).unwrap_or_else(|e| panic!("{}/lib: {e}", folder.display()));
    println!("cargo:rustc-link-search=native={}", library.display());
    println!("cargo:rustc-link-lib=dylib=facula");
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", library.display()); // of the examples and tests here
    println!("cargo:lib={}", library.display()); // DEP_FACULA_LIB of the build scripts of who depends on this
}
