//! Output of `cargo metadata`, and how `cargo` is called.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

/// Scope of `cargo metadata`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolve {
    /// Members of the workspace only; requires nothing outside the repository.
    Members,
    /// All dependencies for every platform and feature.
    Everything,
}

/// Fields of `cargo metadata` that the checks use.
#[derive(Clone, Debug, Deserialize)]
pub struct Metadata {
    /// Members of the workspace and, with [`Resolve::Everything`], all their dependencies.
    pub packages: Vec<Package>,
    /// IDs of the packages of this repository.
    pub workspace_members: Vec<String>,
    /// Target folder of cargo.
    pub target_directory: PathBuf,
}

/// A package.
#[derive(Clone, Debug, Deserialize)]
pub struct Package {
    /// Package ID, as in [`Metadata::workspace_members`].
    pub id: String,
    /// Name in the manifest.
    pub name: String,
    /// Version in the manifest.
    pub version: String,
    /// SPDX expression, if the manifest has one.
    pub license: Option<String>,
    /// Direct dependencies of every kind.
    pub dependencies: Vec<Dependency>,
}

/// A dependency in the manifest.
#[derive(Clone, Debug, Deserialize)]
pub struct Dependency {
    /// Real name of the package, even if the manifest renames it.
    pub name: String,
    /// Kind of the dependency; `None` is an ordinary one.
    pub kind: Option<DependencyKind>,
}

/// Kinds of dependencies besides ordinary ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DependencyKind {
    /// Used by tests only.
    Dev,
    /// Used by a build script.
    Build,
}

impl Metadata {
    /// Runs `cargo metadata`.
    pub fn load(resolve: Resolve) -> Result<Self> {
        let mut command = cargo();
        command.args(["metadata", "--format-version", "1", "--locked"]);
        command.arg(match resolve {
            Resolve::Members => "--no-deps",
            Resolve::Everything => "--all-features",
        });
        let output = command.stderr(Stdio::inherit()).output().context("cannot start `cargo metadata`")?;
        if !output.status.success() {
            bail!("`cargo metadata` failed: {}", output.status);
        }
        serde_json::from_slice(&output.stdout).context("cannot read what `cargo metadata` printed")
    }

    /// Packages of this repository.
    pub fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.is_member(package))
    }

    /// Whether a package belongs to this repository.
    pub fn is_member(&self, package: &Package) -> bool {
        self.workspace_members.contains(&package.id)
    }
}

/// Root of the repository.
pub fn repository() -> PathBuf {
    // The variable at run time takes precedence, because several checkouts may share a target folder.
    let own = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| OsString::from(env!("CARGO_MANIFEST_DIR")));
    let own = PathBuf::from(own);
    own.parent().map_or_else(|| own.clone(), Path::to_path_buf)
}

/// The cargo that runs xtask, in the root of the repository.
pub(crate) fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(repository());
    command
}
