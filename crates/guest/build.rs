//! Lists the guest's Python files, so that a new file need not be registered anywhere.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::process::Command;
use std::{env, fs, io};

/// The source of the library that the zygote loads, and its folder.
const LIBRARY: &str = "native/confine.rs";
const LIBRARY_FOLDER: &str = "native";

/// The packages for sandboxes, below `python`.
const PACKAGES: [&str; 2] = ["coracle", "coracle_guest"];

fn main() -> io::Result<()> {
    println!("cargo::rerun-if-changed={LIBRARY_FOLDER}");
    let python = Path::new(&env::var("CARGO_MANIFEST_DIR").map_err(io::Error::other)?).join("python");
    let mut hasher = DefaultHasher::new();
    let mut code = String::from(
        "/// The Python packages of the guest: paths such as `coracle/media.py`, and contents.\n\
         pub const FILES: &[(&str, &str)] = &[\n",
    );
    for package in PACKAGES {
        println!("cargo::rerun-if-changed=python/{package}");
        let mut names: Vec<_> = fs::read_dir(python.join(package))?
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| Path::new(name).extension().is_some_and(|ending| ending == "py" || ending == "pyi"))
            .collect();
        names.sort();
        for name in names {
            let path = format!("{package}/{name}");
            (&path, fs::read(python.join(&path))?).hash(&mut hasher);
            let source = format!(r#"concat!(env!("CARGO_MANIFEST_DIR"), "/python/{path}")"#);
            writeln!(code, "    ({path:?}, include_str!({source})),").map_err(io::Error::other)?;
        }
    }
    let mut sources: Vec<_> = fs::read_dir(LIBRARY_FOLDER)?.filter_map(|entry| Some(entry.ok()?.path())).collect();
    sources.sort();
    for source in sources {
        fs::read(source)?.hash(&mut hasher);
    }
    writeln!(
        code,
        "];\n\n/// Changes when any of the files does.\npub const DIGEST: &str = \"{:016x}\";",
        hasher.finish()
    )
    .map_err(io::Error::other)?;
    compile_library()?;
    fs::write(Path::new(&env::var("OUT_DIR").map_err(io::Error::other)?).join("files.rs"), code)
}

/// Compiles the library without dependencies: any Python that the sandboxes run can load it, under any libc.
fn compile_library() -> io::Result<()> {
    let variable = |name: &str| env::var(name).map_err(|error| io::Error::other(format!("{name}: {error}")));
    let mut compiler = Command::new(variable("RUSTC")?);
    compiler.args(["--edition=2024", "--crate-type=cdylib", "--crate-name=confine", "-Cpanic=abort", "-Copt-level=2"]);
    compiler.args([
        "-Cstrip=symbols",
        "-Clink-arg=-nostdlib",
        "-Clink-arg=-nostartfiles",
        "--target",
        &variable("TARGET")?,
    ]);
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        compiler.arg(format!("-Clinker={linker}"));
    }
    let output = Path::new(&variable("OUT_DIR")?).join("confine.so");
    let status = compiler.arg("-o").arg(output).arg(LIBRARY).status()?;
    if status.success() { Ok(()) } else { Err(io::Error::other(format!("{LIBRARY} does not compile: {status}"))) }
}
