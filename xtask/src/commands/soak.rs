//! `cargo xtask soak`: the tests in their full length.
//!
//! `CORACLE_SOAK=1` makes a test that has a short seeded version run long; tests that exist only in the long form are
//! `#[ignore]`d, and their names begin with `soak_`.

use anyhow::Result;

use crate::metadata::{cargo, repository};
use crate::steps::Steps;
use crate::test_environment;
use crate::test_servers::{self, FOLDER};

pub(super) fn run(steps: &mut Steps, filters: &[String]) -> Result<()> {
    // Without doc tests: `--include-ignored` would also compile the examples that are marked as not to be compiled.
    let tests = ["test", "--workspace", "--locked", "--no-fail-fast", "--lib", "--bins", "--tests"];
    super::test::needs(steps)?;
    steps.command("build", cargo().args(tests).arg("--no-run"))?;
    // One test at a time: each puts the whole machine under load and should meet only its own.
    let mut soak = cargo();
    soak.args(tests)
        .args(["--", "--include-ignored", "--nocapture", "--test-threads=1"])
        .args(filters)
        .env("CORACLE_SOAK", "1")
        .env(FOLDER, test_servers::folder()?);
    let home = repository().join("target");
    steps.step("soak", "cargo test --workspace -- --include-ignored", || test_environment::run(&soak, &home))
}
