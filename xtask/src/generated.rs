//! Generated files that are checked in, and whether they are up to date.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail};

use crate::metadata::{cargo, repository};

/// File with the output of a cargo command.
struct Generated {
    /// Path relative to the root of the repository.
    path: &'static str,
    /// Arguments of `cargo`.
    arguments: &'static [&'static str],
}

/// All generated files. `cargo xtask generate` writes them.
const GENERATED: &[Generated] = &[];

/// Returns one sentence for each file that is out of date.
pub(crate) fn violations() -> Result<Vec<String>> {
    let mut violations = Vec::new();
    for generated in GENERATED {
        let expected = print(generated)?;
        violations.extend(violation(&repository(), generated.path, &expected)?);
    }
    Ok(violations)
}

/// Writes every generated file.
pub(crate) fn write_all() -> Result<()> {
    for generated in GENERATED {
        let path = repository().join(generated.path);
        fs::write(&path, print(generated)?).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn print(generated: &Generated) -> Result<String> {
    let output = cargo()
        .args(generated.arguments)
        .stderr(std::process::Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start the generator of {}", generated.path))?;
    if !output.status.success() {
        bail!("the generator of {} failed: {}", generated.path, output.status);
    }
    String::from_utf8(output.stdout).with_context(|| format!("{} would not be UTF-8", generated.path))
}

fn violation(root: &Path, path: &str, expected: &str) -> Result<Option<String>> {
    let found = match fs::read_to_string(root.join(path)) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(error).with_context(|| format!("cannot read {path}")),
    };
    Ok((found.as_deref() != Some(expected)).then(|| format!("{path} is out of date: run `cargo xtask generate`")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outdated_files_are_named() {
        let root = repository();
        let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
        assert_eq!(violation(&root, "Cargo.toml", &manifest).unwrap(), None);
        for (path, expected) in [("Cargo.toml", "something else"), ("no-such-file", "")] {
            assert_eq!(
                violation(&root, path, expected).unwrap(),
                Some(format!("{path} is out of date: run `cargo xtask generate`"))
            );
        }
    }
}
