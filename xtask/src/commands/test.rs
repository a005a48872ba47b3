//! `cargo xtask test`: all that has to pass before a change is merged.

use anyhow::{Result, bail};

use super::check;
use crate::metadata::{Metadata, Resolve, cargo, repository};
use crate::steps::Steps;
use crate::test_servers::{self, FOLDER};
use crate::{documents, needs, surroundings};

/// `cargo xtask needs`: what the tests need, in place.
pub(super) fn needs(steps: &mut Steps) -> Result<()> {
    steps.step("needs", "what the tests need on this machine", needs::install)?;
    steps.step("servers", "MCP servers and packages of other people that the tests use", test_servers::install)
}

pub(super) fn run(steps: &mut Steps) -> Result<()> {
    needs(steps)?;
    check::format(steps)?;
    check::clippy(steps)?;
    // All targets at once, so that binaries and tests share one resolution of features and nothing is built twice.
    steps.command("build", cargo().args(["build", "--workspace", "--all-targets", "--locked"]))?;
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--locked", "--no-fail-fast"]).env(FOLDER, test_servers::folder()?);
    let home = repository().join("target");
    steps.step("test", "cargo test --workspace", || surroundings::run(&tests, &home))?;
    examples(steps, &[])?;
    check::docs(steps)
}

/// `cargo xtask examples`: the commands in the documents, run with the `coracle` in a folder or with the debug build.
pub(super) fn examples(steps: &mut Steps, arguments: &[String]) -> Result<()> {
    let binaries = match arguments {
        [] => None,
        [folder] => Some(std::path::absolute(folder)?),
        [_, more, ..] => bail!(super::unexpected(more)),
    };
    steps.step("examples", "the commands in README.md and docs", || {
        let target = Metadata::load(Resolve::Members)?.target_directory;
        let binaries = binaries.unwrap_or_else(|| target.join("debug"));
        documents::run_examples(&repository(), &binaries, &test_servers::folder()?, &target.join("documents"))
    })
}
