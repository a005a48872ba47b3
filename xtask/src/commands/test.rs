//! `cargo xtask test`: everything that must pass before a change is merged.

use std::process::Command;

use anyhow::{Result, bail};

use super::check;
use crate::metadata::{Metadata, Resolve, cargo, repository};
use crate::skipped::{self, Skipped};
use crate::steps::Steps;
use crate::test_servers::{self, FOLDER};
use crate::test_times::TestTimes;
use crate::{documents, needs, test_environment};

/// `cargo xtask needs`: installs what the tests need.
pub(super) fn needs(steps: &mut Steps) -> Result<()> {
    let mut missing = Vec::new();
    let installed = steps.step("needs", "programs that the tests need", || needs::install(&mut missing));
    steps.skipped(missing);
    installed?;
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
    run_tests(steps, "test", "cargo test --workspace", &mut tests)?;
    examples(steps, &[])?;
    check::docs(steps)
}

/// Runs tests, and adds the slowest ones and what they skip to the summary.
pub(super) fn run_tests(steps: &mut Steps, name: &'static str, subject: &str, tests: &mut Command) -> Result<()> {
    let skipped = Skipped::new()?;
    tests.env(skipped::VARIABLE, skipped.path());
    let home = repository().join("target");
    let mut times = TestTimes::default();
    let result = steps.step(name, subject, || test_environment::run(tests, &home, &mut times));
    steps.detail(&times.summary());
    steps.skipped(skipped.lines()?);
    result
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
