//! Parts of tests that cannot run on this machine.

use std::fs::OpenOptions;
use std::io::Write as _;

/// Variable with the file in which `cargo xtask test` collects what was skipped.
pub const SKIPPED: &str = "CORACLE_TEST_SKIPPED";

/// Reports a part of the calling test that cannot run here, with the reason. Panics if `CI` is set, where nothing may
/// be skipped.
#[track_caller]
pub fn skip(reason: &str) {
    let is_ci = std::env::var_os("CI").is_some_and(|value| !value.is_empty());
    assert!(!is_ci, "with CI set, nothing may be skipped: {reason}");
    report(reason);
}

/// Reports a part that the kernel of this machine does not support. It does not fail if `CI` is set: unlike a
/// missing program, kernel support cannot be installed.
pub fn unsupported(reason: &str) {
    report(reason);
}

fn report(reason: &str) {
    eprintln!("skipped: {reason}");
    let Some(path) = std::env::var_os(SKIPPED) else { return };
    // The test harness names threads after their tests.
    let thread = std::thread::current();
    let line = format!("{}\t{}\n", reason.replace(['\n', '\t'], " "), thread.name().unwrap_or("unnamed"));
    // One write, because other tests append to the same file.
    let written = OpenOptions::new().append(true).open(&path).and_then(|mut file| file.write_all(line.as_bytes()));
    assert!(written.is_ok(), "cannot write to {}: {written:?}", path.display());
}
