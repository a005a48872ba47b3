//! Packages of one release binary: tarball, wheel, npm packages, Debian package and container image.
//!
//! Start reading at `make`. Each package has a module that turns a [`Contents`] into the bytes of a file; `archive.rs`
//! holds what their formats share, `binary.rs` reads from the program what it needs at run time, and `verify.rs`
//! installs every package into an empty environment and runs a program through it.
//!
//! **Invariant:** the same binary and the same time stamp give the same bytes. The container image also depends on the
//! Debian packages of its root file system.

mod archive;
mod binary;
mod build;
mod checksums;
mod contents;
mod deb;
mod image;
mod npm;
mod rootfs;
mod tarball;
mod verify;
mod wheel;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

pub(crate) use archive::Effort;
pub(crate) use binary::Glibc;
pub(crate) use build::release_binary;
pub(crate) use contents::Contents;

/// The newest version of glibc whose symbols a released binary may use: that of Debian 11 and Ubuntu 20.04.
pub(crate) const NEWEST_GLIBC: Glibc = Glibc { major: 2, minor: 31 };

/// The kinds of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Tarball,
    Wheel,
    Npm,
    Deb,
    Image,
}

impl Kind {
    pub(crate) const ALL: [Self; 5] = [Self::Tarball, Self::Wheel, Self::Npm, Self::Deb, Self::Image];

    /// The name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tarball => "tarball",
            Self::Wheel => "wheel",
            Self::Npm => "npm",
            Self::Deb => "deb",
            Self::Image => "image",
        }
    }
}

/// Makes packages in the folder `out` and returns their paths.
pub(crate) fn make(kind: Kind, contents: &Contents, effort: Effort, out: &Path) -> Result<Vec<PathBuf>> {
    fs::create_dir_all(out).with_context(|| format!("cannot create {}", out.display()))?;
    let files = match kind {
        Kind::Tarball => vec![tarball::make(contents, effort)?],
        Kind::Wheel => vec![wheel::make(contents, effort)?],
        Kind::Npm => npm::make(contents, effort)?,
        Kind::Deb => vec![deb::make(contents, effort)?],
        Kind::Image => return Ok(vec![image::make(contents, effort, out)?]),
    };
    let mut paths = Vec::new();
    for (name, bytes) in files {
        let path = out.join(name);
        fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
        paths.push(path);
    }
    Ok(paths)
}

/// Writes the checksums of `packages` into the folder that they are in.
pub(crate) fn write_checksums(packages: &[PathBuf], out: &Path) -> Result<PathBuf> {
    checksums::write(packages, out)
}

/// Installs packages of one kind into an empty environment and runs a program through them.
pub(crate) fn verify(kind: Kind, packages: &[PathBuf], contents: &Contents) -> Result<()> {
    verify::verify(kind, packages, contents)
}

/// Refuses a binary that older distributions cannot start.
pub(crate) fn check_glibc(needed: Glibc) -> Result<()> {
    if needed > NEWEST_GLIBC {
        bail!(
            "the binary needs symbols of glibc {needed}, and packages may need at most {NEWEST_GLIBC}\n  hint: leave \
             out --binary to build one with zig, or add --allow-newer-glibc to make packages for this machine"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_binary_that_needs_a_newer_glibc_is_refused() {
        check_glibc(Glibc { major: 2, minor: 31 }).unwrap();
        check_glibc(Glibc { major: 2, minor: 4 }).unwrap();
        let error = check_glibc(Glibc { major: 2, minor: 32 }).unwrap_err();
        assert!(error.to_string().starts_with("the binary needs symbols of glibc 2.32, and"), "{error}");
    }
}
