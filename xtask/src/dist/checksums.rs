//! `SHA256SUMS`, as `sha256sum --check` reads it.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use sha2::{Digest as _, Sha256};

pub(super) fn write(packages: &[PathBuf], out: &Path) -> Result<PathBuf> {
    let mut lines = Vec::new();
    for package in packages {
        let bytes = fs::read(package).with_context(|| format!("cannot read {}", package.display()))?;
        let name = package.file_name().unwrap_or_default().to_string_lossy();
        lines.push(format!("{}  {name}\n", sha256(&bytes)));
    }
    // Sorted by name, so that two lists can be compared.
    lines.sort_by(|one, other| one[64..].cmp(&other[64..]));
    let path = out.join("SHA256SUMS");
    fs::write(&path, lines.concat()).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// The digest in hexadecimal digits.
pub(super) fn sha256(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
