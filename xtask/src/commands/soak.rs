//! `cargo xtask soak`: long test runs.
//!
//! `CORACLE_SOAK=1` makes tests with a short version run longer. Tests that exist only in a long version are
//! `#[ignore]`d, and their names start with `soak_`.

use anyhow::Result;

use crate::metadata::{cargo, repository};
use crate::steps::Steps;
use crate::test_environment;
use crate::test_servers::{self, FOLDER};
use crate::test_times::TestTimes;

pub(super) fn run(steps: &mut Steps, filters: &[String]) -> Result<()> {
    // Doc tests are excluded, because `--include-ignored` would also compile examples that must not be compiled.
    let tests = ["test", "--workspace", "--locked", "--no-fail-fast", "--lib", "--bins", "--tests"];
    super::test::needs(steps)?;
    steps.command("build", cargo().args(tests).arg("--no-run"))?;
    // One test at a time, because each one uses the whole machine.
    let mut soak = cargo();
    soak.args(tests)
        .args(["--", "--include-ignored", "--nocapture", "--test-threads=1"])
        .args(filters)
        .env("CORACLE_SOAK", "1")
        .env(FOLDER, test_servers::folder()?);
    let home = repository().join("target");
    let mut times = TestTimes::default();
    let subject = "cargo test --workspace -- --include-ignored";
    let tested = steps.step("soak", subject, || test_environment::run(&soak, &home, &mut times));
    steps.detail(&times.summary());
    tested
}
