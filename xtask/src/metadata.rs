//! What `cargo metadata` knows about the workspace, and how `cargo` is called.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail};
use serde::Deserialize;

/// How far `cargo metadata` looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolve {
    /// The members of the workspace only; needs nothing that is not in the repository.
    Members,
    /// Every dependency of every platform and feature.
    Everything,
}

/// The part of `cargo metadata` that the checks read.
#[derive(Clone, Debug, Deserialize)]
pub struct Metadata {
    /// Members of the workspace and, with [`Resolve::Everything`], all their dependencies.
    pub packages: Vec<Package>,
    /// Ids of the packages that are ours.
    pub workspace_members: Vec<String>,
    /// Where cargo puts what it builds.
    pub target_directory: PathBuf,
}

/// One package.
#[derive(Clone, Debug, Deserialize)]
pub struct Package {
    /// Cargo's own id, as found in [`Metadata::workspace_members`].
    pub id: String,
    /// The name in the manifest.
    pub name: String,
    /// The version in the manifest.
    pub version: String,
    /// The SPDX expression, if the manifest has one.
    pub license: Option<String>,
    /// The direct dependencies, of every kind.
    pub dependencies: Vec<Dependency>,
}

/// One line under `[dependencies]` or its siblings.
#[derive(Clone, Debug, Deserialize)]
pub struct Dependency {
    /// The package's real name, also where the manifest renames it.
    pub name: String,
    /// `None` is an ordinary dependency: that is how cargo writes it.
    pub kind: Option<DependencyKind>,
}

/// The kinds that cargo tells apart from ordinary dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DependencyKind {
    /// Used by tests only.
    Dev,
    /// Used by a build script.
    Build,
}

impl Metadata {
    /// Asks cargo about the workspace.
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

    /// The packages of this repository.
    pub fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.iter().filter(|package| self.is_member(package))
    }

    /// Whether `package` is of this repository.
    pub fn is_member(&self, package: &Package) -> bool {
        self.workspace_members.contains(&package.id)
    }
}

/// The root of the repository.
pub fn repository() -> PathBuf {
    // The variable at run time comes first: a target folder may be shared by several checkouts.
    let own = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| OsString::from(env!("CARGO_MANIFEST_DIR")));
    let own = PathBuf::from(own);
    own.parent().map_or_else(|| own.clone(), Path::to_path_buf)
}

/// The cargo that runs us, in the root of the repository.
pub(crate) fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(repository());
    command
}
