//! What a test skips is written to the file of `cargo xtask test`, and is a failure if `CI` is set.

#![expect(clippy::unwrap_used, reason = "a test that cannot continue should panic")]

use coracle_testing::skip::{SKIPPED, skip, unsupported};
use std::path::Path;
use std::process::{Command, Output};

#[test]
#[ignore = "started by the other tests"]
fn something_is_skipped() {
    skip("no\tsuch\nprogram");
}

#[test]
#[ignore = "started by the other tests"]
fn something_is_unsupported() {
    unsupported("no such kernel");
}

/// Runs one of the tests above in a process of its own, because the variables are those of a process.
fn run(test: &str, ci: Option<&str>, file: &Path) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--ignored", "--nocapture", "--test-threads=2"]);
    command.env_remove("CI").env(SKIPPED, file).envs(ci.map(|value| ("CI", value)));
    command.output().unwrap()
}

fn file() -> tempfile::NamedTempFile {
    tempfile::NamedTempFile::new().unwrap()
}

#[test]
fn a_skipped_part_is_reported() {
    let file = file();
    for ci in [None, Some("")] {
        let output = run("something_is_skipped", ci, file.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && said.contains("skipped: no\tsuch\nprogram"), "{output:?}");
    }
    let line = "no such program\tsomething_is_skipped\n";
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), line.repeat(2));
}

#[test]
fn a_skipped_part_is_a_failure_in_ci() {
    let file = file();
    for ci in ["true", "1"] {
        let output = run("something_is_skipped", Some(ci), file.path());
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains("with CI set, nothing may be skipped"), "{output:?}");
    }
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "");
    // Control: what no machine could install is reported there too.
    assert!(run("something_is_unsupported", Some("true"), file.path()).status.success());
    assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "no such kernel\tsomething_is_unsupported\n");
}

#[test]
fn without_the_file_a_skipped_part_is_only_printed() {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "something_is_skipped", "--ignored", "--nocapture"])
        .env_remove("CI")
        .env_remove(SKIPPED)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    // Control: a file that cannot be written is an error.
    assert!(!run("something_is_skipped", None, Path::new("/nonexistent/file")).status.success());
}
