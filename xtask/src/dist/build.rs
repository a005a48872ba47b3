//! A release binary for older distributions than the one that it is built on, with zig as the linker.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::NEWEST_GLIBC;
use super::contents::commit;
use crate::metadata::{Metadata, Resolve, cargo, repository};
use crate::steps::Steps;
use crate::test_servers::{ensure, make_venv};

/// The variable that tells the program which commit it is built from.
const COMMIT: &str = "CORACLE_BUILD_COMMIT";

const REQUIREMENTS: &str = "xtask/dist/requirements.txt";

/// Separates the flags in the variable that cargo reads them from.
const SEPARATOR: &str = "\u{1f}";

/// Builds the program and returns its path.
pub(crate) fn release_binary(steps: &mut Steps) -> Result<PathBuf> {
    let target = Metadata::load(Resolve::Members)?.target_directory;
    let tools = target.join("dist-tools");
    steps.step("tools", "zig and cargo-zigbuild", || {
        let requirements = repository().join(REQUIREMENTS);
        let pins = std::fs::read_to_string(&requirements).with_context(|| format!("cannot read {REQUIREMENTS}"))?;
        ensure("the tools for building", &pins, &tools, || make_venv(&requirements, &tools))
    })?;
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let cargo = cargo();
    let mut build = Command::new(tools.join("bin/cargo-zigbuild"));
    build
        .args(["zigbuild", "--release", "--locked", "--package", "coracle-cli", "--target"])
        .arg(format!("{triple}.{NEWEST_GLIBC}"))
        .current_dir(repository())
        .env("CARGO", cargo.get_program())
        .env("PATH", path_with(&tools.join("bin"))?)
        .env("CORACLE_PAGE", "require")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols")
        .env("CARGO_ENCODED_RUSTFLAGS", flags());
    if let Some(commit) = commit() {
        build.env(COMMIT, commit);
    }
    steps.command("build", &mut build)?;
    Ok(target.join(triple).join("release/coracle"))
}

/// Messages of a released program name its sources, but not the folders of the machine that it was built on.
fn flags() -> String {
    let sources =
        std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let folders = sources.map(|folder| (folder.join("registry/src"), "crates")).into_iter();
    let folders = folders.chain([(repository(), "coracle")]);
    let flags: Vec<String> =
        folders.map(|(folder, name)| format!("--remap-path-prefix={}={name}", folder.display())).collect();
    flags.join(SEPARATOR)
}

fn path_with(first: &std::path::Path) -> Result<std::ffi::OsString> {
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(first.to_owned()).chain(std::env::split_paths(&rest));
    std::env::join_paths(folders).context("the target folder has a colon in its path, which PATH cannot have")
}
