//! Lists the guest's Python files, so that a new one needs no line anywhere else.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed=python/coracle_guest");
    let folder = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join("python/coracle_guest");
    let mut names: Vec<_> = fs::read_dir(&folder)?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| Path::new(name).extension().is_some_and(|ending| ending == "py"))
        .collect();
    names.sort();
    let mut hasher = DefaultHasher::new();
    let mut code = String::from("/// The Python package `coracle_guest`: names and contents.\npub const FILES: &[(&str, &str)] = &[\n");
    for name in names {
        (&name, fs::read(folder.join(&name))?).hash(&mut hasher);
        let source = format!(r#"concat!(env!("CARGO_MANIFEST_DIR"), "/python/coracle_guest/{name}")"#);
        writeln!(code, "    ({name:?}, include_str!({source})),").map_err(io::Error::other)?;
    }
    writeln!(code, "];\n\n/// Changes when any of the files does.\npub const DIGEST: u64 = {:#x};", hasher.finish())
        .map_err(io::Error::other)?;
    fs::write(Path::new(&env::var("OUT_DIR").map_err(io::Error::other)?).join("files.rs"), code)
}
