//! `cargo xtask test`: everything that must pass before a change is merged.

use anyhow::Result;

use super::check;
use crate::metadata::{Metadata, Resolve, cargo, repository};
use crate::steps::Steps;
use crate::test_servers::{self, FOLDER};
use crate::{needs, readme, test_environment};

/// `cargo xtask needs`: installs what the tests need.
pub(super) fn needs(steps: &mut Steps) -> Result<()> {
    steps.step("needs", "programs that the tests need", needs::install)?;
    steps.step("servers", "third-party MCP servers and packages for the tests", test_servers::install)
}

pub(super) fn run(steps: &mut Steps) -> Result<()> {
    needs(steps)?;
    check::format(steps)?;
    check::clippy(steps)?;
    // Builds all targets together, so that binaries and tests share one feature resolution and nothing is built twice.
    steps.command("build", cargo().args(["build", "--workspace", "--all-targets", "--locked"]))?;
    let mut tests = cargo();
    tests.args(["test", "--workspace", "--locked", "--no-fail-fast"]).env(FOLDER, test_servers::folder()?);
    let home = repository().join("target");
    steps.step("test", "cargo test --workspace", || test_environment::run(&tests, &home))?;
    steps.step("readme", "the examples in README.md", || {
        let target = Metadata::load(Resolve::Members)?.target_directory;
        readme::run_examples(&repository(), &target.join("debug"), &target.join("readme"))
    })?;
    check::docs(steps)
}
